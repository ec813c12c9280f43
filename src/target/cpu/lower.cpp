#include "target/cpu/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "schedule/together.h"
#include "target/cpu/lower_beside.h"
#include "target/cpu/lower_nest.h"
#include "target/cpu/lower_parts.h"
#include "target/cpu/lower_turned.h"
#include "target/cpu/work.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using loop::BinaryFn;
using tile::Stmt;
using tile::StmtKind;

std::vector<Sym> dense_strides(const std::vector<Sym>& shape) {
    std::vector<Sym> s(shape.size(), 1);
    for (size_t d = shape.size(); d-- > 1;) s[d - 1] = s[d] * shape[d];
    return s;
}

namespace {

LExpr identity_of(loop::Builder& b, ReduceOp op, DType t) {
    const double v = identity(op, t);
    if (is_float(t) || t == DType::Bool) return b.literal(t, v);
    int64_t i = static_cast<int64_t>(v);
    if (t == DType::I64 && op == ReduceOp::Min) i = INT64_MAX;
    if (t == DType::I64 && op == ReduceOp::Max) i = INT64_MIN;
    if (t == DType::U64 && op == ReduceOp::Min) i = -1;
    return loop::literal_int(b.program(), t, i);
}
BinaryFn combine_fn(ReduceOp op) {
    switch (op) {
        case ReduceOp::Sum: return BinaryFn::Add;
        case ReduceOp::Prod: return BinaryFn::Mul;
        case ReduceOp::Max:
        case ReduceOp::ArgMax:
        case ReduceOp::ArgMaxLast: return BinaryFn::Max;
        case ReduceOp::Min:
        case ReduceOp::ArgMin:
        case ReduceOp::ArgMinLast: return BinaryFn::Min;
        case ReduceOp::Any: return BinaryFn::Or;
        case ReduceOp::All: return BinaryFn::And;
    }
    throw std::logic_error("unknown reduction");
}

class NestLowering {
public:
    NestLowering(Context& c, size_t nest)
        : c_(c), b_(c.b), nest_(c.tile.nests[nest]), point_(c.b, c.math, c.storage, c.faults) {}

    void run(const std::string& function) {
        beside_ = rows_beside(c_.tile, nest_);
        place_locals();
        plan_ahead();
        if (parts_) fold_parts(function + "_parts");
        b_.function(function, [&] {
            if (!beside_)
                return for_each_task(c_, nest_, point_, ranges_, {b_.task_begin(), b_.task_end()}, [&] { block(nest_.body); });
            const LExpr wanted = beside_->length.upper() <= beside_->short_row
                                     ? LExpr()
                                     : b_.let("short", loop::le(point_.sym(beside_->length), b_.i64(beside_->short_row)));
            for_each_row(c_, nest_, point_, ranges_, beside_->rows, wanted,
                         [&](LExpr row, int rows) { rows > 1 ? block_beside(row) : block(nest_.body); });
        });
    }
    // How many tasks of a stage ahead there are for each of the nest's own; 1: it has no such stage.
    Sym split() {
        if (locals_.empty()) parts_ = rows_in_parts(c_, nest_);
        return parts_ ? parts_->count : 1;
    }
    // Temporaries of the nest: scratch memory that holds one task's part.
    void set_locals(const std::vector<TensorId>& locals) { locals_ = locals; }

private:
    void place_locals() {
        for (TensorId t : locals_) {
            const TensorInfo& info = c_.math.tensors[t];
            const Equation* q = nullptr;
            for (const Equation& e : c_.math.equations)
                if (e.lhs == t) q = &e;
            std::vector<Sym> held;
            for (size_t d = 0; d < info.shape.size(); ++d) {
                const math::Expr& at = c_.math.expr(q->at[d]);
                Sym extent = info.shape[d];
                if (at.kind == ExprKind::Index)
                    for (const tile::GridAxis& g : nest_.grid)
                        if (g.var == at.ref) extent = g.tile == 1 ? Sym(1) : Sym(g.tile);
                held.push_back(extent);
            }
            Storage s{.dtype = compute_type(info.dtype), .strides = dense_strides(held)};
            std::vector<Sym>& beside = strides_beside_[t];
            beside = s.strides;
            Sym elements = max(product(held), 1);
            if (beside_) elements = max(elements, min(elements, beside_->short_row) * beside_->rows);
            for (size_t d = 0; d < held.size(); ++d) {
                const math::Expr& at = c_.math.expr(q->at[d]);
                if (at.kind != ExprKind::Index) continue;
                for (const tile::GridAxis& g : nest_.grid)
                    if (g.var == at.ref && g.tile == 1) s.strides[d] = 0, beside[d] = 0;
                if (beside_ && at.ref == beside_->var) beside[d] = product(held);
            }
            if (std::all_of(s.strides.begin(), s.strides.end(), [](const Sym& x) { return x.is(0); })) numbers_.push_back(t);
            s.buffer = b_.scratch(info.name, s.dtype, point_.sym(elements));
            c_.storage[t] = std::move(s);
        }
    }
    // Chunked grid variables: local temporaries hold the chunk alone, so their indices count from its start.
    void set_origins() {
        for (TensorId t : locals_) {
            Storage& s = c_.storage[t];
            const Equation* q = nullptr;
            for (const Equation& e : c_.math.equations)
                if (e.lhs == t) q = &e;
            s.origin.assign(s.strides.size(), {});
            for (size_t d = 0; d < s.strides.size(); ++d) {
                const math::Expr& at = c_.math.expr(q->at[d]);
                if (at.kind != ExprKind::Index) continue;
                if (auto r = ranges_.find(at.ref); r != ranges_.end()) s.origin[d] = r->second.begin;
                if (together_ && at.ref == beside_->var) s.origin[d] = together_;
            }
        }
    }

    void block(const std::vector<Stmt>& body) {
        set_origins();
        for (const Stmt& s : body) parts_ && &s == parts_->rows ? rows_or_parts() : stmt(s);
    }

