// The packed contraction: C[rows, columns] = sum over depth of A * B, then the rest of the equation as an epilogue.
//
// Rows, columns and depth are flattened index variables. A task is one tile of mt x nt at one batch point: for each
// block of kc, the factors are evaluated into panels (so that any access - a convolution's window, a conversion, an
// element-wise prologue - costs once an element), then a register tile of mr rows by nv vectors runs over the panels,
// accumulating in a tile of C in fast memory; behind the last block the epilogue reads that tile and stores. A constant
// factor is packed once for all runs. The scheme is the classic one of Goto and van de Geijn, "Anatomy of
// high-performance matrix multiplication".
#include <algorithm>

#include "schedule/window.h"
#include "target/cpu/lower/contract.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;

namespace {

class ContractLowering : ContractCommon {
public:
    // Unpacked: the columns are read where they stand, for products that would not repay a copy; the rows' panels belong
    // to a task. `skip`: 1 where this form is not used.
    ContractLowering(Context& c, size_t nest, bool unpacked, const Sym& skip) : ContractCommon(c, nest) {
        if (unpacked) {
            name_ += "_unpacked";
            unpacked_ = plain(k_.b);
        }
        skip_ = skip;
        a_ = factor("a", k_.a, k_.m, k_.k, mr_);
        b_factor_ = factor("b", k_.b, k_.n, k_.k, nr_);
        if (parts_ == 4) {
            // The instruction multiplies one factor without signs by one with them (that of tiles any two). Of two alike, one
            // is shifted, which wants the sums of the other: those that are wanted anyway, or that a constant has once for
            // all runs.
            const bool zero_a = a_.bytes.zero != kNone, zero_b = b_factor_.bytes.zero != kNone;
            const bool shift_a = zero_a != zero_b ? zero_a : b_factor_.constant && !a_.constant;
            if (!plan_.tiles && a_.is_signed == b_factor_.is_signed) (shift_a ? a_ : b_factor_).words.flip = true;
            a_.add_up = b_factor_.shifts();
            b_factor_.add_up = a_.shifts();
        }
        most_rows_ = rows_.is_const() ? plan_.mt : plan_.mt + plan_.mt / 2 + mr_;
        m_tiles_ =
            rows_.is_const() ? ceil_div(row_panels(), plan_.mt / mr_) : max(1, floor_div(rows_ + Sym(plan_.mt / 2), plan_.mt));
        const int64_t together = c.together[nest];
        if (together) {
            together_ = together;
            m_tiles_ = ceil_div(rows_, together);
            most_rows_ = (together + mr_ - 1) / mr_ * mr_;
        }
        if (unpacked_) {
            // Rows that lie along the depth are copied as they are, which costs a fraction of turning them. Narrow tasks
            // of rows: what is copied stays in the first caches, and threads have something to share.
            copied_rows_ = !a_.constant && packer(a_).can_copy();
            if (copied_rows_ && k_.m.size() == 1 && k_.k.size() == 1) rows_in_memory_ = plain(k_.a);
            if (!together && (!rows_.is_const() || *rows_.constant() > 2 * mr_)) {
                const Sym threads = min(4, floor_div(rows_, Sym(2 * mr_)));
                m_tiles_ = even(max(threads, ceil_div(rows_, Sym(kUnpackedRows))), row_panels());
                // Few columns use what is copied once or twice: one register tile's rows at a time, which the first cache holds.
                if (copied_rows_) m_tiles_ = select(min(few_columns(), Sym(1) - from_memory()), row_panels(), m_tiles_);
                most_rows_ = kUnpackedRows + mr_;
            }
            n_tiles_ = column_tasks();
            return;
        }
        // Rows that several tasks want are packed once for all of them, unless packing repeats elements: then they
        // would take more memory than what they come from. So are columns, where there may be several tiles of rows.
        a_.shared = !together && !a_.constant && a_.batch.size() <= k_.batch.size() && !expands(a_) &&
                    (a_.batch.size() < k_.batch.size() || columns_.upper() > plan_.nt);
        b_factor_.shared = !b_factor_.constant && !expands(b_factor_) &&
                           (b_factor_.batch.size() < k_.batch.size() || rows_.upper() > plan_.mt);
        // Rows that one task alone reads are packed by it, so that they are in its caches when it does, for tile registers: those take
        // them faster than memory brings them. So are such columns.
        if (a_.shared && plan_.tiles && a_.batch.size() == k_.batch.size()) a_.by_task = less(columns_, Sym(plan_.nt + 1));
        n_tiles_ = column_tasks();
        const bool sums = a_.add_up || b_factor_.add_up;
        if (b_factor_.shared && (parts_ == 1 || (plan_.tiles && !sums)) && !together)
            b_factor_.by_task = min(from_memory(), less(rows_, Sym(plan_.mt + 1)));
        if (!together) share_rows();
    }

