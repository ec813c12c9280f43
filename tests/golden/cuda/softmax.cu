// softmax: exp(x) over its sum along `axes`, shifted by the maximum so that nothing overflows.
//
//     m[o0] = max[r0](x[o0,r0])
//     e[o0,r0] = exp(x[o0,r0] - m[o0])
//     s[o0] = sum[r0](e[o0,r0])
//     y[o0,r0] = e[o0,r0] / s[o0]
//
// Reads 4*o0*r0 bytes and writes 4*o0*r0: 8*o0*r0 / 4.28e12 s at least, at what an H200 copies. Operations: 5*o0*r0:
// 5*o0*r0 / 6.7e13 s at least, at what its f32 units do.
//
// softmax_kernel: rows: a warp or block each, kept in registers, folded by shuffles.
//   x, y: coalesced, side by side along r0, up to 16 bytes a thread.
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

// The larger of two floats: a NaN where one is, and +0 above -0.
__device__ __forceinline__ float max_float(float a, float b) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

// Many divisions by one number: its reciprocal, and one step of Newton's method for each quotient, which then is that
// of the division itself. The scale keeps the reciprocal in the range of normal numbers; small numerators are enlarged,
// so that what the step looks at does not vanish below the subnormal numbers.
struct Divisor {
    float scale, number, reciprocal;
};
__device__ __forceinline__ Divisor divisor(float d) {
    const float size = fabsf(d);
    const float scale = size < 1.17549435e-38f ? 1.84467441e+19f : size > 8.50705917e+37f ? 5.42101086e-20f : 1.0f;
    const float number = d * scale;
    return {scale, size <= 3.40282347e+38f ? number : 0.0f, 1.0f / number};
}
__device__ __forceinline__ float divide_by(float a, Divisor d) {
    const bool small = fabsf(a) < 1e-30f;
    const float up = small ? 1.84467441e+19f : 1.0f, down = small ? 5.42101086e-20f : 1.0f;
    const float scaled = a * up * d.scale, reciprocal = d.reciprocal * down;
    const float q = scaled * d.reciprocal * down;
    const float better = fmaf(fmaf(-q * up, d.number, scaled), reciprocal, q);
    return copysignf(better == better ? better : q, q);  // q itself where it is infinite
}
__device__ __forceinline__ float multiply_by(float a, Divisor d) {  // without that step, for 16-bit results
    return a * d.scale * d.reciprocal;
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
extern "C" __global__ void softmax_kernel_short(
        const float* __restrict__ x, float* __restrict__ y, Index n_o0, Index n_r0) {
    for (Index point = blockIdx.x * (Index)blockDim.x + threadIdx.x;
         point < n_o0;
         point += (Index)gridDim.x * blockDim.x) {
        const Index o0 = point;
        float largest = -__int_as_float(0x7f800000);
        for (Index r0 = 0; r0 < n_r0; ++r0) {
            const float x_value = x[o0 * n_r0 + r0];
            largest = max_float(largest, x_value);
        }
        const float m = largest;
        float total = 0.0f;
        for (Index r0 = 0; r0 < n_r0; ++r0) {
            const float x_value = x[o0 * n_r0 + r0];
            total += expf(x_value - m);
        }
        const float s = total;
        for (Index r0 = 0; r0 < n_r0; ++r0) {
            const float x_value = x[o0 * n_r0 + r0];
            const float t = expf(x_value - m);
            y[o0 * n_r0 + r0] = t / s;
        }
    }
}

// A row stays in registers, and so does what several passes need of it: it is read and computed once.
extern "C" __global__ void __launch_bounds__(THREADS * ROWS, BLOCKS) softmax_kernel(
        const float* __restrict__ x, float* __restrict__ y, Index n_o0, Index n_r0) {
    const int lane = threadIdx.x % THREADS;  // of those that share a row
    __shared__ long long partial[64];
    for (Index row = blockIdx.x * (Index)ROWS + threadIdx.x / THREADS; row < n_o0; row += (Index)gridDim.x * ROWS) {
        const Index o0 = row;
        Pack<float, VECTOR> x_row[ITEMS];
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                x_row[i] = load_once<VECTOR>(&x[o0 * n_r0 + r0]);
            }
        }
        float largest = -__int_as_float(0x7f800000);
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = x_row[i].at[v];
                    largest = max_float(largest, x_value);
                }
            }
        }
        largest = fold<THREADS>(largest, partial, [](float a, float b) { return max_float(a, b); });
        const float m = largest;
        float total = 0.0f;
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                Pack<float, VECTOR> kept;
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = x_row[i].at[v];
                    kept.at[v] = expf(x_value - m);
                    total += kept.at[v];
                }
                x_row[i] = kept;
            }
        }
        total = fold<THREADS>(total, partial, [](float a, float b) { return a + b; });
        const float s = total;
        const Divisor by = divisor(s);
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                Pack<float, VECTOR> y_pack;
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    y_pack.at[v] = divide_by(x_row[i].at[v], by);
                }
                store_once(&y[o0 * n_r0 + r0], y_pack);
            }
        }
    }
}

