#include "target/cuda/run_device.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "target/cuda/kernel.h"

namespace opwright::target::cuda {
namespace {

class RunEvent final : public device::Event {
public:
    explicit RunEvent(std::shared_ptr<cuda::Event> e) : event(std::move(e)) {}
    std::shared_ptr<cuda::Event> event;
};

class RunReplay final : public device::Replay {
public:
    RunReplay(const Driver& d, CUgraphExec_st* graph, std::shared_ptr<Stream> s)
        : driver_(d), graph_(graph), stream_(std::move(s)) {}
    ~RunReplay() override { driver_.GraphExecDestroy(graph_); }
    Status launch(const std::string& what) override {
        return check(driver_.GraphLaunch(graph_, stream_->handle()), what, "cuGraphLaunch");
    }

private:
    const Driver& driver_;
    CUgraphExec_st* graph_;
    std::shared_ptr<Stream> stream_;
};

class RunStream final : public device::Stream {
public:
    RunStream(Device& gpu, std::shared_ptr<cuda::Stream> s) : gpu_(gpu), stream_(std::move(s)) {}

    Result<device::Memory> allocate(size_t bytes, const std::string& what) override {
        OPW_TRY(const Memory m, gpu_.allocate(bytes, what, stream_));
        return device::Memory{m.address(), m.bytes(), std::make_shared<Memory>(m)};
    }
    Status upload(device::Address to, const void* from, size_t bytes, const std::string& what) override {
        return gpu_.upload(to, from, bytes, *stream_, what);
    }
    Status download(void* to, device::Address from, size_t bytes, const std::string& what) override {
        return gpu_.download(to, from, bytes, *stream_, what);
    }
    Status fill(device::Address to, unsigned char value, size_t bytes, const std::string& what) override {
        return gpu_.fill(to, value, bytes, *stream_, what);
    }
    Status wait(const std::string& what) override { return stream_->wait(what); }

    Result<std::shared_ptr<device::Event>> event() override {
        OPW_TRY(auto e, gpu_.event());
        return std::shared_ptr<device::Event>(std::make_shared<RunEvent>(std::move(e)));
    }
    Status record(device::Event& e) override { return of(e).record(*stream_); }
    Result<double> seconds(const device::Event& from, const device::Event& to) override {
        OPW_TRY(const double ms, of(to).since(of(from)));
        return ms / 1e3;
    }
    Status hold(std::shared_ptr<std::atomic<bool>> open) override {
        // A thread of the driver runs it, in the stream's order.
        const auto wait = [](void* argument) {
            const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> flag(
                static_cast<std::shared_ptr<std::atomic<bool>>*>(argument));
            const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
            while (!(*flag)->load() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        };
        auto argument = std::make_unique<std::shared_ptr<std::atomic<bool>>>(std::move(open));
        OPW_CHECK(
            check(gpu_.api().LaunchHostFunc(stream_->handle(), wait, argument.get()), "timing", "cuLaunchHostFunc"));
        argument.release();
        return ok_status();
    }

    Status begin_recording(const std::string& what) override {
        constexpr int kThisThread = 1;  // other threads may do what they like meanwhile
        return check(gpu_.api().StreamBeginCapture(stream_->handle(), kThisThread), what, "cuStreamBeginCapture");
    }
    Result<std::unique_ptr<device::Replay>> end_recording(const std::string& what) override {
        const Driver& d = gpu_.api();
        CUgraph_st* graph = nullptr;
        CUgraphExec_st* runs = nullptr;
        OPW_CHECK(check(d.StreamEndCapture(stream_->handle(), &graph), what, "cuStreamEndCapture"));
        const int code = d.GraphInstantiateWithFlags(&runs, graph, 0);
        d.GraphDestroy(graph);
        OPW_CHECK(check(code, what, "cuGraphInstantiate"));
        return std::unique_ptr<device::Replay>(std::make_unique<RunReplay>(d, runs, stream_));
    }

    const cuda::Stream& stream() const { return *stream_; }

private:
    static cuda::Event& of(device::Event& e) { return *static_cast<RunEvent&>(e).event; }
    static const cuda::Event& of(const device::Event& e) { return *static_cast<const RunEvent&>(e).event; }

    Device& gpu_;
    std::shared_ptr<cuda::Stream> stream_;
};

class RunLaunch final : public device::Launch {
public:
    RunLaunch(Device& gpu, std::unique_ptr<Prepared> p) : gpu_(gpu), prepared_(std::move(p)) {}

