// Tile program -> loop program for a CPU: one function a nest, run over a range of tasks.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "loop/program.h"
#include "target/cpu/lower/point.h"
#include "target/machine.h"
#include "tile/program.h"

namespace opwright::target::cpu {

// One pointer of the kernel's argument array.
struct Argument {
    enum class Kind : uint8_t { Tensor, Packed, Shared } kind = Kind::Tensor;
    math::TensorId tensor = math::kNone;  // an input, output, table or workspace temporary of the kernel's program
    size_t packed = 0;                    // index into Lowered::packs (Shared: Lowered::shared)
};

// A constant operand of a contraction, brought into panels once by its own function.
struct Pack {
    std::string function;
    math::Sym tasks;
    math::Sym elements;
    DType dtype;
    std::vector<math::TensorId> reads;  // the constant inputs it reads
};

// Panels of an operand that is no constant, packed in each run by a stage of its own, in memory of the launch.
struct SharedPanels {
    math::Sym elements;
    DType dtype;
};

// The extents of a contraction, and the register tiles it is cut into.
struct ContractionFacts {
    int64_t rows = 0, columns = 0;          // of the register tile
    std::vector<int64_t> smaller;           // rows of the tiles that a rest of rows may take, smallest first
    math::Sym m = 0, n = 0, k = 0, batch = 1;
    math::Sym packed = 0;                   // elements brought into panels in each run
    int speed = 1;                          // multiply-adds that take as long as one of f32
    int64_t narrow = 0;                     // columns of the tile that a rest of so many columns at most takes; 0: there is none
};

// Picoseconds of a multiply-add of a contraction, and of an element brought into panels.
inline constexpr int64_t kContractionWork = 12, kPackWork = 200;

struct Stage {
    std::string function;
    math::Sym tasks;   // tasks are [0, tasks)
    math::Sym work;    // picoseconds of all tasks together on one thread, roughly: decides whether threads share them
    std::optional<ContractionFacts> contraction = {};
    bool packs = false;  // brings a factor into panels for a later stage
};

struct Lowered {
    loop::Program program;
    std::vector<Argument> arguments;
    std::vector<Stage> stages;  // in order
    std::vector<Pack> packs;
    std::vector<SharedPanels> shared;
    // Stages that run together, task by task: a task is `tile` rows of one of the batch points, and each of these stages has
    // the same number of tasks of its own for it, or one for each row. `held` have room for the rows of one task.
    struct Together {
        size_t first = 0, count = 0;
        math::Sym batches = 1, rows = 1;
        int64_t tile = 1;
        std::vector<math::TensorId> held;
        math::Sym tasks() const { return batches * ceil_div(rows, tile); }
    };
    std::vector<Together> together;  // in order
    std::vector<std::string> faults;  // message of status code i + 1
    // Results that code for the symbol kStreamSymbol != 0 writes past the caches, and the elements of a row of theirs
    // that must come in whole multiples of 64 bytes (0: rows may begin anywhere).
    struct Streamed {
        math::TensorId tensor;
        math::Sym row;
    };
    std::vector<Streamed> streamed;
};

Lowered lower(const tile::Program& p, const Machine& machine = {});

}  // namespace opwright::target::cpu
