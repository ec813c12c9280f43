// Contractions over windows in which each lane has factors of its own, read where they stand: depthwise convolutions
// whose channels come last.
//
// The register tile is some neighbouring points of one row of the output, for one vector of channels. Each element of
// the windows is loaded once for a row of taps and serves every point that it belongs to, so that a tile of eight points
// under three taps loads ten vectors for its 24 multiply-adds. Tiles go along the row, channels within a tile, in the
// order of memory. Only tiles at the ends of a row test where they read; rows of taps outside the tensor count as zeros
// without being read.
#include <algorithm>

#include "target/cpu/lower/contract.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using schedule::Window;
using schedule::WindowAxis;

namespace {
constexpr int64_t kTasks = 8;     // to aim at, so that threads share them out evenly
constexpr int64_t kPoints = 512;  // of a row in one task, at most

class LanewiseLowering : ContractCommon {
public:
    LanewiseLowering(Context& c, size_t nest, const Window& w) : ContractCommon(c, nest), w_(w), windows_(plain(k_.a, true)) {
        if (!windows_) return;
        tested_ = c.math.expr(k_.a).outside == Outside::Value;
        for (size_t d = 0; d < windows_->at.size(); ++d) {
            const Affine& at = windows_->at[d];
            const auto along = [&](const WindowAxis& a) { return a.out != kNone && !at.coefficient(a.out).is(0); };
            const Sym& extent = c.math.tensors[windows_->tensor].shape[d];
            if (along(w.column))
                column_dim_ = d;
            else if (along(w.row))
                row_dim_ = d;
            else if (tested_ && !surely_inside(at, extent))
                windows_.reset();
            if (!windows_) return;
        }
        height_ = w.row.out == kNone ? Sym(1) : c.math.vars[w.row.out].extent;
        width_ = c.math.vars[w.column.out].extent;
        points_ = mr_;
        if (const auto n = width_.constant(); n && *n > 0) {
            const int64_t tiles = (*n + mr_ - 1) / mr_;
            points_ = (*n + tiles - 1) / tiles;
        }
        std::vector<VarId> order;
        for (const WindowAxis* a : {&w.row, &w.column})
            if (a->tap != kNone) order.push_back(a->tap);
        weights_ = factor("b", k_.b, k_.n, order, nr_);
        weights_.shared = !weights_.constant;
    }

    // Along a dim that is no row or column of the windows.
    bool surely_inside(const Affine& at, const Sym& extent) const {
        if (at.terms.empty()) return at.offset.lower() >= 0 && (extent - at.offset).lower() > 0;
        return at.is_plain_var() && c_.math.vars[at.terms[0].first].extent == extent;
    }
    // Whether the windows are a tensor as it stands that rows and columns alone may leave.
    bool possible() const { return windows_.has_value(); }

    void run(Stage stage) {
        const Sym batches = extent(w_.batch), most(kPoints / points_ * points_);
        const Sym column_tiles = max(ceil_div(width_, most), 1),
                  row_tiles = max(1, min(height_, ceil_div(Sym(kTasks), max(batches * column_tiles, 1))));
        tile_columns_ = min(width_, most);
        stage.function = name_;
        stage.tasks = select(less(0, height_), batches * row_tiles * column_tiles, 0);
        stage.contraction = ContractionFacts{points_, lanes_, {}, height_ * width_, columns_, depth_, batches};
        panels(weights_, nr_, 1);
        sums_ = b_.scratch(name_ + "_c", type_, b_.i64(points_ * lanes_));
        direct_ = light_epilogue();
        b_.function(name_, [&] {
            b_.loop("task", b_.task_begin(), b_.task_end(), 1, [&](LExpr task) {
                const Point::Scope scope = point_.save();
                LExpr rest = task;
                const LExpr x0 = b_.let("x0", next_digit("column_tile", rest, column_tiles) * point_.sym(tile_columns_));
                const LExpr row_tile = next_digit("row_tile", rest, row_tiles);
                const LExpr y0 = b_.let("y0", share(row_tile, height_, row_tiles)), y1 = b_.let("y1", share(row_tile + 1, height_, row_tiles));
                decode(w_.batch, rest);
                const LExpr x1 = b_.let("x1", loop::min(x0 + point_.sym(tile_columns_), point_.sym(width_)));
                panel_ = panel_base(weights_, b_.i64(0), b_.i64(0));
                b_.loop("y", y0, y1, 1, [&](LExpr y) {
                    const Point::Scope s = point_.save();
                    if (w_.row.out != kNone) point_.bind(w_.row.out, y);
                    b_.loop("x", x0, x1, points_, [&](LExpr x) { points(x, b_.let("left", x1 - x)); });
                    point_.restore(s);
                });
                point_.restore(scope);
            });
        });
        c_.out.stages.push_back(std::move(stage));
    }

private:
    // Elements of the tensor, along the columns, from the first that a tile of points reads to the last.
    int64_t span() const { return (points_ - 1) * w_.column.stride + (w_.column.taps - 1) * w_.column.dilation + 1; }

