// The edges of a schedule, around which kernels go wrong.
#pragma once
#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace opwright::schedule {

// Numbers of points that it takes at a time along some index: lanes, unrolled lanes, tiles, panels, depths; ascending, each
// once, from 2 on.
std::vector<int64_t> widths(const Schedule& s);

}  // namespace opwright::schedule
