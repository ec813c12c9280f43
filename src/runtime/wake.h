// What help by another thread costs.
#pragma once
#include <cstdint>

namespace opwright::runtime {

// Nanoseconds until a worker of a pool takes part in a job that starts now: little while the workers still spin after an
// earlier job of this process; else what waking one took the last times (a guess before the first).
int64_t helper_nanoseconds();

}  // namespace opwright::runtime
