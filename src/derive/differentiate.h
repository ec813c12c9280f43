// What both directions of differentiation share. Private to gradient*.cpp and tangent*.cpp.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "math/program.h"

namespace opwright::derive {

// The inputs asked for, all float ones where none are named; an error where there is nothing to differentiate.
Result<std::vector<size_t>> differentiated(const math::Program& p, std::vector<size_t> wrt);

// A finished derivative: the equations of `all` that `results` need, with those of the operator's inputs, all of
// `given` (values that have no equations left), and those of `others` (derivatives of inputs or outputs, kNone where
// there are none) that they read.
struct Derived {
    math::Program program;
    std::vector<size_t> inputs, others;  // positions among the operator's inputs, and in `others`
};
Derived finish(const math::Program& all, const std::string& name, const std::string& doc,
               const std::vector<math::TensorId>& inputs, const std::vector<math::TensorId>& given,
               const std::vector<math::TensorId>& others, const std::vector<math::TensorId>& results);

}  // namespace opwright::derive
