// Contractions over windows (schedule/window.h): convolutions, depthwise ones too.
//
// A task is some rows of the output of one batch point, for a range of the contraction's rows (output channels). What its
// windows read is brought into a slab once (lower_slab.h), where a register tile runs over the output's points as one flat
// run: rows of the slab are longer than those of the output by the reach of the taps, and what the flat run computes
// between them is not kept. A table holds the distance of each position of depth. The scheme spares what panels of
// windows cost: each element is brought in once, not once for each tap, whatever the number of channels.
#include <algorithm>

#include "schedule/window.h"
#include "target/cpu/lower/contract.h"
#include "target/cpu/lower/slab.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using schedule::Window;
using schedule::WindowAxis;

namespace {
// Floats of a slab, and flat points of a task, to aim at: the slab, a panel of weights and the sums of a register tile's
// rows are to stay in the second cache.
constexpr int64_t kSlab = 128 << 10, kPoints = 2048;
constexpr int64_t kTasks = 4;  // tasks to aim at, so that threads share them out evenly
constexpr int64_t kReuse = 192;  // multiply-adds that an element of a slab is to serve in each of them

Sym clamp(const Sym& x, const Sym& low, const Sym& high) { return max(low, min(x, high)); }

class WindowLowering : ContractCommon {
public:
    WindowLowering(Context& c, size_t nest, const Window& w)
        : ContractCommon(c, nest), w_(w), slab_(c, point_, k_.b, w, w.channels, lanes_, type_, false) {
        std::vector<VarId> order = w.channels;
        for (const WindowAxis* a : {&w.row, &w.column})
            if (a->tap != kNone) order.push_back(a->tap);
        a_ = factor("a", k_.a, k_.m, order, mr_);
        a_.shared = !a_.constant && !k_.m.empty() && !expands(a_);
        taps_ = w.row.taps * w.column.taps;
        channels_ = extent(w.channels);
        height_ = w.row.out == kNone ? Sym(1) : c.math.vars[w.row.out].extent;
        width_ = c.math.vars[w.column.out].extent;
        measure();
    }

