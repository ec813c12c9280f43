#include "tile/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace opwright::tile {
using namespace math;
using schedule::BlockAxis;
using schedule::kWhole;
using schedule::NestPlan;

namespace {

bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

class BlockApplier {
public:
    BlockApplier(schedule::Kernel k, schedule::Schedule s)
        : p_{std::move(k), std::move(s), {}, {}}, math_(p_.kernel.program) {}

    Result<Program> run() {
        if (p_.schedule.nests.size() != p_.kernel.nests.size())
            return Diagnostic(fmt::format("The schedule has {} nests, but the kernel of {} has {}.",
                                          p_.schedule.nests.size(), math_.name, p_.kernel.nests.size()));
        for (size_t i = 0; i < p_.kernel.nests.size(); ++i) {
            nest_ = &p_.kernel.nests[i];
            plan_ = &p_.schedule.nests[i];
            if (auto d = check(); d) return *d;
            held_ = Held();
            pairs_.clear();
            lanes_.clear();
            if (plan_->online) pairs_ = rescales(math_, nest_->equations);
            Nest out;
            if (nest_->contraction) {
                out.contract = plan_->contract;
                contraction(out);
            } else {
                for (VarId v : nest_->grid) out.grid.push_back({v, tile_of(v) == kWhole ? 1 : tile_of(v)});
                for (uint32_t q : nest_->equations) equation(q, out.body);
            }
            p_.nests.push_back(std::move(out));
        }
        return std::move(p_);
    }

private:
    std::string target_name() const { return math_.tensors[math_.equations[nest_->equations[0]].lhs].name; }

    std::optional<Diagnostic> check() const {
        if (nest_->contraction) {
            const auto& c = plan_->contract;
            for (const int64_t n : {c.mt, c.nt, c.kc})
                if (n < 16 || (n & (n - 1)))
                    return Diagnostic(fmt::format("The block of the contraction that computes {} is {} x {} x {}.",
                                                  target_name(), c.mt, c.nt, c.kc),
                                      {}, "Its sides must be powers of two, 16 at least.");
            return std::nullopt;
        }
        for (size_t i = 0; i < plan_->blocks.size(); ++i) {
            const BlockAxis& a = plan_->blocks[i];
            const std::string& index = math_.vars[a.var].name;
            for (size_t j = 0; j < i; ++j)
                if (plan_->blocks[j].var == a.var)
                    return Diagnostic(fmt::format("The schedule of {} names index {} twice.", target_name(), index));
            if (a.tile == kWhole && has(nest_->grid, a.var))
                return Diagnostic(
                    fmt::format("Index {} of {} runs over the grid and can't be held whole.", index, target_name()), {},
                    "Give it a tile.");
            if (a.tile < 0 || (a.tile & (a.tile - 1)))
                return Diagnostic(fmt::format("The tile of index {} of {} is {}, which is no power of two.", index,
                                              target_name(), a.tile));
        }
        for (uint32_t e : nest_->equations) {
            const Equation& q = math_.equations[e];
            if (!has_tensor(nest_->local, q.lhs)) continue;
            for (VarId v : q.vars)
                if (!has(nest_->grid, v) && tile_of(v) != kWhole)
                    return Diagnostic(fmt::format("{} is kept on the chip along index {}, which the schedule cuts into "
                                                  "tiles of {}.",
                                                  math_.tensors[q.lhs].name, math_.vars[v].name, tile_of(v)),
                                      {}, "Hold that index whole, or use the schedule that walks along rows.");
        }
        return std::nullopt;
    }
    static bool has_tensor(const std::vector<TensorId>& v, TensorId t) {
        return std::find(v.begin(), v.end(), t) != v.end();
    }

