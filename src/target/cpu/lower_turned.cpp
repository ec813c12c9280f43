#include "target/cpu/lower_turned.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;

bool turned(const Program& p, ExprId load, VarId lane, VarId across) {
    const math::Expr& x = p.expr(load);
    const auto& shape = p.tensors[x.ref].shape;
    Sym along = 0, side = 0, step = 1;
    for (size_t d = shape.size(); d-- > 0;) {
        const auto f = affine(p, x.args[d]);
        if (!f) return false;
        along = along + f->coefficient(lane) * step;
        side = side + f->coefficient(across) * step;
        step = step * shape[d];
    }
    return side.is(1) && !along.is(0) && !along.is(1);
}

std::vector<LExpr> turn(Context& c, Point& point, ExprId load, const Square& s) {
    loop::Builder& b = c.b;
    const Point::Scope scope = point.save();
    const Point::Ahead ahead{s.lane, {c.math.expr(load).ref}, 2 * s.lanes};  // the square after the next
    std::vector<LExpr> rows;
    for (int l = 0; l < s.lanes; ++l) {
        point.set_lanes(s.across, s.lanes, 1, {});
        point.bind(s.across, s.start);
        const LExpr row = s.first + l;
        point.bind(s.lane, s.last ? b.let("row", loop::min(row, s.last)) : row);
        point.set_ahead(&ahead);
        rows.push_back(b.let("row", point.broadcast(point.eval(load, 0))));
        point.set_ahead(nullptr);
        point.restore(scope);
    }
    // Elements of two vectors in turn, log2(lanes) times over: the perfect shuffle of rows and columns.
    const auto n = static_cast<size_t>(s.lanes);
    std::vector<int> low, high;
    for (int i = 0; i < s.lanes; ++i) {
        low.push_back(i / 2 + i % 2 * s.lanes);
        high.push_back(s.lanes / 2 + i / 2 + i % 2 * s.lanes);
    }
    for (size_t done = 1; done < n; done *= 2) {
        std::vector<LExpr> next(n);
        for (size_t i = 0; i < n / 2; ++i) {
            next[2 * i] = b.let("turned", loop::permute_lanes(rows[i], rows[i + n / 2], low));
            next[2 * i + 1] = b.let("turned", loop::permute_lanes(rows[i], rows[i + n / 2], high));
        }
        rows = std::move(next);
    }
    return rows;
}

}  // namespace opwright::target::cpu
