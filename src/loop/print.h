// Readable pseudo-code of a loop program, for `explain --level loop` and golden tests.
#pragma once
#include <string>

#include "loop/program.h"

namespace opwright::loop {

std::string print(const Program& p);
std::string print(const Program& p, const Function& f);
std::string print(const Program& p, ExprId e);

}  // namespace opwright::loop
