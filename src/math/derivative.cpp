#include "math/derivative.h"

#include <cmath>
#include <numbers>

#include "math/algebra.h"

namespace opwright::math {
namespace {
constexpr double kPi = std::numbers::pi, kLn2 = std::numbers::ln2;

class Derivative {
public:
    Derivative(Program& p, ExprId call, ExprId factor)
        : p_(p), x_{p}, g_(factor), e_(p.expr(call)), t_(p.expr(factor).dtype), y_(widened(call)) {
        a_ = widened(e_.args[0]);
        if (e_.args.size() > 1) b_ = widened(e_.args[1]);
    }

    ExprId by_first() {
        switch (e_.fn) {
            case Fn::Neg: return x_.neg(g_);
            case Fn::Abs: return x_.mul(g_, x_.call(Fn::Sign, a_));
            case Fn::Sqrt: return x_.div(x_.mul(number(0.5), g_), y_);
            case Fn::Rsqrt: return x_.mul(x_.mul(number(-0.5), g_), x_.mul(y_, x_.mul(y_, y_)));
            case Fn::Exp: return x_.mul(g_, y_);
            case Fn::Exp2: return x_.mul(x_.mul(number(kLn2), g_), y_);
            case Fn::Expm1: return x_.mul(g_, x_.call(Fn::Exp, a_));
            case Fn::Log: return x_.div(g_, a_);
            case Fn::Log2: return x_.div(x_.mul(number(1 / kLn2), g_), a_);
            case Fn::Log1p: return x_.div(g_, x_.add(number(1), a_));
            case Fn::Sin: return x_.mul(g_, x_.call(Fn::Cos, a_));
            case Fn::Cos: return x_.neg(x_.mul(g_, x_.call(Fn::Sin, a_)));
            case Fn::Tan: return x_.mul(g_, x_.add(number(1), x_.mul(y_, y_)));
            case Fn::Asin: return x_.div(g_, root(one_minus_square(a_)));
            case Fn::Acos: return x_.neg(x_.div(g_, root(one_minus_square(a_))));
            case Fn::Atan: return x_.div(g_, x_.add(number(1), x_.mul(a_, a_)));
            case Fn::Sinh: return x_.mul(g_, x_.call(Fn::Cosh, a_));
            case Fn::Cosh: return x_.mul(g_, x_.call(Fn::Sinh, a_));
            case Fn::Tanh: return x_.mul(g_, one_minus_square(y_));
            case Fn::Asinh: return x_.div(g_, root(x_.add(number(1), x_.mul(a_, a_))));
            case Fn::Acosh: return x_.div(g_, root(x_.mul(x_.sub(a_, number(1)), x_.add(a_, number(1)))));
            case Fn::Atanh: return x_.div(g_, one_minus_square(a_));
            case Fn::Erf:
                return x_.mul(x_.mul(number(2 / std::sqrt(kPi)), g_), x_.call(Fn::Exp, x_.neg(x_.mul(a_, a_))));
            case Fn::Add:
            case Fn::Sub:
            case Fn::Mod:
            case Fn::Fmod: return g_;
            case Fn::Mul: return x_.mul(g_, b_);
            case Fn::Div: return x_.div(g_, b_);
            case Fn::Pow: return by_base();
            case Fn::Atan2: return x_.div(x_.mul(g_, b_), x_.add(x_.mul(a_, a_), x_.mul(b_, b_)));
            case Fn::Sign:
            case Fn::Floor:
            case Fn::Ceil:
            case Fn::Round:
            case Fn::Trunc:
            case Fn::Not:
            case Fn::BitNot:
            case Fn::IsNan:
            case Fn::IsInf:
            case Fn::FloorDiv:
            case Fn::Min:
            case Fn::Max:
            case Fn::And:
            case Fn::Or:
            case Fn::Xor:
            case Fn::BitAnd:
            case Fn::BitOr:
            case Fn::BitXor:
            case Fn::Shl:
            case Fn::Shr:
            case Fn::Eq:
            case Fn::Ne:
            case Fn::Lt:
            case Fn::Le:
            case Fn::Gt:
            case Fn::Ge:
            case Fn::Select: return kNone;
        }
        return kNone;
    }

