#include <algorithm>

#include "derive/gradient_builder.h"
#include "math/derivative.h"

namespace opwright::derive {
using namespace math;

ExprId GradientBuilder::masked(const Cotangent& c) {
    return c.where == kNone ? c.value : p_.select(c.where, c.value, x_.like(c.value, 0));
}

void GradientBuilder::add(std::map<ExprId, Cotangent, std::greater<>>& todo, ExprId e, Cotangent c) {
    if (!active(e)) return;
    c.value = p_.cast(c.value, compute_type(p_.expr(e).dtype));
    const auto [it, fresh] = todo.emplace(e, c);
    if (fresh) return;
    Cotangent& have = it->second;
    if (have.where == c.where) {
        have.value = x_.add(have.value, c.value);
    } else {
        const ExprId sum = x_.add(masked(have), masked(c));
        const bool everywhere = have.where == kNone || c.where == kNone;
        have = {sum, everywhere ? kNone : p_.call(Fn::Or, {have.where, c.where})};
    }
}

// Expressions are numbered after their arguments, so going through them from the last to the first meets each when its
// cotangent is complete.
void GradientBuilder::propagate(ExprId root, Cotangent c, const Scope& s) {
    std::map<ExprId, Cotangent, std::greater<>> todo;
    add(todo, root, c);
    while (!todo.empty()) {
        const auto [id, cot] = *todo.begin();
        todo.erase(todo.begin());
        const Expr e = p_.expr(id);
        switch (e.kind) {
            case ExprKind::Load: {
                std::vector<ExprId> at(e.args.begin(),
                                       e.args.begin() + static_cast<std::ptrdiff_t>(p_.tensors[e.ref].shape.size()));
                if (e.outside == Outside::Value)
                    add(todo, e.args.back(), {cot.value, x_.both(cot.where, p_.call(Fn::Not, {p_.inside(e.ref, at)}))});
                if (active_[e.ref]) contribute({e.ref, std::move(at), e.outside, s, cot});
                break;
            }
            case ExprKind::Cast: add(todo, e.args[0], cot); break;
            case ExprKind::Call:
                if (!propagate_stable(id, cot, todo)) propagate_call(id, cot, todo);
                break;
            default: break;
        }
    }
}

void GradientBuilder::propagate_call(ExprId id, const Cotangent& c, std::map<ExprId, Cotangent, std::greater<>>& todo) {
    const Expr e = p_.expr(id);
    if (e.fn == Fn::Select) {
        add(todo, e.args[1], {c.value, x_.both(c.where, e.args[0])});
        add(todo, e.args[2], {c.value, x_.both(c.where, p_.call(Fn::Not, {e.args[0]}))});
        return;
    }
    for (size_t i = 0; i < e.args.size(); ++i) {
        if (!active(e.args[i])) continue;
        const bool other_constant = e.args.size() > 1 && !active(e.args[1 - i]);
        const Scaled d = times_derivative(p_, id, i, c.value, other_constant);
        if (d.value != kNone) add(todo, e.args[i], {d.value, x_.both(c.where, d.where)});
    }
}

namespace {
// u = c + exp(z) with a number c > 0.
struct Logistic {
    ExprId z = kNone, exp = kNone, constant = kNone;
};
std::optional<Logistic> logistic(const Program& p, ExprId u) {
    const Expr& e = p.expr(u);
    if (e.kind != ExprKind::Call || e.fn != Fn::Add) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
        const Expr &a = p.expr(e.args[i]), &b = p.expr(e.args[1 - i]);
        if (a.kind == ExprKind::Literal && a.number > 0 && b.kind == ExprKind::Call && b.fn == Fn::Exp)
            return Logistic{b.args[0], e.args[1 - i], e.args[i]};
    }
    return std::nullopt;
}
// Whether e is a sum of squares or of absolute values to a power, up to factors: then its derivative is 0 where it is
// 0.
bool is_sum_of_powers(const Program& p, ExprId id, const std::vector<std::pair<TensorId, ExprId>>& sums) {
    const Expr& e = p.expr(id);
    switch (e.kind) {
        case ExprKind::Cast: return is_sum_of_powers(p, e.args[0], sums);
        case ExprKind::Reduce: return e.reduce == ReduceOp::Sum && is_sum_of_powers(p, e.args[0], sums);
        case ExprKind::Load: {
            const auto it = std::find_if(sums.begin(), sums.end(), [&](const auto& s) { return s.first == e.ref; });
            return it != sums.end() && is_sum_of_powers(p, it->second, sums);
        }
        case ExprKind::Call: break;
        default: return false;
    }
    switch (e.fn) {
        case Fn::Add: return is_sum_of_powers(p, e.args[0], sums) && is_sum_of_powers(p, e.args[1], sums);
        case Fn::Abs: return true;
        case Fn::Mul:
            if (e.args[0] == e.args[1]) return true;
            for (size_t i = 0; i < 2; ++i)
                if (p.expr(e.args[i]).kind == ExprKind::Literal && is_sum_of_powers(p, e.args[1 - i], sums))
                    return true;
            return false;
        case Fn::Div: {
            const Expr& by = p.expr(e.args[1]);
            const ExprKind k = by.kind == ExprKind::Cast ? p.expr(by.args[0]).kind : by.kind;
            return (k == ExprKind::Literal || k == ExprKind::Size) && is_sum_of_powers(p, e.args[0], sums);
        }
        case Fn::Pow: {
            const Expr& n = p.expr(e.args[1]);
            if (n.kind != ExprKind::Literal || n.number < 1) return false;
            return n.number == 2 || is_sum_of_powers(p, e.args[0], sums);
        }
        default: return false;
    }
}
}  // namespace

