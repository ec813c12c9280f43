#include "derive/stable.h"

#include <algorithm>

#include "math/algebra.h"

namespace opwright::derive {
using namespace math;
namespace {

// The one equation that sets t and is never updated, or null.
const Equation* definition(const Program& p, TensorId t) {
    const Equation* r = nullptr;
    for (const Equation& q : p.equations) {
        if (q.lhs != t) continue;
        if (r || q.update != Update::Set) return nullptr;
        r = &q;
    }
    return r;
}

// Whether e is a sum of squares or of absolute values to a power, up to factors: then its derivative is 0 where it is
// 0.
bool is_sum_of_powers(const Program& p, ExprId id) {
    const Expr& e = p.expr(id);
    switch (e.kind) {
        case ExprKind::Cast: return is_sum_of_powers(p, e.args[0]);
        case ExprKind::Reduce: return e.reduce == ReduceOp::Sum && is_sum_of_powers(p, e.args[0]);
        case ExprKind::Load: {
            const Equation* q = definition(p, e.ref);
            return q && is_sum_of_powers(p, q->rhs);
        }
        case ExprKind::Call: break;
        default: return false;
    }
    switch (e.fn) {
        case Fn::Add: return is_sum_of_powers(p, e.args[0]) && is_sum_of_powers(p, e.args[1]);
        case Fn::Abs: return true;
        case Fn::Mul:
            if (e.args[0] == e.args[1]) return true;
            for (size_t i = 0; i < 2; ++i)
                if (p.expr(e.args[i]).kind == ExprKind::Literal && is_sum_of_powers(p, e.args[1 - i])) return true;
            return false;
        case Fn::Div: {
            const Expr& by = p.expr(e.args[1]);
            const ExprKind k = by.kind == ExprKind::Cast ? p.expr(by.args[0]).kind : by.kind;
            return (k == ExprKind::Literal || k == ExprKind::Size) && is_sum_of_powers(p, e.args[0]);
        }
        case Fn::Pow: {
            const Expr& n = p.expr(e.args[1]);
            if (n.kind != ExprKind::Literal || n.number < 1) return false;
            return n.number == 2 || is_sum_of_powers(p, e.args[0]);
        }
        default: return false;
    }
}
}  // namespace

std::optional<Logistic> logistic(Program& p, ExprId call) {
    const Algebra x{p};
    const Expr e = p.expr(call);
    if (e.kind != ExprKind::Call || (e.fn != Fn::Div && e.fn != Fn::Log && e.fn != Fn::Log1p)) return std::nullopt;
    ExprId u = e.args[e.fn == Fn::Div ? 1 : 0], exponential = kNone, constant = kNone;
    if (e.fn == Fn::Log1p) {
        exponential = u;
        constant = x.like(u, 1);
        if (p.expr(u).kind == ExprKind::Call && p.expr(u).fn == Fn::Exp) u = x.add(constant, u);
    } else if (p.expr(u).kind == ExprKind::Call && p.expr(u).fn == Fn::Add) {
        const std::vector<ExprId> terms = p.expr(u).args;
        const size_t first = p.expr(terms[0]).kind == ExprKind::Literal ? 0 : 1;
        constant = terms[first];
        exponential = terms[1 - first];
        if (p.expr(constant).kind != ExprKind::Literal || !(p.expr(constant).number > 0)) return std::nullopt;
    } else {
        return std::nullopt;
    }
    if (p.expr(exponential).kind != ExprKind::Call || p.expr(exponential).fn != Fn::Exp) return std::nullopt;
    const ExprId z = p.expr(exponential).args[0];
    const ExprId share =
        p.select(p.call(Fn::Gt, {z, x.like(z, 0)}), x.sub(x.like(u, 1), x.div(constant, u)), x.div(exponential, u));
    return Logistic{z, u, share};
}

ExprId norm_is_positive(Program& p, ExprId call) {
    const Expr e = p.expr(call);
    if (e.kind != ExprKind::Call) return kNone;
    const bool root = e.fn == Fn::Sqrt ||
                      (e.fn == Fn::Pow && p.expr(e.args[1]).kind == ExprKind::Literal && p.expr(e.args[1]).number < 1);
    if (!root || !is_sum_of_powers(p, e.args[0])) return kNone;
    return p.call(Fn::Ne, {e.args[0], p.literal(0, p.expr(e.args[0]).dtype)});
}

}  // namespace opwright::derive
