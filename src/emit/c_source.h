// A Program as one C99 function: every equation on its own, a point at a time. To read, to run anywhere, and to compare
// other kernels with.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "math/program.h"

namespace opwright::emit {

struct CSource {
    std::string function;              // its name
    std::string text;                  // of the file
    std::vector<std::string> symbols;  // the extents it takes, in order; then come its inputs and its outputs
    std::vector<std::string> faults;   // message of result i + 1; -1 is lack of memory
};
// `schedule`: as JSON (schedule::from_json); empty: the plain one. Errors: those of the schedule.
Result<CSource> write_c(const math::Program& p, const std::string& schedule = {});
// "schedule", "schedule-json" or "tile", as write_c() has them.
Result<std::string> c_level(const math::Program& p, const std::string& level, const std::string& schedule);

}  // namespace opwright::emit
