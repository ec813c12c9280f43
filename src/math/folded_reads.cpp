#include "math/folded_reads.h"

namespace opwright::math {

std::vector<FoldedRead> folded_reads(const Program& p) {
    std::vector<FoldedRead> r;
    for (const Equation& q : p.equations) {
        Sym points = 1;
        for (VarId v : q.vars) points = points * p.vars[v].extent;
        std::vector<bool> seen(p.expr_count());
        std::vector<ExprId> stack = q.at;
        stack.push_back(q.rhs);
        while (!stack.empty()) {
            const ExprId e = stack.back();
            stack.pop_back();
            if (seen[e]) continue;
            seen[e] = true;
            const Expr& x = p.expr(e);
            stack.insert(stack.end(), x.args.begin(), x.args.end());
            if (x.kind != ExprKind::Load || x.outside == Outside::Error || x.outside == Outside::Value) continue;
            const Sym elements = product(p.tensors[x.ref].shape);
            if (elements.lower() > 0 || elements == points) continue;
            r.push_back({x.ref, elements, points});
        }
    }
    return r;
}

std::string empty_read_message(const Program& p, TensorId tensor) {
    return "operator " + p.name + " folds an index back into " + p.tensors[tensor].name + ", which is empty";
}

}  // namespace opwright::math