    void run(Stage stage) {
        const Sym batches = extent(w_.batch), row_tiles = min(row_tiles_, height_),
                  column_tiles = ceil_div(width_, tile_columns_), points = batches * row_tiles * column_tiles;
        // Few points leave threads idle unless they share the rows of the contraction.
        const Sym all = ceil_div(rows_, mr_), reuse = floor_div(rows_ * taps_, Sym(slab_.planes() * kReuse)),
                  m_tiles = clamp(ceil_div(Sym(kTasks), max(points, 1)), 1, clamp(reuse, 1, max(all, 1)));
        const Sym tile_panels = ceil_div(all, m_tiles);
        stage.tasks = select(less(0, rows_), points * m_tiles, 0);
        stage.contraction = ContractionFacts{mr_, nr_, rest_tiles(), rows_, height_ * width_, depth_, batches};
        stage.contraction->packed = stage.tasks * slab_.elements(channels_);
        keep_windows();
        panels(a_, mr_, most_depth());
        Packer a = packer(a_);
        // Sums of one panel's rows; of all rows of the task where the depth takes several blocks.
        const bool blocks = block_ != channels_;
        const Sym kept = blocks ? tile_panels * mr_ : Sym(mr_);
        sums_ = b_.scratch(name_ + "_c", type_, point_.sym(kept * pitch_));
        buffer_ = b_.scratch(name_ + "_slab", type_, point_.sym(slab_.elements(block_) + Sym(nr_ + 2 * lanes_)));
        table_ = b_.scratch(name_ + "_table", DType::I64, point_.sym(block_ * taps_));

        b_.function(name_, [&] {
            once([&] {
                // The flat run goes past what the rows fill. Its results there are not kept, but stale subnormal numbers would
                // cost a microcode assist each.
                const LExpr zero = loop::broadcast(b_.literal(type_, 0), lanes_);
                b_.loop("i", b_.i64(0), point_.sym(slab_.elements(block_)) + (nr_ + lanes_), lanes_,
                        [&](LExpr i) { b_.store(buffer_, i, zero); });
                fill_table();
            });
            b_.loop("task", b_.task_begin(), b_.task_end(), 1, [&](LExpr task) {
                const Point::Scope scope = point_.save();
                LExpr rest = task;
                const LExpr m_tile = next_digit("m_tile", rest, m_tiles);
                const LExpr m0 = b_.let("m0", share(m_tile, all, m_tiles) * mr_);
                const LExpr m1 = b_.let("m1", loop::min(share(m_tile + 1, all, m_tiles) * mr_, point_.sym(rows_)));
                const LExpr windows = rest;
                const LExpr x0 = b_.let("x0", next_digit("column_tile", rest, column_tiles) * point_.sym(tile_columns_));
                const LExpr row_tile = next_digit("row_tile", rest, row_tiles);
                const LExpr y0 = b_.let("y0", share(row_tile, height_, row_tiles)), y1 = b_.let("y1", share(row_tile + 1, height_, row_tiles));
                decode(w_.batch, rest);
                const Slab::Box box{y0, y1, x0,
                                    b_.let("x1", loop::min(x0 + point_.sym(tile_columns_), point_.sym(width_)))};
                const LExpr channels = point_.sym(channels_);
                // An empty sum still has its epilogue, so there is one block at least.
                b_.loop("c0", b_.i64(0), loop::max(channels, b_.i64(1)), point_.sym(max(block_, 1)), [&](LExpr c0) {
                    const LExpr c1 = b_.let("c1", loop::min(c0 + point_.sym(block_), channels));
                    // Tasks that follow each other may have the same windows, for other rows.
                    bring_windows(windows, blocks, [&] { slab_.fill(buffer_, box, c0, c1); });
                    const LExpr base = panel_base(a_, m0, c0 * taps_);
                    b_.loop("i", m0, m1, mr_, [&](LExpr i) {
                        if (!a_.whole())
                            a.pack(a_.panels, b_.i64(0), b_.i64(most_depth() + slack()), i,
                                   b_.let("end", loop::min(i + mr_, m1)), c0 * taps_, c1 * taps_);
                        const LExpr ap = a_.whole() ? b_.let("ap", base + loop::floordiv(i - m0, mr_) *
                                                                             point_.sym(room_of_depth()) * mr_)
                                                    : b_.i64(0);
                        const LExpr at = blocks ? b_.let("at", (i - m0) * point_.sym(pitch_)) : b_.i64(0);
                        const LExpr left = b_.let("left", m1 - i);
                        choose_rows(left, [&](int64_t rows) { panel(rows, ap, at, box, c0, c1, blocks); });
                        const auto rest_of_equation = [&] { epilogue(box, i, loop::min(left, b_.i64(mr_)), at); };
                        if (blocks)
                            b_.if_(loop::ge(c1, channels), rest_of_equation);
                        else
                            rest_of_equation();
                    });
                });
                point_.restore(scope);
            });
        });
        c_.out.stages.push_back(std::move(stage));
    }

private:
    // Sizes of tiles and slabs, all of them closed forms over the extents.
    void measure() {
        const Sym reach_y(w_.row.reach()), reach_x(w_.column.reach());
        tile_columns_ = min(width_, kPoints);
        const Sym row = max(tile_columns_, 1) + reach_x;  // of a plane
        const Sym fits = floor_div(floor_div(Sym(kSlab), max(channels_, 1) * slab_.planes()), row) - reach_y;
        const Sym most = max(1, floor_div(Sym(kPoints), row));
        const Sym rows = clamp(fits, 1, clamp(height_, 1, most)), tiles = ceil_div(max(height_, 1), rows);
        // An even number of tiles, where there are several: two threads get as much.
        row_tiles_ = w_.row.out == kNone ? Sym(1) : min(select(less(1, tiles), ceil_div(tiles, 2) * Sym(2), tiles), max(height_, 1));
        tile_rows_ = ceil_div(max(height_, 1), row_tiles_);
        slab_.measure(tile_rows_, tile_columns_, channels_);
        // 64 bytes more than a multiple of 128, as channels of the slab are apart.
        const Sym sums = ceil_div(tile_rows_ * row, nr_) * Sym(nr_);
        pitch_ = ceil_div(sums, 2 * lanes_) * Sym(2 * lanes_) + Sym(lanes_);
        block_ = channels_;
        const int64_t least = channels_.constant().value_or(-1);
        if (least > 0 && slab_.elements(channels_).upper() <= 4 * kSlab) return;
        block_ = clamp(floor_div(Sym(2 * kSlab), slab_.channel()), 1, max(channels_, 1));
        if (!a_.whole()) block_ = min(block_, Sym(std::max<int64_t>(1, kPoints / taps_)));
    }
    int64_t most_depth() const {
        const auto n = depth_.constant();
        const int64_t most = std::max<int64_t>(1, kPoints / taps_) * taps_;
        return n && block_ == channels_ ? *n : most;
    }

