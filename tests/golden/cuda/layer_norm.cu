// layer_norm: Layer normalisation over the dims from `axis` on, computed in `stash`; also delivers the mean and
// 1/deviation.
//
//     centre[a0] = sum[r0](cast(x[a0,r0], f32)) / cast(r0, f32)
//     inv_std[a0] = 1 / sqrt(sum[r0]((cast(x[a0,r0], f32) - centre[a0]) * (cast(x[a0,r0], f32) - centre[a0])) /
//         cast(r0, f32) + 1e-05)
//     y[a0,r0] = cast(cast(cast(cast(cast((cast(x[a0,r0], f32) - centre[a0]) * inv_std[a0], bf16), f32) *
//         cast(scale[r0], f32), bf16), f32) + cast(bias[r0], f32), bf16)
//
// Reads 2*a0*r0 + 4*r0 bytes and writes 2*a0*r0 + 8*a0: (4*a0*r0 + 8*a0 + 4*r0) / 4.28e12 s at least, at what an H200
// copies. Operations: 8*a0*r0 + 5*a0: (8*a0*r0 + 5*a0) / 6.7e13 s at least, at what its f32 units do.
//
// layer_norm_kernel: rows: a warp or block each, kept in registers, folded by shuffles.
//   x, scale, bias, y: coalesced, side by side along r0, up to 16 bytes a thread.
//   centre, inv_std: the same element for neighbouring threads: one access for all of them.
//
// Tensors are dense and row-major. Kernels walk over their grid: any number of blocks, in x alone, gives the result.

// Positions in tensors. Compile with -DINDEX="long long" where one has 2^31 elements or more.
#ifndef INDEX
#define INDEX int
#endif
typedef INDEX Index;

#ifndef BLOCKS
#define BLOCKS 1
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif
#ifndef ITEMS
#define ITEMS 4
#endif
#ifndef SHARED
#define SHARED 0
#endif
#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTOR
#define VECTOR 8
#endif
#define ROWS (THREADS < 128 ? 128 / THREADS : 1)  // that a block works on

__device__ __forceinline__ unsigned short f32_to_bf16(float v) {
    unsigned short r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
}

struct bf16 {
    unsigned short bits;
};
__device__ __forceinline__ float to_float(bf16 h) { return __int_as_float((int)h.bits << 16); }
__device__ __forceinline__ bf16 to_bf16(float v) { return bf16{f32_to_bf16(v)}; }

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

// From compute capability 9.0 on, the blocks of a cluster run together and reach each other's shared memory.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#else
#define IN_CLUSTERS
#endif

// Waits for all threads of the cluster; what they wrote before can be read after.
__device__ __forceinline__ void meet_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// Writes to where `mine` is in the shared memory of another block of the cluster.
__device__ __forceinline__ void give_to_block(int block, long long* mine, long long value) {
#if __CUDA_ARCH__ >= 900
    unsigned there;
    const unsigned here = (unsigned)__cvta_generic_to_shared(mine);
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(block));
    asm volatile("st.shared::cluster.b64 [%0], %1;" ::"r"(there), "l"(value) : "memory");
#endif
}

// What each block of a cluster has to give to all of them.
struct ClusterSlots {
    long long bits[2][CLUSTER];
    template <class T>
    __device__ __forceinline__ T first(int block) const {
        return *(const T*)&bits[0][block];
    }
    template <class T>
    __device__ __forceinline__ T second(int block) const {
        return *(const T*)&bits[1][block];
    }
};
template <class T>
__device__ __forceinline__ long long as_bits(T v) {
    union {
        T value;
        long long bits;
    } u;
    u.bits = 0;
    u.value = v;
    return u.bits;
}
// Gives a pair to all blocks. Two slots in turn: who still reads one has not yet met the others over the next.
template <int kBlocks, class T>
__device__ __forceinline__ void exchange(ClusterSlots& slots, T a, T b) {
    if (threadIdx.x < kBlocks) {
        give_to_block(threadIdx.x, &slots.bits[0][blockIdx.x % kBlocks], as_bits(a));
        give_to_block(threadIdx.x, &slots.bits[1][blockIdx.x % kBlocks], as_bits(b));
    }
    meet_cluster();
}