    // Whether the columns can be read where they stand: side by side in memory, with masks that cost nothing at the end.
    bool can_stand() {
        const auto b = plain(k_.b);
        if (parts_ > 1) return false;
        const bool free_masks = lanes_ * static_cast<int>(size_of(type_)) == 64;
        return free_masks && b && k_.k.size() == 1 && step(*b, k_.n.back()).is(1) && packer(b_factor_).flat();
    }
    // 1 where that is better: few rows use each element, or everything lies in the caches and a copy costs as much as
    // some of the product.
    Sym better_unpacked() {
        if (b_factor_.constant || !can_stand()) return 0;
        constexpr int64_t kFewRows = 2, kSmall = int64_t{1} << 21;
        if (a_.constant) return less(rows_, Sym(2 * kFewRows * mr_ + 1)).is(1) ? Sym(1) : Sym(0);
        const Sym few = less(rows_, Sym(kFewRows * mr_ + 1));
        return max(few, max(few_columns(), less(rows_ * columns_ * depth_, Sym(kSmall + 1))));
    }
    void run(Stage stage) {
        stage.function = name_;
        const Sym batches = extent(k_.batch), m_tiles = m_tiles_, n_tiles = n_tiles_;
        stage.tasks = select(skip_, 0, batches * m_tiles * n_tiles);
        stage.contraction = ContractionFacts{mr_, nr_, rest_tiles(), rows_, columns_, depth_, batches};
        stage.contraction->speed = schedule::speed_of(static_cast<int>(parts_), plan_.tiles);
        if (narrow_rest()) stage.contraction->narrow = lanes_;
        Sym& packed = stage.contraction->packed;
        if (a_.shared)
            packed = extent(a_.batch) * rows_ * depth_;  // by one task each or beforehand
        else if (!a_.constant)
            packed = batches * n_tiles * rows_ * depth_;
        if (unpacked_)
            packed = packed + Sym(0);
        else if (b_factor_.shared)
            packed = packed + select(b_factor_.by_task, batches * m_tiles, extent(b_factor_.batch)) * columns_ * depth_;
        else if (!b_factor_.constant)
            packed = packed + batches * m_tiles * columns_ * depth_;
        panels(a_, most_rows_, plan_.kc);
        if (!unpacked_) panels(b_factor_, plan_.nt, plan_.kc);
        // With one block of depth a register tile is finished at once: its place in fast memory can be one for all.
        const Sym few = min(less(rows_, Sym(2 * mr_ + 1)), from_memory());
        const Sym streams = select(less(rows_, Sym(kLeastRows + 1)), Sym(kLeastDepth), Sym(kFewDepth));
        const Sym kc = unpacked_ ? select(few, streams, Sym(plan_.kc)) : Sym(plan_.kc);
        one_block_ = depth_.is_const() && kc.is_const() && *depth_.constant() <= *kc.constant();
        c_stride_ = one_block_ ? nr_ : plan_.nt;
        direct_ = !plan_.tiles && k_.m.size() == 1 && light_epilogue();
        c_buffer_ = b_.scratch(name_ + "_c", type_, b_.i64(one_block_ ? mr_ * nr_ : most_rows_ * plan_.nt));
        Packer a = packer(a_), b = packer(b_factor_, b_factor_.across.size() > 1 && !b_factor_.whole()
                                                          ? b_.scratch(name_ + "_row", type_,
                                                                       b_.i64(plan_.nt + 2 * lanes_))
                                                          : loop::BufferId::none);

        b_.function(name_, [&] {
            if (direct_ || plan_.tiles) {
                constexpr int64_t kCached = 1 << 20;  // bytes
                const Sym results = batches * rows_ * columns_;
                large_ = b_.let("large", loop::gt(point_.sym(results), b_.i64(kCached / static_cast<int64_t>(size_of(type_)))));
                // A tile of a short sum is done before its results are there: those of the tile after the next.
                results_ahead_ = b_.let("results_ahead", point_.sym(short_sum() * Sym(2 * nr_)));
            }
            b_.loop("task", b_.task_begin(), b_.task_end(), 1, [&](LExpr task) {
                const Point::Scope scope = point_.save();
                const Sym by_rows = rows_inner();
                const Divided inner = divide(c_, task, point_.sym(select(by_rows, m_tiles, n_tiles)), "outer_tiles", "inner_tile");
                const Divided outer = divide(c_, inner.quotient, point_.sym(select(by_rows, n_tiles, m_tiles)), "batch", "outer_tile");
                const auto digit = [&](LExpr other, LExpr own) {
                    return by_rows.is(0) ? other : loop::select(loop::gt(point_.sym(by_rows), b_.i64(0)), own, other);
                };
                const LExpr column_tile = b_.let("column_tile", digit(inner.rest, outer.rest)), row_tile = b_.let("row_tile", digit(outer.rest, inner.rest));
                decode(k_.batch, outer.quotient);
                const LExpr m0 = b_.let("m0", together_ ? row_tile * together_ : share(row_tile, row_panels(), m_tiles) * mr_);
                const LExpr n0 = b_.let("n0", share(column_tile, column_panels(), n_tiles) * nr_);
                const LExpr m_end = together_ ? m0 + together_ : share(row_tile + 1, row_panels(), m_tiles) * mr_;
                const LExpr m1 = b_.let("m1", loop::min(m_end, point_.sym(rows_)));
                const LExpr n1 = b_.let("n1", loop::min(share(column_tile + 1, column_panels(), n_tiles) * nr_, point_.sym(columns_)));
                const LExpr depth = point_.sym(depth_);
                // An empty sum still has its epilogue, so there is one block at least.
                const LExpr block = point_.sym(kc);
                const LExpr blocks = b_.let("blocks", loop::floordiv(loop::max(depth, b_.i64(1)) + (block - 1), block));
                b_.loop("k_block", b_.i64(0), blocks, 1, [&](LExpr i) {
                    const LExpr k0 = b_.let("k0", i * block), k1 = b_.let("k1", loop::min(k0 + block, depth));
                    const LExpr room = b_.i64(plan_.kc / parts_ + slack());
                    if (copied_rows_ && rows_in_memory_) {
                        // The next block of depth, or, behind the last, the first of the rows that come next.
                        const Point::Scope at_first = point_.save();
                        point_.bind(k_.m[0], b_.i64(0));
                        point_.bind(k_.k[0], b_.i64(0));
                        const LExpr next = loop::select(loop::lt(k1, depth), k1, (m1 - m0) * point_.sym(step(*rows_in_memory_, k_.m[0])));
                        next_rows_ = b_.let("next_rows", place(*rows_in_memory_) + next);
                        point_.restore(at_first);
                    }
                    if (copied_rows_)
                        a.copy(a_.panels, b_.i64(0), b_.i64(pitch()), m0, m1, k0, k1);
                    else
                        pack_own(a, a_, room, m0, m1, k0, k1);
                    if (!unpacked_) pack_own(b, b_factor_, room, n0, n1, k0, k1);
                    tiles(m0, m1, n0, n1, k0, k1);
                });
                point_.restore(scope);
            });
        });
        c_.out.stages.push_back(std::move(stage));
    }

private:
    Sym few_columns() const { return less(columns_, Sym(2 * nr_ + 1)); }
    // 1 where the columns are more than the second cache has room for beside the rest.
    Sym from_memory() const { return Sym(1) - less(columns_ * depth_, Sym(kCachedColumns / static_cast<int64_t>(size_of(type_)) + 1)); }