    // One part of one task's rows after the other.
    void fold_parts(const std::string& function) {
        b_.function(function, [&] {
            const Sym& rows = c_.math.vars[parts_->rows->var].extent;
            const int64_t step = parts_->rows->tile;
            const LExpr count = b_.let("count", point_.sym(parts_->count)), n = point_.sym(rows);
            const LExpr each = b_.let("each", point_.sym(ceil_div(ceil_div(rows, parts_->count), step) * step));
            b_.loop("part", b_.task_begin(), b_.task_end(), 1, [&](LExpr i) {
                const LExpr task = b_.let("task", loop::floordiv(i, count)), part = b_.let("part", loop::mod(i, count));
                const LExpr first = b_.let("first", loop::min(part * each, n));
                ranges_[parts_->rows->var] = {first, b_.let("last", loop::min(first + each, n))};
                part_ = part * point_.sym(parts_->stride);
                for_each_task(c_, nest_, point_, ranges_, {task, task + 1}, [&] { fill(*parts_->fill), row_loop(*parts_->rows); });
                ranges_.erase(parts_->rows->var);
                part_ = {};
            });
        });
    }
    void rows_or_parts() {
        const Stmt& f = *parts_->fill;
        const LExpr count = point_.sym(parts_->count);
        b_.if_(loop::eq(count, b_.i64(1)), [&] { stmt(*parts_->rows); }, [&] {
            const Range r = range_of(nest_.grid[0].var);
            const auto& [memory, origin] = memory_.at(f.dst);
            const ReduceOp op = c_.math.expr(c_.tile.buffers[f.dst].value).reduce;
            b_.loop("part", b_.i64(0), count, 1, [&](LExpr part) {
                b_.loop("i", b_.i64(0), r.end - r.begin, f.lanes, [&](LExpr i) {
                    const LExpr more = b_.load(parts_->memory, part * point_.sym(parts_->stride) + r.begin + i, f.lanes);
                    b_.store(memory, i, loop::binary(combine_fn(op), b_.load(memory, i, f.lanes), more));
                });
            });
        });
    }

    // Several rows from `first` on: between the loops lanes are rows. A loop that folds takes a vector of each row in turn;
    // one that only stores runs row by row, and finds the rows' numbers in memory.
    void block_beside(LExpr first) {
        const auto swap_strides = [&] {
            for (TensorId t : locals_) std::swap(c_.storage[t].strides, strides_beside_[t]);
        };
        together_ = first;
        swap_strides();
        point_.set_lanes(beside_->var, beside_->rows, 1, {});
        point_.set_aligned(false);
        block(nest_.body);
        swap_strides();
        together_ = {};
    }
    // Of the rows together, all but what is a value of each row.
    Point::Scope one_row(const Point::Scope& rows) const {
        Point::Scope r = rows;
        std::erase_if(r.values, [](const auto& x) { return x.second.type().is_vector(); });
        r.lane = kNone;
        r.lanes = r.positions = 1;
        return r;
    }
    void lane_loop_beside(const Stmt& s) {
        const Point::Scope rows = point_.save(), alone = one_row(rows);
        const LExpr first = together_;
        if (!folds(s)) {
            b_.loop(c_.math.vars[beside_->var].name, first, first + beside_->rows, 1, [&](LExpr row) {
                point_.restore(alone);
                point_.bind(beside_->var, row);
                together_ = {};
                lane_loop(s);
                together_ = first;
            });
            point_.restore(rows);
            return;
        }
        const Range r = range_of(s.var);
        const auto ahead = ahead_.find(&s);
        const auto body = [&](LExpr i, LExpr mask) {
            for (row_ = 0; row_ < static_cast<size_t>(beside_->rows); ++row_) {
                point_.restore(alone);
                point_.bind(beside_->var, first + static_cast<int64_t>(row_));
                point_.set_lanes(s.var, s.lanes, 1, mask);
                point_.set_aligned(true);
                point_.set_ahead(ahead == ahead_.end() ? nullptr : &ahead->second);
                point_.bind(s.var, i);
                lane_body(s, 1);
                point_.set_ahead(nullptr);
            }
            row_ = 0;
            point_.set_aligned(false);
        };
        const std::string& name = c_.math.vars[s.var].name;
        const LExpr end = b_.let("vectors_end", r.begin + loop::floordiv(r.end - r.begin, s.lanes) * s.lanes);
        b_.loop(name, r.begin, end, s.lanes, [&](LExpr i) { body(i, {}); });
        if (!c_.math.vars[s.var].extent.multiple_of(s.lanes))
            b_.loop(name, end, r.end, s.lanes, [&](LExpr i) { body(i, loop::first_lanes(r.end - i, s.lanes)); });
        point_.restore(rows);
    }

    void stmt(const Stmt& s) {
        switch (s.kind) {
            case StmtKind::For: return together_ ? lane_loop_beside(s) : s.lane ? lane_loop(s) : s.tile > 1 ? row_loop(s) : serial_loop(s);
            case StmtKind::Load:
            case StmtKind::Gather:
            case StmtKind::Map: {
                if (rows_.count > 0) return;  // differs from row to row: accumulate() asks for it
                const ExprId e = c_.tile.buffers[s.dst].value;
                for (int u = 0; u < point_.positions(); ++u) point_.eval(e, u);
                return;
            }
            case StmtKind::Fill: return fill(s);
            case StmtKind::Accumulate: return accumulate(s);
            case StmtKind::Reduce: return reduce(s);
            case StmtKind::Scan: return scan(s);
            case StmtKind::Store:
            case StmtKind::ScatterReduce: {
                const Equation& q = c_.math.equations[s.equation];
                stored_.clear();
                for (int u = 0; u < point_.positions(); ++u) {
                    LExpr v = point_.eval(q.rhs, u);
                    const bool number = s.kind == StmtKind::Store && one_number(q);
                    if (keeping_ || number) v = b_.let(c_.math.tensors[q.lhs].name, v);
                    point_.store(q, v, u);
                    stored_.push_back(v);
                    if (!number) continue;
                    for (const tile::Buffer& x : c_.tile.buffers)
                        if (x.value != kNone && loads(x.value, q)) point_.set_uniform(x.value, v);
                }
                return;
            }
            case StmtKind::AccumulatePair:
            case StmtKind::ReducePair: throw std::logic_error("two folds in one walk, of a block target");
            case StmtKind::Contract: throw std::logic_error("a contraction outside its own nest");
        }
    }

    Range range_of(VarId v) {
        if (auto r = ranges_.find(v); r != ranges_.end()) return r->second;
        return {b_.i64(0), point_.sym(c_.math.vars[v].extent)};
    }

