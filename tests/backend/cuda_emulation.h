// Runs generated CUDA kernels on the CPU, for tests without a GPU: every thread of a block is a fiber of its own, so
// that barriers, shuffles and matrix instructions meet as on the device. What makes bugs show:
// - shared memory is poisoned (0xff, a NaN) before each block, and asynchronous copies arrive as late as they may;
// - a barrier or shuffle that not all threads reach stops the run with a message;
// - the last warp of a block runs first in every other block: an order that no kernel may depend on;
// - blocks of a cluster have shared memory of their own, which is put in its place while a block runs. What they give
//   each other arrives at once or, in every other cluster, no sooner than they meet.
// Included before the kernels of a translation unit; launch() starts one.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __shared__ static __attribute__((section("emulated_shared")))
#define __align__(n) alignas(n)
#define IN_CLUSTERS

extern "C" {
extern unsigned char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));
}

namespace cuda_emulation {

struct Dim3 {
    unsigned x = 1, y = 1, z = 1;
};
enum class State : uint8_t { Ready, AtWarp, AtBlock, AtCluster, Done };
struct Copy {
    void* to;
    const void* from;
    unsigned bytes, group;
};
struct Fiber {
    void* stack_pointer = nullptr;
    Dim3 thread;
    State state = State::Ready;
    unsigned lane = 0, warp = 0;
    unsigned turn = 0;  // parity of the warp's exchange buffers
    std::vector<Copy> copies;
    unsigned group = 0;
};
struct Exchange {
    alignas(16) unsigned char bytes[2][32][64];
};
// A block of the cluster that runs: its threads, and its shared memory while others run.
struct Block {
    std::vector<Fiber> fibers;
    std::vector<Exchange> warps;
    std::vector<unsigned char> shared;
};
struct Gift {  // to be written into another block's shared memory
    size_t block, offset;
    long long value;
};
struct Machine {
    std::vector<Block> cluster;
    size_t running = 0;  // block of the cluster
    std::vector<Gift> gifts;
    bool gifts_wait = false;
    std::unique_ptr<unsigned char[]> stacks;  // never touched as a whole: clusters have thousands
    size_t stack_count = 0;
    std::vector<unsigned char> dynamic_shared;
    Fiber* current = nullptr;
    void* scheduler = nullptr;
    Dim3 block, blocks, threads;
    void (*entry)(void*) = nullptr;
    void* argument = nullptr;
};
inline Machine machine;
inline constexpr size_t kStack = 64 << 10;

// Saves the callee's registers on the present stack, changes stacks, and goes on there (System V x86-64).
__attribute__((naked, noinline)) inline void change_stack(void** /*from: rdi*/, void* /*to: rsi*/) {
    asm volatile(
        "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
}
inline void wait(State s) {
    Fiber* f = machine.current;
    f->state = s;
    change_stack(&f->stack_pointer, machine.scheduler);
}
inline void fiber_main() {
    machine.entry(machine.argument);
    for (;;) wait(State::Done);
}
[[noreturn]] inline void stop(const char* what) {
    std::fprintf(stderr, "cuda_emulation: %s\n", what);
    std::abort();
}

inline size_t static_shared_bytes() {
    return &__start_emulated_shared[0] ? static_cast<size_t>(__stop_emulated_shared - __start_emulated_shared) : 0;
}
// Puts the block's shared memory where the kernel finds it, or takes it from there.
inline void put_shared(const Block& b) {
    const size_t fixed = static_shared_bytes();
    if (fixed) std::memcpy(__start_emulated_shared, b.shared.data(), fixed);
    std::memcpy(machine.dynamic_shared.data(), b.shared.data() + fixed, machine.dynamic_shared.size());
}
inline void take_shared(Block& b) {
    const size_t fixed = static_shared_bytes();
    if (fixed) std::memcpy(b.shared.data(), __start_emulated_shared, fixed);
    std::memcpy(b.shared.data() + fixed, machine.dynamic_shared.data(), machine.dynamic_shared.size());
}

inline void start_fibers(Block& b, size_t first_stack) {
    for (size_t i = 0; i < b.fibers.size(); ++i) {
        Fiber& f = b.fibers[i];
        f.state = State::Ready;
        f.turn = f.group = 0;
        f.copies.clear();
        auto* top = reinterpret_cast<void**>(
            (reinterpret_cast<uintptr_t>(machine.stacks.get() + (first_stack + i + 1) * kStack) & ~uintptr_t{15}) -
            8);  // as after a call
        *top = nullptr;
        *--top = reinterpret_cast<void*>(fiber_main);
        for (int r = 0; r < 6; ++r) *--top = nullptr;
        f.stack_pointer = top;
    }
}

// Runs the fibers of a block until all are done or wait for the other blocks of the cluster; whether all are done.
inline bool run_block(Block& b, bool backwards) {
    auto& fibers = b.fibers;
    const size_t n = fibers.size(), warps = b.warps.size();
    for (;;) {
        bool progress = false;
        size_t done = 0, at_block = 0, at_cluster = 0;
        for (size_t k = 0; k < warps; ++k) {
            const size_t w = backwards ? warps - 1 - k : k;
            const size_t end = std::min(n, (w + 1) * 32);
            size_t waiting = 0, alive = 0;
            for (size_t i = w * 32; i < end; ++i) {
                Fiber& f = fibers[i];
                if (f.state == State::Ready) {
                    machine.current = &f;
                    change_stack(&machine.scheduler, f.stack_pointer);
                    progress = true;
                }
                alive += f.state != State::Done;
                waiting += f.state == State::AtWarp;
                at_block += f.state == State::AtBlock;
                at_cluster += f.state == State::AtCluster;
                done += f.state == State::Done;
            }
            if (waiting && waiting == alive) {
                for (size_t i = w * 32; i < end; ++i)
                    if (fibers[i].state == State::AtWarp) fibers[i].state = State::Ready;
                progress = true;
            }
        }
        if (done == n) return true;
        if (at_cluster && at_cluster + done == n) return false;
        if (at_block && at_block + done == n) {
            for (Fiber& f : fibers)
                if (f.state == State::AtBlock) f.state = State::Ready;
            progress = true;
        }
        if (!progress) stop("threads of a block wait for each other: a barrier or shuffle that not all of them reach");
    }
}

// Runs the blocks of a cluster, each from one meeting to the next.
inline void run_cluster(unsigned first, bool backwards) {
    const size_t n = machine.cluster.size();
    for (size_t b = 0; b < n; ++b) start_fibers(machine.cluster[b], b * machine.cluster[b].fibers.size());
    for (;;) {
        size_t done = 0;
        for (size_t k = 0; k < n; ++k) {
            const size_t b = backwards ? n - 1 - k : k;
            machine.running = b;
            machine.block = {first + static_cast<unsigned>(b), 0, 0};
            put_shared(machine.cluster[b]);
            done += run_block(machine.cluster[b], (first + b) % 2);
            take_shared(machine.cluster[b]);
        }
        for (const Gift& g : machine.gifts)
            std::memcpy(machine.cluster[g.block].shared.data() + g.offset, &g.value, sizeof g.value);
        machine.gifts.clear();
        if (done == n) return;
        if (done) stop("a block of a cluster ended while others wait to meet it");
        for (Block& b : machine.cluster)
            for (Fiber& f : b.fibers)
                if (f.state == State::AtCluster) f.state = State::Ready;
    }
}
// Writes to where `mine` is in the shared memory of another block of the cluster.
inline void give(size_t block, const void* mine, long long value) {
    if (block >= machine.cluster.size()) stop("a gift to a block beyond the cluster");
    const auto* at = static_cast<const unsigned char*>(mine);
    const size_t fixed = static_shared_bytes();
    size_t offset = fixed;
    if (fixed && at >= __start_emulated_shared && at + sizeof value <= __stop_emulated_shared)
        offset = static_cast<size_t>(at - __start_emulated_shared);
    else if (at >= machine.dynamic_shared.data() &&
             at + sizeof value <= machine.dynamic_shared.data() + machine.dynamic_shared.size())
        offset = fixed + static_cast<size_t>(at - machine.dynamic_shared.data());
    else
        stop("a gift to a block that is not in shared memory");
    if (machine.gifts_wait)
        machine.gifts.push_back({block, offset, value});
    else if (block == machine.running)
        std::memcpy(const_cast<unsigned char*>(at), &value, sizeof value);
    else
        std::memcpy(machine.cluster[block].shared.data() + offset, &value, sizeof value);
}

template <class... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_cv_t<std::remove_reference_t<A>>*>(arguments[I])...);
}
// Runs all blocks of a launch, `cluster` at a time. `cooperates`: threads meet in barriers or shuffles; others run one
// after the other.
template <class... A>
void launch(void (*kernel)(A...), void** arguments, unsigned blocks, unsigned threads, unsigned shared, bool cooperates,
            unsigned cluster) {
    struct Start {
        void (*kernel)(A...);
        void** arguments;
    } start{kernel, arguments};
    machine.entry = [](void* p) {
        auto* s = static_cast<Start*>(p);
        call(s->kernel, s->arguments, std::index_sequence_for<A...>{});
    };
    machine.argument = &start;
    machine.blocks = {blocks};
    machine.threads = {threads};
    machine.cluster.resize(cluster);
    for (Block& b : machine.cluster) {
        b.fibers.resize(threads);
        b.warps.resize((threads + 31) / 32);
        for (unsigned i = 0; i < threads; ++i) {
            Fiber& f = b.fibers[i];
            f.thread = {i, 0, 0};
            f.lane = i % 32;
            f.warp = i / 32;
        }
    }
    if (const size_t stacks = size_t{cluster} * threads; cooperates && machine.stack_count < stacks) {
        machine.stacks.reset(new unsigned char[stacks * kStack]);
        machine.stack_count = stacks;
    }
    machine.dynamic_shared.resize(shared + 1024);
    for (unsigned b = 0; b < blocks; b += cluster) {
        if (cluster > 1) {
            for (Block& one : machine.cluster)
                one.shared.assign(static_shared_bytes() + machine.dynamic_shared.size(), 0xff);
            machine.gifts_wait = b / cluster % 2;
            run_cluster(b, b / cluster % 2);
            continue;
        }
        machine.running = 0;
        machine.block = {b, 0, 0};
        if (const size_t fixed = static_shared_bytes()) std::memset(__start_emulated_shared, 0xff, fixed);
        std::memset(machine.dynamic_shared.data(), 0xff, machine.dynamic_shared.size());
        if (cooperates) {
            start_fibers(machine.cluster[0], 0);
            if (!run_block(machine.cluster[0], b % 2)) stop("a block meets a cluster that it is not in");
        } else {
            for (Fiber& f : machine.cluster[0].fibers) {
                machine.current = &f;
                machine.entry(machine.argument);
            }
        }
    }
}

