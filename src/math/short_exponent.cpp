#include "math/short_exponent.h"

#include <algorithm>

namespace opwright::math {

std::vector<ExprId> short_exponentials(const Program& p, const std::vector<uint32_t>& equations,
                                       const std::function<std::optional<DType>(TensorId)>& stored) {
    std::vector<std::pair<ExprId, ExprId>> uses;  // of an expression, by another (kNone: as a result)
    std::vector<bool> seen(p.expr_count());
    const std::function<void(ExprId)> walk = [&](ExprId e) {
        if (seen[e]) return;
        seen[e] = true;
        for (ExprId a : p.expr(e).args) {
            uses.emplace_back(a, e);
            walk(a);
        }
    };
    for (uint32_t i : equations) {
        const Equation& q = p.equations[i];
        const auto t = stored(q.lhs);
        if (t && *t != DType::F16 && *t != DType::BF16) return {};
        walk(q.rhs);
        if (t) uses.emplace_back(q.rhs, kNone);
    }
    const std::function<bool(ExprId)> harmless = [&](ExprId e) {
        return std::all_of(uses.begin(), uses.end(), [&](const auto& u) {
            if (u.first != e || u.second == kNone) return true;
            const Expr& x = p.expr(u.second);
            if (x.kind == ExprKind::Reduce) return x.reduce == ReduceOp::Sum && p.expr(e).fn == Fn::Exp;
            if (x.kind == ExprKind::Cast) return is_float(x.dtype) && harmless(u.second);
            return x.kind == ExprKind::Call && (x.fn == Fn::Mul || x.fn == Fn::Div) && harmless(u.second);
        });
    };
    std::vector<ExprId> r;
    for (ExprId e = 0; e < seen.size(); ++e)
        if (seen[e] && p.expr(e).kind == ExprKind::Call && p.expr(e).fn == Fn::Exp &&
            compute_type(p.expr(e).dtype) == DType::F32 && harmless(e))
            r.push_back(e);
    return r;
}

}  // namespace opwright::math
