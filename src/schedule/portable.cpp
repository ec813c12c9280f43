#include "schedule/portable.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace opwright::schedule {
namespace {
constexpr int64_t kMostPanel = int64_t{1} << 24;  // elements of a tile of a contraction, or of its panels

// Indices by where they first appear, results before what is summed: programs that are equal up to names may hold their
// variables in different orders.
Kernel positions_for_names(const Kernel& k) {
    Kernel r = k;
    math::Program& p = r.program;
    std::vector<bool> named(p.vars.size()), seen(p.expr_count());
    size_t next = 0;
    const auto name = [&](math::VarId v) {
        if (!named[v]) p.vars[v].name = "v" + std::to_string(next++);
        named[v] = true;
    };
    const std::function<void(math::ExprId)> walk = [&](math::ExprId e) {
        if (seen[e]) return;
        seen[e] = true;
        for (math::VarId v : p.expr(e).vars) name(v);
        for (math::ExprId a : p.expr(e).args) walk(a);
    };
    for (const math::Equation& q : p.equations) {
        for (math::VarId v : q.vars) name(v);
        walk(q.rhs);
    }
    for (math::VarId v = 0; v < p.vars.size(); ++v) name(v);
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