inline unsigned char* dynamic_shared() {
    return reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(machine.dynamic_shared.data()) + 1023) &
                                            ~uintptr_t{1023});
}

// Every lane of the warp gives `mine`; read(lane) then gives that of another.
template <class T, class Read>
auto exchange(const T& mine, Read read) {
    static_assert(sizeof(T) <= 64);
    Fiber* f = machine.current;
    Exchange& e = machine.cluster[machine.running].warps[f->warp];
    const unsigned turn = f->turn++ & 1;
    std::memcpy(e.bytes[turn][f->lane], &mine, sizeof(T));
    wait(State::AtWarp);
    return read([&](unsigned lane) {
        T r;
        std::memcpy(&r, e.bytes[turn][lane], sizeof(T));
        return r;
    });
}

}  // namespace cuda_emulation

#define threadIdx (cuda_emulation::machine.current->thread)
#define blockIdx (cuda_emulation::machine.block)
#define blockDim (cuda_emulation::machine.threads)
#define gridDim (cuda_emulation::machine.blocks)

inline void __syncthreads() { cuda_emulation::wait(cuda_emulation::State::AtBlock); }
inline void __syncwarp(unsigned = ~0u) { cuda_emulation::wait(cuda_emulation::State::AtWarp); }
template <class T>
T __shfl_xor_sync(unsigned, T v, int mask, int width = 32) {
    const unsigned lane = cuda_emulation::machine.current->lane, other = lane ^ static_cast<unsigned>(mask);
    const bool inside = other / static_cast<unsigned>(width) == lane / static_cast<unsigned>(width);
    return cuda_emulation::exchange(v, [&](auto of) { return of(inside ? other : lane); });
}
template <class T>
T __shfl_sync(unsigned, T v, int from, int width = 32) {
    const unsigned w = static_cast<unsigned>(width), lane = cuda_emulation::machine.current->lane;
    return cuda_emulation::exchange(v, [&](auto of) { return of(lane / w * w + static_cast<unsigned>(from) % w); });
}
template <class T>
T __shfl_up_sync(unsigned, T v, unsigned by, int width = 32) {
    const unsigned w = static_cast<unsigned>(width), lane = cuda_emulation::machine.current->lane;
    return cuda_emulation::exchange(v, [&](auto of) { return of(lane % w >= by ? lane - by : lane); });
}
template <class T>
T __shfl_down_sync(unsigned, T v, unsigned by, int width = 32) {
    const unsigned w = static_cast<unsigned>(width), lane = cuda_emulation::machine.current->lane;
    return cuda_emulation::exchange(v, [&](auto of) { return of(lane % w + by < w ? lane + by : lane); });
}

