// reduce_sum: Sum; f16 and bf16 accumulate in f32, small integers in i32.
//
//     y[o0,o1] = sum[r0](x[o0,r0,o1])
//
// Reads 4*o0*o1*r0 bytes and writes 4*o0*o1: (4*o0*o1*r0 + 4*o0*o1) / 4.28e12 s at least, at what an H200 copies.
// Operations: o0*o1*r0: o0*o1*r0 / 6.7e13 s at least, at what its f32 units do.
//
// reduce_sum_kernel: one thread a point; where results are not few.
//   x, y: coalesced, side by side along o1.
// reduce_sum_y_partial_kernel: a reduction cut into slices: blocks fold a slice of neighbouring columns each; where
// results are few and terms many.
//   x: coalesced, side by side along o1, up to 16 bytes a thread.
// reduce_sum_y_kernel: partial results folded, always in the same order; where results are few and terms many.
//   y_partial: coalesced, side by side along slice.
//   y: the same element for neighbouring threads: one access for all of them.
//
// Tensors are dense and row-major. Kernels walk over their grid: any number of blocks, in x alone, gives the result.

// Positions in tensors. Compile with -DINDEX="long long" where one has 2^31 elements or more.
#ifndef INDEX
#define INDEX int
#endif
typedef INDEX Index;

#ifndef LANES
#define LANES 32
#endif
#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTOR
#define VECTOR 4
#endif
#define ROWS (THREADS < 128 ? 128 / THREADS : 1)  // that a block works on

// N elements that one instruction moves: 16 bytes at most.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
    T at[N];
};
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* p) {
    return *(const Pack<T, N>*)p;
}
template <int N, class T>
__device__ __forceinline__ void store_pack(T* p, const Pack<T, N>& v) {
    *(Pack<T, N>*)p = v;
}

// The lanes of this thread's warp that share its row.
template <int kThreads>
__device__ __forceinline__ unsigned row_mask() {
    return kThreads >= 32 ? 0xffffffffu : ((1u << kThreads % 32) - 1u) << (threadIdx.x % 32 / kThreads * kThreads);
}

// f over the values of the kThreads threads that share a row; each of them gets it. `partial` is shared memory for one
// value a warp.
template <int kThreads, class T, class F>
__device__ __forceinline__ T fold(T v, void* partial, F f) {
    #pragma unroll
    for (int step = (kThreads < 32 ? kThreads : 32) / 2; step > 0; step /= 2)
        v = (T)f(v, (T)__shfl_xor_sync(row_mask<kThreads>(), v, step));
    if (kThreads > 32) {
        T* of_warp = (T*)partial;
        __syncthreads();  // readers of the last fold are done
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
        __syncthreads();
        v = of_warp[0];
        #pragma unroll
        for (int w = 1; w < kThreads / 32; ++w) v = (T)f(v, of_warp[w]);
    }
    return v;
}

// One thread a point.
extern "C" __global__ void reduce_sum_kernel(
        const float* __restrict__ x, float* __restrict__ y, Index n_o0, Index n_o1, Index n_r0) {
    for (Index point = blockIdx.x * (Index)blockDim.x + threadIdx.x;
         point < n_o0 * n_o1;
         point += (Index)gridDim.x * blockDim.x) {
        const Index o1 = point % n_o1;
        const Index o0 = point / n_o1;
        float total = 0.0f;
        for (Index r0 = 0; r0 < n_r0; ++r0) {
            const float x_value = x[(o0 * n_r0 + r0) * n_o1 + o1];
            total += x_value;
        }
        y[o0 * n_o1 + o1] = total;
    }
}

