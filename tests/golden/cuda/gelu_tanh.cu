// gelu_tanh: The approximation of GELU by tanh.
//
//     y[i0,i1] = 0.5 * x[i0,i1] * (1 + tanh(0.7978846 * (x[i0,i1] + 0.044715 * x[i0,i1] * x[i0,i1] * x[i0,i1])))
//
// Reads 4*i0*i1 bytes and writes 4*i0*i1: 8*i0*i1 / 4.28e12 s at least, at what an H200 copies. Operations: 9*i0*i1:
// 9*i0*i1 / 6.7e13 s at least, at what its f32 units do.
//
// gelu_tanh_kernel: element-wise: 4 neighbouring elements a thread, 512 threads a block.
//   x, y: coalesced, side by side along i0i1, up to 16 bytes a thread.
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

// Each thread computes VECTOR neighbouring elements along i0i1; neighbouring threads take neighbouring groups of them,
// so every access of a warp is one contiguous piece.
extern "C" __global__ void __launch_bounds__(512) gelu_tanh_kernel(const float* x, float* y, Index n_i0, Index n_i1) {
    await_earlier<VECTOR>(n_i0 * n_i1, x);
    for (Index point = blockIdx.x * (Index)blockDim.x + threadIdx.x;
         point < n_i0 * n_i1 / VECTOR;
         point += (Index)gridDim.x * blockDim.x) {
        const Index i0i1 = point * VECTOR;
        const auto x_pack = load_pack<VECTOR>(&x[i0i1]);
        Pack<float, VECTOR> y_pack;
        #pragma unroll
        for (int v = 0; v < VECTOR; ++v) {
            const float x_value = x_pack.at[v];
            const float t = tanhf(0.7978846f * (x_value + 0.044715f * x_value * x_value * x_value));
            y_pack.at[v] = 0.5f * x_value * (1.0f + t);
        }
        store_pack(&y[i0i1], y_pack);
    }
}