// Blocks and threads run one at a time, so plain arithmetic is atomic.
template <class T>
T atomicAdd(T* p, T v) {
    const T old = *p;
    if constexpr (std::is_integral_v<T>)
        *p = static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(v));
    else
        *p = old + v;
    return old;
}
template <class T>
T atomicMax(T* p, T v) {
    const T old = *p;
    *p = v > old ? v : old;
    return old;
}
template <class T>
T atomicMin(T* p, T v) {
    const T old = *p;
    *p = v < old ? v : old;
    return old;
}
template <class T>
T atomicOr(T* p, T v) {
    const T old = *p;
    *p = old | v;
    return old;
}
template <class T>
T atomicCAS(T* p, T expected, T v) {
    const T old = *p;
    if (old == expected) *p = v;
    return old;
}
template <class T>
T atomicExch(T* p, T v) {
    const T old = *p;
    *p = v;
    return old;
}
inline void __threadfence() {}

// Caches are not emulated.
#define load_once load_pack
#define store_once store_pack

inline void meet_cluster() { cuda_emulation::wait(cuda_emulation::State::AtCluster); }
inline void give_to_block(int block, long long* mine, long long value) {
    cuda_emulation::give(static_cast<size_t>(block), mine, value);
}

// ---- bits and roundings
template <class To, class From>
To emulated_bits(From v) {
    static_assert(sizeof(To) == sizeof(From));
    To r;
    std::memcpy(&r, &v, sizeof r);
    return r;
}
inline int __float_as_int(float v) { return emulated_bits<int>(v); }
inline unsigned __float_as_uint(float v) { return emulated_bits<unsigned>(v); }
inline float __int_as_float(int v) { return emulated_bits<float>(v); }
inline float __uint_as_float(unsigned v) { return emulated_bits<float>(v); }
inline long long __double_as_longlong(double v) { return emulated_bits<long long>(v); }
inline double __longlong_as_double(long long v) { return emulated_bits<double>(v); }
inline float rsqrtf(float v) { return static_cast<float>(1 / std::sqrt(static_cast<double>(v))); }
inline double rsqrt(double v) { return 1 / std::sqrt(v); }
template <class T>
T __ldg(const T* p) {
    return *p;
}

