#include <fmt/format.h>

#include <algorithm>

#include "schedule/parts.h"
#include "schedule/schedule.h"
#include "schedule/together.h"
#include "schedule/window.h"

namespace opwright::schedule {
using namespace math;

namespace {

// Points of a task of a nest whose equations all cover just the grid: some microseconds of work.
constexpr int64_t kMapChunk = 8192;    // plain maps
constexpr int64_t kReduceChunk = 512;  // reductions at each point, or temporaries of the chunk that should stay in L1
constexpr int64_t kAcrossChunk = 2048;  // sums across rows: two pages of each row, and partial results that L1 holds

// Collects what the lane choice weighs: loads and the operations around them.
struct Body {
    std::vector<ExprId> loads, reduces;
    int special = 0, operations = 0;
    bool arg_reduce = false;
};
Body inspect(const Program& p, ExprId root) {
    Body b;
    std::vector<bool> seen(p.expr_count());
    std::vector<std::pair<ExprId, bool>> stack{{root, false}};  // expression, inside an index
    while (!stack.empty()) {
        auto [e, index] = stack.back();
        stack.pop_back();
        if (seen[e]) continue;
        seen[e] = true;
        const Expr& x = p.expr(e);
        if (x.kind == ExprKind::Load) b.loads.push_back(e);
        if (x.kind == ExprKind::Reduce) {
            b.reduces.push_back(e);
            b.arg_reduce |= is_arg(x.reduce);
        }
        if (x.kind == ExprKind::Call) {
            ++b.operations;
            if (info(x.fn).cost == CostClass::Special) ++b.special;
        }
        const size_t rank = x.kind == ExprKind::Load || x.kind == ExprKind::Inside ? p.tensors[x.ref].shape.size() : 0;
        for (size_t i = 0; i < x.args.size(); ++i) stack.push_back({x.args[i], index || i < rank});
    }
    return b;
}

// Bytes of the widest value that lanes along v compute: index arithmetic and what is the same on all lanes does not
// count, but the terms of a reduction do even so, since its partial results are one a lane.
size_t widest_on(const Program& p, ExprId root, VarId v) {
    size_t bytes = 1;
    std::vector<bool> seen(p.expr_count());
    std::vector<ExprId> stack{root};
    while (!stack.empty()) {
        const ExprId e = stack.back();
        stack.pop_back();
        if (seen[e]) continue;
        seen[e] = true;
        const Expr& x = p.expr(e);
        if (x.kind == ExprKind::Index || x.kind == ExprKind::Size || x.kind == ExprKind::Literal) continue;
        const std::vector<VarId> free = p.free_vars(e);
        const bool varies = e == root || x.kind == ExprKind::Reduce || x.kind == ExprKind::Scan ||
                            std::find(free.begin(), free.end(), v) != free.end();
        if (!varies) continue;
        if (!is_float(x.dtype) && e != root && p.reads(e).empty()) continue;
        bytes = std::max(bytes, size_of(compute_type(x.dtype)));
        const size_t rank = x.kind == ExprKind::Load || x.kind == ExprKind::Inside ? p.tensors[x.ref].shape.size() : 0;
        for (size_t i = rank; i < x.args.size(); ++i) stack.push_back(x.args[i]);
    }
    return bytes;
}

// Element stride of an access along v: nullopt when it is not affine.
std::optional<Sym> stride_along(const Program& p, const std::vector<Sym>& shape, const ExprId* at, VarId v) {
    Sym r = 0, step = 1;
    for (size_t d = shape.size(); d-- > 0;) {
        const auto f = affine(p, at[d]);
        if (!f) {
            for (VarId w : p.free_vars(at[d]))
                if (w == v) return std::nullopt;
        } else {
            r = r + f->coefficient(v) * step;
        }
        step = step * shape[d];
    }
    return r;
}

bool runs_over(const Program& p, ExprId e, const std::vector<ExprId>& reduces) {
    const std::vector<VarId> free = p.free_vars(e);
    return std::any_of(reduces.begin(), reduces.end(), [&](ExprId r) {
        const auto& vars = p.expr(r).vars;
        return std::any_of(vars.begin(), vars.end(), [&](VarId v) { return std::find(free.begin(), free.end(), v) != free.end(); });
    });
}

int score(const Program& p, const Equation& q, const Body& body, VarId v, bool reduces) {
    int s = 0;
    for (ExprId e : body.loads) {
        const Expr& x = p.expr(e);
        // What no sum runs over is read once a result, and the rest again and again.
        if (!body.reduces.empty() && !runs_over(p, e, body.reduces)) continue;
        const auto stride = stride_along(p, p.tensors[x.ref].shape, x.args.data(), v);
        s += !stride ? -3 : stride->is(1) ? 4 : stride->is(0) ? 1 : -3;
    }
    if (!reduces) {
        const auto stride = stride_along(p, p.tensors[q.lhs].shape, q.at.data(), v);
        s += !stride ? -4 : stride->is(1) ? 4 : -4;
    }
    const int64_t extent = p.vars[v].extent.upper();
    if (extent <= 1)
        s -= 100;
    else if (extent < 4)
        s -= 6;
    return s;
}

int lanes_for(const target::Machine& m, size_t bytes, const Sym& extent) {
    int lanes = std::max<int>(1, m.vector_bytes / static_cast<int>(std::max<size_t>(bytes, 1)));
    lanes = std::min(lanes, 64);
    // A short row does not want more lanes than elements (rounded up to a power of two).
    while (lanes > 1 && extent.upper() <= lanes / 2) lanes /= 2;
    return lanes;
}

// Whether q is one reduction whose innermost variable takes every access from row to row, while the lanes lie side by
// side in each row.
constexpr int kRows = 8;
bool across_rows(const Program& p, const Equation& q, const Body& body, const EquationPlan& plan) {
    if (plan.lane_reduces || body.reduces.size() != 1 || body.arg_reduce || q.update != Update::Set) return false;
    const Expr& r = p.expr(body.reduces[0]);
    const VarId row = r.vars.back();
    if (p.vars[row].extent.upper() <= 2 * kRows || q.vars.empty() || plan.lane != q.vars.back()) return false;
    bool any = false;
    for (ExprId e : body.loads) {
        const Expr& x = p.expr(e);
        const auto& shape = p.tensors[x.ref].shape;
        const auto side = stride_along(p, shape, x.args.data(), plan.lane),
                   down = stride_along(p, shape, x.args.data(), row);
        if (x.outside != Outside::Error || !side || !down || !(side->is(0) || side->is(1))) return false;
        if (side->is(1) && !down->is(0)) {
            if (down->upper() <= 16) return false;
            any = true;
        }
    }
    return any;
}

EquationPlan plan_equation(const Kernel& k, const Nest& nest, const Equation& q, const target::Machine& m,
                           bool chunked) {
    const Program& p = k.program;
    const Body body = inspect(p, q.rhs);
    EquationPlan plan;
    const bool scan = p.expr(q.rhs).kind == ExprKind::Scan;
    const std::vector<VarId> free_order = q.update == Update::Set ? q.vars : independent_vars(p, q);
    int best = -50;
    for (VarId v : free_order) {
        const bool in_grid = std::find(nest.grid.begin(), nest.grid.end(), v) != nest.grid.end();
        if (in_grid && !(chunked && v == nest.grid.back())) continue;
        if (scan && v == p.expr(q.rhs).vars[0]) continue;
        const int s = score(p, q, body, v, false);
        if (s >= best) {  // later variables are further in: they win ties
            best = s;
            plan.lane = v;
        }
    }
    if (!body.arg_reduce && !scan && q.update == Update::Set) {
        for (ExprId e : body.reduces)
            for (VarId v : p.expr(e).vars) {
                int s = score(p, q, body, v, true);
                // Of two that all loads lie along, the taps and the positions of a weight's gradient, the positions are
                // many: a reduction over at least as many variables as there are points goes far.
                if (v == p.expr(e).vars.back() && p.expr(e).vars.size() >= q.vars.size() && p.expr(e).vars.size() > 1 &&
                    s == 4 * static_cast<int>(body.loads.size()))
                    s += 2;
                if (s <= best && plan.lane != kNone) continue;
                best = s;
                plan.lane = v;
                plan.lane_reduces = true;
            }
    }
    if (plan.lane == kNone || best < -20) return {};
    plan.lanes = lanes_for(m, widest_on(p, q.rhs, plan.lane), p.vars[plan.lane].extent);
    if (plan.lanes == 1) return {};
    // Of a fold the terms count: what follows it, as the logarithm of a sum of exponentials, is computed once a row.
    Body step = body;
    if (plan.lane_reduces && body.reduces.size() == 1) step = inspect(p, p.expr(body.reduces[0]).args[0]);
    plan.unroll = step.special > 1 || step.operations > 24 ? 1 : step.special == 1 || step.operations > 8 ? 2 : 4;
    // A reduction across rows reads the rows in order, some at a time, where all of it lies in one task.
    if (chunked && across_rows(p, q, body, plan)) {
        plan.rows = kRows;
        plan.unroll = 1;
    }
    while (plan.unroll > 1 && p.vars[plan.lane].extent.upper() < static_cast<int64_t>(plan.lanes) * plan.unroll)
        plan.unroll /= 2;
    return plan;
}

// A map that reads along another index than it writes: lanes gather, and a block of that index makes each cache line
// read serve several of them. A kilobyte of each row read and written is as much as memory wants at a time.
bool transposed(const Kernel& k, const Nest& nest, NestPlan& plan) {
    constexpr int64_t kBlock = 256, kLaneChunk = 256;
    constexpr int kSquare = 16;  // the block is turned in squares, in registers
    const Program& p = k.program;
    const Equation& q = p.equations[nest.equations[0]];
    EquationPlan& e = plan.equations[0];
    if (e.lane == kNone || e.lanes == 1 || e.lane != nest.grid.back() || q.update != Update::Set) return false;
    for (ExprId l : inspect(p, q.rhs).loads) {
        const Expr& x = p.expr(l);
        const auto& shape = p.tensors[x.ref].shape;
        const auto along = stride_along(p, shape, x.args.data(), e.lane);
        if (!along || along->is(0) || along->is(1)) continue;
        for (size_t g = 0; g + 1 < nest.grid.size(); ++g) {
            const auto other = stride_along(p, shape, x.args.data(), nest.grid[g]);
            if (!other || !other->is(1) || p.vars[nest.grid[g]].extent.upper() < 4) continue;
            plan.grid_tile[g] = kBlock;
            plan.grid_tile.back() = kLaneChunk;
            e.unroll = 1;
            e.lanes = std::min(e.lanes, kSquare);
            e.lane_first = true;
            return true;
        }
    }
    return false;
}

constexpr int64_t kTaskRows = 240, kTaskColumns = 256;  // of a packed contraction, to aim at

// The register tile: mr rows of nv vectors with mr*nv + nv + 1 registers at most (measured as the spill limit), chosen
// for little waste on known extents.
ContractPlan plan_contraction(const Kernel& k, const Equation& q, const Contraction& c, const target::Machine& m) {
    const Program& p = k.program;
    const DType type = accumulate_type(p.expr(c.reduce).dtype);
    ContractPlan plan;
    plan.lanes = std::max<int>(1, m.vector_bytes / static_cast<int>(size_of(type)));
    Sym rows = 1, columns = 1, depth = 1;
    for (VarId v : c.m) rows = rows * p.vars[v].extent;
    for (VarId v : c.n) columns = columns * p.vars[v].extent;
    for (VarId v : c.k) depth = depth * p.vars[v].extent;
    plan.nv = columns.upper() <= plan.lanes ? 1 : 2;
    const auto w = useful_window(p, q, c);
    const auto at_points = w ? std::nullopt : useful_points(p, q, c);
    const bool points = at_points.has_value();
    // Windows and rows at places of their own leave fewer registers for constants, of which there are more where a slab is filled along
    // another index than the channels.
    const bool channels_along = points && at_points->channels.size() == 1 && side_by_side(p, c.a, at_points->channels[0]);
    const int spare = w ? 3 : !points ? 1 : channels_along || c.lanewise ? 3 : 5;
    const int limit =
        plan.nv == 1 ? std::min(m.vector_registers - 2, 24) : (m.vector_registers - spare - plan.nv) / plan.nv;
    // Rows of unknown number: a tile that most usual ones are near a multiple of.
    plan.mr = limit == 14 ? 12 : limit;
    if (auto n = rows.constant(); n && *n > 0) {
        // Computed rows, padding included, times what a row costs: a shorter tile loads its columns for fewer rows.
        double best = 1e300;
        for (int mr = limit; mr >= std::max(1, limit / 2); --mr) {
            const double cost = static_cast<double>((*n + mr - 1) / mr * mr) * (1 + 1.5 / mr);
            if (cost < best) {
                best = cost;
                plan.mr = mr;
            }
        }
        if (*n < plan.mr) plan.mr = static_cast<int>(*n);
    }
    if (c.lanewise) {
        plan.nv = 1;
        plan.mr = m.vector_registers >= 32 ? 8 : 6;  // additions that need not wait for each other
    }
    if (w) {
        // Few rows want more vectors, so that additions need not wait for each other; a short flat run has no use for
        // them.
        const Sym run = (p.vars[w->column.out].extent + Sym(w->column.reach())) *
                        (w->row.out == kNone ? Sym(1) : p.vars[w->row.out].extent);
        while (plan.mr * plan.nv < 6 && plan.mr * (plan.nv + 1) + plan.nv + 2 <= m.vector_registers &&
               run.upper() > static_cast<int64_t>(plan.nv) * plan.lanes)
            ++plan.nv;
    }
    const int64_t nr = static_cast<int64_t>(plan.nv) * plan.lanes;
    if (!w && !points) plan.parts = parts_on(p, c, m);
    if (!w && !points && tiles_on(p, c, m)) {
        // Sums in four registers of 16 x 16, or as many as the extents fill, and two of each factor.
        plan.tiles = true;
        plan.parts = parts_of(p, c);
        plan.mr = rows.upper() <= target::kTileRows ? target::kTileRows : 2 * target::kTileRows;
    }
    const int64_t parts = plan.parts;
    // Blocks of both factors and the sums of a task are to fit the second cache.
    const int64_t fits = (m.l2_bytes / 4 - kTaskRows * kTaskColumns) / (kTaskRows + kTaskColumns) / 64 * 64;
    plan.kc = std::clamp<int64_t>(fits, 256, 512) * parts;
    if (auto n = depth.constant(); n && *n > 0) {
        const int64_t words = (*n + parts - 1) / parts, blocks = (words + 383) / 384;
        plan.kc = (words + blocks - 1) / blocks * parts;
    }
    if (plan.tiles) {
        // Sums go to memory and back between blocks: fewer of those gain more than panels that fit the first cache (16 KB of each
        // factor and a tenth slower at 1024 and 2048 cubed).
        constexpr int64_t kWords = 512;
        const auto n = depth.constant();
        const int64_t words = n && *n > 0 ? (*n + parts - 1) / parts : kWords, blocks = (words + kWords - 1) / kWords;
        const int64_t each = (words + blocks - 1) / blocks;
        plan.kc = (each + target::kTileWords - 1) / target::kTileWords * target::kTileWords * parts;
    }
    plan.nt = (kTaskColumns + nr - 1) / nr * nr;
    plan.mt = (kTaskRows + plan.mr - 1) / plan.mr * plan.mr;
    if (auto n = rows.constant(); n && *n > 0) {
        // Rows that are packed once for all may all share one evaluation of the columns, however many they are; the
        // tile of partial results is in the way only where the depth takes several blocks.
        const std::vector<TensorId> reads = p.reads(c.a);
        const bool packed = std::all_of(reads.begin(), reads.end(), [&](TensorId t) { return k.constant[t]; });
        const bool one_block = depth.is_const() && *depth.constant() <= plan.kc;
        if (*n <= (packed ? one_block ? 4096 : 1024 : 512)) {
            plan.mt = (*n + plan.mr - 1) / plan.mr * plan.mr;
            if (packed && *n > 256) plan.nt = (128 + nr - 1) / nr * nr;
        }
    }
    if (auto n = columns.constant(); n && *n < plan.nt) plan.nt = std::max(nr, (*n + nr - 1) / nr * nr);
    if (w || points) plan.kc = kWindows;
    return plan;
}
}  // namespace

Schedule default_cpu_schedule(const Kernel& k, const target::Machine& m) {
    Schedule s;
    const Program& p = k.program;
    for (const Nest& nest : k.nests) {
        NestPlan plan;
        plan.grid_tile.assign(nest.grid.size(), 1);
        if (nest.contraction) {
            plan.contract = plan_contraction(k, p.equations[nest.equations[0]], *nest.contraction, m);
            const ContractPlan& t = plan.contract;
            s.summary += s.summary.empty() ? "" : "; ";
            if (from_windows(t))
                s.summary +=
                    fmt::format("contraction over windows {}x{} lanes {}", t.mr, t.nv * t.lanes, t.lanes);
            else
                s.summary += fmt::format("packed contraction {}x{} lanes {} depth {}{}", t.mr, t.nv * t.lanes, t.lanes,
                                         t.kc, parts_text(t.parts, t.tiles));
        } else {
            // Every equation covers just the grid: the innermost grid variable is cut into chunks that lanes run over.
            const bool flat =
                !nest.grid.empty() && std::all_of(nest.equations.begin(), nest.equations.end(), [&](uint32_t i) {
                    const Equation& q = p.equations[i];
                    return q.vars.size() == nest.grid.size();
                });
            std::string how;
            bool heavy = !nest.local.empty(), folded = false, across = false;
            for (uint32_t i : nest.equations) {
                plan.equations.push_back(plan_equation(k, nest, p.equations[i], m, flat));
                folded |= plan.equations.back().lane_reduces;
                across |= plan.equations.back().rows > 0;
                heavy |= !inspect(p, p.equations[i].rhs).reduces.empty();
            }
            // Pieces of one tensor share their walk, and what they read.
            if (made_of_pieces(p, nest))
                for (EquationPlan& e : plan.equations) e.unroll = 1;
            // A folded reduction works point by point: then no other equation of the nest can run along the grid
            // either.
            if (flat && folded)
                for (size_t j = 0; j < nest.equations.size(); ++j)
                    plan.equations[j] = plan_equation(k, nest, p.equations[nest.equations[j]], m, false);
            for (const EquationPlan& e : plan.equations)
                if (how.empty() || e.lanes > 1)
                    how = e.lane == kNone ? "scalar"
                                          : fmt::format("{} lanes along {}{}", e.lanes, p.vars[e.lane].name,
                                                        e.lane_reduces ? " (folded)"
                                                        : e.rows       ? " across rows"
                                                                       : "");
            if (flat && !folded && !heavy && nest.equations.size() == 1 && transposed(k, nest, plan))
                how += ", in blocks";
            else if (flat) {
                int64_t chunk = folded ? 1 : across ? kAcrossChunk : heavy ? kReduceChunk : kMapChunk;
                if (auto n = p.vars[nest.grid.back()].extent.constant())
                    chunk = std::max<int64_t>(1, std::min(chunk, *n));
                plan.grid_tile.back() = chunk;
            }
            s.summary += fmt::format(
                "{}{} {}, {}", s.summary.empty() ? "" : "; ", flat ? "map of" : "rows of",
                nest.equations.size() == 1 ? "1 equation" : fmt::format("{} equations", nest.equations.size()), how);
        }
        s.nests.push_back(std::move(plan));
    }
    for (size_t i = 0; i < k.nests.size(); ++i) {
        const auto t = match_together(k, i);
        if (!t) continue;
        if (const int64_t rows = default_rows_together(k, *t, s)) {
            s.nests[i].together = rows;
            s.summary += fmt::format("; {} nests together by {} rows", t->last - t->first + 1, rows);
            i = t->last;
        }
    }
    return s;
}

std::string print(const Schedule& s, const Kernel& k) {
    std::string r;
    for (size_t i = 0; i < s.nests.size(); ++i) {
        const Nest& nest = k.nests[i];
        const NestPlan& plan = s.nests[i];
        r += fmt::format("nest {}: grid [", i);
        for (size_t g = 0; g < nest.grid.size(); ++g)
            r += fmt::format("{}{}:{}", g ? ", " : "", k.program.vars[nest.grid[g]].name, plan.grid_tile[g]);
        r += "]\n";
        if (plan.together) {
            const auto t = match_together(k, i);
            r += fmt::format("  together with the nests up to {}, {} rows at a time\n", t ? t->last : i, plan.together);
        }
        if (nest.contraction) {
            const ContractPlan& c = plan.contract;
            r += fmt::format("  contract: register tile {}x{} ({} vectors of {}), ", c.mr, c.nv * c.lanes, c.nv, c.lanes);
            if (from_windows(c))
                r += nest.contraction->lanewise ? "windows of a lane each\n" : "windows from a slab\n";
            else
                r += fmt::format("cache tile {}x{}, depth {}{}\n", c.mt, c.nt, c.kc, parts_text(c.parts, c.tiles));
            continue;
        }
        for (size_t j = 0; j < nest.equations.size(); ++j) {
            const EquationPlan& e = plan.equations[j];
            const std::string& name = k.program.tensors[k.program.equations[nest.equations[j]].lhs].name;
            if (e.lane == kNone)
                r += fmt::format("  {}: scalar\n", name);
            else
                r += fmt::format("  {}: {} lanes along {}{}, unroll {}{}\n", name, e.lanes, k.program.vars[e.lane].name,
                                 e.lane_reduces ? " (partial results folded at the end)" : "", e.unroll,
                                 e.rows ? fmt::format(", {} rows at a time", e.rows) : "");
        }
    }
    return r;
}

}  // namespace opwright::schedule
