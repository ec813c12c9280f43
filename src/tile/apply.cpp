#include "tile/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "schedule/parts.h"
#include "schedule/together.h"
#include "schedule/window.h"
#include "tile/join_walks.h"

namespace opwright::tile {
using namespace math;
using schedule::ContractPlan;
using schedule::EquationPlan;
using schedule::NestPlan;

namespace {

bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

class Applier {
public:
    Applier(schedule::Kernel k, schedule::Schedule s)
        : p_{std::move(k), std::move(s), {}, {}}, math_(p_.kernel.program) {}

    Result<Program> run(const target::Machine& machine) {
        if (p_.schedule.nests.size() != p_.kernel.nests.size())
            return Diagnostic(fmt::format("The schedule has {} nests, but the kernel of {} has {}.",
                                          p_.schedule.nests.size(), math_.name, p_.kernel.nests.size()),
                              {}, "Start from the schedule that `opwright explain --level schedule` prints.");
        for (size_t i = 0; i < p_.kernel.nests.size(); ++i) {
            const schedule::Nest& nest = p_.kernel.nests[i];
            const NestPlan& plan = p_.schedule.nests[i];
            Nest out;
            if (plan.together)
                if (auto e = check_together(i); !e.ok()) return e.error();
            if (plan.grid_tile.size() != nest.grid.size())
                return Diagnostic(fmt::format("The schedule of nest {} of {} names {} grid tiles for {} grid indices.",
                                              i, math_.name, plan.grid_tile.size(), nest.grid.size()));
            for (size_t g = 0; g < nest.grid.size(); ++g) out.grid.push_back({nest.grid[g], plan.grid_tile[g]});
            if (nest.contraction) {
                if (auto e = check(plan.contract, nest, machine); !e.ok()) return e.error();
                out.contract = plan.contract;
                out.grid
                    .clear();  // batch points, then tiles of the flattened rows and columns (named by their last index)
                for (VarId v : nest.contraction->batch) out.grid.push_back({v, 1});
                if (!nest.contraction->m.empty()) out.grid.push_back({nest.contraction->m.back(), plan.contract.mt});
                out.grid.push_back({nest.contraction->n.back(), plan.contract.nt});
                contraction(nest, plan.contract, out);
            } else {
                if (auto e = check(plan, nest); !e.ok()) return e.error();
                for (size_t j = 0; j < nest.equations.size(); ++j)
                    equation(nest, plan, nest.equations[j], plan.equations[j], out.body);
                join_walks(nest, out.body, p_);
            }
            p_.nests.push_back(std::move(out));
        }
        return std::move(p_);
    }

private:
    Status check_together(size_t first) const {
        const auto t = schedule::match_together(p_.kernel, first);
        if (!t)
            return Diagnostic(fmt::format("The schedule runs nest {} of {} together with those behind it, which do not work on its rows.", first, math_.name), {},
                              "Leave \"rows_together\" out.");
        const int64_t rows = p_.schedule.nests[first].together;
        for (size_t i = first; i <= t->last; ++i) {
            const NestPlan& plan = p_.schedule.nests[i];
            const ContractPlan& c = plan.contract;
            const auto wrong = [&](const std::string& what) {
                return Diagnostic(fmt::format("The schedule runs nests {} to {} of {} together, {} rows at a time, but nest {} {}.", first, t->last, math_.name, rows, i, what), {},
                                  "Change that, or leave \"rows_together\" out.");
            };
            if (i > first && plan.together) return wrong("has a number of rows of its own");
            if (p_.kernel.nests[i].contraction) {
                if (schedule::from_windows(c)) return wrong("reads windows");
                if (c.mr > 0 && rows % c.mr != 0) return wrong(fmt::format("has register tiles of {} rows, which must divide that number", c.mr));
            } else if (std::any_of(plan.grid_tile.begin(), plan.grid_tile.end(), [](int64_t n) { return n != 1; })) {
                return wrong("takes several points of its grid at a time");
            }
        }
        return ok_status();
    }