// For rows longer than what registers hold: the rest of the row is in shared memory, and it is still read once.
extern "C" __global__ void __launch_bounds__(THREADS * ROWS, BLOCKS) softmax_kernel_shared(
        const float* __restrict__ x, float* __restrict__ y, Index n_o0, Index n_r0) {
    const int lane = threadIdx.x % THREADS;  // of those that share a row
    __shared__ long long partial[64];
    extern __shared__ __align__(128) unsigned char shared[];
    for (Index row = blockIdx.x * (Index)ROWS + threadIdx.x / THREADS; row < n_o0; row += (Index)gridDim.x * ROWS) {
        const Index o0 = row;
        Pack<float, VECTOR> x_row[ITEMS];
        Pack<float, VECTOR>* const x_rest = (Pack<float, VECTOR>*)shared + lane;  // packs beyond ITEMS, THREADS apart
        #pragma unroll
        for (int i = 0; i < SHARED; ++i) {
            const Index r0 = ((ITEMS + i) * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                copy_async(&x_rest[i * THREADS], &x[o0 * n_r0 + r0], 16);
            }
        }
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                x_row[i] = load_once<VECTOR>(&x[o0 * n_r0 + r0]);
            }
        }
        commit_copies();
        wait_copies<0>();  // each thread reads what it has copied itself: no barrier
        float largest = -__int_as_float(0x7f800000);
        #pragma unroll
        for (int i = 0; i < ITEMS + SHARED; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                const auto x_pack = i < ITEMS ? x_row[i] : x_rest[(i - ITEMS) * THREADS];
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = x_pack.at[v];
                    largest = max_float(largest, x_value);
                }
            }
        }
        largest = fold<THREADS>(largest, partial, [](float a, float b) { return max_float(a, b); });
        const float m = largest;
        float total = 0.0f;
        #pragma unroll
        for (int i = 0; i < ITEMS + SHARED; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                const auto x_pack = i < ITEMS ? x_row[i] : x_rest[(i - ITEMS) * THREADS];
                Pack<float, VECTOR> kept;
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = x_pack.at[v];
                    kept.at[v] = expf(x_value - m);
                    total += kept.at[v];
                }
                if (i < ITEMS) x_row[i] = kept;
                else x_rest[(i - ITEMS) * THREADS] = kept;
            }
        }
        total = fold<THREADS>(total, partial, [](float a, float b) { return a + b; });
        const float s = total;
        const Divisor by = divisor(s);
        #pragma unroll
        for (int i = 0; i < ITEMS + SHARED; ++i) {
            const Index r0 = (i * THREADS + lane) * VECTOR;
            if (r0 < n_r0) {
                const auto kept = i < ITEMS ? x_row[i] : x_rest[(i - ITEMS) * THREADS];
                Pack<float, VECTOR> y_pack;
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    y_pack.at[v] = divide_by(kept.at[v], by);
                }
                store_once(&y[o0 * n_r0 + r0], y_pack);
            }
        }
    }
}

