// Measures the error of the emitted math functions against the C library's in double precision.
#include <cmath>
#include <map>
#include <random>

#include "target_cpu_test_util.h"

namespace opwright::target::cpu {
namespace {

using namespace loop;

// |got - want| in units of the last place of want as a float. Infinite where one is NaN or infinite and the other is not.
double ulps(float got, double want) {
    const auto near = static_cast<float>(want);
    if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
    if (std::isinf(near)) {
        // Rounding past the largest finite float may fall either way within an ulp.
        if (got == near) return 0;
        return std::isfinite(want) && std::fabs(got) == std::numeric_limits<float>::max() && std::signbit(got) == std::signbit(near) ? 1 : INFINITY;
    }
    if (std::isnan(got)) return INFINITY;
    const int e = want == 0 ? -149 : std::max(std::ilogb(want) - 23, -149);
    if (std::isinf(got)) return std::ldexp(std::fabs(want), -e) > 0x1.fffffep23 ? 1 : INFINITY;
    return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, e);
}

struct Case {
    UnaryFn f;
    double (*exact)(double);
    double bound;  // in ulps of f32, as docs/numerics.md states
};

double exact_exp2(double x) { return std::exp2(x); }
const Case kCases[] = {
    {UnaryFn::Exp, std::exp, 1.0},     {UnaryFn::Exp2, exact_exp2, 1.1},  {UnaryFn::Expm1, std::expm1, 1.5},
    {UnaryFn::Log, std::log, 1.0},     {UnaryFn::Log2, std::log2, 1.5},   {UnaryFn::Log1p, std::log1p, 2.0},
    {UnaryFn::Sin, std::sin, 2.0},     {UnaryFn::Cos, std::cos, 2.0},     {UnaryFn::Tan, std::tan, 3.5},
    {UnaryFn::Asin, std::asin, 2.5},   {UnaryFn::Acos, std::acos, 2.0},   {UnaryFn::Atan, std::atan, 2.0},
    {UnaryFn::Sinh, std::sinh, 2.5},   {UnaryFn::Cosh, std::cosh, 2.0},   {UnaryFn::Tanh, std::tanh, 2.5},
    {UnaryFn::Asinh, std::asinh, 3.0}, {UnaryFn::Acosh, std::acosh, 3.0}, {UnaryFn::Atanh, std::atanh, 3.0},
    {UnaryFn::Erf, std::erf, 2.0},
};

// Every `step`-th float pattern of either sign, and what is special.
std::vector<float> samples(uint32_t step) {
    std::vector<float> x{0.0f, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f, 0x1p-126f, -0x1p-126f,
                         std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(), 0.5f, -0.5f, 2, -2,
                         88.72283f, 88.72284f, 89, -87.33655f, -103.97208f, -104, 128, -149, -150, 9.01f, 0x1p16f, 1e6f, 1e30f};
    for (uint32_t u = 0; u < 0x7f800000u - step; u += step)
        for (uint32_t sign : {0u, 0x80000000u}) x.push_back(std::bit_cast<float>(u | sign));
    // The range where most functions have their values, more densely.
    std::mt19937 random(7);
    std::uniform_real_distribution<float> near(-12, 12), wide(-100, 100), unit(-1, 1);
    for (int i = 0; i < 20000; ++i) x.push_back(near(random)), x.push_back(wide(random)), x.push_back(unit(random));
    return x;
}

class TargetCpuMath : public testing::TestWithParam<int> {
protected:
    const Features& f() const {
        static const std::vector<Features> all = machine_levels();
        return all[static_cast<size_t>(GetParam())];
    }
};

TEST_P(TargetCpuMath, UnaryF32WithinBounds) {
    const char* step = std::getenv("OPWRIGHT_ULP_STEP");  // a small step measures nearly every float
    const std::vector<float> x = samples(step ? static_cast<uint32_t>(std::atoi(step)) : 49999);
    for (const Case& c : kCases) {
        std::vector<float> scalar;
        for (int lanes : {1, f().lanes(DType::F32), 2 * f().lanes(DType::F32)}) {
            const std::vector<float> y = map<float>(f(), lanes, x, [&](Expr v) { return unary(c.f, v); });
            double worst = 0;
            float at = 0, value = 0;
            for (size_t i = 0; i < x.size(); ++i) {
                const double e = ulps(y[i], c.exact(x[i]));
                if (e > worst) worst = e, at = x[i], value = y[i];
                if (x[i] == 0 && c.exact(0) == 0) {
                    ASSERT_EQ(std::signbit(x[i]), std::signbit(y[i])) << name(c.f);
                }
            }
            if (step && lanes == f().lanes(DType::F32))
                std::printf("%-6s %-8s %.3f ulp at %a\n", std::string(name(c.f)).c_str(), std::string(name(f().level)).c_str(), worst, at);
            EXPECT_LE(worst, c.bound) << name(c.f) << " lanes " << lanes << " at " << at << " gives " << value << " for "
                                      << c.exact(at);
            // A tail computed by scalars gives what the vectors give.
            if (lanes == 1) scalar = y;
            else EXPECT_EQ(std::memcmp(scalar.data(), y.data(), y.size() * 4), 0) << name(c.f) << " lanes " << lanes;
        }
    }
}

TEST_P(TargetCpuMath, F64IsTheCLibrarys) {
    std::vector<double> x{0.0, -0.0, 1, -1, 0.5, -0.5, 1e300, -1e300, 1e-310, -1e-310, INFINITY, -INFINITY, NAN, 3.7, -3.7, 100, -700};
    for (const Case& c : kCases) {
        for (int lanes : {1, f().lanes(DType::F64), 4 * f().lanes(DType::F64)}) {
            const auto y = map<double>(f(), lanes, x, [&](Expr v) { return unary(c.f, v); });
            for (size_t i = 0; i < x.size(); ++i) {
                const double want = c.exact(x[i]);
                if (std::isnan(want)) EXPECT_TRUE(std::isnan(y[i])) << name(c.f) << " " << x[i];
                else EXPECT_EQ(y[i], want) << name(c.f) << " " << x[i];
            }
        }
    }
}

// All pairs of values whose meaning is special, and random pairs.
template <class T>
void pairs(std::vector<T>* x, std::vector<T>* y) {
    std::vector<T> special{0, T(-0.0), 1, -1, 2, -2, 3, -3, T(0.5), T(-0.5), T(2.5), T(-7), 10, 16777216, T(16777217), T(1e30), T(-1e30),
                           std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(),
                           std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::max(),
                           std::numeric_limits<T>::lowest(), std::numeric_limits<T>::min(), T(1.0000001), T(0.9999999)};
    for (T a : special)
        for (T b : special) x->push_back(a), y->push_back(b);
    std::mt19937 random(11);
    std::uniform_real_distribution<T> small(-4, 4), wide(-200, 200), positive(0, 50);
    for (int i = 0; i < 20000; ++i) {
        x->push_back(positive(random)), y->push_back(wide(random) / 8);
        x->push_back(small(random)), y->push_back(small(random));
        x->push_back(wide(random)), y->push_back(std::round(small(random)));
        x->push_back(wide(random) * 1e6f), y->push_back(wide(random));
    }
}

bool same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b)); }

