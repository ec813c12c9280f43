#include "math/algebra.h"

namespace opwright::math {
namespace {
bool negation(const Expr& e) { return e.kind == ExprKind::Call && e.fn == Fn::Neg; }
}  // namespace

ExprId Algebra::add(ExprId a, ExprId b) const {
    if (is_literal(a, 0)) return b;
    if (is_literal(b, 0)) return a;
    if (a == b) return mul(like(a, 2), a);
    if (negation(p.expr(b))) return sub(a, p.expr(b).args[0]);
    if (negation(p.expr(a))) return sub(b, p.expr(a).args[0]);
    return p.call(Fn::Add, {a, b});
}
ExprId Algebra::sub(ExprId a, ExprId b) const {
    if (is_literal(b, 0)) return a;
    if (is_literal(a, 0)) return neg(b);
    if (negation(p.expr(b))) return add(a, p.expr(b).args[0]);
    return p.call(Fn::Sub, {a, b});
}
ExprId Algebra::mul(ExprId a, ExprId b) const {
    if (is_literal(a, 1)) return b;
    if (is_literal(b, 1)) return a;
    if (is_literal(a, -1)) return neg(b);
    if (is_literal(b, -1)) return neg(a);
    if (negation(p.expr(a))) return neg(mul(p.expr(a).args[0], b));
    if (negation(p.expr(b))) return neg(mul(a, p.expr(b).args[0]));
    return p.call(Fn::Mul, {a, b});
}
ExprId Algebra::div(ExprId a, ExprId b) const {
    if (is_literal(b, 1)) return a;
    if (negation(p.expr(a))) return neg(div(p.expr(a).args[0], b));
    return p.call(Fn::Div, {a, b});
}
ExprId Algebra::both(ExprId a, ExprId b) const {
    if (a == kNone) return b;
    if (b == kNone || a == b) return a;
    return p.call(Fn::And, {a, b});
}

}  // namespace opwright::math
