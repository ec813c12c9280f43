#include "schedule/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "schedule/parts.h"
#include "schedule/portable.h"
#include "schedule/window.h"

namespace opwright::schedule {
using namespace math;

namespace {

class Generator {
public:
    Generator(const Kernel& k, const target::Machine& m, const Schedule& base, const SymValues& sizes)
        : k_(k), m_(m), base_(base), sizes_(sizes) {}

    std::vector<Candidate> run() {
        keep(base_, "");
        for (size_t i = 0; i < k_.nests.size(); ++i) {
            nest_ = i;
            if (k_.nests[i].contraction) {
                register_tiles();
                cache_tiles();
            } else {
                lanes();
                unrolling();
                tasks();
            }
        }
        return std::move(found_);
    }

private:
    void keep(const Schedule& s, const std::string& words) {
        if (!seen_.insert(to_portable(s, k_)).second) return;
        const std::string where = k_.nests.size() > 1 && !words.empty() ? fmt::format(" in nest {}", nest_) : "";
        found_.push_back({s, words + where});
    }
    // The base with this nest's plan changed.
    template <class Change>
    void vary(const std::string& words, Change&& change) {
        Schedule s = base_;
        if (change(s.nests[nest_])) keep(s, words);
    }
    int64_t extent(VarId v) const { return std::max<int64_t>(1, evaluate(k_.program.vars[v].extent, sizes_).value_or(1)); }
    int64_t extent(const std::vector<VarId>& vs) const {
        int64_t n = 1;
        for (VarId v : vs) n *= extent(v);
        return n;
    }

    // ---- contractions

    // Another register tile, cache tiles rounded to it.
    static void retile(ContractPlan& c, int mr, int nv) {
        const int64_t nr = static_cast<int64_t>(nv) * c.lanes;
        c.mr = mr;
        c.nv = nv;
        c.mt = (c.mt + mr - 1) / mr * mr;
        c.nt = (c.nt + nr - 1) / nr * nr;
    }
    // For each number of vectors that fits, the most rows and the fewest that leave as little of a tile empty.
    void register_tiles() {
        const ContractPlan& base = base_.nests[nest_].contract;
        if (base.tiles) return;  // of four registers' sums, which is all there are beside the factors
        const int64_t rows = extent(k_.nests[nest_].contraction->m), columns = extent(k_.nests[nest_].contraction->n);
        for (int nv = 1; nv <= 4; ++nv) {
            if (static_cast<int64_t>(nv - 1) * base.lanes >= columns) break;
            const int most = std::min<int64_t>((m_.vector_registers - 1 - nv) / nv, rows);
            std::set<int> tried;
            for (int wanted : {most, most - 1, most * 3 / 4, most / 2}) {
                if (wanted < 1) continue;
                // As many tiles as `wanted` rows take, evenly filled.
                const int64_t tiles = (rows + wanted - 1) / wanted;
                const int mr = static_cast<int>((rows + tiles - 1) / tiles);
                for (int n : {wanted, mr})
                    if (tried.insert(n).second)
                        vary(fmt::format("register tile {}x{}", n, nv * base.lanes), [&](NestPlan& p) {
                            retile(p.contract, n, nv);
                            return n >= 1;
                        });
            }
        }
    }
    void cache_tiles() {
        const ContractPlan& base = base_.nests[nest_].contract;
        if (from_windows(base)) return;  // sizes of slabs follow from the extents
        const int64_t depth = extent(k_.nests[nest_].contraction->k);
        for (int64_t blocks = 1; blocks <= 8; ++blocks) {
            const int64_t kc = ((depth + blocks - 1) / blocks + base.parts - 1) / base.parts * base.parts;
            if (kc < 64 && blocks > 1) break;
            if (kc <= 2048 * base.parts && kc >= 1)
                vary(fmt::format("depth {}", kc), [&](NestPlan& p) { return p.contract.kc = kc, true; });
        }
        const auto times = [](int64_t v, double f, int64_t unit) {
            return std::max<int64_t>(unit, (static_cast<int64_t>(static_cast<double>(v) * f) + unit - 1) / unit * unit);
        };
        for (double f : {0.25, 0.5, 2.0, 4.0}) {
            const int64_t mt = times(base.mt, f, base.mr), nt = times(base.nt, f, static_cast<int64_t>(base.nv) * base.lanes);
            vary(fmt::format("{} rows a task", mt), [&](NestPlan& p) { return p.contract.mt = mt, true; });
            vary(fmt::format("{} columns a task", nt), [&](NestPlan& p) { return p.contract.nt = nt, true; });
        }
    }

