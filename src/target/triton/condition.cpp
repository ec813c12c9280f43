#include "target/triton/condition.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace opwright::target::triton {
using namespace math;

namespace {

class Condition {
public:
    explicit Condition(const Program& p) : p_(p) {}

    bool magnifies(ExprId e) {
        const Expr& x = p_.expr(e);
        if (x.kind == ExprKind::Call) {
            const bool root = x.fn == Fn::Log || x.fn == Fn::Log2 || x.fn == Fn::Sqrt || x.fn == Fn::Rsqrt;
            if ((root && cancels(x.args[0])) || (x.fn == Fn::Div && cancels(x.args[1]))) return true;
        }
        return std::any_of(x.args.begin(), x.args.end(), [&](ExprId a) { return magnifies(a); });
    }

    // What `_Bounded` can follow.
    bool simple(ExprId e) const {
        const Expr& x = p_.expr(e);
        const auto all = [&] { return std::all_of(x.args.begin(), x.args.end(), [&](ExprId a) { return simple(a); }); };
        switch (x.kind) {
            case ExprKind::Literal:
            case ExprKind::Index:
            case ExprKind::Size: return true;
            case ExprKind::Load:
                return x.outside == Outside::Error && p_.tensors[x.ref].dtype == DType::F32 && all() &&
                       std::none_of(x.args.begin(), x.args.end(), [&](ExprId a) { return !p_.reads(a).empty(); });
            case ExprKind::Reduce:
                return (x.reduce == ReduceOp::Sum || x.reduce == ReduceOp::Max || x.reduce == ReduceOp::Min) &&
                       x.args.size() == 1 && all();
            case ExprKind::Call:
                return x.fn != Fn::Erf && x.fn != Fn::Mod && x.fn != Fn::Fmod && x.fn != Fn::FloorDiv && all();
            default: return false;
        }
    }

private:
    const Equation* definition(TensorId t) const {
        for (const Equation& q : p_.equations)
            if (q.lhs == t) return &q;
        return nullptr;
    }

    bool of_both_signs(ExprId e) const {
        const Expr& x = p_.expr(e);
        const auto any = [&] {
            return std::any_of(x.args.begin(), x.args.end(), [&](ExprId a) { return of_both_signs(a); });
        };
        switch (x.kind) {
            case ExprKind::Literal: return x.number < 0;
            case ExprKind::Load: {
                const Equation* q = definition(x.ref);
                return !q || of_both_signs(q->rhs);
            }
            case ExprKind::Reduce: return of_both_signs(x.args[0]);
            case ExprKind::Call:
                switch (x.fn) {
                    case Fn::Exp:
                    case Fn::Exp2:
                    case Fn::Abs:
                    case Fn::Sqrt:
                    case Fn::Rsqrt:
                    case Fn::Cosh: return false;
                    case Fn::Mul: return x.args[0] != x.args[1] && any();
                    case Fn::Pow: {
                        const Expr& n = p_.expr(x.args[1]);
                        return n.kind != ExprKind::Literal || std::fmod(n.number, 2) != 0;
                    }
                    case Fn::Add:
                    case Fn::Div: return any();
                    default: return true;
                }
            default: return true;
        }
    }

    bool cancels(ExprId e) const {
        const Expr& x = p_.expr(e);
        if (x.kind == ExprKind::Reduce) return x.reduce == ReduceOp::Sum && of_both_signs(x.args[0]);
        if (x.kind == ExprKind::Load) {
            const Equation* q = definition(x.ref);
            return q && cancels(q->rhs);
        }
        if (x.kind == ExprKind::Call && x.fn == Fn::Exp) return false;
        return std::any_of(x.args.begin(), x.args.end(), [&](ExprId a) { return cancels(a); });
    }

    const Program& p_;
};
}  // namespace

bool needs_bound(const Program& p) {
    Condition c(p);
    bool magnified = false;
    for (const Equation& q : p.equations) {
        if (q.update != Update::Set || p.tensors[q.lhs].dtype != DType::F32 || !c.simple(q.rhs)) return false;
        magnified = magnified || c.magnifies(q.rhs);
    }
    return magnified;
}

}  // namespace opwright::target::triton
