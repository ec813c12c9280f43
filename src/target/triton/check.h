// The check that goes with an emitted function: the declaration in NumPy, and a loop over edge sizes.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "target/triton/text.h"

namespace opwright::target::triton {

// Appends `def reference(...)`, `def check()` and the main clause. `sizes`: further sizes to check at, by symbol.
void write_check(const math::Program& p, File& file, const std::string& function,
                 const std::vector<std::string>& inputs,
                 const std::vector<std::pair<std::string, std::string>>& keywords, const math::SymValues& sizes,
                 PythonWriter& out);

}  // namespace opwright::target::triton
