// Internal to the emitter: the order of instructions in the bodies of innermost loops.
#pragma once
#include <llvm/IR/Function.h>

namespace opwright::target::cpu {

// Computations that stand side by side (the vectors of an unrolled step) take turns, instruction by instruction. A processor
// looks but so far ahead (64 vector instructions that wait for operands on some): where one computation came after another,
// each a long chain, it would find little else to do.
void interleave(llvm::Function& f);

}  // namespace opwright::target::cpu
