// Loops over lanes: whole vectors, masks, interiors, results past the caches, blocks turned in registers.
#include <algorithm>

#include "target/cpu/lower/nest.h"
#include "target/cpu/lower/turned.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using tile::Stmt;
using tile::StmtKind;

Interior NestLowering::interior_of(const Stmt& lane) {
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

NestLowering::Vectors NestLowering::vectors_of(const Stmt& s, Point::Scope scope, const Point::Ahead* ahead) {
    const bool ranged = ranges_.count(s.var) > 0;
    const bool aligned = !ranged || task_tile(s.var) % s.lanes == 0 || c_.math.vars[s.var].extent.upper() <= task_tile(s.var);
    const bool sharing = straight(s.body);
    return [this, &s, scope = std::move(scope), ahead, aligned, sharing](LExpr i, int positions, LExpr mask) {
        point_.restore(scope);
        point_.set_lanes(s.var, s.lanes, positions, mask);
        point_.set_aligned(aligned);
        point_.set_ahead(ahead);
        point_.bind(s.var, i);
        point_.set_sharing(sharing);
        lane_body(s, positions);
        point_.set_sharing(false);
        point_.set_ahead(nullptr);
        point_.restore(scope);
    };
}

void NestLowering::sweep(const Stmt& s, LExpr from, bool shifted, const Vectors& body) {
    const Range r = range_of(s.var);
    const int lanes = s.lanes, unroll = static_cast<int>(s.tile / s.lanes);
    const std::string& name = c_.math.vars[s.var].name;
    const Sym& extent = c_.math.vars[s.var].extent;
    const bool ranged = ranges_.count(s.var) > 0;
    LExpr done = from;
    if (ranged || extent.upper() >= s.tile) {
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
    b_.loop(name, done, r.end, lanes, [&](LExpr i) { body(i, 1, loop::first_lanes(r.end - i, lanes)); });
}

LExpr NestLowering::to_line(const Stmt& s, const Point::Scope& scope, const Vectors& body) {
    const Range r = range_of(s.var);
    point_.restore(scope);
    point_.set_lanes(s.var, s.lanes, 1, {});
    point_.bind(s.var, r.begin);
    const LExpr head = loop::mod(-point_.place(c_.math.equations[s.body.back().equation]), s.lanes);
    point_.restore(scope);
    const LExpr first = b_.let("first", loop::min(r.begin + head, r.end));
    b_.loop(c_.math.vars[s.var].name, r.begin, first, s.lanes,
            [&](LExpr i) { body(i, 1, loop::first_lanes(first - i, s.lanes)); });
    return first;
}

void NestLowering::lane_loop(const Stmt& s) {
    const Range r = range_of(s.var);
    const int lanes = s.lanes, unroll = static_cast<int>(s.tile / s.lanes);
    const std::string& name = c_.math.vars[s.var].name;
    const Sym& extent = c_.math.vars[s.var].extent;
    if (const std::vector<ExprId> loads = turned_loads(s); !loads.empty()) return turned_loop(s, loads);
    const auto ahead = ahead_.find(&s);
    const Point::Scope scope = point_.save();
    const Vectors body = vectors_of(s, scope, ahead == ahead_.end() ? nullptr : &ahead->second);
    const auto masked = [&](LExpr from, LExpr to) {
        b_.loop(name, from, to, lanes, [&](LExpr i) { body(i, 1, loop::first_lanes(r.end - i, lanes)); });
    };
    if (extent.upper() >= 3 * lanes)
        if (const Interior in = interior_of(s); in.lanes) {
            const LExpr zero = b_.i64(0);
            const LExpr first =
                b_.let("first", r.begin + loop::ceildiv(loop::max(in.lanes->begin - r.begin, zero), lanes) * lanes);
            const LExpr count = b_.let("count", loop::max(loop::min(in.lanes->end, r.end) - first, zero));
            const LExpr main_end = b_.let("main_end", first + loop::floordiv(count, lanes) * lanes);
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
    const std::optional<bool> stream = streamable(s);
    if (!stream) return sweep(s, r.begin, false, body);
    c_.out.streamed.push_back({c_.math.equations[s.body.back().equation].lhs, *stream ? Sym(0) : extent});
    b_.if_(
        loop::ne(b_.symbol(kStreamSymbol), b_.i64(0)),
        [&] {
            const LExpr from = *stream ? to_line(s, scope, body) : r.begin;
            point_.set_streaming(true);
            sweep(s, from, *stream, body);
            point_.set_streaming(false);
        },
        [&] { sweep(s, r.begin, false, body); });
}

void NestLowering::lane_body(const Stmt& s, int positions) {
    for (size_t k = 0; k < s.body.size(); ++k) {
        keeping_ = s.body[k].kind == StmtKind::Store && k + 1 < s.body.size();
        stmt(s.body[k]);
        if (keeping_) keep_stored(s, k, positions);
    }
}

void NestLowering::keep_stored(const Stmt& s, size_t k, int positions) {
    const Equation& q = c_.math.equations[s.body[k].equation];
    for (size_t i = k + 1; i < s.body.size(); ++i) {
        if (s.body[i].kind != StmtKind::Load) continue;
        const ExprId load = c_.tile.buffers[s.body[i].dst].value;
        if (!loads_result(c_.math, load, q)) continue;
        for (int u = 0; u < positions; ++u) point_.set_value(load, u, stored_[static_cast<size_t>(u)]);
    }
}

std::optional<bool> NestLowering::streamable(const Stmt& lane) const {
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

bool NestLowering::patterns(const Stmt& lane) const {
    return std::any_of(lane.body.begin(), lane.body.end(), [&](const Stmt& s) {
        if (s.kind != StmtKind::Load) return false;
        const math::Expr& x = c_.math.expr(c_.tile.buffers[s.dst].value);
        return std::any_of(x.args.begin(), x.args.end(), [&](ExprId a) {
            const auto free = c_.math.free_vars(a);
            return std::find(free.begin(), free.end(), lane.var) != free.end() && !affine(c_.math, a);
        });
    });
}

std::vector<ExprId> NestLowering::turned_loads(const Stmt& s) const {
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

void NestLowering::turned_loop(const Stmt& s, const std::vector<ExprId>& loads) {
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
    // Within the caches narrow blocks are faster: all their lines are there while lanes go on along them. The first cache finds a
    // line by its place in a page: of rows a page or half of one apart it holds few.
    const auto in_caches = [&] {
        constexpr int64_t kPage = 4096;
        LExpr width = b_.i64(kTurnedInCaches);
        if (contiguous) {
            Sym apart = 0;
            for (size_t d = 0; d < q.at.size(); ++d)
                if (const auto f = affine(c_.math, q.at[d])) apart = apart + f->coefficient(inner.var) * c_.storage[q.lhs].strides[d];
            const LExpr row = point_.sym(apart) * static_cast<int64_t>(size_of(c_.math.tensors[q.lhs].dtype));
            width = b_.let("width", loop::select(loop::eq(loop::mod(row, kPage / 2), b_.i64(0)), b_.i64(lanes), width));
        }
        b_.loop("block", across.begin, across.end, width, [&](LExpr k) {
            blocks({k, b_.let("block_end", loop::min(k + width, across.end))}, contiguous);
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

}  // namespace opwright::target::cpu
