// Functions of expressions, and operators called on numbers.
#include <algorithm>
#include <array>
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
