// Element types of tensors, their names, sizes and classes, and the conversions of the 16-bit floats.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace opwright {

// The order is part of the disk format of the object cache and of the C ABI: append only.
enum class DType : uint8_t { Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64 };
inline constexpr int kDTypeCount = 13;

// Short name as the language spells it: "bool", "i8" .. "u64", "f16", "bf16", "f32", "f64".
std::string_view name(DType t);
// Inverse of name(); also accepts numpy/ONNX spellings ("float32", "int64", "double", ...).
std::optional<DType> dtype_from_name(std::string_view s);
// Bytes of one element (bool is one byte holding 0 or 1).
size_t size_of(DType t);

constexpr bool is_float(DType t) { return t >= DType::F16; }
constexpr bool is_signed_int(DType t) { return t >= DType::I8 && t <= DType::I64; }
constexpr bool is_unsigned_int(DType t) { return t >= DType::U8 && t <= DType::U64; }
constexpr bool is_int(DType t) { return t >= DType::I8 && t <= DType::U64; }
constexpr bool is_numeric(DType t) { return t != DType::Bool; }

// The type arithmetic is done in: f32 for the 16-bit floats, the type itself otherwise.
constexpr DType compute_type(DType t) {
    return t == DType::F16 || t == DType::BF16 ? DType::F32 : t;
}
// The default accumulator of a sum or product: f32 for f16/bf16/f32, i32 for i8/u8/i16/u16, else the type itself.
DType accumulate_type(DType t);

// Unit roundoff relative to 1 (2^-11 for f16, 2^-8 bf16, 2^-24 f32, 2^-53 f64); 0 for integers and bool.
double unit_roundoff(DType t);
// Largest and smallest finite values as double (exact for all but 64-bit integers).
double highest(DType t);
double lowest(DType t);

// IEEE conversions, round to nearest even; NaN stays NaN, overflow goes to infinity.
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);
// One rounding from double (not through f32).
uint16_t f64_to_f16(double d);
uint16_t f64_to_bf16(double d);

}  // namespace opwright
