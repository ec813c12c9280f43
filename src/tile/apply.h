// Schedule application: kernel + schedule -> tile program.
#pragma once
#include "base/result.h"
#include "tile/program.h"

namespace opwright::tile {

// Errors name the equation, the index and the limit that the schedule breaks.
Result<Program> apply(schedule::Kernel kernel, schedule::Schedule schedule, const target::Machine& machine);

}  // namespace opwright::tile
