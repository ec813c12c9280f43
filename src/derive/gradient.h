// Reverse-mode derivatives of a Program, as a Program: conventions and forms are in docs/gradients.md.
#pragma once
#include <vector>

#include "base/result.h"
#include "derive/keep.h"
#include "math/program.h"

namespace opwright::derive {

// The adjoint of an operator. Its inputs are those of the operator that it needs, in their order, the values of the
// forward pass that it is given, and one cotangent (named d + the output's name) for each output that matters; its
// outputs are the gradients by the inputs asked for.
struct Gradient {
    math::Program program;
    std::vector<size_t> inputs;      // positions among the operator's inputs
    std::vector<size_t> saved;       // positions among the outputs of `forward`
    std::vector<size_t> cotangents;  // positions among the operator's outputs
    std::vector<size_t> wrt;         // positions among the operator's inputs
    math::Program forward;           // the operator with the other values that are saved behind its outputs
    std::vector<Kept> kept;          // what the gradient reads of the forward pass; nothing is given without `save`
};

struct GradientOptions {
    // Values of the forward pass are given where that costs less than computing them again. Such a gradient takes them
    // for independent inputs: derivatives of it are no second derivatives of the operator.
    bool save = false;
    std::vector<size_t> cotangents = {};  // outputs of the operator that have one; empty: all
};

// `wrt`: positions of inputs; empty: all inputs of a float type. Errors: an input of an integer type or a position that
// there is not; no output of a float type.
Result<Gradient> gradient(const math::Program& p, std::vector<size_t> wrt = {}, const GradientOptions& o = {});

}  // namespace opwright::derive
