// matmul_prelu: Linear layer without bias, then PReLU with one slope a column.
//
//     z[m,n] = sum[k](x[m,k] * w[n,k])
//     y[m,n] = select(z[m,n] >= 0,z[m,n],a[n] * z[m,n])
//
// Reads 4*k*m + 4*k*n + 4*n bytes and writes 4*m*n: (4*k*m + 4*k*n + 4*m*n + 4*n) / 4.28e12 s at least, at what an
// H200 copies. Operations: 2*k*m*n + 3*m*n: (2*k*m*n + 3*m*n) / 6.7e13 s at least, at what its f32 units do.
//
// matmul_prelu_kernel: contraction: tiles in shared memory, a register tile of sums a thread.
//   both factors: an element a thread along what lies side by side, to shared memory.
//   result: runs of four neighbours by neighbouring threads.
//
// Tensors are dense and row-major. Kernels walk over their grid: any number of blocks, in x alone, gives the result.

// Positions in tensors. Compile with -DINDEX="long long" where one has 2^31 elements or more.
#ifndef INDEX
#define INDEX int
#endif
typedef INDEX Index;

#ifndef PER
#define PER 8
#endif

// A block computes a square tile; each of its 256 threads keeps PER x PER of the sums in registers.
extern "C" __global__ void __launch_bounds__(256) matmul_prelu_kernel(
        const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ a, float* __restrict__ y,
        Index K, Index N, Index M) {
    constexpr int kThreads = 256, kTile = 16 * PER, kDepth = 16, kEach = kTile * kDepth / kThreads;
    __shared__ float a_tile[kDepth][kTile + 4], b_tile[kDepth][kTile + 4];
    const int thread = threadIdx.x, thread_row = thread / 16, thread_column = thread % 16;
    const Index rows = M, columns = N, depth = K;
    const Index tiles_m = (rows + kTile - 1) / kTile, tiles_n = (columns + kTile - 1) / kTile;
    for (Index block = blockIdx.x; block < tiles_m * tiles_n; block += gridDim.x) {
        // Eight rows of tiles at a time: what they read of both factors fits the L2 cache.
        const Index tile = block;
        const Index first = tile / (8 * tiles_n) * 8, height = tiles_m - first < 8 ? tiles_m - first : 8;
        const Index row0 = (first + tile % (8 * tiles_n) % height) * kTile;
        const Index column0 = tile % (8 * tiles_n) / height * kTile;
        float sums[PER][PER] = {}, a_next[kEach], b_next[kEach];
        // The elements of the next slice are on their way from memory while this one is worked on.
        const auto fetch = [&](Index depth0) {
            #pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int cell = i * kThreads + thread;
                const Index side = row0 + cell / kDepth, deep = depth0 + cell % kDepth;
                a_next[i] = 0;
                if (side < rows && deep < depth) {
                    const Index m = side;
                    const Index k = deep;
                    const float x_value = x[m * K + k];
                    a_next[i] = x_value;
                }
            }
            #pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int cell = i * kThreads + thread;
                const Index side = column0 + cell / kDepth, deep = depth0 + cell % kDepth;
                b_next[i] = 0;
                if (side < columns && deep < depth) {
                    const Index n = side;
                    const Index k = deep;
                    const float w_value = w[n * K + k];
                    b_next[i] = w_value;
                }
            }
        };
        fetch(0);
        for (Index depth0 = 0; depth0 < depth; depth0 += kDepth) {
            #pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int cell = i * kThreads + thread;
                a_tile[cell % kDepth][cell / kDepth] = a_next[i];
            }
            #pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int cell = i * kThreads + thread;
                b_tile[cell % kDepth][cell / kDepth] = b_next[i];
            }
            __syncthreads();
            if (depth0 + kDepth < depth) fetch(depth0 + kDepth);
            #pragma unroll
            for (int kk = 0; kk < kDepth; ++kk) {
                float a_part[PER], b_part[PER];
                #pragma unroll
                for (int i = 0; i < PER; ++i) a_part[i] = a_tile[kk][thread_row * PER + i];
                #pragma unroll
                for (int j = 0; j < PER; ++j) b_part[j] = b_tile[kk][thread_column * 4 + j % 4 + j / 4 * 64];
                #pragma unroll
                for (int i = 0; i < PER; ++i) {
                    #pragma unroll
                    for (int j = 0; j < PER; ++j) sums[i][j] += a_part[i] * b_part[j];
                }
            }
            __syncthreads();
        }
        #pragma unroll
        for (int i = 0; i < PER; ++i) {
            const Index row = row0 + thread_row * PER + i;
            if (row >= rows) break;
            #pragma unroll
            for (int j = 0; j < PER; ++j) {
                const Index column = column0 + thread_column * 4 + j % 4 + j / 4 * 64;
                if (column >= columns) continue;
                const Index m = row;
                const Index n = column;
                const float a_value = a[n];
                y[m * N + n] = sums[i][j] >= 0.0f ? sums[i][j] : a_value * sums[i][j];
            }
        }
    }
}

