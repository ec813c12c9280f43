#include "runtime/target_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/thread_pool.h"
#include "target/cpu/plan.h"
#include "target/cpu/variants.h"

namespace opwright::runtime {
namespace {
using target::cpu::KernelRef;

class TargetKernel final : public target::cpu::Kernel {
public:
    TargetKernel(const math::Program& p, const target::Target& t, const target::EmitOptions& o,
                 std::unique_ptr<target::Runnable> kernel, std::shared_ptr<target::device::Kernel> on_device)
        : device(std::move(on_device)),
          p_(p),
          symbols_(p.symbols()),
          target_(t),
          options_(o),
          packed_(p.inputs.size()),
          kernel_(std::move(kernel)) {}

    const std::shared_ptr<target::device::Kernel> device;

    int64_t workspace_bytes(std::span<const int64_t> symbols) const override {
        if (!device) return 0;
        const auto bytes = device->workspace_bytes(sizes_of(symbols));
        return bytes.ok() ? *bytes : 0;  // prepare() reports the error
    }

    Status run(const target::cpu::Launch& l, ThreadPool&) const override {
        const math::SymValues sizes = sizes_of(l.symbols);
        std::vector<Tensor> inputs, outputs;
        for (size_t i = 0; i < p_.inputs.size(); ++i) {
            OPW_TRY(Tensor t, wrapped(p_.inputs[i], const_cast<void*>(l.inputs[i]), sizes));
            inputs.push_back(std::move(t));
        }
        for (size_t i = 0; i < p_.outputs.size(); ++i) {
            OPW_TRY(Tensor t, wrapped(p_.outputs[i], l.outputs[i], sizes));
            outputs.push_back(std::move(t));
        }
        const std::lock_guard lock(mutex_);  // a Runnable serves one caller at a time
        if (!kernel_) { OPW_TRY(kernel_, target_.build(p_, options_)); }
        return kernel_->run(sizes, inputs, outputs);
    }

    bool pack_constants(std::span<const void* const>, ThreadPool&) override { return false; }
    const std::vector<bool>& packed() const override { return packed_; }
    std::string text(const std::string& level) const override {
        if (level == target_.name()) {
            const auto e = target_.emit(p_, options_);
            return e.ok() ? e->files.front().text : "";
        }
        if (level != "schedule" && level != "tile") return "";
        const auto r = target_.level(p_, level, options_);
        return r.ok() ? *r : "";
    }
    std::string schedule_summary() const override {
        return device ? device->schedule() : "target " + std::string(target_.name());
    }

    math::SymValues sizes_of(std::span<const int64_t> symbols) const {
        math::SymValues sizes;
        for (size_t i = 0; i < symbols_.size(); ++i) sizes[symbols_[i]] = symbols[i];
        return sizes;
    }

private:
    Result<Tensor> wrapped(math::TensorId id, void* data, const math::SymValues& sizes) const {
        const math::TensorInfo& t = p_.tensors[id];
        Shape s;
        for (const math::Sym& d : t.shape) {
            const auto v = math::evaluate(d, sizes);
            if (!v || *v < 0)
                return Diagnostic(fmt::format("The extent {} of {} has no value at this size.", d.str(), t.name));
            s.push_back(*v);
        }
        return Tensor::wrap(t.dtype, std::move(s), data);
    }