    int64_t tile_of(VarId v) const {
        for (const BlockAxis& a : plan_->blocks)
            if (a.var == v) return a.tile;
        return 1;
    }
    std::vector<Extent> box_of(const std::vector<VarId>& free) const {
        std::vector<Extent> box;
        for (const BlockAxis& a : plan_->blocks)
            if (has(free, a.var) && a.tile != 1) box.push_back({a.var, a.tile});
        return box;
    }
    BufferId buffer(const std::string& name, ExprId value, DType t, std::vector<Extent> box) {
        p_.buffers.push_back({name, value, t, Memory::Register, std::move(box)});
        return static_cast<BufferId>(p_.buffers.size() - 1);
    }
    void add(std::vector<Stmt>& out, Stmt s) {
        held_.after(p_, s);
        out.push_back(std::move(s));
    }

    bool data_dependent(const Expr& load) const {
        for (size_t d = 0; d < math_.tensors[load.ref].shape.size(); ++d)
            if (!math_.reads(load.args[d]).empty()) return true;
        return false;
    }

    // Loads that e needs and no buffer holds, operands first. Indices that are data are computed by the load itself,
    // from loads of their own.
    void loads(ExprId e, std::vector<Stmt>& out, std::vector<bool>& seen) {
        if (seen[e]) return;
        seen[e] = true;
        if (held_.find(p_, e) != kNoBuffer) return;
        const Expr& x = math_.expr(e);
        if (x.kind == ExprKind::Reduce || x.kind == ExprKind::Scan) return;
        for (ExprId a : x.args) loads(a, out, seen);
        if (x.kind != ExprKind::Load) return;
        const BufferId b = buffer(math_.tensors[x.ref].name, e, x.dtype, box_of(math_.free_vars(e)));
        add(out, {.kind = data_dependent(x) ? StmtKind::Gather : StmtKind::Load, .dst = b});
    }
    BufferId map(const std::string& name, ExprId e, std::vector<Stmt>& out) {
        std::vector<bool> seen(math_.expr_count());
        loads(e, out, seen);
        if (const BufferId b = held_.find(p_, e); b != kNoBuffer) return b;
        const BufferId b = buffer(name, e, math_.expr(e).dtype, box_of(math_.free_vars(e)));
        add(out, {.kind = StmtKind::Map, .dst = b});
        return b;
    }

    void reduces_in(ExprId e, std::vector<ExprId>& out, std::vector<bool>& seen) const {
        if (seen[e]) return;
        seen[e] = true;
        if (math_.expr(e).kind == ExprKind::Reduce) {
            out.push_back(e);
            return;
        }
        for (ExprId a : math_.expr(e).args) reduces_in(a, out, seen);
    }

    void equation(uint32_t index, std::vector<Stmt>& out) {
        const Equation& q = math_.equations[index];
        const Expr rhs = math_.expr(q.rhs);
        const bool scan = rhs.kind == ExprKind::Scan;
        std::vector<VarId> loops;
        for (VarId v : q.vars)
            if (!has(nest_->grid, v) && tile_of(v) != kWhole && !(scan && v == rhs.vars[0])) loops.push_back(v);
        const Held before = held_;
        std::vector<Stmt>* at = &out;
        for (VarId v : loops) at = open(v, *at);
        const std::string& name = math_.tensors[q.lhs].name;
        if (scan) {
            scan_along(index, name, *at);
        } else {
            std::vector<ExprId> reduces;
            std::vector<bool> seen(math_.expr_count());
            for (ExprId a : q.at) reduces_in(a, reduces, seen);
            reduces_in(q.rhs, reduces, seen);
            for (ExprId r : reduces)
                if (held_.find(p_, r) == kNoBuffer) reduction(r, *at);
            std::vector<bool> met(math_.expr_count());
            for (ExprId a : q.at) loads(a, *at, met);
            const BufferId value = map(name, q.rhs, *at);
            const bool set = q.update == Update::Set;
            add(*at, {.kind = set ? StmtKind::Store : StmtKind::ScatterReduce, .a = value, .equation = index});
        }
        if (!loops.empty()) held_ = before;
    }
    std::vector<Stmt>* open(VarId v, std::vector<Stmt>& out) {
        const int64_t tile = tile_of(v);
        out.push_back({.kind = StmtKind::For, .var = v, .tile = tile, .lane = tile > 1});
        return &out.back().body;
    }

