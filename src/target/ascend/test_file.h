// The test that goes with emitted kernels: a few small cases, with results and bounds that the reference computed.
#pragma once
#include "target/ascend/operator.h"

namespace opwright::target::ascend {

// Text of NAME_test.cpp, which runs on the simulator and on a device; empty where no small case was found that the
// reference accepts.
std::string test_file(const Operator& op, const math::Program& p, const math::SymValues& asked);

}  // namespace opwright::target::ascend
