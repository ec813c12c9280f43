// Coefficients are the minimax fits of target/cpu/math.cpp, here without fused multiply-add. Errors stated are bounds
// in units of the last place against exact values, measured over random floats of all exponents
// (target_ascend_test.cpp).
#include "target/ascend/helpers.h"

#include <stdexcept>
#include <string_view>
#include <vector>

namespace opwright::target::ascend {
namespace {

struct Helper {
    const char* name;
    std::vector<const char*> needs;
    const char* text;
};

const std::vector<Helper>& table() {
    static const std::vector<Helper> all = {
        // ---- places
        {"Lower", {}, R"(
template <typename T>
__aicore__ inline T Lower(T a, T b)
{
    return a < b ? a : b;
}
)"},
        {"Higher", {}, R"(
template <typename T>
__aicore__ inline T Higher(T a, T b)
{
    return a > b ? a : b;
}
)"},
        {"FloorDiv", {}, R"(
// a / b rounded toward minus infinity; 0 where b is 0.
__aicore__ inline int64_t FloorDiv(int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    const int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
)"},
        {"FloorMod", {}, R"(
// The remainder with the sign of b; 0 where b is 0.
__aicore__ inline int64_t FloorMod(int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
)"},
        {"Clamp", {}, R"(
// The nearest place in 0 .. n-1.
__aicore__ inline int64_t Clamp(int64_t i, int64_t n)
{
    return i < 0 || n == 0 ? 0 : i < n ? i : n - 1;
}
)"},
        {"Reflect", {"FloorMod"}, R"(
// Folds a place back at the first and last element: ... 2 1 [0 1 2 3] 2 1 ...
__aicore__ inline int64_t Reflect(int64_t i, int64_t n)
{
    const int64_t period = 2 * (n - 1);
    const int64_t m = FloorMod(i, period);
    return m < period - m ? m : period - m;
}
)"},
        {"Mirror", {"FloorMod"}, R"(
// Folds a place back at the edges: ... 1 0 [0 1 2 3] 3 2 ...
__aicore__ inline int64_t Mirror(int64_t i, int64_t n)
{
    const int64_t period = 2 * n;
    const int64_t m = FloorMod(i, period);
    return m < period - 1 - m ? m : period - 1 - m;
}
)"},
        {"RoundUp", {}, R"(
__aicore__ inline uint32_t RoundUp(uint32_t n, uint32_t step)
{
    return (n + step - 1) / step * step;
}
)"},
        {"LoadTile", {}, R"(
// `count` elements from global memory in one burst, which need not be whole 32 bytes.
template <typename T>
__aicore__ inline void LoadTile(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    const DataCopyPadExtParams<T> padParams{false, 0, 0, T()};
    DataCopyPad(dst, src, copyParams, padParams);
}
)"},
        {"LoadPaddedTile", {"RoundUp"}, R"(
// `count` elements from global memory in one burst, and zeros up to whole 32 bytes.
template <typename T>
__aicore__ inline void LoadPaddedTile(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    const uint8_t zeros = static_cast<uint8_t>(RoundUp(count, 32 / sizeof(T)) - count);
    const DataCopyPadExtParams<T> padParams{true, 0, zeros, T()};
    DataCopyPad(dst, src, copyParams, padParams);
}
)"},
        {"StoreTile", {}, R"(
// `count` elements to global memory in one burst; no byte beyond them is written.
template <typename T>
__aicore__ inline void StoreTile(const GlobalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    DataCopyPad(dst, src, copyParams);
}
)"},
        {"Await", {}, R"(
// Lets the second pipe of the event wait for the first.
template <HardEvent event>
__aicore__ inline void Await()
{
    const TEventID id = GetTPipePtr()->FetchEventID(event);
    SetFlag<event>(id);
    WaitFlag<event>(id);
}
)"},
        {"FillTail", {"RoundUp"}, R"(
// Zeroes what DataCopyPad leaves undefined behind `count` elements: comparisons work on whole 256 bytes.
template <typename T>
__aicore__ inline void FillTail(const LocalTensor<T> &t, uint32_t count, uint32_t lanes)
{
    const uint32_t begin = RoundUp(count, 32 / sizeof(T));
    if (begin < lanes) {
        Duplicate(t[begin].template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                  static_cast<int32_t>((lanes - begin) * sizeof(T) / sizeof(int16_t)));
    }
}
)"},
        // ---- integers
        {"WrapAdd", {}, R"(
template <typename T>
__aicore__ inline T WrapAdd(T a, T b)
{
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
)"},
        {"WrapSub", {}, R"(
template <typename T>
__aicore__ inline T WrapSub(T a, T b)
{
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
)"},
        {"WrapMul", {}, R"(
template <typename T>
__aicore__ inline T WrapMul(T a, T b)
{
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
)"},
        {"WrapNeg", {}, R"(
template <typename T>
__aicore__ inline T WrapNeg(T a)
{
    return static_cast<T>(0 - static_cast<uint64_t>(a));
}
)"},
        {"IntAbs", {"WrapNeg"}, R"(
template <typename T>
__aicore__ inline T IntAbs(T a)
{
    return a < 0 ? WrapNeg<T>(a) : a;
}
)"},
        {"IntSign", {}, R"(
template <typename T>
__aicore__ inline T IntSign(T a)
{
    return static_cast<T>(a > 0 ? 1 : a < 0 ? -1 : 0);
}
)"},
        {"IntDiv", {"WrapNeg"}, R"(
// Toward zero; 0 where b is 0. The quotient of the lowest number and -1 wraps.
template <typename T>
__aicore__ inline T IntDiv(T a, T b)
{
    if (b == 0) {
        return 0;
    }
    return b == static_cast<T>(-1) && static_cast<T>(-1) < 0 ? WrapNeg<T>(a) : static_cast<T>(a / b);
}
)"},
        {"IntFloorDiv", {"IntDiv"}, R"(
template <typename T>
__aicore__ inline T IntFloorDiv(T a, T b)
{
    const T q = IntDiv<T>(a, b);
    return b != 0 && (a < 0) != (b < 0) && static_cast<T>(q * b) != a ? static_cast<T>(q - 1) : q;
}
)"},
        {"IntFmod", {}, R"(
// The remainder with the sign of a; 0 where b is 0.
template <typename T>
__aicore__ inline T IntFmod(T a, T b)
{
    return b == 0 || (b == static_cast<T>(-1) && static_cast<T>(-1) < 0) ? static_cast<T>(0) : static_cast<T>(a % b);
}
)"},
        {"IntMod", {"IntFmod"}, R"(
// The remainder with the sign of b; 0 where b is 0.
template <typename T>
__aicore__ inline T IntMod(T a, T b)
{
    const T r = IntFmod<T>(a, b);
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
)"},
        {"IntPow", {"WrapMul"}, R"(
// By squaring, wrapping. Negative exponents give 0 but for the bases 1 and -1.
template <typename T>
__aicore__ inline T IntPow(T base, T exponent)
{
    if (exponent < 0) {
        return base == 1 ? 1 : base == static_cast<T>(-1) ? static_cast<T>(exponent % 2 != 0 ? -1 : 1) : static_cast<T>(0);
    }
    T r = 1;
    for (; exponent != 0; exponent = static_cast<T>(exponent / 2)) {
        if (exponent % 2 != 0) {
            r = WrapMul<T>(r, base);
        }
        base = WrapMul<T>(base, base);
    }
    return r;
}
)"},
        {"IntShl", {}, R"(
// 0 for shifts past the width.
template <typename T>
__aicore__ inline T IntShl(T a, T n)
{
    return static_cast<uint64_t>(n) >= 8 * sizeof(T) ? static_cast<T>(0) : static_cast<T>(static_cast<uint64_t>(a) << n);
}
)"},
        {"IntShr", {}, R"(
// The sign for shifts past the width.
template <typename T>
__aicore__ inline T IntShr(T a, T n)
{
    return static_cast<uint64_t>(n) >= 8 * sizeof(T) ? static_cast<T>(a < 0 ? -1 : 0) : static_cast<T>(a >> n);
}
)"},
        {"Limits", {}, R"(
// Lowest and highest number of an integer type.
template <typename T>
struct Limits {
    static constexpr bool isSigned = static_cast<T>(-1) < static_cast<T>(0);
    static constexpr T high = static_cast<T>(~uint64_t{0} >> (64 - 8 * sizeof(T) + (isSigned ? 1 : 0)));
    static constexpr T low = isSigned ? static_cast<T>(-high - 1) : static_cast<T>(0);
};
)"},
        {"Saturate", {"Limits"}, R"(
// Toward zero, to the nearest number of the type beyond its range; NaN to 0.
template <typename T>
__aicore__ inline T Saturate(float v)
{
    if (v != v) {
        return 0;
    }
    if (v <= static_cast<float>(Limits<T>::low)) {
        return Limits<T>::low;
    }
    return v >= static_cast<float>(Limits<T>::high) ? Limits<T>::high : static_cast<T>(v);
}
)"},
        {"SaturateInt", {"Limits"}, R"(
template <typename T, typename From>
__aicore__ inline T SaturateInt(From v)
{
    if (v < 0) {
        return Limits<T>::low < 0 && v >= static_cast<From>(Limits<T>::low) ? static_cast<T>(v)
               : sizeof(T) >= sizeof(From) && Limits<T>::low < 0            ? static_cast<T>(v)
                                                                            : Limits<T>::low;
    }
    return static_cast<uint64_t>(v) > static_cast<uint64_t>(Limits<T>::high) ? Limits<T>::high : static_cast<T>(v);
}
)"},
        {"BitCast", {}, R"(
template <typename To, typename From>
__aicore__ inline To BitCast(From v)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    union {
        From from;
        To to;
    } u;
    u.from = v;
    return u.to;
}
)"},
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

const Helper& find(std::string_view name) {
    for (const Helper& h : table())
        if (name == h.name) return h;
    throw std::logic_error("no helper function " + std::string(name));
}
void need(std::string_view name, std::set<std::string>& all) {
    if (!all.insert(std::string(name)).second) return;
    for (const char* n : find(name).needs) need(n, all);
}
}  // namespace

std::string helper_text(const std::set<std::string>& names) {
    std::set<std::string> all;
    for (const std::string& n : names) need(n, all);
    std::string r;
    for (const Helper& h : table())  // the table is in order of need
        if (all.count(h.name)) r += h.text;
    return r;
}

}  // namespace opwright::target::ascend
