// Nests that read the same data in the same order become one.
#pragma once
#include "schedule/kernel.h"

namespace opwright::schedule {

// Joins nests of one reduction each that go over the same extents, read a tensor in common and do not depend on each
// other (the sums over the rows of a matrix in a norm's gradient): their loops can be shared. Values are unchanged.
void join_siblings(Kernel& k);

}  // namespace opwright::schedule
