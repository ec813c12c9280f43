// What the check of an emitted file runs at: sizes where kernels go wrong, and inputs that the declaration allows.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "math/program.h"

namespace opwright::target::triton {

// Values that an element of an integer input may have so that no position computed from it lies outside a tensor.
struct Limits {
    math::Sym low, end;  // low <= value < end
};
// For inputs whose values become positions, directly or through intermediates, in a dim with nothing said about the
// outside.
std::map<math::TensorId, std::vector<Limits>> position_limits(const math::Program& p);

// Up to eight sizes for all symbols, `asked` first if there are any: 1, primes, edges of blocks, and 0 where nothing
// forbids it. Those at which a requirement fails, an access leaves a tensor, no value lies within the limits, or
// NumPy's grids would become large, are left out.
std::vector<math::SymValues> check_sizes(const math::Program& p, const math::SymValues& asked,
                                         const std::map<math::TensorId, std::vector<Limits>>& limits);

}  // namespace opwright::target::triton
