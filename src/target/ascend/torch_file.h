// The binding that makes emitted kernels an operator of PyTorch.
#pragma once
#include "target/ascend/operator.h"

namespace opwright::target::ascend {

// Text of NAME_torch.cpp: torch.ops.opwright.NAME for tensors on an NPU; empty for operators with tables of constants.
std::string torch_file(const Operator& op, const math::Program& p);

}  // namespace opwright::target::ascend
