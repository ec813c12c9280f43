// Scalar types, enumerations and parameter structs of the Ascend C subset, for __NPU_ARCH__ 2201. Names and meanings
// are those of the public documentation; fields are wider than on the device, so that a value that would wrap there is
// seen and reported here.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#define __NPU_ARCH__ 2201
#define ASCEND_SIM 1
#define __global__
#define __aicore__
#define __gm__
#define __ubuf__
#define __vector__
#define __cube__
#define __mix__(cube, vector)

using GM_ADDR = uint8_t*;

namespace ascend_sim {

inline float half_to_float(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const int exponent = h >> 10 & 31;
    const uint32_t fraction = h & 1023u;
    float magnitude;
    if (exponent == 31) {
        magnitude = fraction ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    } else if (exponent == 0) {
        magnitude = std::ldexp(static_cast<float>(fraction), -24);
    } else {
        magnitude = std::ldexp(static_cast<float>(fraction | 1024u), exponent - 25);
    }
    uint32_t bits;
    std::memcpy(&bits, &magnitude, 4);
    bits |= sign;
    std::memcpy(&magnitude, &bits, 4);
    return magnitude;
}

// Round to nearest, ties to even; NaN stays NaN, what is too large becomes an infinity.
inline uint16_t float_to_half(float v) {
    const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
    const float a = std::fabs(v);
    if (std::isnan(v)) return sign | 0x7e00;
    if (a >= 65520.0f) return sign | 0x7c00;
    if (a < 0x1p-14f) return sign | static_cast<uint16_t>(std::nearbyint(a * 0x1p24f));
    int exponent;
    const float fraction = std::frexp(a, &exponent);  // in [1/2, 1)
    auto mantissa = static_cast<uint32_t>(std::nearbyint(fraction * 2048.0f));
    if (mantissa == 2048) mantissa = 1024, ++exponent;
    return sign | static_cast<uint16_t>((exponent + 14) << 10 | (mantissa & 1023u));
}

inline float bfloat16_to_float(uint16_t b) {
    const uint32_t bits = static_cast<uint32_t>(b) << 16;
    float r;
    std::memcpy(&r, &bits, 4);
    return r;
}
inline uint16_t float_to_bfloat16(float v) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    if (std::isnan(v)) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace ascend_sim

class half {
public:
    half() = default;
    half(float v) : bits_(ascend_sim::float_to_half(v)) {}  // NOLINT: the device's half converts
    half(double v) : half(static_cast<float>(v)) {}
    half(int v) : half(static_cast<float>(v)) {}
    operator float() const { return ascend_sim::half_to_float(bits_); }
    uint16_t bits() const { return bits_; }
    static half from_bits(uint16_t b) {
        half h;
        h.bits_ = b;
        return h;
    }

private:
    uint16_t bits_ = 0;
};

// Arithmetic on bfloat16_t does not exist on 2201: it converts by ToFloat and ToBfloat16 alone.
class bfloat16_t {
public:
    bfloat16_t() = default;
    uint16_t bits() const { return bits_; }
    static bfloat16_t from_bits(uint16_t b) {
        bfloat16_t r;
        r.bits_ = b;
        return r;
    }

private:
    uint16_t bits_ = 0;
};

namespace AscendC {

inline float ToFloat(bfloat16_t v) { return ascend_sim::bfloat16_to_float(v.bits()); }
inline bfloat16_t ToBfloat16(float v) { return bfloat16_t::from_bits(ascend_sim::float_to_bfloat16(v)); }

enum class TPosition : uint8_t { GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC };
using QuePosition = TPosition;

enum class RoundMode : uint8_t { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };

enum class HardEvent : uint8_t {
    MTE2_V,
    V_MTE2,
    MTE3_V,
    V_MTE3,
    MTE2_MTE3,
    MTE3_MTE2,
    S_V,
    V_S,
    S_MTE2,
    MTE2_S,
    S_MTE3,
    MTE3_S,
    V_V,
    MAX
};
using TEventID = int8_t;
inline constexpr TEventID EVENT_ID0 = 0, EVENT_ID1 = 1, EVENT_ID2 = 2, EVENT_ID3 = 3, EVENT_ID4 = 4, EVENT_ID5 = 5,
                          EVENT_ID6 = 6, EVENT_ID7 = 7;

enum class CacheLine : uint8_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : uint8_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

// Of plain DataCopy: lengths and gaps in blocks of 32 bytes.
struct DataCopyParams {
    int64_t blockCount = 1, blockLen = 0, srcStride = 0, dstStride = 0;
};
// Of DataCopyPad: blockLen in bytes; gaps in bytes on the side of global memory, in blocks of 32 bytes on the other.
struct DataCopyExtParams {
    int64_t blockCount = 1, blockLen = 0, srcStride = 0, dstStride = 0, rsv = 0;
};
template <typename T>
struct DataCopyPadExtParams {
    bool isPad = false;
    int64_t leftPadding = 0, rightPadding = 0;  // elements
    T paddingValue{};
};
struct BinaryRepeatParams {
    int64_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1, dstRepStride = 8, src0RepStride = 8,
            src1RepStride = 8;
};
struct UnaryRepeatParams {
    int64_t dstBlkStride = 1, srcBlkStride = 1, dstRepStride = 8, srcRepStride = 8;
};
struct BrcbRepeatParams {
    int64_t dstBlkStride = 1, dstRepStride = 8;
};
// Strides between repeats in blocks of 32 bytes.
struct TransDataTo5HDParams {
    bool dstHighHalf = false, srcHighHalf = false;
    int64_t repeatTimes = 1, dstRepStride = 0, srcRepStride = 0;
};

}  // namespace AscendC

// The pipes of a core as template arguments of PipeBarrier.
enum pipe_t : uint8_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };
