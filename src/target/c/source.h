// A Program as one C99 function.
#pragma once
#include "target/target.h"

namespace opwright::target::c {

struct Source {
    std::string function;              // its name
    std::string text;                  // of the file
    std::vector<std::string> symbols;  // the extents it takes, in order; then come its inputs and its outputs
    std::vector<std::string> faults;   // message of result i + 1; -1 is lack of memory
};
Result<Source> write_source(const math::Program& p, const EmitOptions& o);
Result<std::string> write_level(const math::Program& p, const std::string& level, const EmitOptions& o);

}  // namespace opwright::target::c
