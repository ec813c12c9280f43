// Rows too long for the chip, of which the beginning stays there between walks.
#pragma once
#include <vector>

#include "schedule/kernel.h"

namespace opwright::schedule {

// A row variable that was cut: `var` now runs over what follows the first elements, `beginning` over those.
struct Cut {
    size_t nest;
    math::VarId var, beginning;
};
struct CutKernel {
    Kernel kernel;
    std::vector<Cut> cuts;  // at most one a nest
};

// Cuts, in a kernel whose temporaries have no row variables (form_block_kernel, recompute), the row variable of each nest
// in which it pays: the only one there, along which one f32 tensor is read several times and at affine places. Its folds
// become folds of both parts, taken together; its maps become two equations, each of which sets a part of the tensor.
// Nests with a softmax stay whole: what it computes of a beginning that is held takes more registers than there are.
// Valid for rows of at least `elements`.
CutKernel hold_beginning(const Kernel& k, int64_t elements);

}  // namespace opwright::schedule