// Partial results: a block folds one slice of the terms of LANES * VECTOR results that lie side by side along o1, so
// that every access is contiguous.
extern "C" __global__ void __launch_bounds__(256) reduce_sum_y_partial_kernel(
        const float* __restrict__ x, float* __restrict__ y_partial, Index n_o0, Index n_o1, Index slice_length,
        Index n_r0, Index slices) {
    constexpr int kLines = 256 / LANES, kColumns = LANES * VECTOR;
    const int lane = threadIdx.x % LANES, line = threadIdx.x / LANES;
    __shared__ float of_line[kLines][kColumns];
    const Index columns = n_o0 * n_o1, tiles = (columns + kColumns - 1) / kColumns;
    const Index terms = n_r0, each = slice_length;  // of a slice
    for (Index task = blockIdx.x; task < tiles * slices; task += gridDim.x) {
        const Index tile = task % tiles, slice = task / tiles;  // neighbours read neighbouring columns
        const Index first = slice * each, last = terms - first < each ? terms : first + each;
        float total[VECTOR];
        #pragma unroll
        for (int v = 0; v < VECTOR; ++v) total[v] = 0.0f;
        const Index column = tile * kColumns + lane * VECTOR;
        if (column < columns) {
            const Index o1 = column / VECTOR % (n_o1 / VECTOR) * VECTOR;
            const Index o0 = column / VECTOR / (n_o1 / VECTOR);
            #pragma unroll 4
            for (Index term = first + line; term < last; term += kLines) {
                const Index r0 = term;
                const auto x_pack = load_pack<VECTOR>(&x[(o0 * n_r0 + r0) * n_o1 + o1]);
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = x_pack.at[v];
                    total[v] += x_value;
                }
            }
        }
        __syncthreads();  // readers of the last slice are done
        #pragma unroll
        for (int v = 0; v < VECTOR; ++v) of_line[line][lane * VECTOR + v] = total[v];
        __syncthreads();
        for (int inside = threadIdx.x; inside < kColumns && tile * kColumns + inside < columns; inside += 256) {
            const Index result = tile * kColumns + inside;
            const Index o1 = result % n_o1;
            const Index o0 = result / n_o1;
            float folded = of_line[0][inside];
            for (int other = 1; other < kLines; ++other) {
                folded = folded + of_line[other][inside];
            }
            y_partial[(o0 * n_o1 + o1) * slices + slice] = folded;
        }
    }
}

// One thread a point.
extern "C" __global__ void reduce_sum_y_kernel_short(
        float* __restrict__ y, const float* __restrict__ y_partial, Index n_o0, Index n_o1, Index slices) {
    for (Index point = blockIdx.x * (Index)blockDim.x + threadIdx.x;
         point < n_o0 * n_o1;
         point += (Index)gridDim.x * blockDim.x) {
        const Index o1 = point % n_o1;
        const Index o0 = point / n_o1;
        float total = 0.0f;
        for (Index slice = 0; slice < slices; ++slice) {
            const float y_partial_value = y_partial[(o0 * n_o1 + o1) * slices + slice];
            total += y_partial_value;
        }
        y[o0 * n_o1 + o1] = total;
    }
}

// Folds the partial results, always in the same order.
extern "C" __global__ void __launch_bounds__(THREADS * ROWS, 1) reduce_sum_y_kernel(
        float* __restrict__ y, const float* __restrict__ y_partial, Index n_o0, Index n_o1, Index slices) {
    const int lane = threadIdx.x % THREADS;  // of those that share a row
    __shared__ long long partial[64];
    for (Index row = blockIdx.x * (Index)ROWS + threadIdx.x / THREADS;
         row < n_o0 * n_o1;
         row += (Index)gridDim.x * ROWS) {
        const Index o1 = row % n_o1;
        const Index o0 = row / n_o1;
        float total = 0.0f;
        #pragma unroll 4
        for (Index slice = lane; slice < slices; slice += THREADS) {
            const float y_partial_value = y_partial[(o0 * n_o1 + o1) * slices + slice];
            total += y_partial_value;
        }
        total = fold<THREADS>(total, partial, [](float a, float b) { return a + b; });
        if (lane == 0) y[o0 * n_o1 + o1] = total;
    }
}

