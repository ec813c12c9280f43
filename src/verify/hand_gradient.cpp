#include "verify/hand_gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "derive/reference.h"
#include "verify/compare.h"
#include "verify/inputs.h"
#include "verify/sizes.h"

namespace opwright::verify {
using namespace math;
namespace {

Tensor filled(const TensorInfo& t, const SymValues& sizes, std::mt19937_64& random,
              const std::optional<lang::ValueRange>& range) {
    Shape s;
    for (const Sym& d : t.shape) s.push_back(evaluate(d, sizes).value_or(0));
    Tensor r(t.dtype, s);
    std::uniform_real_distribution<double> value(range ? range->low : -1, range               ? range->high
                                                                          : is_float(t.dtype) ? 1
                                                                                              : 2);
    for (int64_t i = 0; i < r.size(); ++i) {
        const double v = value(random);
        if (is_float(t.dtype))
            r.set(i, v);
        else
            r.set_int(i, static_cast<int64_t>(std::max(0.0, std::floor(v))));
    }
    return r;
}
std::string place(const Shape& s) { return fmt::format("{}", fmt::join(s, ",")); }

// An element in which two gradients differ by more than rounding explains.
struct Difference {
    std::string output;  // "dx"
    size_t input = 0;    // the operator's, that it is the gradient by
    int64_t position = 0;
    Shape at;
    double given = 0, derived = 0, bound = 0;
    bool shapes = false;  // already the shapes differ
};

struct Values {
    std::vector<Tensor> inputs, cotangents;
};

Result<std::optional<Difference>> first_difference(const lang::GivenGradient& given, const derive::Gradient& derived,
                                                   const Values& v) {
    std::vector<Tensor> mine, theirs;
    for (const auto& s : given.inputs) mine.push_back(s.cotangent ? v.cotangents[s.position] : v.inputs[s.position]);
    for (size_t i : derived.inputs) theirs.push_back(v.inputs[i]);
    for (size_t i : derived.cotangents) theirs.push_back(v.cotangents[i]);
    OPW_TRY(const auto a, derive::reference(given.program, mine));
    OPW_TRY(const auto b, derive::reference(derived.program, theirs));
    for (size_t o = 0; o < given.wrt.size(); ++o) {
        const auto at = std::find(derived.wrt.begin(), derived.wrt.end(), given.wrt[o]);
        if (at == derived.wrt.end()) continue;
        const auto &x = a[o], &y = b[static_cast<size_t>(at - derived.wrt.begin())];
        Difference d{.output = given.program.tensors[given.program.outputs[o]].name, .input = given.wrt[o]};
        if (x.value.shape() != y.value.shape()) {
            d.shapes = true;
            return std::optional(d);
        }
        for (int64_t i = 0; i < x.value.size(); ++i) {
            d.given = x.value.get(i);
            d.derived = y.value.get(i);
            d.bound = x.bound.get(i) + y.bound.get(i);
            if (d.given == d.derived || (std::isnan(d.given) && std::isnan(d.derived)) || std::isinf(d.bound) ||
                std::fabs(d.given - d.derived) <= d.bound)
                continue;
            d.position = i;
            d.at = unravel(i, x.value.shape());
            return std::optional(d);
        }
    }
    return std::optional<Difference>();
}

// The derivative of <c, f(x)> along a direction by one-sided differences.
struct Slope {
    double value = 0;      // their mean
    bool settled = false;  // false: a kink within reach, or values that are not finite
    double spread = 0;     // how far the one-sided slopes of the terms lie apart, summed: what a subgradient may choose
};

class Quotient {
public:
    Quotient(const Program& p, const Values& v) : p_(p), v_(v) {}

