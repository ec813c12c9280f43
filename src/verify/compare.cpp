#include "verify/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "derive/bounded.h"

namespace opwright::verify {
using derive::ReferenceOutput;
using derive::Rounding;

std::string_view name(Verdict v) {
    constexpr std::string_view names[] = {"equal", "within tolerance", "policy difference", "ill-conditioned", "wrong"};
    return names[static_cast<int>(v)];
}

Shape unravel(int64_t position, const Shape& shape) {
    Shape r(shape.size());
    for (size_t d = shape.size(); d-- > 0; position /= shape[d]) r[d] = position % shape[d];
    return r;
}

namespace {
constexpr size_t kPositions = 65536;

// One float element. Every accepted value lies in [r-e, r+e], or is an infinity that some value of that range rounds
// to.
Verdict judge(double r, double e, double g, const Rounding& c) {
    if (std::isinf(e)) return Verdict::IllConditioned;
    if (std::isnan(r)) return std::isnan(g) ? Verdict::Equal : Verdict::Wrong;
    const double rounded = derive::round_to(r, c.type);
    if (g == rounded && (std::signbit(g) == std::signbit(r) || e > 0)) return Verdict::Equal;
    if (std::isnan(g) || (g == 0 && r == 0 && e == 0)) return Verdict::Wrong;
    if (std::isinf(g)) {
        const bool reachable = g > 0 ? r + e > c.highest : r - e < -c.highest;
        return reachable ? Verdict::WithinTolerance : Verdict::Wrong;
    }
    if (std::isfinite(r) && std::fabs(r) - e < c.overflow && std::fabs(g - r) <= e) return Verdict::WithinTolerance;
    const double normal = c.tiny / c.unit;
    if (g == 0 && r != 0 && std::fabs(r) - e < normal) return Verdict::PolicyDifference;
    return Verdict::Wrong;
}

Verdict judge(int64_t r, double e, int64_t g, DType t) {
    if (std::isinf(e)) return Verdict::IllConditioned;
    if (r == g) return Verdict::Equal;
    if (e == 0) return Verdict::Wrong;  // doubles do not tell large integers apart
    return std::fabs(derive::int_value(r, t) - derive::int_value(g, t)) <= e ? Verdict::WithinTolerance
                                                                             : Verdict::Wrong;
}

std::string text(const Tensor& t, int64_t i) {
    if (is_float(t.dtype())) return std::isnan(t.get(i)) ? "nan" : fmt::format("{:.9g}", t.get(i));
    if (t.dtype() == DType::U64) return std::to_string(static_cast<uint64_t>(t.get_int(i)));
    return std::to_string(t.get_int(i));
}
}  // namespace

Comparison compare(const ReferenceOutput& reference, const Tensor& got, DType declared,
                   std::span<const ReferenceOutput* const> legal) {
    Comparison r;
    const Tensor& want = reference.value;
    r.elements = want.size();
    if (got.dtype() != declared || got.shape() != want.shape()) {
        r.verdict = Verdict::Wrong;
        r.note = fmt::format("expected {}{}, got {}{}", opwright::name(declared), to_string(want.shape()),
                             opwright::name(got.dtype()), to_string(got.shape()));
        return r;
    }
    const Rounding c(declared);
    for (int64_t i = 0; i < want.size(); ++i) {
        const double e = reference.bound.get(i);
        const double w = is_float(declared) ? want.get(i) : derive::int_value(want.get_int(i), declared);
        const double g = is_float(declared) ? got.get(i) : derive::int_value(got.get_int(i), declared);
        Verdict v = is_float(declared) ? judge(w, e, g, c) : judge(want.get_int(i), e, got.get_int(i), declared);
        const auto explains = [&](const ReferenceOutput* other) {
            return judge(other->value.get(i), other->bound.get(i), g, c) < Verdict::IllConditioned;
        };
        if (v == Verdict::Wrong && is_float(declared) && std::any_of(legal.begin(), legal.end(), explains))
            v = Verdict::PolicyDifference;
        r.verdict = std::max(r.verdict, v);
        r.equal += v == Verdict::Equal;
        r.flushed += v == Verdict::PolicyDifference;
        r.ill_conditioned += v == Verdict::IllConditioned;
        r.wrong += v == Verdict::Wrong;
        if (v == Verdict::Wrong && r.wrong_at.size() < kPositions) r.wrong_at.push_back(i);
        if (v == Verdict::Wrong && !r.first_bad)
            r.first_bad = BadElement{i, unravel(i, want.shape()), w, g, e, text(want, i), text(got, i)};
        if (!std::isfinite(w) || !std::isfinite(g) || std::isinf(e) || v == Verdict::PolicyDifference) continue;
        const double error = std::fabs(g - w);
        r.max_abs = std::max(r.max_abs, error);
        if (w != 0) r.max_rel = std::max(r.max_rel, error / std::fabs(w));
        if (e > 0) r.max_share = std::max(r.max_share, error / e);
        const double ulp =
            is_float(declared) ? std::max(2 * c.unit * std::exp2(std::floor(std::log2(std::fabs(w)))), 2 * c.tiny) : 1;
        if (error / ulp > r.max_ulp) {
            r.max_ulp = error / ulp;
            r.where = unravel(i, want.shape());
        }
    }
    return r;
}

Result<References> References::make(const math::Program& p, std::vector<Tensor> inputs, math::SymValues sizes,
                                    int64_t max_operations) {
    References r;
    OPW_TRY(r.plain_, derive::reference(p, inputs, sizes, {.max_operations = max_operations}));
    r.p_ = &p;
    r.inputs_ = std::move(inputs);
    r.sizes_ = std::move(sizes);
    r.max_operations_ = max_operations;
    return r;
}

Comparison References::compare(size_t output, const Tensor& got) {
    using derive::FlushFactors;
    const DType declared = p_->tensors[p_->outputs[output]].dtype;
    Comparison plain = verify::compare(plain_[output], got, declared);
    if (plain.passed() || !is_float(declared) || !plain.note.empty()) return plain;
    if (!flushed_) {
        flushed_.emplace();
        for (const FlushFactors which : {FlushFactors::Both, FlushFactors::First, FlushFactors::Second}) {
            auto r = derive::reference(*p_, inputs_, sizes_, {.flush_factors = which, .max_operations = max_operations_});
            if (r.ok()) flushed_->push_back(std::move(*r));
        }
    }
    std::vector<const ReferenceOutput*> legal;
    for (const auto& r : *flushed_) legal.push_back(&r[output]);
    return verify::compare(plain_[output], got, declared, legal);
}

std::string Comparison::str() const {
    std::string r(name(verdict));
    if (!note.empty()) return r + ": " + note;
    if (first_bad)
        r += fmt::format(": {} of {} element{}, the first at {}: expected {}, got {} (allowed {:.3g})", wrong, elements,
                         elements == 1 ? "" : "s", to_string(first_bad->index), first_bad->expected_text,
                         first_bad->got_text, first_bad->bound);
    else if (verdict != Verdict::Equal)
        r += fmt::format(": {} elements, max abs {:.3g}, rel {:.3g}, {:.3g} ulp at {}", elements, max_abs, max_rel,
                         max_ulp, to_string(where));
    if (ill_conditioned) r += fmt::format("; {} without a bound", ill_conditioned);
    if (flushed) r += fmt::format("; {} subnormals flushed", flushed);
    return r;
}

}  // namespace opwright::verify
