// Loop programs to LLVM IR, and LLVM IR to object code. Internal to target/cpu; jit.h is the interface.
#pragma once
#include <memory>
#include <string>

#include "loop/program.h"
#include "target/cpu/features.h"
#include "target/cpu/jit.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace opwright::target::cpu {

// One LLVM function and its ".scratch" companion for each function of the program, which must verify.
std::unique_ptr<llvm::Module> emit_module(const loop::Program& program, const Features& features,
                                          llvm::LLVMContext& context);

}  // namespace opwright::target::cpu
