// The closed set of scalar functions of the loop IR. They apply to one lane or to each lane of a vector.
//
// Integers: arithmetic wraps in its own type. x/0, x//0, x%0 and fmod(x, 0) are 0; MIN/-1 wraps to MIN. A shift count
// outside [0, width) shifts everything out: 0, or the sign for the right shift of a signed value.
// Floats (f32 and f64 only; 16-bit floats are converted first): min and max are IEEE 754-2019 minimum and maximum (NaN
// propagates, -0 < +0). Nothing is reassociated or contracted but MulAdd.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace opwright::loop {

enum class UnaryFn : uint8_t {
    Neg, Abs,
    Sign,   // -1, 0 or 1; -0 and NaN are kept
    Floor, Ceil,
    Round,  // half to even
    Trunc,
    Sqrt, Rsqrt,  // rsqrt(x) = 1 / sqrt(x), both rounded
    Exp, Exp2, Expm1, Log, Log2, Log1p,
    Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh, Atanh, Erf,
    Not,           // logical on bool, bitwise on integers
    IsNan, IsInf,  // floats to bool
};
inline constexpr int kUnaryFnCount = static_cast<int>(UnaryFn::IsInf) + 1;

enum class BinaryFn : uint8_t {
    Add, Sub, Mul,
    Div,       // integers truncate toward zero
    FloorDiv,  // floor of the quotient; on floats floor(x / y)
    Mod,       // takes the divisor's sign: x - floor(x / y) * y without intermediate rounding
    FMod,      // takes the dividend's sign
    Min, Max, Pow, Atan2,
    And, Or, Xor,  // logical on bool, bitwise on integers
    Shl, Shr,      // Shr is arithmetic on signed types
    Lt, Le, Gt, Ge, Eq, Ne,  // to bool; any comparison with NaN but Ne is false
};
inline constexpr int kBinaryFnCount = static_cast<int>(BinaryFn::Ne) + 1;

// How Dot takes words of 32 bits apart.
enum class DotFn : uint8_t {
    Bf16x2,  // two bf16 each, added up in f32 in any order, with a rounding after each product or after both; subnormal
             // parts may count as zero, and subnormal sums become it
    U8S8x4,  // four u8 by four i8, added up in i32, wrapping
};
// How a dot product of tiles takes words of 32 bits apart; the first name is that of the rows' factor.
enum class TileFn : uint8_t {
    Bf16x2,  // as DotFn::Bf16x2
    U8U8x4, U8S8x4, S8U8x4, S8S8x4,  // four 8-bit integers each, added up in i32, wrapping
};
constexpr DType sum_type(TileFn f) { return f == TileFn::Bf16x2 ? DType::F32 : DType::I32; }
constexpr int parts(DotFn f) { return f == DotFn::Bf16x2 ? 2 : 4; }
constexpr DType sum_type(DotFn f) { return f == DotFn::Bf16x2 ? DType::F32 : DType::I32; }

std::string_view name(UnaryFn f);
std::string_view name(BinaryFn f);
std::string_view name(DotFn f);
std::string_view name(TileFn f);
constexpr bool is_comparison(BinaryFn f) { return f >= BinaryFn::Lt; }
constexpr bool is_commutative(BinaryFn f) {
    return f == BinaryFn::Add || f == BinaryFn::Mul || f == BinaryFn::Min || f == BinaryFn::Max || f == BinaryFn::And ||
           f == BinaryFn::Or || f == BinaryFn::Xor || f == BinaryFn::Eq || f == BinaryFn::Ne;
}

}  // namespace opwright::loop
