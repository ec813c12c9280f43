// A Program in double precision: what a test of generated source compares with.
#pragma once
#include <optional>

#include "math/program.h"

namespace opwright::math {

// The same program with f64 in place of every float type; what was rounded to a narrower one is not. Tensors, variables
// and equations keep their numbers. nullopt where it takes the bits of a float, which another width has not.
std::optional<Program> widened(const Program& p);

}  // namespace opwright::math
