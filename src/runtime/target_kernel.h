// Kernels of a target that emits source (target/target.h) behind the interface of the executor's own.
#pragma once
#include <string>
#include <vector>

#include "target/cpu/cpu.h"
#include "target/target.h"
#include "target/tuned.h"

namespace opwright::runtime {

// Builds each Program once on `t`; equal ones share their kernel. The results are in the order of the requests. On a
// target with a device, workspace_bytes() tells the device's need, and run() works between tensors in the host's
// memory. `tuned`, which may be null, says which schedules won; `o.schedule` goes before them. Errors: those of
// Target::build, as the target words them.
std::vector<Result<target::cpu::KernelRef>> target_kernels(std::span<const target::cpu::Request> requests,
                                                           const target::Target& t, const target::EmitOptions& o,
                                                           const target::TunedSource* tuned = nullptr);

// Of a kernel that was made for a target's device, at these values of its symbols; null for all others.
target::device::Kernel* device_kernel(const target::cpu::Kernel& k, std::span<const int64_t> symbols = {});
// device::Kernel::prepare() for the values of the kernel's symbols, in its order.
Result<std::unique_ptr<target::device::Launch>> prepare_on_device(const target::cpu::Kernel& k,
                                                                  std::span<const int64_t> symbols,
                                                                  const std::vector<target::device::Address>& operands,
                                                                  target::device::Address workspace,
                                                                  target::device::Address fault,
                                                                  target::device::Stream& s);

}  // namespace opwright::runtime
