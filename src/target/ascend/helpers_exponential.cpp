// Exponentials, logarithms and powers of the scalar unit. Coefficients are the minimax fits of target/cpu/emit/math.cpp,
// here without fused multiply-add. Errors stated are bounds in units of the last place against exact values, measured
// over random floats of all exponents (target_ascend_test.cpp).
#include "target/ascend/helper_tables.h"

namespace opwright::target::ascend {

const std::vector<Helper>& exponentials_helpers() {
    static const std::vector<Helper> all = {
        // ---- exponentials
        {"PowerOfTwo", {"BitCast"}, R"(
// 2 ** n for -126 <= n <= 127.
__aicore__ inline float PowerOfTwo(int32_t n)
{
    return BitCast<float, int32_t>((n + 127) << 23);
}
)"},
        {"Scale", {"PowerOfTwo"}, R"(
// v * 2 ** n, rounded once, for v near 1 and |n| < 250.
__aicore__ inline float Scale(float v, int32_t n)
{
    return v * PowerOfTwo(n / 2) * PowerOfTwo(n - n / 2);
}
)"},
        {"ReduceExp", {}, R"(
// x = n ln 2 + r with an integer n and |r| <= ln 2 / 2, for |x| < 32768.
__aicore__ inline int32_t ReduceExp(float x, float &r)
{
    const float n = (x * 1.44269502f + 12582912.0f) - 12582912.0f;
    r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    return static_cast<int32_t>(n);
}
)"},
        {"ScalarExp", {"ReduceExp", "Scale"}, R"(
// At most 2 units in the last place.
__aicore__ inline float ScalarExp(float x)
{
    if (x != x) {
        return x;
    }
    float r;
    const int32_t n = ReduceExp(x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x, r);
    const float q = 0x1.fffffcp-2f + r * (0x1.555492p-3f + r * (0x1.5558f2p-5f + r * (0x1.123a2p-7f + r * 0x1.6a23dp-10f)));
    return Scale((r * r * q + r) + 1.0f, n);
}
)"},
        {"ScalarExp2", {"Scale"}, R"(
// At most 2 units in the last place.
__aicore__ inline float ScalarExp2(float x)
{
    if (x != x) {
        return x;
    }
    x = x > 129.0f ? 129.0f : x < -151.0f ? -151.0f : x;
    const float n = (x + 12582912.0f) - 12582912.0f;
    const float r = x - n;
    const float q = 0x1.62e43p-1f + r * (0x1.ebfbep-3f + r * (0x1.c6b08ap-5f + r * (0x1.3b29f4p-7f +
                    r * (0x1.5d8a86p-10f + r * (0x1.445c84p-13f + r * 0x1.fde602p-17f)))));
    return Scale(q * r + 1.0f, static_cast<int32_t>(n));
}
)"},
        {"Expm1Polynomial", {}, R"(
// e ** r - 1 for |r| <= ln 2 / 2.
__aicore__ inline float Expm1Polynomial(float r)
{
    const float q = 0.5f + r * (0x1.555554p-3f + r * (0x1.5554bp-5f + r * (0x1.11118ap-7f + r * (0x1.6d723ep-10f + r * 0x1.a032c4p-13f))));
    return r * r * q + r;
}
)"},
        {"ScalarExpm1", {"ReduceExp", "Expm1Polynomial", "Scale", "ScalarAbs"}, R"(
// At most 4 units in the last place.
__aicore__ inline float ScalarExpm1(float x)
{
    if (x != x || ScalarAbs(x) < 0x1p-26f) {
        return x;
    }
    float r;
    const int32_t n = ReduceExp(x > 89.0f ? 89.0f : x < -18.0f ? -18.0f : x, r);
    const float half = Scale(1.0f, n - 1);  // 2 ** 128 is no float
    const float h = half * Expm1Polynomial(r) + (half - 0.5f);
    return h + h;
}
)"},
        {"ScalarTanh", {"ReduceExp", "Expm1Polynomial", "PowerOfTwo", "ScalarAbs", "CopySign"}, R"(
// At most 4 units in the last place: (e ** 2a - 1) / (e ** 2a + 1).
__aicore__ inline float ScalarTanh(float x)
{
    if (x != x) {
        return x;
    }
    const float a = ScalarAbs(x) > 10.0f ? 10.0f : ScalarAbs(x);
    float r;
    const int32_t n = ReduceExp(a + a, r);
    const float power = PowerOfTwo(n);
    const float m = power * Expm1Polynomial(r) + (power - 1.0f);
    return CopySign(m / (m + 2.0f), x);
}
)"},
        {"HalfExp", {"ReduceExp", "Scale"}, R"(
// e ** a / 2 for 0 <= a <= 91, without overflow before the result's.
__aicore__ inline float HalfExp(float a)
{
    float r;
    const int32_t n = ReduceExp(a, r);
    const float q = 0x1.fffffcp-2f + r * (0x1.555492p-3f + r * (0x1.5558f2p-5f + r * (0x1.123a2p-7f + r * 0x1.6a23dp-10f)));
    return Scale((r * r * q + r) + 1.0f, n - 1);
}
)"},
        {"ScalarSinh", {"HalfExp", "ScalarAbs", "CopySign"}, R"(
// At most 4 units in the last place.
__aicore__ inline float ScalarSinh(float x)
{
    if (x != x) {
        return x;
    }
    const float a = ScalarAbs(x);
    if (a < 1.0f) {
        const float t = x * x;
        return t * x * (0x1.555556p-3f + t * (0x1.111134p-7f + t * (0x1.9ffe92p-13f + t * 0x1.7a15b6p-19f))) + x;
    }
    const float h = HalfExp(a > 91.0f ? 91.0f : a);
    return CopySign(h - 0.25f / h, x);
}
)"},
        {"ScalarCosh", {"HalfExp", "ScalarAbs"}, R"(
// At most 4 units in the last place.
__aicore__ inline float ScalarCosh(float x)
{
    if (x != x) {
        return x;
    }
    const float a = ScalarAbs(x);
    const float h = HalfExp(a > 91.0f ? 91.0f : a);
    return h + 0.25f / h;
}
)"},
        // ---- logarithms
        {"LogParts", {"BitCast"}, R"(
// u = 2 ** e * m with m in [sqrt(1/2), sqrt(2)), for normal positive u.
__aicore__ inline int32_t LogParts(float u, float &m)
{
    const int32_t i = BitCast<int32_t, float>(u) - 0x3f3504f3;
    m = BitCast<float, int32_t>((i & 0x7fffff) + 0x3f3504f3);
    return i >> 23;
}
)"},
        {"LogTail", {}, R"(
// log(1 + f) - f + f * f / 2 for 1 + f in [sqrt(1/2), sqrt(2)).
__aicore__ inline float LogTail(float f)
{
    const float q = 0x1.555548p-2f + f * (-0x1.000006p-2f + f * (0x1.99a4b6p-3f + f * (-0x1.555c4ep-3f + f * (0x1.233768p-3f +
                    f * (-0x1.fc2206p-4f + f * (0x1.e6f062p-4f + f * (-0x1.de3c1cp-4f + f * 0x1.1457c4p-4f)))))));
    return f * (f * f) * q;
}
)"},
        {"LogOf", {"LogTail"}, R"(
// e ln 2 + log(1 + f).
__aicore__ inline float LogOf(float f, float e)
{
    const float tail = e * 1.42860677e-6f + LogTail(f);
    return e * 0.693145752f + ((tail - 0.5f * f * f) + f);
}
)"},
        {"ScalarLog", {"LogParts", "LogOf"}, R"(
// At most 2 units in the last place.
__aicore__ inline float ScalarLog(float x)
{
    if (!(x > 0.0f && x < __builtin_inff())) {
        return x > 0.0f ? x : x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
    }
    const bool small = x < 0x1p-126f;
    float m;
    const int32_t e = LogParts(small ? x * 8388608.0f : x, m);
    return LogOf(m - 1.0f, static_cast<float>(small ? e - 23 : e));
}
)"},
        {"ScalarLog2", {"LogParts", "LogTail"}, R"(
// At most 3 units in the last place.
__aicore__ inline float ScalarLog2(float x)
{
    if (!(x > 0.0f && x < __builtin_inff())) {
        return x > 0.0f ? x : x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
    }
    const bool small = x < 0x1p-126f;
    float m;
    const int32_t e = LogParts(small ? x * 8388608.0f : x, m);
    const float f = m - 1.0f;
    const float tail = LogTail(f) - 0.5f * f * f;
    const float y = f + tail;
    const float low = (f - y) + tail;
    // log2(e) = 1 + 0.4427: the part that is exact stays apart.
    return ((y * 0x1.c551dap-2f + low * 1.44269502f) + y) + static_cast<float>(small ? e - 23 : e);
}
)"},
        {"Log1pFinite", {"LogParts", "LogOf", "PowerOfTwo"}, R"(
// log(1 + x) for finite x > -1.
__aicore__ inline float Log1pFinite(float x)
{
    float m;
    const int32_t e = LogParts(x + 1.0f, m);
    // m - 1 = x s + (s - 1) with s = 2 ** -e, rounded once; for large x the 1 does not matter.
    const float s = x > 0x1p24f ? 0.0f : PowerOfTwo(-e);
    return LogOf(x > 0x1p24f ? m - 1.0f : x * s + (s - 1.0f), static_cast<float>(e));
}
)"},
        {"ScalarLog1p", {"Log1pFinite", "ScalarAbs"}, R"(
// At most 4 units in the last place.
__aicore__ inline float ScalarLog1p(float x)
{
    if (!(x > -1.0f && x < __builtin_inff())) {
        return x > -1.0f ? x : x == -1.0f ? -__builtin_inff() : __builtin_nanf("");
    }
    return ScalarAbs(x) < 0x1p-26f ? x : Log1pFinite(x);
}
)"},
        {"ScalarAsinh", {"Log1pFinite", "ScalarAbs", "CopySign"}, R"(
// At most 4 units in the last place.
__aicore__ inline float ScalarAsinh(float x)
{
    const float a = ScalarAbs(x);
    if (!(a >= 0x1p-13f && a < __builtin_inff())) {
        return x;
    }
    const float r = a > 0x1p30f ? Log1pFinite(a) + 0.693147182f : Log1pFinite(a + a * a / (1.0f + sqrt(a * a + 1.0f)));
    return CopySign(r, x);
}
)"},
        {"ScalarAcosh", {"Log1pFinite"}, R"(
// At most 4 units in the last place.
__aicore__ inline float ScalarAcosh(float x)
{
    if (!(x >= 1.0f && x < __builtin_inff())) {
        return x > 1.0f ? x : __builtin_nanf("");
    }
    const float t = x - 1.0f;
    return x > 0x1p30f ? Log1pFinite(x) + 0.693147182f : Log1pFinite(t + sqrt(t * t + (t + t)));
}
)"},
        {"ScalarAtanh", {"ScalarLog1p", "ScalarAbs", "CopySign"}, R"(
// At most 4 units in the last place.
__aicore__ inline float ScalarAtanh(float x)
{
    const float a = ScalarAbs(x);
    return a < 0x1p-13f ? x : CopySign(0.5f * ScalarLog1p((a + a) / (1.0f - a)), x) + (a > 1.0f ? __builtin_nanf("") : 0.0f);
}
)"},
        // ---- powers
        {"MulHigh", {}, R"(
// The upper 64 bits of a product.
__aicore__ inline uint64_t MulHigh(uint64_t a, uint64_t b)
{
    const uint64_t a1 = a >> 32, a0 = a & 0xffffffffU, b1 = b >> 32, b0 = b & 0xffffffffU;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    return a1 * b1 + (middle >> 32) + ((a0 * b1 + (middle & 0xffffffffU)) >> 32);
}
)"},
        {"Log2Fixed", {"MulHigh", "BitCast"}, R"(
// log2 of a positive finite x with 55 bits behind the point: one bit a squaring.
__aicore__ inline int64_t Log2Fixed(float x)
{
    const bool small = x < 0x1p-126f;
    const uint32_t bits = BitCast<uint32_t, float>(small ? x * 8388608.0f : x);
    uint64_t z = static_cast<uint64_t>((bits & 0x7fffffU) | 0x800000U) << 40;
    int64_t r = static_cast<int64_t>(bits >> 23) - 127 - (small ? 23 : 0);
    for (int i = 0; i < 55; ++i) {
        z = MulHigh(z, z);
        const bool two = z >> 63 != 0;
        r = r * 2 + (two ? 1 : 0);
        z = two ? z : z << 1;
    }
    return r;
}
)"},
        {"ScalarPow", {"Log2Fixed", "Scale", "ScalarAbs", "ScalarTrunc", "BitCast"}, R"(
// At most 4 units in the last place: 2 ** (y log2 x) with the exponent in fixed point.
__aicore__ inline float ScalarPow(float x, float y)
{
    const float ax = ScalarAbs(x);
    const float ay = ScalarAbs(y);
    if (y == 0.0f || x == 1.0f || (x == -1.0f && ay == __builtin_inff())) {
        return 1.0f;
    }
    if (x != x || y != y) {
        return __builtin_nanf("");
    }
    const bool integral = ScalarTrunc(y) == y;
    const bool odd = ay < 0x1p24f && integral && (static_cast<int32_t>(ay) & 1) != 0;
    if (x < 0.0f && x > -__builtin_inff() && !integral) {
        return __builtin_nanf("");
    }
    float result;
    if (ax == 0.0f || ax == __builtin_inff()) {
        result = (ax == 0.0f) == (y > 0.0f) ? 0.0f : __builtin_inff();
    } else if (ay == __builtin_inff()) {
        result = (ax < 1.0f) == (y > 0.0f) ? 0.0f : __builtin_inff();
    } else {
        const int64_t l = Log2Fixed(ax);
        const uint64_t magnitude = static_cast<uint64_t>(l < 0 ? -l : l);
        const uint32_t bits = BitCast<uint32_t, float>(ay);
        const uint64_t m = bits >> 23 != 0 ? (bits & 0x7fffffU) | 0x800000U : bits & 0x7fffffU;
        const int32_t e = static_cast<int32_t>(bits >> 23 != 0 ? bits >> 23 : 1U) - 150;
        // m * magnitude * 2 ** e has 55 bits behind the point; 32 of them are kept.
        const uint64_t high = m * (magnitude >> 32);
        const uint64_t low = m * (magnitude & 0xffffffffU);
        const int32_t right = 23 - e;
        const uint64_t huge = uint64_t{200} << 32;  // beyond every exponent
        uint64_t product;
        if (right >= 32) {
            product = right - 32 > 63 ? 0 : (high + (low >> 32)) >> (right - 32);
        } else {
            const int32_t left = 32 - right;
            const bool fits = left < 40 && high < huge >> (left < 40 ? left : 0);
            product = magnitude == 0 ? 0 : !fits ? huge : (high << left) + (right >= 0 ? low >> right : low << -right);
        }
        product = product > huge ? huge : product;
        const int64_t power = (l < 0) != (y < 0.0f) ? -static_cast<int64_t>(product) : static_cast<int64_t>(product);
        const int64_t n = (power + (int64_t{1} << 31)) >> 32;
        const float r = static_cast<float>(power - (n << 32)) * 0x1p-32f;
        const float q = 0x1.62e43p-1f + r * (0x1.ebfbep-3f + r * (0x1.c6b08ap-5f + r * (0x1.3b29f4p-7f +
                        r * (0x1.5d8a86p-10f + r * (0x1.445c84p-13f + r * 0x1.fde602p-17f)))));
        result = Scale(q * r + 1.0f, static_cast<int32_t>(n));
    }
    return odd && BitCast<int32_t, float>(x) < 0 ? -result : result;
}
)"},
    };
    return all;
}

}  // namespace opwright::target::ascend
