#include "math/permute_dims.h"

namespace opwright::math {
namespace {
Program without_equations(const Program& p) {
    Program q;
    q.name = p.name;
    q.doc = p.doc;
    q.tensors = p.tensors;
    q.inputs = p.inputs;
    q.outputs = p.outputs;
    q.vars = p.vars;
    q.requirements = p.requirements;
    return q;
}

void keep_variables(Rewriter& w) {
    for (VarId v = 0; v < w.from.vars.size(); ++v) {
        w.vars[v] = w.into.index(v);
        w.bound[v] = v;
    }
}
}  // namespace

Program permute_dims(const Program& p, const std::vector<std::vector<size_t>>& order) {
    const auto permuted = [&](TensorId t, const auto& dims) {
        if (order[t].empty()) return dims;
        auto r = dims;
        for (size_t d = 0; d < order[t].size(); ++d) r[d] = dims[order[t][d]];
        return r;
    };
    Program q = without_equations(p);
    for (TensorId t = 0; t < q.tensors.size(); ++t) q.tensors[t].shape = permuted(t, p.tensors[t].shape);

    Rewriter rewrite{.from = p, .into = q};
    for (TensorId t = 0; t < p.tensors.size(); ++t) rewrite.tensors[t] = t;
    keep_variables(rewrite);
    rewrite.replace = [&](Rewriter& w, ExprId e) -> ExprId {
        const Expr& x = w.from.expr(e);
        if ((x.kind != ExprKind::Load && x.kind != ExprKind::Inside) || order[x.ref].empty()) return kNone;
        const size_t rank = p.tensors[x.ref].shape.size();
        std::vector<ExprId> at;
        for (size_t d = 0; d < rank; ++d) at.push_back(w(x.args[order[x.ref][d]]));
        if (x.kind == ExprKind::Inside) return w.into.inside(x.ref, at);
        return w.into.load(x.ref, at, x.outside, x.outside == Outside::Value ? w(x.args[rank]) : kNone);
    };
    for (const Equation& e : p.equations) {
        std::vector<ExprId> at;
        for (ExprId a : permuted(e.lhs, e.at)) at.push_back(rewrite(a));
        q.add_equation(e.lhs, std::move(at), rewrite(e.rhs), e.update, e.outside, e.span);
    }
    return q;
}

Program without_copies(const Program& p) {
    std::vector<TensorId> source(p.tensors.size());
    std::vector<int> writes(p.tensors.size());
    for (TensorId t = 0; t < source.size(); ++t) source[t] = t;
    for (const Equation& e : p.equations) ++writes[e.lhs];
    bool any = false;
    for (const Equation& e : p.equations) {
        const Expr& x = p.expr(e.rhs);
        const TensorInfo& to = p.tensors[e.lhs];
        if (to.role != Role::Temp || writes[e.lhs] != 1 || e.update != Update::Set || x.kind != ExprKind::Load || x.outside != Outside::Error) continue;
        const TensorInfo& from = p.tensors[x.ref];
        bool plain = true;
        for (size_t d = 0; d < e.at.size(); ++d) plain &= p.expr(e.at[d]).kind == ExprKind::Index || to.shape[d].is(1);
        // What is written more than once may be another thing by the time of reading.
        if (!plain || !(x.args == e.at) || !(from.shape == to.shape) || from.dtype != to.dtype || writes[x.ref] > 1) continue;
        source[e.lhs] = source[x.ref];
        any = true;
    }
    if (!any) return p;
    Program q = without_equations(p);
    Rewriter rewrite{.from = p, .into = q};
    for (TensorId t = 0; t < p.tensors.size(); ++t) rewrite.tensors[t] = source[t];
    keep_variables(rewrite);
    for (const Equation& e : p.equations) {
        if (source[e.lhs] != e.lhs) continue;
        std::vector<ExprId> at;
        for (ExprId a : e.at) at.push_back(rewrite(a));
        q.add_equation(e.lhs, std::move(at), rewrite(e.rhs), e.update, e.outside, e.span);
    }
    return q;
}

}  // namespace opwright::math
