// scatter_elements: x with elements set to v at places along a dim, or combined with them: reduction none, add, mul,
// max or min.
//
//     y[n,b0] = x[n,b0]
//     y[select(at[k,f0] < 0,at[k,f0] + n,at[k,f0]),f0] := v[k,f0]
//
// Reads 4*b0*n + 12*f0*k bytes and writes 4*b0*n: (8*b0*n + 12*f0*k) / 4.28e12 s at least, at what an H200 copies.
//
// scatter_elements_kernel: element-wise: 4 neighbouring elements a thread, 512 threads a block.
//   x, y: coalesced, side by side along b0, up to 16 bytes a thread.
// scatter_elements_y_kernel: one thread a point.
//   v2: coalesced, side by side along f0.
//   y: at places that are data or computed: coalesced as far as these are neighbours.
//
// Tensors are dense and row-major. Kernels walk over their grid: any number of blocks, in x alone, gives the result.

// Positions in tensors. Compile with -DINDEX="long long" where one has 2^31 elements or more.
#ifndef INDEX
#define INDEX int
#endif
typedef INDEX Index;

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

// Each thread computes VECTOR neighbouring elements along b0; neighbouring threads take neighbouring groups of them,
// so every access of a warp is one contiguous piece.
extern "C" __global__ void __launch_bounds__(512) scatter_elements_kernel(
        const float* x, float* y, Index N, Index n_b0) {
    await_earlier<VECTOR>(N * n_b0, x);
    for (Index point = blockIdx.x * (Index)blockDim.x + threadIdx.x;
         point < N * n_b0 / VECTOR;
         point += (Index)gridDim.x * blockDim.x) {
        const Index b0 = point % (n_b0 / VECTOR) * VECTOR;
        const Index n = point / (n_b0 / VECTOR);
        const auto x_pack = load_pack<VECTOR>(&x[n * n_b0 + b0]);
        store_pack(&y[n * n_b0 + b0], x_pack);
    }
}

// One thread a point.
extern "C" __global__ void scatter_elements_y_kernel(
        const long long* __restrict__ at, const float* __restrict__ v2, float* __restrict__ y, Index n_f0, Index K,
        Index N, Index n_b0, int* fault) {
    for (Index point = blockIdx.x * (Index)blockDim.x + threadIdx.x;
         point < n_f0;
         point += (Index)gridDim.x * blockDim.x) {
        const Index f0 = point;
        for (Index k = 0; k < K; ++k) {
            const float v_value = v2[k * n_f0 + f0];
            const long long at_value = at[k * n_f0 + f0];
            const long long at2 = at_value < 0ll
                ? (long long)((unsigned long long)at_value + (unsigned long long)N)
                : at_value;
            const bool inside = at2 >= 0 && at2 < N;
            if (!inside) *fault = 1;
            if (inside) y[(Index)at2 * n_b0 + f0] = v_value;
        }
    }
}