    // 1 where each result is the sum of few products.
    Sym short_sum() const {
        constexpr int64_t kWords = 64;
        return less(depth_, Sym(kWords * parts_ + 1));
    }

    // Rows and columns come in panels of a register tile. Threads have as much to do as each other where the number of tasks is even.
    Sym row_panels() const { return ceil_div(rows_, mr_); }
    Sym column_panels() const { return ceil_div(columns_, nr_); }
    static Sym even(const Sym& tasks, const Sym& panels) { return max(min(select(less(1, tasks), ceil_div(tasks, 2) * Sym(2), tasks), panels), 1); }

    // 1 where tasks that follow each other have the same columns, and not the same rows: threads then read other columns, where those
    // are more than the results, which the next kernel may share out by rows.
    Sym rows_inner() const { return b_factor_.constant && !together_ ? less(rows_ * Sym(2), depth_) : Sym(0); }

    // Tasks that share the columns: each has plan_.nt at most. Where all rows are packed beforehand, narrower tasks cost nothing, and
    // few columns are shared out among threads.
    Sym column_tasks() const {
        const Sym least = ceil_div(column_panels(), plan_.nt / nr_);
        const Sym pieces = unpacked_ ? select(from_memory(), 4, 8) : select(less(rows_, 96), 4, 8);
        const Sym narrow = select(less(0, columns_), even(max(least, min(pieces, column_panels())), column_panels()), 0);
        if (a_.whole()) return select(a_.by_task, least, narrow);
        return unpacked_ ? select(less(rows_, Sym(2 * mr_ + 1)), narrow, least) : least;
    }