// f over the values of all threads of a cluster, kThreads a block; each of them gets it.
template <int kThreads, int kBlocks, class T, class F>
__device__ __forceinline__ T fold_cluster(T v, void* partial, ClusterSlots (&slots)[2], int& turn, F f) {
    v = fold<kThreads>(v, partial, f);
    exchange<kBlocks>(slots[turn], v, v);
    v = slots[turn].template first<T>(0);
    #pragma unroll
    for (int b = 1; b < kBlocks; ++b) v = (T)f(v, slots[turn].template first<T>(b));
    turn ^= 1;
    return v;
}

// Elements of a row that fall to a block, which takes kStep at a time in turn with the others of its cluster.
template <int kStep, int kBlocks>
__device__ __forceinline__ Index part_of_row(Index extent, int block) {
    const Index rest = extent % (kStep * kBlocks) - block * kStep;
    return extent / (kStep * kBlocks) * kStep + (rest < 0 ? 0 : rest < kStep ? rest : kStep);
}

// The squared deviations from `centre` of n elements with this sum, of which `squares` are those from their own mean
// (Chan, Golub and LeVeque). An infinite sum stays: what overflows with it would make it NaN.
template <class T, class N>
__device__ __forceinline__ T deviations_from(T sum, T squares, N n, T centre) {
    const T away = sum / (T)n - centre;
    return n > 0 && squares != (T)__longlong_as_double(0x7ff0000000000000LL) ? squares + (T)n * (away * away) : squares;
}

// A pack that no one reads again: past the L1 cache, which has better use for its space.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_once(const T* p) {
    if constexpr (sizeof(Pack<T, N>) == 16) {
        Pack<T, N> r;
        unsigned* const w = (unsigned*)&r;
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                     : "l"(p));
        return r;
    } else {
        return load_pack<N>(p);
    }
}

// A pack that no one reads soon: it leaves the L2 cache first.
template <int N, class T>
__device__ __forceinline__ void store_once(T* p, const Pack<T, N>& v) {
    if constexpr (sizeof(Pack<T, N>) == 16) {
        const unsigned* const w = (const unsigned*)&v;
        asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                     : "memory");
    } else {
        store_pack(p, v);
    }
}

