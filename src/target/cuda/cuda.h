// CUDA C++: readable kernels without headers, compiled at run time and run on an NVIDIA GPU where there is one.
#pragma once
#include "target/target.h"

namespace opwright::target::cuda {

const Target& cuda_target();

}  // namespace opwright::target::cuda
