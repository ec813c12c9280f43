#include "verify/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "derive/shape.h"

namespace opwright::verify {
using namespace math;

std::string_view name(Outcome o) {
    constexpr std::string_view names[] = {"compared",      "compilation failed", "run failed", "wrote outside",
                                          "changed input", "missed error",       "crashed"};
    return names[static_cast<int>(o)];
}

std::string arguments_text(const Program& p, const SymValues& sizes) {
    std::string r;
    for (TensorId t : p.inputs) {
        r += fmt::format("{}{} = {}[", r.empty() ? "" : ", ", p.tensors[t].name, opwright::name(p.tensors[t].dtype));
        for (size_t d = 0; d < p.tensors[t].shape.size(); ++d)
            r += fmt::format("{}{}", d ? "," : "", evaluate(p.tensors[t].shape[d], sizes).value_or(-1));
        r += "]";
    }
    return r;
}
std::string one_line(const Diagnostic& d) {
    std::string r = d.message;
    for (const Note& n : d.notes) r += "; " + n.text;
    return r;
}

Result<Delivery> deliver(const Program& p, const Compiled& subject, const Case& c,
                         const std::function<void(Delivery&)>& prepare) {
    OPW_TRY(const std::vector<Shape> shapes, derive::output_shapes(p, c.sizes));
    Delivery r;
    std::vector<View> in, out;
    for (size_t i = 0; i < c.inputs.size(); ++i) r.inputs.emplace_back(c.inputs[i], c.layout(i));
    // Outputs are dense; they share the inputs' alignment, so that both kinds occur.
    const bool aligned =
        std::any_of(c.layouts.begin(), c.layouts.end(), [](Layout l) { return l == Layout::Contiguous; });
    for (size_t o = 0; o < p.outputs.size(); ++o)
        r.outputs.emplace_back(p.tensors[p.outputs[o]].dtype, shapes[o],
                               aligned ? Layout::Contiguous : Layout::Misaligned);
    if (prepare) prepare(r);
    for (const Guarded& g : r.inputs) in.push_back(g.view());
    for (const Guarded& g : r.outputs) out.push_back(g.view());
    try {
        r.status = subject->run(c.sizes, in, out);
    } catch (const std::exception& e) {
        // A bug in the target is what is being looked for, and must not end the check.
        r.status = Diagnostic(fmt::format("the kernel threw an exception: {}", e.what()));
    }
    return r;
}

namespace {
// Why an element has no bound, in numbers.
std::string condition_of(const derive::ReferenceOutput& r, const std::string& tensor) {
    for (int64_t i = 0; i < r.value.size(); ++i) {
        if (!std::isinf(r.bound.get(i))) continue;
        const std::string at = fmt::format("{}{}", tensor, to_string(unravel(i, r.value.shape())));
        const double terms = r.terms.get(i), v = r.value.get(i);
        if (!std::isfinite(terms) || terms > 3e38)
            return fmt::format("{}: the terms reach {:.3g}, so that some orders overflow and others do not", at, terms);
        if (v != 0 && terms / std::fabs(v) > 10)
            return fmt::format("{}: the terms add up to {:.3g} and the result is {:.3g}: condition {:.2g}", at, terms,
                               v, terms / std::fabs(v));
        return fmt::format("{}: a rounding decides which value is taken (near {:.3g})", at, v);
    }
    return "";
}

void compare_outputs(const Program& p, const Delivery& d, References& reference, CaseReport& r) {
    for (size_t o = 0; o < p.outputs.size(); ++o) {
        const TensorInfo& t = p.tensors[p.outputs[o]];
        const Tensor got = d.outputs[o].tensor();
        const Comparison one = reference.compare(o, got);
        if (one.max_ulp >= r.max_ulp && !one.where.empty()) r.where = t.name + to_string(one.where);
        r.max_abs = std::max(r.max_abs, one.max_abs);
        r.max_rel = std::max(r.max_rel, one.max_rel);
        r.max_share = std::max(r.max_share, one.max_share);
        r.max_ulp = std::max(r.max_ulp, one.max_ulp);
        if (one.ill_conditioned && r.condition.empty()) r.condition = condition_of(reference.plain()[o], t.name);
        if (one.verdict < r.verdict) continue;
        const bool first_wrong = one.verdict == Verdict::Wrong && r.verdict != Verdict::Wrong;
        r.verdict = one.verdict;
        if (one.verdict != Verdict::Wrong || first_wrong) {
            r.output = o;
            r.first_bad = one.first_bad;
            r.wrong_elements = one.wrong;
            r.output_elements = one.elements;
            r.message = p.outputs.size() > 1 ? t.name + " is " + one.str() : one.str();
        }
    }
}
}  // namespace

CaseReport run_case(const Program& p, const Compiled& subject, const Case& c) {
    CaseReport r;
    r.sizes = c.sizes;
    r.pattern = c.pattern;
    r.seed = c.seed;
    r.layouts = c.layouts;
    r.arguments = arguments_text(p, c.sizes);
    const auto end = [&](Outcome o, std::string message) {
        r.outcome = o;
        r.message = std::move(message);
        return r;
    };
    const auto run = deliver(p, subject, c);
    if (!run.ok()) return end(Outcome::RunFailed, one_line(run.error()));
    for (const Tensor& t : c.inputs) r.elements += t.size();
    for (const Guarded& g : run->outputs) r.elements += g.view().size();
    if (!run->status.ok() && run->status.error().message.rfind("crashed: ", 0) == 0)
        return end(Outcome::Crashed, one_line(run->status.error()));
    for (size_t o = 0; o < p.outputs.size(); ++o)
        if (const std::string d = run->outputs[o].damage(); !d.empty())
            return end(Outcome::WroteOutside,
                       fmt::format("the kernel wrote {} of {}", d, p.tensors[p.outputs[o]].name));
    for (size_t i = 0; i < run->inputs.size(); ++i)
        if (run->inputs[i].changed())
            return end(Outcome::ChangedInput,
                       fmt::format("the kernel changed {}, which it may only read", p.tensors[p.inputs[i]].name));
    auto reference = References::make(p, c.inputs, c.sizes);
    if (run->status.ok() && reference.ok())
        compare_outputs(p, *run, *reference, r);
    else if (run->status.ok())
        return end(Outcome::MissedError,
                   "the kernel reported nothing where the reference says: " + one_line(reference.error()));
    else if (reference.ok())
        return end(Outcome::RunFailed, one_line(run->status.error()));
    return r;  // both report an error: as it should be
}

}  // namespace opwright::verify