    void serial_loop(const Stmt& s) {
        const Range r = range_of(s.var);
        const Point::Scope scope = point_.save();
        const auto body = [&](LExpr i) {
            point_.bind(s.var, i);
            for (const Stmt& x : s.body) stmt(x);
            point_.restore(scope);
        };
        if (written_out(s)) {
            for (int64_t i = 0; i < *c_.math.vars[s.var].extent.constant(); ++i) body(b_.i64(i));
            return;
        }
        b_.loop(c_.math.vars[s.var].name, r.begin, r.end, 1, body);
    }
    // A short innermost loop of known length (the taps of a window), and one that decides which terms of a sum there are
    // (the phases of a stride).
    bool written_out(const Stmt& s) const {
        const auto n = c_.math.vars[s.var].extent.constant();
        if (!n || *n > kUnrolledTaps || ranges_.count(s.var) || s.lane) return false;
        const bool innermost =
            std::none_of(s.body.begin(), s.body.end(), [](const Stmt& x) { return x.kind == StmtKind::For; });
        return innermost || (*n <= kUnrolledPhases && decides_terms(s.body, s.var));
    }
    // Whether there are loops in it, and all are written out.
    bool straight(const std::vector<Stmt>& body) const {
        const auto loops = [](const std::vector<Stmt>& b) {
            return std::any_of(b.begin(), b.end(), [](const Stmt& x) { return x.kind == StmtKind::For; });
        };
        const std::function<bool(const std::vector<Stmt>&)> all = [&](const std::vector<Stmt>& b) {
            return std::all_of(b.begin(), b.end(),
                               [&](const Stmt& x) { return x.kind != StmtKind::For || (written_out(x) && all(x.body)); });
        };
        return loops(body) && all(body);
    }

    bool decides_terms(const std::vector<Stmt>& body, VarId v) const {
        return std::any_of(body.begin(), body.end(), [&](const Stmt& s) {
            if (s.kind == StmtKind::Accumulate && s.b != tile::kNoBuffer) {
                const auto free = c_.math.free_vars(c_.tile.buffers[s.b].value);
                if (std::find(free.begin(), free.end(), v) != free.end()) return true;
            }
            return decides_terms(s.body, v);
        });
    }

    // Several positions of the variable at a time: each lane loop inside goes over all of them.
    void row_loop(const Stmt& s) {
        const Range r = range_of(s.var);
        const LExpr main = b_.let("rows", r.begin + loop::floordiv(r.end - r.begin, s.tile) * s.tile);
        const auto body = [&](LExpr i, int64_t count) {
            const Point::Scope scope = point_.save();
            rows_ = {s.var, i, count};
            for (const Stmt& x : s.body) stmt(x);
            rows_ = {};
            point_.restore(scope);
        };
        b_.loop(c_.math.vars[s.var].name, r.begin, main, s.tile, [&](LExpr i) { body(i, s.tile); });
        b_.loop(c_.math.vars[s.var].name, main, r.end, 1, [&](LExpr i) { body(i, 1); });
    }

    // Of the accesses in the body of a loop over lanes, inner loops included.
    Interior interior_of(const Stmt& lane) {
        std::vector<VarId> inner;
        std::vector<ExprId> roots;
        const std::function<void(const Stmt&)> gather = [&](const Stmt& s) {
            if (s.kind == StmtKind::For) inner.push_back(s.var);
            if (s.kind == StmtKind::Load || s.kind == StmtKind::Gather || s.kind == StmtKind::Map)
                roots.push_back(c_.tile.buffers[s.dst].value);
            for (const Stmt& x : s.body) gather(x);
        };
        for (const Stmt& s : lane.body) gather(s);
        return interior(c_, point_, lane.var, inner, std::move(roots));
    }