// Starts a copy of 16 bytes to shared memory that passes by the registers; of them only the first `bytes` are read,
// the others become 0.
__device__ __forceinline__ void copy_async(void* to, const void* from, unsigned bytes) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <unsigned kLeft>
__device__ __forceinline__ void wait_copies() {  // for all groups but the latest kLeft
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// One thread a point.
extern "C" __global__ void layer_norm_kernel_short(
        const bf16* __restrict__ x, const bf16* __restrict__ scale, const bf16* __restrict__ bias,
        float* __restrict__ centre, float* __restrict__ inv_std, bf16* __restrict__ y, Index n_a0, Index n_r0) {
    for (Index point = blockIdx.x * (Index)blockDim.x + threadIdx.x;
         point < n_a0;
         point += (Index)gridDim.x * blockDim.x) {
        const Index a0 = point;
        float total = 0.0f;
        for (Index r0 = 0; r0 < n_r0; ++r0) {
            const float x_value = to_float(x[a0 * n_r0 + r0]);
            total += x_value;
        }
        const float centre_value = total / (float)n_r0;
        centre[a0] = centre_value;
        float total2 = 0.0f;
        for (Index r0 = 0; r0 < n_r0; ++r0) {
            const float x_value = to_float(x[a0 * n_r0 + r0]);
            const float t = x_value - centre_value;
            total2 += t * t;
        }
        const float inv_std_value = 1.0f / sqrtf(total2 / (float)n_r0 + 1e-05f);
        inv_std[a0] = inv_std_value;
        for (Index r0 = 0; r0 < n_r0; ++r0) {
            const float x_value = to_float(x[a0 * n_r0 + r0]);
            const float t = x_value - centre_value;
            const float scale_value = to_float(scale[r0]);
            const float bias_value = to_float(bias[r0]);
            y[a0 * n_r0 + r0] = to_bf16(t * inv_std_value * scale_value + bias_value);
        }
    }
}

// A row stays in registers: it is read once, whatever the number of passes over it.
extern "C" __global__ void __launch_bounds__(THREADS * ROWS, BLOCKS) layer_norm_kernel(
        const bf16* __restrict__ x, const bf16* __restrict__ scale, const bf16* __restrict__ bias,
        float* __restrict__ centre, float* __restrict__ inv_std, bf16* __restrict__ y, Index n_a0, Index n_r0) {
    const int lane = threadIdx.x % THREADS;  // of those that share a row
    __shared__ long long partial[64];
    for (Index row = blockIdx.x * (Index)ROWS + threadIdx.x / THREADS; row < n_a0; row += (Index)gridDim.x * ROWS) {
        const Index a0 = row;
        Pack<bf16, VECTOR> x_row[ITEMS];
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                x_row[i] = load_once<VECTOR>(&x[a0 * n_r0 + r0]);
            }
        }
        float total = 0.0f;
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = to_float(x_row[i].at[v]);
                    total += x_value;
                }
            }
        }
        total = fold<THREADS>(total, partial, [](float a, float b) { return a + b; });
        const float centre_value = total / (float)n_r0;
        if (lane == 0) centre[a0] = centre_value;
        float total2 = 0.0f;
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = to_float(x_row[i].at[v]);
                    const float t = x_value - centre_value;
                    total2 += t * t;
                }
            }
        }
        total2 = fold<THREADS>(total2, partial, [](float a, float b) { return a + b; });
        const float inv_std_value = 1.0f / sqrtf(total2 / (float)n_r0 + 1e-05f);
        if (lane == 0) inv_std[a0] = inv_std_value;
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                const auto scale_pack = load_pack<VECTOR>(&scale[r0]);
                const auto bias_pack = load_pack<VECTOR>(&bias[r0]);
                Pack<bf16, VECTOR> y_pack;
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = to_float(x_row[i].at[v]);
                    const float scale_value = to_float(scale_pack.at[v]);
                    const float bias_value = to_float(bias_pack.at[v]);
                    const float t = x_value - centre_value;
                    y_pack.at[v] = to_bf16(t * inv_std_value * scale_value + bias_value);
                }
                store_once(&y[a0 * n_r0 + r0], y_pack);
            }
        }
    }
}

// For rows longer than what registers hold: the rest of the row is in shared memory, and it is still read once.
extern "C" __global__ void __launch_bounds__(THREADS * ROWS, BLOCKS) layer_norm_kernel_shared(
        const bf16* __restrict__ x, const bf16* __restrict__ scale, const bf16* __restrict__ bias,
        float* __restrict__ centre, float* __restrict__ inv_std, bf16* __restrict__ y, Index n_a0, Index n_r0) {
    const int lane = threadIdx.x % THREADS;  // of those that share a row
    __shared__ long long partial[64];
    extern __shared__ __align__(128) unsigned char shared[];
    for (Index row = blockIdx.x * (Index)ROWS + threadIdx.x / THREADS; row < n_a0; row += (Index)gridDim.x * ROWS) {
        const Index a0 = row;
        Pack<bf16, VECTOR> x_row[ITEMS];
        Pack<bf16, VECTOR>* const x_rest = (Pack<bf16, VECTOR>*)shared + lane;  // packs beyond ITEMS, THREADS apart
        #pragma unroll
        for (int i = 0; i < SHARED; ++i) {
            const Index r0 = ((ITEMS + i) * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                copy_async(&x_rest[i * THREADS], &x[a0 * n_r0 + r0], 16);
            }
        }
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                x_row[i] = load_once<VECTOR>(&x[a0 * n_r0 + r0]);
            }
        }
        commit_copies();
        wait_copies<0>();  // each thread reads what it has copied itself: no barrier
        float total = 0.0f;
        #pragma unroll
        for (int i = 0; i < ITEMS + SHARED; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                const auto x_pack = i < ITEMS ? x_row[i] : x_rest[(i - ITEMS) * THREADS];
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = to_float(x_pack.at[v]);
                    total += x_value;
                }
            }
        }
        total = fold<THREADS>(total, partial, [](float a, float b) { return a + b; });
        const float centre_value = total / (float)n_r0;
        if (lane == 0) centre[a0] = centre_value;
        float total2 = 0.0f;
        #pragma unroll
        for (int i = 0; i < ITEMS + SHARED; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                const auto x_pack = i < ITEMS ? x_row[i] : x_rest[(i - ITEMS) * THREADS];
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = to_float(x_pack.at[v]);
                    const float t = x_value - centre_value;
                    total2 += t * t;
                }
            }
        }
        total2 = fold<THREADS>(total2, partial, [](float a, float b) { return a + b; });
        const float inv_std_value = 1.0f / sqrtf(total2 / (float)n_r0 + 1e-05f);
        if (lane == 0) inv_std[a0] = inv_std_value;
        #pragma unroll
        for (int i = 0; i < ITEMS + SHARED; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                const auto x_pack = i < ITEMS ? x_row[i] : x_rest[(i - ITEMS) * THREADS];
                const auto scale_pack = load_pack<VECTOR>(&scale[r0]);
                const auto bias_pack = load_pack<VECTOR>(&bias[r0]);
                Pack<bf16, VECTOR> y_pack;
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = to_float(x_pack.at[v]);
                    const float scale_value = to_float(scale_pack.at[v]);
                    const float bias_value = to_float(bias_pack.at[v]);
                    const float t = x_value - centre_value;
                    y_pack.at[v] = to_bf16(t * inv_std_value * scale_value + bias_value);
                }
                store_once(&y[a0 * n_r0 + r0], y_pack);
            }
        }
    }
}

