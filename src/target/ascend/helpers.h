// Functions that emitted kernels bring along: places, integers that wrap, and the functions of floats that the chip has
// no instruction for, evaluated on the scalar unit.
#pragma once
#include <set>
#include <string>

namespace opwright::target::ascend {

// The text of these functions and of all that they need, in order of need.
std::string helper_text(const std::set<std::string>& names);

}  // namespace opwright::target::ascend