    // Index along dim d, at tap 0 of the row and the column.
    LExpr index(size_t d, LExpr out, const WindowAxis& a) {
        LExpr i = point_.sym(windows_->at[d].offset);
        if (a.out != kNone) i = i + out * a.stride;
        return i;
    }
    LExpr inside(LExpr at, size_t d) {
        return loop::both(loop::ge(at, b_.i64(0)), loop::lt(at, point_.sym(c_.math.tensors[windows_->tensor].shape[d])));
    }

    void points(LExpr x, LExpr left) {
        LExpr full = loop::ge(left, b_.i64(points_));
        const LExpr first = b_.let("first", index(column_dim_, x, w_.column));
        if (tested_) {
            const Sym& extent = c_.math.tensors[windows_->tensor].shape[column_dim_];
            full = loop::both(full, loop::both(loop::ge(first, b_.i64(0)), loop::le(first + span(), point_.sym(extent))));
        }
        b_.if_(
            full, [&] { channels(x, {}, {}); },
            [&] {
                // The number of lanes that each element has: all or none.
                std::vector<LExpr> counts;
                const LExpr last = b_.let("last", first + (left - 1) * w_.column.stride + (w_.column.taps - 1) * w_.column.dilation);
                for (int64_t p = 0; p < span(); ++p) {
                    LExpr here = loop::le(first + p, last);
                    if (tested_) here = loop::both(here, inside(first + p, column_dim_));
                    counts.push_back(b_.let("lanes", loop::select(here, b_.i64(lanes_), b_.i64(0))));
                }
                channels(x, left, counts);
            });
    }

    void channels(LExpr x, LExpr left, const std::vector<LExpr>& counts) {
        const LExpr n = point_.sym(columns_);
        if (columns_.multiple_of(lanes_)) {
            b_.loop("j", b_.i64(0), n, lanes_, [&](LExpr j) { tile(x, left, counts, j, {}); });
            return;
        }
        const LExpr whole = b_.let("whole", loop::floordiv(n, lanes_) * lanes_);
        b_.loop("j", b_.i64(0), whole, lanes_, [&](LExpr j) { tile(x, left, counts, j, {}); });
        b_.if_(loop::lt(whole, n), [&] { tile(x, left, counts, whole, b_.let("rest", n - whole)); });
    }

