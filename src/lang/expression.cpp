// Expressions: names, literals, operators, functions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lang/elaborator.h"
#include "lang/parser.h"

namespace opwright::lang {

using math::ExprId;
using math::Fn;
using math::Sym;
using Kind = Value::Kind;

namespace {

bool is_comparison(Fn f) { return f >= Fn::Eq && f <= Fn::Ge; }
bool is_arithmetic(Fn f) { return (f >= Fn::Add && f <= Fn::Mod) || f == Fn::Neg || f == Fn::Min || f == Fn::Max; }
bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }

std::optional<DType> dtype_word(const std::string& s) {
    const auto t = dtype_from_name(s);
    return t && opwright::name(*t) == s ? t : std::nullopt;
}

// Functions that the language calls by name; the infix operators have no such name, but for those listed.
std::optional<Fn> callable(const std::string& s) {
    const auto f = math::fn_from_name(s);
    if (!f || *f == Fn::Select) return std::nullopt;
    if (math::info(*f).op.empty() || *f == Fn::Neg || *f == Fn::Pow || *f == Fn::Xor) return f;
    return std::nullopt;
}

constexpr const char* kBuiltins[] = {"select", "clamp",    "cast",     "wrap",      "bitcast", "inside", "size",
                                     "rank",   "len",      "present",  "highest",   "lowest",  "top",    "bottom",
                                     "eps",    "is_float", "is_int",   "is_signed", "is_bool", "acc",    "before",
                                     "total",  "product",  "merge",    "permute",   "reverse", "take",   "drop",
                                     "range",  "fill",     "position", "and",       "or",      "add",    "mul"};

std::optional<bool> known(const Sym& s) {
    if (auto c = s.constant()) return *c != 0;
    return std::nullopt;
}
}  // namespace

Status Elaborator::step(const Expr& e) {
    if (++s_.steps <= kMaxSteps) return ok_status();
    return error(
        e, fmt::format("The elaboration of `{}` takes more than {} steps and was given up here.", op_.name, kMaxSteps),
        "Lower the ranks or the number of unrolled terms.");
}

std::string Elaborator::source_of(const Expr& e) const {
    std::string s = op_.source->text.substr(e.begin, std::min<size_t>(e.end - e.begin, 41));
    for (char& c : s)
        if (c == '\n' || c == '\r' || c == '\t') c = ' ';
    if (s.size() > 40) {
        s.resize(37);
        while (!s.empty() && (s.back() & 0xc0) == 0x80) s.pop_back();
        s += "...";
    }
    return s;
}

std::string Elaborator::known_names_hint(const std::string& word) const {
    std::vector<std::string> all;
    for (const auto& [n, v] : indices_) all.push_back(n);
    for (const auto& [n, v] : values_) all.push_back(n);
    for (const auto& [n, v] : dims_) all.push_back(n);
    for (const auto& [n, v] : views_) all.push_back(n);
    for (const auto& [n, v] : types_) all.push_back(n);
    for (int i = 0; i < kDTypeCount; ++i) all.emplace_back(opwright::name(static_cast<DType>(i)));
    const std::string near = did_you_mean(word, all);
    return near.empty() ? "" : "Did you mean `" + near + "`? ";
}

Result<Value> Elaborator::eval(const Expr& e, Want want) {
    OPW_CHECK(step(e));
    if (!element_.empty())
        if (auto it = element_.find(&e); it != element_.end()) return it->second;
    switch (e.kind) {
        case ExprKind::Name: return lookup(e);
        case ExprKind::Integer: return Value::of_integer(e.integer);
        case ExprKind::Float: return Value::of_real(e.number);
        case ExprKind::String: return Value::of_text(e.name);
        case ExprKind::List: {
            OPW_TRY(auto v, items(e.args, want));
            return Value::of_list(std::move(v));
        }
        case ExprKind::Unary: return unary(e, want);
        case ExprKind::Binary: return binary(e, want);
        case ExprKind::In: return membership(e);
        case ExprKind::Call: return function(e, want);
        case ExprKind::Access: return access(e, want);
        case ExprKind::Reduce: return reduce(e, want);
        case ExprKind::Expand:
            return error(
                e, fmt::format("`{}` expands to several values where one is needed.", source_of(e)),
                "Expand inside indices, arguments or a list; product(...) and total(...) fold a pack to one value.");
        case ExprKind::Broadcast:
        case ExprKind::Each: break;
    }
    return error(e, fmt::format("`{}` can stand only in the dims of a parameter.", source_of(e)),
                 "Write the name alone here.");
}

