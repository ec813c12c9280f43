// Kernels that interpret the mathematics in fp64: slow, and right. They stand in for compiled ones when a person asks for
// the engine "reference", and in tests.
#pragma once
#include "target/cpu/cpu.h"

namespace opwright::runtime {

// Copies what it needs of the program.
target::cpu::KernelRef reference_kernel(const math::Program& p);

}  // namespace opwright::runtime