    Status check(const ContractPlan& c, const schedule::Nest& nest, const target::Machine& m) {
        const std::string& lhs = math_.tensors[math_.equations[nest.equations[0]].lhs].name;
        const int need = c.mr * c.nv + c.nv + 1;
        if (c.mr < 1 || c.nv < 1 || (c.kc < 1 && !schedule::from_windows(c)) || c.mt < c.mr ||
            c.nt < static_cast<int64_t>(c.nv) * c.lanes)
            return Diagnostic(fmt::format("The contraction of {} has an empty register or cache tile.", lhs));
        const Equation& q = math_.equations[nest.equations[0]];
        if (nest.contraction->lanewise && !schedule::from_windows(c))
            return Diagnostic(fmt::format("The schedule does not read windows for {}, whose lanes have factors of their own.", lhs), {},
                              "Set \"window\": true.");
        if (schedule::from_windows(c) && !schedule::windows_of(math_, q, *nest.contraction))
            return Diagnostic(
                fmt::format("The schedule reads windows for the contraction of {}, which has none.", lhs), {},
                "Leave \"window\" out.");
        if (c.tiles) {
            const auto wrong = [&](const std::string& what) {
                return Diagnostic(fmt::format("The schedule takes tiles for the contraction of {}, and {}.", lhs, what), {}, "Leave \"tiles\" out.");
            };
            if (!m.tiles) return wrong("the processor has none");
            if (!schedule::tiles_on(math_, *nest.contraction, m) || schedule::from_windows(c)) return wrong("its factors are neither bf16 nor 8-bit integers, the columns' without a zero point");
            if (c.parts != schedule::parts_of(math_, *nest.contraction))
                return wrong(fmt::format("\"parts\" is {} instead of {}", c.parts, schedule::parts_of(math_, *nest.contraction)));
            if ((c.mr != target::kTileRows && c.mr != 2 * target::kTileRows) || c.nv > 2 || c.lanes != target::kTileWords)
                return wrong("its register tile is not 16 or 32 rows by one or two vectors of 16");
            if (c.kc % (target::kTileWords * c.parts) != 0) return wrong(fmt::format("its depth is no multiple of {}", target::kTileWords * c.parts));
            return ok_status();
        }
        if (c.parts > 1 && (c.parts != schedule::parts_on(math_, *nest.contraction, m) || c.kc % c.parts != 0 || schedule::from_windows(c)))
            return Diagnostic(
                fmt::format("The schedule takes {} positions of depth at a time for the contraction of {}, and {}.", c.parts, lhs,
                            c.parts != schedule::parts_of(math_, *nest.contraction) ? "its factors are not that narrow"
                            : c.kc % c.parts != 0 || schedule::from_windows(c)      ? "its depth is no multiple of that"
                                                                                    : "the processor has no such instruction"),
                {}, "Leave \"parts\" out.");
        if (need > m.vector_registers)
            return Diagnostic(
                fmt::format("The register tile {}x{} of {} needs {} vector registers, but the processor has {}.", c.mr,
                            c.nv * c.lanes, lhs, need, m.vector_registers),
                {}, "Make mr or nv smaller: mr*nv + nv + 1 must fit.");
        return ok_status();
    }