// ---- what the kernels do by inline PTX on the device; the generated prelude leaves these out under emulation
inline float f16_to_f32(unsigned short h) {
    const unsigned sign = static_cast<unsigned>(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 1023u;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent) return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
    const float v = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -v : v;
}
inline unsigned short f32_to_f16(float v) {
    const unsigned bits = __float_as_uint(v), sign = bits >> 16 & 0x8000u;
    if (std::isnan(v)) return 0x7fff;
    if (std::isinf(v)) return static_cast<unsigned short>(sign | 0x7c00u);
    const double a = std::fabs(static_cast<double>(v));
    if (a == 0) return static_cast<unsigned short>(sign);
    if (a >= 65520.0) return static_cast<unsigned short>(sign | 0x7c00u);
    int e;
    std::frexp(a, &e);
    const int shift = e < -13 ? -24 : e - 11;  // subnormals have one spacing
    const auto m = static_cast<unsigned>(std::nearbyint(std::ldexp(a, -shift)));
    if (shift == -24) return static_cast<unsigned short>(sign | m);
    return static_cast<unsigned short>(sign | (static_cast<unsigned>(shift + 25) << 10) + (m - 1024u));
}
inline unsigned short f32_to_bf16(float v) {
    if (std::isnan(v)) return 0x7fff;
    const unsigned bits = __float_as_uint(v);
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline float bf16_to_f32(unsigned short h) { return __uint_as_float(static_cast<unsigned>(h) << 16); }

inline int negative(int v) { return static_cast<int>(0u - static_cast<unsigned>(v)); }
inline float max_float(float a, float b) {
    if (a != a || b != b) return a + b;
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
}
inline float min_float(float a, float b) {
    if (a != a || b != b) return a + b;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
}

inline float short_exp(float v) { return std::exp2(v * 1.44269504f); }

inline void copy_async(void* to, const void* from, unsigned bytes) {
    auto* f = cuda_emulation::machine.current;
    f->copies.push_back({to, from, bytes, f->group});
}
inline void commit_copies() { ++cuda_emulation::machine.current->group; }
template <unsigned kLeft>
void wait_copies() {  // all but the latest kLeft groups arrive now, and no earlier
    auto* f = cuda_emulation::machine.current;
    size_t kept = 0;
    for (const cuda_emulation::Copy& c : f->copies) {
        if (c.group + kLeft >= f->group) {  // among the groups that may still be on their way, or not committed
            f->copies[kept++] = c;
            continue;
        }
        std::memset(c.to, 0, 16);
        std::memcpy(c.to, c.from, c.bytes);
    }
    f->copies.resize(kept);
}

inline void load_matrices(unsigned (&r)[4], const void* row, bool transposed) {
    const unsigned lane = cuda_emulation::machine.current->lane;
    cuda_emulation::exchange(row, [&](auto of) {
        for (unsigned j = 0; j < 4; ++j) {
            unsigned v = 0;
            for (unsigned h = 0; h < 2; ++h) {
                const unsigned at = 2 * (lane % 4) + h;
                const auto* p = static_cast<const unsigned short*>(of(8 * j + (transposed ? at : lane / 4)));
                v |= static_cast<unsigned>(p[transposed ? lane / 4 : at]) << (16 * h);
            }
            r[j] = v;
        }
        return 0;
    });
}
inline void ldmatrix_x4(unsigned (&r)[4], const void* row) { load_matrices(r, row, false); }
inline void ldmatrix_x4_trans(unsigned (&r)[4], const void* row) { load_matrices(r, row, true); }

template <float (*Widen)(unsigned short)>
void emulated_mma(float (&c)[4], const unsigned (&a)[4], const unsigned b0, const unsigned b1) {
    struct Fragments {
        unsigned a[4], b[2];
    };
    const Fragments mine{{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const unsigned lane = cuda_emulation::machine.current->lane;
    cuda_emulation::exchange(mine, [&](auto of) {
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
            float sum = c[i];
            for (unsigned k = 0; k < 16; ++k) {
                const Fragments fa = of(row % 8 * 4 + k % 8 / 2), fb = of(column * 4 + k % 8 / 2);
                const unsigned va = fa.a[row / 8 + 2 * (k / 8)], vb = fb.b[k / 8];
                sum += Widen(static_cast<unsigned short>(va >> 16 * (k % 2))) *
                       Widen(static_cast<unsigned short>(vb >> 16 * (k % 2)));
            }
            c[i] = sum;
        }
        return 0;
    });
}
inline void mma_f16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emulated_mma<f16_to_f32>(c, a, b0, b1);
}
inline void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emulated_mma<bf16_to_f32>(c, a, b0, b1);
}
