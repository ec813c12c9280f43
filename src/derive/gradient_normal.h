// The form of a Program that differentiation starts from.
#pragma once
#include "math/program.h"

namespace opwright::derive {

// Rewrites p so that
//  - a reduction is the whole right-hand side of an equation of its own, never a part of an expression;
//  - what is read of a tensor is its last value: one that is read before a further update is copied first.
// Values are unchanged.
void normalise(math::Program& p);

// A name that no tensor of p has yet: `base`, or `base` with a number.
std::string fresh_name(const math::Program& p, const std::string& base);

}  // namespace opwright::derive