Result<Value> Elaborator::lookup(const Expr& e) {
    const std::string& n = e.name;
    if (in_equation_)
        if (auto it = indices_.find(n); it != indices_.end()) return it->second;
    if (auto it = values_.find(n); it != values_.end()) return it->second;
    if (auto it = dims_.find(n); it != dims_.end()) {
        const Dim& d = it->second;
        if (in_equation_)
            return error(e, fmt::format("The index `{}` is on the right, but neither on the left nor reduced.", n),
                         fmt::format("Put it on the left, or sum over it: sum[{}{}](...); its extent is size({}).", n,
                                     d.pack ? "..." : "", n));
        std::vector<Value> all;
        for (const Sym& s : d.extents) all.push_back(Value::of_size(s));
        return d.pack ? Value::of_list(std::move(all)) : all[0];
    }
    if (auto it = types_.find(n); it != types_.end()) return Value::of_type(it->second);
    if (auto t = dtype_word(n)) return Value::of_type(*t);
    if (n == "true" || n == "false") return Value::of_condition(n == "true");
    if (n == "inf") return Value::of_real(std::numeric_limits<double>::infinity());
    if (n == "nan") return Value::of_real(std::numeric_limits<double>::quiet_NaN());
    if (n == "pi") return Value::of_real(3.14159265358979323846);
    if (n == "none") return Value::none();
    if (each_.count(n))
        return error(e, fmt::format("`{}` has an extent for every tensor of a variadic parameter.", n),
                     fmt::format("Use it inside `for`, or take their sum: total({}).", n));
    if (absent_.count(n))
        return error(e, fmt::format("`{}` was left out of this call of `{}`.", n, op_.name),
                     fmt::format("Guard its use: if present({}): ....", n));
    if (auto it = views_.find(n); it != views_.end())
        return error(e, fmt::format("The tensor `{}` has no indices here.", n),
                     it->second.dims.empty() ? fmt::format("Write {}[] for the value of a scalar.", n)
                                             : fmt::format("Write {}[...] with {} ind{}.", n, it->second.dims.size(),
                                                           it->second.dims.size() == 1 ? "ex" : "ices"));
    if (variadic_.count(n))
        return error(e, fmt::format("`{}` is a list of tensors.", n), fmt::format("Go through it: for x in {}:.", n));
    return error(
        e, fmt::format("`{}` is not defined in `{}`.", n, op_.name),
        known_names_hint(n) + (in_equation_ ? "An index must stand on the left or be reduced; other names need a let."
                                            : "Known here are extents, attributes and names defined by let."));
}

Result<Sym> Elaborator::checked_sym(const Expr& e, Sym s) const {
    if (auto c = s.constant(); c && (*c > kMaxInteger || *c < -kMaxInteger))
        return error(
            e,
            fmt::format("`{}` is {}, which is beyond the range of extents and attributes (2**53).", source_of(e), *c),
            "Compute with smaller numbers, or with tensors of i64.");
    if (s.size() > s_.symbol_limit)
        return error(e, fmt::format("`{}` grows into too large an expression of extents.", source_of(e)),
                     "Pass the value as an integer attribute instead.");
    return s;
}

// ---- conversions

ExprId Elaborator::widen(const Value& v) {
    return is_half(p_.expr(v.expr).dtype) ? p_.cast(v.expr, DType::F32) : v.expr;
}
ExprId Elaborator::narrow(const Value& v) {
    const math::Expr& x = p_.expr(v.expr);
    if (x.dtype == v.type) return v.expr;
    // A 16-bit value that was only widened: the conversion back is exact.
    if (x.kind == math::ExprKind::Cast && p_.expr(x.args[0]).dtype == v.type) return x.args[0];
    return p_.cast(v.expr, v.type);
}

