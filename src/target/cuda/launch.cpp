#include "target/cuda/launch.h"

#include <fmt/format.h>

#include <algorithm>

namespace opwright::target::cuda {
using namespace math;

std::vector<std::string> defines_of(const Variant& v, bool wide) {
    std::vector<std::string> r;
    for (const auto& [name, value] : v.macros) r.push_back(fmt::format("{}={}", name, value));
    if (wide) r.emplace_back("INDEX=long long");
    return r;
}

Result<LaunchPlan> plan_launch(const CudaProgram& p, const SymValues& sizes,
                               const std::function<bool(TensorId, int64_t)>& aligned, bool clusters) {
    std::optional<Diagnostic> failure;
    const auto value = [&](const Sym& s) -> int64_t {
        const auto v = evaluate(s, sizes);
        if (v && *v >= 0) return *v;
        if (!failure)
            failure =
                Diagnostic(v ? fmt::format("The size {} of {} is {}, below 0.", s.str(), p.program.name, *v)
                             : fmt::format("The size {} of {} is not known, or too large.", s.str(), p.program.name));
        return 0;
    };
    LaunchPlan plan;
    for (const auto& [elements, points] : p.folded)
        if (value(elements) == 0 && value(points) > 0)
            return Diagnostic(
                fmt::format(
                    "{} reads a tensor that has no elements, where its declaration folds every index back inside.",
                    p.program.name),
                {}, "Give it inputs with at least one element.");
    plan.wide = std::any_of(p.spans.begin(), p.spans.end(), [&](const Sym& s) { return value(s) >= kNarrow; });
    for (TensorId t : p.workspace) {
        const TensorInfo& info = p.program.tensors[t];
        int64_t bytes = static_cast<int64_t>(size_of(compute_type(info.dtype)));
        for (const Sym& d : info.shape) bytes *= value(d);
        plan.workspace.push_back(plan.workspace_bytes);
        plan.workspace_bytes += (bytes + 255) / 256 * 256;
    }
    const auto holds = [&](const Condition& c) {
        switch (c.kind) {
            case Condition::Kind::Multiple: return value(c.value) % c.number == 0;
            case Condition::Kind::AtMost: return value(c.value) <= c.number;
            case Condition::Kind::AtLeast: return value(c.value) >= c.number;
            case Condition::Kind::Aligned: return aligned(c.tensor, c.number);
            case Condition::Kind::Clusters: return clusters;
        }
        return false;
    };
    for (const Stage& stage : p.stages) {
        if (!std::all_of(stage.when.begin(), stage.when.end(), holds) || value(stage.points) == 0) continue;
        const auto v = std::find_if(stage.variants.begin(), stage.variants.end(),
                                    [&](const Variant& x) { return std::all_of(x.when.begin(), x.when.end(), holds); });
        if (v == stage.variants.end()) throw std::logic_error("a stage without a variant for every size");
        Call call{&*v, 1, {}};
        // Kernels walk over the grid, so any number of blocks is right; the device takes at most 2^31 - 1.
        call.blocks = static_cast<unsigned>(std::clamp<int64_t>(value(v->blocks), 1, INT32_MAX));
        // A narrow position must not overflow when the stride of the grid is added.
        if (!plan.wide) call.blocks = std::min(call.blocks, static_cast<unsigned>((int64_t{1} << 26) / v->threads));
        call.blocks -= call.blocks % static_cast<unsigned>(v->cluster);
        for (const Parameter& a : v->parameters)
            if (a.kind == Parameter::Kind::Size) call.sizes.push_back(evaluate(a.size, sizes).value_or(0));
        plan.calls.push_back(std::move(call));
    }
    if (failure) return *failure;
    return plan;
}

}  // namespace opwright::target::cuda
