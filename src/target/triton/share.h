// The numerator and the sum of a softmax, recognised: what is known of their ranges saves instructions.
#pragma once
#include "math/program.h"

namespace opwright::target::triton {

// The element a of exp(a - h) where h is the largest a along the axes of `fold`, casts aside; kNone: `term` is no such
// value. It lies in [0, 1], one of them is 1, and where a is -inf it is 0 (or all of its row is NaN).
math::ExprId shifted_exponent(const math::Program& p, math::ExprId term, const std::vector<math::VarId>& fold);

// Whether `part` is such a value and `total` the sum of all of them.
bool is_share(const math::Program& p, math::ExprId part, math::ExprId total);

}  // namespace opwright::target::triton