    // Full vectors first, `tile` elements a step; then one masked vector a step for what is left. Where accesses may
    // leave their tensors, the vectors that surely stay inside run without a test.
    void lane_loop(const Stmt& s) {
        const Range r = range_of(s.var);
        const int lanes = s.lanes, unroll = static_cast<int>(s.tile / s.lanes);
        const Point::Scope scope = point_.save();
        const std::string& name = c_.math.vars[s.var].name;
        const Sym& extent = c_.math.vars[s.var].extent;
        const bool ranged = ranges_.count(s.var) > 0;
        const bool aligned = !ranged || task_tile(s.var) % lanes == 0 || extent.upper() <= task_tile(s.var);
        if (const std::vector<ExprId> loads = turned_loads(s); !loads.empty()) return turned_loop(s, loads);
        const auto ahead = ahead_.find(&s);
        const bool sharing = straight(s.body);
        const auto body = [&](LExpr i, int positions, LExpr mask) {
            point_.set_lanes(s.var, lanes, positions, mask);
            point_.set_aligned(aligned);
            point_.set_ahead(ahead == ahead_.end() ? nullptr : &ahead->second);
            point_.bind(s.var, i);
            point_.set_sharing(sharing);
            lane_body(s, positions);
            point_.set_sharing(false);
            point_.set_ahead(nullptr);
            point_.restore(scope);
        };
        LExpr main_end = r.begin;
        const auto masked = [&](LExpr from, LExpr to) {
            b_.loop(name, from, to, lanes, [&](LExpr i) { body(i, 1, loop::first_lanes(r.end - i, lanes)); });
        };
        if (extent.upper() >= 3 * lanes)
            if (const Interior in = interior_of(s); in.lanes) {
                const LExpr zero = b_.i64(0);
                const LExpr first =
                    b_.let("first", r.begin + loop::ceildiv(loop::max(in.lanes->begin - r.begin, zero), lanes) * lanes);
                const LExpr count = b_.let("count", loop::max(loop::min(in.lanes->end, r.end) - first, zero));
                main_end = b_.let("main_end", first + loop::floordiv(count, lanes) * lanes);
                const auto inside = [&](LExpr from, LExpr to, int positions) {
                    b_.loop(name, from, to, lanes * positions, [&](LExpr i) {
                        point_.set_interior(true);
                        body(i, positions, {});
                        point_.set_interior(false);
                    });
                };
                const auto row = [&](bool wide) {
                    masked(r.begin, loop::min(first, r.end));
                    if (wide) {
                        const LExpr end = b_.let("wide", first + loop::floordiv(count, s.tile) * s.tile);
                        inside(first, end, unroll);
                        inside(end, main_end, 1);
                    } else {
                        inside(first, main_end, 1);
                    }
                    masked(main_end, r.end);
                };
                if (in.whole)
                    // No test of what is the same on all lanes, not even at the ends of the row; and several sums side
                    // by side: one alone waits for its last addition.
                    b_.if_(
                        in.whole,
                        [&] {
                            point_.set_whole_inside(true);
                            row(unroll > 1);
                            point_.set_whole_inside(false);
                        },
                        [&] { row(false); });
                else
                    row(false);
                return;
            }
        const bool has_main = ranged || extent.upper() >= s.tile;
        // From `from` on; where that is not the loop's begin, nothing is known of what is left for a mask.
        const auto sweep = [&](LExpr from, bool shifted) {
            LExpr done = from;
            if (has_main) {
                done = b_.let("main_end", from + loop::floordiv(r.end - from, s.tile) * s.tile);
                b_.loop(name, from, done, s.tile, [&](LExpr i) { body(i, unroll, {}); });
            }
            // What is left of a row is more than a mask's worth: whole vectors by themselves.
            if (unroll > 1 && (!ranged || shifted)) {
                const LExpr rest = done;
                done = b_.let("vectors_end", from + loop::floordiv(r.end - from, lanes) * lanes);
                b_.loop(name, rest, done, lanes, [&](LExpr i) { body(i, 1, {}); });
                if (!shifted && extent.multiple_of(lanes)) return;
            }
            if (!shifted && extent.multiple_of(s.tile) && (!ranged || task_tile(s.var) % s.tile == 0)) return;
            masked(done, r.end);
        };
        const std::optional<bool> stream = streamable(s);
        if (!stream) return sweep(r.begin, false);
        const Equation& q = c_.math.equations[s.body.back().equation];
        c_.out.streamed.push_back({q.lhs, *stream ? Sym(0) : extent});
        b_.if_(
            loop::ne(b_.symbol(kStreamSymbol), b_.i64(0)),
            [&] {
                LExpr from = r.begin;
                if (*stream) {
                    // Up to the first vector that lies on its own line, under a mask.
                    point_.set_lanes(s.var, lanes, 1, {});
                    point_.bind(s.var, r.begin);
                    const LExpr head = loop::mod(-point_.place(q), lanes);
                    point_.restore(scope);
                    from = b_.let("first", loop::min(r.begin + head, r.end));
                    b_.loop(name, r.begin, from, lanes,
                            [&](LExpr i) { body(i, 1, loop::first_lanes(from - i, lanes)); });
                }
                point_.set_streaming(true);
                sweep(from, *stream);
                point_.set_streaming(false);
            },
            [&] { sweep(r.begin, false); });
    }
    void lane_body(const Stmt& s, int positions) {
        for (size_t k = 0; k < s.body.size(); ++k) {
            keeping_ = s.body[k].kind == StmtKind::Store && k + 1 < s.body.size();
            stmt(s.body[k]);
            if (keeping_) keep_stored(s, k, positions);
        }
    }
    // What statement k of the loop has stored serves the statements behind it without being read back.
    void keep_stored(const Stmt& s, size_t k, int positions) {
        const Equation& q = c_.math.equations[s.body[k].equation];
        for (size_t i = k + 1; i < s.body.size(); ++i) {
            if (s.body[i].kind != StmtKind::Load) continue;
            const ExprId load = c_.tile.buffers[s.body[i].dst].value;
            if (!loads(load, q)) continue;
            for (int u = 0; u < positions; ++u) point_.set_value(load, u, stored_[static_cast<size_t>(u)]);
        }
    }

    // Whether e is what q has stored, at the same place.
    bool loads(ExprId e, const Equation& q) const {
        const math::Expr& x = c_.math.expr(e);
        return x.kind == ExprKind::Load && x.ref == q.lhs && x.args.size() == q.at.size() &&
               std::equal(q.at.begin(), q.at.end(), x.args.begin());
    }
    // Whether q computes a temporary that is one number a task, outside of all loops over lanes: a row's maximum, its sum.
    bool one_number(const Equation& q) const {
        const bool between = point_.lanes() == 1 || (together_ && point_.lane() == beside_->var);
        return between && std::find(numbers_.begin(), numbers_.end(), q.lhs) != numbers_.end();
    }

    // Whether the results of a loop over lanes may be too large to be worth a place in the caches: contiguous elements
    // of an output that nothing here reads. True where a row may begin anywhere, false where lanes must keep their
    // places, nullopt: not.
    std::optional<bool> streamable(const Stmt& lane) const {
        if (lane.body.empty() || lane.body.back().kind != StmtKind::Store) return std::nullopt;
        if (std::any_of(lane.body.begin(), lane.body.end(), [](const Stmt& x) { return x.kind == StmtKind::For; }))
            return std::nullopt;
        const Equation& q = c_.math.equations[lane.body.back().equation];
        const TensorInfo& out = c_.math.tensors[q.lhs];
        if (out.role != Role::Output || q.update != Update::Set || q.at.empty()) return std::nullopt;
        const math::Expr& last = c_.math.expr(q.at.back());
        const size_t vector = size_of(out.dtype) * static_cast<size_t>(lane.lanes);
        if (last.kind != ExprKind::Index || last.ref != lane.var || vector < 16 || vector > 64) return std::nullopt;
        if (c_.math.vars[lane.var].extent.upper() < 4 * lane.tile) return std::nullopt;
        for (const Equation& e : c_.math.equations) {
            const std::vector<TensorId> reads = c_.math.reads(e.rhs);
            if (std::find(reads.begin(), reads.end(), q.lhs) != reads.end()) return std::nullopt;
        }
        if (!patterns(lane)) return true;
        const bool flat = !nest_.grid.empty() && nest_.grid.back().var == lane.var && nest_.body.size() == 1;
        return flat && nest_.grid.back().tile % lane.tile == 0 ? std::optional(false) : std::nullopt;
    }
    // Whether an index in the loop is a quotient or a remainder of the lane: such reads want lanes at multiples.
    bool patterns(const Stmt& lane) const {
        return std::any_of(lane.body.begin(), lane.body.end(), [&](const Stmt& s) {
            if (s.kind != StmtKind::Load) return false;
            const math::Expr& x = c_.math.expr(c_.tile.buffers[s.dst].value);
            return std::any_of(x.args.begin(), x.args.end(), [&](ExprId a) {
                const auto free = c_.math.free_vars(a);
                return std::find(free.begin(), free.end(), lane.var) != free.end() && !affine(c_.math, a);
            });
        });
    }

