// Operators under test: on Opwright's targets, or somebody else's kernel for the same declaration. Private to the
// command.
#pragma once
#include <nlohmann/json.hpp>

#include "cli/subject.h"
#include "verify/finding.h"
#include "verify/operator.h"

namespace opwright::cli {

struct VerifyFlags {
    std::vector<std::string> targets;
    std::string op, against, replay, save, kernel, schedule;
    TargetFlags on;
    double time_limit = 30;
    uint64_t count = 100;  // of random operators or models
    bool cross = false, json = false;
    DataFlags data;
    ExecutionFlags execution;
};

// A subject and what it is called in reports.
struct UnderTest {
    std::string name;  // "cpu (avx2)", "kernel.py:softmax"
    verify::CompileFor subject;
    verify::Compile target;  // of Opwright; null for somebody else's kernel
    verify::Compile beside;  // what is run on the same cases, for its error; null: nothing
    std::string beside_name;
    bool slow = false;           // an interpreter: smaller cases
};
// By --against, or else by --target. Errors: what is missing of it on this machine.
Result<UnderTest> under_test(const VerifyFlags& f, const lang::Library& library, const std::string& op,
                             std::shared_ptr<runtime::ThreadPool> pool);

// `text` gets what a person reads. A failing case is made small, and written to a file that replays it.
Result<nlohmann::json> verify_operators(const std::string& target, const VerifyFlags& f, std::string& text);
// A failing case as a person reads it, with the file that replays it. `declaration` is the source text of its file,
// empty for the library.
nlohmann::json report_failure(const verify::Failure& x, const UnderTest& u, const VerifyFlags& f,
                              const std::string& declaration, std::string& text);

// --kernel: one kernel of a model, at sizes and values of its own.
Result<nlohmann::json> verify_kernel(const std::string& path, const VerifyFlags& f, std::string& text);
// --schedule: the kernel of one operator that this schedule makes, at sizes around its tiles.
Result<nlohmann::json> verify_schedule(const std::string& target, const VerifyFlags& f, std::string& text);
// A model, --against another one or another engine.
Result<nlohmann::json> verify_models(const std::string& path, const VerifyFlags& f, std::string& text);
// In place of a declaration: operators made from seeds.
inline constexpr const char* kRandom = "random";
Result<nlohmann::json> verify_random(const VerifyFlags& f, std::string& text);
// Models made from seeds, fused and not.
inline constexpr const char* kRandomModels = "random-models";
Result<nlohmann::json> verify_random_models(const VerifyFlags& f, std::string& text);
// --replay.
Result<nlohmann::json> verify_replay(const VerifyFlags& f, std::string& text);

}  // namespace opwright::cli
