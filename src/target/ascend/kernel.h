// One nest of a block tile program as a kernel class of Ascend C.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "target/ascend/names.h"
#include "target/ascend/product.h"
#include "target/ascend/scalar.h"
#include "tile/program.h"

namespace opwright::target::ascend {

inline constexpr int64_t kUbBytes = 184 * 1024;  // 192 KB less the part that the Ascend C library reserves
inline constexpr int64_t kAlive = 8;             // tensors of one position that may be allocated at once
inline constexpr int64_t kLanes = 64;            // tiles are multiples of 256 bytes of float

// A line of the kernel's budget of unified buffer: `per_lane` bits a lane and `fixed` bytes, `copies` times.
struct Budget {
    std::string buffer;
    int64_t copies = 1, per_lane = 0, fixed = 0;
    int64_t bytes(int64_t lanes) const { return copies * (per_lane * lanes / 8 + fixed); }
};

struct KernelSource {
    std::string name;                        // of the kernel function: "softmax"
    std::string device;                      // the class and the kernel function
    std::vector<math::TensorId> parameters;  // global memory, in order; then a fault buffer where `faults`
    bool faults = false;                     // an index that is data is checked: one int32 a core says so
    bool one_core = false;                   // it writes at places that are data
    bool mix = false;                        // cube and vector cores
    // Tiling: what the host counts.
    std::string tasks, block_extent;  // host expressions over sizes: tasks without the block axis; its extent
    bool block_in_grid = false;       // the block axis is cut into tasks
    bool whole = false;               // the block axis is held whole
    bool tiled() const { return !block_extent.empty() && !whole; }
    int64_t max_tile = 1;             // lanes that the unified buffer allows
    int64_t tile = 0;                 // lanes that the schedule asks for; 0: as many as are useful
    std::vector<Budget> budget;
    std::string rows, row_m, row_n, row_k;  // mix: host expressions of the product's rows (of all batches), m, n and k
    int64_t factor_bytes = 2;               // mix: of an element of the factors
};

// Error: what of the nest has no form on the chip, or which buffers do not fit. `suffix` tells kernels of one operator
// apart.
Result<KernelSource> write_kernel(const tile::Program& p, size_t nest, const Names& names, Helpers& helpers,
                                  const std::string& suffix, const Product* product = nullptr);

}  // namespace opwright::target::ascend
