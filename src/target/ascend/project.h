// What goes with an operator's kernels: the host's launch, a test against the reference, a binding for PyTorch, a build
// file and a page.
#pragma once
#include "target/ascend/operator.h"

namespace opwright::target::ascend {

std::vector<SourceFile> project_files(const Operator& op, const math::Program& p, const EmitOptions& o);

// The host's functions: bytes of workspace, where there is one, and the launch; `simulated`: on ascend_sim::Device, and
// findings go to a function Report.
std::string launch_functions(const Operator& op, bool simulated);
// "void Softmax(uint8_t *x, ..., int64_t cores, WHERE)".
std::string launch_signature(const Operator& op, const std::string& where);
bool has_workspace(const Operator& op);
bool has_faults(const Operator& op);

}  // namespace opwright::target::ascend
