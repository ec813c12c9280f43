// opwright verify --replay: one case from a file, run again.
#include <fmt/format.h>

#include "cli/verify_operator.h"
#include "io/file.h"
#include "runtime/thread_pool.h"
#include "verify/diagnose.h"
#include "verify/replay.h"

namespace opwright::cli {
using nlohmann::json;

namespace {
constexpr uint64_t kMaxBytes = uint64_t{1} << 28;
}

Result<json> verify_replay(const VerifyFlags& given, std::string& text) {
    OPW_TRY(const std::string bytes, io::read_file(given.replay, kMaxBytes));
    OPW_TRY(const verify::Replay r, verify::read_replay(bytes));
    VerifyFlags f = given;
    // A file may come from anybody: it never makes this process load code that the person has not named.
    if (!r.against.empty() && f.against.empty())
        return Diagnostic(fmt::format("'{}' was found in {}, which is code that a replay file may not load by itself.",
                                      given.replay, r.against),
                          {},
                          fmt::format("Name it: opwright verify --replay {} --against {}.", given.replay, r.against));
    f.on.target = r.target;
    if (r.vector == "baseline" || r.vector == "avx2" || r.vector == "avx512") f.execution.vector = r.vector;
    OPW_TRY(const verify::Rebuilt case_, verify::rebuild(r));
    auto pool = f.execution.pool();
    OPW_TRY(const UnderTest u, under_test(f, *case_.library, r.origin.op, pool));
    const lang::Example example{.attributes = case_.attributes};
    OPW_TRY(const verify::Compiled subject, u.subject(example)(*case_.program));
    const verify::Failure x{case_.program, subject, case_.c, verify::run_case(*case_.program, subject, case_.c), {},
                            r.origin};
    const bool passed = x.report.passed();
    text += fmt::format("{} on {}: {}\n", r.origin.op, u.name, passed ? "the case passes" : "the case FAILS");
    verify::Finding finding{x, x.report.arguments, 0, true, {}, {}, {}, {}};
    if (!passed) {
        finding.evidence = verify::diagnose(x);
        if (u.target) finding.stages = verify::compare_stages(*case_.program, u.target, x.c);
    }
    text += verify::text(finding);
    text += fmt::format("  {:<11}{}\n", "recorded", r.found);
    return json{{"target", given.replay}, {"operator", r.origin.op},         {"on", u.name},
                {"passed", passed},       {"arguments", x.report.arguments}, {"message", x.report.message},
                {"recorded", r.found},    {"evidence", finding.evidence}};
}

}  // namespace opwright::cli
