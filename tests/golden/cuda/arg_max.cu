// arg_max: Position of the maximum along a dim: the first of equals, or the last.
//
//     y[a0,b0] = argmax[n](x[a0,n,b0])
//
// Reads 4*a0*b0*n bytes and writes 8*a0*b0: (4*a0*b0*n + 8*a0*b0) / 4.28e12 s at least, at what an H200 copies.
// Operations: a0*b0*n: a0*b0*n / 6.7e13 s at least, at what its f32 units do.
//
// arg_max_kernel: one thread a point; where results are not few.
//   x, y: coalesced, side by side along b0.
// arg_max_y_best_kernel: a reduction cut into slices: blocks fold a slice of neighbouring columns each; where results
// are few and terms many.
//   x: coalesced, side by side along b0, up to 16 bytes a thread.
// arg_max_y_kernel: partial results folded, always in the same order; where results are few and terms many.
//   y_best: coalesced, side by side along slice.
//   y_best_at: at places that are data or computed: coalesced as far as these are neighbours.
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

// Whether v at `at` is a better winner than the best so far: a NaN is beyond every number, of equals the first or the
// last wins, and a position below 0 says that there is none.
template <bool kLargest, bool kFirst>
struct Better {
    template <class T>
    __device__ __forceinline__ bool operator()(T v, long long at, T best, long long best_at) const {
        if (at < 0 || best_at < 0) return at >= 0;
        if (v == best || (v != v && best != best)) return kFirst ? at < best_at : at > best_at;
        return v != v || (best == best && (kLargest ? v > best : v < best));
    }
};

// The best of the candidates that the kThreads threads of a row hold, and where it is; -1 marks a thread without one.
template <int kThreads, class T, class F>
__device__ __forceinline__ void fold_best(T& best, long long& at, void* partial, F better) {
    #pragma unroll
    for (int step = (kThreads < 32 ? kThreads : 32) / 2; step > 0; step /= 2) {
        const T other = (T)__shfl_xor_sync(row_mask<kThreads>(), best, step);
        const long long other_at = __shfl_xor_sync(row_mask<kThreads>(), at, step);
        if (better(other, other_at, best, at)) best = other, at = other_at;
    }
    if (kThreads > 32) {
        long long* place = (long long*)partial;
        T* value = (T*)(place + 32);
        __syncthreads();  // readers of the last fold are done
        if (threadIdx.x % 32 == 0) place[threadIdx.x / 32] = at, value[threadIdx.x / 32] = best;
        __syncthreads();
        best = value[0], at = place[0];
        for (int w = 1; w < kThreads / 32; ++w)
            if (better(value[w], place[w], best, at)) best = value[w], at = place[w];
    }
}

// One thread a point.
extern "C" __global__ void arg_max_kernel(
        const float* __restrict__ x, long long* __restrict__ y, Index n_a0, Index n_b0, Index N) {
    for (Index point = blockIdx.x * (Index)blockDim.x + threadIdx.x;
         point < n_a0 * n_b0;
         point += (Index)gridDim.x * blockDim.x) {
        const Index b0 = point % n_b0;
        const Index a0 = point / n_b0;
        float best = 0.0f;
        long long best_at = -1;
        for (Index n = 0; n < N; ++n) {
            const float x_value = x[(a0 * N + n) * n_b0 + b0];
            if (best_at < 0 || (!(x_value <= best) && best == best)) best = x_value, best_at = (long long)n;
        }
        y[a0 * n_b0 + b0] = best_at < 0 ? 0 : best_at;
    }
}

