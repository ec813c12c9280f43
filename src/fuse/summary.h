// What fusion needs to know of one node's program, worked out once.
#pragma once
#include <optional>
#include <vector>

#include "math/facts.h"

namespace opwright::fuse {

// How a program uses one of its inputs.
struct InputUse {
    int sites = 0;           // distinct places of reading
    bool repeats = false;    // an element is read more than once at one of them
    bool edges = false;      // is read outside its bounds, or asked for its bounds
    bool identity = false;   // read only where the one output equation stands, element by element in order
};

struct Summary {
    bool map = false;        // one output, set by the only equation, which holds no reduction and no scan
    bool reduces = false;    // holds reductions, and one output, set as a whole
    bool whole = false;      // every output is set as a whole
    bool contraction = false;// a sum of products whose operands are met more than once
    math::Work work;         // of the map's equation; of all equations otherwise
    bool movement = false;   // a map that is one load along affine indices
    std::vector<InputUse> inputs;
};
Summary summarise(const math::Program& p);

// y[...] = x[...] for a view that inserts, removes or splits dims; nullopt for one that merges them.
std::optional<math::Program> view_program(const std::vector<math::Sym>& from, const std::vector<math::Sym>& to, DType t);

}  // namespace opwright::fuse