template <class T>
T python_mod(T x, T y) {
    T r = std::fmod(x, y);
    if (r == 0) return std::copysign(T(0), y);
    return (r < 0) != (y < 0) ? r + y : r;
}
template <class T>
T maximum(T x, T y) {
    if (std::isnan(x) || std::isnan(y)) return NAN;
    if (x == y) return std::signbit(x) ? y : x;
    return x > y ? x : y;
}
template <class T>
T minimum(T x, T y) {
    if (std::isnan(x) || std::isnan(y)) return NAN;
    if (x == y) return std::signbit(x) ? x : y;
    return x < y ? x : y;
}

template <class T>
void check_binary(const Features& f, int lanes) {
    std::vector<T> x, y;
    pairs(&x, &y);
    auto apply = [&](BinaryFn fn) { return map2<T>(f, lanes, x, y, [&](Expr a, Expr b) { return binary(fn, a, b); }); };
    auto exactly = [&](BinaryFn fn, T (*want)(T, T)) {
        const auto got = apply(fn);
        for (size_t i = 0; i < x.size(); ++i)
            ASSERT_TRUE(same(got[i], want(x[i], y[i])))
                << name(fn) << "(" << x[i] << ", " << y[i] << ") gives " << got[i] << " for " << want(x[i], y[i]);
    };
    exactly(BinaryFn::Add, [](T a, T b) { return a + b; });
    exactly(BinaryFn::Sub, [](T a, T b) { return a - b; });
    exactly(BinaryFn::Mul, [](T a, T b) { return a * b; });
    exactly(BinaryFn::Div, [](T a, T b) { return a / b; });
    exactly(BinaryFn::FloorDiv, [](T a, T b) { return std::floor(a / b); });
    exactly(BinaryFn::FMod, [](T a, T b) { return std::fmod(a, b); });
    exactly(BinaryFn::Mod, python_mod<T>);
    exactly(BinaryFn::Max, maximum<T>);
    exactly(BinaryFn::Min, minimum<T>);
    auto approximately = [&](BinaryFn fn, double (*want)(double, double), double bound) {
        const auto got = apply(fn);
        for (size_t i = 0; i < x.size(); ++i) {
            const double exact = want(x[i], y[i]);
            if constexpr (std::is_same_v<T, float>) {
                ASSERT_LE(ulps(got[i], exact), bound) << name(fn) << "(" << x[i] << ", " << y[i] << ") gives " << got[i] << " for " << exact;
            } else {
                ASSERT_TRUE(same(got[i], exact)) << name(fn) << "(" << x[i] << ", " << y[i] << ")";
            }
            if (exact == 0) {
                ASSERT_EQ(std::signbit(got[i]), std::signbit(exact)) << name(fn) << x[i] << " " << y[i];
            }
        }
    };
    approximately(BinaryFn::Pow, std::pow, 1.0);
    approximately(BinaryFn::Atan2, std::atan2, 2.5);
    if (lanes == 1) return;
    for (BinaryFn fn : {BinaryFn::Lt, BinaryFn::Le, BinaryFn::Gt, BinaryFn::Ge, BinaryFn::Eq, BinaryFn::Ne}) {
        const auto got = map2<uint8_t>(f, lanes, x, y, [&](Expr a, Expr b) { return cast(binary(fn, a, b), DType::U8); });
        for (size_t i = 0; i < x.size(); ++i) {
            const T a = x[i], b = y[i];
            const bool want = fn == BinaryFn::Lt ? a < b : fn == BinaryFn::Le ? a <= b : fn == BinaryFn::Gt ? a > b
                            : fn == BinaryFn::Ge ? a >= b : fn == BinaryFn::Eq ? a == b : a != b;
            ASSERT_EQ(got[i], want) << name(fn) << " " << a << " " << b;
        }
    }
}

