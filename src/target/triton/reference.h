// The declaration as NumPy, for the check that goes with an emitted file.
#pragma once
#include <string>

#include "target/triton/text.h"

namespace opwright::target::triton {

// The type in which the reference holds values of t: all floats in float64.
std::string numpy_type(DType t);

// The equations of p, in order, as statements over arrays named like its tensors and integers named like its symbols.
// `file` gains the helpers that they use.
void write_equations(const math::Program& p, File& file, PythonWriter& out);

}  // namespace opwright::target::triton