    // ---- maps and reductions

    const Equation& equation(size_t j) const { return k_.program.equations[k_.nests[nest_].equations[j]]; }
    const std::string& name(VarId v) const { return k_.program.vars[v].name; }
    // The reductions of an equation.
    std::vector<ExprId> reductions(const Equation& q) const {
        std::vector<ExprId> found, stack{q.rhs};
        std::vector<bool> seen(k_.program.expr_count());
        while (!stack.empty()) {
            const ExprId e = stack.back();
            stack.pop_back();
            if (seen[e]) continue;
            seen[e] = true;
            if (k_.program.expr(e).kind == ExprKind::Reduce) found.push_back(e);
            for (ExprId a : k_.program.expr(e).args) stack.push_back(a);
        }
        return found;
    }
    int machine_lanes() const {
        int most = 1;
        for (const EquationPlan& e : base_.nests[nest_].equations) most = std::max(most, e.lanes);
        return most > 1 ? most : std::max(1, m_.vector_bytes / 4);
    }

    // The index along vector lanes: the innermost one of the result, or the innermost one that is summed over.
    void lanes() {
        const Nest& nest = k_.nests[nest_];
        const NestPlan& base = base_.nests[nest_];
        if (base.equations.size() != nest.equations.size()) return;
        for (size_t j = 0; j < nest.equations.size(); ++j) {
            const Equation& q = equation(j);
            const std::vector<ExprId> sums = reductions(q);
            if (sums.empty() || q.update != Update::Set) continue;
            const VarId over = k_.program.expr(sums.front()).vars.back();
            if (!base.equations[j].lane_reduces && extent(over) > 1)
                vary(fmt::format("lanes along {}, folded", name(over)), [&](NestPlan& p) {
                    for (int64_t& t : p.grid_tile) t = 1;
                    for (EquationPlan& e : p.equations)
                        if (!e.lane_reduces) e = {};
                    p.equations[j] = {.lane = over, .lane_reduces = true, .lanes = machine_lanes(), .unroll = 4};
                    return true;
                });
            if (base.equations[j].lane_reduces && nest.equations.size() == 1 && !q.vars.empty() && extent(q.vars.back()) > 1)
                vary(fmt::format("lanes along {}", name(q.vars.back())), [&](NestPlan& p) {
                    p.equations[j] = {.lane = q.vars.back(), .lanes = machine_lanes(), .unroll = 1};
                    if (!p.grid_tile.empty() && !nest.grid.empty() && nest.grid.back() == q.vars.back())
                        p.grid_tile.back() = std::min<int64_t>(512, std::max<int64_t>(extent(q.vars.back()), machine_lanes()));
                    return true;
                });
        }
        vary(fmt::format("half the lanes"), [&](NestPlan& p) {
            for (EquationPlan& e : p.equations) {
                if (e.lanes <= 2) return false;
                e.lanes /= 2;
            }
            return !p.equations.empty();
        });
    }

    void unrolling() {
        const NestPlan& base = base_.nests[nest_];
        for (int n : {1, 2, 4, 8})
            vary(fmt::format("unrolled {} times", n), [&](NestPlan& p) {
                bool any = false;
                for (EquationPlan& e : p.equations) {
                    if (e.lanes <= 1 || e.rows > 0) continue;
                    any |= e.unroll != n;
                    e.unroll = n;
                }
                return any;
            });
        const bool across = std::any_of(base.equations.begin(), base.equations.end(), [](auto& e) { return e.rows > 0; });
        if (!across) return;
        for (int n : {4, 16})
            vary(fmt::format("{} rows at a time", n), [&](NestPlan& p) {
                for (EquationPlan& e : p.equations)
                    if (e.rows > 0) e.rows = n;
                return true;
            });
        vary("column by column", [&](NestPlan& p) {
            for (EquationPlan& e : p.equations)
                if (e.rows > 0) e.rows = 0, e.unroll = 4;
            return true;
        });
    }

