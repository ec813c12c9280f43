#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "schedule/schedule.h"

namespace opwright::schedule {
using namespace math;

namespace {

bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

constexpr int64_t kSideStep = 16;  // of an axis beside the contiguous one

struct Access {
    TensorId tensor;
    std::vector<ExprId> at;
    bool write;
};

// Element stride along v; nullopt where the place is data.
std::optional<Sym> stride(const Program& p, const Access& a, VarId v) {
    const auto& shape = p.tensors[a.tensor].shape;
    Sym r = 0, step = 1;
    for (size_t d = shape.size(); d-- > 0;) {
        if (const auto f = affine(p, a.at[d]))
            r = r + f->coefficient(v) * step;
        else if (has(p.free_vars(a.at[d]), v))
            return std::nullopt;
        step = step * shape[d];
    }
    return r;
}

class Chooser {
public:
    Chooser(const Kernel& k, const Nest& nest, const BlockLimits& limits, bool whole)
        : p_(k.program), nest_(nest), limits_(limits), whole_(whole) {
        const std::set<TensorId> local(nest.local.begin(), nest.local.end());
        for (uint32_t i : nest.equations) {
            const Equation& q = p_.equations[i];
            for (VarId v : q.vars) note(v);
            if (!local.count(q.lhs)) accesses_.push_back({q.lhs, q.at, true});
            std::vector<bool> seen(p_.expr_count());
            std::vector<ExprId> stack = q.at;
            stack.push_back(q.rhs);
            while (!stack.empty()) {
                const Expr& x = p_.expr(stack.back());
                const ExprId id = stack.back();
                stack.pop_back();
                if (seen[id]) continue;
                seen[id] = true;
                if (x.kind == ExprKind::Reduce || x.kind == ExprKind::Scan)
                    for (VarId v : x.vars) note(v);
                if (x.kind == ExprKind::Load && !local.count(x.ref)) {
                    const auto rank = static_cast<long>(p_.tensors[x.ref].shape.size());
                    accesses_.push_back({x.ref, {x.args.begin(), x.args.begin() + rank}, false});
                }
                stack.insert(stack.end(), x.args.begin(), x.args.end());
            }
        }
    }

    void choose(NestPlan& plan) {
        std::vector<VarId> axes = held();
        const bool rows_held = !axes.empty();
        if (!rows_held) {
            const VarId first = best([](VarId) { return true; });
            if (first == kNone) return;  // one point
            axes.push_back(first);
        }
        if (static_cast<int>(axes.size()) < limits_.max_axes) {
            const VarId second = companion(axes);
            if (second != kNone) axes.push_back(second);
        }
        std::stable_sort(axes.begin(), axes.end(), [&](VarId a, VarId b) { return score(a) < score(b); });
        const bool row_first = !in_grid(axes.back());
        for (VarId v : axes) {
            const bool whole = whole_ && !in_grid(v) && (rows_held || v == axes.back());
            const int64_t step = v == axes.back() ? limits_.loop_elements : kSideStep;
            plan.blocks.push_back({v, whole ? kWhole : in_grid(v) ? limits_.map_elements : step});
        }
        plan.elements = row_first || rows_held ? limits_.loop_elements : limits_.map_elements;
        if (limits_.turned > 0 && axes.size() == 2 && in_grid(axes[0]) && in_grid(axes[1]) && turned(axes)) {
            plan.blocks.back().tile = limits_.turned;  // the other takes what a short one leaves
            plan.elements = limits_.turned * limits_.turned;
        }
    }

private:
    void note(VarId v) {
        if (!has(all_, v)) all_.push_back(v);
    }
    bool usable(VarId v) const { return p_.vars[v].extent.upper() > 1; }
    bool in_grid(VarId v) const { return has(nest_.grid, v); }