// For rows longer still: CLUSTER blocks share a row, which stays in their registers, and what goes with its columns
// stays in their L1 caches.
extern "C" __global__ void IN_CLUSTERS
    __launch_bounds__(THREADS * ROWS, BLOCKS) layer_norm_kernel_cluster(
        const bf16* __restrict__ x, const bf16* __restrict__ scale, const bf16* __restrict__ bias,
        float* __restrict__ centre, float* __restrict__ inv_std, bf16* __restrict__ y, Index n_a0, Index n_r0) {
    const int lane = blockIdx.x % CLUSTER * THREADS + threadIdx.x;  // of the cluster, which shares a row
    __shared__ long long partial[64];
    __shared__ ClusterSlots slots[2];  // used in turn
    int turn = 0;
    meet_cluster();  // all blocks are there
    for (Index row = blockIdx.x / CLUSTER; row < n_a0; row += gridDim.x / CLUSTER) {
        const Index a0 = row;
        Pack<bf16, VECTOR> x_row[ITEMS];
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * (THREADS * CLUSTER) + lane) * VECTOR;
            if (r0 < n_r0) {
                x_row[i] = load_once<VECTOR>(&x[a0 * n_r0 + r0]);
            }
        }
        float total = 0.0f;
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * (THREADS * CLUSTER) + lane) * VECTOR;
            if (r0 < n_r0) {
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = to_float(x_row[i].at[v]);
                    total += x_value;
                }
            }
        }
        total = fold<THREADS>(total, partial, [](float a, float b) { return a + b; });
        // Of this block's part of the row; then of the row, by one exchange.
        const float part_mean = total / (float)part_of_row<THREADS * VECTOR, CLUSTER>(n_r0, blockIdx.x % CLUSTER);
        float total2 = 0.0f;
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * (THREADS * CLUSTER) + lane) * VECTOR;
            if (r0 < n_r0) {
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = to_float(x_row[i].at[v]);
                    const float t = x_value - part_mean;
                    total2 += t * t;
                }
            }
        }
        total2 = fold<THREADS>(total2, partial, [](float a, float b) { return a + b; });
        const ClusterSlots& slots_of_row = slots[turn];
        exchange<CLUSTER>(slots[turn], total, total2);
        turn ^= 1;
        total = 0;
        #pragma unroll
        for (int block = 0; block < CLUSTER; ++block) total += slots_of_row.first<float>(block);
        const float centre_value = total / (float)n_r0;
        if (lane == 0) centre[a0] = centre_value;
        float squares = 0;
        #pragma unroll
        for (int block = 0; block < CLUSTER; ++block) {
            squares += deviations_from(slots_of_row.first<float>(block), slots_of_row.second<float>(block),
                part_of_row<THREADS * VECTOR, CLUSTER>(n_r0, block), centre_value);
        }
        const float inv_std_value = 1.0f / sqrtf(squares / (float)n_r0 + 1e-05f);
        if (lane == 0) inv_std[a0] = inv_std_value;
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * (THREADS * CLUSTER) + lane) * VECTOR;
            if (r0 < n_r0) {
                const auto scale_pack = load_pack<VECTOR>(&scale[r0]);
                const auto bias_pack = load_pack<VECTOR>(&bias[r0]);
                Pack<bf16, VECTOR> y_pack;
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = to_float(x_row[i].at[v]);
                    const float scale_value = to_float(scale_pack.at[v]);
                    const float bias_value = to_float(bias_pack.at[v]);
                    const float t = x_value - centre_value;
                    y_pack.at[v] = to_bf16(t * inv_std_value * scale_value + bias_value);
                }
                store_once(&y[a0 * n_r0 + r0], y_pack);
            }
        }
    }
}

