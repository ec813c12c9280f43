// The packed contraction: C[rows, columns] = sum over depth of A * B, then the rest of the equation as an epilogue.
//
// Rows, columns and depth are flattened index variables. A task is one tile of mt x nt at one batch point: for each
// block of kc, the factors are evaluated into panels (so that any access - a convolution's window, a conversion, an
// element-wise prologue - costs once an element), then a register tile of mr rows by nv vectors runs over the panels,
// accumulating in a tile of C in fast memory; behind the last block the epilogue reads that tile and stores. A constant
// factor is packed once for all runs. The scheme is the classic one of Goto and van de Geijn, "Anatomy of
// high-performance matrix multiplication".
#include <algorithm>
#include <optional>

#include "target/cpu/lower_pack.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using schedule::Contraction;
using schedule::ContractPlan;

namespace {

class ContractLowering {
public:
    ContractLowering(Context& c, size_t nest)
        : c_(c),
          b_(c.b),
          name_("nest" + std::to_string(nest)),
          k_(*c.tile.kernel.nests[nest].contraction),
          plan_(*c.tile.nests[nest].contract),
          q_(c.math.equations[c.tile.kernel.nests[nest].equations[0]]),
          point_(c.b, c.math, c.storage, c.faults),
          lanes_(plan_.lanes),
          nr_(static_cast<int64_t>(plan_.nv) * plan_.lanes),
          mr_(plan_.mr),
          type_(accumulate_type(c.math.expr(k_.reduce).dtype)) {
        rows_ = extent(k_.m);
        columns_ = extent(k_.n);
        depth_ = extent(k_.k);
        a_ = factor("a", k_.a, k_.m, mr_, rows_);
        b_factor_ = factor("b", k_.b, k_.n, nr_, columns_);
        // Rows that several tasks want are packed once for all of them, unless packing repeats elements: then they
        // would take more memory than what they come from.
        a_.shared = !a_.constant && a_.batch.size() <= k_.batch.size() && !expands(a_) &&
                    (a_.batch.size() < k_.batch.size() || columns_.upper() > plan_.nt);
        nt_ = tile_columns();
        // A few rows more than a tile are no tile of their own: its columns would be packed again for them.
        m_tiles_ =
            rows_.is_const() ? ceil_div(rows_, plan_.mt) : max(1, floor_div(rows_ + Sym(plan_.mt / 2), plan_.mt));
        mt_ = rows_.is_const() ? Sym(plan_.mt) : ceil_div(ceil_div(rows_, m_tiles_), mr_) * Sym(mr_);
        most_rows_ = rows_.is_const() ? plan_.mt : plan_.mt + plan_.mt / 2 + mr_;
    }

