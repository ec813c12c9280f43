// Accesses that fold an index back into its tensor (outside clamp, wrap, reflect, mirror) have nowhere to go in an
// empty one: every target refuses a launch in which that would happen.
#pragma once
#include <vector>

#include "math/program.h"

namespace opwright::math {

struct FoldedRead {
    TensorId tensor = kNone;
    Sym elements;  // of the tensor
    Sym points;    // of the equation that reads it: the fault is elements == 0 && points > 0
};
// Those of p that can be at fault.
std::vector<FoldedRead> folded_reads(const Program& p);

// "operator NAME folds an index back into x, which is empty".
std::string empty_read_message(const Program& p, TensorId tensor);

}  // namespace opwright::math
