// sobel: Edge magnitude by the Sobel filter.
//
//     v[h,w] = sum[m,n](x[h + m - 1,w + n - 1] outside mirror * k[m,n])
//     u[h,w] = sum[m,n](x[h + m - 1,w + n - 1] outside mirror * k_2[m,n])
//     y[h,w] = sqrt((v[h,w] * v[h,w] + u[h,w] * u[h,w]) * 0.5)
//
// Reads 4*h*w + 72 bytes and writes 4*h*w: (8*h*w + 72) / 4.28e12 s at least, at what an H200 copies. Operations:
// 41*h*w: 41*h*w / 6.7e13 s at least, at what its f32 units do.
//
// sobel_kernel: element-wise: 4 neighbouring elements a thread, 512 threads a block.
//   x: coalesced, side by side along w, an element at a time.
//   x, y: coalesced, side by side along w, up to 16 bytes a thread.
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

// The remainder of division toward zero; by 0 it gives 0.
template <class T>
__device__ __forceinline__ T remainder_of(T a, T b) {
    return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}

// The remainder with the sign of the divisor; by 0 it gives 0.
template <class T>
__device__ __forceinline__ T floor_mod(T a, T b) {
    const T r = remainder_of(a, b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? T(r + b) : r;
}

// Position i mirrored at the edges of 0 .. n-1, which are repeated: 1 0 [0 1 2 3] 3 2.
__device__ __forceinline__ long long mirrored(long long i, long long n) {
    const long long period = 2 * n, m = floor_mod(i, period);
    return period - 1 - m < m ? period - 1 - m : m;
}

// Each thread computes VECTOR neighbouring elements along w; neighbouring threads take neighbouring groups of them, so
// every access of a warp is one contiguous piece.
extern "C" __global__ void __launch_bounds__(512) sobel_kernel(const float* x, float* y, Index H, Index W) {
    await_earlier<VECTOR>(H * W, x);
    for (Index point = blockIdx.x * (Index)blockDim.x + threadIdx.x;
         point < H * W / VECTOR;
         point += (Index)gridDim.x * blockDim.x) {
        const Index w = point % (W / VECTOR) * VECTOR;
        const Index h = point / (W / VECTOR);
        const Index at = (Index)mirrored(h - 1, H);
        const auto x_pack = load_pack<VECTOR>(&x[at * W + w]);
        const auto x_pack2 = load_pack<VECTOR>(&x[h * W + w]);
        const Index at2 = (Index)mirrored(h + 1, H);
        const auto x_pack3 = load_pack<VECTOR>(&x[at2 * W + w]);
        Pack<float, VECTOR> y_pack;
        #pragma unroll
        for (int v = 0; v < VECTOR; ++v) {
            const float x_value = x_pack.at[v];
            const float x_value2 = x_pack2.at[v];
            const float x_value3 = x_pack3.at[v];
            const Index at3 = (Index)mirrored(w + v - 1, W);
            const float x_value4 = x[at * W + at3];
            const float t = x_value4 * -0.25f;
            const Index at4 = (Index)mirrored(w + v + 1, W);
            const float x_value5 = x[at * W + at4];
            const float x_value6 = x[h * W + at3];
            const float t2 = x_value2 * 0.0f;
            const float x_value7 = x[h * W + at4];
            const float t3 = t + x_value * -0.5f + x_value5 * -0.25f + x_value6 * 0.0f + t2 + x_value7 * 0.0f;
            const float x_value8 = x[at2 * W + at3];
            const float x_value9 = x[at2 * W + at4];
            const float t4 = x_value9 * 0.25f;
            const float t5 = t3 + x_value8 * 0.25f + x_value3 * 0.5f + t4;
            const float t6 = t + x_value * 0.0f + x_value5 * 0.25f + x_value6 * -0.5f + t2 + x_value7 * 0.5f;
            const float t7 = t6 + x_value8 * -0.25f + x_value3 * 0.0f + t4;
            y_pack.at[v] = sqrtf((t5 * t5 + t7 * t7) * 0.5f);
        }
        store_pack(&y[h * W + w], y_pack);
    }
}

