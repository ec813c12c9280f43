#include "target/triton/range.h"

namespace opwright::target::triton {
using namespace math;

namespace {
// What a < b is, where the ranges of both tell.
std::optional<bool> decided(const Program& p, ExprId e, const std::function<std::optional<Range>(ExprId)>& data) {
    const Expr& x = p.expr(e);
    if (x.kind != ExprKind::Call || x.fn != Fn::Lt) return std::nullopt;
    const auto a = index_range(p, x.args[0], data), b = index_range(p, x.args[1], data);
    if (!a || !b) return std::nullopt;
    if ((a->low - b->high).lower() >= 0) return false;
    if ((b->low - a->high).lower() >= 1) return true;
    return std::nullopt;
}
}  // namespace

std::optional<Range> index_range(const Program& p, ExprId e, const std::function<std::optional<Range>(ExprId)>& data) {
    const Expr& x = p.expr(e);
    if (x.dtype != DType::I64) return std::nullopt;
    if (x.kind == ExprKind::Index) return Range{0, p.vars[x.ref].extent - 1};
    if (x.kind == ExprKind::Literal) return Range{x.integer, x.integer};
    if (x.kind == ExprKind::Size) return Range{x.sym, x.sym};
    if (data && (x.kind == ExprKind::Load || x.kind == ExprKind::Cast)) return data(e);
    if (x.kind != ExprKind::Call) return std::nullopt;
    if (x.fn == Fn::Select)
        if (const auto c = decided(p, x.args[0], data)) return index_range(p, x.args[*c ? 1 : 2], data);
    const auto a = index_range(p, x.args[x.fn == Fn::Select ? 1 : 0], data);
    if (!a) return std::nullopt;
    if (x.fn == Fn::Neg) return Range{-a->high, -a->low};
    if (x.args.size() < 2) return std::nullopt;
    const auto b = index_range(p, x.args[x.fn == Fn::Select ? 2 : 1], data);
    if (!b) return std::nullopt;
    switch (x.fn) {
        case Fn::Add: return Range{a->low + b->low, a->high + b->high};
        case Fn::Sub: return Range{a->low - b->high, a->high - b->low};
        case Fn::Mul: {
            const bool constant = b->low == b->high, first = a->low == a->high;
            if (!constant && !first) {
                if (a->low.lower() < 0 || b->low.lower() < 0) return std::nullopt;
                return Range{a->low * b->low, a->high * b->high};
            }
            const Range& r = constant ? *a : *b;
            const Sym c = constant ? b->low : a->low;
            if (c.lower() >= 0) return Range{r.low * c, r.high * c};
            if (c.upper() <= 0) return Range{r.high * c, r.low * c};
            return std::nullopt;
        }
        case Fn::FloorDiv:
            if (!(b->low == b->high) || b->low.lower() < 1) return std::nullopt;
            return Range{floor_div(a->low, b->low), floor_div(a->high, b->low)};
        case Fn::Mod:
            if (b->low.lower() < 1) return std::nullopt;
            return Range{0, b->high - 1};
        case Fn::Min: return Range{min(a->low, b->low), min(a->high, b->high)};
        case Fn::Max: return Range{max(a->low, b->low), max(a->high, b->high)};
        case Fn::Select: return Range{min(a->low, b->low), max(a->high, b->high)};
        default: return std::nullopt;
    }
}

}  // namespace opwright::target::triton
