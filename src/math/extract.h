// The part of a Program that some of its tensors need.
#pragma once
#include "math/program.h"

namespace opwright::math {

// A program with the given inputs and outputs, in that order, of the equations of p that the outputs need; other
// tensors that these use become temporaries, constants stay. Requirements and the meaning of symbols are those of p.
// Every tensor read must be a given input, a constant, or defined by p.
Program extract(const Program& p, const std::string& name, const std::vector<TensorId>& inputs,
                const std::vector<TensorId>& outputs);

// A rewriter of p into itself that leaves everything as it is, to be given substitutions.
Rewriter in_place(Program& p);

}  // namespace opwright::math
