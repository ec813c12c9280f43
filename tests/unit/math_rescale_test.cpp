// Online reductions: which pairs of folds are recognised, and that the algebra gives what two walks give.
#include "math/rescale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "lang/library.h"
#include "math/localise.h"
#include "math/unit_dims.h"
#include "schedule/block_kernel.h"

namespace opwright::math {
namespace {

Program symbolic(const std::string& source, const std::string& op) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"test.op", source})).ok());
    const auto p = library.elaborate_symbolic(op);
    EXPECT_TRUE(p.ok()) << source;
    return localise(*p).program;
}
std::string text(const Program& p, const std::vector<uint32_t>& equations) {
    std::string r;
    for (const Rescale& x : rescales(p, equations)) {
        r += x.kind == Rescale::Kind::Exponentials ? (x.function == Fn::Exp ? "exp " : "exp2 ") : "square ";
        if (x.scale != 1) r += std::to_string(x.scale) + " * ";
        r += p.print(x.value) + " - " + p.print(x.shift) + " of " + p.tensors[p.equations[x.first_equation].lhs].name +
             " for " + p.tensors[p.equations[x.second_equation].lhs].name + "\n";
    }
    return r;
}
// What is recognised in the first nest, as kernels for processors and for block targets have it.
std::string of_nest(const std::string& body) {
    const Program p = symbolic("op f" + body, "f");
    const schedule::Kernel plain = schedule::form_kernel(p), block = schedule::form_block_kernel(p, true);
    const std::string r = text(block.program, block.nests[0].equations);
    const std::string other = text(plain.program, plain.nests[0].equations);
    EXPECT_EQ(r.empty(), other.empty()) << r << other << block.program.print();
    return r;
}

TEST(Rescale, ASoftmax) {
    EXPECT_EQ(of_nest("(x[m,n]) -> y[m,n]:\n"
                      "    h[m] = max[n](x[m,n])\n    e[m,n] = exp(x[m,n] - h[m])\n"
                      "    s[m] = sum[n](e[m,n])\n    y[m,n] = e[m,n] / s[m]\n"),
              "exp x[m,n] - h[m] of h for s\n");
    EXPECT_EQ(of_nest("(x: bf16[m,n]) -> y: bf16[m,n]:\n"
                      "    h[m] = max[n](x[m,n])\n    e[m,n] = exp(cast(x[m,n] - h[m], f32))\n"
                      "    s[m] = sum[n](e[m,n])\n    y[m,n] = cast(e[m,n] / s[m], bf16)\n"),
              "exp cast(x[m,n], f32) - cast(h[m], f32) of h for s\n");
}

TEST(Rescale, ALogSumExpWithAScale) {
    const std::string head = "(x[m,n]) -> y[m]:\n    h[m] = max[n](x[m,n])\n";
    EXPECT_EQ(of_nest(head + "    y[m] = h[m] + log(sum[n](exp(x[m,n] - h[m])))\n"), "exp x[m,n] - h[m] of h for y\n");
    EXPECT_EQ(of_nest(head + "    y[m] = h[m] + log(sum[n](exp((x[m,n] - h[m]) * 0.75)))\n"),
              "exp 0.750000 * x[m,n] - h[m] of h for y\n");
    EXPECT_EQ(of_nest(head + "    y[m] = h[m] + log(sum[n](exp((x[m,n] - h[m]) / 8.0)))\n"),
              "exp 0.125000 * x[m,n] - h[m] of h for y\n");
    EXPECT_EQ(of_nest(head + "    y[m] = h[m] + log(sum[n](exp2(x[m,n] * 1.5 - h[m] * 1.5)))\n"),
              "exp2 1.500000 * x[m,n] - h[m] of h for y\n");
}

TEST(Rescale, TheTermMayBeAnyExpression) {
    EXPECT_EQ(of_nest("(x[m,n], w[n]) -> y[m]:\n    h[m] = max[n](x[m,n] * w[n])\n"
                      "    y[m] = sum[n](exp(x[m,n] * w[n] - h[m]))\n"),
              "exp x[m,n] * w[n] - h[m] of h for y\n");
}