    // Loads that a loop over lanes around one over another chunked index reads along that index; none: it is no such loop.
    std::vector<ExprId> turned_loads(const Stmt& s) const {
        constexpr int kMostLanes = 16;  // as many vectors are held in registers
        std::vector<ExprId> r;
        if (s.body.size() != 1 || s.tile != s.lanes || s.lanes > kMostLanes) return r;
        const Stmt& inner = s.body[0];
        if (inner.kind != StmtKind::For || inner.lane || inner.tile != 1 || !ranges_.count(inner.var)) return r;
        for (const Stmt& x : inner.body) {
            if (x.kind == StmtKind::For) return {};
            const ExprId e = x.kind == StmtKind::Load ? c_.tile.buffers[x.dst].value : kNone;
            if (e != kNone && turned(c_.math, e, s.var, inner.var)) r.push_back(e);
        }
        return r;
    }
    void turned_loop(const Stmt& s, const std::vector<ExprId>& loads) {
        const Stmt& inner = s.body[0];
        const Range r = range_of(s.var), across = range_of(inner.var);
        const int lanes = s.lanes;
        const LExpr main_end = b_.let("main_end", r.begin + loop::floordiv(r.end - r.begin, lanes) * lanes);
        const std::string &lane_name = c_.math.vars[s.var].name, &name = c_.math.vars[inner.var].name;
        const Equation& q = c_.math.equations[inner.body.back().equation];
        const bool contiguous = inner.body.back().kind == StmtKind::Store && q.update == Update::Set &&
                                c_.math.expr(q.at.back()).kind == ExprKind::Index &&
                                c_.math.expr(q.at.back()).ref == s.var;
        const auto block = [&](const Range& k_range, LExpr i, LExpr mask, bool ask_ahead) {
            const Point::Scope scope = point_.save();
            const auto at = [&](LExpr k, const std::function<LExpr(ExprId)>& value) {
                point_.set_lanes(s.var, lanes, 1, mask);
                point_.set_aligned(false);
                point_.bind(s.var, i);
                point_.bind(inner.var, k);
                for (ExprId e : loads)
                    if (const LExpr v = value(e)) point_.set_value(e, 0, v);
                // Every vector of results lies in another page: its line is asked for two squares ahead.
                if (ask_ahead) b_.prefetch(c_.storage[q.lhs].buffer, point_.place(q) + 2 * lanes, true);
                for (const Stmt& x : inner.body) stmt(x);
                point_.restore(scope);
            };
            const LExpr squares =
                b_.let("squares", k_range.begin + loop::floordiv(k_range.end - k_range.begin, lanes) * lanes);
            b_.loop(name, k_range.begin, squares, lanes, [&](LExpr k) {
                std::map<ExprId, std::vector<LExpr>> columns;
                for (ExprId e : loads)
                    columns[e] = turn(c_, point_, e, {s.var, inner.var, i, mask ? r.end - 1 : LExpr(), k, lanes});
                for (int u = 0; u < lanes; ++u)
                    at(k + u, [&](ExprId e) { return columns[e][static_cast<size_t>(u)]; });
            });
            b_.loop(name, squares, k_range.end, 1, [&](LExpr k) { at(k, [](ExprId) { return LExpr(); }); });
        };
        const auto blocks = [&](const Range& k_range, bool ask_ahead) {
            b_.loop(lane_name, r.begin, main_end, lanes, [&](LExpr i) { block(k_range, i, {}, ask_ahead); });
            b_.loop(lane_name, main_end, r.end, lanes,
                    [&](LExpr i) { block(k_range, i, loop::first_lanes(r.end - i, lanes), ask_ahead); });
        };
        // Within the caches narrow blocks are faster: all their lines are there while lanes go on along them.
        const auto in_caches = [&] {
            b_.loop("block", across.begin, across.end, kTurnedInCaches, [&](LExpr k) {
                blocks({k, b_.let("block_end", loop::min(k + kTurnedInCaches, across.end))}, contiguous);
            });
        };
        const TensorInfo& out = c_.math.tensors[q.lhs];
        const bool lines = contiguous && out.role == Role::Output && size_of(out.dtype) * static_cast<size_t>(lanes) == 64;
        if (!lines) return in_caches();
        const auto straight_out = [&] {
            point_.set_streaming(true);
            blocks(across, false);
            point_.set_streaming(false);
        };
        const Sym& row = c_.math.vars[s.var].extent;
        const std::optional<Staged> staged =
            row.multiple_of(lanes) ? std::nullopt
                                   : stage(c_, q, s.var, task_tile(s.var), inner.var, task_tile(inner.var), lanes);
        c_.out.streamed.push_back({q.lhs, staged ? Sym(0) : row});
        b_.if_(
            loop::ne(b_.symbol(kStreamSymbol), b_.i64(0)),
            [&] {
                if (!staged) return straight_out();
                b_.if_(loop::eq(loop::mod(point_.sym(row), lanes), b_.i64(0)), straight_out, [&] {
                    Storage& place = c_.storage[q.lhs];
                    const Storage result = std::exchange(place, staged->at(r.begin, across.begin));
                    blocks(across, false);
                    place = result;
                    stream_rows(c_, point_, q, *staged, {s.var, r.begin, r.end}, {inner.var, across.begin, across.end});
                });
            },
            in_caches);
    }

    // Each tensor is asked for ahead by the loop over lanes that does most with it: others find it in the caches.
    struct Reader {
        int work = 0;
        const Stmt* loop = nullptr;
        int loops = 0;  // that read the tensor
    };
    void plan_ahead(const std::vector<Stmt>& body, std::map<TensorId, Reader>& best) {
        for (const Stmt& s : body) {
            if (s.kind != StmtKind::For) continue;
            plan_ahead(s.body, best);
            const auto loops = [](const Stmt& x) { return x.kind == StmtKind::For; };
            if (!s.lane || std::any_of(s.body.begin(), s.body.end(), loops)) continue;
            int work = 0;
            for (const Stmt& x : s.body)
                if (x.kind == StmtKind::Map) work += operations(c_.tile.buffers[x.dst].value);
            for (const Stmt& x : s.body) {
                if (x.kind != StmtKind::Load) continue;
                const TensorId t = c_.math.expr(c_.tile.buffers[x.dst].value).ref;
                if (std::find(locals_.begin(), locals_.end(), t) != locals_.end()) continue;
                Reader& r = best[t];
                if (!r.loop || work >= r.work) r.work = work, r.loop = &s;
                ++r.loops;
            }
        }
    }
    int operations(ExprId root) const {
        int n = 0;
        std::vector<bool> seen(c_.math.expr_count());
        std::vector<ExprId> stack{root};
        while (!stack.empty()) {
            const ExprId e = stack.back();
            stack.pop_back();
            if (seen[e]) continue;
            seen[e] = true;
            const math::Expr& x = c_.math.expr(e);
            if (x.kind == ExprKind::Call) n += info(x.fn).cost == CostClass::Special ? 16 : 1;
            if (x.kind == ExprKind::Call || x.kind == ExprKind::Cast)
                stack.insert(stack.end(), x.args.begin(), x.args.end());
        }
        return n;
    }
    void plan_ahead() {
        std::map<TensorId, Reader> best;
        plan_ahead(nest_.body, best);
        for (const auto& [t, at] : best) {
            const bool chunked = std::any_of(nest_.grid.begin(), nest_.grid.end(), [&](const tile::GridAxis& g) {
                return g.var == at.loop->var && g.tile > 1;
            });
            Point::Ahead& a = ahead_[at.loop];
            if (!chunked && !nest_.grid.empty()) a.row = nest_.grid.back().var;
            a.tensors.push_back(t);
            if (at.loops == 1) a.once.push_back(t);
            // A fold that stores nothing waits for memory alone, and gains by asking earlier than a map does.
            if (at.loops == 1 && at.loop->body.back().kind == StmtKind::Accumulate) a.pages = 8;
        }
    }

