#include "verify/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "derive/reference.h"

namespace opwright::verify {
using namespace math;
namespace {

class Experiments {
public:
    explicit Experiments(const Failure& f) : f_(f), p_(*f.program), output_(f.report.output) {}

    std::vector<std::string> run() {
        const auto first = deliver(p_, f_.subject, f_.c);
        auto reference = References::make(p_, f_.c.inputs, f_.c.sizes);
        if (!first.ok() || !first->status.ok() || !reference.ok()) return {};
        base_ = bytes_of(*first);
        shape_ = first->outputs[output_].view().shape;
        name_ = p_.tensors[p_.outputs[output_]].name;
        wrong_ = reference->compare(output_, first->outputs[output_].tensor()).wrong_at;
        if (!repeats()) return std::move(r_);  // nothing else can be told from runs that differ
        unwritten(*first);
        surroundings();
        layouts();
        precision(*first);
        places();
        return std::move(r_);
    }

private:
    using Bytes = std::vector<unsigned char>;
    Bytes bytes_of(const Delivery& d) const {
        const Tensor t = d.outputs[output_].tensor();
        return {t.as<unsigned char>(), t.as<unsigned char>() + t.bytes()};
    }
    Bytes again(const std::function<void(Delivery&)>& prepare = nullptr) const {
        const auto d = deliver(p_, f_.subject, f_.c, prepare);
        return d.ok() && d->status.ok() ? bytes_of(*d) : Bytes();
    }

    bool repeats() {
        for (int i = 0; i < 3; ++i)
            if (again() != base_) {
                r_.push_back(
                    "Two runs on the same values differ: a race between threads, or memory that nobody has set.");
                return false;
            }
        return true;
    }

    // What keeps the poison, whatever it is.
    void unwritten(const Delivery& first) {
        const size_t bytes = size_of(first.outputs[output_].view().dtype);
        const auto other = again([&](Delivery& d) {
            for (Guarded& g : d.outputs) std::fill_n(g.view().data, static_cast<size_t>(g.view().size()) * bytes, 0x3c);
        });
        if (other.size() != base_.size()) return;
        int64_t n = 0, example = -1;
        for (int64_t i : wrong_) {
            const auto* a = base_.data() + static_cast<size_t>(i) * bytes;
            const auto* b = other.data() + static_cast<size_t>(i) * bytes;
            const bool kept = std::all_of(a, a + bytes, [](unsigned char c) { return c == kPoison; }) &&
                              std::all_of(b, b + bytes, [](unsigned char c) { return c == 0x3c; });
            if (kept && n++ == 0) example = i;
        }
        if (n)
            r_.push_back(fmt::format("{} of the {} wrong elements of {} were never written, the first at {}.", n,
                                     wrong_.size(), name_, to_string(unravel(example, shape_))));
    }

    void surroundings() {
        for (size_t i = 0; i < f_.c.inputs.size(); ++i)
            for (unsigned char fill : {0x00, 0xff}) {
                const auto other = again([&](Delivery& d) { d.inputs[i].refill(fill); });
                if (other.empty() || other == base_) continue;
                const bool gaps = f_.c.layout(i) == Layout::Sliced;
                r_.push_back(fmt::format(
                    "{} changes with what lies {} {} in memory: the kernel reads outside {} (a mask or a bound is "
                    "missing, or a stride is wrong).",
                    name_, gaps ? "around and between the rows of" : "around", p_.tensors[p_.inputs[i]].name,
                    p_.tensors[p_.inputs[i]].name));
                break;
            }
    }

    void layouts() {
        for (size_t i = 0; i < f_.c.inputs.size(); ++i) {
            const Layout l = f_.c.layout(i);
            if (l <= Layout::Misaligned || !has_layout(l, f_.c.inputs[i].shape())) continue;
            Case dense = f_.c;
            dense.layouts[i] = Layout::Contiguous;
            if (run_case(p_, f_.subject, dense).passed())
                r_.push_back(fmt::format(
                    "The same values pass where {} is dense: it fails only where {} is {}, so the strides of {} are "
                    "not followed.",
                    p_.tensors[p_.inputs[i]].name, p_.tensors[p_.inputs[i]].name, name(l),
                    p_.tensors[p_.inputs[i]].name));
        }
    }

    // Whether the bound for the arithmetic of a smaller type allows it.
    void precision(const Delivery& first) {
        const Tensor got = first.outputs[output_].tensor();
        if (!is_float(got.dtype()) || wrong_.empty()) return;
        const double unit = unit_roundoff(compute_type(got.dtype()));
        for (DType t : {DType::F32, DType::F16, DType::BF16}) {
            if (unit_roundoff(t) <= unit) continue;
            const auto wider = derive::reference(p_, f_.c.inputs, f_.c.sizes, {.scale = unit_roundoff(t) / unit});
            if (!wider.ok()) return;
            if (!compare((*wider)[output_], got, got.dtype()).passed()) continue;
            // A bound that is as large as the values allows everything and says nothing, unless the error is near it.
            for (int64_t i : wrong_) {
                const double e = (*wider)[output_].bound.get(i), v = (*wider)[output_].value.get(i);
                if (!(e < 0.5 * std::fabs(v) || std::fabs(got.get(i) - v) > e / 16)) return;
            }
            r_.push_back(
                fmt::format("All wrong elements are within what arithmetic in {} would show: an intermediate or "
                            "an accumulator is narrower than {}.",
                            name(t), name(compute_type(got.dtype()))));
            return;
        }
    }

    // In which part of the index space all wrong elements lie.
    void places() {
        const Shape& s = shape_;
        if (wrong_.empty() || s.empty()) return;
        std::string r;
        for (size_t d = 0; d < s.size(); ++d) {
            int64_t low = s[d], high = -1;
            for (int64_t i : wrong_) {
                const int64_t at = unravel(i, s)[d];
                low = std::min(low, at);
                high = std::max(high, at);
            }
            if (low == 0 && high == s[d] - 1) continue;
            r +=
                fmt::format("{}{} in dim {} (of {})", r.empty() ? "" : ", ",
                            low == high ? fmt::format("at {}", low) : fmt::format("from {} to {}", low, high), d, s[d]);
        }
        if (!r.empty()) r_.push_back(fmt::format("The wrong elements of {} lie {}.", name_, r));
    }

    const Failure& f_;
    const Program& p_;
    size_t output_;
    std::string name_;
    Bytes base_;
    Shape shape_;
    std::vector<int64_t> wrong_;
    std::vector<std::string> r_;
};
}  // namespace

std::vector<std::string> diagnose(const Failure& f) {
    if (f.report.outcome != Outcome::Compared || f.report.verdict != Verdict::Wrong || !f.program) return {};
    return Experiments(f).run();
}

}  // namespace opwright::verify
