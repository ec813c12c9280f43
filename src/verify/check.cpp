#include "verify/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "verify/contract.h"

namespace opwright::verify {
using namespace math;

void Report::Beside::add(const CaseReport& c) {
    ++cases;
    failed += !c.passed();
    max_abs = std::max(max_abs, c.max_abs);
    max_rel = std::max(max_rel, c.max_rel);
    max_share = std::max(max_share, c.max_share);
    max_ulp = std::max(max_ulp, c.max_ulp);
}

void Report::add(CaseReport c) {
    ++cases;
    if (c.outcome == Outcome::Compared) ++verdicts[c.verdict];
    if (condition.empty() && !c.condition.empty()) condition = fmt::format("{} of {}", c.condition, c.arguments);
    if (c.passed()) {  // the error of a wrong result is any number
        if (c.max_ulp > max_ulp) where = fmt::format("{} of {}", c.where, c.arguments);
        max_abs = std::max(max_abs, c.max_abs);
        max_rel = std::max(max_rel, c.max_rel);
        max_share = std::max(max_share, c.max_share);
        max_ulp = std::max(max_ulp, c.max_ulp);
        return;
    }
    ++failed;
    if (!smallest_failure || c.elements < smallest_failure->elements) smallest_failure = c;
    if (failures.size() < 8) failures.push_back(std::move(c));
}

void Report::add(const Report& r) {
    for (auto& [v, n] : r.verdicts) verdicts[v] += n;
    if (contract.empty()) contract = r.contract;
    cases += r.cases;
    failed += r.failed;
    rejected += r.rejected;
    refused += r.refused;
    not_run += r.not_run;
    for (const auto& [why, n] : r.reasons) reasons[why] += n;
    for (const std::string& t : r.types)
        if (std::find(types.begin(), types.end(), t) == types.end()) types.push_back(t);
    layouts.insert(r.layouts.begin(), r.layouts.end());
    widths.insert(r.widths.begin(), r.widths.end());
    remarks.insert(r.remarks.begin(), r.remarks.end());
    if (r.max_ulp > max_ulp) where = r.where;
    if (condition.empty()) condition = r.condition;
    max_abs = std::max(max_abs, r.max_abs);
    max_rel = std::max(max_rel, r.max_rel);
    max_share = std::max(max_share, r.max_share);
    max_ulp = std::max(max_ulp, r.max_ulp);
    beside.cases += r.beside.cases;
    beside.failed += r.beside.failed;
    beside.max_abs = std::max(beside.max_abs, r.beside.max_abs);
    beside.max_rel = std::max(beside.max_rel, r.beside.max_rel);
    beside.max_share = std::max(beside.max_share, r.beside.max_share);
    beside.max_ulp = std::max(beside.max_ulp, r.beside.max_ulp);
    if (r.smallest_failure && (!smallest_failure || r.smallest_failure->elements < smallest_failure->elements)) {
        smallest_failure = r.smallest_failure;
        failure = r.failure;
    }
    for (const CaseReport& c : r.failures)
        if (failures.size() < 8) failures.push_back(c);
}

std::string Report::str() const {
    std::string counts;
    for (auto& [v, n] : verdicts) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", n, verify::name(v));
    if (failed == 0) {
        std::string others;
        for (const auto& [why, n] : reasons)
            others += fmt::format("; {}{}", why, n > 1 ? fmt::format(" ({} times)", n) : "");
        if (cases == 0)
            return others.empty() ? fmt::format("{}: no case could be made", name) : name + ": " + others.substr(2);
        return fmt::format("{}: {} cases passed ({}; up to {:.3g} ulp, {:.0f} % of the bound){}", name, cases, counts,
                           max_ulp, 100 * max_share, others);
    }
    const CaseReport& c = *smallest_failure;
    return fmt::format("{}: {} of {} cases failed ({}). The smallest: {}, {} values, seed {}: {}", name, failed, cases,
                       counts, c.arguments, verify::name(c.pattern), c.seed, c.message);
}

CaseReport check_case(const Program& p, const Compiled& run, const SymValues& sizes, Pattern pattern, uint64_t seed,
                      const std::vector<std::optional<Range>>& ranges) {
    return run_case(p, run, {sizes, make_inputs(p, sizes, pattern, seed, ranges), {}, pattern, seed});
}

namespace {
Result<Compiled> compiled(const Compile& target, const Program& p) {
    try {
        return target(p);
    } catch (const std::exception& e) {
        // A bug in the target: it is what is being looked for, and must not end the check.
        return Diagnostic(fmt::format("the target threw an exception: {}", e.what()));
    }
}

// Inputs as the layout shows them to everybody, the reference too.
void lay_out(Case& c, Layout l) {
    c.layouts.assign(c.inputs.size(), l);
    for (Tensor& t : c.inputs)
        if (l == Layout::Expanded) t = expanded(t);
}
}  // namespace

Report check_program(const Program& given, const Compile& target, const CheckOptions& o, const SymValues& base,
                     const std::vector<std::optional<Range>>& ranges) {
    Report r;
    r.name = given.name;
    r.contract = contract(given);
    if (edge_sizes(given, base, o.sizes).empty()) {
        ++r.rejected;
        return r;
    }
    const auto p = std::make_shared<const Program>(given);  // a failure keeps it
    const auto subject = compiled(target, *p);
    for (const bool refused : {true, false}) {
        const std::string prefix = refused ? "refused: " : "not run: ";
        if (subject.ok() || subject.error().message.rfind(prefix, 0) != 0) continue;
        ++(refused ? r.refused : r.not_run);
        ++r.reasons[subject.error().message];
        return r;
    }
    SizeOptions around = o.sizes;
    if (around.tiles.empty() && subject.ok()) around.tiles = usable_widths((*subject)->widths());
    const std::vector<SymValues> sizes = edge_sizes(*p, base, around);
    if (!subject.ok()) {
        CaseReport c;
        c.arguments = arguments_text(*p, sizes[0]);
        c.sizes = sizes[0];
        c.outcome = Outcome::CompileFailed;
        c.message = one_line(subject.error());
        r.add(std::move(c));
        return r;
    }
    r.widths.insert(around.tiles.begin(), around.tiles.end());
    const auto beside = o.beside ? compiled(o.beside, *p) : Result<Compiled>(Diagnostic("none"));
    const bool floats =
        std::any_of(p->inputs.begin(), p->inputs.end(), [&](TensorId t) { return is_float(p->tensors[t].dtype); });
    const std::vector<Layout> layouts = (*subject)->layouts();
    const int64_t lanes = around.tiles.empty() ? 16 : around.tiles.front();
    const auto begin = std::chrono::steady_clock::now();
    uint64_t seed = o.seed;
    size_t turn = 0;  // each pattern meets each layout
    for (const SymValues& s : sizes) {
        size_t next = turn++;
        for (Pattern pattern : o.patterns) {
            if (!floats && !applies_to_integers(pattern)) continue;
            if (o.seconds > 0 && r.cases > 0 &&
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > o.seconds)
                break;
            Case c{s, make_inputs(*p, s, pattern, seed, ranges, lanes), {}, pattern, seed};
            lay_out(c, layouts[next++ % layouts.size()]);
            for (size_t i = 0; i < c.inputs.size(); ++i)
                r.layouts.insert(has_layout(c.layout(i), c.inputs[i].shape()) ? c.layout(i) : Layout::Misaligned);
            CaseReport one = run_case(*p, *subject, c);
            if (beside.ok()) {
                Case dense = c;
                dense.layouts.clear();
                r.beside.add(run_case(*p, *beside, dense));
            }
            const bool smallest = !one.passed() && (!r.smallest_failure || one.elements < r.smallest_failure->elements);
            if (smallest) r.failure = std::make_shared<const Failure>(Failure{p, *subject, c, one, ranges, {}});
            r.add(std::move(one));
            ++seed;
        }
    }
    for (const std::string& remark : (*subject)->remarks()) r.remarks.insert(remark);
    return r;
}

}  // namespace opwright::verify
