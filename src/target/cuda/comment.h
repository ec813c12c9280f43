// The leading comment of a generated file: what it computes, the floors of its time, and how its kernels go about it.
#pragma once
#include <string>

#include "target/cuda/lower.h"

namespace opwright::target::cuda {

// How the kernels of a stage meet memory, a line for each kind of access: "x, y: side by side along k, ...".
std::vector<std::string> describe_accesses(const Context& c, const Group& g, const Stage& s);
// `source`: as it was before lowering.
std::string leading_comment(const math::Program& source, const CudaProgram& p);

}  // namespace opwright::target::cuda