TEST(Rescale, Variances) {
    const std::string mean = "(x[m,n]) -> y[m]:\n    c[m] = sum[n](x[m,n]) / cast(size(n), f32)\n";
    const std::string wanted = "square x[m,n] - c[m] of c for y\n";
    EXPECT_EQ(of_nest(mean + "    y[m] = sum[n]((x[m,n] - c[m]) * (x[m,n] - c[m]))\n"), wanted);
    EXPECT_EQ(of_nest(mean + "    y[m] = sum[n]((c[m] - x[m,n]) * (c[m] - x[m,n])) / cast(size(n) - 1, f32)\n"),
              wanted);
    EXPECT_EQ(of_nest(mean + "    y[m] = sum[n]((x[m,n] - c[m]) ** 2.0)\n"), wanted);
    // Any shift made of the sum will do: n * (mean - c)^2 is added at the end.
    EXPECT_EQ(of_nest(mean + "    y[m] = sum[n]((x[m,n] - (c[m] + 1)) * (x[m,n] - (c[m] + 1)))\n"),
              "square x[m,n] - c[m] + 1 of c for y\n");
}

TEST(Rescale, WhatIsNoPair) {
    const std::string head = "(x[m,n], w[m,n]) -> y[m]:\n    h[m] = max[n](x[m,n])\n";
    for (const char* body : {
             "exp(x[m,n] - h[m]) * w[m,n]",  // a sum that may be large: rescaling it later could overflow before
             "exp(w[m,n] - h[m])",           // another row's maximum
             "exp((x[m,n] - h[m]) * -1.0)",  // grows
             "exp((x[m,n] - h[m]) / 3.0)",   // 1/3 is no float
             "exp(h[m] - x[m,n])", "tanh(x[m,n] - h[m])", "x[m,n] - h[m]",
         })
        EXPECT_EQ(of_nest(head + "    y[m] = sum[n](" + body + ")\n"), "") << body;
    EXPECT_EQ(of_nest("(x[m,n]) -> y[m]:\n    h[m] = min[n](x[m,n])\n    y[m] = sum[n](exp(x[m,n] - h[m]))\n"), "");
    // The largest of rounded terms is not that of the terms.
    EXPECT_EQ(of_nest("(x[m,n]) -> y[m]:\n    h[m] = max[n](cast(x[m,n], f16))\n"
                      "    y[m] = sum[n](exp(x[m,n] - cast(h[m], f32)))\n"),
              "");
    // Deviations from what the row does not decide take one walk as it is.
    EXPECT_EQ(of_nest("(x[m,n], c[m]) -> (y[m], s[m]):\n    s[m] = sum[n](x[m,n])\n"
                      "    y[m] = sum[n]((x[m,n] - c[m]) * (x[m,n] - c[m]))\n"),
              "");
    EXPECT_EQ(of_nest("(x[m,n], w[m,n]) -> y[m]:\n    c[m] = sum[n](w[m,n]) / cast(size(n), f32)\n"
                      "    y[m] = sum[n]((x[m,n] - c[m]) * (x[m,n] - c[m]))\n"),
              "");
}

TEST(Rescale, FoldsOverDifferentRowsAreApart) {
    EXPECT_EQ(of_nest("(x[m,n]) -> y[m]:\n    h[m] = max[n](x[m,n])\n    t[m] = h[m] + 1\n"
                      "    y[m] = sum[n](exp(x[m,n] - t[m]))\n"),
              "");
    EXPECT_EQ(of_nest("(x[m,n], z[k]) -> y[m,k]:\n    h[m] = max[n](x[m,n])\n"
                      "    y[m,k] = sum[n](exp(x[m,n] - h[m]) * z[k])\n"),
              "");
}

// ---- the algebra, as targets spell it

constexpr float kInf = std::numeric_limits<float>::infinity();
float maximum(float a, float b) { return a != a || b != b ? a + b : std::fmax(a, b); }

struct Exponentials {
    float m = -kInf, s = 0;
    void add(float f) {  // one exponential an element, whichever of the two is larger
        const float h = maximum(maximum(m, f), -std::numeric_limits<float>::max());
        const float e = std::exp((f != f || m != m ? f + m : std::fmin(m, f)) - h);
        s = f > m ? s * e + 1 : s + e;
        m = maximum(m, f);
    }
    void combine(const Exponentials& o) {
        const float h = maximum(maximum(m, o.m), -std::numeric_limits<float>::max());
        s = s * std::exp(m - h) + o.s * std::exp(o.m - h);
        m = maximum(m, o.m);
    }
    float total(size_t n) const { return n ? s + (m - m) : 0; }
};
struct Deviations {
    float n = 0, t = 0, v = 0;
    void add(float f) {
        n += 1;
        t += f;
        const float d = std::fma(n, f, -t) * (1 / n);
        v += d * d * (n > 1 ? n / (n - 1) : 0);
    }
    float about(float c) const {
        const float d = t / n - c;
        return n > 0 && v != kInf ? v + n * (d * d) : v;
    }
};

