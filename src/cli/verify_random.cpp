// opwright verify random, random-models: operators and models that nobody thought of.
#include <fmt/format.h>

#include <filesystem>

#include "cli/verify_operator.h"
#include "io/file.h"
#include "verify/random_check.h"
#include "verify/random_model_check.h"

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

Result<json> verify_random_models(const VerifyFlags& f, std::string& text) {
    if (!f.against.empty())
        return Diagnostic("Random models can't be verified with --against: they are compared with the reference, and fused with unfused.",
                          {}, "Save one with --save FILE.onnx, and verify that against what you like.");
    CompileOptions o = f.execution.options();
    OPW_CHECK(f.on.apply(o));
    const verify::RandomModelReport r = verify::check_random_models(verify::model_options(o), f.data.seed, f.count);
    json failures = json::array();
    for (const verify::RandomModelFailure& x : r.failures) {
        text += fmt::format("seed {}: {}\nsmallest: {}\n{}\n", x.seed, x.wrong, x.smallest_wrong, verify::described(x.smallest.bytes));
        failures.push_back({{"seed", x.seed}, {"text", x.wrong}, {"smallest", verify::described(x.smallest.bytes)}});
    }
    text += fmt::format("on {}, seeds {} to {}: {}", f.on.target, f.data.seed, f.data.seed + r.models - (r.models ? 1 : 0), r.str());
    if (!r.failures.empty()) {
        const std::string wanted = f.save.empty() ? fmt::format("random-model-{}.onnx", r.failures[0].seed) : f.save;
        std::string file = wanted;
        for (int i = 2; std::filesystem::exists(file); ++i) file = fmt::format("{}.{}", wanted, i);
        OPW_CHECK(io::write_file(file, r.failures[0].smallest.bytes));
        text += fmt::format("next: `opwright verify random-models --seed {} --count 1` runs the first of them again; {} is the smallest form of it\n",
                            r.failures[0].seed, file);
    }
    return json{{"target", "random-models"}, {"on", f.on.target},    {"passed", r.failures.empty()}, {"models", r.models},
                {"runs", r.all.runs},        {"seed", f.data.seed},  {"failures", failures},         {"refused", r.reasons}};
}

}  // namespace opwright::cli