    void fill_table() {
        b_.loop("c", b_.i64(0), point_.sym(block_), 1, [&](LExpr c) {
            b_.loop("y", b_.i64(0), b_.i64(w_.row.taps), 1, [&](LExpr y) {
                b_.loop("x", b_.i64(0), b_.i64(w_.column.taps), 1, [&](LExpr x) {
                    b_.store(table_, c * taps_ + y * w_.column.taps + x, c * point_.sym(slab_.channel()) + slab_.distance(y, x));
                });
            });
        });
    }

    // One panel of the weights over all points of the task.
    void panel(int64_t rows, LExpr ap, LExpr at, const Slab::Box& box, LExpr c0, LExpr c1, bool blocks) {
        const LExpr count = b_.let("count", (c1 - c0) * taps_);
        const LExpr points = b_.let("points", (box.y1 - box.y0 - 1) * point_.sym(slab_.row()) + (box.x1 - box.x0));
        b_.loop("j", b_.i64(0), points, nr_, [&](LExpr j) {
            Operands o;
            o.a = [&](int64_t r, LExpr k) { return b_.load(a_.panels, ap + k * mr_ + r); };
            o.b = [&](LExpr k) {
                const LExpr from = b_.let("from", b_.load(table_, k) + j);
                std::vector<LExpr> v;
                for (int64_t n = 0; n < plan_.nv; ++n)
                    v.push_back(b_.let("b", b_.load(buffer_, from + n * lanes_, lanes_)));
                return v;
            };
            const auto place = [&](int64_t r, int64_t v) { return at + j + (point_.sym(pitch_) * r + v * lanes_); };
            if (blocks) {
                o.has_before = loop::gt(c0, b_.i64(0));
                o.before = [&](int64_t r, int64_t v) { return b_.load(sums_, place(r, v), lanes_); };
            }
            const Accumulators acc = register_tile(rows, count, o);
            for (int64_t r = 0; r < rows; ++r)
                for (int64_t v = 0; v < plan_.nv; ++v) b_.store(sums_, place(r, v), sum(acc, r, v));
        });
    }

    // The rest of the equation on the finished sums of some rows.
    void epilogue(const Slab::Box& box, LExpr row0, LExpr rows, LExpr at) {
        b_.loop("r", b_.i64(0), rows, 1, [&](LExpr r) {
            const Point::Scope scope = point_.save();
            decode(k_.m, b_.let("m", row0 + r));
            b_.loop("y", box.y0, box.y1, 1, [&](LExpr y) {
                const Point::Scope s = point_.save();
                if (w_.row.out != kNone) point_.bind(w_.row.out, y);
                const LExpr from =
                    b_.let("from", at + r * point_.sym(pitch_) + (y - box.y0) * point_.sym(slab_.row()) - box.x0);
                const auto step = [&](LExpr x, LExpr mask) {
                    finish(w_.column.out, x, mask, b_.load(sums_, from + x, lanes_));
                };
                const LExpr main = b_.let("main", box.x0 + loop::floordiv(box.x1 - box.x0, lanes_) * lanes_);
                b_.loop("x", box.x0, main, lanes_, [&](LExpr x) { step(x, {}); });
                if (!width_.multiple_of(lanes_))
                    b_.loop("x", main, box.x1, lanes_, [&](LExpr x) { step(x, loop::first_lanes(box.x1 - x, lanes_)); });
                point_.restore(s);
            });
            point_.restore(scope);
        });
    }

    const Window w_;
    Slab slab_;
    Factor a_;
    int64_t taps_ = 1;
    Sym channels_ = 1, height_ = 1, width_ = 1;
    Sym tile_rows_ = 1, tile_columns_ = 1;       // of the output, in one task at most
    Sym row_tiles_ = 1;
    Sym block_ = 1;                              // channels of a slab
    Sym pitch_ = 1;                              // between rows of sums
    loop::BufferId buffer_ = loop::BufferId::none, sums_ = loop::BufferId::none, table_ = loop::BufferId::none;
};
}  // namespace

void lower_window(Context& c, size_t nest, const Window& w, Stage stage) {
    WindowLowering(c, nest, w).run(std::move(stage));
}

}  // namespace opwright::target::cpu
