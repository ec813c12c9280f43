// Several programs as one: what one of them writes and another reads becomes a temporary.
#pragma once
#include <span>

#include "math/program.h"

namespace opwright::math {

// A program applied to values, which are numbers that the parts of one merge share.
struct Part {
    const Program* program = nullptr;
    std::vector<uint32_t> inputs, outputs;  // in the order of the program's
};

// A program that evaluates `parts` in their order. Values listed in `inputs` become its inputs and those in `outputs` its
// outputs, in that order; every other value that a part writes becomes a Temp. Symbols are shared by name, tensors of
// equal names are told apart by a number. Each value that a part's equations mention must be in `inputs` or written by an
// earlier part, with the element type and rank that its reader declares.
Program merge(const std::string& name, std::span<const Part> parts, std::span<const uint32_t> inputs,
              std::span<const uint32_t> outputs);

}  // namespace opwright::math
