// Contractions over windows whose lanes run along what the other factor owns: convolutions with channels last. Depthwise
// ones too, where their windows are no tensor as it stands (lower_lanewise.cpp).
//
// The points of the output are the rows of the register tile. A task is some of them, of one batch point, for a range of
// columns (output channels). The windows' elements are read one at a time, each for all lanes, from where they stand
// or from a slab (lower_slab.h): the element for a point at a position of depth lies at the sum of two distances, which
// two tables hold. Tiles take any points that follow each other, so that small pictures waste nothing, and strides cost
// nothing; sums never leave their registers before they are whole.
#include <algorithm>

#include "target/cpu/lower/contract.h"
#include "target/cpu/lower/slab.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using schedule::Window;
using schedule::WindowAxis;

namespace {
constexpr int64_t kElements = 64 << 10;  // of windows that a task reads, to aim at: they are to stay in the second cache
constexpr int64_t kMostElements = 160 << 10;  // where fewer serve less than:
constexpr int64_t kFewPoints = 48;       // of a task, too few for the weights that come from far away
constexpr int64_t kPoints = 1024;        // of a task at most
constexpr int64_t kTasks = 8;            // to aim at, so that threads share them out evenly
constexpr int64_t kLeastRows = 8;        // of a task with channels of its own
constexpr int64_t kReuse = 128;          // multiply-adds that an element of a slab is to serve in each of them

Sym clamp(const Sym& x, const Sym& low, const Sym& high) { return max(low, min(x, high)); }

class PointsLowering : ContractCommon {
public:
    PointsLowering(Context& c, size_t nest, const Window& w)
        : ContractCommon(c, nest),
          w_(w),
          channel_(k_.lanewise ? k_.n : w.channels),
          inner_(channel_.size() == 1 && schedule::side_by_side(c.math, k_.a, channel_[0])),
          slab_(c, point_, k_.a, w, channel_, lanes_, type_, inner_),
          stands_(k_.lanewise ? std::nullopt : plain(k_.a)) {
        taps_ = w.row.taps * w.column.taps;
        std::vector<VarId> order = w.channels;
        for (const WindowAxis* a : {&w.column, &w.row})
            if (a->tap != kNone) order.insert(inner_ ? order.begin() : order.begin() + static_cast<long>(w.channels.size()), a->tap);
        b_factor_ = factor("b", k_.b, k_.n, order, nr_);
        b_factor_.shared = !b_factor_.constant;
        channels_ = extent(channel_);
        height_ = w.row.out == kNone ? Sym(1) : c.math.vars[w.row.out].extent;
        width_ = c.math.vars[w.column.out].extent;
        measure();
    }

