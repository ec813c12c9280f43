// Removes index variables that take a single value, so that schedules see only the dimensions that are there.
#pragma once
#include "math/program.h"

namespace opwright::math {

// Variables whose extent is known to be 1 become the index 0: they leave equations, reductions and accesses; a reduction
// over them alone becomes its body. Tensors keep their rank. (A sum of one term is that term: its zero keeps its sign.)
// An access that surely stays inside its tensor no longer says what it means outside; one that surely leaves it, by a
// literal index, becomes what stands for elements outside.
Program drop_unit_variables(const Program& p);

}  // namespace opwright::math
