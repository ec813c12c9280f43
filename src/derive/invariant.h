// Values that cancel: the maximum that a softmax subtracts.
#pragma once
#include <vector>

#include "math/program.h"

namespace opwright::derive {

// Tensors, each set by a Max or Min reduction, on which no output of p depends: where they enter, they are subtracted
// before an exponential that is later divided by a sum of such, or added again. Their gradient is exactly 0, and they
// may be taken as constant. p as `normalise` leaves it.
std::vector<bool> invariants(const math::Program& p);

}  // namespace opwright::derive