TEST_P(TargetCpuMath, BinaryFloats) {
    for (int lanes : {1, f().lanes(DType::F32)}) check_binary<float>(f(), lanes);
    for (int lanes : {1, f().lanes(DType::F64)}) check_binary<double>(f(), lanes);
}

// min and max with a literal take a shorter way.
TEST_P(TargetCpuMath, MinMaxWithLiterals) {
    const std::vector<float> x{0.0f, -0.0f, 1, -1, NAN, INFINITY, -INFINITY, 2, 1e-45f, -1e-45f};
    for (float c : {0.0f, -0.0f, 1.0f, -1.0f, INFINITY}) {
        for (int lanes : {1, f().lanes(DType::F32)}) {
            const auto hi = map<float>(f(), lanes, x, [&](Expr v) { return max(v, like(v, c)); });
            const auto lo = map<float>(f(), lanes, x, [&](Expr v) { return min(v, like(v, c)); });
            for (size_t i = 0; i < x.size(); ++i) {
                EXPECT_TRUE(same(hi[i], maximum(x[i], c))) << x[i] << " " << c;
                EXPECT_TRUE(same(lo[i], minimum(x[i], c))) << x[i] << " " << c;
            }
        }
    }
}

template <class T>
void check_simple(const Features& f, int lanes) {
    std::vector<T> x{0, T(-0.0), T(0.5), T(-0.5), T(1.5), T(-1.5), T(2.5), T(-2.5), T(0.49999997), T(-0.3), T(0.3), T(-1.7), 3, -3,
                     T(8388607.5), T(-8388607.5), T(8388608), T(8388609), T(4503599627370495.5), T(4503599627370497), T(-4503599627370496.5),
                     T(1e30), T(-1e30), std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(),
                     std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::max(),
                     std::numeric_limits<T>::min(), T(7), T(49)};
    struct Simple { UnaryFn f; T (*want)(T); };
    const Simple cases[] = {
        {UnaryFn::Floor, std::floor}, {UnaryFn::Ceil, std::ceil}, {UnaryFn::Trunc, std::trunc}, {UnaryFn::Round, std::nearbyint},
        {UnaryFn::Abs, std::fabs}, {UnaryFn::Neg, [](T v) { return -v; }}, {UnaryFn::Sqrt, std::sqrt},
        {UnaryFn::Rsqrt, [](T v) { return 1 / std::sqrt(v); }},
        {UnaryFn::Sign, [](T v) { return v == 0 || std::isnan(v) ? v : std::copysign(T(1), v); }}};
    for (const Simple& c : cases) {
        const auto got = map<T>(f, lanes, x, [&](Expr v) { return unary(c.f, v); });
        for (size_t i = 0; i < x.size(); ++i)
            EXPECT_TRUE(same(got[i], c.want(x[i]))) << name(c.f) << " " << x[i] << " gives " << got[i];
    }
    const auto nan = map<uint8_t>(f, lanes, x, [](Expr v) { return cast(unary(UnaryFn::IsNan, v), DType::U8); });
    const auto inf = map<uint8_t>(f, lanes, x, [](Expr v) { return cast(unary(UnaryFn::IsInf, v), DType::U8); });
    const auto fused = map<T>(f, lanes, x, [](Expr v) { return fma(v, v, like(v, -0.25)); });
    for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(nan[i], std::isnan(x[i]));
        EXPECT_EQ(inf[i], std::isinf(x[i]));
        EXPECT_TRUE(same(fused[i], std::fma(x[i], x[i], T(-0.25)))) << x[i];
    }
}

