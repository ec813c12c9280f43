#include "target/cpu/lower/turned.h"

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

std::optional<Staged> stage(Context& c, const Equation& q, VarId lane, int64_t lane_tile, VarId across, int64_t across_tile,
                            int lanes) {
    Staged s{.lanes = lanes, .row = lane_tile + lanes};
    s.memory.dtype = c.math.tensors[q.lhs].dtype;
    s.memory.strides.assign(q.at.size(), 0);
    int found = 0;
    for (size_t d = 0; d < q.at.size(); ++d) {
        const math::Expr& x = c.math.expr(q.at[d]);
        if (x.kind != ExprKind::Index) return std::nullopt;
        if (x.ref == lane) s.lane_dim = d, ++found;
        if (x.ref == across) s.across_dim = d, ++found;
    }
    if (found != 2) return std::nullopt;
    s.memory.strides[s.lane_dim] = 1;
    s.memory.strides[s.across_dim] = s.row;
    s.memory.buffer = c.b.scratch("turned", s.memory.dtype, c.b.i64(across_tile * s.row));
    return s;
}

Storage Staged::at(LExpr lane, LExpr across) const {
    Storage r = memory;
    r.origin.assign(r.strides.size(), {});
    r.origin[lane_dim] = lane;
    r.origin[across_dim] = across;
    return r;
}

void stream_rows(Context& c, Point& point, const Equation& q, const Staged& from, const Span& lane, const Span& across) {
    loop::Builder& b = c.b;
    const loop::BufferId to = c.storage[q.lhs].buffer;
    const int lanes = from.lanes;
    const LExpr count = b.let("count", lane.end - lane.begin);
    b.loop(c.math.vars[across.var].name, across.begin, across.end, 1, [&](LExpr k) {
        const Point::Scope scope = point.save();
        point.set_lanes(lane.var, lanes, 1, {});
        point.bind(lane.var, lane.begin);
        point.bind(across.var, k);
        const LExpr place = b.let("place", point.place(q)), row = b.let("row", (k - across.begin) * from.row);
        point.restore(scope);
        // Up to the first vector that lies on its own line, and behind the last, under a mask.
        const LExpr first = b.let("first", loop::min(loop::mod(-place, lanes), count));
        const LExpr last = b.let("last", first + loop::floordiv(count - first, lanes) * lanes);
        const auto masked = [&](LExpr begin, LExpr end) {
            b.loop("i", begin, end, lanes, [&](LExpr i) {
                const LExpr mask = loop::first_lanes(end - i, lanes);
                b.store(to, place + i, b.load(from.memory.buffer, row + i, lanes, mask), mask);
            });
        };
        masked(b.i64(0), first);
        b.loop("i", first, last, lanes,
               [&](LExpr i) { b.store_streaming(to, place + i, b.load(from.memory.buffer, row + i, lanes)); });
        masked(last, count);
    });
}

}  // namespace opwright::target::cpu
