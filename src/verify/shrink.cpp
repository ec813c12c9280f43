#include "verify/shrink.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "derive/shape.h"

namespace opwright::verify {
using namespace math;
namespace {

// The elements of t at the positions that a smaller shape has.
Tensor cropped(const Tensor& t, const Shape& s) {
    Tensor r(t.dtype(), s);
    const size_t bytes = size_of(t.dtype());
    for (int64_t i = 0; i < r.size(); ++i) {
        const Shape at = unravel(i, s);
        int64_t from = 0;
        for (size_t d = 0; d < s.size(); ++d) from = from * t.shape()[d] + at[d];
        std::copy_n(t.as<unsigned char>() + static_cast<size_t>(from) * bytes, bytes,
                    r.as<unsigned char>() + static_cast<size_t>(i) * bytes);
    }
    return r;
}

class Shrinker {
public:
    Shrinker(const Failure& f, const ShrinkOptions& o) : best_(f), options_(o) {}

    Shrunk run() {
        layouts();  // first: what follows runs faster on plain memory
        for (bool smaller = true; smaller && !spent();) smaller = extents();
        layouts();
        for (size_t i = 0; i < best_.c.inputs.size(); ++i) values(i);
        return {std::move(best_), runs_, !spent()};
    }

private:
    bool spent() const {
        return runs_ >= options_.runs ||
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() > options_.seconds;
    }

    // Takes the case where it fails as the one before.
    bool attempt(Case c) {
        if (spent()) return false;
        ++runs_;
        CaseReport r = run_case(*best_.program, best_.subject, c);
        if (r.passed() || r.outcome != best_.report.outcome) return false;
        best_.c = std::move(c);
        best_.report = std::move(r);
        return true;
    }

    void layouts() {
        for (size_t i = 0; i < best_.c.inputs.size(); ++i)
            for (Layout l : {Layout::Contiguous, Layout::Misaligned}) {
                if (best_.c.layout(i) == l) break;
                Case c = best_.c;
                c.layouts.resize(c.inputs.size(), Layout::Misaligned);
                c.layouts[i] = l;
                if (attempt(std::move(c))) break;
            }
    }

    bool extents() {
        bool smaller = false;
        for (const std::string& n : best_.program->symbols()) {
            const auto it = best_.c.sizes.find(n);
            if (it == best_.c.sizes.end()) continue;
            const int64_t now = it->second;
            std::vector<int64_t> candidates;
            for (int64_t e = 0; e < std::min<int64_t>(now, 20); ++e) candidates.push_back(e);
            for (int64_t e : {now / 2, now - now / 4, now - now / 8, now - 1})
                if (e >= 20 && e < now) candidates.push_back(e);
            for (int64_t e : candidates)
                if (resize(n, e)) {
                    smaller = true;
                    break;
                }
        }
        return smaller;
    }

    bool resize(const std::string& n, int64_t extent) {
        const Program& p = *best_.program;
        Case c = best_.c;
        c.sizes[n] = extent;
        if (!derive::check_requirements(p, c.sizes).ok() || !derive::output_shapes(p, c.sizes).ok()) return false;
        Case fresh = c;
        for (size_t i = 0; i < c.inputs.size(); ++i) {
            const auto s = derive::concrete_shape(p, p.inputs[i], c.sizes);
            if (!s.ok()) return false;
            for (size_t d = 0; d < s->size(); ++d)
                if ((*s)[d] > c.inputs[i].shape()[d]) return false;
            c.inputs[i] = cropped(c.inputs[i], *s);
        }
        if (attempt(std::move(c))) return true;
        fresh.inputs = make_inputs(p, fresh.sizes, fresh.pattern, fresh.seed, best_.ranges);
        expand(fresh);
        return attempt(std::move(fresh));
    }

    static void expand(Case& c) {
        for (size_t i = 0; i < c.inputs.size(); ++i)
            if (c.layout(i) == Layout::Expanded) c.inputs[i] = expanded(c.inputs[i]);
    }

    // Elements begin .. end-1 of input i set to v, which its range must allow.
    bool fill(size_t i, int64_t begin, int64_t end, double v) {
        const Tensor& t = best_.c.inputs[i];
        const auto range = i < best_.ranges.size() ? best_.ranges[i] : std::nullopt;
        if (range && (v < range->low || v >= range->high)) return false;
        bool differs = false;
        for (int64_t k = begin; k < end; ++k) differs |= !(t.get(k) == v && std::signbit(t.get(k)) == std::signbit(v));
        if (!differs) return true;
        Case c = best_.c;
        c.inputs[i] = t.clone();
        for (int64_t k = begin; k < end; ++k) c.inputs[i].set(k, v);
        expand(c);
        return attempt(std::move(c));
    }

    void values(size_t i) {
        const int64_t n = best_.c.inputs[i].size();
        // Chunks of falling length (Zeller and Hildebrandt's ddmin), down to a 64th of a large tensor.
        for (int64_t chunk = n; chunk > 0 && chunk >= n / 64 && !spent(); chunk /= 2)
            for (int64_t b = 0; b < n; b += chunk)
                if (!fill(i, b, std::min(n, b + chunk), 0)) fill(i, b, std::min(n, b + chunk), 1);
        if (!is_float(best_.c.inputs[i].dtype()) || n > 64) return;
        for (int64_t k = 0; k < n; ++k) {
            const double v = best_.c.inputs[i].get(k);
            if (!std::isfinite(v) || v == 0 || v == 1) continue;
            const double unit = std::exp2(std::floor(std::log2(std::fabs(v))));
            if (!fill(i, k, k + 1, std::nearbyint(v))) fill(i, k, k + 1, std::nearbyint(8 * v / unit) / 8 * unit);
        }
    }

    Failure best_;
    const ShrinkOptions& options_;
    int runs_ = 0;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};
}  // namespace

Shrunk shrink(const Failure& f, const ShrinkOptions& o) { return Shrinker(f, o).run(); }

}  // namespace opwright::verify
