// The numerics contract of a Program in words: what a kernel may do, and what is demanded of it (docs/numerics.md).
#pragma once
#include <string>

#include "math/program.h"

namespace opwright::verify {

// "f32 arithmetic; sums accumulate in f32, in any order; ...", of what occurs in p.
std::string contract(const math::Program& p);

}  // namespace opwright::verify
