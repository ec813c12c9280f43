// Divisions put off, and results of the operator met again in its gradient.
#include <algorithm>

#include "derive/gradient_builder.h"
#include "math/extract.h"

namespace opwright::derive {
using namespace math;
namespace {

// Whether `e` is `pattern` with its index variables replaced as in `by`, which gains those met for the first time.
bool matches(const Program& p, ExprId pattern, ExprId e, std::map<VarId, ExprId>& by) {
    const Expr &a = p.expr(pattern), &b = p.expr(e);
    if (a.kind == ExprKind::Index) {
        const auto [it, fresh] = by.emplace(a.ref, e);
        return fresh || it->second == e;
    }
    if (pattern == e && p.free_vars(e).empty()) return true;
    const bool same = a.kind == b.kind && a.dtype == b.dtype && a.fn == b.fn && a.outside == b.outside &&
                      a.ref == b.ref && a.args.size() == b.args.size();
    if (!same || (a.kind != ExprKind::Load && a.kind != ExprKind::Call && a.kind != ExprKind::Cast)) return false;
    for (size_t i = 0; i < a.args.size(); ++i)
        if (!matches(p, a.args[i], b.args[i], by)) return false;
    return true;
}

// An equation whose tensor holds just what its right-hand side says.
bool exact(const Program& p, const Equation& q) {
    const auto writes =
        std::count_if(p.equations.begin(), p.equations.end(), [&](const Equation& o) { return o.lhs == q.lhs; });
    return writes == 1 && q.update == Update::Set && compute_type(p.tensors[q.lhs].dtype) == p.tensors[q.lhs].dtype &&
           p.tensors[q.lhs].dtype == p.expr(q.rhs).dtype;
}
}  // namespace

bool GradientBuilder::shared_divisor(ExprId e, const Scope& s) const {
    if (p_.reads(e).empty()) return false;  // an extent or a number
    const auto free = p_.free_vars(e);
    return std::any_of(s.vars.begin(), s.vars.end(),
                       [&](VarId v) { return std::find(free.begin(), free.end(), v) == free.end(); });
}

bool GradientBuilder::carries_divisor(TensorId t) const {
    bool any = false;
    for (size_t i = 0; i < primal_; ++i) {
        const Equation& q = p_.equations[i];
        if (q.lhs != t) continue;
        const Expr& e = p_.expr(q.rhs);
        if (any || q.update != Update::Set || e.kind == ExprKind::Scan ||
            (e.kind == ExprKind::Reduce && e.reduce != ReduceOp::Sum))
            return false;
        any = true;
    }
    return any;
}

ExprId GradientBuilder::with_results(ExprId root) {
    Rewriter r = in_place(p_);
    r.replace = [&](Rewriter&, ExprId e) -> ExprId {
        if (p_.expr(e).kind != ExprKind::Call) return kNone;
        for (size_t i = 0; i < primal_; ++i) {
            const Equation q = p_.equations[i];
            if (q.rhs == e && exact(p_, q) && info(p_.expr(e).fn).cost != CostClass::Simple)
                return p_.load(q.lhs, q.at);
        }
        return kNone;
    };
    return r(root);
}

ExprId GradientBuilder::divided(ExprId value, ExprId over) {
    if (over == kNone) return value;
    over = p_.cast(over, p_.expr(value).dtype);
    // A factor f of the value, where some t[i] = f'[i] / over'[i] of the operator is f / over.
    std::vector<ExprId> factors{value};
    for (size_t i = 0; i < factors.size(); ++i) {
        const Expr e = p_.expr(factors[i]);
        if (e.kind == ExprKind::Call && (e.fn == Fn::Mul || e.fn == Fn::Neg))
            factors.insert(factors.end(), e.args.begin(), e.args.end());
    }
    for (size_t i = 0; i < primal_; ++i) {
        const Equation q = p_.equations[i];
        const Expr quotient = p_.expr(q.rhs);
        if (!exact(p_, q) || quotient.kind != ExprKind::Call || quotient.fn != Fn::Div) continue;
        for (ExprId f : factors) {
            std::map<VarId, ExprId> by;
            if (f == value && factors.size() > 1) continue;
            if (!matches(p_, quotient.args[1], over, by) || !matches(p_, quotient.args[0], f, by)) continue;
            Rewriter at = in_place(p_);
            for (const auto& [v, e] : by) {
                at.bound.erase(v);
                at.vars[v] = e;
            }
            std::vector<ExprId> place;
            for (ExprId a : q.at) place.push_back(at(a));
            const ExprId result = p_.load(q.lhs, place);
            bool done = false;  // one of several equal factors is taken
            Rewriter without = in_place(p_);
            without.replace = [&](Rewriter& self, ExprId e) -> ExprId {
                const Expr x = p_.expr(e);
                if (e == f) return done ? e : (done = true, result);
                if (x.kind != ExprKind::Call || (x.fn != Fn::Mul && x.fn != Fn::Neg)) return e;
                const ExprId first = self(x.args[0]);
                return x.fn == Fn::Neg ? x_.neg(first) : x_.mul(first, done ? x.args[1] : self(x.args[1]));
            };
            return without(value);
        }
    }
    return x_.div(value, over);
}

}  // namespace opwright::derive