Result<Value> Elaborator::computed(const Expr& e, Value v, Want want) {
    switch (v.kind) {
        case Kind::Computed: return v;
        case Kind::Literal: {
            if (!want)
                return error(e, fmt::format("`{}` has no type here.", source_of(e)),
                             fmt::format("Give it one, as in cast({}, f32).", source_of(e)));
            const DType t = *want;
            if (is_float(t)) return Value::of_expr(p_.literal(v.number, compute_type(t)), t);
            if (is_int(t) && v.real && std::isinf(v.number)) {  // the extreme value stands for it
                if (t == DType::U64) return Value::of_expr(p_.integer(v.number > 0 ? -1 : 0, t), t);
                return Value::of_expr(p_.integer(math::saturate_to(v.number > 0 ? highest(t) : lowest(t), t), t), t);
            }
            if (t == DType::Bool)
                return error(e, fmt::format("`{}` is a number where a bool is needed.", source_of(e)),
                             "Write true or false, or a comparison.");
            if (v.real)
                return error(e,
                             fmt::format("The number {} has a fraction or an exponent, but {} is needed here.",
                                         source_of(e), opwright::name(t)),
                             "Write an integer, or convert the other side to a floating-point type by cast.");
            const bool fits = t == DType::U64 ? v.integer >= 0
                                              : t == DType::I64 || (static_cast<double>(v.integer) <= highest(t) &&
                                                                    static_cast<double>(v.integer) >= lowest(t));
            if (!fits)
                return error(e, fmt::format("The number {} does not fit {}.", v.integer, opwright::name(t)),
                             "Use a wider type: convert the other side by cast.");
            return Value::of_expr(p_.integer(v.integer, t), t, t == DType::I64);
        }
        case Kind::Size: return Value::of_expr(p_.size(v.sym), DType::I64, true);
        case Kind::Condition: {
            if (auto c = v.sym.constant()) return Value::of_expr(p_.integer(*c != 0, DType::Bool), DType::Bool);
            return Value::of_expr(p_.call(Fn::Ne, {p_.size(v.sym), p_.integer(0)}), DType::Bool);
        }
        case Kind::None:
        case Kind::Text:
        case Kind::Type:
        case Kind::List: break;
    }
    return error(e, fmt::format("`{}` is {}, where a number is needed.", source_of(e), v.kind_name()),
                 v.is(Kind::List) ? "Take one of its values, as in list[0], or expand it with '...'."
                                  : "Use a number, or compare it in an 'if'.");
}
Result<ExprId> Elaborator::as_index(const Expr& e, const Value& v) {
    if (auto s = v.as_sym()) return p_.size(*s);
    if (v.is(Kind::Computed) && is_int(v.type)) return p_.cast(v.expr, DType::I64);
    return error(e, fmt::format("`{}` is {} and cannot be an index.", source_of(e), v.kind_name()),
                 v.is(Kind::Computed) || v.is(Kind::Literal) ? fmt::format("Convert it: cast({}, i64).", source_of(e))
                                                             : "An index is an integer.");
}
Result<ExprId> Elaborator::as_bool(const Expr& e, const Value& v) {
    OPW_TRY(Value c, computed(e, v, {}));
    if (c.type == DType::Bool) return c.expr;
    return error(e, fmt::format("`{}` is {}, where a bool is needed.", source_of(e), c.kind_name()),
                 fmt::format("Compare it, as in {} != 0.", source_of(e)));
}

// ---- types before evaluation

