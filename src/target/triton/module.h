// One operator as a Python file: kernels, the function to call, and its check.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "target/target.h"

namespace opwright::target::triton {

struct Module {
    std::string function;  // to call: tensors by position, the values of `keywords` by name
    std::string text;
    std::vector<std::pair<std::string, std::string>> keywords;  // Python name, symbol of the program
    std::vector<std::string> facts;
};

// Errors: what of p has no form in Triton, and why; a schedule that can't be applied.
Result<Module> write_module(const math::Program& p, const EmitOptions& o);
// "schedule", "schedule-json" or "tile".
Result<std::string> write_level(const math::Program& p, const std::string& level, const EmitOptions& o);

}  // namespace opwright::target::triton
