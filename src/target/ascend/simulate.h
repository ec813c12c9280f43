// Emitted kernels on the functional simulator.
#pragma once
#include "target/ascend/operator.h"
#include "target/host_compiler.h"

namespace opwright::target::ascend {

// The headers of ascend_sim/, as they are embedded in this binary.
std::vector<SourceFile> simulator_headers();

// Compiles a person's own Ascend C source, which has a main() that launches its kernels through ascend_sim::Device,
// against the simulator, and runs it. The value that main() returns. Errors: no such file; what the compiler said.
Result<int> run_source(const std::string& path, std::vector<std::string> arguments);

// C++ that runs an operator on the simulator; the function it defines is called `function`.
std::string driver_text(const Operator& op, const math::Program& p, const std::string& function,
                        const std::string& kernels);

// An operator whose driver is built.
std::unique_ptr<Runnable> make_runnable(std::shared_ptr<SharedLibrary> library, const std::string& function,
                                        const Operator& op, const math::Program& p);

}  // namespace opwright::target::ascend
