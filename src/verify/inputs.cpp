#include "verify/inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "derive/bounded.h"
#include "derive/shape.h"

namespace opwright::verify {
using namespace math;
namespace {

constexpr std::array kPatterns = {Pattern::Random, Pattern::Positive,  Pattern::Ties,
                                  Pattern::Offset, Pattern::Nan,       Pattern::Infinity,
                                  Pattern::Zeros,  Pattern::Subnormal, Pattern::Extremes};

class IndexUses {
public:
    IndexUses(const Program& p, const SymValues& v) : p_(p), values_(v), extent_(p.tensors.size()) {}

    std::vector<std::optional<int64_t>> run() {
        for (const Equation& q : p_.equations) {
            // Everything that positions of this equation hold, once.
            std::set<ExprId> seen;
            visit(q.rhs, seen);
            for (ExprId a : q.at) visit(a, seen);
            if (q.update != Update::Set && q.outside == Outside::Error) dims(q.lhs, q.at);
        }
        std::vector<std::optional<int64_t>> r;
        for (TensorId t : p_.inputs) r.push_back(extent_[t]);
        return r;
    }

private:
    void visit(ExprId id, std::set<ExprId>& seen) {
        if (!seen.insert(id).second) return;
        const Expr& e = p_.expr(id);
        if (e.kind == ExprKind::Load && e.outside == Outside::Error) dims(e.ref, e.args);
        for (ExprId a : e.args) visit(a, seen);
    }
    void dims(TensorId t, const std::vector<ExprId>& at) {
        for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d) {
            std::set<ExprId> seen;
            std::set<TensorId> through;
            position(at[d], evaluate(p_.tensors[t].shape[d], values_).value_or(0), seen, through);
        }
    }
    // What feeds a position of a dim of this extent.
    void position(ExprId id, int64_t extent, std::set<ExprId>& seen, std::set<TensorId>& through) {
        if (!seen.insert(id).second) return;
        const Expr& e = p_.expr(id);
        if (is_float(e.dtype) || e.dtype == DType::Bool) return;
        if (e.kind == ExprKind::Load) {
            auto& x = extent_[e.ref];
            if (p_.tensors[e.ref].role == Role::Input)
                x = x ? std::min(*x, extent) : extent;
            else if (through.insert(e.ref).second)
                for (const Equation& q : p_.equations)
                    if (q.lhs == e.ref) position(q.rhs, extent, seen, through);
            return;
        }
        for (ExprId a : e.args) position(a, extent, seen, through);
    }

    const Program& p_;
    const SymValues& values_;
    std::vector<std::optional<int64_t>> extent_;
};

class Filler {
public:
    Filler(Tensor& t, Pattern p, std::mt19937_64& r, std::optional<Range> range, int64_t lanes)
        : t_(t), pattern_(p), random_(r), range_(range), lanes_(lanes) {}

    void floats() {
        const DType d = t_.dtype();
        for (int64_t i = 0; i < t_.size(); ++i) t_.set(i, base(d));
        switch (pattern_) {
            case Pattern::Nan: return sprinkle({std::numeric_limits<double>::quiet_NaN()});
            case Pattern::Infinity:
                return sprinkle({std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()});
            case Pattern::Zeros: return sprinkle({0.0, -0.0});
            case Pattern::Subnormal: {
                const derive::Rounding c(d);
                const double normal = c.tiny / c.unit;
                return sprinkle({normal / 2, -normal / 4, d == DType::F64 ? 5e-324 : 2 * c.tiny, normal, -normal});
            }
            case Pattern::Extremes: return sprinkle({highest(d), lowest(d), highest(d) / 2});
            case Pattern::Random:
            case Pattern::Positive:
            case Pattern::Ties:
            case Pattern::Offset: return;
        }
    }
    void integers() {
        const DType d = t_.dtype();
        const int64_t low = is_unsigned_int(d) || d == DType::Bool || pattern_ == Pattern::Positive
                                ? (pattern_ == Pattern::Positive)
                                : -9;
        const int64_t high = d == DType::Bool ? 1 : pattern_ == Pattern::Ties ? 2 : 9;
        if (d == DType::Bool) return between(0, 1);
        if (range_)
            return between(static_cast<int64_t>(std::ceil(range_->low)),
                           static_cast<int64_t>(std::ceil(range_->high)) - 1);
        between(std::max(low, pattern_ == Pattern::Ties && low < 0 ? int64_t{-2} : low), high);
        if (pattern_ != Pattern::Extremes) return;
        for (int64_t i : places())
            t_.set_int(i, random_() & 1   ? derive::highest_int(d)
                          : random_() % 3 ? derive::lowest_int(d)
                                          : derive::highest_int(d) - 1);
    }
    void between(int64_t low, int64_t high) {
        high = std::max(low, high);
        for (int64_t i = 0; i < t_.size(); ++i)
            t_.set_int(i, low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1)));
    }