    // A schedule that a person wrote may say anything.
    Status check(const NestPlan& plan, const schedule::Nest& nest) {
        const std::string& first = math_.tensors[math_.equations[nest.equations[0]].lhs].name;
        if (plan.equations.size() != nest.equations.size())
            return Diagnostic(
                fmt::format("The schedule has {} equation plans for the nest that computes {}, which has {} "
                            "equations.",
                            plan.equations.size(), first, nest.equations.size()));
        const bool flat = std::all_of(nest.equations.begin(), nest.equations.end(),
                                      [&](uint32_t i) { return math_.equations[i].vars.size() == nest.grid.size(); });
        for (size_t g = 0; g < nest.grid.size(); ++g)
            if (plan.grid_tile[g] != 1 && !flat)
                return Diagnostic(
                    fmt::format(
                        "The tile of grid index {} is {}, but the nest that computes {} runs over further indices.",
                        math_.vars[nest.grid[g]].name, plan.grid_tile[g], first),
                    {}, "Give it the tile 1.");
        for (size_t j = 0; j < nest.equations.size(); ++j) {
            const Equation& q = math_.equations[nest.equations[j]];
            const EquationPlan& e = plan.equations[j];
            if (e.lane == kNone) continue;
            const std::string lane =
                fmt::format("{} can't run on lanes along {}", math_.tensors[q.lhs].name, math_.vars[e.lane].name);
            if (e.lanes < 2)
                return Diagnostic(fmt::format("{}: {} is no number of lanes.", lane, e.lanes), {},
                                  "Leave the fields of its lane out for scalar code.");
            const Expr& rhs = math_.expr(q.rhs);
            if (e.lane_reduces) {
                std::vector<ExprId> reduces;
                std::vector<bool> seen(math_.expr_count());
                reduces_in(q.rhs, reduces, seen);
                const bool folds = std::any_of(reduces.begin(), reduces.end(),
                                               [&](ExprId r) { return has(math_.expr(r).vars, e.lane); });
                const bool arg =
                    std::any_of(reduces.begin(), reduces.end(), [&](ExprId r) { return is_arg(math_.expr(r).reduce); });
                if (!folds || arg || q.update != Update::Set || rhs.kind == ExprKind::Scan)
                    return Diagnostic(fmt::format("{} with partial results: {}.", lane,
                                                  arg ? "it wants the position of an extreme"
                                                      : "no reduction of a plain equation runs along it"));
                if (std::any_of(plan.grid_tile.begin(), plan.grid_tile.end(), [](int64_t t) { return t != 1; }))
                    return Diagnostic(fmt::format("{} with partial results, while tasks cover several points.", lane),
                                      {}, "Give every index of the grid the tile 1.");
                continue;
            }
            if (e.rows != 0) {
                std::vector<ExprId> reduces;
                std::vector<bool> seen(math_.expr_count());
                reduces_in(q.rhs, reduces, seen);
                if (e.rows < 0 || reduces.size() != 1 || is_arg(math_.expr(reduces[0]).reduce) ||
                    q.update != Update::Set || e.lane != nest.grid.back() || !flat || rhs.kind == ExprKind::Scan)
                    return Diagnostic(
                        fmt::format("{} across rows: that wants one reduction over all points of a task, "
                                    "with lanes along the innermost index of the grid.",
                                    lane));
                if (std::any_of(plan.grid_tile.begin(), plan.grid_tile.end() - 1, [](int64_t t) { return t != 1; }))
                    return Diagnostic(
                        fmt::format("{} across rows, while a task covers several points of an outer index.", lane), {},
                        "Give every index of the grid but the innermost the tile 1.");
            }
            const std::vector<VarId> free = q.update == Update::Set ? q.vars : schedule::independent_vars(math_, q);
            if (!has(free, e.lane) || (rhs.kind == ExprKind::Scan && rhs.vars[0] == e.lane))
                return Diagnostic(
                    fmt::format("{}: its points along that index depend on each other, or it has no such "
                                "index.",
                                lane));
            const auto g = std::find(nest.grid.begin(), nest.grid.end(), e.lane);
            if (g == nest.grid.end()) continue;
            // A dim shorter than a vector is one task, its last lanes idle.
            const bool whole = math_.vars[e.lane].extent.upper() <= plan.grid_tile.back();
            if (e.lanes > 1 && (g + 1 != nest.grid.end() || (plan.grid_tile.back() < e.lanes && !whole)))
                return Diagnostic(fmt::format("{}: a task covers {} points of it.", lane,
                                              plan.grid_tile[static_cast<size_t>(g - nest.grid.begin())]),
                                  {},
                                  "Use the innermost index of the grid, with a tile of at least the number of lanes.");
        }
        return ok_status();
    }

    BufferId buffer(std::string name, ExprId value, DType t, Memory memory, std::vector<Extent> box) {
        p_.buffers.push_back({std::move(name), value, t, memory, std::move(box)});
        return static_cast<BufferId>(p_.buffers.size() - 1);
    }
    std::string fresh(const char* base) { return base + std::to_string(p_.buffers.size()); }

    // The part of the box of expression e that lies along the lane variable.
    std::vector<Extent> box_of(ExprId e) {
        std::vector<Extent> box;
        for (VarId v : math_.free_vars(e)) box.push_back({v, v == lane_ ? tile_ : 1});
        return box;
    }