    math::Program p_;
    std::vector<std::string> symbols_;
    const target::Target& target_;
    target::EmitOptions options_;
    std::vector<bool> packed_;
    mutable std::unique_ptr<target::Runnable> kernel_;  // on a device, made when it is first wanted
    mutable std::mutex mutex_;
};

Result<KernelRef> build(const math::Program& p, const target::Target& t, const target::EmitOptions& o) {
    OPW_TRY(target::device::Device * device, t.device());
    if (device) {
        OPW_CHECK(device->enter());
        OPW_TRY(auto kernel, device->build(p, o.schedule, o.portable));
        return KernelRef(std::make_shared<TargetKernel>(p, t, o, nullptr, std::move(kernel)));
    }
    OPW_TRY(auto kernel, t.build(p, o));
    return KernelRef(std::make_shared<TargetKernel>(p, t, o, std::move(kernel), nullptr));
}
}  // namespace

namespace {
// A program under the schedules that won for it: the untuned one serves all sizes that were not measured. One whose extents
// are numbers needs the winner alone. A stored schedule that does not fit gives way to the untuned one.
Result<KernelRef> build_tuned(const target::cpu::Request& request, const target::Target& t,
                              const target::EmitOptions& o, const target::TunedSource* tuned) {
    const math::Program& p = *request.program;
    if (!tuned || !o.schedule.empty()) return build(p, t, o);
    auto found = tuned->find(t.name(), t.runs_on(), target::cpu::content_of(request));
    const bool fixed = p.symbols().empty();
    std::erase_if(found, [&](const target::TunedSchedule& s) { return s.sizes.empty() != fixed; });
    if (fixed && found.size() > 1) found.resize(1);
    if (std::all_of(found.begin(), found.end(), [](auto& s) { return s.schedule.empty(); })) return build(p, t, o);
    std::map<std::string, KernelRef> by_schedule;
    const auto under = [&](const std::string& schedule) -> KernelRef {
        const auto [it, fresh] = by_schedule.emplace(schedule, nullptr);
        if (!fresh) return it->second;
        target::EmitOptions own = o;
        own.schedule = schedule;
        own.portable = !schedule.empty();
        if (auto k = build(p, t, own); k.ok()) it->second = *k;
        return it->second;
    };
    std::vector<target::cpu::Variant> variants;
    if (!fixed) {
        OPW_TRY(by_schedule[""], build(p, t, o));
        variants.push_back({{}, by_schedule[""], 1, ""});
    }
    for (const target::TunedSchedule& s : found)
        if (KernelRef k = under(s.schedule)) variants.push_back({s.sizes, std::move(k), s.gain, s.measured_at});
    if (variants.empty()) return build(p, t, o);
    return target::cpu::with_variants(std::move(variants), tuned->reach());
}
}  // namespace

std::vector<Result<KernelRef>> target_kernels(std::span<const target::cpu::Request> requests, const target::Target& t,
                                              const target::EmitOptions& o, const target::TunedSource* tuned) {
    std::map<std::string, size_t> first;  // by what a program computes, with the names of its sizes
    std::vector<size_t> same(requests.size()), unique;
    for (size_t i = 0; i < requests.size(); ++i) {
        const math::Program& p = *requests[i].program;
        std::string key = tuned ? target::cpu::content_of(requests[i]) : p.canonical();
        for (const std::string& s : p.symbols()) key += ";" + s;
        const auto [it, fresh] = first.emplace(std::move(key), i);
        same[i] = it->second;
        if (fresh) unique.push_back(i);
    }
    // Compilers run as processes of their own: as many at a time as there are processors.
    std::vector<std::optional<Result<KernelRef>>> built(requests.size());
    std::atomic<size_t> next{0};
    const auto work = [&] {
        for (size_t i; (i = next.fetch_add(1)) < unique.size();)
            built[unique[i]] = build_tuned(requests[unique[i]], t, o, tuned);
    };
    std::vector<std::thread> threads;
    const size_t wanted = std::min(unique.size(), static_cast<size_t>(available_processors()));
    for (size_t i = 1; i < wanted; ++i) threads.emplace_back(work);
    work();
    for (std::thread& x : threads) x.join();
    std::vector<Result<KernelRef>> r;
    for (size_t i = 0; i < requests.size(); ++i) r.push_back(*built[same[i]]);
    return r;
}

target::device::Kernel* device_kernel(const target::cpu::Kernel& k, std::span<const int64_t> symbols) {
    const auto* t = dynamic_cast<const TargetKernel*>(&k.at(symbols));
    return t ? t->device.get() : nullptr;
}

Result<std::unique_ptr<target::device::Launch>> prepare_on_device(const target::cpu::Kernel& k,
                                                                  std::span<const int64_t> symbols,
                                                                  const std::vector<target::device::Address>& operands,
                                                                  target::device::Address workspace,
                                                                  target::device::Address fault,
                                                                  target::device::Stream& s) {
    const auto& t = dynamic_cast<const TargetKernel&>(k.at(symbols));
    return t.device->prepare(t.sizes_of(symbols), operands, workspace, fault, s);
}

}  // namespace opwright::runtime