    ExprId by_second() {
        switch (e_.fn) {
            case Fn::Add: return g_;
            case Fn::Sub: return x_.neg(g_);
            case Fn::Mul: return x_.mul(g_, a_);
            case Fn::Div: return x_.neg(x_.div(x_.mul(g_, y_), b_));
            case Fn::Mod: return x_.neg(x_.mul(g_, x_.call(Fn::Floor, x_.div(a_, b_))));
            case Fn::Fmod: return x_.neg(x_.mul(g_, x_.call(Fn::Trunc, x_.div(a_, b_))));
            case Fn::Pow: {  // 0 to a power that is not negative does not change with the power
                const ExprId zero =
                    p_.call(Fn::And, {p_.call(Fn::Eq, {a_, number(0)}), p_.call(Fn::Ge, {b_, number(0)})});
                return p_.select(zero, number(0), x_.mul(x_.mul(g_, y_), x_.call(Fn::Log, a_)));
            }
            case Fn::Atan2: return x_.neg(x_.div(x_.mul(g_, a_), x_.add(x_.mul(a_, a_), x_.mul(b_, b_))));
            default: return kNone;
        }
    }

    Scaled of_extreme(size_t i, bool other_constant) {
        const ExprId mine = i == 0 ? a_ : b_, other = i == 0 ? b_ : a_;
        const bool max = e_.fn == Fn::Max;
        if (other_constant) return {g_, p_.call(max ? Fn::Gt : Fn::Lt, {mine, other})};
        const ExprId shared = p_.select(p_.call(Fn::Eq, {mine, other}), x_.mul(number(0.5), g_), g_);
        return {shared, p_.call(max ? Fn::Ge : Fn::Le, {mine, other})};
    }

private:
    ExprId number(double v) { return p_.literal(v, t_); }
    ExprId widened(ExprId e) { return p_.cast(e, t_); }
    ExprId root(ExprId e) { return x_.call(Fn::Sqrt, e); }
    ExprId one_minus_square(ExprId v) { return x_.mul(x_.sub(number(1), v), x_.add(number(1), v)); }
    ExprId by_base() {
        const Expr& b = p_.expr(b_);
        if (b.kind == ExprKind::Literal) {
            const double n = b.number;
            if (n == 0) return kNone;
            if (n == 1) return g_;
            if (n == 2) return x_.mul(x_.mul(number(2), g_), a_);
            if (n == 0.5) return x_.div(x_.mul(number(0.5), g_), y_);
            if (n == -1) return x_.neg(x_.mul(g_, x_.mul(y_, y_)));
            return x_.mul(x_.mul(b_, g_), p_.call(Fn::Pow, {a_, number(n - 1)}));
        }
        const ExprId r = x_.mul(x_.mul(g_, b_), p_.call(Fn::Pow, {a_, x_.sub(b_, number(1))}));
        return p_.select(p_.call(Fn::Eq, {b_, number(0)}), number(0), r);
    }

    Program& p_;
    Algebra x_;
    ExprId g_;
    Expr e_;  // a copy: the pool grows
    DType t_;
    ExprId y_, a_ = kNone, b_ = kNone;
};
}  // namespace

Scaled times_derivative(Program& p, ExprId call, size_t i, ExprId factor, bool other_constant) {
    const Fn f = p.expr(call).fn;
    if (!is_float(p.expr(call).dtype)) return {};
    Derivative d(p, call, factor);
    if (f == Fn::Max || f == Fn::Min) return d.of_extreme(i, other_constant);
    return {i == 0 ? d.by_first() : d.by_second(), kNone};
}

}  // namespace opwright::math