private:
    double uniform(double a, double b) { return std::uniform_real_distribution<double>(a, b)(random_); }
    double base(DType d) {
        if (range_) {
            // Rounding must not leave the range.
            const double v = derive::round_to(uniform(range_->low, range_->high), d);
            return v < range_->low || v >= range_->high ? range_->low : v;
        }
        switch (pattern_) {
            case Pattern::Positive: return uniform(0.5, 4);
            case Pattern::Ties: return static_cast<double>(static_cast<int64_t>(random_() % 9) - 4) / 2;
            case Pattern::Offset: return (size_of(d) == 2 ? 100 : 4096) + normal_(random_);
            default: return normal_(random_);
        }
    }
    std::set<int64_t> places() {
        std::set<int64_t> r;
        const int64_t n = t_.size();
        if (n == 0) return r;
        // Ends and edges one at a time, so that most results of a reduction stay ordinary numbers.
        const int64_t edges[] = {0, lanes_ - 1, lanes_, n - lanes_, n - 1};
        for (int64_t i : edges)
            if (i >= 0 && i < n && random_() % 3) r.insert(i);
        for (int64_t k = 0; k <= n / 24; ++k) r.insert(static_cast<int64_t>(random_() % static_cast<uint64_t>(n)));
        return r;
    }
    void sprinkle(std::initializer_list<double> values) {
        const std::vector<double> v(values);
        size_t k = random_() % v.size();
        for (int64_t i : places()) t_.set(i, v[k++ % v.size()]);
    }

    Tensor& t_;
    Pattern pattern_;
    std::mt19937_64& random_;
    std::optional<Range> range_;
    int64_t lanes_;
    std::normal_distribution<double> normal_;
};
}  // namespace

std::string_view name(Pattern p) {
    constexpr std::string_view names[] = {"random",   "positive", "ties",      "offset",  "nan",
                                          "infinity", "zeros",    "subnormal", "extremes"};
    return names[static_cast<int>(p)];
}
std::vector<Pattern> all_patterns() { return {kPatterns.begin(), kPatterns.end()}; }
bool applies_to_integers(Pattern p) {
    return p == Pattern::Random || p == Pattern::Positive || p == Pattern::Ties || p == Pattern::Extremes;
}

std::vector<std::optional<int64_t>> index_extents(const Program& p, const SymValues& values) {
    return IndexUses(p, values).run();
}

std::vector<Tensor> make_inputs(const Program& p, const SymValues& values, Pattern pattern, uint64_t seed,
                                const std::vector<std::optional<Range>>& ranges, int64_t lanes) {
    const auto positions = index_extents(p, values);
    std::vector<Tensor> r;
    for (size_t i = 0; i < p.inputs.size(); ++i) {
        std::mt19937_64 random(seed * 1000003 + i);
        const TensorInfo& info = p.tensors[p.inputs[i]];
        Shape shape;
        for (const Sym& s : info.shape) shape.push_back(evaluate(s, values).value_or(0));
        Tensor t(info.dtype, std::move(shape));
        const std::optional<Range> range = i < ranges.size() ? ranges[i] : std::nullopt;
        Filler f(t, pattern, random, range, lanes);
        if (is_float(info.dtype))
            f.floats();
        else if (positions[i] && info.dtype != DType::Bool)
            f.between(range && range->low < 0 ? -*positions[i] : 0, *positions[i] - 1);
        else
            f.integers();
        r.push_back(std::move(t));
    }
    return r;
}

}  // namespace opwright::verify
