#include "schedule/portable.h"
#include "target/cuda/cuda.h"

#include <fmt/format.h>

#include <algorithm>

#include "emit/names.h"
#include "target/cuda/kernel.h"
#include "target/cuda/program.h"
#include "target/cuda/project.h"
#include "target/cuda/run_device.h"
#include "tile/blocks.h"

namespace opwright::target::cuda {
using namespace math;

namespace {

// A kernel between tensors in the host's memory: uploads, launches, downloads, waits.
class HostKernel final : public Runnable {
public:
    HostKernel(Device& device, std::shared_ptr<const CudaProgram> p, std::shared_ptr<Stream> stream)
        : device_(device), kernel_(device, std::move(p), {}), stream_(std::move(stream)) {}

    Status run(const SymValues& sizes, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) override {
        OPW_TRY(Launchable l, place(sizes, inputs, outputs));
        OPW_CHECK(l.prepared->launch(device_, *stream_));
        for (size_t i = 0; i < outputs.size(); ++i)
            OPW_CHECK(device_.download(outputs[i].data(), l.memory[inputs.size() + i].address(), outputs[i].bytes(),
                                       *stream_, name()));
        OPW_CHECK(stream_->wait(name()));
        return l.prepared->fault(device_, *stream_);
    }

    Result<double> seconds(const SymValues& sizes, const std::vector<Tensor>& inputs,
                           std::vector<Tensor>& outputs) override {
        constexpr int kRounds = 7;
        OPW_TRY(Launchable l, place(sizes, inputs, outputs));
        OPW_TRY(const auto start, device_.event());
        OPW_TRY(const auto end, device_.event());
        const auto timed = [&](int launches) -> Result<double> {
            OPW_CHECK(start->record(*stream_));
            for (int i = 0; i < launches; ++i) OPW_CHECK(l.prepared->launch(device_, *stream_));
            OPW_CHECK(end->record(*stream_));
            OPW_TRY(const double ms, end->since(*start));
            return ms / 1e3 / launches;
        };
        OPW_TRY(const double first, timed(3));
        const int launches = static_cast<int>(std::clamp(0.02 / std::max(first, 1e-6), 3.0, 200.0));
        double best = first;
        for (int i = 0; i < kRounds; ++i) {
            OPW_TRY(const double t, timed(launches));
            best = std::min(best, t);
        }
        OPW_CHECK(l.prepared->fault(device_, *stream_));
        return best;
    }

private:
    struct Launchable {
        std::vector<Memory> memory;  // of inputs, then outputs
        std::unique_ptr<Prepared> prepared;
    };
    const std::string& name() const { return kernel_.program().program.name; }

    Result<Launchable> place(const SymValues& sizes, const std::vector<Tensor>& inputs,
                             const std::vector<Tensor>& outputs) {
        OPW_CHECK(device_.enter());
        Launchable l;
        std::vector<DevicePointer> addresses;
        const auto allocate = [&](const Tensor& t) -> Status {
            OPW_TRY(Memory m, device_.allocate(t.bytes(), name()));
            addresses.push_back(m.address());
            l.memory.push_back(std::move(m));
            return ok_status();
        };
        for (const Tensor& t : inputs) {
            OPW_CHECK(allocate(t));
            OPW_CHECK(device_.upload(addresses.back(), t.data(), t.bytes(), *stream_, name()));
        }
        for (const Tensor& t : outputs) {
            OPW_CHECK(allocate(t));
            OPW_CHECK(device_.fill(addresses.back(), 0xa5, t.bytes(), *stream_, name()));  // unwritten elements show
        }
        OPW_TRY(l.prepared, kernel_.prepare(sizes, addresses, *stream_));
        return l;
    }

    Device& device_;
    DeviceKernel kernel_;
    std::shared_ptr<Stream> stream_;
};

class CudaTarget final : public Target {
public:
    std::string_view name() const override { return "cuda"; }
    std::string_view about() const override { return "CUDA C++ for NVIDIA GPUs from compute capability 8.0"; }

    Result<Emission> emit(const Program& p, const EmitOptions& o) const override {
        OPW_TRY(const CudaProgram program, lower(p, {.schedule = o.schedule, .portable = o.portable}));
        Emission e;
        e.files.push_back({emit::Names::identifier(p.name) + ".cu", program.source()});
        OPW_TRY(std::vector<SourceFile> rest, project(p, program, o));
        for (SourceFile& f : rest) e.files.push_back(std::move(f));
        for (const Stage& s : program.stages)
            e.facts.push_back(fmt::format("{}: {}", s.variants.back().kernel, s.about));
        return e;
    }
    Result<std::string> level(const Program& p, const std::string& level, const EmitOptions& o) const override {
        OPW_TRY(const CudaProgram program, lower(p, {.schedule = o.schedule, .portable = o.portable}));
        std::string r;
        for (const Stage& s : program.stages) r += fmt::format("{}: {}\n", s.variants.back().kernel, s.about);
        if (level == "schedule") return r;
        if (level == "schedule-portable") return schedule::to_portable(program.schedule, program.kernel);
        if (level == "schedule-json") return schedule::to_json(program.schedule, program.kernel);
        if (level == "tile") {
            OPW_TRY(const tile::Program tiles, tile::apply_blocks(program.kernel, program.schedule));
            return tile::print(tiles);
        }
        return Diagnostic(fmt::format("The cuda target has no level {}.", level), {}, "It has schedule, tile and cuda.");
    }
    std::string cannot_run() const override {
        const auto device = Device::get();
        if (!device.ok()) {  // as part of a sentence
            std::string why = device.error().message;
            if (why.starts_with("The")) why[0] = 't';
            if (why.ends_with('.')) why.pop_back();
            return why;
        }
        if (compiler_name().empty()) return "neither NVRTC (libnvrtc) nor nvcc was found";
        return "";
    }
    Ceilings ceilings() const override {
        const auto device = Device::get();
        if (!device.ok()) return {};
        const auto measured = measure_ceilings(**device);
        if (!measured.ok()) return {};
        return {measured->copies.back().second, measured->flops_f32};
    }
    Result<device::Device*> device() const override {
        OPW_TRY(Device * gpu, Device::get());
        return &run_device(*gpu);
    }
    std::string runs_on() const override {
        const auto device = Device::get();
        return device.ok() ? (*device)->info().name : "";
    }
    Result<std::unique_ptr<Runnable>> build(const Program& p, const EmitOptions& o) const override {
        OPW_TRY(Device * device, Device::get());
        OPW_TRY(CudaProgram program, lower(p, {.schedule = o.schedule, .portable = o.portable}));
        if (o.edit) o.edit(program.kernels);
        OPW_TRY(auto stream, device->stream());
        return std::unique_ptr<Runnable>(std::make_unique<HostKernel>(
            *device, std::make_shared<CudaProgram>(std::move(program)), std::move(stream)));
    }
};
}  // namespace

const Target& cuda_target() {
    static const CudaTarget target;
    return target;
}

}  // namespace opwright::target::cuda