    // Between copied rows: what panels() makes room for.
    int64_t pitch() const { return plan_.kc + slack(); }

    // Panels of the task's own.
    void pack(Packer& p, const Factor& f, LExpr room, LExpr first, LExpr end, LExpr k0, LExpr k1) {
        p.pack(f.panels, b_.i64(0), room, first, end, k0, k1);
        if (!f.add_up) return;
        b_.loop("panel", b_.i64(0), loop::ceildiv(end - first, f.width), 1, [&](LExpr panel) {
            add_up(f, panel * room * f.width, panel * f.width, words(k1 - k0),
                   one_block_ ? LExpr{} : loop::gt(k0, b_.i64(0)));
        });
    }

    // The same, where they are.
    void pack_own(Packer& p, const Factor& f, LExpr room, LExpr first, LExpr end, LExpr k0, LExpr k1) {
        if (f.whole() && f.by_task.is(0)) return;
        const auto now = [&] { pack(p, f, room, first, end, k0, k1); };
        if (f.whole() && !f.by_task.is(1))
            b_.if_(loop::gt(point_.sym(f.by_task), b_.i64(0)), now);
        else
            now();
    }

    // Where all columns are packed beforehand, tasks of fewer rows cost nothing, and threads have something to share.
    void share_rows() {
        if (!b_factor_.whole()) return;
        const Sym others = max(extent(k_.batch) * n_tiles_, 1);
        const Sym tasks = min(ceil_div(Sym(kTasks), others), floor_div(rows_, Sym(2 * mr_)));
        m_tiles_ = select(b_factor_.by_task, 1, even(max(m_tiles_, tasks), row_panels()));
    }