Want Elaborator::peek(const Expr& e) const {
    if (!element_.empty())
        if (auto it = element_.find(&e); it != element_.end()) {
            if (it->second.is(Kind::Computed)) return it->second.type;
            if (it->second.is(Kind::Size)) return DType::I64;
            return {};
        }
    const auto first = [&](size_t from) -> Want {
        for (size_t i = from; i < e.args.size(); ++i)
            if (Want t = peek(*e.args[i])) return t;
        return {};
    };
    switch (e.kind) {
        case ExprKind::Name: {
            if (indices_.count(e.name)) return DType::I64;
            if (auto it = values_.find(e.name); it != values_.end()) {
                const Value& v = it->second;
                if (v.is(Kind::List) && !v.list->empty() && v.list->front().is(Kind::Size)) return DType::I64;
                return v.is(Kind::Size) ? Want(DType::I64) : v.is(Kind::Condition) ? Want(DType::Bool) : Want();
            }
            return {};
        }
        case ExprKind::Integer:
        case ExprKind::Float:
        case ExprKind::String:
        case ExprKind::Broadcast:
        case ExprKind::Each: return {};
        case ExprKind::In: return DType::Bool;
        case ExprKind::List:
        case ExprKind::Unary:
        case ExprKind::Expand: return first(0);
        case ExprKind::Binary: return is_comparison(e.fn) ? Want(DType::Bool) : first(0);
        case ExprKind::Access:
            if (auto it = views_.find(e.name); it != views_.end()) return it->second.type;
            return {};
        case ExprKind::Reduce: {
            if (e.name == "argmax" || e.name == "argmin" || e.name == "argmax_last" || e.name == "argmin_last")
                return DType::I64;
            for (const Setting& s : e.settings)
                if (s.name.empty() && s.value->kind == ExprKind::Name) {
                    if (auto it = types_.find(s.value->name); it != types_.end()) return it->second;
                    if (auto t = dtype_word(s.value->name)) return t;
                }
            return peek(*e.args[0]);
        }
        case ExprKind::Call: {
            const std::string& n = e.name;
            if ((n == "cast" || n == "wrap" || n == "bitcast") && e.args.size() == 2 &&
                e.args[1]->kind == ExprKind::Name) {
                const std::string& t = e.args[1]->name;
                if (auto it = types_.find(t); it != types_.end()) return it->second;
                if (auto v = values_.find(t); v != values_.end() && v->second.is(Kind::Type)) return v->second.type;
                return dtype_word(t);
            }
            if ((n == "highest" || n == "lowest" || n == "top" || n == "bottom" || n == "eps") && e.args.size() == 1 &&
                e.args[0]->kind == ExprKind::Name) {
                if (auto it = types_.find(e.args[0]->name); it != types_.end()) return it->second;
                return dtype_word(e.args[0]->name);
            }
            if (n == "select") return first(1);
            if (n == "size" || n == "rank" || n == "len" || n == "before") return DType::I64;
            if (n == "inside" || n == "present" || n == "isnan" || n == "isinf") return DType::Bool;
            return first(0);
        }
    }
    return {};
}

// ---- operators

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

// ---- functions

Status Elaborator::arity(const Expr& e, size_t n) const {
    if (e.args.size() == n) return ok_status();
    return error(e,
                 fmt::format("`{}` takes {} argument{}, but {} {} given.", e.name, n, n == 1 ? "" : "s", e.args.size(),
                             e.args.size() == 1 ? "is" : "are"),
                 fmt::format("Give it {}.", n == 1 ? "one" : std::to_string(n)));
}
Result<DType> Elaborator::type_argument(const Expr& e) {
    OPW_TRY(Value v, eval(e, {}));
    if (v.is(Kind::Type)) return v.type;
    return error(e, fmt::format("`{}` is {}, where a dtype is needed.", source_of(e), v.kind_name()),
                 "Write a dtype such as f32, or a dtype variable such as T.");
}

