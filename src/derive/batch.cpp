#include "derive/batch.h"

#include <algorithm>

namespace opwright::derive {
using namespace math;

Program batch(const Program& p, const std::vector<bool>& batched, const Sym& extent) {
    std::vector<bool> has(p.tensors.size());
    for (size_t i = 0; i < p.inputs.size(); ++i) has[p.inputs[i]] = i < batched.size() && batched[i];
    for (bool again = true; again;) {
        again = false;
        for (const Equation& q : p.equations) {
            if (has[q.lhs]) continue;
            bool reads = false;
            const auto look = [&](ExprId e) {
                for (TensorId t : p.reads(e)) reads = reads || has[t];
            };
            look(q.rhs);
            for (ExprId a : q.at) look(a);
            if (reads) has[q.lhs] = again = true;
        }
    }
    Program r;
    r.name = p.name;
    r.doc = p.doc;
    r.requirements = p.requirements;
    Rewriter rewrite{p, r, {}, {}, {}, {}, {}, {}};
    std::vector<TensorId> to(p.tensors.size());
    const auto add = [&](TensorId t) {
        const TensorInfo& i = p.tensors[t];
        std::vector<Sym> shape = i.shape;
        if (has[t]) shape.insert(shape.begin(), extent);
        to[t] = i.role == Role::Constant ? r.add_constant(i.name, i.data)
                                         : r.add_tensor(i.name, i.dtype, std::move(shape), i.role);
        rewrite.tensors[t] = to[t];
    };
    for (TensorId t : p.inputs) add(t);
    for (TensorId t : p.outputs) add(t);
    for (TensorId t = 0; t < p.tensors.size(); ++t)
        if (!rewrite.tensors.count(t)) add(t);
    const VarId b = r.add_var("batch", extent);
    rewrite.replace = [&](Rewriter& self, ExprId id) -> ExprId {
        const Expr& e = p.expr(id);
        const bool access = e.kind == ExprKind::Load || e.kind == ExprKind::Inside;
        if (!access || !has[e.ref]) return kNone;
        std::vector<ExprId> at{r.index(b)};
        for (ExprId a : e.args) at.push_back(self(a));
        if (e.kind == ExprKind::Inside) return r.inside(to[e.ref], std::move(at));
        if (e.outside != Outside::Value) return r.load(to[e.ref], std::move(at), e.outside);
        const ExprId fill = at.back();
        at.pop_back();
        return r.load(to[e.ref], std::move(at), e.outside, fill);
    };
    for (const Equation& q : p.equations) {
        for (VarId v : q.vars) rewrite.bind(v);
        std::vector<ExprId> at;
        if (has[q.lhs]) at.push_back(r.index(b));
        for (ExprId a : q.at) at.push_back(rewrite(a));
        r.add_equation(to[q.lhs], std::move(at), rewrite(q.rhs), q.update, q.outside, q.span);
    }
    return r;
}

}  // namespace opwright::derive