    // Loads of e (not those inside indices, and not those inside reductions), children first.
    void loads_in(ExprId e, std::vector<ExprId>& out, std::vector<bool>& seen) {
        if (seen[e]) return;
        seen[e] = true;
        const Expr& x = math_.expr(e);
        if (x.kind == ExprKind::Reduce || x.kind == ExprKind::Scan) return;
        if (x.kind == ExprKind::Load) {
            if (x.outside == Outside::Value) loads_in(x.args.back(), out, seen);
            out.push_back(e);
            return;
        }
        if (x.kind == ExprKind::Inside) return;
        for (ExprId a : x.args) loads_in(a, out, seen);
    }
    void reduces_in(ExprId e, std::vector<ExprId>& out, std::vector<bool>& seen) {
        if (seen[e]) return;
        seen[e] = true;
        if (math_.expr(e).kind == ExprKind::Reduce) {
            out.push_back(e);
            return;
        }
        for (ExprId a : math_.expr(e).args) reduces_in(a, out, seen);
    }
    bool data_dependent(ExprId load) {
        const Expr& x = math_.expr(load);
        for (size_t d = 0; d < math_.tensors[x.ref].shape.size(); ++d)
            if (!math_.reads(x.args[d]).empty()) return true;
        return false;
    }
    Stmt load(ExprId e) {
        const bool gather = data_dependent(e);
        const BufferId b = buffer(fresh(math_.tensors[math_.expr(e).ref].name.c_str()), e, math_.expr(e).dtype,
                                  Memory::Register, box_of(e));
        return {.kind = gather ? StmtKind::Gather : StmtKind::Load, .dst = b};
    }

    // Statements that compute e at the present point, without the loads that are placed already.
    BufferId map(ExprId e, std::vector<Stmt>& out) {
        std::vector<ExprId> loads;
        std::vector<bool> seen(math_.expr_count());
        loads_in(e, loads, seen);
        for (ExprId l : loads)
            if (!placed(l)) out.push_back(load(l)), placed_.push_back(l);
        const BufferId b = buffer(fresh("t"), e, math_.expr(e).dtype, Memory::Register, box_of(e));
        out.push_back({.kind = StmtKind::Map, .dst = b});
        return b;
    }
    bool placed(ExprId l) const { return std::find(placed_.begin(), placed_.end(), l) != placed_.end(); }

    void equation(const schedule::Nest& nest, const NestPlan& nest_plan, uint32_t index, const EquationPlan& plan,
                  std::vector<Stmt>& out) {
        const Equation& q = math_.equations[index];
        lane_ = plan.lane;
        tile_ = static_cast<int64_t>(plan.lanes) * plan.unroll;
        placed_.clear();

        // Serial loops over the variables that the grid leaves, the lane variable innermost.
        std::vector<VarId> loops;
        for (VarId v : q.vars) {
            const auto g = std::find(nest.grid.begin(), nest.grid.end(), v);
            const bool whole =
                g != nest.grid.end() && nest_plan.grid_tile[static_cast<size_t>(g - nest.grid.begin())] == 1;
            if (!whole && v != lane_) loops.push_back(v);
        }
        const bool scan = math_.expr(q.rhs).kind == ExprKind::Scan;
        if (scan) std::erase(loops, math_.expr(q.rhs).vars[0]);
        const size_t phases = lane_ == kNone || plan.lane_reduces || plan.lane_first || plan.rows > 0 ? 0 : phases_last(q, loops);
        if (lane_ != kNone && !plan.lane_reduces)
            loops.insert(plan.lane_first ? loops.begin() : loops.end() - static_cast<long>(phases), lane_);

        std::vector<Stmt>* at = &out;
        for (VarId v : loops) {
            const bool lane = v == lane_;
            at->push_back({.kind = StmtKind::For,
                           .var = v,
                           .tile = lane ? tile_ : 1,
                           .lane = lane,
                           .lanes = lane ? plan.lanes : 1});
            at = &at->back().body;
        }
        if (scan) {
            at->push_back({.kind = StmtKind::Scan,
                           .op = math_.expr(q.rhs).reduce,
                           .var = math_.expr(q.rhs).vars[0],
                           .equation = index});
            return;
        }
        std::vector<ExprId> reduces;
        std::vector<bool> seen(math_.expr_count());
        reduces_in(q.rhs, reduces, seen);
        if (plan.rows > 0) return across_rows(nest_plan, index, plan, reduces[0], out);
        for (ExprId r : reduces) reduction(r, plan, *at);
        const BufferId value = map(q.rhs, *at);
        at->push_back({.kind = q.update == Update::Set ? StmtKind::Store : StmtKind::ScatterReduce,
                       .a = value,
                       .equation = index});
    }

