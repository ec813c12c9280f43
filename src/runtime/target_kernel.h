// Kernels of a target that emits source (target/target.h) behind the interface of the executor's own.
#pragma once
#include <string>
#include <vector>

#include "target/cpu/cpu.h"
#include "target/target.h"

namespace opwright::runtime {

// Builds each Program once on `t`; equal ones share their kernel. The results are in the order of the requests. Errors:
// those of Target::build, as the target words them.
std::vector<Result<target::cpu::KernelRef>> target_kernels(std::span<const target::cpu::Request> requests,
                                                           const target::Target& t, const target::EmitOptions& o);

}  // namespace opwright::runtime
