#include "math/functions.h"

#include <cmath>
#include <cstdlib>
#include <limits>

namespace opwright::math {
namespace {
using C = CostClass;
// name, infix, arity, bool result, bool args, float only, int only, cost, ulps. In the order of Fn.
constexpr FnInfo kTable[kFnCount] = {
    {"neg", "-", 1, false, false, false, false, C::Free, 0},
    {"abs", "", 1, false, false, false, false, C::Free, 0},
    {"sign", "", 1, false, false, false, false, C::Simple, 0},
    {"floor", "", 1, false, false, true, false, C::Simple, 0},
    {"ceil", "", 1, false, false, true, false, C::Simple, 0},
    {"round", "", 1, false, false, true, false, C::Simple, 0},
    {"trunc", "", 1, false, false, true, false, C::Simple, 0},
    {"sqrt", "", 1, false, false, true, false, C::Divide, 0.5},
    {"rsqrt", "", 1, false, false, true, false, C::Divide, 1.5},
    {"exp", "", 1, false, false, true, false, C::Special, 2},
    {"exp2", "", 1, false, false, true, false, C::Special, 2},
    {"expm1", "", 1, false, false, true, false, C::Special, 4},
    {"log", "", 1, false, false, true, false, C::Special, 2},
    {"log2", "", 1, false, false, true, false, C::Special, 3},
    {"log1p", "", 1, false, false, true, false, C::Special, 4},
    {"sin", "", 1, false, false, true, false, C::Special, 4},
    {"cos", "", 1, false, false, true, false, C::Special, 4},
    {"tan", "", 1, false, false, true, false, C::Special, 4},
    {"asin", "", 1, false, false, true, false, C::Special, 4},
    {"acos", "", 1, false, false, true, false, C::Special, 4},
    {"atan", "", 1, false, false, true, false, C::Special, 4},
    {"sinh", "", 1, false, false, true, false, C::Special, 4},
    {"cosh", "", 1, false, false, true, false, C::Special, 4},
    {"tanh", "", 1, false, false, true, false, C::Special, 4},
    {"asinh", "", 1, false, false, true, false, C::Special, 4},
    {"acosh", "", 1, false, false, true, false, C::Special, 4},
    {"atanh", "", 1, false, false, true, false, C::Special, 4},
    {"erf", "", 1, false, false, true, false, C::Special, 4},
    {"not", "not", 1, true, true, false, false, C::Simple, 0},
    {"bitnot", "~", 1, false, false, false, true, C::Simple, 0},
    {"isnan", "", 1, true, false, true, false, C::Simple, 0},
    {"isinf", "", 1, true, false, true, false, C::Simple, 0},
    {"add", "+", 2, false, false, false, false, C::Simple, 0.5},
    {"sub", "-", 2, false, false, false, false, C::Simple, 0.5},
    {"mul", "*", 2, false, false, false, false, C::Simple, 0.5},
    {"div", "/", 2, false, false, false, false, C::Divide, 0.5},
    {"floordiv", "//", 2, false, false, false, false, C::Divide, 1},
    {"mod", "%", 2, false, false, false, false, C::Divide, 1},
    {"fmod", "", 2, false, false, false, false, C::Divide, 0.5},
    {"pow", "**", 2, false, false, false, false, C::Special, 4},
    {"atan2", "", 2, false, false, true, false, C::Special, 4},
    {"min", "", 2, false, false, false, false, C::Simple, 0},
    {"max", "", 2, false, false, false, false, C::Simple, 0},
    {"and", "and", 2, true, true, false, false, C::Simple, 0},
    {"or", "or", 2, true, true, false, false, C::Simple, 0},
    {"xor", "xor", 2, true, true, false, false, C::Simple, 0},
    {"bitand", "&", 2, false, false, false, true, C::Simple, 0},
    {"bitor", "|", 2, false, false, false, true, C::Simple, 0},
    {"bitxor", "^", 2, false, false, false, true, C::Simple, 0},
    {"shl", "<<", 2, false, false, false, true, C::Simple, 0},
    {"shr", ">>", 2, false, false, false, true, C::Simple, 0},
    {"eq", "==", 2, true, false, false, false, C::Simple, 0},
    {"ne", "!=", 2, true, false, false, false, C::Simple, 0},
    {"lt", "<", 2, true, false, false, false, C::Simple, 0},
    {"le", "<=", 2, true, false, false, false, C::Simple, 0},
    {"gt", ">", 2, true, false, false, false, C::Simple, 0},
    {"ge", ">=", 2, true, false, false, false, C::Simple, 0},
    {"select", "", 3, false, false, false, false, C::Simple, 0},
};

double propagate_min(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
}
double propagate_max(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
}
double floor_mod(double a, double b) {
    const double r = std::fmod(a, b);
    if (r == 0) return std::copysign(r, b);  // the divisor's sign, as for all results
    return (r < 0) != (b < 0) ? r + b : r;
}

// Exponentiation by squaring in wrapping 64-bit arithmetic; negative exponents give 0 except for bases 1 and -1.
int64_t int_pow(int64_t base, int64_t e, bool is_unsigned) {
    if (!is_unsigned && e < 0) return base == 1 ? 1 : base == -1 ? (e & 1 ? -1 : 1) : 0;
    uint64_t r = 1, b = static_cast<uint64_t>(base);
    for (auto n = static_cast<uint64_t>(e); n; n >>= 1, b *= b)
        if (n & 1) r *= b;
    return static_cast<int64_t>(r);
}
int width_of(DType t) { return static_cast<int>(size_of(t)) * 8; }
}  // namespace

const FnInfo& info(Fn f) { return kTable[static_cast<int>(f)]; }

std::optional<Fn> fn_from_name(std::string_view s) {
    for (int i = 0; i < kFnCount; ++i)
        if (kTable[i].name == s) return static_cast<Fn>(i);
    return std::nullopt;
}

double apply(Fn f, std::span<const double> v) {
    const double a = v[0], b = v.size() > 1 ? v[1] : 0;
    switch (f) {
        case Fn::Neg: return -a;
        case Fn::Abs: return std::fabs(a);
        case Fn::Sign: return std::isnan(a) ? a : a > 0 ? 1 : a < 0 ? -1 : a;
        case Fn::Floor: return std::floor(a);
        case Fn::Ceil: return std::ceil(a);
        case Fn::Round: return std::nearbyint(a);
        case Fn::Trunc: return std::trunc(a);
        case Fn::Sqrt: return std::sqrt(a);
        case Fn::Rsqrt: return 1 / std::sqrt(a);
        case Fn::Exp: return std::exp(a);
        case Fn::Exp2: return std::exp2(a);
        case Fn::Expm1: return std::expm1(a);
        case Fn::Log: return std::log(a);
        case Fn::Log2: return std::log2(a);
        case Fn::Log1p: return std::log1p(a);
        case Fn::Sin: return std::sin(a);
        case Fn::Cos: return std::cos(a);
        case Fn::Tan: return std::tan(a);
        case Fn::Asin: return std::asin(a);
        case Fn::Acos: return std::acos(a);
        case Fn::Atan: return std::atan(a);
        case Fn::Sinh: return std::sinh(a);
        case Fn::Cosh: return std::cosh(a);
        case Fn::Tanh: return std::tanh(a);
        case Fn::Asinh: return std::asinh(a);
        case Fn::Acosh: return std::acosh(a);
        case Fn::Atanh: return std::atanh(a);
        case Fn::Erf: return std::erf(a);
        case Fn::Not: return a == 0;
        case Fn::IsNan: return std::isnan(a);
        case Fn::IsInf: return std::isinf(a);
        case Fn::Add: return a + b;
        case Fn::Sub: return a - b;
        case Fn::Mul: return a * b;
        case Fn::Div: return a / b;
        case Fn::FloorDiv: return std::floor(a / b);
        case Fn::Mod: return floor_mod(a, b);
        case Fn::Fmod: return std::fmod(a, b);
        case Fn::Pow: return std::pow(a, b);
        case Fn::Atan2: return std::atan2(a, b);
        case Fn::Min: return propagate_min(a, b);
        case Fn::Max: return propagate_max(a, b);
        case Fn::And: return a != 0 && b != 0;
        case Fn::Or: return a != 0 || b != 0;
        case Fn::Xor: return (a != 0) != (b != 0);
        case Fn::Eq: return a == b;
        case Fn::Ne: return a != b;
        case Fn::Lt: return a < b;
        case Fn::Le: return a <= b;
        case Fn::Gt: return a > b;
        case Fn::Ge: return a >= b;
        case Fn::Select: return a != 0 ? v[1] : v[2];
        case Fn::BitNot: case Fn::BitAnd: case Fn::BitOr: case Fn::BitXor: case Fn::Shl: case Fn::Shr: break;
    }
    std::abort();  // bitwise functions have no float form; the front end refuses them
}

int64_t apply_int(Fn f, std::span<const int64_t> v, DType t) {
    const int64_t a = v[0], b = v.size() > 1 ? v[1] : 0;
    const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
    const bool u64 = t == DType::U64;  // the one type whose values do not fit int64: held as its bits
    const auto lt = [u64](int64_t x, int64_t y) {
        return u64 ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
    };
    const auto w = [t](uint64_t r) { return wrap_to(static_cast<int64_t>(r), t); };
    switch (f) {
        case Fn::Neg: return w(-ua);
        case Fn::Abs: return !u64 && a < 0 ? w(-ua) : a;
        case Fn::Sign: return u64 ? a != 0 : (a > 0) - (a < 0);
        case Fn::Not: return a == 0;
        case Fn::BitNot: return w(~ua);
        case Fn::Add: return w(ua + ub);
        case Fn::Sub: return w(ua - ub);
        case Fn::Mul: return w(ua * ub);
        case Fn::Div: case Fn::FloorDiv: {
            if (b == 0) return 0;
            if (u64) return static_cast<int64_t>(ua / ub);
            if (b == -1) return w(-ua);
            const int64_t q = a / b;
            return f == Fn::FloorDiv && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
        }
        case Fn::Mod: case Fn::Fmod: {
            if (b == 0) return 0;
            if (u64) return static_cast<int64_t>(ua % ub);
            if (b == -1) return 0;
            const int64_t r = a % b;
            return f == Fn::Mod && r != 0 && (r < 0) != (b < 0) ? r + b : r;
        }
        case Fn::Pow: return w(static_cast<uint64_t>(int_pow(a, b, u64)));
        case Fn::Min: return lt(b, a) ? b : a;
        case Fn::Max: return lt(a, b) ? b : a;
        case Fn::And: return a && b;
        case Fn::Or: return a || b;
        case Fn::Xor: return (a != 0) != (b != 0);
        case Fn::BitAnd: return a & b;
        case Fn::BitOr: return a | b;
        case Fn::BitXor: return a ^ b;
        case Fn::Shl: return ub >= static_cast<uint64_t>(width_of(t)) ? 0 : w(ua << ub);
        case Fn::Shr:
            if (ub >= static_cast<uint64_t>(width_of(t))) return is_signed_int(t) && a < 0 ? -1 : 0;
            return u64 ? static_cast<int64_t>(ua >> ub) : a >> ub;
        case Fn::Eq: return a == b;
        case Fn::Ne: return a != b;
        case Fn::Lt: return lt(a, b);
        case Fn::Le: return !lt(b, a);
        case Fn::Gt: return lt(b, a);
        case Fn::Ge: return !lt(a, b);
        case Fn::Select: return a ? v[1] : v[2];
        case Fn::Floor: case Fn::Ceil: case Fn::Round: case Fn::Trunc: case Fn::Sqrt: case Fn::Rsqrt: case Fn::Exp:
        case Fn::Exp2: case Fn::Expm1: case Fn::Log: case Fn::Log2: case Fn::Log1p: case Fn::Sin: case Fn::Cos:
        case Fn::Tan: case Fn::Asin: case Fn::Acos: case Fn::Atan: case Fn::Sinh: case Fn::Cosh: case Fn::Tanh:
        case Fn::Asinh: case Fn::Acosh: case Fn::Atanh: case Fn::Erf: case Fn::IsNan: case Fn::IsInf: case Fn::Atan2:
            break;
    }
    std::abort();  // float-only functions; the front end refuses them on integers
}

int64_t wrap_to(int64_t v, DType t) {
    switch (t) {
        case DType::Bool: return v != 0;
        case DType::I8: return static_cast<int8_t>(v);
        case DType::I16: return static_cast<int16_t>(v);
        case DType::I32: return static_cast<int32_t>(v);
        case DType::U8: return static_cast<uint8_t>(v);
        case DType::U16: return static_cast<uint16_t>(v);
        case DType::U32: return static_cast<uint32_t>(v);
        case DType::I64: case DType::U64: case DType::F16: case DType::BF16: case DType::F32: case DType::F64: return v;
    }
    return v;
}

int64_t saturate_to(double v, DType t) {
    if (t == DType::Bool) return v != 0;
    if (std::isnan(v)) return 0;
    if (t == DType::U64) {
        if (v <= 0) return 0;
        return v >= 0x1p64 ? -1 : static_cast<int64_t>(static_cast<uint64_t>(v));
    }
    if (t == DType::I64) {
        if (v >= 0x1p63) return std::numeric_limits<int64_t>::max();
        return v <= -0x1p63 ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(v);
    }
    if (v <= lowest(t)) return static_cast<int64_t>(lowest(t));
    if (v >= highest(t)) return static_cast<int64_t>(highest(t));
    return static_cast<int64_t>(v);
}

std::string_view name(ReduceOp op) {
    constexpr std::string_view names[] = {"sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "argmax_last",
                                          "argmin_last"};
    return names[static_cast<int>(op)];
}

double identity(ReduceOp op, DType t) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    switch (op) {
        case ReduceOp::Sum: case ReduceOp::Any: return 0;
        case ReduceOp::Prod: case ReduceOp::All: return 1;
        case ReduceOp::Max: return is_float(t) ? -inf : lowest(t);
        case ReduceOp::Min: return is_float(t) ? inf : highest(t);
        case ReduceOp::ArgMax: case ReduceOp::ArgMin: case ReduceOp::ArgMaxLast: case ReduceOp::ArgMinLast: return 0;
    }
    return 0;
}

}  // namespace opwright::math