Result<Value> Elaborator::function(const Expr& e, Want want) {
    bool known_name = true;
    OPW_TRY(Value v, builtin(e, want, known_name));
    if (known_name) return v;
    OPW_TRY(Value q, pack_function(e, known_name));
    if (known_name) return q;
    if (const auto fn = callable(e.name)) {
        if (!e.settings.empty())
            return error(e, fmt::format("The function `{}` has no attributes.", e.name),
                         "Remove what follows the ';'.");
        Want side;
        for (const Expr* a : e.args)
            if (!side) side = peek(*a);
        if (!side && !math::info(*fn).bool_result) side = want;
        OPW_TRY(auto args, items(e.args, side));
        const size_t n = math::info(*fn).arity;
        const bool folds = (*fn == Fn::Min || *fn == Fn::Max) && !args.empty();
        if (args.size() != n && !folds)
            return error(e,
                         fmt::format("`{}` takes {} argument{}, but {} {} given.", e.name, n, n == 1 ? "" : "s",
                                     args.size(), args.size() == 1 ? "is" : "are"),
                         fmt::format("Give it {}.", n == 1 ? "one" : std::to_string(n)));
        if (folds) {
            Value all = args[0];
            for (size_t i = 1; i < args.size(); ++i) {
                const auto x = all.as_sym(), y = args[i].as_sym();
                if (all.is(Kind::Literal) && args[i].is(Kind::Literal)) {
                    const double r = math::apply(*fn, std::array{all.number, args[i].number});
                    all = all.real || args[i].real ? Value::of_real(r) : (r == all.number ? all : args[i]);
                } else if (x && y) {
                    OPW_TRY(Sym s, checked_sym(e, *fn == Fn::Min ? math::min(*x, *y) : math::max(*x, *y)));
                    all = Value::of_size(s);
                } else {
                    OPW_TRY(Value next, apply(e, *fn, {all, args[i]}, side));
                    all = next;
                }
            }
            return all;
        }
        const bool numbers = std::all_of(args.begin(), args.end(), [](const Value& a) { return a.is(Kind::Literal); });
        if (numbers && !math::info(*fn).bool_args) {
            std::vector<double> x;
            bool real = math::info(*fn).float_only;
            for (const Value& a : args) {
                x.push_back(a.number);
                real = real || a.real;
            }
            if (real) {
                const double r = math::apply(*fn, x);
                return math::info(*fn).bool_result ? Value::of_condition(r != 0) : Value::of_real(r);
            }
            if (*fn == Fn::Abs || *fn == Fn::Sign || *fn == Fn::Neg) {
                const int64_t i = args[0].integer;
                return Value::of_integer(*fn == Fn::Neg ? -i : *fn == Fn::Abs ? (i < 0 ? -i : i) : (i > 0) - (i < 0));
            }
        }
        return apply(e, *fn, std::move(args), want);
    }
    if (const OpDecl* callee = s_.find(e.name, op_)) return scalar_call(e, *callee, want);
    std::vector<std::string> names = s_.operator_names();
    for (const char* b : kBuiltins) names.emplace_back(b);
    for (int i = 0; i < math::kFnCount; ++i)
        if (callable(std::string(math::info(static_cast<Fn>(i)).name)))
            names.emplace_back(math::info(static_cast<Fn>(i)).name);
    const std::string near = did_you_mean(e.name, names);
    std::string next = near.empty() ? "" : "Did you mean `" + near + "`? ";
    if (is_reduction(e.name))
        next = fmt::format("A reduction names its indices: {}[i](...). ", e.name);
    else if (views_.count(e.name))
        next = fmt::format("`{0}` is a tensor: write {0}[...]. ", e.name);
    return error(e, fmt::format("`{}` is neither a function nor an operator.", e.name),
                 next + "The page docs/language.md lists the functions.");
}

Result<Value> Elaborator::select(const Expr& e, Want want) {
    OPW_CHECK(arity(e, 3));
    OPW_TRY(Value c, eval(*e.args[0], {}));
    if (c.is(Kind::Condition))
        if (auto k = known(c.sym)) return eval(*e.args[*k ? 1 : 2], want);  // the other need not make sense
    Want side = peek(*e.args[1]);
    if (!side) side = peek(*e.args[2]);
    if (!side) side = want;
    OPW_TRY(Value a, eval(*e.args[1], side));
    OPW_TRY(Value b, eval(*e.args[2], side));
    if (c.is(Kind::Condition))
        if (const auto x = a.as_sym(), y = b.as_sym();
            x && y && (a.is(Kind::Size) || b.is(Kind::Size) || !in_equation_)) {
            OPW_TRY(Sym s, checked_sym(e, math::select(c.sym, *x, *y)));
            return Value::of_size(s);
        }
    if (!computing())
        return error(*e.args[0], fmt::format("`{}` is not known before run time.", source_of(*e.args[0])),
                     "Here only extents, attributes and numbers can stand.");
    OPW_TRY(ExprId condition, as_bool(*e.args[0], c));
    const auto type_of_value = [](const Value& v) -> Want {
        if (v.is(Kind::Computed)) return v.type;
        if (v.is(Kind::Size)) return DType::I64;
        if (v.is(Kind::Condition)) return DType::Bool;
        return {};
    };
    Want type = type_of_value(a);
    if (!type) type = type_of_value(b);
    if (!type) type = side;
    const bool index = (a.index || !a.is(Kind::Computed)) && (b.index || !b.is(Kind::Computed));
    OPW_TRY(Value x, computed(*e.args[1], a, type));
    OPW_TRY(Value y, computed(*e.args[2], b, type));
    if (x.type != y.type)
        return error(
            e,
            fmt::format("`{}` is {} and `{}` is {}, but both values of `select` must have one type.",
                        source_of(*e.args[1]), opwright::name(x.type), source_of(*e.args[2]), opwright::name(y.type)),
            fmt::format("Convert one of them, as in cast({}, {}).", source_of(*e.args[2]), opwright::name(x.type)));
    const bool raw = p_.expr(x.expr).dtype == p_.expr(y.expr).dtype;
    return Value::of_expr(p_.select(condition, raw ? x.expr : widen(x), raw ? y.expr : widen(y)), x.type,
                          index && x.type == DType::I64);
}

