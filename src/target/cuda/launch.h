// From a CudaProgram and the values of its symbols to the launches that run it. Shared by the run time and the tests
// that run kernels without a GPU.
#pragma once
#include <functional>

#include "target/cuda/program.h"

namespace opwright::target::cuda {

struct Call {
    const Variant* variant = nullptr;
    unsigned blocks = 1;
    std::vector<int64_t> sizes;  // of the parameters that are sizes, in order
};

struct LaunchPlan {
    bool wide = false;               // INDEX is long long
    std::vector<Call> calls;         // in order; stages without work are left out
    std::vector<int64_t> workspace;  // offset of each temporary, aligned to 256
    int64_t workspace_bytes = 0;
};

// `aligned`: whether a tensor's memory starts at a multiple of so many bytes (temporaries always do). `clusters`: whether
// the device has clusters of blocks.
// Errors: a size that is unknown, overflows or is negative; a read of a tensor without elements.
Result<LaunchPlan> plan_launch(const CudaProgram& p, const math::SymValues& sizes,
                               const std::function<bool(math::TensorId, int64_t)>& aligned, bool clusters = false);

// The macros that a variant's module is compiled with: "VECTOR=4", "INDEX=long long".
std::vector<std::string> defines_of(const Variant& v, bool wide);

}  // namespace opwright::target::cuda