    // Row variables of the nest's temporaries: a buffer holds these whole.
    std::vector<VarId> held() const {
        std::vector<VarId> r;
        for (uint32_t i : nest_.equations) {
            const Equation& q = p_.equations[i];
            if (!has(nest_.local, q.lhs)) continue;
            for (VarId v : q.vars)
                if (!in_grid(v) && !has(r, v)) r.push_back(v);
        }
        return r;
    }

    // What lies side by side along one axis in one tensor does so along the other in another, as in a transpose.
    bool turned(const std::vector<VarId>& axes) const {
        const auto along = [&](VarId v, VarId other) {
            return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& a) {
                const auto s = stride(p_, a, v), across = stride(p_, a, other);
                return s && across && s->is(1) && !across->is(0);
            });
        };
        return along(axes[0], axes[1]) && along(axes[1], axes[0]);
    }

    // The axis that goes beside `axes`: one that is contiguous where these are not (a transpose), else the rows that a
    // reduction folds, else neighbours in the grid, for rows too short to fill a block.
    VarId companion(const std::vector<VarId>& axes) const {
        const auto free = [&](VarId v) { return usable(v) && !has(axes, v); };
        for (const Access& a : accesses_)
            for (VarId v : all_)
                if (free(v) && in_grid(v))
                    if (const auto s = stride(p_, a, v); s && s->is(1)) return v;
        if (in_grid(axes.back())) {
            const VarId row =
                best([&](VarId v) { return free(v) && !in_grid(v) && p_.vars[v].extent.upper() >= kSideStep; });
            if (row != kNone) return row;
        }
        for (auto g = nest_.grid.rbegin(); g != nest_.grid.rend(); ++g)
            if (free(*g)) return *g;
        return kNone;
    }

    int score(VarId v) const {
        int s = 0;
        for (const Access& a : accesses_) {
            const auto d = stride(p_, a, v);
            const int weight = a.write ? 5 : 4;
            s += !d ? -1 : d->is(1) ? weight : d->is(0) ? 0 : -2;
        }
        const int64_t extent = p_.vars[v].extent.upper();
        if (extent <= 1) return -1000;
        if (extent < 16) s -= 8;  // windows and the like are loops
        return s;
    }
    template <class Allowed>
    VarId best(const Allowed& allowed) const {
        VarId r = kNone;
        int most = -999;
        for (VarId v : all_)
            if (allowed(v) && score(v) >= most) {  // later ones are further in: they win ties
                most = score(v);
                r = v;
            }
        return r;
    }

    const Program& p_;
    const Nest& nest_;
    const BlockLimits& limits_;
    bool whole_;
    std::vector<VarId> all_;
    std::vector<Access> accesses_;
};
}  // namespace

Schedule default_block_schedule(const Kernel& k, const BlockLimits& limits, bool whole) {
    Schedule s;
    for (const Nest& nest : k.nests) {
        NestPlan plan;
        plan.grid_tile.assign(nest.grid.size(), 1);
        if (!s.summary.empty()) s.summary += "; ";
        if (nest.contraction) {
            plan.contract = {.mt = limits.mt, .nt = limits.nt};
            plan.contract.kc = limits.kc;
            s.summary += fmt::format("contraction in blocks of {} x {} x {}", limits.mt, limits.nt, limits.kc);
        } else {
            Chooser(k, nest, limits, whole).choose(plan);
            std::string axes;
            for (const BlockAxis& a : plan.blocks) {
                const auto g = std::find(nest.grid.begin(), nest.grid.end(), a.var);
                if (g != nest.grid.end()) plan.grid_tile[static_cast<size_t>(g - nest.grid.begin())] = a.tile;
                axes += fmt::format("{}{}{}", axes.empty() ? "" : " x ", k.program.vars[a.var].name,
                                    a.tile == kWhole ? " whole" : fmt::format(" by {}", a.tile));
            }
            s.summary += fmt::format("{} equation{}, {}", nest.equations.size(), nest.equations.size() == 1 ? "" : "s",
                                     axes.empty() ? "one point a task" : "block of " + axes);
        }
        s.nests.push_back(std::move(plan));
    }
    return s;
}

}  // namespace opwright::schedule
