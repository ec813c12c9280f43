// Ascend C for __NPU_ARCH__ 2201: readable kernels for the vector cores, run here on the functional simulator.
#pragma once
#include "target/target.h"

namespace opwright::target::ascend {

const Target& ascend_target();

}  // namespace opwright::target::ascend
