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

#include "target/cpu/lower_nest.h"

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
        a_batch_ = batch_of(k_.a);
        b_batch_ = batch_of(k_.b);
        a_constant_ = packable(k_.a, a_batch_, rows_);
        b_constant_ = packable(k_.b, b_batch_, columns_);
        nt_ = tile_columns();
    }

    void run(Stage& stage) {
        const Sym batches = extent(k_.batch), m_tiles = ceil_div(rows_, plan_.mt), n_tiles = ceil_div(columns_, nt_);
        stage.tasks = batches * m_tiles * n_tiles;
        stage.contraction = ContractionFacts{mr_, nr_, rest_tiles(), rows_, columns_, depth_, batches};
        if (!a_constant_) stage.contraction->packed = batches * n_tiles * rows_ * depth_;
        if (!b_constant_) stage.contraction->packed = stage.contraction->packed + batches * m_tiles * columns_ * depth_;
        const loop::BufferId a = panels("a", k_.a, a_constant_, a_batch_, ceil_div(rows_, mr_) * mr_, plan_.mt);
        const loop::BufferId b = panels("b", k_.b, b_constant_, b_batch_, ceil_div(columns_, nr_) * nr_, plan_.nt);
        if (a_constant_) pack_function(a, true);
        if (b_constant_) pack_function(b, false);
        // With one block of depth a register tile is finished at once: its place in fast memory can be one for all.
        one_block_ = depth_.is_const() && *depth_.constant() <= plan_.kc;
        c_stride_ = one_block_ ? nr_ : plan_.nt;
        direct_ = one_block_ && k_.m.size() == 1 && light_epilogue();
        c_buffer_ = b_.scratch(name_ + "_c", type_, b_.i64(one_block_ ? mr_ * nr_ : plan_.mt * plan_.nt));
        if (k_.n.size() > 1) row_buffer_ = b_.scratch(name_ + "_row", type_, b_.i64(plan_.nt + 2 * lanes_));

        b_.function(name_, [&] {
            b_.loop("task", b_.task_begin(), b_.task_end(), 1, [&](LExpr task) {
                const Point::Scope scope = point_.save();
                const LExpr nt = point_.sym(n_tiles), mt = point_.sym(m_tiles);
                const LExpr n0 = b_.let("n0", loop::mod(task, nt) * point_.sym(nt_));
                const LExpr rest = b_.let("rest", loop::floordiv(task, nt));
                const LExpr m0 = b_.let("m0", loop::mod(rest, mt) * plan_.mt);
                decode(k_.batch, b_.let("batch", loop::floordiv(rest, mt)));
                const LExpr m1 = b_.let("m1", loop::min(m0 + plan_.mt, point_.sym(rows_)));
                const LExpr n1 = b_.let("n1", loop::min(n0 + point_.sym(nt_), point_.sym(columns_)));
                const LExpr depth = point_.sym(depth_);
                // An empty sum still has its epilogue, so there is one block at least.
                b_.loop("k0", b_.i64(0), loop::max(depth, b_.i64(1)), plan_.kc, [&](LExpr k0) {
                    const LExpr k1 = b_.let("k1", loop::min(k0 + plan_.kc, depth));
                    if (!a_constant_) pack_a(a, b_.i64(0), b_.i64(plan_.kc), m0, m1, k0, k1);
                    if (!b_constant_) pack_b(b, b_.i64(0), b_.i64(plan_.kc), n0, n1, k0, k1);
                    tiles(a, b, m0, m1, n0, n1, k0, k1);
                });
                point_.restore(scope);
            });
        });
    }

