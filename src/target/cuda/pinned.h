// A person's plan for a nest as launch parameters of the kernel that the target has for it, or what of it does not fit.
#pragma once
#include <optional>
#include <string>

#include "base/result.h"
#include "schedule/schedule.h"
#include "target/cuda/tiles.h"

namespace opwright::target::cuda {

inline constexpr int64_t kSharedBytes =
    232448;  // dynamic shared memory that a block may ask for (compute capability 9.0)
inline constexpr int64_t kStaticShared = 49152;  // shared memory of fixed size
inline constexpr int kMostItems = 8;             // packs of a row that a thread keeps in registers

// What a plan is about, for messages.
struct Subject {
    const math::Program& program;
    math::TensorId result = math::kNone;
    std::string equation() const { return program.tensors[result].name; }
    const std::string& index(math::VarId v) const { return program.vars[v].name; }
};

// Of an element-wise kernel: threads of a block, elements of a thread along `lane`, `width` at most.
struct VectorShape {
    int threads;
    int64_t vector;
};
schedule::NestPlan plan_of(const VectorShape& s, math::VarId lane);
Result<VectorShape> pinned_vector(const schedule::NestPlan& plan, const Subject& s, math::VarId lane, int64_t width);

// Of a kernel that transposes: the side of its tiles, of which `bytes` an element are in shared memory.
schedule::NestPlan plan_of_tile(int64_t side, math::VarId read, math::VarId lane);
Result<int64_t> pinned_tile(const schedule::NestPlan& plan, const Subject& s, math::VarId read, math::VarId lane,
                            int64_t width, int64_t bytes);

// Of a kernel of rows: threads of a row and packs of it that each keeps; 0 packs: each pass walks along the row.
struct RowShape {
    int threads, items, shared;
};
schedule::NestPlan plan_of(const RowShape& s, math::VarId lane, int64_t width);
// `kept`: loads that stay on the chip between passes.
Result<RowShape> pinned_row(const schedule::NestPlan& plan, const Subject& s, math::VarId lane, int64_t width,
                            size_t kept);

// Of a contraction on tensor cores, and of one by multiply-adds: sums each way of a thread.
schedule::NestPlan plan_of(const TileShape& s);
Result<TileShape> pinned_tiles(const schedule::NestPlan& plan, const Subject& s);
schedule::NestPlan plan_of_registers(int per);
Result<int> pinned_registers(const schedule::NestPlan& plan, const Subject& s, bool wide);

// Of a kernel with one thread a point: a plan has nothing to say.
Status pinned_point(const schedule::NestPlan& plan, const Subject& s);

}  // namespace opwright::target::cuda
