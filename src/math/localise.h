// A Program whose extents are expressions over a graph's symbols, rewritten over symbols of its own, so that equal
// kernels at different places of a model are one kernel.
#pragma once
#include <vector>

#include "math/program.h"

namespace opwright::math {

struct Localised {
    Program program;             // every extent and Size is a constant or one plain symbol s0, s1, ...
    std::vector<Sym> values;     // of program.symbols(), in that order, over the old symbols
};
Localised localise(const Program& p);

}  // namespace opwright::math
