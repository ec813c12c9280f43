// Reports and findings as lines for people.
#include <fmt/format.h>

#include "verify/finding.h"

namespace opwright::verify {
namespace {

void line(std::string& out, const char* label, const std::string& text) {
    if (!text.empty()) out += fmt::format("  {:<11}{}\n", label, text);
}
template <class Range>
std::string joined(const Range& r, const char* between = ", ") {
    std::string s;
    for (const auto& x : r) s += fmt::format("{}{}", s.empty() ? "" : between, x);
    return s;
}
std::string arguments_of(const std::string& case_text, const Origin& o) {
    return o.attributes.empty() || case_text.find("; ") != std::string::npos
               ? case_text
               : case_text + "; " + attributes_text(o.attributes);
}
std::string numbers(double ulp, double abs, double rel, double share) {
    return fmt::format("{:.3g} ulp, abs {:.2g}, rel {:.2g}, {:.0f} % of what is allowed", ulp, abs, rel, 100 * share);
}
}  // namespace

std::string text(const Report& r, const std::string& subject, const std::string& beside) {
    std::string out = fmt::format("{} on {}: ", r.name, subject);
    if (r.cases == 0) {
        const std::string line = r.str();
        return out + line.substr(std::min(line.size(), r.name.size() + 2)) + "\n";
    }
    out += r.failed ? fmt::format("{} of {} cases FAILED\n", r.failed, r.cases)
                    : fmt::format("{} cases passed\n", r.cases);
    std::string verdicts;
    for (const auto& [v, n] : r.verdicts) verdicts += fmt::format("{}{} {}", verdicts.empty() ? "" : ", ", n, name(v));
    line(out, "verdicts", verdicts);
    if (r.max_ulp > 0)
        line(out, "error",
             fmt::format("{}up to {}{}", r.failed ? "of the others " : "", numbers(r.max_ulp, r.max_abs, r.max_rel, r.max_share),
                         r.where.empty() ? "" : "; most ulp at " + r.where));
    if (r.beside.cases)
        line(out, "beside",
             fmt::format("{} on the same cases: up to {}{}", beside,
                         numbers(r.beside.max_ulp, r.beside.max_abs, r.beside.max_rel, r.beside.max_share),
                         r.beside.failed ? fmt::format("; {} failed", r.beside.failed) : ""));
    if (r.verdicts.count(Verdict::PolicyDifference))
        line(out, "policy",
             "a subnormal result, or a subnormal factor of a sum, counted as zero: legal, see the contract");
    if (!r.condition.empty()) line(out, "condition", r.condition);
    line(out, "types", joined(r.types));
    line(out, "sizes", fmt::format("0, 1, 2, 3, around {}, primes, huge but thin", joined(r.widths)));
    std::vector<std::string_view> layouts;
    for (Layout l : r.layouts) layouts.push_back(name(l));
    line(out, "layouts", joined(layouts));
    for (const auto& [why, n] : r.reasons)
        line(out, "not run", fmt::format("{}{}", why, n > 1 ? fmt::format(" ({} times)", n) : ""));
    for (const std::string& remark : r.remarks) line(out, "note", remark);
    line(out, "contract", r.contract);
    return out;
}

std::string text(const Finding& f) {
    const Failure& x = f.failure;
    const math::Program& p = *x.program;
    const CaseReport& c = x.report;
    std::string out;
    const std::string layouts = layouts_text(p, x.c);
    line(out, "smallest",
         fmt::format("{}{}{}{}", arguments_of(c.arguments, x.origin), layouts.empty() ? "" : "; ", layouts,
                     f.smallest ? "" : " (shrinking ended at its limit)"));
    if (f.before.substr(0, f.before.find("; ")) != c.arguments) line(out, "found at", f.before);
    line(out, "values", values_text(p, x.c));
    line(out, "wrong", c.message.rfind("wrong: ", 0) == 0 ? c.message.substr(7) : c.message);
    line(out, "equation", joined(f.equations, "; "));
    if (!f.behind.empty() && c.first_bad)
        line(out, "there",
             fmt::format("{}{} comes from {}", p.tensors[p.outputs[c.output]].name, to_string(c.first_bad->index),
                         f.behind));
    for (const StageVerdict& s : f.stages.alone)
        if (f.stages.alone.size() > 1) line(out, "stage", fmt::format("{} alone: {}", s.name, s.verdict));
    line(out, "stages", f.stages.summary);
    for (const std::string& e : f.evidence) line(out, "evidence", e);
    return out;
}

}  // namespace opwright::verify