    void run(Stage stage) {
        const Sym batches = extent(k_.batch), m_tiles = m_tiles_, n_tiles = ceil_div(columns_, nt_);
        stage.tasks = batches * m_tiles * n_tiles;
        stage.contraction = ContractionFacts{mr_, nr_, rest_tiles(), rows_, columns_, depth_, batches};
        Sym& packed = stage.contraction->packed;
        if (a_.shared)
            packed = extent(a_.batch) * rows_ * depth_;
        else if (!a_.constant)
            packed = batches * n_tiles * rows_ * depth_;
        if (!b_factor_.constant) packed = packed + batches * m_tiles * columns_ * depth_;
        panels(a_, most_rows_);
        panels(b_factor_, plan_.nt);
        // With one block of depth a register tile is finished at once: its place in fast memory can be one for all.
        one_block_ = depth_.is_const() && *depth_.constant() <= plan_.kc;
        c_stride_ = one_block_ ? nr_ : plan_.nt;
        direct_ = one_block_ && k_.m.size() == 1 && light_epilogue();
        c_buffer_ = b_.scratch(name_ + "_c", type_, b_.i64(one_block_ ? mr_ * nr_ : most_rows_ * plan_.nt));
        Packer a = packer(a_), b = packer(b_factor_, plan_.nt);

        b_.function(name_, [&] {
            b_.loop("task", b_.task_begin(), b_.task_end(), 1, [&](LExpr task) {
                const Point::Scope scope = point_.save();
                const LExpr nt = point_.sym(n_tiles), mt = point_.sym(m_tiles);
                const LExpr n0 = b_.let("n0", loop::mod(task, nt) * point_.sym(nt_));
                const LExpr rest = b_.let("rest", loop::floordiv(task, nt));
                const LExpr m0 = b_.let("m0", loop::mod(rest, mt) * point_.sym(mt_));
                decode(k_.batch, b_.let("batch", loop::floordiv(rest, mt)));
                const LExpr m1 = b_.let("m1", loop::min(m0 + point_.sym(mt_), point_.sym(rows_)));
                const LExpr n1 = b_.let("n1", loop::min(n0 + point_.sym(nt_), point_.sym(columns_)));
                const LExpr depth = point_.sym(depth_);
                // An empty sum still has its epilogue, so there is one block at least.
                b_.loop("k0", b_.i64(0), loop::max(depth, b_.i64(1)), plan_.kc, [&](LExpr k0) {
                    const LExpr k1 = b_.let("k1", loop::min(k0 + plan_.kc, depth));
                    const LExpr room = b_.i64(plan_.kc + slack());
                    if (!a_.whole()) a.pack(a_.panels, b_.i64(0), room, m0, m1, k0, k1);
                    if (!b_factor_.whole()) b.pack(b_factor_.panels, b_.i64(0), room, n0, n1, k0, k1);
                    tiles(m0, m1, n0, n1, k0, k1);
                });
                point_.restore(scope);
            });
        });
        c_.out.stages.push_back(std::move(stage));
    }

private:
    // What is packed: its rows (for the columns' factor: columns) in panels of `width`.
    struct Factor {
        std::string name;
        ExprId value = kNone;
        std::vector<VarId> across, batch;  // batch variables it depends on
        int64_t width = 1;
        Sym span = 0;  // of the rows
        bool constant = false, shared = false;
        loop::BufferId panels = loop::BufferId::none;
        bool whole() const { return constant || shared; }  // all panels exist before the first task
    };
    Factor factor(const char* which, ExprId e, const std::vector<VarId>& across, int64_t width, const Sym& span) const {
        Factor f{.name = which, .value = e, .across = across, .batch = batch_of(e), .width = width, .span = span};
        f.constant = packable(e, f.batch, span);
        return f;
    }
    // Whether panels of the factor may hold more elements than the tensors it reads (windows, broadcasts).
    bool expands(const Factor& f) const {
        const Sym elements = extent(f.batch) * f.span * depth_;
        const std::vector<TensorId> reads = c_.math.reads(f.value);
        return std::none_of(reads.begin(), reads.end(),
                            [&](TensorId t) { return (product(c_.math.tensors[t].shape) - elements).lower() >= 0; });
    }
    int64_t slack() const { return Packer::slack(lanes_); }
    Packer packer(const Factor& f, int64_t most = 0) {
        const bool row = &f == &b_factor_ && f.across.size() > 1;
        return Packer(c_, point_, f.value, f.across, k_.k, f.width, lanes_, type_,
                      row && most ? b_.scratch(name_ + "_row" + std::to_string(most), type_, b_.i64(most + 2 * lanes_))
                                  : loop::BufferId::none);
    }
    Sym extent(const std::vector<VarId>& vs) const {
        Sym n = 1;
        for (VarId v : vs) n = n * c_.math.vars[v].extent;
        return n;
    }
    // Columns of one task: plan_.nt at most. Where all rows are packed beforehand, narrower tasks cost nothing, and few
    // columns are shared out among threads; otherwise equal tasks at least.
    Sym tile_columns() const {
        const Sym nr(nr_), most(plan_.nt);
        if (a_.whole()) {
            const int64_t pieces = rows_.lower() >= 96 ? 8 : 4;
            return max(nr, min(most, ceil_div(ceil_div(columns_, pieces), nr_) * nr));
        }
        const auto n = columns_.constant();
        if (!n || *n <= plan_.nt) return most;
        const int64_t tiles = (*n + plan_.nt - 1) / plan_.nt, each = (*n + tiles - 1) / tiles;
        return Sym((each + nr_ - 1) / nr_ * nr_);
    }
    std::vector<VarId> batch_of(ExprId e) const {
        const std::vector<VarId> fv = c_.math.free_vars(e);
        std::vector<VarId> r;
        for (VarId v : k_.batch)
            if (std::find(fv.begin(), fv.end(), v) != fv.end()) r.push_back(v);
        return r;
    }
    bool packable(ExprId e, const std::vector<VarId>& batch, const Sym& span) const {
        const std::vector<TensorId> reads = c_.math.reads(e);
        if (reads.empty() || !(extent(batch) * span * depth_).is_const()) return false;
        return std::all_of(reads.begin(), reads.end(), [&](TensorId t) { return c_.tile.kernel.constant[t]; });
    }