    // Moves the phases of a stride to the end of the loops: indices of a few values that decide which terms a sum has and
    // are no part of what it reads. Inside the loop over lanes all of them share what is read. How many they are.
    size_t phases_last(const Equation& q, std::vector<VarId>& loops) {
        constexpr int64_t kMostValues = 3;  // of one
        std::vector<ExprId> reduces, loads;
        std::vector<bool> seen(math_.expr_count()), seen_loads(math_.expr_count());
        reduces_in(q.rhs, reduces, seen);
        if (reduces.size() != 1 || math_.expr(reduces[0]).args.size() < 2) return 0;
        const Expr& x = math_.expr(reduces[0]);
        for (VarId v : x.vars)
            if (math_.vars[v].extent.constant().value_or(kMostValues + 1) > kMostValues) return 0;
        for (ExprId a : x.args) loads_in(a, loads, seen_loads);
        const std::vector<VarId> deciding = math_.free_vars(x.args[1]);
        const auto is_phase = [&](VarId v) {
            if (!has(deciding, v) || math_.vars[v].extent.constant().value_or(kMostValues + 1) > kMostValues) return false;
            return std::none_of(loads.begin(), loads.end(), [&](ExprId l) { return has(math_.free_vars(l), v); });
        };
        const auto first = std::stable_partition(loops.begin(), loops.end(), [&](VarId v) { return !is_phase(v); });
        return static_cast<size_t>(loops.end() - first);
    }

    // The reduction's loops outside that over lanes, partial results of the task's points in fast memory. Equations
    // that follow each other and go over the same rows share the loops.
    void across_rows(const NestPlan& nest, uint32_t index, const EquationPlan& plan, ExprId r, std::vector<Stmt>& out) {
        const Expr x = math_.expr(r);
        const BufferId acc = buffer(fresh("acc"), r, x.dtype, Memory::Scratch, {{lane_, nest.grid_tile.back()}});
        const Stmt lanes{.kind = StmtKind::For, .var = lane_, .tile = tile_, .lane = true, .lanes = plan.lanes};
        const Stmt fill{.kind = StmtKind::Fill, .dst = acc, .op = x.reduce, .lanes = plan.lanes};
        const auto rows = [&](const Stmt& s) { return s.kind == StmtKind::For && s.var == x.vars[0] && !s.lane; };
        const auto last = std::find_if(out.rbegin(), out.rend(), rows);
        const auto shared = last == out.rend() ? out.end() : std::prev(last.base());
        std::vector<Stmt>* at = nullptr;
        const std::vector<TensorId> reads = math_.reads(r);
        const bool waits =
            std::any_of(reads.begin(), reads.end(), [&](TensorId t) { return after_rows_.count(t) > 0; });
        if (shared != out.end() && !waits && shared_rows_ == std::pair{x.vars, plan.rows}) {
            at = &out.insert(shared, fill)[1].body;
            for (size_t v = 1; v < x.vars.size(); ++v) at = &at->front().body;
            at = &at->front().body;
        } else {
            out.push_back(fill);
            at = &out;
            for (VarId v : x.vars) {
                at->push_back({.kind = StmtKind::For, .var = v, .tile = v == x.vars.back() ? plan.rows : 1});
                at = &at->back().body;
            }
            at->push_back(lanes);
            at = &at->back().body;
            shared_rows_ = {x.vars, plan.rows};
            after_rows_.clear();
        }
        after_rows_.insert(math_.equations[index].lhs);
        const BufferId term = map(x.args[0], *at);
        const BufferId condition = x.args.size() > 1 ? map(x.args[1], *at) : kNoBuffer;
        at->push_back({.kind = StmtKind::Accumulate, .dst = acc, .a = term, .b = condition, .op = x.reduce});
        placed_.clear();
        out.push_back(lanes);
        at = &out.back().body;
        at->push_back({.kind = StmtKind::Reduce, .dst = acc, .op = x.reduce});
        const BufferId value = map(math_.equations[index].rhs, *at);
        at->push_back({.kind = StmtKind::Store, .a = value, .equation = index});
    }

