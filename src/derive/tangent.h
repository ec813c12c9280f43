// Forward-mode derivatives of a Program, as a Program. Conventions as for gradients (docs/gradients.md).
#pragma once
#include <vector>

#include "base/result.h"
#include "math/program.h"

namespace opwright::derive {

// The derivative of an operator along a direction. Its inputs are those of the operator that it needs, in their order,
// and one tangent (named d + the input's name) for each input asked for that matters; its outputs are the tangents of
// the float outputs (0 where they do not depend on the inputs asked for).
struct Tangent {
    math::Program program;
    std::vector<size_t> inputs;    // positions among the operator's inputs
    std::vector<size_t> tangents;  // positions among the operator's inputs
    std::vector<size_t> outputs;   // positions among the operator's outputs
};

// `wrt` and errors as for gradient().
Result<Tangent> tangent(const math::Program& p, std::vector<size_t> wrt = {});

}  // namespace opwright::derive