    void tiles(LExpr m0, LExpr m1, LExpr n0, LExpr n1, LExpr k0, LExpr k1) {
        const LExpr a_base = panel_base(a_, m0, k0), b_base = unpacked_ ? first_column(k0) : panel_base(b_factor_, n0, k0);
        const LExpr a_depth = panel_room(a_, plan_.kc), b_depth = panel_room(b_factor_, plan_.kc);
        const LExpr last = b_.let("last", loop::ge(k1, point_.sym(depth_)));
        // Rows of a long sum go past the columns' panel, which stays in the first cache. What takes the time of a short one is storing
        // it, which goes along the rows: down the columns each tile's rows are lines of other pages (1024 x 1024 x 16 took 1.6 times as
        // long on a Zen 5, and in bf16, in int8 2.5 times).
        const Sym by_rows = short_sum(), by_columns = Sym(1) - by_rows;
        const LExpr row_tiles = b_.let("row_tiles", loop::ceildiv(m1 - m0, mr_)), column_tiles = b_.let("column_tiles", loop::ceildiv(n1 - n0, nr_));
        const auto chosen = [&](LExpr x, LExpr y) { return loop::select(loop::gt(point_.sym(by_rows), b_.i64(0)), x, y); };
        b_.loop("outer", b_.i64(0), b_.let("outer_tiles", chosen(row_tiles, column_tiles)), 1, [&](LExpr outer) {
            b_.loop("inner", b_.i64(0), b_.let("inner_tiles", chosen(column_tiles, row_tiles)), 1, [&](LExpr inner) {
                const auto at = [&](const Sym& by_outer, const Sym& by_inner, int64_t step) {
                    return outer * point_.sym(by_outer * Sym(step)) + inner * point_.sym(by_inner * Sym(step));
                };
                const LExpr i = b_.let("i", m0 + at(by_rows, by_columns, mr_)), j = b_.let("j", n0 + at(by_columns, by_rows, nr_));
                const LExpr bp =
                    b_.let("bp", unpacked_ ? b_base + j : b_base + loop::floordiv(j - n0, nr_) * b_depth * nr_);
                if (unpacked_) {
                    masks_.clear();
                    for (int64_t v = 0; v < plan_.nv; ++v)
                        masks_.push_back(b_.let("mask", loop::first_lanes(n1 - j - v * lanes_, lanes_)));
                }
                if (!unpacked_ && !plan_.tiles)
                    ahead_ = ahead(b_factor_, loop::floordiv(i - m0, mr_), words(k1 - k0), next_panel(n1 - j, bp, b_base, b_depth, k0, k1));
                const auto one = [&] { one_tile(m0, m1, n0, n1, k0, k1, i, j, a_base, a_depth, bp, last); };
                if (!narrow_rest()) return one();
                b_.if_(
                    loop::le(n1 - j, b_.i64(lanes_)),
                    [&] {
                        nv_ = 1;
                        one();
                        nv_ = plan_.nv;
                    },
                    one);
            });
        });
    }

    // What comes behind a panel of columns: the next one of this block of depth, or the first of the next block, or of the next task.
    LExpr next_panel(LExpr columns_left, LExpr bp, LExpr b_base, LExpr b_depth, LExpr k0, LExpr k1) {
        const LExpr behind = bp + b_depth * nr_;
        const LExpr other = loop::select(loop::lt(k1, point_.sym(depth_)), b_base + words(k1 - k0) * nr_, behind - words(k0) * nr_);
        return loop::select(loop::gt(columns_left, b_.i64(nr_)), behind, other);
    }

    // Whether the last columns of few may run in a register tile of one vector.
    bool narrow_rest() const {
        if ((!unpacked_ && parts_ == 1) || plan_.nv != 2) return false;
        const auto n = columns_.constant();
        return !n || (*n % nr_ > 0 && *n % nr_ <= lanes_);
    }

    void one_tile(LExpr m0, LExpr m1, LExpr n0, LExpr n1, LExpr k0, LExpr k1, LExpr i, LExpr j, LExpr a_base, LExpr a_depth, LExpr bp,
                  LExpr last) {
        const LExpr ap = b_.let("ap", copied_rows_ ? (i - m0) * pitch()
                                                   : a_base + loop::floordiv(i - m0, mr_) * a_depth * mr_);
        const LExpr cp = one_block_ ? b_.i64(0) : b_.let("cp", (i - m0) * plan_.nt + (j - n0));
        const LExpr left = b_.let("left", m1 - i);
        LExpr whole;  // a full tile's last block goes from its registers to its place
        if (direct_) {
            whole = loop::both(loop::ge(left, b_.i64(mr_)), loop::ge(n1 - j, b_.i64(nv_ * lanes_)));
            whole = b_.let("whole", one_block_ ? whole : loop::both(whole, last));
        }
        sums_of(i - m0, j - n0, m0, n0);
        choose_rows(left, [&](int64_t rows) { tile(rows, ap, bp, cp, i, j, k0, k1, whole); });
        LExpr pending = last;
        if (direct_) pending = one_block_ ? loop::negate(whole) : loop::both(last, loop::negate(whole));
        b_.if_(pending, [&] { epilogue(i, j, loop::min(left, b_.i64(mr_)), n1, cp); });
    }

