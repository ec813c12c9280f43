// Arithmetic on expressions of a Program that leaves out what does nothing: factors of 1, terms of 0. For expressions
// that are derived, not written: unlike Program's own constructors these may drop the sign of a zero.
#pragma once
#include "math/program.h"

namespace opwright::math {

struct Algebra {
    Program& p;

    DType type(ExprId e) const { return p.expr(e).dtype; }
    bool is_literal(ExprId e, double v) const {
        const Expr& x = p.expr(e);
        return x.kind == ExprKind::Literal && (is_float(x.dtype) ? x.number == v : static_cast<double>(x.integer) == v);
    }
    ExprId like(ExprId e, double v) const { return p.literal(v, type(e)); }  // the number v in the type of e

    ExprId neg(ExprId a) const { return p.call(Fn::Neg, {a}); }
    ExprId add(ExprId a, ExprId b) const;
    ExprId sub(ExprId a, ExprId b) const;
    ExprId mul(ExprId a, ExprId b) const;
    ExprId div(ExprId a, ExprId b) const;
    ExprId call(Fn f, ExprId a) const { return p.call(f, {a}); }
    ExprId call(Fn f, ExprId a, ExprId b) const { return p.call(f, {a, b}); }
    ExprId both(ExprId a, ExprId b) const;  // a and b, where kNone stands for true
};

}  // namespace opwright::math
