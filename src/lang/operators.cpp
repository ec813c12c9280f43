// Operators of expressions: on values known at elaboration, and on computed ones.
#include <algorithm>
#include <array>
#include <cmath>

#include "lang/elaborator.h"

namespace opwright::lang {

using math::ExprId;
using math::Fn;
using math::Sym;
using Kind = Value::Kind;

namespace {
bool is_arithmetic(Fn f) { return (f >= Fn::Add && f <= Fn::Mod) || f == Fn::Neg || f == Fn::Min || f == Fn::Max; }
std::optional<bool> known(const Sym& s) {
    if (auto c = s.constant()) return *c != 0;
    return std::nullopt;
}
}  // namespace

bool is_comparison(Fn f) { return f >= Fn::Eq && f <= Fn::Ge; }

Result<Value> Elaborator::unary(const Expr& e, Want want) {
    OPW_TRY(Value v, eval(*e.args[0], want));
    if (e.fn == Fn::Neg && v.is(Kind::Literal)) {
        if (v.real) return Value::of_real(-v.number);
        if (v.integer == 0 && want && is_float(*want)) return Value::of_real(-0.0);
        return Value::of_integer(-v.integer);  // literals are not negative, so this cannot overflow
    }
    if (e.fn == Fn::Neg && v.is(Kind::Size)) {
        OPW_TRY(Sym s, checked_sym(e, -v.sym));
        return Value::of_size(s);
    }
    if (e.fn == Fn::Not && v.is(Kind::Condition)) return Value::of_condition(Sym(1) - v.sym);
    return apply(e, e.fn, {std::move(v)}, want);
}

Result<Value> Elaborator::binary(const Expr& e, Want want) {
    const Expr &l = *e.args[0], &r = *e.args[1];
    Want side = peek(l);
    if (!side) side = peek(r);
    if (!side && !is_comparison(e.fn)) side = want;
    OPW_TRY(Value a, eval(l, side));
    if ((e.fn == Fn::And || e.fn == Fn::Or) && a.is(Kind::Condition)) {
        if (auto c = known(a.sym)) {  // decided: the other side need not make sense
            if (*c == (e.fn == Fn::Or)) return a;
            OPW_TRY(Value b, eval(r, side));
            if (b.is(Kind::Condition)) return b;
            OPW_TRY(ExprId x, as_bool(r, b));
            return Value::of_expr(x, DType::Bool);
        }
    }
    OPW_TRY(Value b, eval(r, side));
    if (a.is_static() && b.is_static()) return static_binary(e, a, b);
    return apply(e, e.fn, {std::move(a), std::move(b)}, want);
}

Result<Value> Elaborator::static_binary(const Expr& e, const Value& a, const Value& b) {
    if (is_comparison(e.fn)) return compare_static(e, a, b);
    if (e.fn == Fn::And || e.fn == Fn::Or) {
        if (a.is(Kind::Condition) && b.is(Kind::Condition))
            return Value::of_condition(e.fn == Fn::And ? math::min(a.sym, b.sym) : math::max(a.sym, b.sym));
        const bool left = !a.is(Kind::Condition);
        return error(*e.args[left ? 0 : 1],
                     fmt::format("`{}` is {}, where a condition is needed.", source_of(*e.args[left ? 0 : 1]),
                                 (left ? a : b).kind_name()),
                     "Compare it with something.");
    }
    if (a.is(Kind::Literal) && b.is(Kind::Literal)) {
        if (a.real || b.real) {
            if (math::info(e.fn).int_only)
                return error(e, fmt::format("`{}` takes integers.", e.name),
                             "Write integers without a point or exponent.");
            return Value::of_real(math::apply(e.fn, std::array{a.number, b.number}));
        }
        int64_t x = a.integer, y = b.integer, r = 0;
        bool overflow = false;
        switch (e.fn) {
            case Fn::Add: overflow = __builtin_add_overflow(x, y, &r); break;
            case Fn::Sub: overflow = __builtin_sub_overflow(x, y, &r); break;
            case Fn::Mul: overflow = __builtin_mul_overflow(x, y, &r); break;
            case Fn::Div:
            case Fn::FloorDiv:
            case Fn::Mod:
                if (y == 0) return error(*e.args[1], "This divides by zero.", "Divide by something else.");
                if (y == -1) {
                    if (e.fn != Fn::Mod) overflow = __builtin_sub_overflow(int64_t{0}, x, &r);
                    break;
                }
                if (e.fn == Fn::Div && x % y != 0)
                    return error(e, fmt::format("`{}` divides two integers that do not divide evenly.", source_of(e)),
                                 "Write a point for a fraction, as in 1.0/2, or // to round down.");
                r = math::apply_int(e.fn == Fn::Mod ? Fn::Mod : Fn::FloorDiv, std::array{x, y}, DType::I64);
                break;
            case Fn::Pow: {
                if (y < 0) return Value::of_real(std::pow(a.number, b.number));
                r = 1;
                for (int64_t i = 0; i < y && !overflow && r != 0 && !(x == 1 || x == -1); ++i)
                    overflow = __builtin_mul_overflow(r, x, &r);
                if (x == 1 || x == -1) r = x == 1 || y % 2 == 0 ? 1 : -1;
                break;
            }
            default: r = math::apply_int(e.fn, std::array{x, y}, DType::I64); break;
        }
        if (overflow)
            return error(e, fmt::format("`{}` does not fit 64 bits.", source_of(e)), "Write floating-point numbers.");
        return Value::of_integer(r);
    }
    const auto x = a.as_sym(), y = b.as_sym();
    for (int i = 0; i < 2; ++i)
        if (const auto& s = i ? y : x)
            if (const auto in_range = checked_sym(*e.args[i], *s); !in_range.ok()) return in_range.error();
    if (!x || !y) {
        const bool mixed = (a.is(Kind::Size) && b.is(Kind::Literal)) || (b.is(Kind::Size) && a.is(Kind::Literal));
        if (mixed)
            return error(
                e,
                fmt::format("`{}` mixes an integer of extents or attributes with a floating-point number.",
                            source_of(e)),
                fmt::format("Convert the integer: cast({}, f32).", source_of(*e.args[a.is(Kind::Size) ? 0 : 1])));
        const size_t bad = x ? 1 : 0;
        const Value& v = bad ? b : a;
        return error(
            *e.args[bad], fmt::format("`{}` is {}, which has no `{}`.", source_of(*e.args[bad]), v.kind_name(), e.name),
            v.is(Kind::List) ? "Work on the elements: (a " + e.name + " b)... applies to each." : "Use numbers here.");
    }
    switch (e.fn) {
        case Fn::Add: {
            OPW_TRY(Sym s, checked_sym(e, *x + *y));
            return Value::of_size(s);
        }
        case Fn::Sub: {
            OPW_TRY(Sym s, checked_sym(e, *x - *y));
            return Value::of_size(s);
        }
        case Fn::Mul: {
            OPW_TRY(Sym s, checked_sym(e, *x * *y));
            return Value::of_size(s);
        }
        case Fn::Div:
        case Fn::FloorDiv:
        case Fn::Mod: {
            if (y->is(0))
                return error(*e.args[1], fmt::format("`{}` divides by zero.", source_of(e)),
                             e.args[1]->kind == ExprKind::Integer
                                 ? "Divide by something else."
                                 : fmt::format("`{}` is 0 here; require another value.", source_of(*e.args[1])));
            OPW_TRY(Sym s, checked_sym(e, e.fn == Fn::Mod ? math::mod(*x, *y) : math::floor_div(*x, *y)));
            return Value::of_size(s);
        }
        case Fn::Pow: {
            const auto n = y->constant();
            if (!n || *n < 0 || *n > 16)
                return error(e, "A power of extents needs a constant exponent from 0 to 16.", "Multiply instead.");
            Sym r = 1;
            for (int64_t i = 0; i < *n; ++i) {
                OPW_TRY(Sym next, checked_sym(e, r * *x));
                r = next;
            }
            return Value::of_size(r);
        }
        default: break;
    }
    if (auto i = x->constant(), j = y->constant(); i && j) {
        OPW_TRY(Sym s, checked_sym(e, math::apply_int(e.fn, std::array{*i, *j}, DType::I64)));
        return Value::of_size(s);
    }
    if (computing()) return apply(e, e.fn, {a, b}, DType::I64);
    return error(e, fmt::format("`{}` of extents is not known before run time.", e.name),
                 "Use + - * / // % min max on extents.");
}

Result<Value> Elaborator::compare_static(const Expr& e, const Value& a, const Value& b) {
    const bool equality = e.fn == Fn::Eq || e.fn == Fn::Ne;
    const auto equal_if = [&](bool same) { return Value::of_condition(same == (e.fn == Fn::Eq)); };
    if (a.kind == b.kind && equality) {
        if (a.is(Kind::Text)) return equal_if(a.text == b.text);
        if (a.is(Kind::Type)) return equal_if(a.type == b.type);
        if (a.is(Kind::None)) return equal_if(true);
        if (a.is(Kind::Condition)) {
            const Sym same = math::equal(a.sym, b.sym);
            return Value::of_condition(e.fn == Fn::Eq ? same : Sym(1) - same);
        }
        if (a.is(Kind::List)) {
            Sym all = 1;
            if (a.list->size() != b.list->size()) return equal_if(false);
            for (size_t i = 0; i < a.list->size(); ++i) {
                const Value &x = (*a.list)[i], &y = (*b.list)[i];
                if (const auto s = x.as_sym(), t = y.as_sym(); s && t)
                    all = math::min(all, math::equal(*s, *t));
                else if (x.is(Kind::Literal) && y.is(Kind::Literal))
                    all = math::min(all, Sym(x.number == y.number));
                else if (x.is(Kind::Text) && y.is(Kind::Text))
                    all = math::min(all, Sym(x.text == y.text));
                else
                    return error(e, fmt::format("`{}` compares lists of values that cannot be compared.", source_of(e)),
                                 "Compare element by element.");
            }
            return Value::of_condition(e.fn == Fn::Eq ? all : Sym(1) - all);
        }
    }
    if ((a.is(Kind::None) || b.is(Kind::None)) && equality) return equal_if(false);
    const auto x = a.as_sym(), y = b.as_sym();
    if (x && y) {
        switch (e.fn) {
            case Fn::Eq: return Value::of_condition(math::equal(*x, *y));
            case Fn::Ne: return Value::of_condition(Sym(1) - math::equal(*x, *y));
            case Fn::Lt: return Value::of_condition(math::less(*x, *y));
            case Fn::Le: return Value::of_condition(Sym(1) - math::less(*y, *x));
            case Fn::Gt: return Value::of_condition(math::less(*y, *x));
            default: return Value::of_condition(Sym(1) - math::less(*x, *y));
        }
    }
    const auto number = [](const Value& v) -> std::optional<double> {
        if (v.is(Kind::Literal)) return v.number;
        if (auto c = v.constant_integer()) return static_cast<double>(*c);
        return std::nullopt;
    };
    if (auto i = number(a), j = number(b); i && j)
        return Value::of_condition(math::apply(e.fn, std::array{*i, *j}) != 0);
    return error(e, fmt::format("`{}` compares {} with {}.", source_of(e), a.kind_name(), b.kind_name()),
                 "Compare values of one kind.");
}

Result<Value> Elaborator::apply(const Expr& e, Fn fn, std::vector<Value> args, Want want) {
    const auto place = [&](size_t i) -> const Expr& {
        return i < e.args.size() && e.args[i]->kind != ExprKind::Expand ? *e.args[i] : e;
    };
    const std::string shown = math::info(fn).op.empty() || e.kind == ExprKind::Call ? std::string(math::info(fn).name)
                                                                                    : std::string(math::info(fn).op);
    if (!computing()) {
        for (size_t i = 0; i < args.size(); ++i)
            if (args[i].is(Kind::List) || args[i].is(Kind::Text) || args[i].is(Kind::Type) || args[i].is(Kind::None))
                return error(
                    place(i),
                    fmt::format("`{}` is {}, which has no `{}`.", source_of(place(i)), args[i].kind_name(), shown),
                    "Use a number here.");
        return error(e, fmt::format("`{}` is not known before run time.", source_of(e)),
                     "Here only extents, attributes and numbers can stand.");
    }
    // The type is that of the first operand that has one; literals take it.
    Want type;
    size_t typed = 0;
    bool index = true;
    for (size_t i = 0; i < args.size(); ++i) {
        const Value& v = args[i];
        Want t;
        if (v.is(Kind::Computed)) t = v.type;
        if (v.is(Kind::Size)) t = DType::I64;
        if (v.is(Kind::Condition)) t = DType::Bool;
        index = index && ((v.is(Kind::Computed) && v.index) || v.is(Kind::Size) || (v.is(Kind::Literal) && !v.real));
        if (!t) continue;
        if (!type) {
            type = t;
            typed = i;
        } else if (*t != *type && !math::info(fn).bool_args) {
            const std::string a = source_of(place(typed)), b = source_of(place(i));
            const bool to_first = is_float(*type) || !is_float(*t);
            return error(e,
                         fmt::format("`{}` is {} and `{}` is {}, but both sides of `{}` must have one type.", a,
                                     opwright::name(*type), b, opwright::name(*t), shown),
                         to_first ? fmt::format("Convert one of them, as in cast({}, {}).", b, opwright::name(*type))
                                  : fmt::format("Convert one of them, as in cast({}, {}).", a, opwright::name(*t)));
        }
    }
    if (!type) type = want;
    if (type && *type == DType::Bool) {
        if (fn == Fn::BitAnd) fn = Fn::And;
        if (fn == Fn::BitOr) fn = Fn::Or;
        if (fn == Fn::BitXor) fn = Fn::Xor;
        if (fn == Fn::BitNot) fn = Fn::Not;
    }
    const math::FnInfo& f = math::info(fn);
    std::vector<ExprId> ids;
    for (size_t i = 0; i < args.size(); ++i) {
        OPW_TRY(Value v, computed(place(i), std::move(args[i]), type));
        const std::string text = source_of(place(i));
        if (f.bool_args && v.type != DType::Bool)
            return error(place(i),
                         fmt::format("`{}` takes bools, and `{}` is {}.", shown, text, opwright::name(v.type)),
                         fmt::format("Compare it, as in {} != 0.", text));
        if (f.float_only && !is_float(v.type))
            return error(
                place(i),
                fmt::format("`{}` takes floating-point numbers, and `{}` is {}.", shown, text, opwright::name(v.type)),
                fmt::format("Convert it, as in cast({}, f32), or restrict the type: where T in float.", text));
        if (f.int_only && !is_int(v.type))
            return error(place(i),
                         fmt::format("`{}` takes integers, and `{}` is {}.", shown, text, opwright::name(v.type)),
                         is_float(v.type) ? fmt::format("Convert it, as in cast({}, i32).", text)
                                          : "Use 'and', 'or', 'not' on bools.");
        if (!f.bool_args && v.type == DType::Bool && fn != Fn::Eq && fn != Fn::Ne)
            return error(place(i), fmt::format("`{}` takes numbers, and `{}` is bool.", shown, text),
                         fmt::format("Convert it, as in cast({}, i32), or use 'and', 'or', 'not'.", text));
        ids.push_back(widen(v));
    }
    if (fn == Fn::Div && index) fn = Fn::FloorDiv;
    const DType result = f.bool_result ? DType::Bool : *type;
    return Value::of_expr(p_.call(fn, std::move(ids)), result, index && is_arithmetic(fn));
}

Result<Value> Elaborator::membership(const Expr& e) {
    OPW_TRY(Value x, eval(*e.args[0], {}));
    if (const Expr& c = *e.args[1]; c.kind == ExprKind::Name && is_dtype_class(c.name) && !values_.count(c.name)) {
        if (x.is(Kind::Type)) return Value::of_condition(in_dtype_class(c.name, x.type));
        return error(
            *e.args[0],
            fmt::format("`{}` is {}, and `{}` is a class of dtypes.", source_of(*e.args[0]), x.kind_name(), c.name),
            "Ask about a dtype variable: T in float.");
    }
    OPW_TRY(Value list, eval(*e.args[1], {}));
    if (!list.is(Kind::List))
        return error(*e.args[1],
                     fmt::format("`{}` is {}, and `in` needs a list.", source_of(*e.args[1]), list.kind_name()),
                     "Write x in [a, b].");
    Sym any = 0;
    Expr equality = e;
    equality.fn = Fn::Eq;
    for (const Value& v : *list.list) {
        if (!x.is_static() || !v.is_static())
            return error(e, "`in` compares values known before run time.", "Use == and or for computed values.");
        OPW_TRY(Value same, compare_static(equality, x, v));
        any = math::max(any, same.sym);
    }
    return Value::of_condition(any);
}

}  // namespace opwright::lang
