// Random operators on a target.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verify/check.h"

namespace opwright::verify {

struct RandomFailure {
    uint64_t seed = 0;        // random_program(seed) and its check again
    std::string declaration;  // or the equations, where it can't be written as one
    Report report;
};
struct RandomReport {
    Report all;
    uint64_t programs = 0;  // that were checked
    std::vector<RandomFailure> failures;
};

// What to check for a seed; nothing: left out.
using MakeProgram = std::function<std::optional<math::Program>(uint64_t seed)>;

// The operators of `count` seeds from `first` on, each at a few sizes and values that its seed chooses. Stops after
// `most` failing ones.
RandomReport check_random(const Compile& target, uint64_t first, uint64_t count, size_t most, const MakeProgram& make);
// random_program(seed).
RandomReport check_random(const Compile& target, uint64_t first, uint64_t count, size_t most = 10);

// The sizes and values of a seed's check.
CheckOptions random_options(uint64_t seed);
math::SymValues random_base(uint64_t seed);
std::string described(const math::Program& p);  // its declaration, or its equations

}  // namespace opwright::verify
