// Runs a target against the reference: one Program over sizes and patterns of inputs. Every output is poisoned before,
// lies between guard bytes, and starts at an address aligned to its element only; so does every input.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "verify/compare.h"
#include "verify/inputs.h"
#include "verify/sizes.h"

namespace opwright::verify {

// One compiled Program. Writes into the outputs given, which have their dtypes and shapes already.
using Compiled =
    std::function<Status(const math::SymValues&, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs)>;
// The target under test. The Program outlives what is compiled from it. An error whose message begins with "refused: "
// says what the target has no form for, one with "not run: " why it can't run here; all others are failures.
using Compile = std::function<Result<Compiled>(const math::Program&)>;

enum class Outcome : uint8_t {
    Compared,       // `verdict` says how
    CompileFailed,  // the target refused the Program
    RunFailed,      // the kernel reported an error where the reference has none
    WroteOutside,   // guard bytes around an output changed
    ChangedInput,
    MissedError,  // the reference reports an error and the kernel does not
};

struct CaseReport {
    std::string arguments;  // "x = f32[2,3], w = f32[4,3]; stride = 2"
    math::SymValues sizes;
    Pattern pattern = Pattern::Random;
    uint64_t seed = 0;
    Outcome outcome = Outcome::Compared;
    Verdict verdict = Verdict::Equal;  // the gravest of the outputs
    std::string message;               // what went wrong, or the numbers
    int64_t elements = 0;              // of inputs and outputs: how small the case is
    double max_share = 0, max_ulp = 0;

    bool passed() const { return outcome == Outcome::Compared && verdict != Verdict::Wrong; }
};

struct Report {
    std::string name;                 // of the operator
    std::map<Verdict, int> verdicts;  // of compared cases
    int cases = 0, failed = 0;
    int refused = 0, not_run = 0;                // programs that the target has no form for, or can't run here
    std::map<std::string, int> reasons;          // why, and how often
    int rejected = 0;                            // combinations of types or sizes that the declaration does not allow
    std::vector<std::string> types;              // element types that were covered
    std::optional<CaseReport> smallest_failure;  // of the fewest elements
    std::vector<CaseReport> failures;            // the first ones
    double max_share = 0, max_ulp = 0;

    bool passed() const { return failed == 0 && cases > 0; }
    void add(CaseReport c);
    void add(const Report& r);
    bool refused_all() const { return cases == 0 && refused > 0; }
    // "matmul: 312 cases passed (201 equal, 111 within tolerance, up to 2.3 ulp)", or the smallest failure.
    std::string str() const;
};

struct CheckOptions {
    SizeOptions sizes;
    std::vector<Pattern> patterns = all_patterns();
    uint64_t seed = 1;
};

// "x = f32[2,3], w = f32[4,3]".
std::string arguments_text(const math::Program& p, const math::SymValues& sizes);
// A diagnostic's message and notes in one line.
std::string one_line(const Diagnostic& d);

// One case: inputs of the pattern, the reference, the kernel, the comparison.
CaseReport check_case(const math::Program& p, const Compiled& run, const math::SymValues& sizes, Pattern pattern,
                      uint64_t seed, const std::vector<std::optional<Range>>& ranges = {});
// One Program over sizes and patterns. `base` as in edge_sizes.
Report check_program(const math::Program& p, const Compile& target, const CheckOptions& o,
                     const math::SymValues& base = {}, const std::vector<std::optional<Range>>& ranges = {});
}  // namespace opwright::verify