    void decode(const std::vector<VarId>& vs, LExpr flat) { cpu::decode(c_, point_, vs, flat); }
    LExpr flatten(const std::vector<VarId>& vs) {
        LExpr r = b_.i64(0);
        for (VarId v : vs) r = r * point_.sym(c_.math.vars[v].extent) + point_.variable(v);
        return r;
    }

    void panels(Factor& f, int64_t tile) {
        if (!f.whole()) {
            const int64_t room = (tile + f.width - 1) / f.width * f.width * (plan_.kc + slack());
            f.panels = b_.scratch(name_ + "_" + f.name, type_, b_.i64(room));
            return;
        }
        const Sym count = ceil_div(f.span, f.width), elements = extent(f.batch) * count * room_of_depth() * f.width;
        Stage stage{.function = name_ + "_pack_" + f.name,
                    .tasks = extent(f.batch) * count,
                    .work = extent(f.batch) * f.span * depth_ * kPackWork};
        f.panels = b_.param(name_ + "_" + f.name, type_, static_cast<uint32_t>(c_.out.arguments.size()));
        if (f.constant) {
            c_.out.packs.push_back({stage.function, stage.tasks, elements, type_, c_.math.reads(f.value)});
            c_.out.arguments.push_back({.kind = Argument::Kind::Packed, .packed = c_.out.packs.size() - 1});
        } else {
            c_.out.shared.push_back({elements, type_});
            c_.out.arguments.push_back({.kind = Argument::Kind::Shared, .packed = c_.out.shared.size() - 1});
            c_.out.stages.push_back(stage);
        }
        Packer p = packer(f, f.width);
        b_.function(stage.function, [&] {
            b_.loop("task", b_.task_begin(), b_.task_end(), 1, [&](LExpr task) {
                const Point::Scope scope = point_.save();
                const LExpr panel = b_.let("panel", loop::mod(task, point_.sym(count)));
                decode(f.batch, b_.let("batch", loop::floordiv(task, point_.sym(count))));
                const LExpr first = b_.let("first", panel * f.width);
                const LExpr end = b_.let("end", loop::min(first + f.width, point_.sym(f.span)));
                const LExpr room = point_.sym(room_of_depth());
                p.pack(f.panels, b_.let("base", task * room * f.width), room, first, end, b_.i64(0),
                       point_.sym(depth_));
                point_.restore(scope);
            });
        });
    }
    // Positions of depth of a panel that holds all of it.
    Sym room_of_depth() const { return max(depth_, 1) + Sym(slack()); }

    // Where the panel of the tile's first row (column) starts, and how far panels are apart.
    LExpr panel_base(const Factor& f, LExpr first, LExpr k0) {
        if (!f.whole()) return b_.i64(0);
        const LExpr panel = flatten(f.batch) * point_.sym(ceil_div(f.span, f.width)) + loop::floordiv(first, f.width);
        return b_.let("panels", (panel * point_.sym(room_of_depth()) + k0) * f.width);
    }

