#include "verify/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "derive/shape.h"

namespace opwright::verify {
using namespace math;
namespace {

constexpr size_t kGuard = 192;
constexpr unsigned char kGuardByte = 0x5a, kPoison = 0xa5;

// A tensor between guard bytes, whose first element is aligned to its size and to nothing more.
class Guarded {
public:
    Guarded(DType t, const Shape& s) {
        const size_t bytes = static_cast<size_t>(element_count(s)) * size_of(t);
        const size_t shift = 64 - kGuard % 64 + size_of(t);  // a cache line boundary, and one element
        begin_ = kGuard + shift;
        end_ = begin_ + bytes;
        memory_ = std::make_shared<std::vector<unsigned char>>(end_ + kGuard + 64, kGuardByte);
        // vector's memory is aligned to 16 at least; move to a known place relative to 64.
        const auto address = reinterpret_cast<uintptr_t>(memory_->data());
        const size_t up = (64 - (address + begin_ - size_of(t)) % 64) % 64;
        begin_ += up;
        end_ += up;
        std::fill(memory_->begin() + static_cast<long>(begin_), memory_->begin() + static_cast<long>(end_), kPoison);
        tensor_ = Tensor::wrap(t, s, memory_->data() + begin_, memory_);
    }
    Tensor& tensor() { return tensor_; }
    // Where bytes around the tensor changed: "3 bytes in front", "... behind"; empty if none did.
    std::string damage() const {
        const auto changed = [&](size_t from, size_t to) {
            return std::count_if(memory_->begin() + static_cast<long>(from), memory_->begin() + static_cast<long>(to),
                                 [](unsigned char c) { return c != kGuardByte; });
        };
        const auto front = changed(0, begin_), behind = changed(end_, memory_->size());
        if (front) return fmt::format("{} bytes in front", front);
        if (behind) return fmt::format("{} bytes behind", behind);
        return "";
    }

private:
    std::shared_ptr<std::vector<unsigned char>> memory_;
    size_t begin_ = 0, end_ = 0;
    Tensor tensor_;
};

}  // namespace

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

CaseReport check_case(const Program& p, const Compiled& run, const SymValues& sizes, Pattern pattern, uint64_t seed,
                      const std::vector<std::optional<Range>>& ranges) {
    CaseReport r;
    r.sizes = sizes;
    r.pattern = pattern;
    r.seed = seed;
    r.arguments = arguments_text(p, sizes);

    std::vector<Guarded> in, out;
    std::vector<Tensor> inputs, originals = make_inputs(p, sizes, pattern, seed, ranges), outputs;
    for (const Tensor& t : originals) {
        in.emplace_back(t.dtype(), t.shape());
        inputs.push_back(in.back().tensor());
        if (t.bytes()) std::memcpy(inputs.back().data(), t.data(), t.bytes());
        r.elements += t.size();
    }
    const auto shapes = derive::output_shapes(p, sizes);
    if (!shapes.ok()) {
        r.outcome = Outcome::RunFailed;
        r.message = one_line(shapes.error());
        return r;
    }
    for (size_t o = 0; o < p.outputs.size(); ++o) {
        out.emplace_back(p.tensors[p.outputs[o]].dtype, (*shapes)[o]);
        outputs.push_back(out.back().tensor());
        r.elements += outputs.back().size();
    }

    const auto reference = derive::reference(p, originals, sizes);
    const Status status = [&]() -> Status {
        try {
            return run(sizes, inputs, outputs);
        } catch (const std::exception& e) {
            return Diagnostic(fmt::format("the kernel threw an exception: {}", e.what()));
        }
    }();
    for (size_t o = 0; o < out.size(); ++o)
        if (const std::string d = out[o].damage(); !d.empty()) {
            r.outcome = Outcome::WroteOutside;
            r.message = fmt::format("the kernel wrote {} of {}", d, p.tensors[p.outputs[o]].name);
            return r;
        }
    for (size_t i = 0; i < in.size(); ++i)
        if (!in[i].damage().empty() ||
            (originals[i].bytes() && std::memcmp(originals[i].data(), inputs[i].data(), originals[i].bytes()) != 0)) {
            r.outcome = Outcome::ChangedInput;
            r.message = fmt::format("the kernel changed {}, which it may only read", p.tensors[p.inputs[i]].name);
            return r;
        }
    if (!status.ok() || !reference.ok()) {
        if (status.ok()) {
            r.outcome = Outcome::MissedError;
            r.message = "the kernel reported nothing where the reference says: " + one_line(reference.error());
        } else if (reference.ok()) {
            r.outcome = Outcome::RunFailed;
            r.message = one_line(status.error());
        }
        return r;  // both report an error: as it should be
    }
    std::optional<Result<std::vector<derive::ReferenceOutput>>> flushed;
    for (size_t o = 0; o < p.outputs.size(); ++o) {
        const TensorInfo& t = p.tensors[p.outputs[o]];
        Comparison c = compare((*reference)[o], outputs[o], t.dtype);
        if (!c.passed()) {
            if (!flushed) flushed = derive::reference(p, originals, sizes, {.flush_factors = true});
            if (flushed->ok()) c = compare((*reference)[o], outputs[o], t.dtype, &(**flushed)[o]);
        }
        r.max_share = std::max(r.max_share, c.max_share);
        r.max_ulp = std::max(r.max_ulp, c.max_ulp);
        if (c.verdict >= r.verdict) {
            r.verdict = c.verdict;
            r.message = p.outputs.size() > 1 ? t.name + " is " + c.str() : c.str();
        }
    }
    return r;
}

void Report::add(CaseReport c) {
    ++cases;
    if (c.outcome == Outcome::Compared) ++verdicts[c.verdict];
    max_share = std::max(max_share, c.max_share);
    max_ulp = std::max(max_ulp, c.max_ulp);
    if (c.passed()) return;
    ++failed;
    if (!smallest_failure || c.elements < smallest_failure->elements) smallest_failure = c;
    if (failures.size() < 8) failures.push_back(std::move(c));
}

void Report::add(const Report& r) {
    for (auto& [v, n] : r.verdicts) verdicts[v] += n;
    cases += r.cases;
    failed += r.failed;
    rejected += r.rejected;
    refused += r.refused;
    not_run += r.not_run;
    for (const auto& [why, n] : r.reasons) reasons[why] += n;
    max_share = std::max(max_share, r.max_share);
    max_ulp = std::max(max_ulp, r.max_ulp);
    for (const std::string& t : r.types)
        if (std::find(types.begin(), types.end(), t) == types.end()) types.push_back(t);
    if (r.smallest_failure && (!smallest_failure || r.smallest_failure->elements < smallest_failure->elements))
        smallest_failure = r.smallest_failure;
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

Report check_program(const Program& p, const Compile& target, const CheckOptions& o, const SymValues& base,
                     const std::vector<std::optional<Range>>& ranges) {
    Report r;
    r.name = p.name;
    const std::vector<SymValues> sizes = edge_sizes(p, base, o.sizes);
    if (sizes.empty()) {
        ++r.rejected;
        return r;
    }
    // An exception is a bug in the target: it is what is being looked for, and must not end the check.
    const auto run = [&]() -> Result<Compiled> {
        try {
            return target(p);
        } catch (const std::exception& e) {
            return Diagnostic(fmt::format("the target threw an exception: {}", e.what()));
        }
    }();
    for (const bool refused : {true, false}) {
        const std::string prefix = refused ? "refused: " : "not run: ";
        if (run.ok() || run.error().message.rfind(prefix, 0) != 0) continue;
        ++(refused ? r.refused : r.not_run);
        ++r.reasons[run.error().message];
        return r;
    }
    if (!run.ok()) {
        CaseReport c;
        c.arguments = arguments_text(p, sizes[0]);
        c.sizes = sizes[0];
        c.outcome = Outcome::CompileFailed;
        c.message = one_line(run.error());
        r.add(std::move(c));
        return r;
    }
    const bool floats =
        std::any_of(p.inputs.begin(), p.inputs.end(), [&](TensorId t) { return is_float(p.tensors[t].dtype); });
    uint64_t seed = o.seed;
    for (const SymValues& s : sizes)
        for (Pattern pattern : o.patterns)
            if (floats || applies_to_integers(pattern)) r.add(check_case(p, *run, s, pattern, seed++, ranges));
    return r;
}

}  // namespace opwright::verify