    Status launch(device::Stream& s, const std::string& what) override {
        const Stream& stream = static_cast<RunStream&>(s).stream();
        for (const Prepared::Step& x : prepared_->steps()) {
            auto& arguments = const_cast<std::vector<void*>&>(x.arguments);  // the driver reads what they point at
            OPW_CHECK(gpu_.launch(x.function, x.shape, arguments.data(), stream, what));
        }
        return ok_status();
    }
    std::vector<device::LaunchFacts> facts() const override {
        std::vector<device::LaunchFacts> r;
        for (const Prepared::Step& x : prepared_->steps()) {
            device::LaunchFacts f;
            f.kernel = x.name;
            f.blocks = x.shape.blocks;
            f.threads = static_cast<int>(x.shape.threads);
            f.registers = x.function.registers;
            f.spilled_bytes = x.function.local_bytes;
            f.shared_bytes = x.function.shared_bytes + static_cast<int>(x.shape.shared_bytes);
            const double resident = gpu_.resident_blocks(x.function, x.shape);
            if (gpu_.info().threads > 0) f.occupancy = resident * f.threads / gpu_.info().threads;
            if (resident > 0) f.waves = static_cast<double>(f.blocks) / (resident * gpu_.info().multiprocessors);
            r.push_back(std::move(f));
        }
        return r;
    }

private:
    Device& gpu_;
    std::unique_ptr<Prepared> prepared_;
};

class RunKernel final : public device::Kernel {
public:
    RunKernel(Device& gpu, std::shared_ptr<const CudaProgram> p)
        : gpu_(gpu), program_(p), kernel_(gpu, std::move(p), {}) {}

    Result<int64_t> workspace_bytes(const math::SymValues& sizes) const override {
        if (program_->workspace.empty()) return 0;
        // The arena's places are as aligned as any variant asks for.
        OPW_TRY(const LaunchPlan plan, plan_launch(*program_, sizes, [](math::TensorId, int64_t) { return true; }));
        return plan.workspace_bytes;
    }
    Result<std::unique_ptr<device::Launch>> prepare(const math::SymValues& sizes,
                                                    const std::vector<device::Address>& operands,
                                                    device::Address workspace, device::Address fault,
                                                    device::Stream& s) override {
        const std::vector<DevicePointer> addresses(operands.begin(), operands.end());
        const Scratch scratch{workspace, fault};
        OPW_TRY(auto prepared, kernel_.prepare(sizes, addresses, static_cast<RunStream&>(s).stream(), &scratch));
        return std::unique_ptr<device::Launch>(std::make_unique<RunLaunch>(gpu_, std::move(prepared)));
    }
    const std::vector<std::string>& faults() const override { return program_->faults; }
    std::string schedule() const override {
        std::string r;
        for (const Stage& s : program_->stages) r += (r.empty() ? "" : "; ") + s.about;
        return r;
    }

private:
    Device& gpu_;
    std::shared_ptr<const CudaProgram> program_;
    DeviceKernel kernel_;
};

class RunDevice final : public device::Device {
public:
    explicit RunDevice(cuda::Device& gpu) : gpu_(gpu) {}
    std::string name() const override { return gpu_.info().name; }
    Status enter() override { return gpu_.enter(); }
    Result<std::shared_ptr<device::Stream>> stream() override {
        OPW_TRY(auto s, gpu_.stream());
        return std::shared_ptr<device::Stream>(std::make_shared<RunStream>(gpu_, std::move(s)));
    }
    Result<std::shared_ptr<device::Kernel>> build(const math::Program& p, const std::string& schedule,
                                                  bool portable) override {
        OPW_TRY(CudaProgram program, lower(p, {.schedule = schedule, .portable = portable}));
        return std::shared_ptr<device::Kernel>(
            std::make_shared<RunKernel>(gpu_, std::make_shared<CudaProgram>(std::move(program))));
    }
    Result<device::Ceilings> measure() override { return measure_ceilings(gpu_); }

private:
    cuda::Device& gpu_;
};
}  // namespace

device::Device& run_device(Device& gpu) {
    static RunDevice device(gpu);
    return device;
}

}  // namespace opwright::target::cuda
