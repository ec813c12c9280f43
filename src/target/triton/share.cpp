#include "target/triton/share.h"

namespace opwright::target::triton {
using namespace math;

namespace {

// The equation that alone sets the tensor that e reads; nullptr: e is no such read.
const Equation* definition(const Program& p, ExprId e) {
    const Expr& x = p.expr(e);
    if (x.kind != ExprKind::Load || x.outside != Outside::Error) return nullptr;
    const Equation* r = nullptr;
    for (const Equation& q : p.equations)
        if (q.lhs == x.ref) {
            if (r || q.update != Update::Set) return nullptr;
            r = &q;
        }
    // Read where it was written: then its right-hand side is the value.
    if (r)
        for (size_t d = 0; d < r->at.size(); ++d)
            if (r->at[d] != x.args[d]) return nullptr;
    return r;
}
ExprId without_casts(const Program& p, ExprId e) {
    while (p.expr(e).kind == ExprKind::Cast && is_float(p.expr(e).dtype) && is_float(p.expr(p.expr(e).args[0]).dtype))
        e = p.expr(e).args[0];
    return e;
}
// e, or what it reads, through casts.
ExprId resolved(const Program& p, ExprId e) {
    e = without_casts(p, e);
    if (const Equation* q = definition(p, e)) return without_casts(p, q->rhs);
    return e;
}
const Expr* fold_of(const Program& p, ExprId e, ReduceOp op) {
    const Expr& x = p.expr(resolved(p, e));
    return x.kind == ExprKind::Reduce && x.reduce == op && x.args.size() == 1 ? &x : nullptr;
}
}  // namespace

ExprId shifted_exponent(const Program& p, ExprId term, const std::vector<VarId>& fold) {
    const Expr& e = p.expr(resolved(p, term));
    if (e.kind != ExprKind::Call || e.fn != Fn::Exp || e.dtype != DType::F32) return kNone;
    const Expr& difference = p.expr(e.args[0]);
    if (difference.kind != ExprKind::Call || difference.fn != Fn::Sub) return kNone;
    const ExprId a = without_casts(p, difference.args[0]);
    const Expr* largest = fold_of(p, difference.args[1], ReduceOp::Max);
    if (!largest || largest->vars != fold || without_casts(p, largest->args[0]) != a) return kNone;
    return a;
}

bool is_share(const Program& p, ExprId part, ExprId total) {
    const Expr* sum = fold_of(p, total, ReduceOp::Sum);
    return sum && resolved(p, sum->args[0]) == resolved(p, part) && shifted_exponent(p, part, sum->vars) != kNone;
}

}  // namespace opwright::target::triton