private:
    Sym extent(const std::vector<VarId>& vs) const {
        Sym n = 1;
        for (VarId v : vs) n = n * c_.math.vars[v].extent;
        return n;
    }
    // Columns of one task: plan_.nt at most. Where all rows are packed beforehand, narrower tasks cost nothing, and few
    // columns are shared out among threads; otherwise equal tasks at least.
    Sym tile_columns() const {
        const Sym nr(nr_), most(plan_.nt);
        if (a_constant_) {
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

    // Binds the variables of a flattened index.
    void decode(const std::vector<VarId>& vs, LExpr flat) {
        for (size_t i = vs.size(); i-- > 0;) {
            if (i == 0) {
                point_.bind(vs[0], flat);
                return;
            }
            const LExpr n = point_.sym(c_.math.vars[vs[i]].extent);
            point_.bind(vs[i], b_.let(c_.math.vars[vs[i]].name, loop::mod(flat, n)));
            flat = b_.let("outer", loop::floordiv(flat, n));
        }
    }
    LExpr flatten(const std::vector<VarId>& vs) {
        LExpr r = b_.i64(0);
        for (VarId v : vs) r = r * point_.sym(c_.math.vars[v].extent) + point_.variable(v);
        return r;
    }

    loop::BufferId panels(const char* which, ExprId e, bool constant, const std::vector<VarId>& batch, const Sym& span,
                          int64_t tile) {
        if (!constant) return b_.scratch(name_ + "_" + which, type_, b_.i64(tile * plan_.kc));
        const Sym elements = extent(batch) * span * max(depth_, 1);
        c_.out.packs.push_back({name_ + "_pack_" + which, 0, elements, type_, c_.math.reads(e)});
        const loop::BufferId buffer =
            b_.param(name_ + "_" + which, type_, static_cast<uint32_t>(c_.out.arguments.size()));
        c_.out.arguments.push_back({.kind = Argument::Kind::Packed, .packed = c_.out.packs.size() - 1});
        return buffer;
    }

    // A function that packs one panel a task.
    void pack_function(loop::BufferId buffer, bool a) {
        Pack* pack = nullptr;
        for (Pack& p : c_.out.packs)
            if (p.function == name_ + (a ? "_pack_a" : "_pack_b")) pack = &p;
        const int64_t width = a ? mr_ : nr_;
        const Sym span = a ? rows_ : columns_, count = ceil_div(span, width);
        const auto& batch = a ? a_batch_ : b_batch_;
        pack->tasks = extent(batch) * count;
        if (!a && k_.n.size() > 1) row_buffer_ = b_.scratch(name_ + "_pack_row", type_, b_.i64(nr_ + 2 * lanes_));
        b_.function(pack->function, [&] {
            b_.loop("task", b_.task_begin(), b_.task_end(), 1, [&](LExpr task) {
                const Point::Scope scope = point_.save();
                const LExpr panel = b_.let("panel", loop::mod(task, point_.sym(count)));
                decode(batch, b_.let("batch", loop::floordiv(task, point_.sym(count))));
                const LExpr first = b_.let("first", panel * width);
                const LExpr end = b_.let("end", loop::min(first + width, point_.sym(span)));
                const LExpr depth = point_.sym(depth_);
                const LExpr base = b_.let("base", task * depth * width);
                if (a)
                    pack_a(buffer, base, depth, first, end, b_.i64(0), depth);
                else
                    pack_b(buffer, base, depth, first, end, b_.i64(0), depth);
                point_.restore(scope);
            });
        });
    }

    // Stride in elements of e along v when everything e reads is contiguous or constant along it.
    bool unit_stride(ExprId e, VarId v) {
        std::vector<bool> seen(c_.math.expr_count());
        std::vector<ExprId> stack{e};
        bool unit = true, any = false;
        while (!stack.empty()) {
            const ExprId x = stack.back();
            stack.pop_back();
            if (seen[x]) continue;
            seen[x] = true;
            const math::Expr& n = c_.math.expr(x);
            if (n.kind == ExprKind::Load) {
                Sym stride = 0;
                for (size_t d = 0; d < c_.math.tensors[n.ref].shape.size(); ++d) {
                    const auto f = affine(c_.math, n.args[d]);
                    if (!f) return false;
                    stride = stride + f->coefficient(v) * c_.storage[n.ref].strides[d];
                }
                if (stride.is(1))
                    any = true;
                else if (!stride.is(0))
                    unit = false;
            }
            for (ExprId a : n.args) stack.push_back(a);
        }
        return unit && any;
    }
    // A factor on its way into a panel. Subnormal numbers become zero there: each one in a register tile costs the
    // processor a microcode assist (trained weights are full of them), and all they add is below 2^-126 times the other
    // factor.
    LExpr value(ExprId e) {
        const LExpr v = loop::cast(point_.eval(e, 0), type_);
        if (!is_float(type_)) return v;
        const double smallest_normal = type_ == DType::F64 ? 0x1p-1022 : 0x1p-126;
        const LExpr tiny = loop::lt(loop::unary(loop::UnaryFn::Abs, v),
                                    loop::broadcast(b_.literal(type_, smallest_normal), v.type().lanes));
        return loop::select(tiny, loop::broadcast(b_.literal(type_, 0), v.type().lanes), v);
    }

    // dst[base + (panel*panel_depth + k - k0)*mr + r] = A(row, k), zero where row >= end.
    void pack_a(loop::BufferId dst, LExpr base, LExpr panel_depth, LExpr first, LExpr end, LExpr k0, LExpr k1) {
        const LExpr count = loop::ceildiv(end - first, mr_);
        b_.loop("panel", b_.i64(0), count, 1, [&](LExpr panel) {
            const LExpr at = b_.let("at", base + panel * panel_depth * mr_);
            const LExpr row0 = b_.let("row0", first + panel * mr_);
            if (k_.m.size() == 1 && mr_ > 1 && unit_stride(k_.a, k_.m[0]) && !unit_stride(k_.a, k_.k.back())) {
                pack_rows_on_lanes(dst, at, row0, end, k0, k1);
                return;
            }
            b_.loop("r", 0, b_.i64(mr_), 1, [&](LExpr r) {
                const LExpr row = b_.let("row", row0 + r);
                b_.if_(
                    loop::lt(row, end),
                    [&] {
                        const Point::Scope scope = point_.save();
                        decode(k_.m, row);
                        if (k_.k.size() == 1 && unit_stride(k_.a, k_.k[0])) {
                            const auto step = [&](LExpr k, LExpr mask) {
                                const Point::Scope inner = point_.save();
                                point_.set_lanes(k_.k[0], lanes_, 1, mask);
                                point_.bind(k_.k[0], k);
                                b_.store_strided(dst, at + (k - k0) * mr_ + r, mr_, point_.broadcast(value(k_.a)),
                                                 mask);
                                point_.restore(inner);
                            };
                            const LExpr main = b_.let("main", k0 + loop::floordiv(k1 - k0, lanes_) * lanes_);
                            b_.loop("k", k0, main, lanes_, [&](LExpr k) { step(k, {}); });
                            b_.loop("k", main, k1, lanes_,
                                    [&](LExpr k) { step(k, loop::first_lanes(k1 - k, lanes_)); });
                        } else {
                            b_.loop("k", k0, k1, 1, [&](LExpr k) {
                                const Point::Scope inner = point_.save();
                                point_.set_lanes(kNone, 1, 1, {});
                                decode(k_.k, k);
                                b_.store(dst, at + (k - k0) * mr_ + r, value(k_.a));
                                point_.restore(inner);
                            });
                        }
                        point_.restore(scope);
                    },
                    [&] {
                        b_.loop("k", k0, k1, 1,
                                [&](LExpr k) { b_.store(dst, at + (k - k0) * mr_ + r, b_.literal(type_, 0)); });
                    });
            });
        });
    }
    void pack_rows_on_lanes(loop::BufferId dst, LExpr at, LExpr row0, LExpr end, LExpr k0, LExpr k1) {
        b_.loop("k", k0, k1, 1, [&](LExpr k) {
            for (int64_t r = 0; r < mr_; r += lanes_) {
                const Point::Scope scope = point_.save();
                const LExpr mask = loop::first_lanes(loop::min(end - row0, b_.i64(mr_)) - r, lanes_);
                point_.set_lanes(k_.m[0], lanes_, 1, mask);
                point_.bind(k_.m[0], row0 + r);
                decode(k_.k, k);
                const LExpr v =
                    loop::select(mask, point_.broadcast(value(k_.a)), loop::broadcast(b_.literal(type_, 0), lanes_));
                const LExpr keep = loop::first_lanes(b_.i64(mr_ - r), lanes_);
                b_.store(dst, at + (k - k0) * mr_ + r, v, mr_ - r >= lanes_ ? LExpr{} : keep);
                point_.restore(scope);
            }
        });
    }

    // dst[base + (panel*panel_depth + k - k0)*nr + j] = B(k, column), zero where column >= end.
    void pack_b(loop::BufferId dst, LExpr base, LExpr panel_depth, LExpr first, LExpr end, LExpr k0, LExpr k1) {
        const LExpr zero = loop::broadcast(b_.literal(type_, 0), lanes_);
        // One column variable that is contiguous along the depth alone: lanes run along the depth.
        if (k_.n.size() == 1 && k_.k.size() == 1 && !unit_stride(k_.b, k_.n[0]) && unit_stride(k_.b, k_.k[0])) {
            pack_columns_along_depth(dst, base, panel_depth, first, end, k0, k1);
            return;
        }
        std::optional<Range> lines;  // of the columns of several variables: runs of the innermost one
        if (k_.n.size() > 1) {
            const LExpr n = point_.sym(c_.math.vars[k_.n.back()].extent);
            lines = {b_.let("line0", loop::floordiv(first, n)), b_.let("line1", loop::floordiv(end - 1, n) + 1)};
        }
        b_.loop("k", k0, k1, 1, [&](LExpr k) {
            const Point::Scope scope = point_.save();
            decode(k_.k, k);
            const LExpr at = b_.let("at", base + (k - k0) * nr_);
            const LExpr full = b_.let("full", loop::floordiv(end - first, nr_));
            const LExpr count = loop::ceildiv(end - first, nr_);
            if (lines) row_of(*lines, first, end);
            const auto vector = [&](LExpr panel, int64_t v, bool masked) {
                const LExpr j = first + panel * nr_ + v * lanes_;
                const LExpr mask = masked ? loop::first_lanes(end - j, lanes_) : LExpr{};
                LExpr x;
                if (k_.n.size() > 1) {
                    x = b_.load(row_buffer_, j - first, lanes_, mask);
                } else {
                    const Point::Scope inner = point_.save();
                    point_.set_lanes(k_.n[0], lanes_, 1, mask);
                    point_.bind(k_.n[0], j);
                    x = point_.broadcast(value(k_.b));
                    point_.restore(inner);
                }
                if (masked) x = loop::select(mask, x, zero);
                b_.store(dst, at + panel * panel_depth * nr_ + v * lanes_, x);
            };
            b_.loop("panel", b_.i64(0), full, 1, [&](LExpr panel) {
                for (int64_t v = 0; v < plan_.nv; ++v) vector(panel, v, false);
            });
            b_.loop("panel", full, count, 1, [&](LExpr panel) {
                for (int64_t v = 0; v < plan_.nv; ++v) vector(panel, v, true);
            });
            point_.restore(scope);
        });
    }
    void pack_columns_along_depth(loop::BufferId dst, LExpr base, LExpr panel_depth, LExpr first, LExpr end, LExpr k0,
                                  LExpr k1) {
        const LExpr count = loop::ceildiv(end - first, nr_);
        b_.loop("panel", b_.i64(0), count, 1, [&](LExpr panel) {
            const LExpr at = b_.let("at", base + panel * panel_depth * nr_);
            b_.loop("j", 0, b_.i64(nr_), 1, [&](LExpr j) {
                const LExpr column = b_.let("column", first + panel * nr_ + j);
                const auto step = [&](LExpr k, LExpr mask) {
                    const Point::Scope inner = point_.save();
                    point_.set_lanes(k_.k[0], lanes_, 1, mask);
                    point_.bind(k_.k[0], k);
                    b_.store_strided(dst, at + (k - k0) * nr_ + j, nr_, point_.broadcast(value(k_.b)), mask);
                    point_.restore(inner);
                };
                b_.if_(
                    loop::lt(column, end),
                    [&] {
                        const Point::Scope scope = point_.save();
                        point_.bind(k_.n[0], column);
                        const LExpr main = b_.let("main", k0 + loop::floordiv(k1 - k0, lanes_) * lanes_);
                        b_.loop("k", k0, main, lanes_, [&](LExpr k) { step(k, {}); });
                        b_.loop("k", main, k1, lanes_, [&](LExpr k) { step(k, loop::first_lanes(k1 - k, lanes_)); });
                        point_.restore(scope);
                    },
                    [&] {
                        b_.loop("k", k0, k1, 1,
                                [&](LExpr k) { b_.store(dst, at + (k - k0) * nr_ + j, b_.literal(type_, 0)); });
                    });
            });
        });
    }
    // row[j - first] = B(k, j) for columns of several variables: runs along the innermost one at a time. A run may
    // write past its end; the next one puts that right, and the buffer has room behind the last.
    void row_of(const Range& lines, LExpr first, LExpr end) {
        const VarId inner = k_.n.back();
        const std::vector<VarId> outer(k_.n.begin(), k_.n.end() - 1);
        const LExpr n = point_.sym(c_.math.vars[inner].extent);
        b_.loop("line", lines.begin, lines.end, 1, [&](LExpr line) {
            const Point::Scope scope = point_.save();
            decode(outer, line);
            const LExpr start = b_.let("start", line * n);
            const LExpr from = b_.let("from", loop::max(first - start, b_.i64(0)));
            const LExpr to = b_.let("to", loop::min(end - start, n));
            const auto step = [&](LExpr j, LExpr mask) {
                const Point::Scope s = point_.save();
                point_.set_lanes(inner, lanes_, 1, mask);
                point_.bind(inner, j);
                b_.store(row_buffer_, start + j - first, point_.broadcast(value(k_.b)));
                point_.restore(s);
            };
            const auto tested = [&](LExpr begin, LExpr end) {
                const LExpr main = b_.let("main", begin + loop::floordiv(end - begin, lanes_) * lanes_);
                b_.loop("j", begin, main, lanes_, [&](LExpr j) { step(j, {}); });
                b_.loop("j", main, end, lanes_, [&](LExpr j) { step(j, loop::first_lanes(end - j, lanes_)); });
            };
            const Interior in = interior(c_, point_, inner, {}, {k_.b});
            if (in.lanes || in.whole) {
                // Where no access leaves its tensor, nothing is tested.
                LExpr begin = from, end = to;
                if (in.lanes) {
                    begin = b_.let("begin", loop::min(loop::max(in.lanes->begin, from), to));
                    end = b_.let("end", loop::max(loop::min(in.lanes->end, to), begin));
                }
                const LExpr rest = b_.let("rest", begin + loop::floordiv(end - begin, lanes_) * lanes_);
                const auto inside = [&] {
                    tested(from, begin);
                    point_.set_interior(true);
                    point_.set_whole_inside(static_cast<bool>(in.whole));
                    b_.loop("j", begin, rest, lanes_, [&](LExpr j) { step(j, {}); });
                    point_.set_interior(false);
                    point_.set_whole_inside(false);
                    tested(rest, to);
                };
                if (in.whole)
                    b_.if_(in.whole, inside, [&] { tested(from, to); });
                else
                    inside();
            } else {
                tested(from, to);
            }
            point_.restore(scope);
        });
    }

    // Where the panel of the tile's first row (column) starts, and how far panels are apart.
    LExpr panel_base(bool constant, const std::vector<VarId>& batch, const Sym& span, int64_t width, LExpr first,
                     LExpr k0) {
        if (!constant) return b_.i64(0);
        const LExpr depth = point_.sym(depth_);
        const LExpr panel = flatten(batch) * point_.sym(ceil_div(span, width)) + loop::floordiv(first, width);
        return b_.let("panels", (panel * depth + k0) * width);
    }

    void tiles(loop::BufferId a, loop::BufferId b, LExpr m0, LExpr m1, LExpr n0, LExpr n1, LExpr k0, LExpr k1) {
        const LExpr a_base = panel_base(a_constant_, a_batch_, rows_, mr_, m0, k0);
        const LExpr b_base = panel_base(b_constant_, b_batch_, columns_, nr_, n0, k0);
        const LExpr a_depth = a_constant_ ? point_.sym(depth_) : b_.i64(plan_.kc);
        const LExpr b_depth = b_constant_ ? point_.sym(depth_) : b_.i64(plan_.kc);
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
    Sym rows_, columns_, depth_, nt_ = 0;
    std::vector<VarId> a_batch_, b_batch_;
    bool a_constant_ = false, b_constant_ = false, one_block_ = false;
    bool direct_ = false;  // full register tiles are finished from registers
    struct {
        LExpr row, column, is;
    } whole_;  // of the register tile at hand, where direct_: where it stands, and whether it is full
    int64_t c_stride_ = 0;
    loop::BufferId c_buffer_ = loop::BufferId::none, row_buffer_ = loop::BufferId::none;
};
}  // namespace

void lower_contraction(Context& c, size_t nest) { ContractLowering(c, nest).run(c.out.stages[nest]); }

}  // namespace opwright::target::cpu