    void tile(int64_t rows, LExpr ap, LExpr bp, LExpr cp, LExpr i, LExpr j, LExpr k0, LExpr k1, LExpr whole) {
        if (plan_.tiles && rows == mr_)
            b_.if_(loop::both(large_, loop::ge(k1, point_.sym(depth_))), [&] { ask_for_results(i, j + results_ahead_); });
        if (plan_.tiles)
            return tile_registers(rows, a_, ap, b_factor_, bp, words(k1 - k0), c_buffer_, cp, c_stride_,
                                  one_block_ ? LExpr{} : loop::gt(k0, b_.i64(0)));
        Operands o;
        const LExpr next = next_rows_ ? b_.let("next", next_rows_ + i * point_.sym(step(*rows_in_memory_, k_.m[0]))) : LExpr{};
        o.a = [&](int64_t r, LExpr k) {
            if (r == 0 && next)
                ask_for_rows(next, k);
            else if (r == 0)
                ask_ahead(a_, ap + k * mr_);
            return b_.load(a_.panels, copied_rows_ ? ap + k + r * pitch() : ap + k * mr_ + r);
        };
        LExpr row, ahead;
        if (unpacked_) {
            row = b_.let("row", point_.sym(step(*unpacked_, k_.k[0])));
            ahead = b_.let("ahead", row * (rows <= kLeastRows ? kLeastDepth : kFewDepth));
        }
        o.b = [&](LExpr k) {
            const LExpr at = b_.let("at", bp + k * (unpacked_ ? row : b_.i64(nr_)));
            std::vector<LExpr> v;
            for (int64_t n = 0; n < nv_; ++n)
                v.push_back(b_.let("b", unpacked_ ? b_.load(unpacked_->buffer, at + n * lanes_, lanes_, masks_[static_cast<size_t>(n)])
                                                  : b_.load(b_factor_.panels, at + n * lanes_, lanes_)));
            if (ahead_.from)
                b_.prefetch(b_factor_.panels, ahead_.from + k * ahead_.step, false, true);
            else if (!unpacked_)
                ask_ahead(b_factor_, at);
            // Each position of depth is a row of its own in memory, at a place that the processor does not foresee. Rows of few
            // columns lie close to each other, and few of them are done with before it would help.
            constexpr int64_t kManyRows = 128;
            if (unpacked_ && nv_ > 1 && depth_.upper() >= kManyRows && !from_memory().is(0))
                for (int64_t n = 0; n < nv_; ++n) b_.prefetch(unpacked_->buffer, at + ahead + n * lanes_, false, true);
            return v;
        };
        // The tiles of what is left over, where it is of unknown number: little time is spent there, and code takes time to
        // compile.
        if (!rows_.is_const() || !columns_.is_const()) o.unroll = rows * nv_ <= 2 ? 4 : rows * nv_ <= 4 ? 2 : 1;
        const auto place = [&](int64_t r, int64_t v) { return cp + (r * c_stride_ + v * lanes_); };
        if (!one_block_) {
            o.has_before = loop::gt(k0, b_.i64(0));
            o.before = [&](int64_t r, int64_t v) { return b_.load(c_buffer_, place(r, v), lanes_); };
        }
        if (parts_ > 1) {
            const bool swap = parts_ == 4 && (a_.is_signed != a_.words.flip);  // the rows have the signs
            o.multiply_add = [swap, f = parts_ == 4 ? loop::DotFn::U8S8x4 : loop::DotFn::Bf16x2](LExpr x, LExpr y, LExpr sum) {
                return swap ? loop::dot(f, y, x, sum) : loop::dot(f, x, y, sum);
            };
        }
        if (whole && rows == mr_) b_.if_(loop::both(whole, large_), [&] { ask_for_results(i, j + results_ahead_); });
        const Accumulators acc = register_tile(rows, b_.let("count", words(k1 - k0)), o);
        const auto keep = [&] {
            for (int64_t r = 0; r < rows; ++r)
                for (int64_t v = 0; v < nv_; ++v) b_.store(c_buffer_, place(r, v), sum(acc, r, v));
        };
        if (!whole || rows != mr_) return keep();
        b_.if_(
            whole,
            [&] {
                const Point::Scope scope = point_.save();
                for (int64_t r = 0; r < rows; ++r) {
                    decode(k_.m, b_.let("row", i + r));
                    for (int64_t v = 0; v < nv_; ++v)
                        flat(j + v * lanes_, {}, sum(acc, r, v), b_.i64(r), b_.i64(v * lanes_));
                    point_.restore(scope);
                }
            },
            keep);
    }