    void reduction(ExprId r, std::vector<Stmt>& out) {
        const Expr x = math_.expr(r);
        std::vector<VarId> looped, whole;
        for (VarId v : x.vars) (tile_of(v) == kWhole ? whole : looped).push_back(v);
        const std::string name(math::name(x.reduce));
        if (pair(r, looped, out)) return;
        const Held before = held_;
        if (looped.empty()) {  // the rows are there: fold them, one axis after the other
            BufferId term = map(name + "_term", x.args[0], out);
            BufferId condition = x.args.size() > 1 ? map(name + "_where", x.args[1], out) : kNoBuffer;
            fold(r, x, term, condition, whole, out);
            return;
        }
        // Partial results, one for each lane of a step, are folded at the end.
        std::vector<VarId> kept = math_.free_vars(r);
        for (VarId v : x.vars)
            if (tile_of(v) != 1) kept.push_back(v);
        const BufferId acc = buffer(name, r, x.dtype, box_of(kept));
        out.push_back({.kind = StmtKind::Fill, .dst = acc, .op = x.reduce});
        std::vector<Stmt>* at = &out;
        for (VarId v : looped)
            if (tile_of(v) == 1) at = open(v, *at);
        for (VarId v : looped)
            if (tile_of(v) != 1) at = open(v, *at);
        const BufferId term = map(name + "_term", x.args[0], *at);
        const BufferId condition = x.args.size() > 1 ? map(name + "_where", x.args[1], *at) : kNoBuffer;
        at->push_back({.kind = StmtKind::Accumulate, .dst = acc, .a = term, .b = condition, .op = x.reduce});
        held_ = before;
        std::vector<VarId> partial;
        for (VarId v : x.vars)
            if (tile_of(v) != 1) partial.push_back(v);
        if (partial.empty())
            add(out, {.kind = StmtKind::Reduce, .dst = acc, .op = x.reduce});
        else
            fold(r, x, acc, kNoBuffer, partial, out);
    }

    // ---- two folds in one walk

    // Whether both folds of a pair run at points of the grid and along one block of the same row.
    bool walks_together(const Rescale& x, const std::vector<VarId>& looped) const {
        const auto& vars = math_.expr(x.second).vars;
        if (looped.size() != 1 || math_.expr(x.first).vars != looped || vars != looped || tile_of(looped[0]) == 1)
            return false;
        for (uint32_t i : {x.first_equation, x.second_equation})
            for (VarId v : math_.equations[i].vars)
                if (!has(nest_->grid, v)) return false;
        return true;
    }
    // The walk of a pair at its first fold, what is left to do at its second; false: r is neither.
    bool pair(ExprId r, const std::vector<VarId>& looped, std::vector<Stmt>& out) {
        if (const auto known = lanes_.find(r); known != lanes_.end()) {
            const Lanes& l = known->second;
            const Rescale& x = p_.pairs[l.pair];
            map("shift", x.shift, out);
            const bool squares = x.kind == Rescale::Kind::Deviations;
            const BufferId dst =
                buffer(squares ? "squares" : "sum", r, math_.expr(r).dtype, box_of(math_.free_vars(r)));
            add(out, {.kind = StmtKind::ReducePair,
                      .dst = dst,
                      .a = l.second,
                      .b = l.first,
                      .op = ReduceOp::Sum,
                      .var = l.var,
                      .pair = l.pair});
            return true;
        }
        const auto found = std::find_if(pairs_.begin(), pairs_.end(), [&](const Rescale& x) {
            return x.first == r && !lanes_.count(x.second) && walks_together(x, looped);
        });
        if (found == pairs_.end()) return false;
        const Expr &x = math_.expr(r), &y = math_.expr(found->second);
        const VarId v = looped[0];
        std::vector<VarId> kept = math_.free_vars(r);
        kept.push_back(v);
        const bool squares = found->kind == Rescale::Kind::Deviations;
        const Lanes l{buffer(std::string(math::name(x.reduce)), r, x.dtype, box_of(kept)),
                      buffer(squares ? "deviations" : "sum", found->second, y.dtype, box_of(kept)), v,
                      static_cast<uint32_t>(p_.pairs.size())};
        p_.pairs.push_back(*found);
        const Held before = held_;
        out.push_back({.kind = StmtKind::Fill, .dst = l.first, .op = x.reduce});
        out.push_back({.kind = StmtKind::Fill, .dst = l.second, .op = y.reduce});
        std::vector<Stmt>* at = open(v, out);
        const BufferId term = map(std::string(math::name(x.reduce)) + "_term", found->value, *at);
        at->push_back(
            {.kind = StmtKind::AccumulatePair, .dst = l.second, .a = term, .b = l.first, .pair = l.pair});
        held_ = before;
        fold(r, x, l.first, kNoBuffer, {v}, out);
        lanes_[found->second] = l;
        return true;
    }

