// The canonical content of a program: equal programs give equal bytes, in every process. Keys of caches hash it.
#pragma once
#include <string>

#include "loop/program.h"

namespace opwright::loop {

std::string content(const Program& p);

}  // namespace opwright::loop