    void tiles(LExpr m0, LExpr m1, LExpr n0, LExpr n1, LExpr k0, LExpr k1) {
        const loop::BufferId a = a_.panels, b = b_factor_.panels;
        const LExpr a_base = panel_base(a_, m0, k0), b_base = panel_base(b_factor_, n0, k0);
        const auto room = [&](const Factor& f) {
            return f.whole() ? point_.sym(room_of_depth()) : b_.i64(plan_.kc + slack());
        };
        const LExpr a_depth = room(a_), b_depth = room(b_factor_);
        const LExpr last = b_.let("last", loop::ge(k1, point_.sym(depth_)));
        b_.loop("j", n0, n1, nr_, [&](LExpr j) {
            const LExpr bp = b_.let("bp", b_base + loop::floordiv(j - n0, nr_) * b_depth * nr_);
            b_.loop("i", m0, m1, mr_, [&](LExpr i) {
                const LExpr ap = b_.let("ap", a_base + loop::floordiv(i - m0, mr_) * a_depth * mr_);
                const LExpr cp = one_block_ ? b_.i64(0) : b_.let("cp", (i - m0) * plan_.nt + (j - n0));
                const LExpr left = b_.let("left", m1 - i);
                if (direct_)
                    whole_ = {i, j,
                              b_.let("whole", loop::both(loop::ge(left, b_.i64(mr_)), loop::ge(n1 - j, b_.i64(nr_))))};
                register_tiles(a, b, ap, bp, cp, left, k0, k1);
                b_.if_(direct_ ? loop::negate(whole_.is) : last,
                       [&] { epilogue(i, j, loop::min(left, b_.i64(mr_)), n1, cp); });
            });
        });
    }

    // Few rows left over run in a smaller register tile, so that one row does not cost mr: its numbers of rows.
    std::vector<int64_t> rest_tiles() const {
        if (rows_.multiple_of(mr_) || mr_ <= 4) return {};
        const auto n = rows_.constant();
        if (!n) return {1, 4};
        return *n % mr_ <= mr_ / 2 ? std::vector<int64_t>{*n % mr_} : std::vector<int64_t>{};
    }
    void register_tiles(loop::BufferId a, loop::BufferId b, LExpr ap, LExpr bp, LExpr cp, LExpr left, LExpr k0,
                        LExpr k1) {
        const std::vector<int64_t> sizes = rest_tiles();
        const std::function<void(size_t)> choose = [&](size_t i) {
            if (i == sizes.size()) return register_tile(a, b, ap, bp, cp, mr_, k0, k1);
            b_.if_(
                loop::le(left, b_.i64(sizes[i])), [&] { register_tile(a, b, ap, bp, cp, sizes[i], k0, k1); },
                [&] { choose(i + 1); });
        };
        choose(0);
    }

    void register_tile(loop::BufferId a, loop::BufferId b, LExpr ap, LExpr bp, LExpr cp, int64_t rows, LExpr k0,
                       LExpr k1) {
        const int64_t nv = plan_.nv;
        std::vector<loop::LocalRef> acc;
        for (int64_t i = 0; i < rows * nv; ++i)
            acc.push_back(b_.local("c", loop::broadcast(b_.literal(type_, 0), lanes_)));
        const auto at = [&](int64_t r, int64_t v) { return acc[static_cast<size_t>(r * nv + v)]; };
        if (!one_block_)
            b_.if_(loop::gt(k0, b_.i64(0)), [&] {
                for (int64_t r = 0; r < rows; ++r)
                    for (int64_t v = 0; v < nv; ++v)
                        b_.set(at(r, v), b_.load(c_buffer_, cp + (r * c_stride_ + v * lanes_), lanes_));
            });
        const auto step = [&](LExpr k) {
            std::vector<LExpr> column;
            for (int64_t v = 0; v < nv; ++v)
                column.push_back(b_.let("b", b_.load(b, bp + k * nr_ + v * lanes_, lanes_)));
            for (int64_t r = 0; r < rows; ++r) {
                const LExpr x = b_.let("a", b_.load(a, ap + k * mr_ + r));
                for (int64_t v = 0; v < nv; ++v)
                    b_.set(at(r, v), is_float(type_) ? loop::mul_add(loop::broadcast(x, lanes_),
                                                                     column[static_cast<size_t>(v)], b_.get(at(r, v)))
                                                     : b_.get(at(r, v)) +
                                                           loop::broadcast(x, lanes_) * column[static_cast<size_t>(v)]);
            }
        };
        constexpr int64_t kUnroll = 2;
        const LExpr count = b_.let("count", k1 - k0);
        const LExpr main = b_.let("main", loop::floordiv(count, kUnroll) * kUnroll);
        b_.loop("k", b_.i64(0), main, kUnroll, [&](LExpr k) {
            for (int64_t u = 0; u < kUnroll; ++u) step(k + u);
        });
        b_.loop("k", main, count, 1, step);
        const auto keep = [&] {
            for (int64_t r = 0; r < rows; ++r)
                for (int64_t v = 0; v < nv; ++v)
                    b_.store(c_buffer_, cp + (r * c_stride_ + v * lanes_), b_.get(at(r, v)));
        };
        if (!direct_ || rows != mr_) return keep();
        b_.if_(
            whole_.is,
            [&] {
                const Point::Scope scope = point_.save();
                for (int64_t r = 0; r < rows; ++r) {
                    decode(k_.m, b_.let("row", whole_.row + r));
                    for (int64_t v = 0; v < nv; ++v) finish(whole_.column + v * lanes_, {}, b_.get(at(r, v)));
                    point_.restore(scope);
                }
            },
            keep);
    }

