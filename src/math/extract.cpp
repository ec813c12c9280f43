#include "math/extract.h"

#include <algorithm>

namespace opwright::math {
namespace {
// Tensors that an expression mentions, those it only asks about (Inside) included.
void mark(const Program& p, ExprId root, std::vector<bool>& seen, std::vector<bool>& used) {
    std::vector<ExprId> stack{root};
    while (!stack.empty()) {
        const ExprId id = stack.back();
        stack.pop_back();
        if (seen[id]) continue;
        seen[id] = true;
        const Expr& e = p.expr(id);
        if (e.kind == ExprKind::Load || e.kind == ExprKind::Inside) used[e.ref] = true;
        stack.insert(stack.end(), e.args.begin(), e.args.end());
    }
}
}  // namespace

Program extract(const Program& p, const std::string& name, const std::vector<TensorId>& inputs,
                const std::vector<TensorId>& outputs) {
    std::vector<bool> used(p.tensors.size()), seen(p.expr_count()), needed(p.equations.size());
    for (TensorId t : outputs) used[t] = true;
    for (size_t i = p.equations.size(); i-- > 0;) {
        const Equation& q = p.equations[i];
        if (!used[q.lhs]) continue;
        needed[i] = true;
        for (ExprId a : q.at) mark(p, a, seen, used);
        mark(p, q.rhs, seen, used);
    }
    Program r;
    r.name = name;
    r.doc = p.doc;
    r.requirements = p.requirements;
    Rewriter rewrite{p, r, {}, {}, {}, {}, {}, {}};
    const auto add = [&](TensorId t, Role role) {
        const TensorInfo& i = p.tensors[t];
        rewrite.tensors[t] =
            role == Role::Constant ? r.add_constant(i.name, i.data) : r.add_tensor(i.name, i.dtype, i.shape, role);
    };
    for (TensorId t : inputs) add(t, Role::Input);
    for (TensorId t : outputs) add(t, Role::Output);
    for (TensorId t = 0; t < p.tensors.size(); ++t)
        if (used[t] && !rewrite.tensors.count(t))
            add(t, p.tensors[t].role == Role::Constant ? Role::Constant : Role::Temp);
    for (size_t i = 0; i < p.equations.size(); ++i) {
        if (!needed[i]) continue;
        const Equation& q = p.equations[i];
        for (VarId v : q.vars) rewrite.bind(v);
        std::vector<ExprId> at;
        for (ExprId a : q.at) at.push_back(rewrite(a));
        // A scan's variable may stand on the left alone.
        r.add_equation(rewrite.tensors.at(q.lhs), std::move(at), rewrite(q.rhs), q.update, q.outside, q.span);
    }
    return r;
}

Rewriter in_place(Program& p) {
    Rewriter r{p, p, {}, {}, {}, {}, {}, {}};
    for (TensorId t = 0; t < p.tensors.size(); ++t) r.tensors[t] = t;
    for (VarId v = 0; v < p.vars.size(); ++v) r.bound[v] = v;
    return r;
}

}  // namespace opwright::math
