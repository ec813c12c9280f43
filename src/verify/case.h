// One case: values in memory of some layout, the subject, the reference, the comparison.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "verify/compare.h"
#include "verify/guarded.h"
#include "verify/inputs.h"
#include "verify/subject.h"

namespace opwright::verify {

struct Case {
    math::SymValues sizes;
    std::vector<Tensor> inputs;         // as the reference gets them
    std::vector<Layout> layouts;        // of each input; empty: all misaligned
    Pattern pattern = Pattern::Random;  // how the values came about
    uint64_t seed = 0;

    Layout layout(size_t input) const { return input < layouts.size() ? layouts[input] : Layout::Misaligned; }
};

enum class Outcome : uint8_t {
    Compared,       // `verdict` says how
    CompileFailed,  // the target refused the Program
    RunFailed,      // the kernel reported an error where the reference has none
    WroteOutside,   // guard bytes around an output changed
    ChangedInput,
    MissedError,  // the reference reports an error and the kernel does not
    Crashed,      // the subject ended or hung
};
std::string_view name(Outcome o);  // "wrong result", "compilation failed", ...

struct CaseReport {
    std::string arguments;  // "x = f32[2,3], w = f32[4,3]; stride = 2"
    math::SymValues sizes;
    Pattern pattern = Pattern::Random;
    uint64_t seed = 0;
    std::vector<Layout> layouts;
    Outcome outcome = Outcome::Compared;
    Verdict verdict = Verdict::Equal;  // the gravest of the outputs
    std::string message;               // what went wrong, or the numbers
    int64_t elements = 0;              // of inputs and outputs: how small the case is
    double max_abs = 0, max_rel = 0, max_share = 0, max_ulp = 0;
    std::string where;      // of max_ulp: "y[0, 3]"
    std::string condition;  // of the first ill-conditioned element
    // Of a wrong result.
    size_t output = 0;  // which
    std::optional<BadElement> first_bad;
    int64_t wrong_elements = 0, output_elements = 0;

    bool passed() const { return outcome == Outcome::Compared && verdict != Verdict::Wrong; }
};

// "x = f32[2,3], w = f32[4,3]".
std::string arguments_text(const math::Program& p, const math::SymValues& sizes);
// A diagnostic's message and notes in one line.
std::string one_line(const Diagnostic& d);

// What the subject delivered, for those who look closer than run_case.
struct Delivery {
    std::vector<Guarded> inputs, outputs;
    Status status = ok_status();
};
// Runs the subject alone: inputs laid out, outputs poisoned; `prepare` may change the memory before.
Result<Delivery> deliver(const math::Program& p, const Compiled& subject, const Case& c,
                         const std::function<void(Delivery&)>& prepare = nullptr);

CaseReport run_case(const math::Program& p, const Compiled& subject, const Case& c);

}  // namespace opwright::verify
