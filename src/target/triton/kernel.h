// One nest of a block tile program as a Triton kernel, and what its launch needs.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "target/triton/text.h"
#include "tile/program.h"

namespace opwright::target::triton {

// Who holds the rows that a kernel folds: a program each, whole, or as many 16-bit elements in parts; or several programs, a
// part each.
enum class RowForm : uint8_t { Alone, InParts, Shared };

struct KernelText {
    std::string name, text;
    std::vector<math::TensorId> tensors;                      // its pointers, in order
    bool reports = false;                                     // it takes the pointer to the error flag after them
    std::vector<std::string> sizes;                           // then sizes by name
    std::vector<std::pair<std::string, std::string>> blocks;  // then BLOCK_N and the Python expression for it
    std::vector<std::string>
        choice;                 // not empty: block_m and block_n are chosen for a product of these rows, columns, batch
    std::string grid;           // number of programs
    std::string warps, stages;  // Python expressions; empty: Triton's default
    std::string registers;      // when its threads have 64 registers at most; empty: never
    bool index = false;         // it takes INDEX, the type of offsets
    int folds = 0;              // PARTS programs share a row, and join so many folds of it by way of words_ptr
    std::string rows, row;      // then the number of rows and the elements of one, in Python
    bool opaque = false;        // it takes OPAQUE: whether it is compiled for an NVIDIA GPU
    bool awaits = false;        // it takes EARLY: it waits itself for the kernel ahead, and may be launched before that ends
};

// Of rows that programs share: elements of a part, of those how many a thread holds, in half of its registers, and pieces in
// which it may lie there.
inline constexpr int64_t kShare = 16384, kShareOfThread = 64, kPieces = 4;

// Throws Refusal where the nest has no form in Triton. `file` gains the helpers, sizes and reports that it uses.
KernelText print_kernel(const tile::Program& p, size_t nest, File& file, const std::string& name, RowForm form);

// Whether updates of this kind and type may meet in memory at once.
bool atomic(math::Update u, DType t);
// Whether the contraction of this equation runs on tl.dot (floats of at most 32 bits).
bool uses_dot(const math::Program& p, const schedule::Contraction& c);

}  // namespace opwright::target::triton
