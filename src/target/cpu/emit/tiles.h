// The tile registers of x86's AMX: 16 rows of 64 bytes each, all eight of one shape. Internal to target/cpu.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include "loop/functions.h"

namespace opwright::target::cpu {

// At the start and the end of a function that uses tiles: gives them their shape, which a thread keeps until it is told
// otherwise, and lets go of them, so that the system no longer saves them when it takes the thread from its processor.
void configure_tiles(llvm::IRBuilder<>& b);
void release_tiles(llvm::IRBuilder<>& b);

// The statements of loop/program.h. `stride`: elements of 32 bits between rows.
void zero_tile(llvm::IRBuilder<>& b, int tile);
void load_tile(llvm::IRBuilder<>& b, int tile, llvm::Value* address, llvm::Value* stride);
void store_tile(llvm::IRBuilder<>& b, int tile, llvm::Value* address, llvm::Value* stride);
void dot_tiles(llvm::IRBuilder<>& b, loop::TileFn f, int sum, int rows, int columns);

}  // namespace opwright::target::cpu
