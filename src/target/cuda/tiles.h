// The tiles in which contractions are computed on tensor cores.
#pragma once
#include <vector>

#include "target/cuda/program.h"

namespace opwright::target::cuda {

// A block of warps_m x warps_n warps computes m x n elements of the result in slices of k, of which `stages` are in
// shared memory at a time.
struct TileShape {
    int m, n, k, stages, warps_m, warps_n;
    int threads() const { return warps_m * warps_n * 32; }
    int64_t shared_bytes() const { return int64_t{2} * stages * (m + n) * k; }  // of 16-bit factors
};
// All that are worth measuring; each divides into pieces of 16 bytes a thread, and kernels of it spill no registers.
const std::vector<TileShape>& tile_shapes();

}  // namespace opwright::target::cuda