    // dst[...] = fold of a along vars, an axis a statement.
    void fold(ExprId r, const Expr& x, BufferId a, BufferId condition, const std::vector<VarId>& vars,
              std::vector<Stmt>& out) {
        const std::string name(math::name(x.reduce));
        for (size_t i = 0; i < vars.size(); ++i) {
            std::vector<VarId> kept = math_.free_vars(r);
            for (size_t j = i + 1; j < vars.size(); ++j) kept.push_back(vars[j]);
            const BufferId b = buffer(name, r, x.dtype, box_of(kept));
            const Stmt s{.kind = StmtKind::Reduce, .dst = b, .a = a, .b = condition, .op = x.reduce, .var = vars[i]};
            if (i + 1 == vars.size())
                add(out, s);
            else
                out.push_back(s);
            a = b;
            condition = kNoBuffer;
        }
    }

    void scan_along(uint32_t index, const std::string& name, std::vector<Stmt>& out) {
        const Equation& q = math_.equations[index];
        const Expr x = math_.expr(q.rhs);
        const VarId v = x.vars[0];
        const bool whole = tile_of(v) == kWhole;
        BufferId carry = kNoBuffer;
        std::vector<Stmt>* at = &out;
        if (!whole) {
            std::vector<VarId> rest = q.vars;
            std::erase(rest, v);
            carry = buffer("carry", kNone, x.dtype, box_of(rest));
            out.push_back({.kind = StmtKind::Fill, .dst = carry, .op = x.reduce});
            at = open(v, out);
        }
        const BufferId body = map(name + "_term", x.args[0], *at);
        const BufferId b = buffer(name, q.rhs, x.dtype, box_of(q.vars));
        add(*at,
            {.kind = StmtKind::Scan, .dst = b, .a = body, .b = carry, .op = x.reduce, .var = v, .equation = index});
        add(*at, {.kind = StmtKind::Store, .a = b, .equation = index});
    }

