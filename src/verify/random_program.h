// Well-formed operators made from a seed: what nobody thought of writing down.
#pragma once
#include <cstdint>

#include "math/program.h"

namespace opwright::verify {

// One Program a seed, the same on every machine. One or two equations deep, up to two outputs, over the symbols m and n
// (any extent) and small constant extents: affine accesses with any coefficients and with quotients and remainders,
// every mode outside, reads at positions that are data, reductions with and without a condition, scans, updates,
// selects, comparisons and casts, in each element type. The values 0 and 1 of a symbol are as legal as any other.
math::Program random_program(uint64_t seed);

}  // namespace opwright::verify
