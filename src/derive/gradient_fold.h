// The adjoint of going on beyond the ends of a dim.
#pragma once
#include "math/program.h"

namespace opwright::derive {

// The element `at` of the sum of everything in `t` that reads it, where dim `dim` of t stands for the places low,
// low+1, ... of a dim with n elements that goes on beyond its ends as `mode` says (Clamp, Wrap, Reflect or Mirror).
math::ExprId fold_back(math::Program& p, math::TensorId t, const std::vector<math::ExprId>& at, size_t dim,
                       const math::Sym& low, const math::Sym& n, math::Outside mode);

}  // namespace opwright::derive
