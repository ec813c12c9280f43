// Whether the check of an emitted file needs a bound on rounding errors instead of a fixed tolerance.
#pragma once
#include "math/program.h"

namespace opwright::target::triton {

// A sum of terms of both signs may cancel down to its rounding errors, and what divides by it, or takes its root or
// logarithm, shows them magnified without limit. True where p has such a place and is of a form that the class
// `_Bounded` of numpy_functions.py follows: float32 throughout, elements read in place, sums and extremes.
bool needs_bound(const math::Program& p);

}  // namespace opwright::target::triton