Result<Value> Elaborator::cast(const Expr& e, bool wraps) {
    OPW_CHECK(arity(e, 2));
    OPW_TRY(DType t, type_argument(*e.args[1]));
    OPW_TRY(Value v, eval(*e.args[0], wraps ? Want() : Want(t)));
    const Expr& of = *e.args[0];
    if (!in_equation_) {
        if (t == DType::I64 && v.is(Kind::Size)) return v;
        std::optional<double> number;
        if (v.is(Kind::Literal))
            number = v.number;
        else if (auto c = v.constant_integer())
            number = static_cast<double>(*c);
        if (!number && !in_let_)
            return error(
                of, fmt::format("`{}` is {} and cannot be converted before run time.", source_of(of), v.kind_name()),
                "Convert it inside an equation.");
        if (number && is_float(t)) return Value::of_real(*number);
        if (number && t == DType::Bool) return Value::of_condition(*number != 0);
        if (number && !v.real && v.is(Kind::Literal))
            return Value::of_integer(
                wraps ? math::wrap_to(v.integer, t)
                      : std::clamp(v.integer, math::saturate_to(lowest(t), t), math::saturate_to(highest(t), t)));
        if (number) return Value::of_integer(math::saturate_to(*number, t));
    }
    if (v.is(Kind::Literal)) {
        if (!v.real && is_int(t)) {
            if (wraps) return Value::of_expr(p_.integer(v.integer, t), t);
            const int64_t low = math::saturate_to(lowest(t), t), high = t == DType::U64
                                                                            ? std::numeric_limits<int64_t>::max()
                                                                            : math::saturate_to(highest(t), t);
            return Value::of_expr(p_.integer(std::clamp(v.integer, low, high), t), t);
        }
        if (is_float(t)) return Value::of_expr(p_.literal(v.number, t), t);
        return Value::of_expr(p_.literal(v.number, t), t);
    }
    OPW_TRY(Value c, computed(of, v, {}));
    if (wraps) {
        if (is_float(c.type) || is_float(t))
            return error(e,
                         fmt::format("`wrap` keeps the low bits of integers, and `{}` is {}.",
                                     source_of(is_float(c.type) ? of : *e.args[1]),
                                     opwright::name(is_float(c.type) ? c.type : t)),
                         "Use cast, which rounds and saturates.");
        return Value::of_expr(p_.wrap(c.expr, t), t);
    }
    if (c.type == t) return Value::of_expr(c.expr, t, c.index);
    return Value::of_expr(p_.cast(widen(c), t), t);
}

Result<Value> Elaborator::bitcast(const Expr& e) {
    OPW_CHECK(arity(e, 2));
    OPW_TRY(DType t, type_argument(*e.args[1]));
    OPW_TRY(Value v, eval(*e.args[0], {}));
    if (!computing()) return error(e, "`bitcast` is not known before run time.", "Use it inside an equation.");
    OPW_TRY(Value c, computed(*e.args[0], v, {}));
    if (size_of(c.type) != size_of(t))
        return error(e,
                     fmt::format("`{}` is {} of {} bytes, and {} has {}.", source_of(*e.args[0]),
                                 opwright::name(c.type), size_of(c.type), opwright::name(t), size_of(t)),
                     "Bitcast between types of one size.");
    if (t == DType::Bool || c.type == DType::Bool)
        return error(e, "`bitcast` from or to bool has no meaning.", "Use cast, or compare with 0.");
    return Value::of_expr(p_.bitcast(narrow(c), t), t);
}

