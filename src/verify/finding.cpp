#include "verify/finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "verify/diagnose.h"

namespace opwright::verify {
using namespace math;

Finding investigate(const Failure& f, const Compile& target, const ShrinkOptions& o) {
    Shrunk s = shrink(f, o);
    Finding r{std::move(s.failure), f.report.arguments, s.runs, s.finished, {}, {}, {}, {}};
    const Failure& small = r.failure;
    const Program& p = *small.program;
    if (small.report.outcome == Outcome::Compared && small.report.first_bad) {
        const std::vector<Stage> all = stages(p);
        for (const Stage& stage : all)
            if (stage.tensor == p.outputs[small.report.output]) r.equations = stage.equations;
        r.behind = behind(p, small.c, small.report.output, small.report.first_bad->index);
        if (target) r.stages = compare_stages(p, target, small.c);
    }
    r.evidence = diagnose(small);
    return r;
}

std::string values_text(const Program& p, const Case& c) {
    constexpr int64_t kShown = 24;
    std::string r;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
        const Tensor& t = c.inputs[i];
        std::string v;
        for (int64_t k = 0; k < std::min(t.size(), kShown); ++k)
            v += (v.empty() ? "" : " ") +
                 (is_float(t.dtype()) ? fmt::format("{:.9g}", t.get(k)) : std::to_string(t.get_int(k)));
        if (t.size() > kShown) v += fmt::format(" ... ({} values)", t.size());
        r += fmt::format("{}{} = {}", r.empty() ? "" : "; ", p.tensors[p.inputs[i]].name, v.empty() ? "nothing" : v);
    }
    return r;
}

std::string layouts_text(const Program& p, const Case& c) {
    std::string r;
    for (size_t i = 0; i < c.inputs.size(); ++i)
        if (c.layout(i) > Layout::Misaligned && has_layout(c.layout(i), c.inputs[i].shape()))
            r += fmt::format("{}{} {}", r.empty() ? "" : ", ", p.tensors[p.inputs[i]].name, name(c.layout(i)));
    return r;
}

}  // namespace opwright::verify