    void reduction(ExprId r, const EquationPlan& plan, std::vector<Stmt>& out) {
        const Expr& x = math_.expr(r);
        const bool folds = plan.lane_reduces && has(x.vars, lane_);
        std::vector<Extent> box = box_of(r);
        if (folds) box.push_back({lane_, tile_});
        const BufferId acc = buffer(fresh("acc"), r, x.dtype, Memory::Register, std::move(box));
        out.push_back({.kind = StmtKind::Fill, .dst = acc, .op = x.reduce, .lanes = folds ? plan.lanes : 1});

        // Loads that the reduction's variables do not touch are done once, before its loops.
        std::vector<ExprId> loads;
        std::vector<bool> seen(math_.expr_count());
        for (ExprId a : x.args) loads_in(a, loads, seen);
        for (ExprId l : loads) {
            const std::vector<VarId> fv = math_.free_vars(l);
            if (std::none_of(fv.begin(), fv.end(), [&](VarId v) { return has(x.vars, v); }) && !placed(l)) {
                out.push_back(load(l));
                placed_.push_back(l);
            }
        }
        const std::vector<ExprId> outer = placed_;
        std::vector<VarId> loops;
        for (VarId v : x.vars)
            if (!(folds && v == lane_)) loops.push_back(v);
        if (folds) loops.push_back(lane_);
        std::vector<Stmt>* at = &out;
        for (VarId v : loops) {
            const bool lane = folds && v == lane_;
            at->push_back({.kind = StmtKind::For,
                           .var = v,
                           .tile = lane ? tile_ : 1,
                           .lane = lane,
                           .lanes = lane ? plan.lanes : 1});
            at = &at->back().body;
        }
        const BufferId term = map(x.args[0], *at);
        const BufferId condition = x.args.size() > 1 ? map(x.args[1], *at) : kNoBuffer;
        at->push_back({.kind = StmtKind::Accumulate, .dst = acc, .a = term, .b = condition, .op = x.reduce});
        placed_ = outer;
        out.push_back({.kind = StmtKind::Reduce, .dst = acc, .op = x.reduce, .var = folds ? lane_ : kNone});
    }

    void contraction(const schedule::Nest& nest, const ContractPlan& plan, Nest& out) {
        const schedule::Contraction& c = *nest.contraction;
        const uint32_t index = nest.equations[0];
        const auto box = [&](const std::vector<VarId>& vs, int64_t size) {
            std::vector<Extent> b;
            for (VarId v : vs) b.push_back({v, size});
            return b;
        };
        const auto join = [](std::vector<Extent> a, const std::vector<Extent>& b) {
            a.insert(a.end(), b.begin(), b.end());
            return a;
        };
        const DType t = accumulate_type(math_.expr(c.reduce).dtype);
        const auto m = box(c.m, plan.mt), n = box(c.n, plan.nt), k = box(c.k, plan.kc);
        const BufferId acc = buffer("acc", c.reduce, t, Memory::Scratch, join(m, n));
        const BufferId a = buffer("a", c.a, t, Memory::Scratch, c.lanewise ? join(join(m, k), n) : join(m, k));
        const BufferId b = buffer("b", c.b, t, Memory::Scratch, join(k, n));
        p_.buffers[a].packed = p_.buffers[b].packed = true;
        out.body.push_back({.kind = StmtKind::Fill, .dst = acc});
        Stmt loop{.kind = StmtKind::For, .var = c.k.back(), .tile = std::max<int64_t>(1, plan.kc)};
        loop.body.push_back({.kind = StmtKind::Load, .dst = a});
        loop.body.push_back({.kind = StmtKind::Load, .dst = b});
        loop.body.push_back({.kind = StmtKind::Contract, .dst = acc, .a = a, .b = b, .equation = index});
        out.body.push_back(std::move(loop));
        lane_ = c.n.back();
        tile_ = plan.lanes;
        placed_.clear();
        const BufferId value = map(math_.equations[index].rhs, out.body);
        out.body.push_back({.kind = StmtKind::Store, .a = value, .equation = index});
    }

    Program p_;
    const math::Program& math_;
    VarId lane_ = kNone;
    int64_t tile_ = 1;
    std::vector<ExprId> placed_;
    std::pair<std::vector<VarId>, int> shared_rows_;  // of the loops that across_rows() made last
    std::set<TensorId> after_rows_;                   // what is known only once they have ended
};
}  // namespace

Result<Program> apply(schedule::Kernel kernel, schedule::Schedule s, const target::Machine& machine) {
    return Applier(std::move(kernel), std::move(s)).run(machine);
}

}  // namespace opwright::tile
