// What help by another thread costs.
#pragma once
#include <cstdint>

namespace opwright::runtime {

// Nanoseconds to reckon with until a worker of a pool takes part in a job that starts now: little while the workers still
// spin after an earlier job of this process, and when this was asked a moment ago (one job of a row pays for waking them);
// else what waking one took the last times (a guess before the first). Ask for jobs that are worth sharing once workers
// are awake.
int64_t helper_nanoseconds();

}  // namespace opwright::runtime
