#include "loop/fold.h"

#include <algorithm>
#include <limits>

namespace opwright::loop {
namespace {

int bits_of(DType t) { return static_cast<int>(size_of(t)) * 8; }

// Division on values of type t, the quotient truncated; y is not 0.
int64_t quotient(DType t, int64_t x, int64_t y) {
    if (is_unsigned_int(t)) return static_cast<int64_t>(static_cast<uint64_t>(x) / static_cast<uint64_t>(y));
    if (y == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
    return x / y;
}

bool less(DType t, int64_t x, int64_t y) {
    return is_unsigned_int(t) ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
}

}  // namespace

int64_t wrap_to(DType t, int64_t v) {
    switch (t) {
        case DType::Bool: return v != 0;
        case DType::I8: return static_cast<int8_t>(v);
        case DType::I16: return static_cast<int16_t>(v);
        case DType::I32: return static_cast<int32_t>(v);
        case DType::U8: return static_cast<uint8_t>(v);
        case DType::U16: return static_cast<uint16_t>(v);
        case DType::U32: return static_cast<uint32_t>(v);
        case DType::I64:
        case DType::U64:
        case DType::F16:
        case DType::BF16:
        case DType::F32:
        case DType::F64: return v;
    }
    return v;
}

std::optional<int64_t> fold_int(UnaryFn f, DType t, int64_t x) {
    switch (f) {
        case UnaryFn::Neg: return wrap_to(t, static_cast<int64_t>(0 - static_cast<uint64_t>(x)));
        case UnaryFn::Abs:
            return less(t, x, 0) ? wrap_to(t, static_cast<int64_t>(0 - static_cast<uint64_t>(x))) : x;
        case UnaryFn::Sign: return x == 0 ? 0 : less(t, x, 0) ? -1 : 1;
        case UnaryFn::Not: return t == DType::Bool ? !x : wrap_to(t, ~x);
        case UnaryFn::Floor:
        case UnaryFn::Ceil:
        case UnaryFn::Round:
        case UnaryFn::Trunc: return x;
        default: return std::nullopt;  // functions of floats
    }
}

std::optional<int64_t> fold_int(BinaryFn f, DType t, int64_t x, int64_t y) {
    const auto ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
    const int bits = bits_of(t);
    switch (f) {
        case BinaryFn::Add: return wrap_to(t, static_cast<int64_t>(ux + uy));
        case BinaryFn::Sub: return wrap_to(t, static_cast<int64_t>(ux - uy));
        case BinaryFn::Mul: return wrap_to(t, static_cast<int64_t>(ux * uy));
        case BinaryFn::Div: return y == 0 ? 0 : wrap_to(t, quotient(t, x, y));
        case BinaryFn::FloorDiv: {
            if (y == 0) return 0;
            int64_t q = quotient(t, x, y);
            if (is_signed_int(t) && (x < 0) != (y < 0) && q * y != x) --q;
            return wrap_to(t, q);
        }
        case BinaryFn::Mod: {
            if (y == 0 || (is_signed_int(t) && y == -1)) return 0;
            if (is_unsigned_int(t)) return static_cast<int64_t>(ux % uy);
            const int64_t r = x % y;
            return r != 0 && (r < 0) != (y < 0) ? r + y : r;
        }
        case BinaryFn::FMod:
            if (y == 0 || (is_signed_int(t) && y == -1)) return 0;
            return is_unsigned_int(t) ? static_cast<int64_t>(ux % uy) : x % y;
        case BinaryFn::Min: return less(t, y, x) ? y : x;
        case BinaryFn::Max: return less(t, x, y) ? y : x;
        case BinaryFn::Pow:
        case BinaryFn::Atan2: return std::nullopt;
        case BinaryFn::And: return x & y;
        case BinaryFn::Or: return x | y;
        case BinaryFn::Xor: return x ^ y;
        case BinaryFn::Shl: return uy >= static_cast<uint64_t>(bits) ? 0 : wrap_to(t, static_cast<int64_t>(ux << y));
        case BinaryFn::Shr:
            if (uy >= static_cast<uint64_t>(bits)) return is_signed_int(t) && x < 0 ? -1 : 0;
            return is_signed_int(t) ? x >> y : static_cast<int64_t>(ux >> y);
        case BinaryFn::Lt: return less(t, x, y);
        case BinaryFn::Le: return !less(t, y, x);
        case BinaryFn::Gt: return less(t, y, x);
        case BinaryFn::Ge: return !less(t, x, y);
        case BinaryFn::Eq: return x == y;
        case BinaryFn::Ne: return x != y;
    }
    return std::nullopt;
}

int64_t fold_dot(int64_t a, int64_t b, int64_t sum) {
    for (int shift = 0; shift < 32; shift += 8)
        sum += static_cast<int64_t>(static_cast<uint8_t>(a >> shift)) * static_cast<int8_t>(b >> shift);
    return wrap_to(DType::I32, sum);
}

}  // namespace opwright::loop
