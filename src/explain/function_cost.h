// What scalar functions, and calls of kernels, cost in the code that kernels get, measured.
#pragma once
#include "base/result.h"
#include "math/functions.h"

namespace opwright::explain {

// Seconds an f32 element of a kernel that applies the function alone, on one thread, from and to the first cache.
// Measured once in a process, in some hundredths of a second. Error: the kernel cannot be compiled.
Result<double> function_seconds(math::Fn f);

// Seconds that a call of the smallest kernel takes on the calling thread, with one reading of the clock. Measured once in
// a process, in some milliseconds. Error: the kernel cannot be compiled.
Result<double> call_seconds();

}  // namespace opwright::explain