// For rows longer still: CLUSTER blocks share a row, which stays in their registers, and what goes with its columns
// stays in their L1 caches.
extern "C" __global__ void IN_CLUSTERS
    __launch_bounds__(THREADS * ROWS, BLOCKS) softmax_kernel_cluster(
        const float* __restrict__ x, float* __restrict__ y, Index n_o0, Index n_r0) {
    const int lane = blockIdx.x % CLUSTER * THREADS + threadIdx.x;  // of the cluster, which shares a row
    __shared__ long long partial[64];
    __shared__ ClusterSlots slots[2];  // used in turn
    int turn = 0;
    meet_cluster();  // all blocks are there
    for (Index row = blockIdx.x / CLUSTER; row < n_o0; row += gridDim.x / CLUSTER) {
        const Index o0 = row;
        Pack<float, VECTOR> x_row[ITEMS];
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * (THREADS * CLUSTER) + lane) * VECTOR;
            if (r0 < n_r0) {
                x_row[i] = load_once<VECTOR>(&x[o0 * n_r0 + r0]);
            }
        }
        float largest = -__int_as_float(0x7f800000);
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * (THREADS * CLUSTER) + lane) * VECTOR;
            if (r0 < n_r0) {
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = x_row[i].at[v];
                    largest = max_float(largest, x_value);
                }
            }
        }
        largest = fold_cluster<THREADS, CLUSTER>(largest, partial, slots, turn, [](float a, float b) { return max_float(a, b); });
        const float m = largest;
        float total = 0.0f;
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * (THREADS * CLUSTER) + lane) * VECTOR;
            if (r0 < n_r0) {
                Pack<float, VECTOR> kept;
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    const float x_value = x_row[i].at[v];
                    kept.at[v] = expf(x_value - m);
                    total += kept.at[v];
                }
                x_row[i] = kept;
            }
        }
        total = fold_cluster<THREADS, CLUSTER>(total, partial, slots, turn, [](float a, float b) { return a + b; });
        const float s = total;
        const Divisor by = divisor(s);
        #pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Index r0 = (i * (THREADS * CLUSTER) + lane) * VECTOR;
            if (r0 < n_r0) {
                Pack<float, VECTOR> y_pack;
                #pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    y_pack.at[v] = divide_by(x_row[i].at[v], by);
                }
                store_once(&y[o0 * n_r0 + r0], y_pack);
            }
        }
    }
}

// Rows longer than what a multiprocessor holds: every pass reads the row again, from the second on mostly out of the
// L2 cache.
extern "C" __global__ void __launch_bounds__(THREADS * ROWS, 1) softmax_kernel_long(
        const float* __restrict__ x, float* __restrict__ y, Index n_o0, Index n_r0) {
    const int lane = threadIdx.x % THREADS;  // of those that share a row
    __shared__ long long partial[64];
    for (Index row = blockIdx.x * (Index)ROWS + threadIdx.x / THREADS; row < n_o0; row += (Index)gridDim.x * ROWS) {
        const Index o0 = row;
        float largest = -__int_as_float(0x7f800000);
        #pragma unroll 4
        for (Index r0 = lane * VECTOR; r0 < n_r0; r0 += THREADS * VECTOR) {
            const auto x_pack = load_pack<VECTOR>(&x[o0 * n_r0 + r0]);
            #pragma unroll
            for (int v = 0; v < VECTOR; ++v) {
                const float x_value = x_pack.at[v];
                largest = max_float(largest, x_value);
            }
        }
        largest = fold<THREADS>(largest, partial, [](float a, float b) { return max_float(a, b); });
        const float m = largest;
        float total = 0.0f;
        #pragma unroll 4
        for (Index r0 = lane * VECTOR; r0 < n_r0; r0 += THREADS * VECTOR) {
            const auto x_pack = load_pack<VECTOR>(&x[o0 * n_r0 + r0]);
            #pragma unroll
            for (int v = 0; v < VECTOR; ++v) {
                const float x_value = x_pack.at[v];
                total += expf(x_value - m);
            }
        }
        total = fold<THREADS>(total, partial, [](float a, float b) { return a + b; });
        const float s = total;
        const Divisor by = divisor(s);
        #pragma unroll 4
        for (Index r0 = lane * VECTOR; r0 < n_r0; r0 += THREADS * VECTOR) {
            const auto x_pack = load_pack<VECTOR>(&x[o0 * n_r0 + r0]);
            Pack<float, VECTOR> y_pack;
            #pragma unroll
            for (int v = 0; v < VECTOR; ++v) {
                const float x_value = x_pack.at[v];
                const float t = expf(x_value - m);
                y_pack.at[v] = divide_by(t, by);
            }
            store_pack(&y[o0 * n_r0 + r0], y_pack);
        }
    }
}

