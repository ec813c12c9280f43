#include "schedule/together.h"

#include <algorithm>
#include <map>
#include <set>

#include "schedule/window.h"

namespace opwright::schedule {
using namespace math;

namespace {

bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

class Matcher {
public:
    explicit Matcher(const Kernel& k) : k_(k), p_(k.program) {}

    std::optional<Together> run(size_t first) {
        Together best;
        t_.first = first;
        bool contracts = false;
        for (size_t n = first; n < k_.nests.size() && fits(n); ++n) {
            contracts |= k_.nests[n].contraction.has_value();
            if (n == first || !contracts) continue;
            t_.last = n;
            t_.held = held();
            if (!t_.held.empty()) best = t_;
        }
        return best.last > first ? std::optional(best) : std::nullopt;
    }

private:
    // Whether nest n works on the same rows as those before, which are known from the first contraction on.
    bool fits(size_t n) {
        const Nest& nest = k_.nests[n];
        for (uint32_t e : nest.equations)
            if (p_.equations[e].update != Update::Set) return false;
        std::vector<VarId> rows = nest.grid;
        if (nest.contraction) {
            const Contraction& c = *nest.contraction;
            const Equation& q = p_.equations[nest.equations[0]];
            // What all rows share, as the weights of a linear layer, serves many of them better.
            if (c.lanewise || c.m.empty() || c.batch.empty()) return false;
            if (useful_window(p_, q, c) || useful_points(p_, q, c)) return false;
            const Sym batches = product(c.batch), m = product(c.m);
            if (!known_) {
                if (n != t_.first) return false;
                t_.batches = batches, t_.rows = m, known_ = true;
            } else if (!(batches == t_.batches) || !(m == t_.rows)) {
                return false;
            }
            for (TensorId t : p_.reads(c.b))
                if (written_.count(t)) return false;
            if (q.vars.size() != c.batch.size() + c.m.size() + c.n.size()) return false;
            rows = c.batch;
            rows.insert(rows.end(), c.m.begin(), c.m.end());
        } else if (flat(nest) || !known_ || !(product(rows) == t_.batches * t_.rows)) {
            return false;
        }
        std::erase_if(rows, [&](VarId v) { return p_.vars[v].extent.is(1); });
        for (uint32_t e : nest.equations) {
            const Equation& q = p_.equations[e];
            if (!reads_fit(q, rows)) return false;
            if (!has(nest.local, q.lhs)) written_[q.lhs] = by_rows(q.lhs, q.at.data(), rows);
        }
        return true;
    }

    // A task of such a nest is many points of its grid, which need not be one row.
    bool flat(const Nest& nest) const {
        return std::all_of(nest.equations.begin(), nest.equations.end(),
                           [&](uint32_t e) { return p_.equations[e].vars.size() == nest.grid.size(); });
    }

    bool reads_fit(const Equation& q, const std::vector<VarId>& rows) const {
        std::vector<bool> seen(p_.expr_count());
        std::vector<ExprId> stack(q.at);
        stack.push_back(q.rhs);
        while (!stack.empty()) {
            const ExprId e = stack.back();
            stack.pop_back();
            if (seen[e]) continue;
            seen[e] = true;
            const Expr& x = p_.expr(e);
            if (x.kind == ExprKind::Load)
                if (const auto w = written_.find(x.ref); w != written_.end() && !(w->second && by_rows(x.ref, x.args.data(), rows)))
                    return false;
            stack.insert(stack.end(), x.args.begin(), x.args.end());
        }
        return true;
    }

    // Whether the leading dims are the rows, one after the other.
    bool by_rows(TensorId t, const ExprId* at, const std::vector<VarId>& rows) const {
        const auto& shape = p_.tensors[t].shape;
        size_t next = 0;
        for (size_t d = 0; d < shape.size() && next < rows.size(); ++d) {
            if (shape[d].is(1)) continue;
            const Expr& x = p_.expr(at[d]);
            if (x.kind != ExprKind::Index || x.ref != rows[next] || !(p_.vars[x.ref].extent == shape[d])) return false;
            ++next;
        }
        return next == rows.size();
    }

    std::vector<TensorId> held() const {
        std::set<TensorId> elsewhere;
        for (size_t n = 0; n < k_.nests.size(); ++n) {
            if (n >= t_.first && n <= t_.last) continue;
            for (uint32_t e : k_.nests[n].equations) {
                const Equation& q = p_.equations[e];
                for (TensorId t : p_.reads(q.rhs)) elsewhere.insert(t);
                for (ExprId a : q.at)
                    for (TensorId t : p_.reads(a)) elsewhere.insert(t);
                elsewhere.insert(q.lhs);
            }
        }
        std::vector<TensorId> r;
        for (TensorId t : k_.workspace)
            if (const auto w = written_.find(t); w != written_.end() && w->second && !elsewhere.count(t)) r.push_back(t);
        return r;
    }

    Sym product(const std::vector<VarId>& vs) const {
        Sym n = 1;
        for (VarId v : vs) n = n * p_.vars[v].extent;
        return n;
    }

    const Kernel& k_;
    const Program& p_;
    Together t_;
    bool known_ = false;
    std::map<TensorId, bool> written_;  // whether by rows
};
}  // namespace

std::optional<Together> match_together(const Kernel& k, size_t first) {
    if (!k.nests[first].contraction) return std::nullopt;
    return Matcher(k).run(first);
}

int64_t default_rows_together(const Kernel& k, const Together& t, Schedule& s) {
    // Some register tiles, so that a factor's panels serve several, and so few that rows of a thousand elements stay in
    // the second cache.
    constexpr int64_t kRows = 48;
    int mr = 0;
    for (size_t n = t.first; n <= t.last; ++n) {
        if (!k.nests[n].contraction) {
            const auto& tiles = s.nests[n].grid_tile;
            if (std::any_of(tiles.begin(), tiles.end(), [](int64_t t) { return t != 1; })) return 0;
            continue;
        }
        const ContractPlan& c = s.nests[n].contract;
        if (from_windows(c) || c.parts > 1 || c.mr < 1) return 0;
        mr = mr ? std::min(mr, c.mr) : c.mr;
    }
    const int64_t rows = std::max<int64_t>(1, kRows / mr) * mr;
    for (size_t n = t.first; n <= t.last; ++n) {
        if (!k.nests[n].contraction) continue;
        s.nests[n].contract.mr = mr;
        s.nests[n].contract.mt = rows;
    }
    return rows;
}

}  // namespace opwright::schedule