Result<Value> Elaborator::builtin(const Expr& e, Want want, bool& known_name) {
    const std::string& n = e.name;
    if (n == "select") return select(e, want);
    if (n == "cast" || n == "wrap") return cast(e, n == "wrap");
    if (n == "bitcast") return bitcast(e);
    if (n == "inside") return inside(e);
    if (n == "clamp") {
        OPW_CHECK(arity(e, 3));
        Want side = peek(*e.args[0]);
        for (int i = 1; i < 3 && !side; ++i) side = peek(*e.args[i]);
        if (!side) side = want;
        std::vector<Value> v;
        for (const Expr* a : e.args) {
            OPW_TRY(Value x, eval(*a, side));
            v.push_back(std::move(x));
        }
        if (auto x = v[0].as_sym(), lo = v[1].as_sym(), hi = v[2].as_sym(); x && lo && hi) {
            OPW_TRY(Sym s, checked_sym(e, math::min(math::max(*x, *lo), *hi)));
            return Value::of_size(s);
        }
        OPW_TRY(Value low, apply(e, Fn::Max, {v[0], v[1]}, side));
        return apply(e, Fn::Min, {low, v[2]}, side);
    }
    if (n == "present") {
        OPW_CHECK(arity(e, 1));
        const Expr& a = *e.args[0];
        if (a.kind == ExprKind::Name) {
            if (absent_.count(a.name)) return Value::of_condition(0);
            if (views_.count(a.name)) return Value::of_condition(1);
            if (auto it = values_.find(a.name); it != values_.end())
                return Value::of_condition(!it->second.is(Kind::None));
        }
        return error(a,
                     fmt::format("`present` asks for a parameter or an attribute, and `{}` is neither.", source_of(a)),
                     a.kind == ExprKind::Name ? known_names_hint(a.name) + "Name an optional parameter."
                                              : "Name an optional parameter.");
    }
    if (n == "size") return extent(e);
    if (n == "rank" || n == "len") {
        OPW_CHECK(arity(e, 1));
        const Expr& a = *e.args[0];
        if (a.kind == ExprKind::Name) {
            if (auto it = variadic_.find(a.name); it != variadic_.end())
                return Value::of_size(static_cast<int64_t>(it->second.size()));
            if (auto it = views_.find(a.name); it != views_.end())
                return Value::of_size(static_cast<int64_t>(it->second.dims.size()));
        }
        // A pack of dims counts whether or not its indices are in force.
        const Expr& base = a.kind == ExprKind::Expand ? *a.args[0] : a;
        const bool dims = base.kind == ExprKind::Name && dims_.count(base.name);
        const bool outer = in_equation_;
        if (dims) in_equation_ = false;
        Result<std::vector<Value>> all = list_argument(a);
        in_equation_ = outer;
        if (!all.ok()) return all.error();
        return Value::of_size(static_cast<int64_t>(all->size()));
    }
    if (n == "highest" || n == "lowest" || n == "top" || n == "bottom" || n == "eps") {
        OPW_CHECK(arity(e, 1));
        OPW_TRY(DType t, type_argument(*e.args[0]));
        const bool up = n == "highest" || n == "top";
        if (n == "eps") {
            if (!is_float(t))
                return error(e, fmt::format("`eps` is of floating-point types, and {} is none.", opwright::name(t)),
                             "Restrict the type: where T in float.");
            const double eps = 2 * unit_roundoff(t);
            return in_equation_ ? Value::of_expr(p_.literal(eps, compute_type(t)), t) : Value::of_real(eps);
        }
        if (is_float(t)) {
            const double v = (n == "top" || n == "bottom") ? std::numeric_limits<double>::infinity() * (up ? 1 : -1)
                             : up                          ? highest(t)
                                                           : lowest(t);
            return in_equation_ ? Value::of_expr(p_.literal(v, compute_type(t)), t) : Value::of_real(v);
        }
        const int64_t v = t == DType::Bool  ? up
                          : t == DType::U64 ? (up ? -1 : 0)
                                            : math::saturate_to(up ? highest(t) : lowest(t), t);
        if (in_equation_) return Value::of_expr(p_.integer(v, t), t);
        if (t == DType::U64 && up)
            return error(e, "The highest u64 does not fit the integers known before run time.",
                         "Use it inside an equation.");
        return Value::of_integer(v);
    }
    if (n == "is_float" || n == "is_int" || n == "is_signed" || n == "is_bool") {
        OPW_CHECK(arity(e, 1));
        OPW_TRY(DType t, type_argument(*e.args[0]));
        return Value::of_condition(n == "is_float"  ? is_float(t)
                                   : n == "is_int"  ? is_int(t)
                                   : n == "is_bool" ? t == DType::Bool
                                                    : is_float(t) || is_signed_int(t));
    }
    if (n == "acc") {
        OPW_CHECK(arity(e, 1));
        OPW_TRY(DType t, type_argument(*e.args[0]));
        return Value::of_type(accumulate_type(t));
    }
    if (n == "before") {
        OPW_CHECK(arity(e, 1));
        const auto it = e.args[0]->kind == ExprKind::Name ? each_.find(e.args[0]->name) : each_.end();
        if (it == each_.end() || !loop_at_)
            return error(e, "`before` needs the dim c* of a variadic parameter, inside a `for`.",
                         "Write for x in xs: ... before(c) ....");
        Sym sum = 0;
        for (size_t i = 0; i < *loop_at_; ++i) sum = sum + it->second[i];
        return Value::of_size(sum);
    }
    known_name = false;
    return Value();
}

