// A gradient given by hand: an operator that a declaration names (`gradient NAME`).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lang/library.h"

namespace opwright::lang {

struct GivenGradient {
    std::string name;  // of the operator that computes it
    math::Program program;
    // What each input of the program is: an input of the operator, or the cotangent of one of its outputs.
    struct Source {
        bool cotangent = false;
        size_t position = 0;
    };
    std::vector<Source> inputs;
    std::vector<size_t> wrt;  // by output: the position of the operator's input that it is the gradient by
};

// The gradient that `op` gives by hand, for `p`, the operator elaborated with `attributes`; nullopt where it gives
// none. Parameters are matched by name: those of the operator, and d + the name of an output for its cotangent; outputs
// are d + the name of a parameter; attributes of the operator that the gradient declares too are handed on. Errors: no
// such operator, a parameter or an output of another name, another type or rank of an output.
Result<std::optional<GivenGradient>> given_gradient(const Library& l, const std::string& op, const math::Program& p,
                                                    const Attributes& attributes);

}  // namespace opwright::lang
