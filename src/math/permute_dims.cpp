#include "math/permute_dims.h"

namespace opwright::math {

Program permute_dims(const Program& p, const std::vector<std::vector<size_t>>& order) {
    const auto permuted = [&](TensorId t, const auto& dims) {
        if (order[t].empty()) return dims;
        auto r = dims;
        for (size_t d = 0; d < order[t].size(); ++d) r[d] = dims[order[t][d]];
        return r;
    };
    Program q;
    q.name = p.name;
    q.doc = p.doc;
    q.tensors = p.tensors;
    q.inputs = p.inputs;
    q.outputs = p.outputs;
    q.vars = p.vars;
    q.requirements = p.requirements;
    for (TensorId t = 0; t < q.tensors.size(); ++t) q.tensors[t].shape = permuted(t, p.tensors[t].shape);

    Rewriter rewrite{.from = p, .into = q};
    for (TensorId t = 0; t < p.tensors.size(); ++t) rewrite.tensors[t] = t;
    for (VarId v = 0; v < p.vars.size(); ++v) {
        rewrite.vars[v] = q.index(v);
        rewrite.bound[v] = v;
    }
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

}  // namespace opwright::math
