// The closed set of scalar functions, and the facts about each that derivation, costing and emission share.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace opwright::math {

enum class Fn : uint8_t {
    // one argument
    Neg, Abs, Sign, Floor, Ceil, Round, Trunc, Sqrt, Rsqrt, Exp, Exp2, Expm1, Log, Log2, Log1p, Sin, Cos, Tan, Asin,
    Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh, Atanh, Erf, Not, BitNot, IsNan, IsInf,
    // two arguments
    Add, Sub, Mul, Div, FloorDiv, Mod, Fmod, Pow, Atan2, Min, Max, And, Or, Xor, BitAnd, BitOr, BitXor, Shl, Shr, Eq,
    Ne, Lt, Le, Gt, Ge,
    // three arguments
    Select,
};
inline constexpr int kFnCount = static_cast<int>(Fn::Select) + 1;

// How a function is counted and what it costs: classes of the roofline, not exact cycles.
enum class CostClass : uint8_t { Free, Simple, Divide, Special };

struct FnInfo {
    std::string_view name;   // as the language spells a call ("exp"), or the operation's name ("add")
    std::string_view op;     // infix or prefix spelling ("+"), empty for calls
    uint8_t arity;
    bool bool_result;        // comparisons and predicates deliver Bool; logical functions take and deliver Bool
    bool bool_args;
    bool float_only, int_only;
    CostClass cost;
    double ulps;             // bound on the error of an f32 implementation, in ulps; 0.5 where correctly rounded, 0 exact
};
const FnInfo& info(Fn f);
std::optional<Fn> fn_from_name(std::string_view name);  // those that the language calls by name

// Semantics in fp64 (floats) and int64 (all else, wrapped to the type t).
// Division of integers truncates toward zero, x/0 = 0; FloorDiv and Mod floor; Fmod truncates; shifts past the width give
// 0 (or the sign for Shr of signed types); Min and Max propagate NaN and order -0 below +0; Round is half to even.
double apply(Fn f, std::span<const double> a);
int64_t apply_int(Fn f, std::span<const int64_t> a, DType t);
// Wraps a value to the range of an integer type (two's complement), or to 0/1 for Bool.
int64_t wrap_to(int64_t v, DType t);
// double to an integer type: truncates, saturates, NaN to 0. Bool: v != 0.
int64_t saturate_to(double v, DType t);

enum class ReduceOp : uint8_t { Sum, Prod, Max, Min, Any, All, ArgMax, ArgMin, ArgMaxLast, ArgMinLast };
std::string_view name(ReduceOp op);
constexpr bool is_arg(ReduceOp op) { return op >= ReduceOp::ArgMax; }
// The value of the reduction of nothing: 0, 1, -inf or lowest, +inf or highest, false, true; arg forms give 0.
double identity(ReduceOp op, DType t);

}  // namespace opwright::math
