// What goes with an operator's kernels: the host's launch, a test against the reference, a build file and a page.
#pragma once
#include "target/ascend/operator.h"

namespace opwright::target::ascend {

std::vector<SourceFile> project_files(const Operator& op, const math::Program& p, const EmitOptions& o);

}  // namespace opwright::target::ascend