    void run(Stage stage) {
        const Sym batches = extent(w_.batch), row_tiles = min(row_tiles_, height_),
                  column_tiles = ceil_div(width_, tile_columns_), places = batches * row_tiles * column_tiles;
        const Sym all = ceil_div(columns_, nr_);
        Sym tile_panels = floor_div(block_, nr_);
        if (!k_.lanewise) {
            // Few places leave threads idle unless they share the columns.
            const Sym n_tiles = clamp(ceil_div(Sym(kTasks), max(places, 1)), 1, most_column_tasks());
            tile_panels = ceil_div(all, max(n_tiles, 1));
        }
        const Sym groups = ceil_div(all, max(tile_panels, 1));
        stage.function = name_;
        stage.tasks = places * groups;
        stage.contraction = ContractionFacts{mr_, nr_, rests(), height_ * width_, columns_, depth_, batches};
        stage.contraction->packed = stands_ ? Sym(0) : stage.tasks * slab_.elements(block_);
        keep_windows();
        panels(b_factor_, nr_, 1);
        const Sym points = max(tile_rows_ * tile_columns_, 1);
        sums_ = b_.scratch(name_ + "_c", type_, b_.i64(mr_ * nr_));
        if (!stands_)
            buffer_ = b_.scratch(name_ + "_slab", type_, point_.sym(slab_.elements(block_) + Sym(2 * lanes_)));
        depths_ = b_.scratch(name_ + "_depths", DType::I64, point_.sym(max(depth_, 1)));
        for (auto* t : {&offsets_, &ys_, &xs_})
            *t = b_.scratch(name_ + (t == &offsets_ ? "_offsets" : t == &ys_ ? "_ys" : "_xs"), DType::I64,
                            point_.sym(points + Sym(mr_)));
        direct_ = light_epilogue();

        b_.function(name_, [&] {
            once([&] { fill_depths(); });
            b_.loop("task", b_.task_begin(), b_.task_end(), 1, [&](LExpr task) {
                const Point::Scope scope = point_.save();
                LExpr rest = task;
                const LExpr n0 = b_.let("n0", next_digit("n_tile", rest, groups) * point_.sym(tile_panels * nr_));
                const LExpr windows = rest;
                const LExpr x0 = b_.let("x0", next_digit("column_tile", rest, column_tiles) * point_.sym(tile_columns_));
                const LExpr row_tile = next_digit("row_tile", rest, row_tiles);
                const LExpr y0 = b_.let("y0", share(row_tile, height_, row_tiles)), y1 = b_.let("y1", share(row_tile + 1, height_, row_tiles));
                decode(w_.batch, rest);
                const Slab::Box box{y0, y1, x0,
                                    b_.let("x1", loop::min(x0 + point_.sym(tile_columns_), point_.sym(width_)))};
                const LExpr n1 = b_.let("n1", loop::min(n0 + point_.sym(tile_panels * nr_), point_.sym(columns_)));
                const LExpr count = b_.let("count", (box.y1 - box.y0) * (box.x1 - box.x0));
                const auto fill = [&] {
                    if (!stands_)
                        k_.lanewise ? slab_.fill(buffer_, box, n0, n1) : slab_.fill(buffer_, box, b_.i64(0), point_.sym(channels_));
                    fill_points(box, count);
                };
                // Tasks that follow each other may have the same windows, for other columns.
                bring_windows(windows, k_.lanewise || groups.is(1), fill);
                const LExpr base = panel_base(b_factor_, n0, b_.i64(0));
                const auto panel = [&](LExpr j) {
                    return b_.let("bp", base + loop::floordiv(j - n0, nr_) * point_.sym(room_of_depth()) * nr_);
                };
                const auto each_column = [&](const std::function<void(LExpr j)>& body) { b_.loop("j", n0, n1, nr_, body); };
                const auto each_point = [&](const std::function<void(LExpr i, LExpr left)>& body) {
                    b_.loop("i", b_.i64(0), count, mr_, [&](LExpr i) { body(i, b_.let("left", count - i)); });
                };
                const auto one = [&](LExpr i, LExpr left, LExpr j, LExpr bp) {
                    choose(left, [&](int64_t rows) { tile(rows, i, left, j, n0, n1, bp); });
                };
                if (k_.lanewise) {  // in the order of memory, since each channel's windows serve that channel alone
                    each_point([&](LExpr i, LExpr left) { each_column([&](LExpr j) { one(i, left, j, panel(j)); }); });
                } else {
                    each_column([&](LExpr j) {
                        const LExpr bp = panel(j);
                        each_point([&](LExpr i, LExpr left) { one(i, left, j, bp); });
                    });
                }
                point_.restore(scope);
            });
        });
        c_.out.stages.push_back(std::move(stage));
    }

private:
    void measure() {
        const Sym reach_x(w_.column.reach()), reach_y(w_.row.reach());
        block_ = max(channels_, 1);
        if (k_.lanewise) {
            // So many channels that some rows of them fit: each has its windows to itself.
            const Sym place = max((min(width_, kPoints) + reach_x) * (Sym(kLeastRows) + reach_y) * slab_.planes(), 1);
            block_ = clamp(floor_div(floor_div(Sym(kElements), place), nr_), 1, max(ceil_div(channels_, nr_), 1)) * Sym(nr_);
        }
        tile_columns_ = clamp(floor_div(Sym(kElements), block_ * (reach_y + 1)) - reach_x, Sym(mr_), Sym(kPoints));
        tile_columns_ = max(min(width_, tile_columns_), 1);
        const Sym row = (tile_columns_ + reach_x) * block_ * slab_.planes();
        const auto rows_in = [&](int64_t elements) { return floor_div(Sym(elements), row) - reach_y; };
        const Sym wanted = k_.lanewise ? Sym(1) : ceil_div(Sym(kFewPoints), tile_columns_);
        const Sym fits = min(max(rows_in(kElements), min(rows_in(kMostElements), wanted)), floor_div(Sym(kPoints), tile_columns_));
        const Sym rows = clamp(fits, 1, max(height_, 1));
        Sym tiles = ceil_div(max(height_, 1), rows);
        if (!k_.lanewise) {
            // Where columns do not give tasks enough, more tiles do, if they read few rows of their neighbours and use weights well.
            const Sym wanted = ceil_div(Sym(kTasks), max(extent(w_.batch), 1) * ceil_div(max(width_, 1), tile_columns_) * most_column_tasks());
            const Sym good = min(floor_div(height_, 4 * reach_y + 1), floor_div(height_ * tile_columns_, kFewPoints));
            tiles = max(tiles, min(wanted, good));
        }
        // An even number of tiles, where there are several: two threads get as much.
        row_tiles_ = min(select(less(1, tiles), ceil_div(tiles, 2) * Sym(2), tiles), max(height_, 1));
        tile_rows_ = ceil_div(max(height_, 1), row_tiles_);
        slab_.measure(tile_rows_, tile_columns_, block_);
    }