    // Points of one task. At least a vector and all that is unrolled.
    void tasks() {
        const NestPlan& base = base_.nests[nest_];
        if (base.grid_tile.empty() || base.grid_tile.back() <= 1) return;
        int64_t least = 1;
        for (const EquationPlan& e : base.equations) least = std::max<int64_t>(least, static_cast<int64_t>(e.lanes) * e.unroll);
        const int64_t most = extent(k_.nests[nest_].grid.back());
        for (double f : {0.125, 0.25, 0.5, 2.0, 4.0, 16.0}) {
            const auto n = static_cast<int64_t>(static_cast<double>(base.grid_tile.back()) * f) / least * least;
            if (n < least || (f > 1 && base.grid_tile.back() >= most)) continue;
            vary(fmt::format("{} points a task", n), [&](NestPlan& p) { return p.grid_tile.back() = n, true; });
        }
        for (size_t g = 0; g + 1 < base.grid_tile.size(); ++g)
            if (base.grid_tile[g] > 1)
                for (int64_t n : {base.grid_tile[g] / 2, base.grid_tile[g] * 2})
                    vary(fmt::format("blocks of {} along {}", n, name(k_.nests[nest_].grid[g])),
                         [&](NestPlan& p) { return p.grid_tile[g] = n, true; });
    }

    const Kernel& k_;
    const target::Machine& m_;
    const Schedule& base_;
    const SymValues& sizes_;
    size_t nest_ = 0;
    std::vector<Candidate> found_;
    std::set<std::string> seen_;
};

bool same(const EquationPlan& a, const EquationPlan& b) {
    return a.lane == b.lane && a.lane_reduces == b.lane_reduces && a.lanes == b.lanes && a.unroll == b.unroll &&
           a.lane_first == b.lane_first && a.rows == b.rows;
}
bool same(const NestPlan& a, const NestPlan& b) {
    const ContractPlan &x = a.contract, &y = b.contract;
    return a.grid_tile == b.grid_tile && x.mr == y.mr && x.nv == y.nv && x.lanes == y.lanes && x.kc == y.kc && x.mt == y.mt &&
           x.nt == y.nt && x.parts == y.parts && x.tiles == y.tiles &&
           std::equal(a.equations.begin(), a.equations.end(), b.equations.begin(), b.equations.end(),
                      [](const EquationPlan& p, const EquationPlan& q) { return same(p, q); });
}
}  // namespace

std::vector<Candidate> cpu_candidates(const Kernel& k, const target::Machine& m, const Schedule& base, const SymValues& sizes) {
    return Generator(k, m, base, sizes).run();
}

std::optional<Candidate> combine(const Schedule& base, const Candidate& a, const Candidate& b) {
    Candidate r{a.schedule, a.words + ", " + b.words};
    bool any = false;
    for (size_t i = 0; i < base.nests.size(); ++i) {
        const bool in_a = !same(base.nests[i], a.schedule.nests[i]), in_b = !same(base.nests[i], b.schedule.nests[i]);
        if (in_a && in_b) return std::nullopt;
        if (!in_b) continue;
        r.schedule.nests[i] = b.schedule.nests[i];
        any = true;
    }
    if (!any) return std::nullopt;
    return r;
}

std::string summary(const Schedule& s, const Kernel& k) {
    std::string r;
    for (size_t i = 0; i < s.nests.size(); ++i) {
        const NestPlan& plan = s.nests[i];
        if (!r.empty()) r += "; ";
        if (k.nests[i].contraction) {
            const ContractPlan& c = plan.contract;
            if (from_windows(c))
                r += fmt::format("contraction over windows {}x{} lanes {}", c.mr, c.nv * c.lanes, c.lanes);
            else
                r += fmt::format("packed contraction {}x{} lanes {} depth {}{}", c.mr, c.nv * c.lanes, c.lanes, c.kc,
                                 parts_text(c.parts, c.tiles));
            continue;
        }
        std::string how = "scalar";
        for (const EquationPlan& e : plan.equations)
            if (e.lane != kNone && (how == "scalar" || e.lanes > 1))
                how = fmt::format("{} lanes along {}{}, unrolled {} times", e.lanes, k.program.vars[e.lane].name,
                                  e.lane_reduces ? " (folded)" : e.rows ? " across rows" : "", e.unroll);
        const size_t n = k.nests[i].equations.size();
        r += fmt::format("{} equation{}, {}", n, n == 1 ? "" : "s", how);
    }
    return r;
}

}  // namespace opwright::schedule