// Partial results: a block folds one slice of the terms of LANES * VECTOR results that lie side by side along b0, so
// that every access is contiguous.
extern "C" __global__ void __launch_bounds__(256) arg_max_y_best_kernel(
        const float* __restrict__ x, float* __restrict__ y_best, long long* __restrict__ y_best_at, Index n_a0,
        Index n_b0, Index slice_length, Index N, Index slices) {
    constexpr int kLines = 256 / LANES, kColumns = LANES * VECTOR;
    const int lane = threadIdx.x % LANES, line = threadIdx.x / LANES;
    __shared__ float of_line[kLines][kColumns];
    __shared__ long long at_of_line[kLines][kColumns];
    const Index columns = n_a0 * n_b0, tiles = (columns + kColumns - 1) / kColumns;
    const Index terms = N, each = slice_length;  // of a slice
    for (Index task = blockIdx.x; task < tiles * slices; task += gridDim.x) {
        const Index tile = task % tiles, slice = task / tiles;  // neighbours read neighbouring columns
        const Index first = slice * each, last = terms - first < each ? terms : first + each;
        float best[VECTOR];
        long long best_at[VECTOR];
        #pragma unroll
        for (int v = 0; v < VECTOR; ++v) best[v] = 0.0f, best_at[v] = -1;
        const Index column = tile * kColumns + lane * VECTOR;
        if (column < columns) {
            const Index b0 = column / VECTOR % (n_b0 / VECTOR) * VECTOR;
            const Index a0 = column / VECTOR / (n_b0 / VECTOR);
            #pragma unroll 4
            for (Index term = first + line; term < last; term += kLines) {
                const Index n = term;
                const auto x_pack = load_pack<VECTOR>(&x[(a0 * N + n) * n_b0 + b0]);
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = x_pack.at[v];
                    if (best_at[v] < 0 || (!(x_value <= best[v]) && best[v] == best[v]))
                        best[v] = x_value, best_at[v] = (long long)n;
                }
            }
        }
        __syncthreads();  // readers of the last slice are done
        #pragma unroll
        for (int v = 0; v < VECTOR; ++v)
            of_line[line][lane * VECTOR + v] = best[v], at_of_line[line][lane * VECTOR + v] = best_at[v];
        __syncthreads();
        for (int inside = threadIdx.x; inside < kColumns && tile * kColumns + inside < columns; inside += 256) {
            const Index result = tile * kColumns + inside;
            const Index b0 = result % n_b0;
            const Index a0 = result / n_b0;
            float folded = of_line[0][inside];
            long long folded_at = at_of_line[0][inside];
            for (int other = 1; other < kLines; ++other) {
                const float candidate = of_line[other][inside];
                const long long candidate_at = at_of_line[other][inside];
                if (Better</*largest*/ true, /*first*/ true>()(candidate, candidate_at, folded, folded_at))
                    folded = candidate, folded_at = candidate_at;
            }
            y_best[(a0 * n_b0 + b0) * slices + slice] = folded;
            y_best_at[(a0 * n_b0 + b0) * slices + slice] = folded_at;
        }
    }
}

// One thread a point.
extern "C" __global__ void arg_max_y_kernel_short(
        long long* __restrict__ y, const float* __restrict__ y_best, const long long* __restrict__ y_best_at,
        Index n_a0, Index n_b0, Index slices) {
    for (Index point = blockIdx.x * (Index)blockDim.x + threadIdx.x;
         point < n_a0 * n_b0;
         point += (Index)gridDim.x * blockDim.x) {
        const Index b0 = point % n_b0;
        const Index a0 = point / n_b0;
        float best = 0.0f;
        long long best_at = -1;
        for (Index slice = 0; slice < slices; ++slice) {
            const float y_best_value = y_best[(a0 * n_b0 + b0) * slices + slice];
            if (best_at < 0 || (!(y_best_value <= best) && best == best))
                best = y_best_value, best_at = (long long)slice;
        }
        const long long at = best_at < 0 ? 0 : best_at;
        const long long y_best_at_value = at >= 0 && at < slices
            ? y_best_at[(a0 * n_b0 + b0) * slices + (Index)at]
            : 0ll;
        y[a0 * n_b0 + b0] = y_best_at_value;
    }
}

// Folds the partial results, always in the same order.
extern "C" __global__ void __launch_bounds__(THREADS * ROWS, 1) arg_max_y_kernel(
        long long* __restrict__ y, const float* __restrict__ y_best, const long long* __restrict__ y_best_at,
        Index n_a0, Index n_b0, Index slices) {
    const int lane = threadIdx.x % THREADS;  // of those that share a row
    __shared__ long long partial[64];
    for (Index row = blockIdx.x * (Index)ROWS + threadIdx.x / THREADS;
         row < n_a0 * n_b0;
         row += (Index)gridDim.x * ROWS) {
        const Index b0 = row % n_b0;
        const Index a0 = row / n_b0;
        float best = 0.0f;
        long long best_at = -1;
        #pragma unroll 4
        for (Index slice = lane; slice < slices; slice += THREADS) {
            const float y_best_value = y_best[(a0 * n_b0 + b0) * slices + slice];
            if (best_at < 0 || (!(y_best_value <= best) && best == best))
                best = y_best_value, best_at = (long long)slice;
        }
        fold_best<THREADS>(best, best_at, partial, Better</*largest*/ true, /*first*/ true>());
        const long long at = best_at < 0 ? 0 : best_at;
        const long long y_best_at_value = at >= 0 && at < slices
            ? y_best_at[(a0 * n_b0 + b0) * slices + (Index)at]
            : 0ll;
        if (lane == 0) y[a0 * n_b0 + b0] = y_best_at_value;
    }
}