    Slope along(const std::vector<Tensor>& direction, double scale) const {
        const Point centre = at(direction, 0);
        Slope r[2];
        double jump[2] = {0, 0};
        const double steps[2] = {1.0 / 8192, 1.0 / 32768};
        for (int i = 0; i < 2; ++i) {
            const Point up = at(direction, steps[i]), down = at(direction, -steps[i]);
            const double above = up.along - centre.along, below = centre.along - down.along;
            if (!(above > 0) || !(below > 0)) return {0, false, INFINITY};
            double right = 0, left = 0;
            for (size_t k = 0; k < centre.terms.size(); ++k) {
                const double a = (up.terms[k] - centre.terms[k]) / above, b = (centre.terms[k] - down.terms[k]) / below;
                right += a;
                left += b;
                r[i].spread += std::fabs(a - b);
            }
            r[i].value = (right + left) / 2;
            jump[i] = std::fabs(right - left);
            if (!std::isfinite(r[i].value)) return {0, false, INFINITY};
        }
        // One-sided slopes of a smooth function approach each other with the step, those at a kink do not.
        const double size = std::max({scale, std::fabs(r[1].value), 1e-3});
        const bool smooth = r[1].spread <= 1e-6 * size || r[1].spread <= 0.6 * r[0].spread;
        r[1].settled = smooth && jump[1] <= std::max(0.6 * jump[0], 1e-6 * size) &&
                       std::fabs(r[0].value - r[1].value) <= kSettled * size;
        return r[1];
    }
    static constexpr double kSettled = 1e-4;

private:
    struct Point {
        std::vector<double> terms;  // c * f(x + h * direction), element by element
        double along = NAN;         // how far that is along the direction: inputs are rounded to their type
    };
    Point at(const std::vector<Tensor>& direction, double h) const {
        std::vector<Tensor> moved = v_.inputs;
        double reached = 0, length = 0;
        for (size_t k = 0; k < moved.size(); ++k) {
            if (!direction[k].defined()) continue;
            moved[k] = moved[k].clone();
            for (int64_t i = 0; i < moved[k].size(); ++i) {
                const double d = direction[k].get(i), from = moved[k].get(i);
                if (d == 0) continue;
                moved[k].set(i, from + h * d);
                reached += (moved[k].get(i) - from) * d;
                length += d * d;
            }
        }
        Point r;
        const auto y = derive::reference(p_, moved);
        if (!y.ok() || length == 0) return r;
        r.along = reached / length;
        for (size_t o = 0; o < y->size(); ++o) {
            if (!is_float(p_.tensors[p_.outputs[o]].dtype)) continue;
            for (int64_t i = 0; i < (*y)[o].value.size(); ++i) {
                const double value = (*y)[o].value.get(i);
                r.terms.push_back(std::isfinite(value) ? v_.cotangents[o].get(i) * value : 0);
            }
        }
        return r;
    }

    const Program& p_;
    const Values& v_;
};

class Checker {
public:
    Checker(const lang::Library& l, const std::string& op, uint64_t seed) : library_(l), op_(op), random_(seed) {}

    Result<std::optional<GradientCheck>> run() {
        const lang::OpDecl* d = library_.find(op_);
        OPW_TRY(const auto examples, library_.examples(*d));
        if (examples.empty()) {
            OPW_TRY(const Program p, library_.elaborate_symbolic(op_));
            OPW_CHECK(program(p, {}, {}, {}));
        }
        for (const lang::Example& e : examples) {
            if (!r_.wrong.empty()) break;
            std::vector<std::optional<Range>> ranges;
            for (size_t i = 0; i < e.arguments.size(); ++i) {
                if (!e.arguments[i].present) continue;
                const auto v = i < e.values.size() ? e.values[i] : std::nullopt;
                ranges.push_back(v ? std::optional<Range>(Range{v->low, v->high}) : std::nullopt);
            }
            SymValues base;
            std::vector<lang::Argument> open = e.arguments;
            for (lang::Argument& a : open)
                for (Sym& s : a.shape)
                    if (const auto c = s.constant(); c && *c != 1) {
                        const std::string n = fmt::format("n{}", *c);
                        s = Sym::symbol(n);
                        base[n] = *c;
                    }
            Result<Program> p = with_doubles(open, e.attributes);
            if (!p.ok()) p = with_doubles(e.arguments, e.attributes), base.clear();
            if (!p.ok()) return p.error();
            OPW_CHECK(program(*p, e.attributes, base, ranges));
        }
        if (r_.by.empty()) return std::optional<GradientCheck>();
        return std::optional(std::move(r_));
    }

private:
    // In f64, where rounding hides least; as the example stands where the declaration or its gradient refuses that.
    Result<Program> with_doubles(const std::vector<lang::Argument>& arguments, const lang::Attributes& attributes) {
        std::vector<lang::Argument> wide = arguments;
        for (lang::Argument& a : wide)
            if (a.present && is_float(a.dtype)) a.dtype = DType::F64;
        auto p = library_.elaborate(op_, wide, attributes);
        if (p.ok() && lang::given_gradient(library_, op_, *p, attributes).ok()) return p;
        return library_.elaborate(op_, arguments, attributes);
    }