    int64_t task_tile(VarId v) const {
        for (const tile::GridAxis& g : nest_.grid)
            if (g.var == v) return g.tile;
        return 1;
    }
    struct Accumulator {
        std::vector<loop::LocalRef> value, best;  // best: the index of an arg reduction
        std::vector<loop::LocalRef> nan;  // of an extreme of floats on lanes, by row: a NaN that was among the terms; else a
                                          // number
    };

    void fill(const Stmt& s) {
        const math::Expr& e = c_.math.expr(c_.tile.buffers[s.dst].value);
        const bool arg = is_arg(e.reduce);
        const DType t = compute_type(arg ? c_.math.expr(e.args[0]).dtype : e.dtype);
        if (c_.tile.buffers[s.dst].memory == tile::Memory::Scratch) {
            const tile::Extent& box = c_.tile.buffers[s.dst].box[0];
            const Range r = range_of(box.var);
            const loop::BufferId memory =
                part_ ? parts_->memory : b_.scratch(c_.tile.buffers[s.dst].name, t, b_.i64(box.size + s.lanes));
            const LExpr first = part_ ? part_ + r.begin : b_.i64(0);
            memory_[s.dst] = {memory, part_ ? -part_ : r.begin};
            const LExpr zero = loop::broadcast(identity_of(b_, e.reduce, t), s.lanes);
            b_.loop("i", b_.i64(0), r.end - r.begin, s.lanes, [&](LExpr i) { b_.store(memory, first + i, zero); });
            return;
        }
        // Partial results on lanes exist before the lane loop is entered; otherwise there is one for each position.
        const bool folds = folded(s.dst);
        const int lanes = folds ? s.lanes : point_.lanes();
        const int rows = together_ ? beside_->rows : 1;
        const int count = !folds      ? point_.positions()
                          : together_ ? rows
                                      : static_cast<int>(c_.tile.buffers[s.dst].box.back().size / s.lanes);
        Accumulator a;
        for (int u = 0; u < count; ++u) {
            a.value.push_back(b_.local("acc", loop::broadcast(identity_of(b_, e.reduce, t), lanes)));
            if (arg) a.best.push_back(b_.local("best", loop::broadcast(b_.i64(-1), lanes)));
        }
        // To look for NaN apart takes half the instructions of a maximum that knows it.
        if (folds && lanes > 1 && is_float(t) && (e.reduce == ReduceOp::Max || e.reduce == ReduceOp::Min))
            for (int r = 0; r < rows; ++r) a.nan.push_back(b_.local("nan", loop::broadcast(b_.literal(t, 0), lanes)));
        accumulators_[s.dst] = std::move(a);
    }
    bool folded(tile::BufferId acc) const {
        const math::Expr& e = c_.math.expr(c_.tile.buffers[acc].value);
        return std::any_of(c_.tile.buffers[acc].box.begin(), c_.tile.buffers[acc].box.end(),
                           [&](const tile::Extent& x) {
                               return x.size > 1 && std::find(e.vars.begin(), e.vars.end(), x.var) != e.vars.end();
                           });
    }

    // Into partial results in memory, all rows of the loop around. Lanes past the end have room of their own.
    void accumulate_rows(const Stmt& s) {
        const math::Expr& e = c_.math.expr(c_.tile.buffers[s.dst].value);
        const auto& [memory, origin] = memory_.at(s.dst);
        // The rows that come next, at the same place, and at last the first ones of the next task: each is a page of its own.
        Point::Ahead next{.row = rows_.var, .tensors = {}, .rows = rows_.count, .first = rows_.first, .task = task_tile(point_.lane())};
        for (ExprId a : e.args)
            for (TensorId t : c_.math.reads(a)) next.tensors.push_back(t);
        if (rows_.count > 1) point_.set_ahead(&next);
        for (int u = 0; u < point_.positions(); ++u) {
            const LExpr at =
                b_.let("at", point_.variable(point_.lane()) - origin + static_cast<int64_t>(u) * point_.lanes());
            LExpr acc = b_.let("acc", b_.load(memory, at, point_.lanes()));
            for (int64_t r = 0; r < rows_.count; ++r) {
                const Point::Scope scope = point_.save();
                point_.bind(rows_.var, rows_.first + r);
                const LExpr old = acc;
                const math::Expr& term = c_.math.expr(e.args[0]);
                if (e.reduce == ReduceOp::Sum && term.kind == ExprKind::Call && term.fn == Fn::Mul &&
                    is_float(e.dtype)) {
                    const LExpr x = point_.broadcast(point_.eval(term.args[0], u));
                    acc = loop::mul_add(x, point_.broadcast(point_.eval(term.args[1], u)), acc);
                } else {
                    acc = loop::binary(combine_fn(e.reduce), acc, point_.broadcast(point_.eval(e.args[0], u)));
                }
                if (e.args.size() > 1) acc = loop::select(point_.broadcast(point_.eval(e.args[1], u)), acc, old);
                acc = b_.let("acc", acc);
                point_.restore(scope);
            }
            b_.store(memory, at, acc);
        }
        point_.set_ahead(nullptr);
    }

