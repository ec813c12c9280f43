// Checks of derived gradients against the program itself, in fp64 through the reference.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "derive/gradient.h"
#include "derive/tangent.h"
#include "derive/reference.h"
#include "lang/library.h"

namespace opwright::test {

inline Tensor random_values(DType t, const Shape& s, std::mt19937_64& random, double low, double high) {
    Tensor r(t, s);
    std::uniform_real_distribution<double> value(low, high);
    for (int64_t i = 0; i < r.size(); ++i) r.set(i, is_float(t) ? value(random) : std::floor(value(random)));
    return r;
}
inline std::vector<Tensor> example_inputs(const lang::Example& e, const std::vector<lang::Argument>& arguments,
                                          std::mt19937_64& random) {
    std::vector<Tensor> in;
    for (size_t i = 0; i < arguments.size(); ++i) {
        const lang::Argument& a = arguments[i];
        if (!a.present) continue;
        Shape s;
        for (const math::Sym& d : a.shape) s.push_back(d.constant().value());
        const auto range = i < e.values.size() ? e.values[i] : std::nullopt;
        const bool is_real = is_float(a.dtype);
        in.push_back(random_values(a.dtype, s, random,
                                   range     ? range->low
                                   : is_real ? -1
                                             : 0,
                                   range     ? range->high
                                   : is_real ? 1
                                             : 2));
    }
    return in;
}

// <c, y> over the elements of y that are finite: a constant infinity (a mask) has no derivative.
inline double finite_dot(const Tensor& c, const Tensor& y) {
    double s = 0;
    for (int64_t i = 0; i < y.size(); ++i)
        if (std::isfinite(y.get(i))) s += c.get(i) * y.get(i);
    return s;
}

// Inputs of the gradient's program from those of the operator and cotangents of its outputs.
inline std::vector<Tensor> gradient_inputs(const derive::Gradient& g, const std::vector<Tensor>& in,
                                           const std::vector<Tensor>& cotangents) {
    std::vector<Tensor> r;
    for (size_t i : g.inputs) r.push_back(in[i]);
    for (size_t i : g.cotangents) r.push_back(cotangents[i]);
    return r;
}

// How far <J' c, v> is from the difference quotient of <c, f(x + h v)>, relative to the terms; nullopt where the
// quotient itself is not settled (a kink within reach, values that are not finite).
struct Checked {
    double error = 0;
    std::string what;
};
inline std::optional<Checked> difference_quotient(const math::Program& p, const derive::Gradient& g,
                                                  const std::vector<Tensor>& in, std::mt19937_64& random) {
    const auto out = derive::reference(p, in);
    if (!out.ok()) return Checked{INFINITY, render(out.error())};
    std::vector<Tensor> cotangents, direction;
    for (size_t i = 0; i < out->size(); ++i) {
        const DType t = p.tensors[p.outputs[i]].dtype;
        cotangents.push_back(random_values(is_float(t) ? t : DType::F64, (*out)[i].value.shape(), random, -1, 1));
    }
    const auto grads = derive::reference(g.program, gradient_inputs(g, in, cotangents));
    if (!grads.ok()) return Checked{INFINITY, render(grads.error()) + "\n" + g.program.print()};
    double derived = 0, terms = 0;
    for (size_t k = 0; k < g.wrt.size(); ++k) {
        const Tensor& x = in[g.wrt[k]];
        direction.push_back(random_values(DType::F64, x.shape(), random, -1, 1));
        for (int64_t i = 0; i < x.size(); ++i) {
            const double t = (*grads)[k].value.get(i) * direction.back().get(i);
            derived += t;
            terms += std::fabs(t);
        }
    }
    const auto along = [&](double h) -> double {
        std::vector<Tensor> moved = in;
        for (size_t k = 0; k < g.wrt.size(); ++k) {
            Tensor& x = moved[g.wrt[k]];
            x = x.clone();
            for (int64_t i = 0; i < x.size(); ++i) x.set(i, x.get(i) + h * direction[k].get(i));
        }
        const auto y = derive::reference(p, moved);
        if (!y.ok()) return NAN;
        double s = 0;
        for (size_t o = 0; o < y->size(); ++o)
            if (is_float(p.tensors[p.outputs[o]].dtype)) s += finite_dot(cotangents[o], (*y)[o].value);
        return s;
    };
    const auto quotient = [&](double h) {
        return (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h);
    };
    const double a = quotient(1e-4), b = quotient(3e-5);
    const double scale = std::max({terms, std::fabs(a), 1e-3});
    if (!std::isfinite(a) || !std::isfinite(b) || std::fabs(a - b) > 1e-6 * scale) return std::nullopt;
    return Checked{std::fabs(derived - b) / scale,
                   "derived " + std::to_string(derived) + ", quotient " + std::to_string(b)};
}

// How far <c, J v> (forward) is from <J' c, v> (reverse), relative to the terms.
inline Checked dot_identity(const math::Program& p, const derive::Gradient& g, const derive::Tangent& t,
                            const std::vector<Tensor>& in, std::mt19937_64& random) {
    const auto out = derive::reference(p, in);
    if (!out.ok()) return {INFINITY, render(out.error())};
    std::vector<Tensor> cotangents, directions;
    for (size_t i = 0; i < out->size(); ++i) {
        const DType type = p.tensors[p.outputs[i]].dtype;
        cotangents.push_back(random_values(is_float(type) ? type : DType::F64, (*out)[i].value.shape(), random, -1, 1));
    }
    for (const Tensor& x : in) directions.push_back(random_values(x.dtype(), x.shape(), random, -1, 1));
    const auto back = derive::reference(g.program, gradient_inputs(g, in, cotangents));
    if (!back.ok()) return {INFINITY, render(back.error())};
    std::vector<Tensor> forward_in;
    for (size_t i : t.inputs) forward_in.push_back(in[i]);
    for (size_t i : t.tangents) forward_in.push_back(directions[i]);
    const auto forward = derive::reference(t.program, forward_in);
    if (!forward.ok()) return {INFINITY, render(forward.error())};
    double a = 0, b = 0, terms = 1e-6;
    const auto sum = [&](double& s, const Tensor& x, const Tensor& y) {
        for (int64_t i = 0; i < x.size(); ++i) {
            const double v = x.get(i) * y.get(i);
            s += v;
            terms += std::fabs(v);
        }
    };
    for (size_t k = 0; k < t.outputs.size(); ++k) sum(a, cotangents[t.outputs[k]], (*forward)[k].value);
    for (size_t k = 0; k < g.wrt.size(); ++k) sum(b, directions[g.wrt[k]], (*back)[k].value);
    return {std::fabs(a - b) / terms, "forward " + std::to_string(a) + ", reverse " + std::to_string(b)};
}

}  // namespace opwright::test
