#include "target/cuda/kernel.h"

#include <fmt/format.h>

#include <algorithm>

namespace opwright::target::cuda {
using namespace math;

Status Prepared::launch(const Device& device, const Stream& stream) {
    const std::string& name = program_->program.name;
    if (faults_) OPW_CHECK(device.fill(fault_.address(), 0, sizeof(int), stream, name));
    for (Step& s : steps_) OPW_CHECK(device.launch(s.function, s.shape, s.arguments.data(), stream, name));
    return ok_status();
}

Status Prepared::fault(const Device& device, const Stream& stream) const {
    if (!faults_) return ok_status();
    const std::string& name = program_->program.name;
    int code = 0;
    OPW_CHECK(device.download(&code, fault_.address(), sizeof code, stream, name));
    OPW_CHECK(stream.wait(name));
    if (code <= 0 || code > static_cast<int>(program_->faults.size())) return ok_status();
    return Diagnostic(program_->faults[static_cast<size_t>(code) - 1] + ".", {},
                      "Check the values of the index tensor against the extent of the dimension that it indexes.");
}

std::string Prepared::describe() const {
    std::string r;
    for (const Step& s : steps_)
        r += fmt::format("{}{}, {} registers, {} bytes spilled", r.empty() ? "" : "; ", s.name, s.function.registers,
                         s.function.local_bytes);
    return r;
}

Result<Function> DeviceKernel::function(const Variant& v, bool wide) {
    const std::vector<std::string> defines = defines_of(v, wide);
    auto& module = modules_[defines];
    if (!module) {
        CompileOptions o = options_;
        o.arch = device_.info().arch();
        o.defines = defines;
        OPW_TRY(const Cubin cubin, compile(program_->source(), o));
        OPW_TRY(module, device_.load(cubin.code, program_->program.name));
    }
    return device_.function(module, v.kernel, static_cast<int>(v.dynamic_shared));
}

Status DeviceKernel::upload_tables(const Stream& s) {
    for (TensorId t : program_->tables) {
        if (tables_.count(t)) continue;
        const Tensor& data = program_->program.tensors[t].data;
        OPW_TRY(Memory m, device_.allocate(data.bytes(), program_->program.name));
        OPW_CHECK(device_.upload(m.address(), data.data(), data.bytes(), s, program_->program.name));
        tables_.emplace(t, std::move(m));
    }
    return ok_status();
}

Result<std::unique_ptr<Prepared>> DeviceKernel::prepare(const SymValues& sizes,
                                                        const std::vector<DevicePointer>& addresses,
                                                        const Stream& stream, const Scratch* scratch) {
    const std::lock_guard lock(mutex_);
    const Program& p = program_->program;
    OPW_CHECK(upload_tables(stream));
    std::map<TensorId, DevicePointer> at;
    for (size_t i = 0; i < p.inputs.size(); ++i) at[p.inputs[i]] = addresses[i];
    for (size_t i = 0; i < p.outputs.size(); ++i) at[p.outputs[i]] = addresses[p.inputs.size() + i];
    for (auto& [t, m] : tables_) at[t] = m.address();
    OPW_TRY(const LaunchPlan plan, plan_launch(*program_, sizes, [&](TensorId t, int64_t bytes) {
                const auto it = at.find(t);
                return it == at.end() || it->second % static_cast<DevicePointer>(bytes) == 0;
            }, device_.info().major >= 9));
    auto r = std::make_unique<Prepared>();
    r->program_ = program_;
    if (!program_->workspace.empty()) {  // without elements too: kernels take their addresses
        if (!scratch) { OPW_TRY(r->workspace_, device_.allocate(static_cast<size_t>(plan.workspace_bytes), p.name)); }
        const DevicePointer begin = scratch ? scratch->workspace : r->workspace_.address();
        for (size_t i = 0; i < program_->workspace.size(); ++i)
            at[program_->workspace[i]] = begin + static_cast<DevicePointer>(plan.workspace[i]);
    }
    r->faults_ = !program_->faults.empty() && !scratch;
    if (r->faults_) { OPW_TRY(r->fault_, device_.allocate(sizeof(int), p.name)); }
    const DevicePointer fault = scratch ? scratch->fault : r->fault_.address();
    for (const Call& c : plan.calls) {
        Prepared::Step s;
        OPW_TRY(s.function, function(*c.variant, plan.wide));
        unsigned blocks = c.blocks;
        if (c.variant->cluster > 1) {  // as many as run at once: what goes with their columns is loaded once
            const auto cluster = static_cast<unsigned>(c.variant->cluster);
            const LaunchShape one{cluster, static_cast<unsigned>(c.variant->threads),
                                  static_cast<unsigned>(c.variant->dynamic_shared)};
            if (const int n = device_.resident_clusters(s.function, one); n > 0)
                blocks = std::min(blocks, static_cast<unsigned>(n) * cluster);
        }
        s.name = fmt::format("{}<<<{}, {}>>> {}", c.variant->kernel, blocks, c.variant->threads,
                             fmt::join(defines_of(*c.variant, plan.wide), " "));
        s.shape = {blocks, static_cast<unsigned>(c.variant->threads),
                   static_cast<unsigned>(c.variant->dynamic_shared), c.variant->awaits};
        auto values = std::make_unique<int64_t[]>(c.variant->parameters.size());
        size_t size = 0;
        for (size_t a = 0; a < c.variant->parameters.size(); ++a) {
            const Parameter& x = c.variant->parameters[a];
            switch (x.kind) {
                case Parameter::Kind::Tensor: values[a] = static_cast<int64_t>(at.at(x.tensor)); break;
                case Parameter::Kind::Size:
                    values[a] = c.sizes[size++];
                    break;  // the low half is the int, little-endian
                case Parameter::Kind::Fault: values[a] = static_cast<int64_t>(fault); break;
            }
            s.arguments.push_back(&values[a]);
        }
        r->values_.push_back(std::move(values));
        r->steps_.push_back(std::move(s));
    }
    return r;
}

}  // namespace opwright::target::cuda
