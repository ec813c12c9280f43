#include "target/cpu/lower/slab.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using schedule::Window;
using schedule::WindowAxis;

Slab::Slab(Context& c, Point& point, ExprId factor, const Window& w, std::vector<VarId> channels, int lanes, DType type,
           bool channels_inner)
    : c_(c),
      b_(c.b),
      point_(point),
      factor_(factor),
      w_(w),
      channels_(std::move(channels)),
      lanes_(lanes),
      type_(type),
      inner_(channels_inner) {}

void Slab::measure(const Sym& rows, const Sym& columns, const Sym& channels) {
    const Sym reach_y(w_.row.reach()), reach_x(w_.column.reach());
    // 64 bytes more than a multiple of 128 apart: never at a distance that maps all to one set of the cache.
    const auto odd = [&](const Sym& n) { return ceil_div(n, 2 * lanes_) * Sym(2 * lanes_) + Sym(lanes_); };
    const auto n = channels.constant();
    if (!inner_)
        column_ = 1;
    else if (n && *n <= 4 * lanes_)
        column_ = channels;
    else
        column_ = odd(channels);
    row_ = (max(columns, 1) + reach_x) * column_;
    plane_ = (rows + reach_y) * row_;
    channel_ = inner_ ? Sym(1) : odd(plane_ * planes());
}

Sym Slab::elements(const Sym& channels) const { return inner_ ? plane_ * planes() : channels * channel_; }

LExpr Slab::distance(LExpr y, LExpr x) {
    const auto part = [&](const WindowAxis& a, LExpr t) {
        return std::pair{a.stride == 1 ? b_.i64(0) : loop::mod(t, a.stride),
                         a.stride == 1 ? t * a.dilation : loop::floordiv(t, a.stride)};
    };
    const auto [plane_y, shift_y] = part(w_.row, y);
    const auto [plane_x, shift_x] = part(w_.column, x);
    return (plane_y * w_.column.planes() + plane_x) * point_.sym(plane_) + shift_y * point_.sym(row_) +
           shift_x * point_.sym(column_);
}

void Slab::fill(loop::BufferId buffer, const Box& box, LExpr c0, LExpr c1) {
    // Every row of the planes, those of one channel where channels are not inner.
    const auto rows = [&](LExpr at, const std::function<void(LExpr row, LExpr columns)>& body) {
        each_plane(w_.row, [&](LExpr py) {
            each_plane(w_.column, [&](LExpr px) {
                const LExpr plane = b_.let("plane", at + (py * w_.column.planes() + px) * point_.sym(plane_));
                const LExpr rows = b_.let("rows", box.y1 - box.y0 + reach(w_.row, py));
                const LExpr columns = b_.let("columns", box.x1 - box.x0 + reach(w_.column, px));
                b_.loop("y", b_.i64(0), rows, 1, [&](LExpr y) {
                    const Point::Scope s = point_.save();
                    if (w_.row.out != kNone) point_.bind(w_.row.out, box.y0 + y);
                    body(b_.let("row", plane + y * point_.sym(row_)), columns);
                    point_.restore(s);
                });
            });
        });
    };
    const Point::Scope scope = point_.save();
    if (inner_) {
        rows(b_.i64(0), [&](LExpr row, LExpr columns) {
            b_.loop("x", b_.i64(0), columns, 1, [&](LExpr x) {
                const Point::Scope s = point_.save();
                point_.bind(w_.column.out, box.x0 + x);
                run(buffer, b_.let("at", row + x * point_.sym(column_)), channels_[0], c0, c1 - c0);
                point_.restore(s);
            });
        });
    } else {
        b_.loop("c", c0, c1, 1, [&](LExpr c) {
            const Point::Scope s = point_.save();
            decode(c_, point_, channels_, c);
            rows(b_.let("at", (c - c0) * point_.sym(channel_)),
                 [&](LExpr row, LExpr columns) { run(buffer, row, w_.column.out, box.x0, columns); });
            point_.restore(s);
        });
    }
    point_.restore(scope);
}

void Slab::each_plane(const WindowAxis& a, const std::function<void(LExpr)>& body) {
    const auto bound = [&](LExpr r) {
        const Point::Scope scope = point_.save();
        if (a.tap != kNone) point_.bind(a.tap, r);
        body(r);
        point_.restore(scope);
    };
    // A loop of one turn too: points beyond the output are read as if they had a tap, whose bounds must not be known.
    if (a.tap == kNone) return bound(b_.i64(0));
    b_.loop("r", b_.i64(0), b_.i64(a.planes()), 1, bound);
}

// The largest shift in plane r.
LExpr Slab::reach(const WindowAxis& a, LExpr r) {
    if (a.stride == 1) return b_.i64(a.reach());
    return loop::floordiv(b_.i64(a.taps - 1) - r, a.stride);
}

void Slab::run(loop::BufferId buffer, LExpr at, VarId lane, LExpr first, LExpr count) {
    const auto step = [&](LExpr x, LExpr mask) {
        const Point::Scope s = point_.save();
        point_.set_lanes(lane, lanes_, 1, mask);
        point_.bind(lane, first + x);
        LExpr v = point_.broadcast(factor_value(point_, factor_, type_));
        if (mask) v = loop::select(mask, v, loop::broadcast(b_.literal(type_, 0), lanes_));
        b_.store(buffer, at + x, v);
        point_.restore(s);
    };
    const auto tested = [&](LExpr from, LExpr to) {
        b_.loop("x", from, to, lanes_, [&](LExpr x) { step(x, loop::first_lanes(count - x, lanes_)); });
    };
    const Interior in = interior(c_, point_, lane, {}, {factor_});
    LExpr begin = b_.i64(0), end = count;
    if (in.lanes) {
        begin = loop::min(loop::max(in.lanes->begin - first, b_.i64(0)), count);
        end = loop::min(in.lanes->end - first, count);
    }
    if (in.whole) begin = loop::select(in.whole, begin, count);
    begin = b_.let("begin", loop::min(loop::ceildiv(begin, lanes_) * lanes_, count));
    const LExpr vectors = loop::floordiv(loop::max(end - begin, b_.i64(0)), lanes_);
    const LExpr rest = b_.let("rest", begin + vectors * lanes_);
    const bool bounded = in.lanes || in.whole;
    if (bounded) tested(b_.i64(0), begin);
    point_.set_interior(bounded);
    point_.set_whole_inside(static_cast<bool>(in.whole));
    b_.loop("x", begin, rest, lanes_, [&](LExpr x) { step(x, {}); });
    point_.set_interior(false);
    point_.set_whole_inside(false);
    tested(rest, count);
}

}  // namespace opwright::target::cpu
