// The CPU target as the thing under test.
#pragma once
#include "target/cpu/cpu.h"
#include "verify/check.h"

namespace opwright::verify {

// Compiles and runs on `pool`, which must outlive what is compiled.
Compile cpu_target(const target::cpu::Options& o, runtime::ThreadPool& pool);

}  // namespace opwright::verify