TEST_P(TargetCpuMath, RoundingAndSigns) {
    for (int lanes : {1, f().lanes(DType::F32)}) check_simple<float>(f(), lanes);
    for (int lanes : {1, f().lanes(DType::F64)}) check_simple<double>(f(), lanes);
}

TEST_P(TargetCpuMath, LookupsGoByTheIndexModulo16) {
    LookupTable table;
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i * i) - 0.5f;
    std::vector<float> x;
    for (int i = -40; i < 60; ++i) x.push_back(static_cast<float>(i));
    for (int lanes : {1, 2, 8, 16, 32}) {
        const auto got = map<float>(f(), lanes, x, [&](Expr v) { return lookup(cast(v, DType::I32), table); });
        for (size_t i = 0; i < x.size(); ++i)
            EXPECT_EQ(got[i], table[static_cast<size_t>(static_cast<int>(x[i]) & 15)]) << lanes << " lanes, " << x[i];
    }
}

TEST_P(TargetCpuMath, ExtremesOfNumbersOrderZeros) {
    const std::vector<float> x{0, -0.0f, 1, -2, INFINITY, -INFINITY, 0x1p-149f, -0.0f};
    for (int lanes : {1, 4, f().lanes(DType::F32), 2 * f().lanes(DType::F32)})
        for (float c : x) {
            for (BinaryFn fn : {BinaryFn::Max, BinaryFn::Min}) {
                const auto got = map2<float>(f(), lanes, x, std::vector<float>(x.size(), c),
                                             [&](Expr a, Expr b) { return extreme_of_numbers(fn, a, b); });
                for (size_t i = 0; i < x.size(); ++i) {
                    const float want = fn == BinaryFn::Max ? maximum(x[i], c) : -maximum(-x[i], -c);
                    EXPECT_TRUE(same(got[i], want)) << lanes << " lanes, " << x[i] << " and " << c;
                }
            }
        }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Levels, TargetCpuMath, testing::Range(0, static_cast<int>(machine_levels().size())),
                         [](const testing::TestParamInfo<int>& i) {
                             return std::string(name(machine_levels()[static_cast<size_t>(i.param)].level));
                         });
}  // namespace opwright::target::cpu