    // What will be copied next is asked for while this is computed: a line of one of the tile's rows at each position of depth.
    // `next`: where what is copied next lies of the tile's first row.
    void ask_for_rows(LExpr next, LExpr k) {
        const int64_t line = 64 / static_cast<int64_t>(size_of(type_));
        const LExpr row = b_.let("line", loop::mod(k, line));
        b_.prefetch(rows_in_memory_->buffer, next + row * point_.sym(step(*rows_in_memory_, k_.m[0])) + (k - row), false, true);
    }

    // Each row of a register tile's results lies in lines of its own, which stores would wait for where they are not in the
    // caches: asked for while the sums are made.
    void ask_for_results(LExpr i, LExpr j) {
        const int64_t line = 64 / static_cast<int64_t>(size_of(c_.storage[q_.lhs].dtype));
        for (int64_t r = 0; r < mr_; ++r) {
            const Point::Scope scope = point_.save();
            decode(k_.m, b_.let("row", i + r));
            for (VarId v : k_.n) point_.bind(v, b_.i64(0));
            point_.bind(k_.n.back(), j);
            const LExpr at = b_.let("at", point_.place(q_));
            for (int64_t column = 0; column < nv_ * lanes_; column += line)
                b_.prefetch(c_.storage[q_.lhs].buffer, at + column, true);
            point_.restore(scope);
        }
    }

    // Where column 0 stands at depth k0.
    LExpr first_column(LExpr k0) {
        const Point::Scope scope = point_.save();
        for (VarId v : k_.n) point_.bind(v, b_.i64(0));
        point_.bind(k_.k[0], k0);
        const LExpr r = b_.let("column0", place(*unpacked_));
        point_.restore(scope);
        return r;
    }

    // The columns are one flat run (see Contraction).
    void flat(LExpr column, LExpr mask, LExpr sum, LExpr row_of_tile, LExpr column_of_tile) {
        for (VarId v : k_.n) point_.bind(v, b_.i64(0));
        if (!a_.shifts() && !b_factor_.shifts()) return finish(k_.n.back(), column, mask, sum);
        finish(k_.n.back(), column, mask, sum, [&](LExpr s) {
            const auto load = [&](const Factor& f, LExpr from, LExpr at, int lanes) {
                return f.add_up ? b_.let("sums", b_.load(f.sums, from + at, lanes)) : LExpr{};
            };
            return corrected(a_, b_factor_, load(a_, row_sums_, row_of_tile, 1),
                             load(b_factor_, column_sums_, column_of_tile, lanes_), s);
        });
    }

    // Where the sums along the depth of a register tile's rows and columns begin.
    void sums_of(LExpr row, LExpr column, LExpr m0, LExpr n0) {
        const auto at = [&](const Factor& f, LExpr from, LExpr first) {
            if (!f.whole()) return from;
            return sums_base(f, flatten(f.batch) * point_.sym(ceil_div(f.span, f.width))) + (first + from);
        };
        if (a_.add_up) row_sums_ = at(a_, row, m0);
        if (b_factor_.add_up) column_sums_ = at(b_factor_, column, n0);
    }