// Forms in which the plain rules would meet infinity times 0.
bool GradientBuilder::propagate_stable(ExprId id, const Cotangent& c,
                                       std::map<ExprId, Cotangent, std::greater<>>& todo) {
    const Expr e = p_.expr(id);
    const DType t = p_.expr(c.value).dtype;
    const auto number = [&](double v) { return p_.literal(v, t); };
    if (e.fn == Fn::Div || e.fn == Fn::Log || e.fn == Fn::Log1p) {
        // The derivative of c + exp(z) over its value, exp(z) / (c + exp(z)), from whichever side does not overflow.
        ExprId u = e.args[e.fn == Fn::Div ? 1 : 0];
        std::optional<Logistic> l;
        if (e.fn == Fn::Log1p) {
            const Expr& a = p_.expr(u);
            if (a.kind == ExprKind::Call && a.fn == Fn::Exp) {
                l = Logistic{a.args[0], u, number(1)};
                u = x_.add(number(1), u);
            }
        } else {
            l = logistic(p_, u);
        }
        if (!l || !active(l->z)) return false;
        const ExprId share =
            p_.select(p_.call(Fn::Gt, {l->z, number(0)}), x_.sub(number(1), x_.div(l->constant, u)), x_.div(l->exp, u));
        if (e.fn != Fn::Div) {
            add(todo, l->z, {x_.mul(c.value, share), c.where});
            return true;
        }
        add(todo, l->z, {x_.neg(x_.mul(x_.mul(c.value, id), share)), c.where});
        if (active(e.args[0])) add(todo, e.args[0], {x_.div(c.value, u), c.where});
        return true;
    }
    const bool root = e.fn == Fn::Sqrt || (e.fn == Fn::Pow && p_.expr(e.args[1]).kind == ExprKind::Literal &&
                                           p_.expr(e.args[1]).number < 1);
    if (root) {
        // A norm: 0 is where it has its minimum, and 0 the subgradient there.
        std::vector<std::pair<TensorId, ExprId>> sums;
        std::vector<bool> several(p_.tensors.size());
        for (size_t i = 0; i < primal_; ++i) {
            const Equation& q = p_.equations[i];
            if (q.update != Update::Set) several[q.lhs] = true;
            sums.emplace_back(q.lhs, q.rhs);
        }
        std::erase_if(sums, [&](const auto& s) { return several[s.first]; });
        if (!is_sum_of_powers(p_, e.args[0], sums)) return false;
        const Scaled d = times_derivative(p_, id, 0, c.value, true);
        const ExprId positive = p_.call(Fn::Ne, {e.args[0], p_.literal(0, p_.expr(e.args[0]).dtype)});
        add(todo, e.args[0], {d.value, x_.both(c.where, positive)});
        return true;
    }
    return false;
}

}  // namespace opwright::derive
