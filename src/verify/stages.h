// A declaration equation by equation: which of its intermediate results is the first that a target gets wrong.
#pragma once
#include <string>
#include <vector>

#include "verify/case.h"

namespace opwright::verify {

struct Stage {
    math::TensorId tensor = math::kNone;
    std::string name;                    // of the temporary or output
    std::vector<std::string> equations;  // "e[i,j] = exp(x[i,j] - m[i])"
    std::vector<math::TensorId> reads;   // the program's tensors that are the inputs of `program`, in order
    math::Program program;               // that computes this tensor alone
};
// One stage for each tensor that p computes, in order of evaluation.
std::vector<Stage> stages(const math::Program& p);

struct StageVerdict {
    std::string name;
    std::string verdict;  // of compare(), or why there is none
    bool wrong = false;
};
struct StageReport {
    std::vector<StageVerdict> alone;  // each stage compiled by itself, on the reference's values of what it reads
    std::vector<StageVerdict> kept;   // all of them compiled as one kernel that also delivers the intermediates
    std::string summary;              // one sentence: which stage is at fault, or that only fusion shows it
};
// Of a program with one stage: only `alone`.
StageReport compare_stages(const math::Program& p, const Compile& target, const Case& c);

// The intermediate results that the element `at` of output `o` is computed from: "m[0] = 3, e[0, 2] = 0.5", those that
// are read at plain indices. For people who look for the same values in a kernel of their own.
std::string behind(const math::Program& p, const Case& c, size_t o, const Shape& at);

}  // namespace opwright::verify