    // Tasks that may share the columns of a place: each fills a slab of its own.
    Sym most_column_tasks() const {
        const Sym all = max(ceil_div(columns_, nr_), 1);
        return stands_ ? all : clamp(floor_div(columns_ * taps_, Sym(slab_.planes() * kReuse)), 1, all);
    }

    // Few points left over run in a smaller register tile.
    std::vector<int64_t> rests() const {
        const Sym points = tile_rows_ * tile_columns_;
        if (points.multiple_of(mr_) || mr_ <= 4) return {};
        const auto n = points.constant();
        if (!n) return {4};
        return *n % mr_ <= mr_ / 2 ? std::vector<int64_t>{*n % mr_} : std::vector<int64_t>{};
    }
    void choose(LExpr left, const std::function<void(int64_t)>& tile) {
        const std::vector<int64_t> fewer = rests();
        if (fewer.empty()) return tile(mr_);
        b_.if_(loop::le(left, b_.i64(fewer[0])), [&] { tile(fewer[0]); }, [&] { tile(mr_); });
    }

    LExpr along(const WindowAxis& a, bool tap) {
        const VarId v = tap ? a.tap : a.out;
        return v == kNone ? b_.i64(0) : point_.sym(step(*stands_, v));
    }
    // Where each position of depth lies, from its point.
    void fill_depths() {
        const LExpr rows = b_.i64(w_.row.taps), columns = b_.i64(w_.column.taps),
                    channels = k_.lanewise ? b_.i64(1) : point_.sym(channels_);
        const auto place = [&](LExpr y, LExpr x, LExpr c) {
            if (!stands_) return slab_.distance(y, x) + c * point_.sym(slab_.channel());
            const LExpr from = y * along(w_.row, true) + x * along(w_.column, true);
            return w_.channels.empty() ? from : from + c * point_.sym(step(*stands_, w_.channels[0]));
        };
        const auto at = [&](LExpr y, LExpr x, LExpr c) {
            const LExpr tap = y * columns + x;
            return inner_ ? tap * channels + c : c * taps_ + tap;
        };
        b_.loop("y", b_.i64(0), rows, 1, [&](LExpr y) {
            b_.loop("x", b_.i64(0), columns, 1, [&](LExpr x) {
                b_.loop("c", b_.i64(0), channels, 1, [&](LExpr c) { b_.store(depths_, at(y, x, c), place(y, x, c)); });
            });
        });
    }
    // Where the window of each of the box's `count` points begins, and which point it is. Behind the last they repeat it, so
    // that a register tile may read on.
    void fill_points(const Slab::Box& box, LExpr count) {
        LExpr origin = b_.i64(0);
        if (stands_) {
            const Point::Scope scope = point_.save();
            for (VarId v : {w_.row.out, w_.row.tap, w_.column.out, w_.column.tap})
                if (v != kNone) point_.bind(v, b_.i64(0));
            for (VarId v : channel_) point_.bind(v, b_.i64(0));
            origin = b_.let("origin", cpu::ContractCommon::place(*stands_));
            point_.restore(scope);
        }
        const LExpr width = b_.let("width", box.x1 - box.x0);
        const auto keep = [&](LExpr i, LExpr y, LExpr x) {
            LExpr from = stands_ ? origin + y * along(w_.row, false) + x * along(w_.column, false)
                                 : (y - box.y0) * point_.sym(slab_.row()) + (x - box.x0) * point_.sym(slab_.column());
            b_.store(offsets_, i, from);
            b_.store(ys_, i, y);
            b_.store(xs_, i, x);
        };
        b_.loop("y", box.y0, box.y1, 1, [&](LExpr y) {
            b_.loop("x", box.x0, box.x1, 1, [&](LExpr x) { keep((y - box.y0) * width + (x - box.x0), y, x); });
        });
        b_.loop("i", count, count + mr_, 1, [&](LExpr i) { keep(i, box.y1 - 1, box.x1 - 1); });
    }

