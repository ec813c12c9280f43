// The shape rule of a Program: extents of the outputs as closed forms of those of the inputs, and the conditions that
// must hold. Used to check a launch, to print the rule, and by framework registrations.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "math/program.h"

namespace opwright::derive {

// Values of a program's symbols from concrete input shapes. Input dims that are symbols bind them; dims that are
// constants or expressions are checked, and an expression a*s + b of one unbound symbol s is solved for it. Errors name
// the operator, the tensor, the dim, both extents and the next step.
// `given` holds symbols that no input shape binds (integer attributes).
Result<math::SymValues> bind_symbols(const math::Program& p, const std::vector<Shape>& input_shapes,
                                     const math::SymValues& given = {});
// Checks requirements and that every affine access without an `outside` stays inside its tensor. An access under an
// index that has no values is not made, hence not checked.
Status check_requirements(const math::Program& p, const math::SymValues& values);
// Concrete shapes of the outputs. Errors where an extent is negative or overflows.
Result<std::vector<Shape>> output_shapes(const math::Program& p, const math::SymValues& values);
// A tensor's concrete shape; `what` it is called in the error.
Result<Shape> concrete_shape(const math::Program& p, math::TensorId t, const math::SymValues& values);
// "x[m, k], w[n, k] -> y[m, n]   where k >= 1", for people.
std::string print_shape_rule(const math::Program& p);

}  // namespace opwright::derive
