// Floats, exact: what the scalar unit has no instruction for.
#include "target/ascend/helper_tables.h"

namespace opwright::target::ascend {

const std::vector<Helper>& floats_helpers() {
    static const std::vector<Helper> all = {
        // ---- floats, exact
        {"ScalarAbs", {"BitCast"}, R"(
__aicore__ inline float ScalarAbs(float x)
{
    return BitCast<float, uint32_t>(BitCast<uint32_t, float>(x) & 0x7fffffffU);
}
)"},
        {"CopySign", {"BitCast"}, R"(
// |magnitude| with the sign of `sign`.
__aicore__ inline float CopySign(float magnitude, float sign)
{
    return BitCast<float, uint32_t>((BitCast<uint32_t, float>(magnitude) & 0x7fffffffU) |
                                    (BitCast<uint32_t, float>(sign) & 0x80000000U));
}
)"},
        {"ScalarIsNan", {}, R"(
__aicore__ inline bool ScalarIsNan(float x)
{
    return x != x;
}
)"},
        {"ScalarIsInf", {"ScalarAbs"}, R"(
__aicore__ inline bool ScalarIsInf(float x)
{
    return ScalarAbs(x) == __builtin_inff();
}
)"},
        {"ScalarSign", {}, R"(
__aicore__ inline float ScalarSign(float x)
{
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}
)"},
        {"ScalarMax", {"BitCast"}, R"(
// NaN where either is NaN; -0 lies below +0.
__aicore__ inline float ScalarMax(float a, float b)
{
    if (a != a || b != b) {
        return __builtin_nanf("");
    }
    return a > b || (a == b && BitCast<int32_t, float>(b) < 0) ? a : b;
}
)"},
        {"ScalarMin", {"ScalarMax"}, R"(
__aicore__ inline float ScalarMin(float a, float b)
{
    return -ScalarMax(-a, -b);
}
)"},
        {"ScalarRound", {"ScalarAbs", "CopySign"}, R"(
// To the nearest integer, halves to the even one.
__aicore__ inline float ScalarRound(float x)
{
    const float a = ScalarAbs(x);
    return a < 8388608.0f ? CopySign((a + 8388608.0f) - 8388608.0f, x) : x;
}
)"},
        {"ScalarTrunc", {"ScalarRound"}, R"(
__aicore__ inline float ScalarTrunc(float x)
{
    const float a = ScalarAbs(x);
    const float r = ScalarRound(a);
    return CopySign(r > a ? r - 1.0f : r, x);
}
)"},
        {"ScalarFloor", {"ScalarRound"}, R"(
__aicore__ inline float ScalarFloor(float x)
{
    const float r = ScalarRound(x);
    return r > x ? r - 1.0f : r;
}
)"},
        {"ScalarCeil", {"ScalarFloor"}, R"(
__aicore__ inline float ScalarCeil(float x)
{
    return -ScalarFloor(-x);
}
)"},
        {"ScalarFmod", {"BitCast", "ScalarAbs", "CopySign"}, R"(
// The remainder with the sign of a, exact: the long division of the significands.
__aicore__ inline float ScalarFmod(float a, float b)
{
    const float m = ScalarAbs(a);
    const float n = ScalarAbs(b);
    if (a != a || b != b || m == __builtin_inff() || n == 0.0f) {
        return __builtin_nanf("");
    }
    if (m < n) {
        return a;
    }
    // Significands as integers with their leading bit in place, subnormal numbers too.
    int32_t ex = static_cast<int32_t>(BitCast<uint32_t, float>(m) >> 23);
    int32_t ey = static_cast<int32_t>(BitCast<uint32_t, float>(n) >> 23);
    uint32_t x = (BitCast<uint32_t, float>(m) & 0x7fffffU) | (ex > 0 ? 0x800000U : 0U);
    uint32_t y = (BitCast<uint32_t, float>(n) & 0x7fffffU) | (ey > 0 ? 0x800000U : 0U);
    ex = ex > 0 ? ex : 1;
    ey = ey > 0 ? ey : 1;
    for (; x < 0x800000U; x *= 2) {
        --ex;
    }
    for (; y < 0x800000U; y *= 2) {
        --ey;
    }
    for (; ex > ey; --ex) {
        x = (x >= y ? x - y : x) * 2;
    }
    x = x >= y ? x - y : x;
    if (x == 0) {
        return CopySign(0.0f, a);
    }
    // Back to a float: the leading bit to its place, while the exponent allows.
    while (x < 0x800000U && ex > 1) {
        x *= 2;
        --ex;
    }
    for (; ex < 1; ++ex) {
        x /= 2;
    }
    const uint32_t bits = x < 0x800000U ? x : (x & 0x7fffffU) | (static_cast<uint32_t>(ex) << 23);
    return CopySign(BitCast<float, uint32_t>(bits), a);
}
)"},
        {"ScalarMod", {"ScalarFmod"}, R"(
// The remainder with the sign of b.
__aicore__ inline float ScalarMod(float a, float b)
{
    const float r = ScalarFmod(a, b);
    if (r == 0.0f) {
        return CopySign(0.0f, b);
    }
    return (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
)"},
    };
    return all;
}

}  // namespace opwright::target::ascend
