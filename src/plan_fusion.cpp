#include "plan_fusion.h"

#include <fmt/format.h>

#include <cmath>

#include "base/log.h"
#include "runtime/thread_pool.h"
#include "target/cpu/features.h"
#include "target/target.h"

namespace opwright {
namespace {

// Of a large GPU of today, where none was measured: the planner compares kernels, and the ratios are alike.
fuse::Machine typical_gpu() {
    fuse::Machine m;
    m.name = "a GPU";
    m.origin = "typical figures of a large GPU: it was not measured";
    m.units = 132;
    m.launch = 2.5e-6;
    m.levels = {{30e6, 6e12}, {1e18, 3e12}};
    m.line = 32;
    m.simple = 30e12, m.multiply_add = 40e12, m.divide = 5e12, m.special = 4e12;
    m.registers = 200;
    m.task_bytes = 200 << 10;
    m.reuse = 128;
    return m;
}

fuse::Machine machine_for(const CompileOptions& o) {
    if (o.execution.target && o.execution.target->name() != "c") return typical_gpu();
    const auto& host = target::cpu::host_features();
    const int units = runtime::available_processors();
    const auto measured = explain::recall_machine(units);
    fuse::Machine r = measured ? planning_machine(*measured) : fuse::typical_cpu(units, host.vector_bytes, host.registers);
    r.together = !o.execution.target;
    return r;
}

// Seconds of the program's kernel alone, on random inputs at these sizes.
std::optional<double> seconds(const math::Program& p, const math::SymValues& sizes, const CompileOptions& o, runtime::ThreadPool& pool) {
    constexpr int64_t kMostElements = int64_t{1} << 26;
    std::vector<Tensor> inputs;
    uint64_t state = 1;
    for (math::TensorId t : p.inputs) {
        Shape s;
        for (const math::Sym& d : p.tensors[t].shape) {
            const auto v = math::evaluate(d, sizes);
            if (!v || *v < 0) return std::nullopt;
            s.push_back(*v);
        }
        if (element_count(s) < 0 || element_count(s) > kMostElements) return std::nullopt;
        Tensor x(p.tensors[t].dtype, s);
        for (int64_t i = 0; i < x.size(); ++i) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            const auto bits = static_cast<int64_t>(state >> 40);
            if (is_float(x.dtype())) x.set(i, static_cast<double>(bits) / (1 << 23) - 1);
            else x.set_int(i, bits & 1);
        }
        inputs.push_back(std::move(x));
    }
    auto executable = runtime::Executable::build(graph_of(p), o.execution, pool);
    if (!executable.ok()) return std::nullopt;
    const auto timing = (*executable)->measure(inputs, pool, 2, 7);
    if (!timing.ok()) return std::nullopt;
    double sum = 0;
    for (const auto& s : timing->steps) sum += s.min;
    return sum;
}
}  // namespace

fuse::Machine planning_machine(const explain::Machine& m) {
    const auto& host = target::cpu::host_features();
    fuse::Machine r = fuse::typical_cpu(m.threads, host.vector_bytes, host.registers);
    r.name = m.processor;
    r.origin = "measured " + m.measured_at + " UTC";
    r.launch = m.dispatch_seconds;
    r.levels.clear();
    // Copies of several sizes: an operand of a kernel shares a level with the others.
    for (const auto& c : m.copies) r.levels.push_back({c.working_set / 2, c.bandwidth});
    if (m.device) {
        const fuse::Machine gpu = typical_gpu();
        r.together = false;
        r.units = gpu.units, r.line = gpu.line, r.registers = gpu.registers, r.task_bytes = gpu.task_bytes, r.reuse = gpu.reuse, r.lanes = 1;
        r.simple = m.flops_f32 / 2, r.multiply_add = 0.7 * m.flops_f32, r.divide = m.flops_f32 / 12, r.special = m.flops_f32 / 15;
    } else {
        // A simple operation is half of what the peak counts as a multiply-add, on one of the two units that do those.
        const double scale = m.flops_f32 / (4 * 3e9 * r.lanes * std::max(1, m.threads));
        r.simple *= scale, r.multiply_add *= scale, r.divide *= scale, r.special *= scale;
    }
    return r;
}

fuse::Options plan_fusion(const CompileOptions& o, runtime::ThreadPool& pool) {
    fuse::Options r = o.fusion;
    if (!r.machine) r.machine = machine_for(o);
    if (const target::Target* on = o.execution.target; on && !r.refuses && !o.execution.fallback)
        r.refuses = [on](const math::Program& p) {
            const auto e = on->emit(p, {});
            return e.ok() ? std::string() : e.error().message;
        };
    if (r.measure_seconds > 0 && !r.measure)
        r.measure = [o, &pool](const math::Program& p, const math::SymValues& sizes) { return seconds(p, sizes, o, pool); };
    return r;
}

}  // namespace opwright
