// A gradient given by hand against the derived one.
#pragma once
#include "derive/gradient.h"
#include "lang/gradient.h"

namespace opwright::verify {

// Both through the reference, on random inputs (within `ranges`, by input of `p`) and cotangents at these sizes: every
// element of what is given by hand must lie within the sum of both error bounds of the derived one. Errors: the first
// that does not, with its place and both values; inputs at which either can't be evaluated.
Status same_gradient(const lang::GivenGradient& given, const derive::Gradient& derived, const math::Program& p,
                     const math::SymValues& sizes, const std::vector<std::optional<lang::ValueRange>>& ranges = {});

}  // namespace opwright::verify
