// opwright verify random: operators that nobody thought of.
#include <fmt/format.h>

#include "cli/verify_operator.h"
#include "verify/random_check.h"

namespace opwright::cli {
using nlohmann::json;

Result<json> verify_random(const VerifyFlags& f, std::string& text) {
    if (!f.against.empty())
        return Diagnostic("Random operators can't be verified with --against: no kernel of yours is known for them.",
                          {}, "Name the declaration that your kernel computes.");
    auto pool = f.execution.pool();
    OPW_TRY(const UnderTest u, under_test(f, lang::Library::standard(), "", pool));
    const verify::RandomReport r = verify::check_random(u.target, f.data.seed, f.count);
    json failures = json::array();
    for (const verify::RandomFailure& x : r.failures) {
        text += fmt::format("seed {}: {}\n{}\n", x.seed, x.report.str(), x.declaration);
        failures.push_back({{"seed", x.seed}, {"declaration", x.declaration}, {"text", x.report.str()}});
    }
    text += fmt::format("{} on {}: {} of {} operators passed in {} cases (seeds {} to {})\n", r.all.name, u.name,
                        r.programs - r.failures.size(), r.programs, r.all.cases, f.data.seed,
                        f.data.seed + r.programs - (r.programs ? 1 : 0));
    if (!r.all.reasons.empty())
        for (const auto& [why, n] : r.all.reasons) text += fmt::format("{} times {}\n", n, why);
    if (!r.failures.empty())
        text += fmt::format("next: `opwright verify random --seed {} --count 1` runs the first of them again\n",
                            r.failures[0].seed);
    return json{
        {"target", "random"},   {"on", u.name},        {"passed", r.failures.empty()}, {"operators", r.programs},
        {"cases", r.all.cases}, {"seed", f.data.seed}, {"failures", failures},         {"reasons", r.all.reasons}};
}

}  // namespace opwright::cli
