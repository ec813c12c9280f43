// The GPU as the run time drives it (target/device.h).
#pragma once
#include "target/cuda/device.h"
#include "target/device.h"

namespace opwright::target::cuda {

// For the process; `gpu` outlives it.
device::Device& run_device(Device& gpu);

// Measured on the GPU; see device::Ceilings.
Result<device::Ceilings> measure_ceilings(Device& gpu);

}  // namespace opwright::target::cuda
