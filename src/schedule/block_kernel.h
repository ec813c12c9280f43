// A kernel for targets that work on blocks (Triton, Ascend C, rows on CUDA): temporaries of a nest stay on the chip.
#pragma once
#include "schedule/kernel.h"

namespace opwright::schedule {

// Like form_kernel on the Program with its small tables written out (math/unroll.h), and then:
// - variables of one nest outside its grid ("row variables") that have the same extent are one variable, so that
//   max[j](x), sum[k](exp(x - m)) and the map over l that follows them walk over one block;
// - a tensor that a nest writes and reads is read at the very indices it was written at, so it can be a buffer; others
//   get a nest of their own and pass through memory;
// - with `recompute`, no temporary of a nest has a row variable: its equation is substituted where it is read. So a row
//   of any length is served by loops that hold one block of it at a time.
Kernel form_block_kernel(const math::Program& p, bool recompute);

// The first of these by itself.
Kernel with_shared_rows(const Kernel& k);

}  // namespace opwright::schedule
