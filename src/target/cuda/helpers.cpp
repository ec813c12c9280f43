// The helpers that generated files carry.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "target/cuda/functions.h"

namespace opwright::target::cuda {
namespace {

struct Helper {
    const char* name;
    std::vector<const char*> needs;
    bool by_ptx;  // left out under emulation
    const char* text;
};

// In an order in which each stands after those it needs.
const std::vector<Helper>& library() {
    static const std::vector<Helper> all{
        {"f32_to_f16", {}, true, R"(// The 16-bit floats lie in memory as their bits; arithmetic is in float.
__device__ __forceinline__ float f16_to_f32(unsigned short bits) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
    return r;
}
__device__ __forceinline__ unsigned short f32_to_f16(float v) {
    unsigned short r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
}
)"},
        {"f16", {"f32_to_f16"}, false, R"(struct f16 {
    unsigned short bits;
};
__device__ __forceinline__ float to_float(f16 h) { return f16_to_f32(h.bits); }
__device__ __forceinline__ f16 to_f16(float v) { return f16{f32_to_f16(v)}; }
)"},
        {"f32_to_bf16", {}, true, R"(__device__ __forceinline__ unsigned short f32_to_bf16(float v) {
    unsigned short r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
}
)"},
        {"bf16", {"f32_to_bf16"}, false, R"(struct bf16 {
    unsigned short bits;
};
__device__ __forceinline__ float to_float(bf16 h) { return __int_as_float((int)h.bits << 16); }
__device__ __forceinline__ bf16 to_bf16(float v) { return bf16{f32_to_bf16(v)}; }
)"},
        {"Pack", {}, false, R"(// N elements that one instruction moves: 16 bytes at most.
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
)"},
        {"await_earlier", {"Pack"}, false, R"(// What kernels ahead in the stream wrote can be read from here on. From compute capability 9.0 on, a kernel may be
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
)"},
        {"row_mask", {}, false, R"(// The lanes of this thread's warp that share its row.
template <int kThreads>
__device__ __forceinline__ unsigned row_mask() {
    return kThreads >= 32 ? 0xffffffffu : ((1u << kThreads % 32) - 1u) << (threadIdx.x % 32 / kThreads * kThreads);
}
)"},
        {"fold",
         {"row_mask"},
         false,
         R"(// f over the values of the kThreads threads that share a row; each of them gets it. `partial` is shared memory for one
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
)"},
        {"IN_CLUSTERS", {}, true, R"(// From compute capability 9.0 on, the blocks of a cluster run together and reach each other's shared memory.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#else
#define IN_CLUSTERS
#endif
)"},
        {"meet_cluster", {}, true, R"(// Waits for all threads of the cluster; what they wrote before can be read after.
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
)"},
        {"exchange", {"meet_cluster"}, false, R"(// What each block of a cluster has to give to all of them.
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
)"},
        {"fold_cluster",
         {"fold", "exchange"},
         false,
         R"(// f over the values of all threads of a cluster, kThreads a block; each of them gets it.
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
)"},
        {"part_of_row", {}, false, R"(// Elements of a row that fall to a block, which takes kStep at a time in turn with the others of its cluster.
template <int kStep, int kBlocks>
__device__ __forceinline__ Index part_of_row(Index extent, int block) {
    const Index rest = extent % (kStep * kBlocks) - block * kStep;
    return extent / (kStep * kBlocks) * kStep + (rest < 0 ? 0 : rest < kStep ? rest : kStep);
}
)"},
        {"deviations_from", {}, false, R"(// The squared deviations from `centre` of n elements with this sum, of which `squares` are those from their own mean
// (Chan, Golub and LeVeque). An infinite sum stays: what overflows with it would make it NaN.
template <class T, class N>
__device__ __forceinline__ T deviations_from(T sum, T squares, N n, T centre) {
    const T away = sum / (T)n - centre;
    return n > 0 && squares != (T)__longlong_as_double(0x7ff0000000000000LL) ? squares + (T)n * (away * away) : squares;
}
)"},
        {"load_once", {"Pack"}, true, R"(// A pack that no one reads again: past the L1 cache, which has better use for its space.
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
)"},
        {"store_once", {"Pack"}, true, R"(// A pack that no one reads soon: it leaves the L2 cache first.
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
)"},
        {"Better", {}, false, R"(// Whether v at `at` is a better winner than the best so far: a NaN is beyond every number, of equals the first or the
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
)"},
        {"fold_best",
         {"row_mask"},
         false,
         R"(// The best of the candidates that the kThreads threads of a row hold, and where it is; -1 marks a thread without one.
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
)"},
        {"limits", {}, false, R"(template <class T>
struct Limits {  // of the integer types
    static constexpr bool is_signed = T(-1) < T(0);
    static constexpr T highest = is_signed ? T((1ull << (8 * sizeof(T) - 1)) - 1) : T(~0ull);
    static constexpr T lowest = is_signed ? T(-highest - 1) : T(0);
};
)"},
        {"saturate",
         {"limits"},
         false,
         R"(// A float as an integer: toward zero, the nearest one where it is out of range, 0 for a NaN.
template <class To, class From>
__device__ __forceinline__ To saturate(From v) {
    if (v != v) return 0;
    if (v <= (From)Limits<To>::lowest) return Limits<To>::lowest;
    if (v >= (From)Limits<To>::highest) return Limits<To>::highest;
    return (To)v;
}
)"},
        {"saturate_int",
         {"limits"},
         false,
         R"(// An integer as another type of integer: the nearest one where it is out of range.
template <class To, class From>
__device__ __forceinline__ To saturate_int(From v) {
    if (v < From(0)) {
        if (!Limits<To>::is_signed) return 0;
        return (long long)v < (long long)Limits<To>::lowest ? Limits<To>::lowest : (To)v;
    }
    return (unsigned long long)v > (unsigned long long)Limits<To>::highest ? Limits<To>::highest : (To)v;
}
)"},
        {"bits_as", {}, false, R"(template <class To, class From>
__device__ __forceinline__ To bits_as(From v) {
    union {
        From from;
        To to;
    } u{v};
    return u.to;
}
)"},
        {"negative",
         {},
         true,
         R"(// -v, in two steps that no compiler looks into: CUDA 13.0 loses the sign of a negated integer under the larger of
// three (VIMNMX3 of sm_90), and compares a negated 8-bit integer with bits of its neighbour.
__device__ __forceinline__ int negative(int v) {
    int r;
    asm("{ .reg .b32 t; not.b32 t, %1; add.s32 %0, t, 1; }" : "=r"(r) : "r"(v));
    return r;
}
)"},
        {"smaller", {}, false, R"(template <class T>
__device__ __forceinline__ T smaller(T a, T b) { return b < a ? b : a; }
)"},
        {"larger", {}, false, R"(template <class T>
__device__ __forceinline__ T larger(T a, T b) { return a < b ? b : a; }
)"},
        {"max_float", {}, true, R"(// The larger of two floats: a NaN where one is, and +0 above -0.
__device__ __forceinline__ float max_float(float a, float b) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
)"},
        {"min_float", {}, true, R"(// The smaller of two floats: a NaN where one is, and -0 below +0.
__device__ __forceinline__ float min_float(float a, float b) {
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
)"},
        {"max_double", {}, false, R"(// The larger of two doubles: a NaN where one is, and +0 above -0.
__device__ __forceinline__ double max_double(double a, double b) {
    if (a != a || b != b) return a + b;
    if (a == b) return __double_as_longlong(a) < 0 ? b : a;
    return a > b ? a : b;
}
)"},
        {"min_double", {}, false, R"(// The smaller of two doubles: a NaN where one is, and -0 below +0.
__device__ __forceinline__ double min_double(double a, double b) {
    if (a != a || b != b) return a + b;
    if (a == b) return __double_as_longlong(a) < 0 ? a : b;
    return a < b ? a : b;
}
)"},
        {"short_exp", {}, true, R"(// exp with about 18 bits, for results of 16: twice as fast.
__device__ __forceinline__ float short_exp(float v) {
    float r;
    asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(v * 1.44269504f));
    return r;
}
)"},
        {"sign", {}, false, R"(template <class T>
__device__ __forceinline__ T sign(T v) { return v > T(0) ? T(1) : v < T(0) ? T(-1) : v; }  // of a NaN: itself
)"},
        {"divisor",
         {},
         false,
         R"(// Many divisions by one number: its reciprocal, and one step of Newton's method for each quotient, which then is that
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
)"},
        {"floor_mod_float", {}, false, R"(// The remainder with the sign of the divisor.
__device__ __forceinline__ float floor_mod_float(float a, float b) {
    const float r = fmodf(a, b);
    if (r == 0.0f) return copysignf(r, b);
    return (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
)"},
        {"floor_mod_double", {}, false, R"(// The remainder with the sign of the divisor.
__device__ __forceinline__ double floor_mod_double(double a, double b) {
    const double r = fmod(a, b);
    if (r == 0.0) return copysign(r, b);
    return (r < 0.0) != (b < 0.0) ? r + b : r;
}
)"},
        {"divide", {}, false, R"(// Integer division toward zero; by 0 it gives 0, and the lowest number by -1 wraps.
template <class T>
__device__ __forceinline__ T divide(T a, T b) {
    if (b == T(0)) return 0;
    if (T(-1) < T(0) && b == T(-1)) return T(0ull - (unsigned long long)a);
    return a / b;
}
)"},
        {"floor_div", {"divide"}, false, R"(// Integer division toward minus infinity; by 0 it gives 0.
template <class T>
__device__ __forceinline__ T floor_div(T a, T b) {
    const T q = divide(a, b);
    return b != T(0) && b != T(-1) && a % b != T(0) && (a < T(0)) != (b < T(0)) ? T(q - 1) : q;
}
)"},
        {"remainder_of", {}, false, R"(// The remainder of division toward zero; by 0 it gives 0.
template <class T>
__device__ __forceinline__ T remainder_of(T a, T b) {
    return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}
)"},
        {"floor_mod", {"remainder_of"}, false, R"(// The remainder with the sign of the divisor; by 0 it gives 0.
template <class T>
__device__ __forceinline__ T floor_mod(T a, T b) {
    const T r = remainder_of(a, b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? T(r + b) : r;
}
)"},
        {"power", {}, false, R"(// Powers of integers, wrapping; a negative exponent gives 0 but for the bases 1 and -1.
template <class T>
__device__ __forceinline__ T power(T base, T exponent) {
    if (exponent < T(0)) return base == T(1) ? T(1) : base == T(-1) ? (exponent & 1 ? T(-1) : T(1)) : T(0);
    unsigned long long r = 1, b = (unsigned long long)base;
    for (unsigned long long n = (unsigned long long)exponent; n; n >>= 1, b *= b)
        if (n & 1) r *= b;
    return (T)r;
}
)"},
        {"shift_left", {}, false, R"(// Shifts past the width give 0.
template <class T>
__device__ __forceinline__ T shift_left(T a, T by) {
    return (unsigned long long)by >= 8 * sizeof(T) ? T(0) : T((unsigned long long)a << by);
}
)"},
        {"shift_right", {}, false, R"(// Shifts past the width give 0, or -1 for negative numbers.
template <class T>
__device__ __forceinline__ T shift_right(T a, T by) {
    if ((unsigned long long)by >= 8 * sizeof(T)) return a < T(0) ? T(-1) : T(0);
    return a >> by;
}
)"},
        {"reflected",
         {"floor_mod"},
         false,
         R"(// Position i mirrored at the edges of 0 .. n-1, which are not repeated: 2 1 [0 1 2 3] 2 1.
__device__ __forceinline__ long long reflected(long long i, long long n) {
    const long long period = 2 * (n - 1), m = floor_mod(i, period);
    return period - m < m ? period - m : m;
}
)"},
        {"mirrored",
         {"floor_mod"},
         false,
         R"(// Position i mirrored at the edges of 0 .. n-1, which are repeated: 1 0 [0 1 2 3] 3 2.
__device__ __forceinline__ long long mirrored(long long i, long long n) {
    const long long period = 2 * n, m = floor_mod(i, period);
    return period - 1 - m < m ? period - 1 - m : m;
}
)"},
        {"clamped", {}, false, R"(// The position in 0 .. n-1 that is nearest to i.
__device__ __forceinline__ long long clamped(long long i, long long n) { return i >= n ? n - 1 : i < 0 ? 0 : i; }
)"},
        {"atomic_update",
         {},
         false,
         R"(// Replaces *p by f(*p) at once, also for types without an atomic instruction of their own: compares and swaps the
// aligned word that holds the element until no other thread came between.
template <class T, class F>
__device__ __forceinline__ void atomic_update(T* p, F f) {
    if (sizeof(T) == 8) {
        auto* word = (unsigned long long*)p;
        unsigned long long old = *word, seen;
        do {
            seen = old;
            T value;
            memcpy(&value, &seen, sizeof(T));
            value = f(value);
            unsigned long long bits = 0;
            memcpy(&bits, &value, sizeof(T));
            old = atomicCAS(word, seen, bits);
        } while (old != seen);
        return;
    }
    auto* word = (unsigned*)((unsigned long long)p & ~3ull);
    const unsigned shift = 8 * (unsigned)((unsigned long long)p & 3ull);
    const unsigned mask = (sizeof(T) == 4 ? ~0u : (1u << (8 * sizeof(T)) % 32) - 1u) << shift;
    unsigned old = *word, seen;
    do {
        seen = old;
        const unsigned part = seen >> shift;
        T value;
        memcpy(&value, &part, sizeof(T) % 8);
        value = f(value);
        unsigned bits = 0;
        memcpy(&bits, &value, sizeof(T) % 8);
        old = atomicCAS(word, seen, (seen & ~mask) | bits << shift);
    } while (old != seen);
}
)"},
        {"copy_async",
         {},
         true,
         R"(// Starts a copy of 16 bytes to shared memory that passes by the registers; of them only the first `bytes` are read,
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
)"},
        {"ldmatrix_x4",
         {},
         true,
         R"(// Four 8x8 matrices of 16-bit elements from shared memory in the layout that mma takes: lane i gives the address of
// row i % 8 of matrix i / 8.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const void* row) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], const void* row) {  // each matrix transposed
    const unsigned address = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
)"},
        {"mma_f16", {}, true, R"(// c += a * b on the tensor cores: 16x16 by 16x8, f16 factors, sums in float.
__device__ __forceinline__ void mma_f16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
)"},
        {"mma_bf16", {}, true, R"(// c += a * b on the tensor cores: 16x16 by 16x8, bf16 factors, sums in float.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
)"},
    };
    return all;
}
}  // namespace

const std::string& Helpers::use(const std::string& name) {
    const auto& all = library();
    const auto it = std::find_if(all.begin(), all.end(), [&](const Helper& h) { return name == h.name; });
    if (it == all.end()) throw std::logic_error("no helper is called " + name);
    for (const char* n : it->needs) use(n);
    return *used_.insert(name).first;
}

std::vector<std::string> Helpers::names() {
    std::vector<std::string> r{"load_pack",         "store_pack", "Limits",    "to_float",      "to_f16",
                               "to_bf16",           "f16_to_f32", "fold_best", "commit_copies", "wait_copies",
                               "ldmatrix_x4_trans", "Divisor",    "divide_by", "multiply_by"};
    for (const Helper& h : library()) r.emplace_back(h.name);
    return r;
}

std::string Helpers::text(bool emulated) const {
    std::string r;
    for (const Helper& h : library())
        if (used_.count(h.name) && !(emulated && h.by_ptx)) r += std::string(h.text) + '\n';
    return r;
}

}  // namespace opwright::target::cuda
