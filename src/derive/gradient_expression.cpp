#include <algorithm>

#include "derive/gradient_builder.h"
#include "derive/stable.h"
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
    if (have.over != c.over) {
        have = divided(have);
        c = divided(c);
    }
    if (have.where == c.where) {
        have.value = x_.add(have.value, c.value);
    } else {
        const ExprId sum = x_.add(masked(have), masked(c));
        const bool everywhere = have.where == kNone || c.where == kNone;
        have = {sum, everywhere ? kNone : p_.call(Fn::Or, {have.where, c.where}), have.over};
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
                    add(todo, e.args.back(),
                        {cot.value, x_.both(cot.where, p_.call(Fn::Not, {p_.inside(e.ref, at)})), cot.over});
                if (active_[e.ref]) contribute({e.ref, std::move(at), e.outside, s, cot});
                break;
            }
            case ExprKind::Cast: add(todo, e.args[0], cot); break;
            case ExprKind::Call:
                if (!propagate_stable(id, cot, todo)) propagate_call(id, cot, s, todo);
                break;
            default: break;
        }
    }
}

void GradientBuilder::propagate_call(ExprId id, const Cotangent& c, const Scope& s,
                                     std::map<ExprId, Cotangent, std::greater<>>& todo) {
    const Expr e = p_.expr(id);
    if (e.fn == Fn::Select) {
        add(todo, e.args[1], {c.value, x_.both(c.where, e.args[0]), c.over});
        add(todo, e.args[2], {c.value, x_.both(c.where, p_.call(Fn::Not, {e.args[0]})), c.over});
        return;
    }
    for (size_t i = 0; i < e.args.size(); ++i) {
        if (!active(e.args[i])) continue;
        if (e.fn == Fn::Div && c.over == kNone && shared_divisor(e.args[1], s)) {
            const ExprId quotient = p_.cast(id, p_.expr(c.value).dtype);
            add(todo, e.args[i], {i == 0 ? c.value : x_.neg(x_.mul(c.value, quotient)), c.where, e.args[1]});
            continue;
        }
        const bool other_constant = e.args.size() > 1 && !active(e.args[1 - i]);
        const Scaled d = times_derivative(p_, id, i, c.value, other_constant);
        if (d.value != kNone) add(todo, e.args[i], {d.value, x_.both(c.where, d.where), c.over});
    }
}

bool GradientBuilder::propagate_stable(ExprId id, const Cotangent& c,
                                       std::map<ExprId, Cotangent, std::greater<>>& todo) {
    const Expr e = p_.expr(id);
    if (const auto l = logistic(p_, id); l && active(l->z)) {
        if (e.fn != Fn::Div) {
            add(todo, l->z, {x_.mul(c.value, l->share), c.where, c.over});
            return true;
        }
        add(todo, l->z, {x_.neg(x_.mul(x_.mul(c.value, id), l->share)), c.where, c.over});
        if (active(e.args[0])) add(todo, e.args[0], {x_.div(c.value, l->u), c.where, c.over});
        return true;
    }
    const ExprId positive = norm_is_positive(p_, id);
    if (positive == kNone) return false;
    add(todo, e.args[0], {times_derivative(p_, id, 0, c.value, true).value, x_.both(c.where, positive), c.over});
    return true;
}

}  // namespace opwright::derive
