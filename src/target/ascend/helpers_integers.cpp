// Integers: they wrap, saturate and divide as the language says.
#include "target/ascend/helper_tables.h"

namespace opwright::target::ascend {

const std::vector<Helper>& integers_helpers() {
    static const std::vector<Helper> all = {
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
    };
    return all;
}

}  // namespace opwright::target::ascend
