// Faults planted into the loop level, for the tests that the verifier can fail.
#pragma once
#include "loop/program.h"

namespace opwright::loop {

// Each returns how many places it changed.
size_t drop_load_masks(Program& p);            // lanes beyond a tail are read like all others
size_t start_folds_elsewhere(Program& p);      // locals that start as 0 or -inf start as 1 or 0
size_t round_accumulators_to_f16(Program& p);  // whatever is assigned to an f32 local

}  // namespace opwright::loop
