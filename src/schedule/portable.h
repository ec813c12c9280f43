// Schedules that outlive the names in a program: programs that are equal up to names share them.
#pragma once
#include <string>

#include "schedule/schedule.h"

namespace opwright::schedule {

// to_json() with each index named by where it first appears, "v0", "v1", ..., without spaces, and back.
std::string to_portable(const Schedule& s, const Kernel& k);
// Errors: as from_json(); tiles or panels beyond what any candidate has (it may come from elsewhere and ask for all memory).
Result<Schedule> from_portable(const std::string& text, const Kernel& k);

}  // namespace opwright::schedule
