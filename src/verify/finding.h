// A failure with everything that a person wants to know of it.
#pragma once
#include "verify/shrink.h"
#include "verify/stages.h"

namespace opwright::verify {

struct Finding {
    Failure failure;                     // shrunk
    std::string before;                  // arguments of the case that was found
    int runs = 0;                        // that shrinking took
    bool smallest = false;               // shrinking came to its end
    std::vector<std::string> equations;  // of the wrong output
    std::string behind;                  // intermediate results at the first bad element
    StageReport stages;                  // of Opwright's own targets
    std::vector<std::string> evidence;   // of diagnose()
};
// `target` is null for subjects that no Program can be compiled for.
Finding investigate(const Failure& f, const Compile& target, const ShrinkOptions& o = {});

// The tensors of a case, small ones in full: "x = 1, 0, nan".
std::string values_text(const math::Program& p, const Case& c);
// "x transposed, w reversed"; empty where all are dense.
std::string layouts_text(const math::Program& p, const Case& c);

// Lines "  label      text" under a heading, for people; widths as cli wraps them.
std::string text(const Finding& f);
// What was covered, the verdicts, the errors and the contract.
std::string text(const Report& r, const std::string& subject, const std::string& beside = "");

}  // namespace opwright::verify