// Rows longer than what a multiprocessor holds: every pass reads the row again, from the second on mostly out of the
// L2 cache.
extern "C" __global__ void __launch_bounds__(THREADS * ROWS, 1) layer_norm_kernel_long(
        const bf16* __restrict__ x, const bf16* __restrict__ scale, const bf16* __restrict__ bias,
        float* __restrict__ centre, float* __restrict__ inv_std, bf16* __restrict__ y, Index n_a0, Index n_r0) {
    const int lane = threadIdx.x % THREADS;  // of those that share a row
    __shared__ long long partial[64];
    for (Index row = blockIdx.x * (Index)ROWS + threadIdx.x / THREADS; row < n_a0; row += (Index)gridDim.x * ROWS) {
        const Index a0 = row;
        float total = 0.0f;
        #pragma unroll 4
        for (Index r0 = lane * VECTOR; r0 < n_r0; r0 += THREADS * VECTOR) {
            const auto x_pack = load_pack<VECTOR>(&x[a0 * n_r0 + r0]);
            #pragma unroll
            for (int v = 0; v < VECTOR; ++v) {
                const float x_value = to_float(x_pack.at[v]);
                total += x_value;
            }
        }
        total = fold<THREADS>(total, partial, [](float a, float b) { return a + b; });
        const float centre_value = total / (float)n_r0;
        if (lane == 0) centre[a0] = centre_value;
        float total2 = 0.0f;
        #pragma unroll 4
        for (Index r0 = lane * VECTOR; r0 < n_r0; r0 += THREADS * VECTOR) {
            const auto x_pack = load_pack<VECTOR>(&x[a0 * n_r0 + r0]);
            #pragma unroll
            for (int v = 0; v < VECTOR; ++v) {
                const float x_value = to_float(x_pack.at[v]);
                const float t = x_value - centre_value;
                total2 += t * t;
            }
        }
        total2 = fold<THREADS>(total2, partial, [](float a, float b) { return a + b; });
        const float inv_std_value = 1.0f / sqrtf(total2 / (float)n_r0 + 1e-05f);
        if (lane == 0) inv_std[a0] = inv_std_value;
        #pragma unroll 4
        for (Index r0 = lane * VECTOR; r0 < n_r0; r0 += THREADS * VECTOR) {
            const auto x_pack = load_pack<VECTOR>(&x[a0 * n_r0 + r0]);
            const auto scale_pack = load_pack<VECTOR>(&scale[r0]);
            const auto bias_pack = load_pack<VECTOR>(&bias[r0]);
            Pack<bf16, VECTOR> y_pack;
            #pragma unroll
            for (int v = 0; v < VECTOR; ++v) {
                const float x_value = to_float(x_pack.at[v]);
                const float scale_value = to_float(scale_pack.at[v]);
                const float bias_value = to_float(bias_pack.at[v]);
                const float t = x_value - centre_value;
                y_pack.at[v] = to_bf16(t * inv_std_value * scale_value + bias_value);
            }
            store_pack(&y[a0 * n_r0 + r0], y_pack);
        }
    }
}