    void contraction(Nest& out) {
        const schedule::Contraction& c = *nest_->contraction;
        const schedule::ContractPlan& plan = plan_->contract;
        for (VarId v : c.batch) out.grid.push_back({v, 1});
        out.grid.push_back({c.m.back(), plan.mt});  // the flattened rows and columns, named by their last index
        out.grid.push_back({c.n.back(), plan.nt});
        const auto box = [](const std::vector<VarId>& a, int64_t m, const std::vector<VarId>& b, int64_t n) {
            std::vector<Extent> r;
            for (VarId v : a) r.push_back({v, m});
            for (VarId v : b) r.push_back({v, n});
            return r;
        };
        const uint32_t index = nest_->equations[0];
        const Equation& q = math_.equations[index];
        const BufferId acc =
            buffer("acc", c.reduce, accumulate_type(math_.expr(c.reduce).dtype), box(c.m, plan.mt, c.n, plan.nt));
        const BufferId a = buffer("a", c.a, math_.expr(c.a).dtype, box(c.m, plan.mt, c.k, plan.kc));
        const BufferId b = buffer("b", c.b, math_.expr(c.b).dtype, box(c.k, plan.kc, c.n, plan.nt));
        add(out.body, {.kind = StmtKind::Fill, .dst = acc});
        Stmt loop{.kind = StmtKind::For, .var = c.k.back(), .tile = plan.kc, .lane = true};
        loop.body.push_back({.kind = StmtKind::Load, .dst = a});
        loop.body.push_back({.kind = StmtKind::Load, .dst = b});
        loop.body.push_back({.kind = StmtKind::Contract, .dst = acc, .a = a, .b = b, .equation = index});
        out.body.push_back(std::move(loop));
        add(out.body, {.kind = StmtKind::Reduce, .dst = acc});
        // The epilogue, at every point of the block; its loads carry the groups they depend on.
        std::vector<bool> seen(math_.expr_count());
        epilogue_loads(q.rhs, out.body, seen, plan);
        const BufferId value =
            buffer(math_.tensors[q.lhs].name, q.rhs, math_.expr(q.rhs).dtype, box(c.m, plan.mt, c.n, plan.nt));
        add(out.body, {.kind = StmtKind::Map, .dst = value});
        add(out.body, {.kind = StmtKind::Store, .a = value, .equation = index});
    }
    void epilogue_loads(ExprId e, std::vector<Stmt>& out, std::vector<bool>& seen, const schedule::ContractPlan& plan) {
        if (seen[e]) return;
        seen[e] = true;
        if (held_.find(p_, e) != kNoBuffer) return;
        const Expr& x = math_.expr(e);
        for (ExprId a : x.args) epilogue_loads(a, out, seen, plan);
        if (x.kind != ExprKind::Load) return;
        const schedule::Contraction& c = *nest_->contraction;
        std::vector<Extent> box;
        for (VarId v : math_.free_vars(e))
            if (has(c.m, v) || has(c.n, v)) box.push_back({v, has(c.m, v) ? plan.mt : plan.nt});
        const BufferId b = buffer(math_.tensors[x.ref].name, e, x.dtype, std::move(box));
        add(out, {.kind = data_dependent(x) ? StmtKind::Gather : StmtKind::Load, .dst = b});
    }

    Program p_;
    const math::Program& math_;
    const schedule::Nest* nest_ = nullptr;
    const NestPlan* plan_ = nullptr;
    Held held_;
    std::vector<Rescale> pairs_;  // of this nest
    struct Lanes {
        BufferId first, second;
        VarId var;
        uint32_t pair;
    };
    std::map<ExprId, Lanes> lanes_;  // of second folds whose walk is done
};
}  // namespace

void Held::after(const Program& p, const Stmt& s) {
    const auto put = [](auto& list, auto key, BufferId b) {
        for (auto& [k, v] : list)
            if (k == key) {
                v = b;
                return;
            }
        list.emplace_back(key, b);
    };
    switch (s.kind) {
        case StmtKind::Load:
        case StmtKind::Gather:
        case StmtKind::Map:
        case StmtKind::Reduce:
        case StmtKind::ReducePair:
        case StmtKind::Scan:
            if (s.dst != kNoBuffer && p.buffers[s.dst].value != kNone) put(values_, p.buffers[s.dst].value, s.dst);
            return;
        case StmtKind::Store: put(tensors_, p.kernel.program.equations[s.equation].lhs, s.a); return;
        case StmtKind::For:
        case StmtKind::Fill:
        case StmtKind::Accumulate:
        case StmtKind::AccumulatePair:
        case StmtKind::Contract:
        case StmtKind::ScatterReduce: return;
    }
}

BufferId Held::find(const Program& p, ExprId e) const {
    for (const auto& [k, b] : values_)
        if (k == e) return b;
    const Expr& x = p.kernel.program.expr(e);
    if (x.kind == ExprKind::Load)
        for (const auto& [t, b] : tensors_)
            if (t == x.ref) return b;
    return kNoBuffer;
}

Result<Program> apply_blocks(schedule::Kernel kernel, schedule::Schedule schedule) {
    return BlockApplier(std::move(kernel), std::move(schedule)).run();
}

}  // namespace opwright::tile
