// Derivatives of the scalar functions, as expressions.
#pragma once
#include "math/program.h"

namespace opwright::math {

// A value where `where` (Bool) holds and 0 elsewhere. kNone as value: 0; as condition: everywhere.
struct Scaled {
    ExprId value = kNone, where = kNone;
};

// `factor` times the partial derivative of the call `call` by its argument `i`, in the type of `factor`, which is the
// compute type of the call; 0 where the derivative is 0 everywhere (floor, sign, comparisons, ...).
// Conventions (docs/gradients.md): abs has derivative 0 at 0; a tie of max or min is shared evenly between two
// arguments, and goes to the other where that one is constant (`other_constant`); a power has derivative 0 by its base
// where the exponent is 0. Select is the caller's: its derivative is a choice, not a factor.
Scaled times_derivative(Program& p, ExprId call, size_t i, ExprId factor, bool other_constant);

}  // namespace opwright::math
