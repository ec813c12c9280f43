// One operation at a time: the value is the table's, and the bound covers the function over everything within the
// operands' bounds, plus the rounding of an implementation as exact as the table says.
#include "derive/bounded.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "derive/accumulate.h"

namespace opwright::derive {
namespace {
using math::Fn;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const Rounding kF32(DType::F32);

double table(Fn f, double a, double b = 0) {
    const double v[2] = {a, b};
    return math::apply(f, v);
}
// Whether a kernel holding `x` is allowed where the reference says `r`.
bool allowed(Bounded r, double x, double slack = 0) {
    if (std::isinf(r.e)) return true;
    if (std::isnan(r.v)) return std::isnan(x);
    r = kF32.settle(r);
    // The slack is for the double arithmetic of this test itself.
    return x == r.v || std::fabs(x - r.v) <= r.e * (1 + 1e-9) + 1e-15 * std::fabs(x) + slack || std::isinf(r.e);
}

struct Case {
    Fn f;
    double lo, hi, lo2, hi2;
};
const Case kFloatCases[] = {
    {Fn::Neg, -9, 9, 0, 0},      {Fn::Abs, -9, 9, 0, 0},      {Fn::Sign, -2, 2, 0, 0},
    {Fn::Floor, -5, 5, 0, 0},    {Fn::Ceil, -5, 5, 0, 0},     {Fn::Round, -5, 5, 0, 0},
    {Fn::Trunc, -5, 5, 0, 0},    {Fn::Sqrt, -1, 90, 0, 0},    {Fn::Rsqrt, -1, 90, 0, 0},
    {Fn::Exp, -110, 95, 0, 0},   {Fn::Exp2, -160, 135, 0, 0}, {Fn::Expm1, -20, 95, 0, 0},
    {Fn::Log, -1, 50, 0, 0},     {Fn::Log2, -1, 50, 0, 0},    {Fn::Log1p, -2, 50, 0, 0},
    {Fn::Sin, -20, 20, 0, 0},    {Fn::Cos, -20, 20, 0, 0},    {Fn::Tan, -20, 20, 0, 0},
    {Fn::Asin, -1.2, 1.2, 0, 0}, {Fn::Acos, -1.2, 1.2, 0, 0}, {Fn::Atan, -30, 30, 0, 0},
    {Fn::Sinh, -95, 95, 0, 0},   {Fn::Cosh, -95, 95, 0, 0},   {Fn::Tanh, -12, 12, 0, 0},
    {Fn::Asinh, -30, 30, 0, 0},  {Fn::Acosh, 0, 30, 0, 0},    {Fn::Atanh, -1.2, 1.2, 0, 0},
    {Fn::Erf, -5, 5, 0, 0},      {Fn::Add, -9, 9, -9, 9},     {Fn::Sub, -9, 9, -9, 9},
    {Fn::Mul, -9, 9, -9, 9},     {Fn::Div, -9, 9, -3, 3},     {Fn::FloorDiv, -30, 30, -3, 3},
    {Fn::Mod, -30, 30, -3, 3},   {Fn::Fmod, -30, 30, -3, 3},  {Fn::Pow, -3, 9, -6, 6},
    {Fn::Atan2, -3, 3, -3, 3},   {Fn::Min, -3, 3, -3, 3},     {Fn::Max, -3, 3, -3, 3},
};

TEST(DeriveBounded, CoversTheFunctionOverItsOperandsBounds) {
    std::mt19937_64 random(7);
    const auto uniform = [&](double a, double b) { return std::uniform_real_distribution<double>(a, b)(random); };
    for (const Case& c : kFloatCases) {
        const int arity = math::info(c.f).arity;
        int open = 0, total = 0;
        for (int trial = 0; trial < 4000; ++trial) {
            // Bounds from far below to far above the spacing of f32; integers and halves often, where steps are.
            Bounded a[2] = {{uniform(c.lo, c.hi), 0}, {uniform(c.lo2, c.hi2), 0}};
            for (Bounded& x : a) {
                if (random() % 4 == 0) x.v = std::round(2 * x.v) / 2;
                x.v = static_cast<float>(x.v);
                if (random() % 3) x.e = std::fabs(x.v) * std::exp2(uniform(-26, -8));
            }
            const Bounded r = apply_bounded(c.f, a, kF32);
            ASSERT_FALSE(std::isnan(r.e)) << math::info(c.f).name;
            ++total;
            open += std::isinf(r.e);
            for (int k = 0; k < 12; ++k) {
                double v[2] = {0, 0};
                for (int i = 0; i < arity; ++i)
                    v[i] = a[i].e == 0 ? a[i].v
                                       : a[i].v + a[i].e * (k == 0   ? 0
                                                            : k == 1 ? 1
                                                            : k == 2 ? -1
                                                                     : uniform(-1, 1));
                const double x = table(c.f, v[0], v[1]);
                const double slack = 1e-15 * (std::fabs(v[0]) + std::fabs(v[1]));
                EXPECT_TRUE(allowed(r, x, slack) || allowed(kF32.settle({x, 0}), r.v))
                    << math::info(c.f).name << "(" << a[0].v << "+-" << a[0].e << ", " << a[1].v << "+-" << a[1].e
                    << ") = " << r.v << "+-" << r.e << ", at " << v[0] << ", " << v[1] << " it is " << x;
            }
        }
        EXPECT_LT(open, total / 4) << math::info(c.f).name << " gives up too often";
    }
}

TEST(DeriveBounded, ExactOperandsRoundOnce) {
    std::mt19937_64 random(8);
    for (const Case& c : kFloatCases) {
        const double ulps = math::info(c.f).ulps;
        for (int trial = 0; trial < 500; ++trial) {
            const Bounded a[2] = {
                {static_cast<float>(std::uniform_real_distribution<double>(c.lo, c.hi)(random)), 0},
                {static_cast<float>(std::uniform_real_distribution<double>(c.lo2, c.hi2)(random)), 0}};
            const Bounded r = apply_bounded(c.f, a, kF32);
            const double want = table(c.f, a[0].v, a[1].v);
            if (std::isnan(want)) { EXPECT_TRUE(std::isnan(r.v)); }
            if (!std::isfinite(want) || std::fabs(want) > 1e38 || std::fabs(want) < 1e-37) continue;
            EXPECT_EQ(r.v, want);
            if (c.f == Fn::FloorDiv || c.f == Fn::Mod || c.f == Fn::Fmod) continue;
            if (ulps == 0.5 && static_cast<float>(want) == want) {  // nothing to round
                EXPECT_EQ(r.e, 0) << math::info(c.f).name;
                continue;
            }
            EXPECT_LE(r.e, 2 * ulps * kF32.unit * std::fabs(want)) << math::info(c.f).name;
            EXPECT_GE(r.e, (2 * ulps - 1e-6) * kF32.unit * std::fabs(want)) << math::info(c.f).name;
        }
    }
}

TEST(DeriveBounded, FloatFloorDivAndRemaindersAllowBothWaysOfComputing) {
    std::mt19937 random(9);
    for (int trial = 0; trial < 20000; ++trial) {
        const float a = std::uniform_real_distribution<float>(-40, 40)(random),
                    b = std::uniform_real_distribution<float>(0.1f, 3)(random);
        const Bounded x[2] = {{a, 0}, {b, 0}};
        const float q = a / b;
        EXPECT_TRUE(allowed(apply_bounded(Fn::FloorDiv, x, kF32), std::floor(q)));
        EXPECT_TRUE(allowed(apply_bounded(Fn::Mod, x, kF32), a - std::floor(q) * b)) << a << " " << b;
        EXPECT_TRUE(allowed(apply_bounded(Fn::Fmod, x, kF32), std::fmod(a, b)));
        EXPECT_TRUE(allowed(apply_bounded(Fn::Fmod, x, kF32), a - std::trunc(q) * b));
    }
    const Bounded exact[2] = {{6, 0}, {2, 0}};
    EXPECT_EQ(apply_bounded(Fn::FloorDiv, exact, kF32).e, 0);
}

TEST(DeriveBounded, SpecialValuesStayCertain) {
    const auto f = [](Fn g, Bounded a, Bounded b = {}) {
        const Bounded v[2] = {a, b};
        return apply_bounded(g, v, kF32);
    };
    const auto is = [](Bounded r, double v) {
        EXPECT_EQ(r.e, 0) << r.v << " for " << v;
        if (std::isnan(v)) {
            EXPECT_TRUE(std::isnan(r.v));
        } else {
            EXPECT_EQ(r.v, v);
            EXPECT_EQ(std::signbit(r.v), std::signbit(v));
        }
    };
    is(f(Fn::Add, {kInf, 0}, {1, 0.1}), kInf);
    is(f(Fn::Sub, {kInf, 0}, {kInf, 0}), kNan);
    is(f(Fn::Mul, {kInf, 0}, {0, 0}), kNan);
    is(f(Fn::Mul, {kInf, 0}, {-2, 0.1}), -kInf);
    is(f(Fn::Div, {1, 0}, {0, 0}), kInf);
    is(f(Fn::Div, {1, 0}, {-0.0, 0}), -kInf);
    is(f(Fn::Div, {1, 0.5}, {kInf, 0}), 0);
    is(f(Fn::Max, {kNan, 0}, {1, kInf}), kNan);
    is(f(Fn::Max, {-0.0, 0}, {0, 0}), 0);
    is(f(Fn::Min, {-0.0, 0}, {0, 0}), -0.0);
    is(f(Fn::Neg, {0, 0}), -0.0);
    is(f(Fn::Round, {-0.25, 0}), -0.0);
    is(f(Fn::Exp, {-kInf, 0}), 0);
    is(f(Fn::Exp, {100, 1e-6}), kInf);  // overflows f32, whatever the rounding
    is(f(Fn::Sqrt, {-1, 0.1}), kNan);
    is(f(Fn::Mul, {0, 0}, {-1, 0}), -0.0);
    EXPECT_TRUE(std::isinf(f(Fn::Sqrt, {0.05, 0.1}).e));  // may be NaN
    EXPECT_TRUE(std::isinf(f(Fn::Div, {1, 0}, {0.01, 0.1}).e));
    EXPECT_TRUE(std::isinf(f(Fn::Exp, {88.7228, 1e-3}).e));  // may overflow
    EXPECT_TRUE(std::isinf(f(Fn::Log, {1e-3, 1e-2}).e));
    // A zero of unknown sign: a root does not mind, a quotient does.
    EXPECT_LE(f(Fn::Sqrt, {0, kF32.tiny}).e, kF32.tiny);
    EXPECT_TRUE(std::isinf(f(Fn::Div, {1, 0}, {0, kF32.tiny}).e));
}

TEST(DeriveBounded, ProductsOverflowOnlyWhereTheirUserSeesThem) {
    const auto f = [](Fn g, Bounded a, Bounded b) {
        const Bounded v[2] = {a, b};
        return apply_bounded(g, v, kF32);
    };
    const Bounded big = f(Fn::Mul, {1e30, 0}, {1e30, 0});
    EXPECT_DOUBLE_EQ(big.v, 1e60);
    const Bounded root = apply_bounded(Fn::Sqrt, &big, kF32);  // no fused root of a product
    EXPECT_TRUE(std::isinf(root.v) && root.e == 0);
    const Bounded difference = f(Fn::Sub, big, big);  // fused: finite or inf; not: NaN
    EXPECT_TRUE(std::isinf(difference.e));
    const Bounded sum = f(Fn::Add, big, {1, 0});
    EXPECT_TRUE(std::isinf(sum.v) && sum.e == 0);
    // In f64 no double holds the product: it is infinite to all but a fused addition of the other sign.
    const Rounding f64(DType::F64);
    const auto g = [&](Fn h, Bounded a, Bounded b) {
        const Bounded v[2] = {a, b};
        return apply_bounded(h, v, f64);
    };
    const Bounded huge = g(Fn::Mul, {1e300, 0}, {1e300, 0});
    EXPECT_EQ(g(Fn::Add, huge, {-1e308, 0}).e, kInf);
    EXPECT_EQ(g(Fn::Sub, huge, {-1e308, 0}).e, 0);
    EXPECT_EQ(g(Fn::Add, huge, {kInf, 0}).v, kInf);
    EXPECT_EQ(g(Fn::Div, {1, 0}, huge).v, 0);
    EXPECT_EQ(g(Fn::Div, {1, 0}, huge).e, 0);
    SumAccumulator s;
    s.add_wild(huge);
    s.add_wild({1, 0});
    EXPECT_EQ(s.result(2, f64).e, 0);
    s.add_wild({-1, 0});
    EXPECT_EQ(s.result(3, f64).e, kInf);
    const Bounded half = f(Fn::Add, {3e38, 0}, {3e38, 0});
    EXPECT_TRUE(std::isinf(half.v) && half.e == 0);
}

TEST(DeriveBounded, AnOverflowMayBeScaledAway) {
    const auto mul = [](Bounded a, Bounded b) {
        const Bounded x[2] = {a, b};
        return apply_bounded(Fn::Mul, x, kF32);
    };
    const Bounded product = mul({3e38, 0}, {1.5, 0});  // 4.5e38, which f32 does not hold
    for (const Bounded scaled : {mul(product, {0.5, 0}), mul({0.5, 0}, product)}) {
        EXPECT_TRUE(allowed(scaled, kInf));
        EXPECT_TRUE(allowed(scaled, 2.25e38));
    }
    // Not by any other number, not up, and not where the scaled product overflows too.
    EXPECT_FALSE(allowed(mul(product, {0.3, 0}), 1.35e38));
    EXPECT_FALSE(allowed(mul(product, {2, 0}), 3e38));
    EXPECT_FALSE(allowed(mul(mul({3e38, 0}, {3, 0}), {0.5, 0}), 3e38));
    EXPECT_TRUE(allowed(mul(mul({3e38, 0}, {3, 0}), {0.5, 0}), kInf));
    // An infinity that is given stays one.
    EXPECT_FALSE(allowed(mul({kInf, 0}, {0.5, 0}), 2.25e38));
}

TEST(DeriveBounded, ComparisonsNearATieMayGoEitherWay) {
    const auto t = [](Fn g, Bounded a, Bounded b) {
        const Bounded v[2] = {a, b};
        return test_bounded(g, v, kF32);
    };
    EXPECT_EQ(t(Fn::Lt, {1, 0}, {1, 0}).e, 0);
    EXPECT_EQ(t(Fn::Lt, {1, 0.1}, {1.05, 0}).e, 1);
    EXPECT_EQ(t(Fn::Lt, {1, 0.1}, {2, 0.1}).e, 0);
    EXPECT_EQ(t(Fn::Eq, {1, 0.1}, {kNan, 0}).e, 0);
    EXPECT_EQ(t(Fn::Eq, {kInf, 0}, {1, 0.1}).e, 0);
    EXPECT_EQ(t(Fn::Lt, {1, kInf}, {1e30, 0}).e, 1);
    const Bounded s = select_bounded({1, 1}, Bounded{1, 0.1}, Bounded{3, 0.2});
    EXPECT_EQ(s.v, 1);
    EXPECT_DOUBLE_EQ(s.e, 2.2);
    EXPECT_EQ(select_bounded({1, 0}, Bounded{1, 0.1}, Bounded{3, 0.2}).e, 0.1);
    EXPECT_TRUE(std::isinf(select_bounded({1, 1}, Bounded{1, 0}, Bounded{kNan, 0}).e));
}

TEST(DeriveBounded, IntegersCoverTheirBoundsOrGiveUp) {
    std::mt19937_64 random(10);
    const Fn fns[] = {Fn::Neg,    Fn::Abs,  Fn::Sign, Fn::Add, Fn::Sub, Fn::Mul,    Fn::Div,   Fn::FloorDiv,
                      Fn::Mod,    Fn::Fmod, Fn::Pow,  Fn::Min, Fn::Max, Fn::BitAnd, Fn::BitOr, Fn::BitXor,
                      Fn::BitNot, Fn::Shl,  Fn::Shr,  Fn::Eq,  Fn::Lt,  Fn::Ge};
    for (DType t : {DType::I8, DType::U8, DType::I32, DType::I64})
        for (Fn f : fns)
            for (int trial = 0; trial < 300; ++trial) {
                BoundedInt a[2];
                for (BoundedInt& x : a)
                    x = {math::wrap_to(static_cast<int64_t>(random() % 300) - (is_signed_int(t) ? 150 : 0), t),
                         double(random() % 3)};
                const BoundedInt r = apply_bounded(f, a, t);
                int64_t v[2] = {a[0].v, a[1].v};
                EXPECT_EQ(r.v, math::apply_int(f, {v, 2}, t));
                if (std::isinf(r.e)) continue;
                for (int64_t i = -int64_t(a[0].e); i <= int64_t(a[0].e); ++i)
                    for (int64_t j = -int64_t(a[1].e); j <= int64_t(a[1].e); ++j) {
                        int64_t w[2] = {a[0].v + i, a[1].v + j};
                        if (math::wrap_to(w[0], t) != w[0] || math::wrap_to(w[1], t) != w[1]) continue;
                        EXPECT_LE(std::fabs(int_value(math::apply_int(f, {w, 2}, t), t) - int_value(r.v, t)), r.e)
                            << math::info(f).name << " " << name(t) << " " << w[0] << " " << w[1];
                    }
            }
}

TEST(DeriveBounded, Conversions) {
    EXPECT_EQ(float_to_int({2.5, 0}, DType::I32).v, 2);
    EXPECT_EQ(float_to_int({2.9999, 0.001}, DType::I32).e, 1);
    EXPECT_EQ(float_to_int({2.5, 0.1}, DType::I32).e, 0);
    EXPECT_EQ(float_to_int({1e20, 1}, DType::I8).v, 127);
    EXPECT_EQ(float_to_int({1e20, 1}, DType::I8).e, 0);
    EXPECT_EQ(float_to_int({kNan, 0}, DType::U8).v, 0);
    EXPECT_EQ(float_to_int({-3, 0}, DType::U64).v, 0);
    EXPECT_EQ(float_to_int({0, 1e-9}, DType::Bool).e, 1);
    EXPECT_EQ(int_to_float({16777217, 0}, DType::I32, DType::F32, 1).v, 16777217);
    EXPECT_GT(int_to_float({16777217, 0}, DType::I32, DType::F32, 1).e, 0);
    EXPECT_EQ(int_to_float({-1, 0}, DType::U64, DType::F64, 1).v, 0x1p64);
    EXPECT_EQ(int_to_float({77, 0}, DType::I32, DType::F32, 1).e, 0);
    EXPECT_EQ(int_to_int({300, 0}, DType::I32, DType::U8).v, 255);
    EXPECT_EQ(int_to_int({-1, 0}, DType::I32, DType::U64).v, 0);
    EXPECT_EQ(int_to_int({-1, 0}, DType::U64, DType::I64).v, std::numeric_limits<int64_t>::max());
    EXPECT_EQ(int_to_int({-7, 0}, DType::I32, DType::Bool).v, 1);
    EXPECT_EQ(wrap_bounded({300, 0}, DType::U8).v, 44);
    // To f32 from f64: one rounding, no doubt. To a 16-bit type within an equation: rounded or not.
    EXPECT_EQ(round_bounded({0.1, 0}, DType::F64, DType::F32, false, 1).v, static_cast<double>(0.1f));
    EXPECT_EQ(round_bounded({0.1, 0}, DType::F64, DType::F32, false, 1).e, 0);
    const Bounded h = round_bounded({0.1, 0}, DType::F32, DType::F16, true, 1);
    EXPECT_EQ(h.v, 0.1);
    EXPECT_DOUBLE_EQ(h.e, std::fabs(f16_to_f32(f64_to_f16(0.1)) - 0.1));
    EXPECT_TRUE(std::isinf(round_bounded({70000, 0}, DType::F32, DType::F16, true, 1).e));
    EXPECT_EQ(bits_of(1.0, DType::F32), 0x3f800000);
    EXPECT_EQ(from_bits(0x3c00, DType::F16), 1);
}

TEST(DeriveAccumulate, SumsCoverEveryOrder) {
    std::mt19937 random(11);
    for (int trial = 0; trial < 2000; ++trial) {
        const int n = 1 + static_cast<int>(random() % 40);
        std::vector<float> x(n);
        for (float& v : x) v = std::normal_distribution<float>(trial % 3 ? 0.f : 100.f)(random);
        SumAccumulator whole, parts[3];
        for (int i = 0; i < n; ++i) {
            whole.add({x[i], 0});
            parts[i % 3].add({x[i], 0});
        }
        parts[0].merge(parts[1]);
        parts[0].merge(parts[2]);
        const Bounded r = whole.result(n, kF32);
        EXPECT_DOUBLE_EQ(r.v, parts[0].result(n, kF32).v);
        EXPECT_DOUBLE_EQ(whole.terms(), parts[0].terms());
        std::shuffle(x.begin(), x.end(), random);
        while (x.size() > 1) {  // a random tree of additions
            const size_t i = random() % (x.size() - 1);
            x[i] += x[i + 1];
            x.erase(x.begin() + static_cast<long>(i) + 1);
        }
        EXPECT_LE(std::fabs(x[0] - r.v), r.e);
        EXPECT_LE(r.e, n * kF32.unit * whole.terms());
    }
}

TEST(DeriveAccumulate, IntegersThatFitAddUpExactly) {
    const auto sum = [](std::vector<double> x, const Rounding& c) {
        SumAccumulator a, b;
        for (size_t i = 0; i < x.size(); ++i) (i % 2 ? a : b).add({x[i], 0});
        a.merge(b);
        return a.result(static_cast<double>(x.size()), c);
    };
    EXPECT_EQ(sum({1, 2, 3, -7}, kF32).e, 0);
    EXPECT_GT(sum({1, 2, 3, 0.5}, kF32).e, 0);
    EXPECT_GT(sum({0.5, 1, 0.5, 1}, kF32).e, 0);
    EXPECT_EQ(sum({0x1p23, 0x1p23 - 1}, kF32).e, 0);
    EXPECT_GT(sum({0x1p24, 1}, kF32).e, 0);
}

TEST(DeriveBounded, ExactResultsOfExactOperandsHaveNoBound) {
    const Rounding f64(DType::F64);
    const auto f = [](Fn g, double a, double b, const Rounding& c) {
        const Bounded v[2] = {{a, 0}, {b, 0}};
        return apply_bounded(g, v, c).e;
    };
    for (const Rounding& c : {kF32, f64}) {
        EXPECT_EQ(f(Fn::Add, 0.5, 3, c), 0);
        EXPECT_EQ(f(Fn::Sub, 0.5, 3, c), 0);
        EXPECT_EQ(f(Fn::Mul, 0.5, 3, c), 0);
        EXPECT_EQ(f(Fn::Div, 3, 8, c), 0);
        EXPECT_EQ(f(Fn::Sqrt, 2.25, 0, c), 0);
        EXPECT_GT(f(Fn::Mul, 1.0 + 0x1p-20, 1.0 + 0x1p-20, kF32), 0);
        EXPECT_GT(f(Fn::Div, 1, 3, c), 0);
        EXPECT_GT(f(Fn::Sqrt, 2, 0, c), 0);
    }
    EXPECT_GT(f(Fn::Mul, 1.0 + 0x1p-40, 1.0 + 0x1p-40, f64), 0);
    EXPECT_GT(f(Fn::Mul, 1e-200, 1e-200, f64), 0);
    EXPECT_GT(f(Fn::Mul, 1e-30, 1e-30, kF32), 0);
}

// What such an operation rounds off is no f64: a fused multiply-add shows it nevertheless. A layer norm of f64 rows with
// subnormal values gave -0 on a GPU, where the product rounded first and its opposite gave the reference +0.
TEST(DeriveBounded, SmallF64ResultsAreExactOnlyWhereTheyAre) {
    const Rounding c(DType::F64);
    const double least = 0x1p-1074;
    const auto f = [&](Fn g, Bounded a, Bounded b) {
        const Bounded v[2] = {a, b};
        return apply_bounded(g, v, c);
    };
    EXPECT_EQ(f(Fn::Mul, {0.5, 0}, {2 * least, 0}).e, 0);
    EXPECT_EQ(f(Fn::Mul, {0x1p-500, 0}, {3 * 0x1p-570, 0}).e, 0);
    EXPECT_EQ(f(Fn::Div, {6 * least, 0}, {2, 0}).e, 0);
    EXPECT_EQ(f(Fn::Div, {6 * least, 0}, {least, 0}).e, 0);
    EXPECT_EQ(f(Fn::Sqrt, {4 * least, 0}, {}).e, 0);
    EXPECT_EQ(f(Fn::Mul, {0, 0}, {least, 0}).e, 0);
    EXPECT_EQ(f(Fn::Div, {0, 0}, {least, 0}).e, 0);
    EXPECT_GT(f(Fn::Mul, {0.5, 0}, {3 * least, 0}).e, 0);
    EXPECT_GT(f(Fn::Mul, {0x1p-530 * 1.5, 0}, {0x1p-530 * 1.5 * (1 + 0x1p-30), 0}).e, 0);
    EXPECT_GT(f(Fn::Div, {3 * least, 0}, {2, 0}).e, 0);
    EXPECT_GT(f(Fn::Div, {3 * least, 0}, {7, 0}).e, 0);
    EXPECT_GT(f(Fn::Sqrt, {3 * least, 0}, {}).e, 0);
    EXPECT_EQ(f(Fn::Sqrt, {0x1p-1030 * (1 + 0x1p-40), 0}, {}).e > 0, true);
    // An error of a factor that vanishes in the bound's own arithmetic.
    EXPECT_GT(f(Fn::Mul, {0.5, 0x1p-53}, {4 * least, 0}).e, 0);
    EXPECT_GE(f(Fn::Div, {0x1p-1040, 0}, {0x1p-1000, 0x1p-1053}).e, 0x1p-93);

    const Bounded product = f(Fn::Mul, {0.5, 0}, {3 * least, 0});
    const Bounded fused = f(Fn::Add, product, {-2 * least, 0});  // -0 by one instruction, +0 by two
    EXPECT_EQ(fused.v, 0);
    EXPECT_GT(fused.e, 0);
    // And everything that a kernel may hold is covered, fused or not, small operands throughout.
    std::mt19937_64 g(1);
    for (int i = 0; i < 200000; ++i) {
        const auto draw = [&] { return std::ldexp(static_cast<double>(static_cast<int64_t>(g() % 33) - 16), -1074); };
        const double a = static_cast<double>(static_cast<int64_t>(g() % 65) - 32) / 16, x = draw(), y = draw();
        const Bounded r = f(Fn::Add, f(Fn::Mul, {a, 0}, {x, 0}), {y, 0});
        for (const double got : {std::fma(a, x, y), a * x + y}) {
            EXPECT_LE(std::fabs(got - r.v), r.e) << a << " " << x << " " << y;
            EXPECT_TRUE(r.e > 0 || std::signbit(got) == std::signbit(r.v)) << a << " " << x << " " << y;
        }
    }
}

TEST(DeriveAccumulate, SumsAtTheEdgeOfTheRange) {
    const auto sum = [](std::vector<double> x) {
        SumAccumulator a;
        for (double v : x) a.add_wild({v, 0});
        return a.result(static_cast<double>(x.size()), kF32);
    };
    EXPECT_EQ(sum({3e38, 3e38}).v, kInf);  // every order overflows
    EXPECT_EQ(sum({3e38, 3e38}).e, 0);
    EXPECT_EQ(sum({3e38, 3e38, -3e38}).e, kInf);        // the order decides
    EXPECT_EQ(sum({3e38, -3e38}).e, kF32.unit * 6e38);  // finite in any order
    EXPECT_EQ(sum({kInf, 1}).v, kInf);
    EXPECT_EQ(sum({kInf, 1}).e, 0);
    EXPECT_TRUE(std::isnan(sum({kInf, -kInf}).v));
    EXPECT_EQ(sum({kInf, -kInf}).e, 0);
    EXPECT_TRUE(std::isnan(sum({1, kNan}).v));
    EXPECT_EQ(sum({kInf, -3e38, -3e38}).e, kInf);  // inf + -inf in some order
    EXPECT_EQ(sum({-0.0, -0.0}).e, kF32.tiny);     // the sign of the zero is open
    EXPECT_EQ(sum({1.5}).e, 0);
    EXPECT_EQ(sum({}).v, 0);
    EXPECT_EQ(sum({}).e, 0);
}

TEST(DeriveAccumulate, ExtremaAndTheirPositions) {
    using math::ReduceOp;
    const auto run = [](ReduceOp op, std::vector<Bounded> x) {
        FloatAccumulator a(op, kF32), b(op, kF32), c(op, kF32);
        for (size_t i = 0; i < x.size(); ++i) {
            a.add(x[i], static_cast<int64_t>(i));
            (i % 2 ? b : c).add(x[i], static_cast<int64_t>(i));
        }
        b.merge(c);
        if (is_arg(op)) {
            EXPECT_EQ(a.index().v, b.index().v);
            EXPECT_EQ(a.index().e, b.index().e);
            return Bounded{static_cast<double>(a.index().v), a.index().e};
        }
        EXPECT_TRUE(a.result().v == b.result().v || std::isnan(a.result().v) ||
                    std::fabs(a.result().v - b.result().v) < 1e-14 * std::fabs(a.result().v));
        EXPECT_DOUBLE_EQ(a.result().e, b.result().e);
        return a.result();
    };
    EXPECT_EQ(run(ReduceOp::ArgMax, {{1, 0}, {3, 0}, {3, 0}}).v, 1);
    EXPECT_EQ(run(ReduceOp::ArgMax, {{1, 0}, {3, 0}, {3, 0}}).e, 0);
    EXPECT_EQ(run(ReduceOp::ArgMaxLast, {{1, 0}, {3, 0}, {3, 0}, {2, 0}}).v, 2);
    EXPECT_EQ(run(ReduceOp::ArgMin, {{1, 0}, {-3, 0}, {-3, 0}}).v, 1);
    EXPECT_EQ(run(ReduceOp::ArgMinLast, {{1, 0}, {-3, 0}, {-3, 0}}).v, 2);
    EXPECT_EQ(run(ReduceOp::ArgMax, {{1, 0.1}, {3, 0.1}, {2, 0.1}}).e, 0);
    EXPECT_EQ(run(ReduceOp::ArgMax, {{2.9, 0.1}, {3, 0.1}, {2, 0.1}}).e, kInf);
    EXPECT_EQ(run(ReduceOp::ArgMax, {{3, 0.1}, {2.9, 0}, {2, 0}}).e, kInf);
    EXPECT_EQ(run(ReduceOp::ArgMax, {{1, 0}, {kNan, 0}, {kInf, 0}, {kNan, 0}}).v, 1);
    EXPECT_EQ(run(ReduceOp::ArgMinLast, {{1, 0}, {kNan, 0}, {kInf, 0}, {kNan, 0}}).v, 3);
    EXPECT_EQ(run(ReduceOp::Max, {{1, 0.1}, {3, 0.2}}).e, 0.2);
    EXPECT_TRUE(std::isnan(run(ReduceOp::Min, {{1, 0}, {kNan, 0}, {0, 0}}).v));
    EXPECT_FALSE(std::signbit(run(ReduceOp::Max, {{-0.0, 0}, {0, 0}, {-0.0, 0}}).v));
    EXPECT_TRUE(std::signbit(run(ReduceOp::Min, {{0, 0}, {-0.0, 0}, {0, 0}}).v));
    EXPECT_EQ(run(ReduceOp::ArgMax, {{1, 0}, {1e39, 0}, {2e39, 0}}).v, 1);  // both are infinite in f32
    EXPECT_EQ(run(ReduceOp::Max, {{1, 0}, {1e39, 1}}).v, kInf);
    EXPECT_EQ(run(ReduceOp::Min, {{1, 0}, {kNan, kInf}}).e, kInf);  // perhaps NaN
    EXPECT_EQ(run(ReduceOp::Max, {}).v, -kInf);
    EXPECT_EQ(run(ReduceOp::Min, {}).v, kInf);
    EXPECT_EQ(run(ReduceOp::Prod, {}).v, 1);
    EXPECT_EQ(run(ReduceOp::Prod, {{2, 0}, {3, 0}, {-4, 0}}).v, -24);
    EXPECT_LE(run(ReduceOp::Prod, {{2, 0}, {3, 0}, {-4, 0}}).e, 24 * 3 * kF32.unit);
    EXPECT_EQ(run(ReduceOp::Prod, {{1e30, 0}, {1e30, 0}, {1e-30, 0}}).e,
              kInf);  // overflows in one order, not in another
    EXPECT_EQ(run(ReduceOp::Prod, {{1e30, 0}, {1e30, 0}}).v, kInf);
    EXPECT_EQ(run(ReduceOp::Prod, {{1e30, 0}, {1e30, 0}}).e, 0);
    EXPECT_EQ(run(ReduceOp::Prod, {{0, 0}, {3, 0}}).v, 0);
}

TEST(DeriveAccumulate, AZeroDoesNotSettleAFactorThatMayBeInfinite) {
    for (const Bounded zero : {Bounded{0, 0}, Bounded{-0.0, 0}}) {
        FloatAccumulator open(math::ReduceOp::Prod, kF32), known(math::ReduceOp::Prod, kF32);
        open.add({3, kInf}, 0);
        open.add(zero, 1);
        EXPECT_TRUE(std::isinf(open.result().e));
        known.add({3, 1}, 0);
        known.add(zero, 1);
        EXPECT_EQ(known.result().v, 0);
        EXPECT_EQ(known.result().e, 0);
    }
}

TEST(DeriveAccumulate, IntegersWrapAndBoolsMayBeOpen) {
    using math::ReduceOp;
    const auto run = [](ReduceOp op, DType t, std::vector<BoundedInt> x) {
        IntAccumulator a(op, t), b(op, t), c(op, t);
        for (size_t i = 0; i < x.size(); ++i) {
            a.add(x[i], static_cast<int64_t>(i));
            (i % 2 ? b : c).add(x[i], static_cast<int64_t>(i));
        }
        b.merge(c);
        EXPECT_EQ(a.result().v, b.result().v);
        EXPECT_EQ(a.result().e, b.result().e);
        return a.result();
    };
    EXPECT_EQ(run(ReduceOp::Sum, DType::I8, {{100, 0}, {100, 0}}).v, -56);
    EXPECT_EQ(run(ReduceOp::Prod, DType::U8, {{100, 0}, {100, 0}}).v, 16);
    EXPECT_EQ(run(ReduceOp::Max, DType::U64, {{1, 0}, {-1, 0}}).v, -1);
    EXPECT_EQ(run(ReduceOp::Min, DType::U64, {{1, 0}, {-1, 0}}).v, 1);
    EXPECT_EQ(run(ReduceOp::Max, DType::I8, {}).v, -128);
    EXPECT_EQ(run(ReduceOp::Min, DType::U64, {}).v, -1);
    EXPECT_EQ(run(ReduceOp::ArgMax, DType::I32, {{5, 0}, {7, 0}, {7, 0}}).v, 1);
    EXPECT_EQ(run(ReduceOp::ArgMaxLast, DType::I32, {{-5, 0}, {-7, 0}, {-5, 0}}).v, 2);
    EXPECT_EQ(run(ReduceOp::Any, DType::Bool, {{0, 0}, {0, 1}}).e, 1);
    EXPECT_EQ(run(ReduceOp::Any, DType::Bool, {{1, 0}, {0, 1}}).e, 0);
    EXPECT_EQ(run(ReduceOp::Any, DType::Bool, {{1, 1}, {1, 1}}).e, 1);
    EXPECT_EQ(run(ReduceOp::All, DType::Bool, {{0, 0}, {1, 1}}).e, 0);
    EXPECT_EQ(run(ReduceOp::All, DType::Bool, {{1, 0}, {1, 1}}).e, 1);
    EXPECT_EQ(run(ReduceOp::All, DType::Bool, {}).v, 1);
}

}  // namespace
}  // namespace opwright::derive
