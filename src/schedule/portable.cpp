#include "schedule/portable.h"

#include <nlohmann/json.hpp>

namespace opwright::schedule {
namespace {
constexpr int64_t kMostPanel = int64_t{1} << 24;  // elements of a tile of a contraction, or of its panels

Kernel positions_for_names(const Kernel& k) {
    Kernel r = k;
    for (size_t v = 0; v < r.program.vars.size(); ++v) r.program.vars[v].name = "i" + std::to_string(v);
    return r;
}
}  // namespace

std::string to_portable(const Schedule& s, const Kernel& k) {
    auto j = nlohmann::ordered_json::parse(to_json(s, positions_for_names(k)));
    j.erase("operator");
    for (auto& nest : j["nests"])
        if (nest.contains("equations"))
            for (auto& e : nest["equations"]) e.erase("value");
    return j.dump();
}

Result<Schedule> from_portable(const std::string& text, const Kernel& k) {
    OPW_TRY(Schedule s, from_json(text, positions_for_names(k)));
    for (const NestPlan& n : s.nests) {
        const ContractPlan& c = n.contract;
        if (c.mt * c.nt > kMostPanel || c.mt * c.kc > kMostPanel || c.nt * c.kc > kMostPanel || c.mr * c.nv > 64)
            return Diagnostic("A stored schedule has tiles larger than any that tuning makes.");
        for (const EquationPlan& e : n.equations)
            if (e.lanes * e.unroll > 256 || e.rows > 64)
                return Diagnostic("A stored schedule has more lanes than any that tuning makes.");
    }
    s.summary = "tuned";
    return s;
}

}  // namespace opwright::schedule
