#include "base/dtype.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

namespace opwright {
namespace {
struct Info {
    std::string_view name;
    size_t size;
    double roundoff, lowest, highest;
};
constexpr Info kInfo[kDTypeCount] = {
    {"bool", 1, 0, 0, 1},
    {"i8", 1, 0, -128, 127},
    {"i16", 2, 0, -32768, 32767},
    {"i32", 4, 0, -2147483648.0, 2147483647.0},
    {"i64", 8, 0, -9223372036854775808.0, 9223372036854775807.0},
    {"u8", 1, 0, 0, 255},
    {"u16", 2, 0, 0, 65535},
    {"u32", 4, 0, 0, 4294967295.0},
    {"u64", 8, 0, 0, 18446744073709551615.0},
    {"f16", 2, 0x1p-11, -65504, 65504},
    {"bf16", 2, 0x1p-8, -0x1.fep127, 0x1.fep127},
    {"f32", 4, 0x1p-24, -FLT_MAX, FLT_MAX},
    {"f64", 8, 0x1p-53, -DBL_MAX, DBL_MAX},
};
const Info& info(DType t) { return kInfo[static_cast<int>(t)]; }

// Rounds |d| to a float format of `mantissa` explicit bits and minimum normal exponent `emin`, returning the bits
// without sign. `emax` is the largest exponent; beyond it the result is infinity.
uint16_t narrow(double d, int mantissa, int emin, int emax) {
    const uint16_t inf = static_cast<uint16_t>((emax - emin + 2) << mantissa);
    if (std::isnan(d)) return static_cast<uint16_t>(inf | (1u << (mantissa - 1)));
    d = std::fabs(d);
    if (std::isinf(d)) return inf;
    if (d == 0) return 0;
    int e = std::ilogb(d);
    if (e < emin) e = emin;  // subnormal range keeps the quantum of the smallest normal
    const double quantum = std::ldexp(1.0, e - mantissa);
    // d/quantum < 2^(mantissa+1) is exact in double, and nearbyint rounds to even.
    double q = std::nearbyint(d / quantum);
    if (q >= std::ldexp(1.0, mantissa + 1)) { q /= 2; ++e; }
    if (e > emax) return inf;
    const auto bits = static_cast<uint32_t>(q);
    if (bits < (1u << mantissa)) return static_cast<uint16_t>(bits);  // subnormal
    return static_cast<uint16_t>(((e - emin + 1) << mantissa) | (bits & ((1u << mantissa) - 1)));
}
}  // namespace

std::string_view name(DType t) { return info(t).name; }
size_t size_of(DType t) { return info(t).size; }
double unit_roundoff(DType t) { return info(t).roundoff; }
double highest(DType t) { return info(t).highest; }
double lowest(DType t) { return info(t).lowest; }

std::optional<DType> dtype_from_name(std::string_view s) {
    for (int i = 0; i < kDTypeCount; ++i)
        if (kInfo[i].name == s) return static_cast<DType>(i);
    constexpr std::pair<std::string_view, DType> aliases[] = {
        {"float16", DType::F16}, {"half", DType::F16}, {"bfloat16", DType::BF16}, {"float32", DType::F32},
        {"float", DType::F32}, {"float64", DType::F64}, {"double", DType::F64}, {"int8", DType::I8},
        {"int16", DType::I16}, {"int32", DType::I32}, {"int64", DType::I64}, {"uint8", DType::U8},
        {"uint16", DType::U16}, {"uint32", DType::U32}, {"uint64", DType::U64}, {"boolean", DType::Bool}};
    for (auto& [n, t] : aliases)
        if (n == s) return t;
    return std::nullopt;
}

DType accumulate_type(DType t) {
    switch (t) {
        case DType::F16: case DType::BF16: return DType::F32;
        case DType::I8: case DType::I16: case DType::U8: case DType::U16: return DType::I32;
        case DType::Bool: case DType::I32: case DType::I64: case DType::U32: case DType::U64:
        case DType::F32: case DType::F64: return t;
    }
    return t;
}

float bf16_to_f32(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }
uint16_t f32_to_bf16(float f) {
    const auto u = std::bit_cast<uint32_t>(f);
    if (std::isnan(f)) return static_cast<uint16_t>((u >> 16) | 0x40);
    return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
float f16_to_f32(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
    const uint32_t exponent = (h >> 10) & 31, mantissa = h & 0x3ff;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
    const float v = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -v : v;
}
uint16_t f64_to_f16(double d) {
    return static_cast<uint16_t>((std::signbit(d) ? 0x8000 : 0) | narrow(d, 10, -14, 15));
}
uint16_t f64_to_bf16(double d) {
    return static_cast<uint16_t>((std::signbit(d) ? 0x8000 : 0) | narrow(d, 7, -126, 127));
}
uint16_t f32_to_f16(float f) { return f64_to_f16(f); }  // float to double is exact: still one rounding

}  // namespace opwright