    Status program(const Program& p, const lang::Attributes& attributes, const SymValues& base,
                   const std::vector<std::optional<Range>>& ranges) {
        OPW_TRY(const auto given, lang::given_gradient(library_, op_, p, attributes));
        if (!given) return ok_status();
        r_.by = given->name;
        OPW_TRY(const derive::Gradient derived, derive::gradient(p, given->wrt));
        const std::vector<SymValues> sizes = edge_sizes(p, base, {.max_work = 1 << 11, .count = 10});
        for (const SymValues& s : sizes)
            for (Pattern pattern :
                 {Pattern::Random, Pattern::Positive, Pattern::Ties, Pattern::Zeros, Pattern::Offset}) {
                if (!r_.wrong.empty()) return ok_status();
                Values v{make_inputs(p, s, pattern, random_(), ranges), {}};
                for (TensorId t : p.outputs) {
                    TensorInfo info = p.tensors[t];
                    if (!is_float(info.dtype)) info.dtype = DType::F64;
                    v.cotangents.push_back(filled(info, s, random_, {}));
                }
                OPW_CHECK(one(*given, derived, p, v, pattern));
            }
        return ok_status();
    }

    Status one(const lang::GivenGradient& given, const derive::Gradient& derived, const Program& p, const Values& v,
               Pattern pattern) {
        OPW_TRY(const auto difference, first_difference(given, derived, v));
        ++r_.cases;
        std::string shapes;
        for (size_t i = 0; i < v.inputs.size(); ++i)
            shapes += fmt::format("{}{} = {}[{}]", i ? ", " : "", p.tensors[p.inputs[i]].name,
                                  opwright::name(v.inputs[i].dtype()), place(v.inputs[i].shape()));
        const std::string where = fmt::format("for {}, {} values", shapes, name(pattern));
        if (difference) {
            differ(*difference, p, v, where);
            return ok_status();
        }
        if (pattern != Pattern::Random && pattern != Pattern::Positive) return ok_status();
        return against_quotient(given, p, v, where);
    }

    void differ(const Difference& d, const Program& p, const Values& v, const std::string& where) {
        if (d.shapes) {
            r_.wrong = fmt::format("`{}` has another shape of `{}` than the derived gradient {}", r_.by, d.output, where);
            return;
        }
        std::vector<Tensor> direction(v.inputs.size());
        const Tensor& x = v.inputs[d.input];
        direction[d.input] = Tensor(DType::F64, x.shape());
        for (int64_t i = 0; i < x.size(); ++i) direction[d.input].set(i, i == d.position ? 1 : 0);
        const Slope slope = Quotient(p, v).along(direction, std::max(std::fabs(d.given), std::fabs(d.derived)));
        const std::string values = fmt::format("`{}` says {}[{}] = {:.6g}, derived is {:.6g}", r_.by, d.output,
                                               place(d.at), d.given, d.derived);
        // No derivative there: the table of docs/gradients.md is one choice of a subgradient, this is another.
        if (!slope.settled && std::fabs(d.given - d.derived) <= 1.001 * slope.spread) {
            if (r_.kinks++ == 0) r_.kink = fmt::format("{} {}", values, where);
            return;
        }
        if (!slope.settled) {
            r_.wrong = fmt::format("{} at a kink whose one-sided slopes differ by {:.6g} only: `{}` is wrong ({})",
                                   values, slope.spread, r_.by, where);
            return;
        }
        const bool derived_off = std::fabs(slope.value - d.derived) > std::fabs(slope.value - d.given);
        r_.wrong = fmt::format("{}, and the difference quotient is {:.6g}: {} ({}; rounding explains {:.2g})", values,
                               slope.value, derived_off ? "the derived gradient is wrong, please report it"
                                                   : fmt::format("`{}` is wrong", r_.by),
                               where, d.bound);
    }

