// transpose: Dims in another order: dim d of the result is dim perm[d] of x.
//
//     y[i2,i0,i1] = x[i0,i1,i2]
//
// Reads 4*i0*i1*i2 bytes and writes 4*i0*i1*i2: 8*i0*i1*i2 / 4.28e12 s at least, at what an H200 copies.
//
// transpose_kernel: transposed: tiles of 64 x 64 through shared memory, 16 bytes a thread.
//   x: coalesced, side by side along i2, up to 16 bytes a thread, and turned in shared memory.
//   y: coalesced, side by side along i0i1, up to 16 bytes a thread.
//
// Tensors are dense and row-major. Kernels walk over their grid: any number of blocks, in x alone, gives the result.

// Positions in tensors. Compile with -DINDEX="long long" where one has 2^31 elements or more.
#ifndef INDEX
#define INDEX int
#endif
typedef INDEX Index;

#ifndef TILE
#define TILE 64
#endif
#ifndef VECTOR
#define VECTOR 4
#endif

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

// What kernels ahead in the stream wrote can be read from here on. From compute capability 9.0 on, a kernel may be
// launched before the one ahead of it has ended (programmatic stream serialization), and lets the next one do so; after
// an ordinary launch there is nothing to wait for. Meanwhile the first blocks, of 768 threads a multiprocessor (by
// measurement), ask for their first packs of N elements of `inputs` in the L2 cache, a thread a line of 128 bytes: no
// value is read yet. Pointers are not __restrict__: a load must not move up past this.
template <int N, class... T>
__device__ __forceinline__ void await_earlier(Index elements, const T*... inputs) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    unsigned multiprocessors;
    asm("mov.u32 %0, %%nsmid;" : "=r"(multiprocessors));
    const Index first = (blockIdx.x * (Index)blockDim.x + threadIdx.x) * N;
    if (blockIdx.x * blockDim.x < multiprocessors * 768 && first < elements) {
        const auto ask = [](const void* line) { asm volatile("prefetch.global.L2 [%0];" ::"l"(line)); };
        ((threadIdx.x % (128 / sizeof(Pack<T, N>)) == 0 ? ask(inputs + first) : void()), ...);
    }
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// A block moves tiles of TILE x TILE elements through shared memory: what lies side by side along i2 is read so, and
// written so along i0i1.
extern "C" __global__ void __launch_bounds__(256) transpose_kernel(
        const float* __restrict__ x, float* __restrict__ y, Index n_i2, Index n_i0, Index n_i1) {
    constexpr int kPacks = TILE / VECTOR;  // of a line of the tile
    __shared__ Pack<float, VECTOR> x_tile[TILE][kPacks];
    const Index across = (n_i2 + TILE - 1) / TILE, down = (n_i0 * n_i1 + TILE - 1) / TILE;  // tiles
    for (Index block = blockIdx.x; block < across * down; block += gridDim.x) {
        const Index i20 = block % across * TILE, i0i10 = block / across * TILE;
        // Each thread turns VECTOR packs along i2 into VECTOR packs along i0i1. A pack's place is exclusive or'ed with
        // its line, so that neither side meets two packs in one bank.
        #pragma unroll
        for (int i = threadIdx.x; i < kPacks * kPacks; i += 256) {
            const int across_pack = i % kPacks, down_pack = i / kPacks;
            const Index i2 = i20 + across_pack * VECTOR;
            const Index i0i1 = i0i10 + down_pack * VECTOR;
            if (i2 >= n_i2 || i0i1 >= n_i0 * n_i1) continue;
            Pack<float, VECTOR> x_lines[VECTOR];
            #pragma unroll
            for (int e = 0; e < VECTOR; ++e) x_lines[e] = load_pack<VECTOR>(&x[(i0i1 + e) * n_i2 + i2]);
            #pragma unroll
            for (int j = 0; j < VECTOR; ++j) {
                Pack<float, VECTOR> turned;
                #pragma unroll
                for (int e = 0; e < VECTOR; ++e) turned.at[e] = x_lines[e].at[j];
                x_tile[across_pack * VECTOR + j][down_pack ^ across_pack] = turned;
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < TILE * kPacks; i += 256) {
            const int line = i / kPacks, pack = i % kPacks;
            const Index i2 = i20 + line;
            const Index i0i1 = i0i10 + pack * VECTOR;
            if (i2 >= n_i2 || i0i1 >= n_i0 * n_i1) continue;
            const auto x_pack = x_tile[line][pack ^ line / VECTOR];
            store_pack(&y[i2 * (n_i0 * n_i1) + i0i1], x_pack);
        }
        __syncthreads();  // the tile is free
    }
}

// Each thread computes VECTOR neighbouring elements along i0i1; neighbouring threads take neighbouring groups of them,
// so every access of a warp is one contiguous piece.
extern "C" __global__ void __launch_bounds__(512) transpose_kernel_narrow(
        const float* x, float* y, Index n_i2, Index n_i0, Index n_i1) {
    await_earlier<VECTOR>(n_i2 * n_i0 * n_i1);
    for (Index point = blockIdx.x * (Index)blockDim.x + threadIdx.x;
         point < n_i2 * n_i0 * n_i1 / VECTOR;
         point += (Index)gridDim.x * blockDim.x) {
        const Index i0i1 = point % (n_i0 * n_i1 / VECTOR) * VECTOR;
        const Index i2 = point / (n_i0 * n_i1 / VECTOR);
        Pack<float, VECTOR> y_pack;
        #pragma unroll
        for (int v = 0; v < VECTOR; ++v) {
            const float x_value = x[(i0i1 + v) * n_i2 + i2];
            y_pack.at[v] = x_value;
        }
        store_pack(&y[i2 * (n_i0 * n_i1) + i0i1], y_pack);
    }
}

