// What does not change along a loop is computed before it.
#include <algorithm>
#include <cctype>

#include "target/cuda/lower.h"

namespace opwright::target::cuda {
using namespace math;

namespace {
bool divides(const Program& p, ExprId e) {
    const Expr& x = p.expr(e);
    return (x.kind == ExprKind::Call && (x.fn == Fn::FloorDiv || x.fn == Fn::Mod)) ||
           std::any_of(x.args.begin(), x.args.end(), [&](ExprId a) { return divides(p, a); });
}
}  // namespace

bool Point::hoistable(ExprId e, VarId lane) const {
    for (VarId v : c_.p.free_vars(e))
        if (v == lane || !bound(v)) return false;
    for (ExprId l : loads_in(c_.p, e, true)) {
        const Expr& x = c_.p.expr(l);
        const bool held = held_.count(x.ref) > 0;
        if (kept_out_.count(x.ref) || (c_.pointers[x.ref].empty() && !held)) return false;
        // An index that is data may be outside: that counts only where the loop has a turn.
        const size_t rank = c_.p.tensors[x.ref].shape.size();
        for (size_t d = 0; d < rank; ++d)
            if (!held && !affine(c_.p, x.args[d])) return false;
    }
    return true;
}

void Point::hoist(ExprId root, VarId lane) {
    if (known(root)) return;
    const Expr& x = c_.p.expr(root);
    switch (x.kind) {
        case ExprKind::Literal:
        case ExprKind::Index:
        case ExprKind::Size:
        case ExprKind::Inside:
        case ExprKind::Scan: return;
        default: break;
    }
    if (is_position(root) && !divides(c_.p, root)) return;  // the compiler sees through those
    if (hoistable(root, lane)) {
        const Operand v = eval(root);
        const bool name =
            std::all_of(v.text.begin(), v.text.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
        if (!name) named(root, "t");
        return;
    }
    if (x.kind == ExprKind::Reduce) return;  // its own loops take care of what it repeats
    const size_t indices = x.kind == ExprKind::Load ? c_.p.tensors[x.ref].shape.size() : 0;
    for (size_t i = indices; i < x.args.size(); ++i) hoist(x.args[i], lane);
}

void Point::hoist_divisors(ExprId root, VarId lane) {
    const Expr& x = c_.p.expr(root);
    if (known(root) || x.kind == ExprKind::Reduce) return;
    for (ExprId a : x.args) hoist_divisors(a, lane);
    if (x.kind != ExprKind::Call || x.fn != Fn::Div || compute_type(x.dtype) != DType::F32) return;
    const ExprId by = x.args[1];
    if (divisors_.count(by) || c_.p.expr(by).kind == ExprKind::Literal || !hoistable(by, lane)) return;
    const std::string n = c_.names.fresh("by");
    c_.code.line("const Divisor {} = {}({});", n, c_.helpers.use("divisor"), eval(by).text);
    divisors_[by] = n;
}

}  // namespace opwright::target::cuda
