// Sharding of windows: parts of a convolution, a pooling or a stencil read their neighbours' edges.
#pragma once
#include <string>
#include <vector>

#include "math/program.h"

namespace opwright::derive {

// What a part reads of one input to compute results [from, to) along the axis.
struct HaloInput {
    bool whole = true;  // all of it; else, along `dim`, positions step*from + before ... step*(to - 1) + after
    size_t dim = 0;
    int64_t step = 1;
    math::Sym before = 0, after = 0;  // before is 0 or negative where there is an overlap
};
// The operator can be computed in parts along dim `dim` of its one output. A part runs the operator itself on what it
// reads, starting at a multiple of `step` (so that it computes a few results too many at its start, which are dropped),
// cut where the tensor ends.
struct Halo {
    size_t dim = 0;
    std::vector<HaloInput> inputs;  // in the program's order
};

// One for each dim of the output along which some input is read in overlapping windows and nothing stands against it:
// the index is no number, no scan, position or update goes along it, and all accesses that contain it are multiples of
// it plus indices of known range. Plain sharding (sharding.h) covers the dims without overlap.
std::vector<Halo> halos(const math::Program& p);
// "y by dim 2: x by dim 2, 2 a result, from 1 before to 1 after; w whole", one line each.
std::string print_halos(const math::Program& p);

}  // namespace opwright::derive
