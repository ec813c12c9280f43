// Expressions: names and literals, the types of values, conversions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lang/elaborator.h"

namespace opwright::lang {

using math::ExprId;
using math::Fn;
using math::Sym;
using Kind = Value::Kind;

namespace {

bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }

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
    struct Depth {
        int& d;
        explicit Depth(int& x) : d(x) { ++d; }
        ~Depth() { --d; }
    } guard(s_.depth);
    if (s_.depth > kMaxDepth)
        return error(e, fmt::format("The evaluation of `{}` nests more than {} deep.", op_.name, kMaxDepth),
                     "Name parts of the expression as intermediates.");
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

}  // namespace opwright::lang
