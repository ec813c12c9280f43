// What a GPU can do at most: copies of several sizes, multiply-adds in registers, an empty kernel.
#include <fmt/format.h>

#include <algorithm>

#include "target/cuda/compiler.h"
#include "target/cuda/run_device.h"

namespace opwright::target::cuda {
namespace {

constexpr int kSteps = 2048, kChains = 8;  // of each thread: enough that start and end do not count

// Each thread keeps kChains sums; nothing but arithmetic happens. The store is never reached, and can't be known to be.
constexpr const char* kSource = R"(
template <class T> __device__ void chains(T* out, T a) {
    T x[8];
    for (int i = 0; i < 8; ++i) x[i] = T(threadIdx.x + i);
    for (int s = 0; s < 2048; ++s) {
        #pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = x[i] * a + T(0.25);
    }
    T sum = 0;
    for (int i = 0; i < 8; ++i) sum += x[i];
    if (sum == T(-1)) *out = sum;
}
extern "C" __global__ void peak_f32(float* out) { chains<float>(out, 0.5f); }
extern "C" __global__ void peak_f64(double* out) { chains<double>(out, 0.5); }

// Products of 16x16 by 16x8 in the tensor cores, eight sums a warp.
extern "C" __global__ void peak_half(float* out) {
    float d[8][4] = {};
    unsigned a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = 0x3c003c00u + threadIdx.x * 7919u % 97u;  // near 1: zeros would draw less power
    for (int i = 0; i < 2; ++i) b[i] = 0x2c002c00u + threadIdx.x * 104729u % 89u;
    for (int s = 0; s < 2048; ++s) {
        #pragma unroll
        for (int i = 0; i < 8; ++i)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                         "{%0,%1,%2,%3};"
                         : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    float sum = 0;
    for (int i = 0; i < 8; ++i) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
    if (sum == -1.0f) *out = sum;
}
extern "C" __global__ void nothing(float*) {}

// The same elements again and again, past the first cache: what the L2 cache delivers.
extern "C" __global__ void copy_often(float4* to, const float4* from, long long count, int times) {
    for (int t = 0; t < times; ++t)
        for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) {
            float4 v;
            asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
                         : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                         : "l"(from + i));
            asm volatile("st.global.cg.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to + i), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                         : "memory");
        }
}
)";

class Measurement {
public:
    explicit Measurement(Device& gpu) : gpu_(gpu) {}

    Result<device::Ceilings> run() {
        OPW_TRY(stream_, gpu_.stream());
        OPW_TRY(start_, gpu_.event());
        OPW_TRY(end_, gpu_.event());
        device::Ceilings c;
        OPW_TRY(const Cubin cubin, compile(kSource, {.arch = gpu_.info().arch()}));
        OPW_TRY(const auto module, gpu_.load(cubin.code, kWhat));
        OPW_CHECK(copies(module, c));
        OPW_TRY(const Memory out, gpu_.allocate(256, kWhat, stream_));
        // Work of one thread and step: two operations a sum; a warp's product has 2 * 16 * 8 * 16.
        constexpr double kEach = 1.0 * kSteps * kChains;
        OPW_TRY(c.flops_f32, rate(module, "peak_f32", out, 2 * kEach));
        OPW_TRY(c.flops_f64, rate(module, "peak_f64", out, 2 * kEach));
        OPW_TRY(c.flops_half, rate(module, "peak_half", out, 2.0 * 16 * 8 * 16 / 32 * kEach));
        c.matrix_unit = "mma.sync";
        OPW_TRY(c.start_seconds, start(module, out));
        return c;
    }

private:
    static constexpr const char* kWhat = "the measurement of the GPU's ceilings";

    template <class F>
    Result<double> seconds(F&& work) {
        OPW_CHECK(start_->record(*stream_));
        OPW_CHECK(work());
        OPW_CHECK(end_->record(*stream_));
        OPW_TRY(const double ms, end_->since(*start_));
        return ms / 1e3;
    }
    // The least of some tries, after one that does not count.
    template <class F>
    Result<double> least(int tries, F&& work) {
        OPW_TRY(double best, seconds(work));
        for (int i = 0; i < tries; ++i) {
            OPW_TRY(const double t, seconds(work));
            best = i == 0 ? t : std::min(best, t);
        }
        return best;
    }