    void accumulate(const Stmt& s) {
        if (memory_.count(s.dst)) return accumulate_rows(s);
        Accumulator& a = accumulators_.at(s.dst);
        const math::Expr& e = c_.math.expr(c_.tile.buffers[s.dst].value);
        for (int u = 0; u < point_.positions(); ++u) {
            const size_t i = together_ ? row_ : static_cast<size_t>(u);
            const loop::LocalRef acc = a.value[i];
            const LExpr old = b_.get(acc);
            const int lanes = old.type().lanes;
            const auto lift = [&](LExpr v) {
                return lanes > 1 && !v.type().is_vector() ? loop::broadcast(v, lanes) : v;
            };
            LExpr condition = e.args.size() > 1 ? point_.eval(e.args[1], u) : LExpr{};
            if (int64_t holds = 0; condition && loop::is_literal(condition, &holds)) {
                if (holds == 0) continue;
                condition = {};
            }
            if (folded(s.dst) && point_.mask())
                condition = condition ? loop::both(lift(condition), point_.mask()) : point_.mask();
            if (is_arg(e.reduce)) {
                accumulate_arg(e, a, i, lift(point_.eval(e.args[0], u)), condition ? lift(condition) : LExpr{}, lanes);
                continue;
            }
            const math::Expr& term = c_.math.expr(e.args[0]);
            LExpr next;
            if (e.reduce == ReduceOp::Sum && term.kind == ExprKind::Call && term.fn == Fn::Mul && is_float(e.dtype)) {
                LExpr x = lift(point_.eval(term.args[0], u)), y = lift(point_.eval(term.args[1], u));
                next = loop::mul_add(x, y, old);
            } else if (!a.nan.empty()) {
                const loop::LocalRef flag = a.nan[row_];
                const LExpr v = b_.let("v", lift(point_.eval(e.args[0], u))), nan = b_.get(flag);
                LExpr is_nan = loop::unary(loop::UnaryFn::IsNan, v);
                if (condition) is_nan = loop::both(is_nan, lift(condition));
                b_.set(flag, loop::select(is_nan, v, nan));
                next = loop::extreme_of_numbers(combine_fn(e.reduce), old, v);
            } else {
                next = loop::binary(combine_fn(e.reduce), old, lift(point_.eval(e.args[0], u)));
            }
            if (condition) next = loop::select(lift(condition), next, old);
            b_.set(acc, next);
        }
    }

    // Row-major position of the reduction's variables at the present point.
    LExpr position_of(const math::Expr& e) {
        LExpr r = b_.i64(0);
        for (VarId v : e.vars) r = r * point_.sym(c_.math.vars[v].extent) + point_.variable(v);
        return r;
    }
    // A NaN is taken as beyond every number; the first (or last) of equals wins.
    void accumulate_arg(const math::Expr& e, Accumulator& a, size_t i, LExpr v, LExpr condition, int lanes) {
        const LExpr best = b_.get(a.value[i]), at = b_.get(a.best[i]);
        const bool maximum = e.reduce == ReduceOp::ArgMax || e.reduce == ReduceOp::ArgMaxLast;
        const bool last = e.reduce == ReduceOp::ArgMaxLast || e.reduce == ReduceOp::ArgMinLast;
        v = b_.let("v", v);
        LExpr better =
            maximum ? (last ? loop::ge(v, best) : loop::gt(v, best)) : (last ? loop::le(v, best) : loop::lt(v, best));
        if (is_float(v.type().dtype)) {
            const LExpr is_nan = loop::unary(loop::UnaryFn::IsNan, v),
                        was_nan = loop::unary(loop::UnaryFn::IsNan, best);
            better =
                last ? loop::either(better, is_nan) : loop::either(better, loop::both(is_nan, loop::negate(was_nan)));
        }
        const LExpr none = loop::broadcast(b_.i64(0), lanes);
        better = loop::either(better, loop::lt(at, none));  // the first candidate always
        if (condition) better = loop::both(better, condition);
        better = b_.let("better", better);
        const LExpr index = loop::broadcast(position_of(e), lanes);
        b_.set(a.value[i], loop::select(better, v, best));
        b_.set(a.best[i], loop::select(better, index, at));
    }

    void reduce(const Stmt& s) {
        if (const auto m = memory_.find(s.dst); m != memory_.end()) {
            const LExpr at = point_.variable(point_.lane()) - m->second.second;
            for (int u = 0; u < point_.positions(); ++u)
                point_.set_value(c_.tile.buffers[s.dst].value, u,
                                 b_.let("total", b_.load(m->second.first, at + static_cast<int64_t>(u) * point_.lanes(),
                                                         point_.lanes())));
            return;
        }
        Accumulator& a = accumulators_.at(s.dst);
        const ExprId id = c_.tile.buffers[s.dst].value;
        const math::Expr& e = c_.math.expr(id);
        if (folded(s.dst)) {
            // Partial results pairwise, then the lanes of the last one.
            std::vector<LExpr> v;
            for (loop::LocalRef l : a.value) v.push_back(b_.get(l));
            const auto combined = [&](LExpr x, LExpr y) {
                const BinaryFn f = combine_fn(e.reduce);
                return !a.nan.empty() ? loop::extreme_of_numbers(f, x, y) : loop::binary(f, x, y);
            };
            const auto not_a_number = [&](LExpr x) { return loop::like(x, std::numeric_limits<double>::quiet_NaN()); };
            if (together_) {
                LExpr total = fold_together(b_, v, combined);
                if (!a.nan.empty()) {
                    std::vector<LExpr> nan;
                    for (loop::LocalRef l : a.nan) nan.push_back(b_.get(l));
                    const LExpr any = fold_together(b_, nan, [](LExpr x, LExpr y) { return x + y; });
                    total = loop::select(loop::unary(loop::UnaryFn::IsNan, any), loop::broadcast(not_a_number(total), beside_->rows), total);
                }
                point_.set_value(id, 0, b_.let("total", total));
                return;
            }
            while (v.size() > 1) {
                std::vector<LExpr> half;
                for (size_t i = 0; i < v.size(); i += 2)
                    half.push_back(i + 1 < v.size() ? combined(v[i], v[i + 1]) : v[i]);
                v = std::move(half);
            }
            LExpr total = !a.nan.empty() ? loop::reduce_lanes_of_numbers(combine_fn(e.reduce), v[0])
                                         : loop::reduce_lanes(combine_fn(e.reduce), v[0]);
            if (!a.nan.empty()) {
                const LExpr any = loop::reduce_lanes(BinaryFn::Or, loop::unary(loop::UnaryFn::IsNan, b_.get(a.nan[0])));
                total = loop::select(any, not_a_number(total), total);
            }
            point_.set_value(id, 0, b_.let("total", total));
            return;
        }
        for (int u = 0; u < point_.positions(); ++u) {
            const size_t i = static_cast<size_t>(u);
            LExpr v = b_.get(is_arg(e.reduce) ? a.best[i] : a.value[i]);
            if (is_arg(e.reduce)) v = loop::max(v, loop::broadcast(b_.i64(0), v.type().lanes));
            point_.set_value(id, u, b_.let("total", v));
        }
    }

