// What of a forward pass a gradient reads: given to it, or computed again.
#pragma once
#include <string>
#include <vector>

#include "math/program.h"

namespace opwright::derive {

struct Kept {
    math::TensorId tensor = math::kNone;
    std::string name;
    math::Sym bytes;
    bool given = false;   // to the gradient as an input; else computed again there
    bool output = false;  // of the operator: it is in memory anyway
    std::string reason;   // with the figures of the choice
};

// The values of `forward` (an operator with its gradient behind it: `results` depend on `cotangents` and on values of
// the operator) that the gradient's own equations read, and those that computing them again would take; each given or
// not, so that the time of all together is least: that of reading what is given (and of writing it, where it is no
// output) and of computing the rest. The least sum is a minimum cut. Times are estimates at extents of kNominalExtent
// for every symbol, from the rates of one core (keep.cpp).
inline constexpr int64_t kNominalExtent = 64;
std::vector<Kept> choose_kept(const math::Program& forward, const std::vector<math::TensorId>& outputs,
                              const std::vector<math::TensorId>& cotangents,
                              const std::vector<math::TensorId>& results);

// "y given (an output, ...); e computed again (...)", a line each, without indentation.
std::string print_kept(const std::vector<Kept>& kept);

}  // namespace opwright::derive
