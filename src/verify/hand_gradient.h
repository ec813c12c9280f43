// A gradient given by hand against the derived one and against difference quotients.
#pragma once
#include "derive/gradient.h"
#include "lang/gradient.h"

namespace opwright::verify {

// Both through the reference, on random inputs (within `ranges`, by input of `p`) and cotangents at these sizes: every
// element of what is given by hand must lie within the sum of both error bounds of the derived one. Errors: the first
// that does not, with its place and both values; inputs at which either can't be evaluated.
Status same_gradient(const lang::GivenGradient& given, const derive::Gradient& derived, const math::Program& p,
                     const math::SymValues& sizes, const std::vector<std::optional<lang::ValueRange>>& ranges = {});

// The gradient that an operator gives by hand, at the sizes and values where gradients go wrong.
struct GradientCheck {
    std::string by;      // the operator that computes it
    int cases = 0;       // compared with the derived gradient, element by element
    int quotients = 0;   // cases in which a difference quotient along a random direction settled, and agrees with it
    int kinks = 0;       // cases with elements that differ where the operator has a kink: another subgradient, legal
    std::string kink;    // the first of those
    std::string wrong;   // the first element that is wrong, with the derived value and the difference quotient there
    bool passed() const { return wrong.empty() && cases > 0; }
    // "`back` agrees with the derived gradient in 40 cases, ...", or what is wrong.
    std::string str() const;
};

// For each example of `op`, with its floats in f64 where the declaration allows that. Nullopt where no gradient is given
// by hand. Errors: those of given_gradient() and of deriving.
Result<std::optional<GradientCheck>> check_given_gradient(const lang::Library& library, const std::string& op,
                                                          uint64_t seed = 1);

}  // namespace opwright::verify