// Rows of `kinds` of numbers, cut at random into parts, each folded by itself.
struct Rows {
    std::mt19937 random{7};
    std::normal_distribution<float> normal;
    std::vector<float> row(size_t n, const std::vector<float>& special) {
        std::vector<float> r(n);
        for (float& x : r)
            x = !special.empty() && random() % 3 == 0 ? special[random() % special.size()] : normal(random);
        return r;
    }
    size_t parts() { return 1 + random() % 5; }
};
const std::vector<std::vector<float>> kSpecial = {
    {},
    {-kInf},
    {kInf},
    {-kInf, kInf},
    {std::nanf("")},
    {3.4028235e38f, -3.4028235e38f},
    {3.4028235e38f},
    {-kInf, -3.4028235e38f},
    {1e20f},
    {0.0f, -0.0f},
};
bool agree(float a, float b, float tolerance) {
    if (a != a || b != b) return a != a && b != b;
    if (std::isinf(a) || std::isinf(b)) return a == b;
    return std::abs(a - b) <= tolerance * std::abs(b);
}

TEST(Rescale, ExponentialsInPartsAreThoseOfTwoWalks) {
    Rows rows;
    for (int round = 0; round < 4000; ++round) {
        const auto& special = kSpecial[static_cast<size_t>(round) % kSpecial.size()];
        std::vector<float> x = rows.row(rows.random() % 40, special);
        if (round % 7 == 0 && !special.empty()) std::fill(x.begin(), x.end(), special[0]);
        float m = -kInf, s = 0;
        for (float f : x) m = maximum(m, f);
        for (float f : x) s += std::exp(f - m);
        std::vector<Exponentials> parts(rows.parts());
        for (float f : x) parts[rows.random() % parts.size()].add(f);
        Exponentials all;
        for (const Exponentials& p : parts) all.combine(p);
        EXPECT_TRUE(agree(all.m, m, 0)) << all.m << " " << m;
        EXPECT_TRUE(agree(all.total(x.size()), s, 1e-5f)) << all.s << " is not " << s << ", round " << round;
    }
}

TEST(Rescale, DeviationsInPartsAreThoseOfTwoWalks) {
    Rows rows;
    for (int round = 0; round < 4000; ++round) {
        const auto& special = kSpecial[static_cast<size_t>(round) % kSpecial.size()];
        std::vector<float> x = rows.row(1 + rows.random() % 40, special);
        if (round % 7 == 0 && !special.empty()) std::fill(x.begin(), x.end(), special[0]);
        if (round % 3 == 0)
            for (float& f : x) f += 100;
        std::vector<Deviations> parts(rows.parts());
        for (float f : x) parts[rows.random() % parts.size()].add(f);
        float t = 0, v = 0, got = 0;
        for (const Deviations& p : parts) t += p.t;
        const float c = t / static_cast<float>(x.size());
        if (c != c && std::none_of(x.begin(), x.end(), [](float f) { return !std::isfinite(f); })) continue;
        double rounding = 0;  // of sums of elements that cancel
        for (float f : x) v += (f - c) * (f - c), rounding += std::pow(1e-6 * static_cast<double>(f), 2);
        for (const Deviations& p : parts) got += p.about(c);
        EXPECT_TRUE(agree(got, v, 1e-4f) || std::abs(static_cast<double>(got) - v) <= rounding)
            << got << " is not " << v << ", round " << round;
    }
}

TEST(Rescale, EqualWholeNumbersDeviateByNothing) {
    for (float value : {1.0f, 3.0f, -7.0f}) {
        Deviations d;
        for (int i = 0; i < 1000; ++i) d.add(value);
        EXPECT_EQ(d.about(value), 0.0f);
    }
}

TEST(Rescale, AVarianceFarFromZeroKeepsItsDigits) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<Deviations> parts(64);
    double sum = 0, square = 0;
    std::vector<float> x(1 << 16);
    for (float& f : x) sum += f = 4096 + normal(random);
    for (float f : x) square += (f - sum / 65536) * (f - sum / 65536);
    for (size_t i = 0; i < x.size(); ++i) parts[i % 64].add(x[i]);
    float got = 0;
    for (const Deviations& p : parts) got += p.about(static_cast<float>(sum / 65536));
    EXPECT_NEAR(got / square, 1, 1e-4);
}

}  // namespace
}  // namespace opwright::math
