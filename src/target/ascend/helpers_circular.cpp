// Circular functions and erf of the scalar unit. Coefficients and errors: as in helpers_exponential.cpp.
#include "target/ascend/helper_tables.h"

namespace opwright::target::ascend {

const std::vector<Helper>& circular_helpers() {
    static const std::vector<Helper> all = {
        // ---- circular functions
        {"ReduceCircle", {"BitCast", "ScalarAbs"}, R"(
// |x| = n pi/2 + r with |r| <= pi/4, exact for every finite x: 96 bits of 2/pi from where its bits matter, times the
// significand. Returns n modulo 4.
__aicore__ inline int32_t ReduceCircle(float x, float &r)
{
    const float a = ScalarAbs(x);
    if (a <= 0.785398185f) {
        r = a;
        return 0;
    }
    const uint32_t twoOverPi[8] = {0U, 0xa2f9836eU, 0x4e441529U, 0xfc2757d1U, 0xf534ddc0U, 0xdb629599U, 0x3c439041U, 0xfe5163abU};
    const uint32_t bits = BitCast<uint32_t, float>(a);
    const uint64_t significand = (bits & 0x7fffffU) | 0x800000U;
    const uint32_t shift = (bits >> 23) - 127 - 23 + 30;  // a * 2/pi * 2 ** 62 modulo 2 ** 64 is what is wanted
    const uint32_t w = shift / 32;
    const uint32_t b = shift % 32;
    uint64_t window[3];
    for (uint32_t i = 0; i < 3; ++i) {
        const uint64_t next = w + i + 1 < 8 ? twoOverPi[w + i + 1] : 0U;
        window[i] = (((static_cast<uint64_t>(twoOverPi[w + i]) << 32 | next) << b) >> 32) & 0xffffffffU;
    }
    const uint64_t turn = (significand * window[0] << 32) + significand * window[1] + (significand * window[2] >> 32);
    const uint64_t n = (turn + (uint64_t{1} << 61)) >> 62;
    const int64_t part = static_cast<int64_t>(turn - (n << 62));
    const float high = static_cast<float>(part);
    const float low = static_cast<float>(part - static_cast<int64_t>(high));
    r = high * 0x1.921fb6p-62f + (high * -0x1.777a5cp-87f + low * 0x1.921fb6p-62f);
    return static_cast<int32_t>(n & 3);
}
)"},
        {"SinPolynomial", {}, R"(
__aicore__ inline float SinPolynomial(float r)
{
    const float t = r * r;
    return t * r * (-0x1.555556p-3f + t * (0x1.111108p-7f + t * (-0x1.a00f74p-13f + t * 0x1.6ccf5ep-19f))) + r;
}
)"},
        {"CosPolynomial", {}, R"(
__aicore__ inline float CosPolynomial(float r)
{
    const float t = r * r;
    const float q = 0x1.555556p-5f + t * (-0x1.6c16b8p-10f + t * (0x1.a010d6p-16f + t * -0x1.241caap-22f));
    return t * t * q + (1.0f - 0.5f * t);
}
)"},
        {"ScalarSin", {"ReduceCircle", "SinPolynomial", "CosPolynomial", "ScalarAbs"}, R"(
// At most 4 units in the last place, for every x.
__aicore__ inline float ScalarSin(float x)
{
    if (!(ScalarAbs(x) < __builtin_inff())) {
        return __builtin_nanf("");
    }
    if (ScalarAbs(x) < 0x1p-13f) {
        return x;
    }
    float r;
    const int32_t n = ReduceCircle(x, r);
    const float s = (n & 1) != 0 ? CosPolynomial(r) : SinPolynomial(r);
    return ((n & 2) != 0) != (x < 0.0f) ? -s : s;
}
)"},
        {"ScalarCos", {"ReduceCircle", "SinPolynomial", "CosPolynomial", "ScalarAbs"}, R"(
// At most 4 units in the last place, for every x.
__aicore__ inline float ScalarCos(float x)
{
    if (!(ScalarAbs(x) < __builtin_inff())) {
        return __builtin_nanf("");
    }
    float r;
    const int32_t n = ReduceCircle(x, r);
    const float c = (n & 1) != 0 ? SinPolynomial(r) : CosPolynomial(r);
    return n == 1 || n == 2 ? -c : c;
}
)"},
        {"ScalarTan", {"ReduceCircle", "SinPolynomial", "CosPolynomial", "ScalarAbs"}, R"(
// At most 4 units in the last place, for every x.
__aicore__ inline float ScalarTan(float x)
{
    if (!(ScalarAbs(x) < __builtin_inff())) {
        return __builtin_nanf("");
    }
    if (ScalarAbs(x) < 0x1p-13f) {
        return x;
    }
    float r;
    const int32_t n = ReduceCircle(x, r);
    const float s = SinPolynomial(r);
    const float c = CosPolynomial(r);
    const float t = (n & 1) != 0 ? -c / s : s / c;
    return x < 0.0f ? -t : t;
}
)"},
        {"AtanPolynomial", {}, R"(
// For 0 <= a <= 1.
__aicore__ inline float AtanPolynomial(float a)
{
    const float t = a * a;
    const float q = -0x1.555552p-2f + t * (0x1.9997ep-3f + t * (-0x1.247374p-3f + t * (0x1.c4f1ep-4f + t * (-0x1.68e6fcp-4f +
                    t * (0x1.1422cp-4f + t * (-0x1.6e199p-5f + t * (0x1.714bp-6f + t * (-0x1.df96d8p-8f + t * 0x1.23f908p-10f))))))));
    return t * a * q + a;
}
)"},
        {"ScalarAtan", {"AtanPolynomial", "ScalarAbs", "CopySign"}, R"(
// At most 4 units in the last place.
__aicore__ inline float ScalarAtan(float x)
{
    const float a = ScalarAbs(x);
    // pi/2 in two parts.
    const float r = a > 1.0f ? 0x1.921fb6p+0f - (AtanPolynomial(1.0f / a) + 0x1.777a5cp-25f) : AtanPolynomial(a);
    return x != x ? x : CopySign(r, x);
}
)"},
        {"ScalarAtan2", {"AtanPolynomial", "ScalarAbs", "CopySign", "BitCast"}, R"(
// At most 4 units in the last place.
__aicore__ inline float ScalarAtan2(float y, float x)
{
    if (x != x || y != y) {
        return __builtin_nanf("");
    }
    const float ax = ScalarAbs(x);
    const float ay = ScalarAbs(y);
    const bool steep = ay > ax;
    const float low = steep ? ax : ay;
    const float high = steep ? ay : ax;
    float r = AtanPolynomial(low == high ? (high == 0.0f ? 0.0f : 1.0f) : low / high);  // 0/0 and inf/inf too
    r = steep ? 0x1.921fb6p+0f - (r + 0x1.777a5cp-25f) : r;
    const bool left = BitCast<int32_t, float>(x) < 0;
    return CopySign(left ? 0x1.921fb6p+1f - (r + 0x1.777a5cp-24f) : r, y);
}
)"},
        {"AsinTail", {}, R"(
// (asin(a) - a) / a ** 3 for t = a * a, 0 <= a <= 1/2.
__aicore__ inline float AsinTail(float t)
{
    return 0x1.55554cp-3f + t * (0x1.33387cp-4f + t * (0x1.6caed2p-5f + t * (0x1.0491ap-5f + t * (0x1.d91fbp-7f + t * 0x1.3355bcp-5f))));
}
)"},
        {"ScalarAsin", {"AsinTail", "ScalarAbs", "CopySign"}, R"(
// At most 4 units in the last place; NaN outside [-1, 1].
__aicore__ inline float ScalarAsin(float x)
{
    const float a = ScalarAbs(x);
    if (!(a <= 1.0f)) {
        return __builtin_nanf("");
    }
    if (a <= 0.5f) {
        return a * a * x * AsinTail(a * a) + x;
    }
    // asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)).
    const float t = (1.0f - a) * 0.5f;
    const float s = sqrt(t);
    const float r = t * s * AsinTail(t) + s;
    return CopySign(0x1.921fb6p+0f - ((r + r) + 0x1.777a5cp-25f), x);
}
)"},
        {"ScalarAcos", {"AsinTail", "ScalarAbs"}, R"(
// At most 4 units in the last place; NaN outside [-1, 1].
__aicore__ inline float ScalarAcos(float x)
{
    const float a = ScalarAbs(x);
    if (!(a <= 1.0f)) {
        return __builtin_nanf("");
    }
    if (a <= 0.5f) {
        return 0x1.921fb6p+0f - ((x * x * x * AsinTail(x * x) + x) + 0x1.777a5cp-25f);
    }
    const float t = (1.0f - a) * 0.5f;
    const float s = sqrt(t);
    const float r = t * s * AsinTail(t) + s;
    return x < 0.0f ? 0x1.921fb6p+1f - ((r + r) + 0x1.777a5cp-24f) : r + r;
}
)"},
        {"ScalarErf", {"ReduceExp", "PowerOfTwo", "ScalarAbs", "CopySign"}, R"(
// At most 4 units in the last place. From 1 on, 1 - e ** g with a polynomial g for log(erfc).
__aicore__ inline float ScalarErf(float x)
{
    if (x != x) {
        return x;
    }
    const float a = ScalarAbs(x) > 4.0f ? 4.0f : ScalarAbs(x);
    if (a < 1.0f) {
        const float t = a * a;
        const float q = 0x1.06eba2p-3f + t * (-0x1.81273ep-2f + t * (0x1.ce2cf8p-4f + t * (-0x1.b7f90ep-6f +
                        t * (0x1.5405b2p-8f + t * (-0x1.a3f7p-11f + t * 0x1.496a32p-14f)))));
        return CopySign(a * q + a, x);
    }
    const float g = -0x1.661de4p-12f + a * (-0x1.2088eap+0f + a * (-0x1.46baecp-1f + a * (-0x1.a6533ep-4f +
                    a * (0x1.65cb7p-6f + a * (-0x1.825aeap-9f + a * 0x1.86dd6ep-13f)))));
    float r;
    const int32_t n = ReduceExp(g, r);
    const float q = 0x1.fffdfcp-2f + r * (0x1.5557bp-3f + r * (0x1.572a64p-5f + r * 0x1.10625p-7f));
    return CopySign(1.0f - ((r * r * q + r) + 1.0f) * PowerOfTwo(n), x);
}
)"},
    };
    return all;
}

}  // namespace opwright::target::ascend