    // acc runs along the variable in order; every position of the lanes has its own.
    void scan(const Stmt& s) {
        const Equation& q = c_.math.equations[s.equation];
        const math::Expr& e = c_.math.expr(q.rhs);
        const DType t = compute_type(e.dtype);
        std::vector<loop::LocalRef> acc;
        for (int u = 0; u < point_.positions(); ++u)
            acc.push_back(b_.local("acc", loop::broadcast(identity_of(b_, e.reduce, t), point_.lanes())));
        const LExpr n = point_.sym(c_.math.vars[s.var].extent);
        b_.loop(c_.math.vars[s.var].name, 0, n, 1, [&](LExpr i) {
            const Point::Scope scope = point_.save();
            point_.bind(s.var, e.backward ? n - 1 - i : i);
            for (int u = 0; u < point_.positions(); ++u) {
                const loop::LocalRef l = acc[static_cast<size_t>(u)];
                const LExpr term = point_.broadcast(point_.eval(e.args[0], u));
                const LExpr old = b_.let("old", b_.get(l));
                const LExpr next = b_.let("next", loop::binary(combine_fn(e.reduce), old, term));
                point_.store(q, e.exclusive ? old : next, u);
                b_.set(l, next);
            }
            point_.restore(scope);
        });
    }

    static constexpr int64_t kUnrolledTaps = 5, kUnrolledPhases = 3, kTurnedInCaches = 64;

    Context& c_;
    loop::Builder& b_;
    const tile::Nest& nest_;
    Point point_;
    std::map<VarId, Range> ranges_;
    std::vector<TensorId> locals_;
    std::vector<TensorId> numbers_;  // of the locals, those of which a task holds one element
    std::optional<Beside> beside_;
    std::map<TensorId, std::vector<Sym>> strides_beside_;  // of locals, while rows are together
    LExpr together_;   // the first of rows that are side by side just now
    size_t row_ = 0;   // of them, the one that a fold is at
    std::map<const Stmt*, Point::Ahead> ahead_;
    std::optional<RowParts> parts_;
    LExpr part_;                 // where the part that is folded just now begins in their memory
    std::vector<LExpr> stored_;  // by the last store, of each position
    bool keeping_ = false;       // the store is not the last statement of its loop over lanes
    std::map<tile::BufferId, Accumulator> accumulators_;
    std::map<tile::BufferId, std::pair<loop::BufferId, LExpr>> memory_;  // partial results, and the index of the first
    struct {
        VarId var = kNone;
        LExpr first;
        int64_t count = 0;
    } rows_;  // of the loop around that takes several
};

}  // namespace

void lower_nest(Context& c, size_t nest, Stage stage) {
    NestLowering n(c, nest);
    n.set_locals(c.tile.kernel.nests[nest].local);
    if (const Sym parts = n.split(); !parts.is(1)) {
        const Sym any = less(1, parts);
        c.out.stages.push_back({stage.function + "_parts", select(any, stage.tasks * parts, 0), stage.work});
        stage.work = select(any, floor_div(stage.work, 16), stage.work);
    }
    n.run(stage.function);
    c.out.stages.push_back(std::move(stage));
}

Lowered lower(const tile::Program& p) {
    Lowered out;
    loop::Builder b(out.program);
    Context c{p, p.kernel.program, b, {}, {}, out, {}};
    c.storage.resize(c.math.tensors.size());
    for (TensorId t = 0; t < c.math.tensors.size(); ++t) {
        const TensorInfo& info = c.math.tensors[t];
        const bool workspace =
            std::find(p.kernel.workspace.begin(), p.kernel.workspace.end(), t) != p.kernel.workspace.end();
        if (info.role == Role::Temp && !workspace) continue;
        Storage s{.dtype = workspace ? compute_type(info.dtype) : info.dtype, .strides = dense_strides(info.shape)};
        const auto access =
            info.role == Role::Input || info.role == Role::Constant ? loop::Access::Read : loop::Access::ReadWrite;
        s.buffer = b.param(info.name, s.dtype, static_cast<uint32_t>(out.arguments.size()), access);
        out.arguments.push_back({.tensor = t});
        c.storage[t] = std::move(s);
    }
    c.together.assign(p.nests.size(), 0);
    size_t begin = 0, last = 0;  // of nests that run together: their first stage, and the last of them
    for (size_t i = 0; i < p.nests.size(); ++i) {
        if (const int64_t rows = p.schedule.nests[i].together) {
            const schedule::Together t = schedule::match_together(p.kernel, i).value();
            std::fill_n(c.together.begin() + static_cast<long>(i), t.last - i + 1, rows);
            out.together.push_back({0, 0, t.batches, t.rows, rows, t.held});
            begin = out.stages.size(), last = t.last;
        }
        Stage stage{"nest" + std::to_string(i), task_count(p.nests[i], c.math),
                    work_of(c.math, p.kernel.nests[i], p.schedule.nests[i])};
        if (p.nests[i].contract)
            lower_contraction(c, i, std::move(stage));
        else
            lower_nest(c, i, std::move(stage));
        if (c.together[i] && i == last) {  // what packs reads nothing that they write
            const auto from = out.stages.begin() + static_cast<long>(begin);
            const auto own = std::stable_partition(from, out.stages.end(), [](const Stage& s) { return s.packs; });
            out.together.back().first = static_cast<size_t>(own - out.stages.begin());
            out.together.back().count = static_cast<size_t>(out.stages.end() - own);
        }
    }
    // Factors along one index of depth that are no windows: their panels and register tiles walk straight on.
    out.program.plain_addresses = std::all_of(p.kernel.nests.begin(), p.kernel.nests.end(), [](const schedule::Nest& n) {
        return n.contraction && n.contraction->k.size() == 1;
    });
    out.program.plain_indices = plain_indices(p.kernel);
    out.faults = std::move(c.faults.messages);
    return out;
}

}  // namespace opwright::target::cpu