// The extents behind a name: of dims, or of indices that this equation alone knows. Names mean extents here, not
// indices.
Result<std::vector<Value>> Elaborator::extents_of(const Expr& e) {
    std::vector<Value> out;
    if (e.kind == ExprKind::Name && in_equation_ && !dims_.count(e.name))
        if (const auto it = indices_.find(e.name); it != indices_.end()) {
            for (const Value& v : it->second.is(Kind::List) ? *it->second.list : std::vector<Value>{it->second}) {
                const auto f = math::affine(p_, v.expr);
                if (f && f->terms.size() == 1) out.push_back(Value::of_size(p_.vars[f->terms[0].first].extent));
            }
            return out;
        }
    const bool outer = std::exchange(in_equation_, false);
    Result<std::vector<Value>> all = out;
    if (e.kind == ExprKind::Name && !is_pack(e.name)) {
        Result<Value> v = eval(e, {});
        if (v.ok())
            all = std::vector<Value>{*v};
        else
            all = v.error();
    } else {
        all = list_argument(e);
    }
    in_equation_ = outer;
    if (!all.ok()) return all.error();
    for (const Value& v : *all) {
        const auto s = v.as_sym();
        if (!s)
            return error(e, fmt::format("`{}` has no extent.", source_of(e)),
                         "Name an index, a dim or a pack of them.");
        out.push_back(Value::of_size(*s));
    }
    return out;
}

// size(i): the extent; size(r...): the product of a pack's. Inside an expansion over r, size(r) is one element's: see
// expand.
Result<Value> Elaborator::extent(const Expr& e) {
    OPW_CHECK(arity(e, 1));
    OPW_TRY(auto all, extents_of(*e.args[0]));
    Sym r = 1;
    for (const Value& v : all) {
        OPW_TRY(Sym next, checked_sym(e, r * v.sym));
        r = next;
    }
    return Value::of_size(r);
}

// An operator whose dims are all packs, applied to numbers: its equations are inlined as expressions.
Result<Value> Elaborator::scalar_call(const Expr& e, const OpDecl& callee, Want want) {
    if (!computing())
        return error(e, fmt::format("The operator `{}` cannot be called here.", e.name),
                     "Call it inside an equation, or as a statement y = op(x).");
    Want side;
    for (const Expr* a : e.args)
        if (!side) side = peek(*a);
    if (!side) side = want;
    std::vector<OutputSlot> slots(1, {"", math::Role::Temp});
    if (callee.outputs.size() != 1)
        return error(e,
                     fmt::format("The operator `{}` has {} outputs and cannot be called inside an expression.", e.name,
                                 callee.outputs.size()),
                     "Call it as a statement: a, b = op(x).");
    std::vector<BoundArg> args;
    for (const Expr* a : e.args) {
        OPW_TRY(Value v, eval(*a, side));
        BoundArg b;
        if (v.is(Kind::None)) {
            b.present = false;
        } else {
            OPW_TRY(Value c, computed(*a, std::move(v), side));
            b.type = c.type;
            b.scalar = std::move(c);
        }
        args.push_back(std::move(b));
    }
    OPW_TRY(auto views, call_with(e, callee, std::move(args), std::move(slots), true));
    return views[0].scalar;
}

}  // namespace opwright::lang