    // The rest of the equation on a finished register tile, row by row from fast memory. Tiles that are full to their
    // last column store without a mask, which some processors are slow at.
    void epilogue(LExpr row0, LExpr column0, LExpr rows, LExpr n1, LExpr cp) {
        const auto vector = [&](LExpr r, LExpr j, LExpr offset, LExpr mask) {
            flat(j, mask, b_.load(c_buffer_, cp + r * c_stride_ + offset, lanes_), r, offset);
        };
        const auto each_row = [&](auto&& columns) {
            b_.loop("r", b_.i64(0), rows, 1, [&](LExpr r) {
                const Point::Scope scope = point_.save();
                decode(k_.m, b_.let("row", row0 + r));
                columns(r);
                point_.restore(scope);
            });
        };
        const auto full = [&] {
            each_row([&](LExpr r) {
                for (int64_t v = 0; v < plan_.nv; ++v) vector(r, column0 + v * lanes_, b_.i64(v * lanes_), {});
            });
        };
        const auto rest = [&] {
            each_row([&](LExpr r) {
                b_.loop("j", column0, n1, lanes_, [&](LExpr j) {
                    vector(r, j, j - column0,
                           columns_.multiple_of(lanes_) ? LExpr{} : loop::first_lanes(n1 - j, lanes_));
                });
            });
        };
        if (nv_ < plan_.nv) return rest();
        if (columns_.multiple_of(nr_)) return full();
        b_.if_(loop::ge(n1 - column0, b_.i64(nr_)), full, rest);
    }

    static constexpr int64_t kCachedColumns = 1 << 20;  // bytes
    // Positions of depth of a block of columns that are read where they stand and come from memory: rows that are read side by
    // side, so that the processor sees each as a stream.
    static constexpr int64_t kFewDepth = 16, kLeastRows = 4, kLeastDepth = 64;
    static constexpr int64_t kTasks = 8;           // to aim at, so that threads share them out evenly
    static constexpr int64_t kUnpackedRows = 96;  // of a task, at most (and less than a register tile more)
    Sym m_tiles_ = 1, n_tiles_ = 1;  // tasks that share the rows, and the columns
    int64_t together_ = 0;           // rows of a task whose kernel's nests run together
    int64_t most_rows_ = 0;  // of a task
    Factor a_, b_factor_;
    std::optional<Plain> unpacked_;
    std::vector<LExpr> masks_;  // of the columns of the register tile at hand, where unpacked_
    bool copied_rows_ = false;  // a_.panels holds rows side by side along the depth, pitch() apart
    std::optional<Plain> rows_in_memory_;  // what is copied, where that can be asked for
    LExpr next_rows_;                      // where what is copied next lies of row 0
    bool one_block_ = false;
    Ahead ahead_;          // of the register tile at hand
    LExpr large_;          // whether the results are more than the caches hold
    LExpr results_ahead_;  // columns between a register tile and that whose results are asked for
    bool direct_ = false;  // full register tiles are finished from registers
    int64_t c_stride_ = 0;
    loop::BufferId c_buffer_ = loop::BufferId::none;
    LExpr row_sums_, column_sums_;  // of the register tile at hand, where they are wanted
};
}  // namespace

void lower_contraction(Context& c, size_t nest, Stage stage) {
    const schedule::Nest& n = c.tile.kernel.nests[nest];
    if (schedule::from_windows(*c.tile.nests[nest].contract)) {
        const auto w = schedule::windows_of(c.math, c.math.equations[n.equations[0]], *n.contraction);
        if (w && n.contraction->lanewise && lower_lanewise(c, nest, w->window, stage)) return;
        if (w) return (w->points ? lower_points : lower_window)(c, nest, w->window, std::move(stage));
    }
    // Both forms where the extents decide, when they are known.
    const Sym unpacked = ContractLowering(c, nest, false, 0).better_unpacked();
    if (!unpacked.is(0)) ContractLowering(c, nest, true, Sym(1) - unpacked).run(stage);
    if (!unpacked.is(1)) ContractLowering(c, nest, false, unpacked).run(std::move(stage));
}

}  // namespace opwright::target::cpu
