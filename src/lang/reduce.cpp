// Reductions and scans.
#include <algorithm>

#include "lang/elaborator.h"

namespace opwright::lang {

using math::ExprId;
using math::Fn;
using math::ReduceOp;
using math::Sym;
using math::VarId;
using Kind = Value::Kind;

namespace {
std::optional<ReduceOp> reduction(const std::string& n) {
    if (n == "sum" || n == "mean" || n == "cumsum") return ReduceOp::Sum;
    if (n == "prod" || n == "cumprod") return ReduceOp::Prod;
    if (n == "max" || n == "logsumexp" || n == "cummax") return ReduceOp::Max;
    if (n == "min" || n == "cummin") return ReduceOp::Min;
    if (n == "any") return ReduceOp::Any;
    if (n == "all") return ReduceOp::All;
    if (n == "argmax") return ReduceOp::ArgMax;
    if (n == "argmin") return ReduceOp::ArgMin;
    if (n == "argmax_last") return ReduceOp::ArgMaxLast;
    if (n == "argmin_last") return ReduceOp::ArgMinLast;
    return std::nullopt;
}
}  // namespace

bool Elaborator::is_scan(const Expr& e) const { return e.kind == ExprKind::Reduce && e.name.starts_with("cum"); }

Result<Value> Elaborator::reduce(const Expr& e, Want want) {
    if (!in_equation_)
        return error(e, fmt::format("`{}` is not known before run time.", source_of(e)),
                     "Here only extents, attributes and numbers can stand.");
    if (is_scan(e)) {
        VarId along = math::kNone;
        OPW_TRY(Value v, scan(e, want, along));
        return through_temporary(e.name, e, v.expr, v.type, along);
    }
    std::map<std::string, Found> names;
    for (const Binding& b : e.bindings)
        if (!b.begin && !dims_.count(b.name)) names[b.name].pack = b.pack;
    for (const Expr* a : e.args) infer(*a, names);
    std::vector<VarId> vars;
    std::vector<Sym> extents;
    std::vector<std::string> brought;
    Status good = ok_status();
    for (const Binding& b : e.bindings) {
        if (indices_.count(b.name)) {
            good =
                error_at(b.at, b.at_end, fmt::format("The index `{}` is reduced here but is in use already.", b.name),
                         "Name the index of this reduction otherwise, or reduce it in one place only.");
            break;
        }
        std::optional<Dim> range;
        if (b.begin) {
            Result<Dim> r = stated_range(b);
            if (!r.ok()) {
                good = r.error();
                break;
            }
            range = std::move(*r);
        }
        const auto found = names.find(b.name);
        good = bring_in(b.name, b.pack, found == names.end() ? nullptr : &found->second, b.at, b.at_end, true,
                        range ? &*range : nullptr);
        if (!good.ok()) break;
        brought.push_back(b.name);
        const Value& v = indices_[b.name];
        for (const Value& one : v.is(Kind::List) ? *v.list : std::vector<Value>{v}) {
            const auto f = math::affine(p_, one.expr);
            vars.push_back(f->terms[0].first);
            extents.push_back(p_.vars[vars.back()].extent);
        }
    }
    Result<Value> r = good.ok() ? reduce_inside(e, want, vars, extents) : Result<Value>(good.error());
    for (const std::string& n : brought) indices_.erase(n);
    return r;
}

Result<Value> Elaborator::reduce_inside(const Expr& e, Want want, std::vector<VarId>& vars, std::vector<Sym>& extents) {
    const ReduceOp op = *reduction(e.name);
    const Expr& body = *e.args[0];
    std::optional<DType> stated;
    for (const Setting& s : e.settings) {
        if (!s.name.empty())
            return error_at(s.at, s.at_end, fmt::format("`{}` has no setting `{}`.", e.name, s.name),
                            "A reduction takes only a dtype to accumulate in, as in sum[k; f64](...).");
        OPW_TRY(DType t, type_argument(*s.value));
        stated = t;
        if (op != ReduceOp::Sum && op != ReduceOp::Prod)
            return error(*s.value, fmt::format("`{}` accumulates nothing.", e.name),
                         "Remove the dtype; only sum, prod and mean take one.");
        if (t == DType::F16 || t == DType::BF16 || t == DType::Bool)
            return error(*s.value, fmt::format("A sum cannot accumulate in {}.", opwright::name(t)),
                         "Accumulate in f32 or f64, or in an integer type.");
    }
    ExprId condition = math::kNone;
    if (e.args.size() > 1) {
        OPW_TRY(Value c, eval(*e.args[1], {}));
        OPW_TRY(condition, as_bool(*e.args[1], c));
    }
    Want side = peek(body);
    if (!side) side = stated;
    if (!side && !math::is_arg(op)) side = want;
    OPW_TRY(Value v, eval(body, side));
    OPW_TRY(v, computed(body, v, side));
    if (op == ReduceOp::Any || op == ReduceOp::All) {
        OPW_TRY(ExprId b, as_bool(body, v));
        return Value::of_expr(p_.reduce(op, vars, b, DType::Bool, condition), DType::Bool);
    }
    if (v.type == DType::Bool)
        return error(body, fmt::format("`{}` goes over numbers, and `{}` is bool.", e.name, source_of(body)),
                     "Use any or all, or convert it: cast(..., i64).");
    if ((e.name == "mean" || e.name == "logsumexp") && !is_float(v.type))
        return error(
            body,
            fmt::format("`{}` takes floating-point numbers, and `{}` is {}.", e.name, source_of(body),
                        opwright::name(v.type)),
            fmt::format("Convert it, as in cast({}, f32), or restrict the type: where T in float.", source_of(body)));
    if (e.name == "logsumexp") return logsumexp(e, v, vars, condition);
    const ExprId wide = widen(v);
    const DType computed_in = p_.expr(wide).dtype;
    if (math::is_arg(op)) return Value::of_expr(p_.reduce(op, vars, wide, DType::I64, condition), DType::I64);
    if (op == ReduceOp::Max || op == ReduceOp::Min)
        return Value::of_expr(p_.reduce(op, vars, wide, computed_in, condition), v.type);

    const DType accumulate = stated ? *stated : accumulate_type(v.type);
    if (is_float(accumulate) != is_float(v.type))
        return error(body,
                     fmt::format("`{}` is {} and cannot accumulate in {}.", source_of(body), opwright::name(v.type),
                                 opwright::name(accumulate)),
                     fmt::format("Convert the body: cast({}, {}).", source_of(body), opwright::name(accumulate)));
    ExprId r = p_.reduce(op, vars, p_.cast(wide, accumulate), accumulate, condition);
    if (e.name == "mean") {
        ExprId count = p_.size(math::product(extents));
        if (condition != math::kNone) count = p_.reduce(ReduceOp::Sum, vars, p_.integer(1), DType::I64, condition);
        r = p_.call(Fn::Div, {r, p_.cast(count, accumulate)});
    }
    if (stated) return Value::of_expr(r, accumulate);
    return Value::of_expr(is_float(v.type) ? r : p_.wrap(r, v.type), v.type);
}

// log(sum(exp(x - m))) + m with m the maximum, which is a tensor of its own so that no kernel recomputes it. An
// infinite maximum is left out, so that -inf alone gives -inf and +inf gives +inf, not NaN.
Result<Value> Elaborator::logsumexp(const Expr& e, const Value& body, const std::vector<VarId>& vars,
                                    ExprId condition) {
    const ExprId x = widen(body);
    const DType t = p_.expr(x).dtype;
    OPW_TRY(const Value top, through_temporary(e.name + "_max", e, p_.reduce(ReduceOp::Max, vars, x, t, condition), t));
    const ExprId shift = p_.select(p_.call(Fn::IsInf, {top.expr}), p_.literal(0, t), top.expr);
    const ExprId terms = p_.call(Fn::Exp, {p_.call(Fn::Sub, {x, shift})});
    const DType accumulate = accumulate_type(t);
    const ExprId sum = p_.reduce(ReduceOp::Sum, vars, p_.cast(terms, accumulate), accumulate, condition);
    return Value::of_expr(p_.call(Fn::Add, {p_.call(Fn::Log, {p_.cast(sum, t)}), shift}), body.type);
}

Result<Value> Elaborator::scan(const Expr& e, Want want, VarId& along) {
    const Binding& b = e.bindings[0];
    if (e.bindings.size() != 1 || b.pack || b.begin)
        return error(e, fmt::format("`{}` runs along one index, without a range of its own.", e.name),
                     fmt::format("Write {}[i](...) with an index i of the left side.", e.name));
    if (e.args.size() > 1)
        return error(*e.args[1], fmt::format("`{}` has no condition.", e.name), "Select inside the body instead.");
    const auto it = indices_.find(b.name);
    if (it == indices_.end())
        return error_at(b.at, b.at_end, fmt::format("The index `{}` of `{}` is not on the left.", b.name, e.name),
                        fmt::format("A scan keeps its index: put `{}` on the left, or use {} to reduce it.", b.name,
                                    e.name.substr(3)));
    if (it->second.is(Kind::List) || p_.expr(it->second.expr).kind != math::ExprKind::Index)
        return error_at(b.at, b.at_end, fmt::format("`{}` cannot run along `{}`.", e.name, b.name),
                        "Use a plain index whose range starts at 0.");
    along = p_.expr(it->second.expr).ref;
    bool exclusive = false, backward = false;
    for (const Setting& s : e.settings) {
        if (s.name != "exclusive" && s.name != "reverse")
            return error_at(s.name.empty() ? s.value->begin : s.at, s.name.empty() ? s.value->end : s.at_end,
                            fmt::format("`{}` has no such setting.", e.name),
                            "The settings are exclusive and reverse, as in cumsum[i; exclusive = true](...).");
        const bool outer = std::exchange(in_equation_, false);
        Result<Value> v = eval(*s.value, {});
        in_equation_ = outer;
        if (!v.ok()) return v.error();
        const auto c = v->is(Kind::Condition) ? v->sym.constant() : v->constant_integer();
        if (!c)
            return error(*s.value, fmt::format("`{}` is not true or false before run time.", source_of(*s.value)),
                         "Give true or false.");
        (s.name == "exclusive" ? exclusive : backward) = *c != 0;
    }
    const Expr& body = *e.args[0];
    Want side = peek(body);
    if (!side) side = want;
    OPW_TRY(Value v, eval(body, side));
    OPW_TRY(v, computed(body, v, side));
    if (v.type == DType::Bool)
        return error(body, fmt::format("`{}` goes over numbers, and `{}` is bool.", e.name, source_of(body)),
                     "Convert it: cast(..., i64).");
    return Value::of_expr(p_.scan(*reduction(e.name), along, widen(v), exclusive, backward), v.type);
}

Result<Value> Elaborator::through_temporary(const std::string& base, const Expr& at, ExprId e, DType counted_as,
                                            VarId also) {
    std::vector<VarId> free = p_.free_vars(e);
    if (also != math::kNone && std::find(free.begin(), free.end(), also) == free.end()) free.push_back(also);
    if (free.size() > static_cast<size_t>(kMaxRank) || p_.equations.size() >= kMaxEquations)
        return error(at,
                     fmt::format("`{}` needs a temporary of more than {} dims, or one equation too many.",
                                 source_of(at), kMaxRank),
                     "Reduce over fewer indices at once.");
    // A variable that a reduction around binds gets a twin that is free.
    math::Rewriter twin{p_, p_, {}, {}, {}, {}, {}, {}};
    std::vector<ExprId> written, read;
    std::vector<Sym> shape;
    bool any = false;
    for (VarId v : free) {
        const Shared::VarInfo info = s_.vars[v];
        const VarId w =
            info.bound ? variable(info.name, p_.vars[v].extent, info.stated, false, info.origin, info.begin) : v;
        any = any || w != v;
        twin.vars[v] = p_.index(w);
        written.push_back(p_.index(w));
        read.push_back(p_.index(v));
        shape.push_back(p_.vars[v].extent);
    }
    if (any) {
        for (math::TensorId t = 0; t < p_.tensors.size(); ++t) twin.tensors[t] = t;
        for (VarId v = 0; v < p_.vars.size(); ++v)
            if (!twin.vars.count(v)) twin.bound[v] = v;
        e = twin(e);
    }
    const math::TensorId t = p_.add_tensor(fresh_name(base), p_.expr(e).dtype, shape, math::Role::Temp);
    p_.add_equation(t, std::move(written), e);
    return Value::of_expr(p_.load(t, std::move(read)), counted_as);
}

}  // namespace opwright::lang