    // Along a random direction: the whole of the gradient by hand in one number.
    Status against_quotient(const lang::GivenGradient& given, const Program& p, const Values& v,
                            const std::string& where) {
        std::vector<Tensor> mine;
        for (const auto& s : given.inputs)
            mine.push_back(s.cotangent ? v.cotangents[s.position] : v.inputs[s.position]);
        OPW_TRY(const auto g, derive::reference(given.program, mine));
        std::vector<Tensor> direction(v.inputs.size());
        double said = 0, terms = 0;
        for (size_t o = 0; o < given.wrt.size(); ++o) {
            const Tensor& x = v.inputs[given.wrt[o]];
            Tensor d(DType::F64, x.shape());
            std::uniform_real_distribution<double> value(-1, 1);
            for (int64_t i = 0; i < x.size(); ++i) {
                d.set(i, value(random_));
                const double t = g[o].value.get(i) * d.get(i);
                said += t;
                terms += std::fabs(t);
            }
            direction[given.wrt[o]] = d;
        }
        const Slope slope = Quotient(p, v).along(direction, terms);
        if (!slope.settled) return ok_status();
        ++r_.quotients;
        const double scale = std::max({terms, std::fabs(slope.value), 1e-3});
        if (std::fabs(slope.value - said) <= 10 * Quotient::kSettled * scale) return ok_status();
        r_.wrong = fmt::format(
            "`{}` and the derived gradient agree, but along a random direction they say {:.6g} and the difference "
            "quotient is {:.6g} ({})",
            r_.by, said, slope.value, where);
        return ok_status();
    }

    const lang::Library& library_;
    const std::string& op_;
    std::mt19937_64 random_;
    GradientCheck r_;
};
}  // namespace

Status same_gradient(const lang::GivenGradient& given, const derive::Gradient& derived, const Program& p,
                     const SymValues& sizes, const std::vector<std::optional<lang::ValueRange>>& ranges) {
    std::mt19937_64 random(7);
    Values v;
    for (size_t i = 0; i < p.inputs.size(); ++i)
        v.inputs.push_back(filled(p.tensors[p.inputs[i]], sizes, random, i < ranges.size() ? ranges[i] : std::nullopt));
    for (TensorId t : p.outputs) v.cotangents.push_back(filled(p.tensors[t], sizes, random, {}));
    OPW_TRY(const auto d, first_difference(given, derived, v));
    if (!d) return ok_status();
    const std::string next = fmt::format("Correct `{}`, or leave its line out of `{}`.", given.name, p.name);
    if (d->shapes)
        return Diagnostic(fmt::format("The gradient of `{}` by hand has another shape of `{}` than the derived one",
                                      p.name, d->output))
            .with_next(next);
    return Diagnostic(fmt::format("The gradient of `{}` by hand is not the derived one: `{}` says {}[{}] = {:.6g}, "
                                  "derived is {:.6g}, and rounding explains a difference of {:.2g}",
                                  p.name, given.name, d->output, place(d->at), d->given, d->derived, d->bound))
        .with_next(next);
}

std::string GradientCheck::str() const {
    if (!wrong.empty()) return wrong;
    if (cases == 0) return fmt::format("`{}` was not compared: no sizes that the declaration allows were found", by);
    std::string r = fmt::format("`{}` agrees with the derived gradient in {} cases and with difference quotients in {}",
                                by, cases - kinks, quotients);
    if (kinks)
        r += fmt::format("; in {} it takes another subgradient at a kink, which is legal: {}", kinks, kink);
    return r;
}

Result<std::optional<GradientCheck>> check_given_gradient(const lang::Library& library, const std::string& op,
                                                          uint64_t seed) {
    return Checker(library, op, seed).run();
}

}  // namespace opwright::verify
