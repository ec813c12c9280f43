// Checks that a loop program means something: ids in range, types and lanes that fit, values used only where they are
// in scope, literal bounds of unrolled loops. Run before emission in debug and test builds.
#pragma once
#include <string>
#include <vector>

#include "loop/program.h"

namespace opwright::loop {

// One sentence for each fault, naming the function and the expression or statement; empty for a valid program.
std::vector<std::string> verify(const Program& p);

}  // namespace opwright::loop
