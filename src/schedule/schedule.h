// L3: the schedule of a kernel. One value that says how each nest is tiled, vectorised and staged; tile/apply turns it
// into a tile program or says which limit it breaks.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/kernel.h"
#include "target/machine.h"

namespace opwright::schedule {

// How one equation runs inside its nest.
struct EquationPlan {
    math::VarId lane = math::kNone;  // the variable along vector lanes; kNone: scalar code
    bool lane_reduces = false;       // lane is a reduction variable: lanes hold partial results, folded at the end
    int lanes = 1;
    int unroll = 1;           // vectors side by side along the lane variable
    bool lane_first = false;  // the lane loop runs outside the serial ones: for blocks of a transposed read, which is
                              // turned in registers where lanes and block allow it
    int rows = 0;  // of a reduction across rows: so many positions of its innermost variable at a time, the lane loop
                   // inside, partial results of the whole task in fast memory; 0: in registers
};

// Packed contraction: register tile mr x (nv * lanes), cache tile mt x nt, depth kc.
struct ContractPlan {
    int mr = 0, nv = 0, lanes = 1;
    int64_t kc = 0, mt = 0, nt = 0;
    int parts = 1;  // positions of depth that one instruction multiplies and adds up: 2 of bf16, 4 of 8-bit integers
    bool tiles = false;  // by registers of 16 x 16 words (AMX); parts says of what
};

// One axis of the block that a task of a block target (Triton, Ascend C, rows on CUDA) holds at a time.
inline constexpr int64_t kWhole = 0;
struct BlockAxis {
    math::VarId var = math::kNone;
    int64_t tile =
        kWhole;  // at most so many points, a power of two; kWhole: the variable's whole extent, padded to one
};

struct NestPlan {
    std::vector<int64_t> grid_tile;       // per grid variable: points of one task (1, or a chunk of the innermost)
    std::vector<EquationPlan> equations;  // per equation of the nest; unused for a contraction and on block targets
    ContractPlan contract;                // on block targets mt x nt x kc is the block
    std::vector<BlockAxis> blocks;        // block targets: the innermost axis in memory last; all others are scalars
    int64_t elements = 0;                 // block targets: no block is larger, but for whole axes
    int64_t together = 0;                 // CPU: with the nests behind it (schedule/together.h), so many rows at a time; 0: apart
    bool online = false;  // block targets: pairs of folds that math/rescale.h knows take one walk along a row, not two
    int warps = 0, stages = 0;  // GPUs: warps of a block and depth of the pipeline that feeds it; 0: target's choice
};

struct Schedule {
    std::vector<NestPlan> nests;  // per nest of the kernel
    std::string summary;          // one line for people
};

// The untuned schedule for a CPU: always legal.
Schedule default_cpu_schedule(const Kernel& k, const target::Machine& m);
std::string print(const Schedule& s, const Kernel& k);

// What a block target allows.
struct BlockLimits {
    int64_t map_elements = 1024;        // of a block of a map
    int64_t row_elements = 16384;       // of a row that is held whole
    int64_t loop_elements = 1024;       // of one step along a row that is not
    int64_t mt = 64, nt = 64, kc = 32;  // block of a contraction
    int max_axes = 2;                   // axes of a block
    int64_t turned = 0;                 // side of a map's block that reads along one axis and writes along the other
};
// The untuned schedule for a block target: always legal. `whole`: rows are held whole; otherwise walked in steps.
Schedule default_block_schedule(const Kernel& k, const BlockLimits& limits, bool whole);

// The schedule as JSON, indices and equations by name, and back. Errors name the nest, the field, what was expected and
// what there is to choose from; values are checked for form here, for legality when the schedule is applied.
std::string to_json(const Schedule& s, const Kernel& k);
Result<Schedule> from_json(const std::string& text, const Kernel& k);

}  // namespace opwright::schedule
