// The sharding rules: along which axes an operator can be computed in parts, without talk between the parts.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "math/program.h"

namespace opwright::derive {

// How a tensor takes part.
struct Placement {
    enum class Kind : uint8_t { Replicated, Sharded, Partial } kind = Kind::Replicated;
    size_t dim = 0;                           // Sharded: along it
    math::ReduceOp op = math::ReduceOp::Sum;  // Partial: what combines the parts
};

struct Sharding {
    std::string axis;                        // the index or extent, for people
    std::vector<Placement> inputs, outputs;  // in the program's order
};

// One for each axis that can be sharded. An axis is a set of dims that run together: it can be sharded if every access
// uses its index plainly (not as part of a sum, twice, or as a number), no scan and no position (argmax) goes over it,
// and what is reduced over it is delivered as it is, as partial results. All its dims must be of one extent, and all dims
// of that extent belong to it: each part is a call of the same operator (where the extent is a number, of one with
// another number).
std::vector<Sharding> shardings(const math::Program& p);
// "m: x[0], w whole -> y[0]", one line each.
std::string print_shardings(const math::Program& p);

}  // namespace opwright::derive