    Status copies(const std::shared_ptr<Module>& m, device::Ceilings& c) {
        const auto l2 = static_cast<size_t>(std::max<int64_t>(gpu_.info().l2_bytes, 1 << 22));
        OPW_TRY(const Function f, gpu_.function(m, "copy_often", 0));
        // Working sets within the L2 cache, at its edge, and far beyond.
        for (size_t set : {l2 / 8, l2 / 2, 2 * l2, size_t{2} << 30}) {
            const size_t bytes = set / 2 / 512 * 512;
            OPW_TRY(const Memory from, gpu_.allocate(bytes, kWhat, stream_));
            OPW_TRY(const Memory to, gpu_.allocate(bytes, kWhat, stream_));
            OPW_CHECK(gpu_.fill(from.address(), 0x3c, bytes, *stream_, kWhat));
            int times = static_cast<int>(std::clamp<size_t>((size_t{1} << 30) / bytes, 1, 100));
            DevicePointer a = to.address(), b = from.address();
            auto count = static_cast<long long>(bytes / 16);
            void* arguments[] = {&a, &b, &count, &times};
            const LaunchShape shape{static_cast<unsigned>(8 * gpu_.info().multiprocessors), 256, 0};
            OPW_TRY(double t, least(5, [&] { return gpu_.launch(f, shape, arguments, *stream_, kWhat); }));
            if (set > l2) {  // the driver's own copy is hard to beat
                OPW_TRY(const double own, least(5, [&]() -> Status {
                            for (int i = 0; i < times; ++i) OPW_CHECK(gpu_.copy(a, b, bytes, *stream_, kWhat));
                            return ok_status();
                        }));
                t = std::min(t, own);
            }
            c.copies.emplace_back(static_cast<double>(set), 2.0 * static_cast<double>(bytes) * times / t);
        }
        return ok_status();
    }

    Result<double> rate(const std::shared_ptr<Module>& m, const char* name, const Memory& out, double each) {
        OPW_TRY(const Function f, gpu_.function(m, name, 0));
        const LaunchShape shape{static_cast<unsigned>(16 * gpu_.info().multiprocessors), 256, 0};
        DevicePointer address = out.address();
        void* arguments[] = {&address};
        OPW_TRY(const double t, least(5, [&] { return gpu_.launch(f, shape, arguments, *stream_, kWhat); }));
        return each * shape.blocks * shape.threads / t;
    }

    // Of many in one graph: the host hands out launches more slowly than the device starts them.
    Result<double> start(const std::shared_ptr<Module>& m, const Memory& out) {
        constexpr int kLaunches = 200, kThisThread = 1;
        OPW_TRY(const Function f, gpu_.function(m, "nothing", 0));
        DevicePointer address = out.address();
        void* arguments[] = {&address};
        const Driver& d = gpu_.api();
        OPW_CHECK(check(d.StreamBeginCapture(stream_->handle(), kThisThread), kWhat, "cuStreamBeginCapture"));
        Status launched = ok_status();
        for (int i = 0; launched.ok() && i < kLaunches; ++i)
            launched = gpu_.launch(f, {1, 32, 0}, arguments, *stream_, kWhat);
        CUgraph_st* graph = nullptr;
        OPW_CHECK(check(d.StreamEndCapture(stream_->handle(), &graph), kWhat, "cuStreamEndCapture"));
        CUgraphExec_st* runs = nullptr;
        const int code = d.GraphInstantiateWithFlags(&runs, graph, 0);
        d.GraphDestroy(graph);
        OPW_CHECK(launched);
        OPW_CHECK(check(code, kWhat, "cuGraphInstantiate"));
        const auto t = least(5, [&] { return check(d.GraphLaunch(runs, stream_->handle()), kWhat, "cuGraphLaunch"); });
        d.GraphExecDestroy(runs);
        OPW_CHECK(t);
        return *t / kLaunches;
    }

    Device& gpu_;
    std::shared_ptr<Stream> stream_;
    std::shared_ptr<Event> start_, end_;
};
}  // namespace

Result<device::Ceilings> measure_ceilings(Device& gpu) {
    static const Result<device::Ceilings> measured = Measurement(gpu).run();
    return measured;
}

}  // namespace opwright::target::cuda