    // Little enough to be written out for every vector of a register tile, straight from its registers.
    bool light_epilogue() const {
        int operations = 0;
        std::vector<bool> seen(c_.math.expr_count());
        std::vector<ExprId> stack{q_.rhs};
        while (!stack.empty()) {
            const ExprId e = stack.back();
            stack.pop_back();
            if (seen[e] || e == k_.reduce) continue;
            seen[e] = true;
            const math::Expr& x = c_.math.expr(e);
            if (x.kind == ExprKind::Call && info(x.fn).cost != CostClass::Free) ++operations;
            if (x.kind == ExprKind::Call && info(x.fn).cost == CostClass::Special) return false;
            for (ExprId a : x.args) stack.push_back(a);
        }
        return operations <= 4;
    }
    // The rest of the equation at `column` and the lanes behind it, for the row that is bound.
    void finish(LExpr column, LExpr mask, LExpr sum) {
        const Point::Scope scope = point_.save();
        for (VarId v : k_.n) point_.bind(v, b_.i64(0));  // the columns are one flat run (see Contraction)
        point_.bind(k_.n.back(), column);
        point_.set_lanes(k_.n.back(), lanes_, 1, mask);
        point_.set_value(k_.reduce, 0, b_.let("sum", sum));
        point_.store(q_, point_.eval(q_.rhs, 0), 0);
        point_.restore(scope);
    }

    // The rest of the equation on a finished register tile, row by row from fast memory. Tiles that are full to their
    // last column store without a mask, which some processors are slow at.
    void epilogue(LExpr row0, LExpr column0, LExpr rows, LExpr n1, LExpr cp) {
        const auto vector = [&](LExpr r, LExpr j, LExpr offset, LExpr mask) {
            finish(j, mask, b_.load(c_buffer_, cp + r * c_stride_ + offset, lanes_));
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
        if (columns_.multiple_of(nr_)) return full();
        b_.if_(loop::ge(n1 - column0, b_.i64(nr_)), full, [&] {
            each_row([&](LExpr r) {
                b_.loop("j", column0, n1, lanes_, [&](LExpr j) {
                    vector(r, j, j - column0,
                           columns_.multiple_of(lanes_) ? LExpr{} : loop::first_lanes(n1 - j, lanes_));
                });
            });
        });
    }

    Context& c_;
    loop::Builder& b_;
    std::string name_;
    const Contraction& k_;
    const ContractPlan plan_;
    const Equation& q_;
    Point point_;
    int lanes_;
    int64_t nr_, mr_;
    DType type_;
    Sym rows_, columns_, depth_, nt_ = 0, mt_ = 0, m_tiles_ = 1;
    int64_t most_rows_ = 0;  // of a task
    Factor a_, b_factor_;
    bool one_block_ = false;
    bool direct_ = false;  // full register tiles are finished from registers
    struct {
        LExpr row, column, is;
    } whole_;  // of the register tile at hand, where direct_: where it stands, and whether it is full
    int64_t c_stride_ = 0;
    loop::BufferId c_buffer_ = loop::BufferId::none;
};
}  // namespace

void lower_contraction(Context& c, size_t nest, Stage stage) { ContractLowering(c, nest).run(std::move(stage)); }

}  // namespace opwright::target::cpu