    // `left` and `counts` are none where all points are there and all that they read lies inside; `rest` where all lanes are.
    void tile(LExpr x, LExpr left, const std::vector<LExpr>& counts, LExpr j, LExpr rest) {
        const LExpr zero = loop::broadcast(b_.literal(type_, 0), lanes_);
        const WindowAxis &row = w_.row, &column = w_.column;
        std::vector<loop::LocalRef> acc;
        for (int64_t i = 0; i < points_; ++i) acc.push_back(b_.local("c", zero));
        const LExpr mask = rest ? b_.let("mask", loop::first_lanes(rest, lanes_)) : LExpr{};
        const LExpr panel = b_.let("panel", panel_ + loop::floordiv(j, nr_) * point_.sym(room_of_depth()) * nr_ + loop::mod(j, nr_));
        const auto add = [&](int64_t i, LExpr element, LExpr weight) {
            const loop::LocalRef c = acc[static_cast<size_t>(i)];
            b_.set(c, is_float(type_) ? loop::mul_add(element, weight, b_.get(c)) : b_.get(c) + element * weight);
        };
        b_.loop("k", b_.i64(0), b_.i64(row.taps), 1, [&](LExpr k) {
            std::vector<LExpr> weights;
            for (int64_t l = 0; l < column.taps; ++l)
                weights.push_back(b_.let("w", b_.load(weights_.panels, panel + (k * column.taps + l) * nr_, lanes_)));
            const auto each = [&](const std::function<void(int64_t p, int64_t i, int64_t l)>& body) {
                for (int64_t p = 0; p < span(); ++p)
                    for (int64_t l = column.taps; l-- > 0;)
                        if (const int64_t from = p - l * column.dilation; from >= 0 && from % column.stride == 0 && from / column.stride < points_)
                            body(p, from / column.stride, l);
            };
            const auto read = [&] {
                const Point::Scope s = point_.save();
                for (VarId v : k_.n) point_.bind(v, b_.i64(0));
                point_.bind(column.out, x);
                for (VarId v : {column.tap, row.tap})
                    if (v != kNone) point_.bind(v, v == row.tap ? k : b_.i64(0));
                const LExpr at = b_.let("at", place(*windows_) + j);
                point_.restore(s);
                const LExpr next = point_.sym(c_.storage[windows_->tensor].strides[column_dim_]);
                int64_t loaded = -1;
                LExpr element;
                each([&](int64_t p, int64_t i, int64_t l) {
                    if (p != loaded) {
                        LExpr m = mask;
                        if (!counts.empty()) {
                            const LExpr n = counts[static_cast<size_t>(p)];
                            m = loop::first_lanes(rest ? loop::min(n, rest) : n, lanes_);
                        }
                        element = b_.let("x", b_.load(windows_->buffer, at + next * p, lanes_, m));
                        loaded = p;
                    }
                    add(i, element, weights[static_cast<size_t>(l)]);
                });
            };
            if (!tested_ || !row_dim_) return read();
            // Zeros are multiplied all the same: an infinite weight makes them NaN.
            const LExpr at = index(*row_dim_, row.out == kNone ? LExpr{} : point_.variable(row.out), row) + k * row.dilation;
            b_.if_(inside(b_.let("row", at), *row_dim_), read,
                   [&] { each([&](int64_t, int64_t i, int64_t l) { add(i, zero, weights[static_cast<size_t>(l)]); }); });
        });
        const auto finished = [&](LExpr i, LExpr sum) {
            const Point::Scope s = point_.save();
            point_.bind(w_.column.out, i);
            for (VarId v : k_.n) point_.bind(v, b_.i64(0));
            finish(k_.n.back(), j, mask, sum);
            point_.restore(s);
        };
        if (direct_ && !left) {
            for (int64_t i = 0; i < points_; ++i) finished(x + i, b_.get(acc[static_cast<size_t>(i)]));
            return;
        }
        for (int64_t i = 0; i < points_; ++i) b_.store(sums_, b_.i64(i * lanes_), b_.get(acc[static_cast<size_t>(i)]));
        b_.loop("i", b_.i64(0), left ? loop::min(left, b_.i64(points_)) : b_.i64(points_), 1, [&](LExpr i) {
            finished(b_.let("x_i", x + i), b_.load(sums_, i * lanes_, lanes_));
        });
    }

    const Window w_;
    std::optional<Plain> windows_;  // the tensor that they read
    size_t column_dim_ = 0;         // of it
    std::optional<size_t> row_dim_;
    bool tested_ = false;           // windows may leave it
    Factor weights_;
    int64_t points_ = 1;            // of a register tile
    Sym height_ = 1, width_ = 1;
    Sym tile_columns_ = 1;                  // of the output, in one task
    bool direct_ = false;                   // full register tiles are finished from registers
    LExpr panel_;
    loop::BufferId sums_ = loop::BufferId::none;
};
}  // namespace

bool lower_lanewise(Context& c, size_t nest, const Window& w, const Stage& stage) {
    LanewiseLowering lowering(c, nest, w);
    if (!lowering.possible()) return false;
    lowering.run(stage);
    return true;
}

}  // namespace opwright::target::cpu