    void tile(int64_t rows, LExpr i, LExpr left, LExpr j, LExpr n0, LExpr n1, LExpr bp) {
        std::vector<LExpr> from;
        for (int64_t r = 0; r < rows; ++r) from.push_back(b_.let("from", b_.load(offsets_, i + r)));
        const loop::BufferId windows = stands_ ? stands_->buffer : buffer_;
        LExpr distance;
        Operands o;
        // Vectors of the windows go past the last channel of the slab, which has room.
        LExpr channel;
        if (k_.lanewise) channel = b_.let("channel", j - n0);
        o.b = [&](LExpr k) {
            const LExpr depth = b_.load(depths_, k);
            distance = b_.let("distance", k_.lanewise ? depth + channel : depth);
            std::vector<LExpr> v;
            for (int64_t n = 0; n < plan_.nv; ++n)
                v.push_back(b_.let("b", b_.load(b_factor_.panels, bp + k * nr_ + n * lanes_, lanes_)));
            ask_ahead(b_factor_, bp + k * nr_);
            return v;
        };
        o.a = [&](int64_t r, LExpr) {
            return b_.load(windows, from[static_cast<size_t>(r)] + distance, k_.lanewise ? lanes_ : 1);
        };
        const Accumulators acc = register_tile(rows, point_.sym(depth_), o);
        const auto finished = [&](LExpr row, LExpr column, LExpr mask, LExpr value) {
            const Point::Scope scope = point_.save();
            if (w_.row.out != kNone) point_.bind(w_.row.out, b_.let("y", b_.load(ys_, row)));
            point_.bind(w_.column.out, b_.let("x", b_.load(xs_, row)));
            for (VarId v : k_.n) point_.bind(v, b_.i64(0));
            finish(k_.n.back(), column, mask, value);
            point_.restore(scope);
        };
        const auto later = [&] {
            for (int64_t r = 0; r < rows; ++r)
                for (int64_t v = 0; v < plan_.nv; ++v) b_.store(sums_, b_.i64(r * nr_ + v * lanes_), sum(acc, r, v));
            b_.loop("r", b_.i64(0), loop::min(left, b_.i64(rows)), 1, [&](LExpr r) {
                b_.loop("v", j, loop::min(j + nr_, n1), lanes_, [&](LExpr v) {
                    finished(i + r, v, columns_.multiple_of(lanes_) ? LExpr{} : loop::first_lanes(n1 - v, lanes_),
                             b_.load(sums_, r * nr_ + (v - j), lanes_));
                });
            });
        };
        if (!direct_) return later();
        b_.if_(
            loop::both(loop::ge(left, b_.i64(rows)), loop::ge(n1 - j, b_.i64(nr_))),
            [&] {
                for (int64_t r = 0; r < rows; ++r)
                    for (int64_t v = 0; v < plan_.nv; ++v) finished(i + r, j + v * lanes_, {}, sum(acc, r, v));
            },
            later);
    }

    const Window w_;
    const std::vector<VarId> channel_;  // of the windows: what is summed over, or what each lane has one of
    const bool inner_;                  // it is one, and runs side by side
    Slab slab_;
    std::optional<Plain> stands_;  // the windows' tensor, where it is read as it stands
    Factor b_factor_;
    int64_t taps_ = 1;
    Sym channels_ = 1, height_ = 1, width_ = 1;
    Sym tile_rows_ = 1, tile_columns_ = 1;  // of the output, in one task at most
    Sym row_tiles_ = 1;
    Sym block_ = 1;                         // channels of a slab
    bool direct_ = false;                   // full register tiles are finished from registers
    loop::BufferId buffer_ = loop::BufferId::none, sums_ = loop::BufferId::none, depths_ = loop::BufferId::none,
                   offsets_ = loop::BufferId::none, ys_ = loop::BufferId::none, xs_ = loop::BufferId::none;
};
}  // namespace

void lower_points(Context& c, size_t nest, const Window& w, Stage stage) {
    PointsLowering(c, nest, w).run(std::move(stage));
}

}  // namespace opwright::target::cpu
