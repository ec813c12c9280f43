#include "schedule/widths.h"

#include <set>

namespace opwright::schedule {

std::vector<int64_t> widths(const Schedule& s) {
    std::set<int64_t> r;
    for (const NestPlan& n : s.nests) {
        r.insert(n.grid_tile.begin(), n.grid_tile.end());
        for (const EquationPlan& e : n.equations)
            if (e.lane != math::kNone) r.insert({e.lanes, static_cast<int64_t>(e.lanes) * e.unroll});
        const ContractPlan& c = n.contract;
        r.insert({c.mr, static_cast<int64_t>(c.nv) * c.lanes, c.kc, c.mt, c.nt});
        for (const BlockAxis& b : n.blocks) r.insert(b.tile);
        r.insert(n.elements);
    }
    while (!r.empty() && *r.begin() < 2) r.erase(r.begin());
    return {r.begin(), r.end()};
}

}  // namespace opwright::schedule
