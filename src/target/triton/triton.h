// The Triton target: one Python file an operator.
#pragma once
#include "target/target.h"

namespace opwright::target::triton {

const Target& triton_target();

}  // namespace opwright::target::triton
