// Cast: the pairs of types and rounding modes that 2201 has, as a static table and a check.
#pragma once
#include "vector.h"

namespace AscendC {
namespace sim {

template <typename To, typename From>
constexpr bool can_cast() {
    const auto is = [](bool to, bool from) { return to && from; };
    constexpr bool to_half = std::is_same_v<To, half>, from_half = std::is_same_v<From, half>;
    constexpr bool to_float = std::is_same_v<To, float>, from_float = std::is_same_v<From, float>;
    constexpr bool to_bf = std::is_same_v<To, bfloat16_t>, from_bf = std::is_same_v<From, bfloat16_t>;
    return is(to_half, from_float) || is(to_float, from_half) || is(to_float, from_bf) || is(to_bf, from_float) ||
           is(std::is_same_v<To, int32_t>, from_bf) || is(to_half, kOneOf<From, int8_t, uint8_t, int16_t>) ||
           is(kOneOf<To, int8_t, uint8_t, int16_t, int32_t>, from_half) ||
           is(to_float, kOneOf<From, int16_t, int32_t, int64_t>) ||
           is(kOneOf<To, int16_t, int64_t>, std::is_same_v<From, int32_t>) ||
           is(kOneOf<To, int16_t, int32_t, int64_t, float>, from_float) ||
           is(std::is_same_v<To, int32_t>, std::is_same_v<From, int64_t>);
}

inline float round_by(float v, RoundMode m) {
    switch (m) {
        case RoundMode::CAST_FLOOR: return std::floor(v);
        case RoundMode::CAST_CEIL: return std::ceil(v);
        case RoundMode::CAST_ROUND: return std::round(v);
        case RoundMode::CAST_TRUNC: return std::trunc(v);
        default: return std::nearbyint(v);
    }
}
// A float in a 16-bit type: `to_bits` rounds to nearest even, `to_float` is exact; the mode picks a neighbour.
template <typename ToBits, typename ToFloat>
uint16_t round_to_16(float v, RoundMode m, ToBits to_bits, ToFloat to_float) {
    const uint16_t near = to_bits(v);
    if (m == RoundMode::CAST_NONE || m == RoundMode::CAST_RINT || std::isnan(v) || to_float(near) == v) return near;
    const uint16_t sign = near & 0x8000;
    const float a = std::fabs(v);
    uint16_t low = near & 0x7fff;  // the neighbour toward zero
    if (to_float(low) > a) --low;
    const bool negative = sign != 0;
    bool up = false;
    switch (m) {
        case RoundMode::CAST_FLOOR: up = negative; break;
        case RoundMode::CAST_CEIL: up = !negative; break;
        case RoundMode::CAST_TRUNC: up = false; break;
        case RoundMode::CAST_ODD: up = (low & 1) == 0; break;
        default: up = a - to_float(low) >= to_float(low + 1) - a; break;  // CAST_ROUND: half away from zero
    }
    return static_cast<uint16_t>(sign | (low + (up ? 1 : 0)));
}
template <typename I>
I saturate(double v) {
    if (std::isnan(v)) return 0;
    if (v <= static_cast<double>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
    if (v >= static_cast<double>(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
    return static_cast<I>(v);
}
template <typename To, typename From>
To convert(From v, RoundMode m) {
    if constexpr (std::is_same_v<From, bfloat16_t>) {
        return convert<To, float>(ToFloat(v), m);
    } else if constexpr (std::is_same_v<From, half>) {
        return convert<To, float>(static_cast<float>(v), m);
    } else if constexpr (std::is_same_v<From, float>) {
        if constexpr (std::is_same_v<To, half>) {
            return half::from_bits(round_to_16(v, m, ascend_sim::float_to_half, ascend_sim::half_to_float));
        } else if constexpr (std::is_same_v<To, bfloat16_t>) {
            return bfloat16_t::from_bits(
                round_to_16(v, m, ascend_sim::float_to_bfloat16, ascend_sim::bfloat16_to_float));
        } else if constexpr (std::is_same_v<To, float>) {
            return m == RoundMode::CAST_NONE ? v : std::isfinite(v) ? std::copysign(round_by(v, m), v) : v;
        } else {
            return saturate<To>(round_by(v, m));
        }
    } else {  // from an integer
        if constexpr (std::is_integral_v<To>) {
            constexpr int64_t low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
            return static_cast<To>(std::min(std::max(static_cast<int64_t>(v), low), high));
        } else if constexpr (std::is_same_v<To, half>) {
            return half(static_cast<float>(v));
        } else {
            return static_cast<float>(v);
        }
    }
}
// Which rounding modes a pair takes: conversions that lose nothing take CAST_NONE alone; floats to integers and to
// bfloat16 always name their rounding.
template <typename To, typename From>
bool takes_mode(RoundMode m) {
    constexpr bool exact = std::is_same_v<To, float>  ? kOneOf<From, half, bfloat16_t, int16_t>
                           : std::is_same_v<To, half> ? kOneOf<From, int8_t, uint8_t>
                                                      : (std::is_integral_v<To> && std::is_integral_v<From>);
    if (exact) return m == RoundMode::CAST_NONE;
    if (m == RoundMode::CAST_ODD) return std::is_same_v<To, half> && std::is_same_v<From, float>;
    if (m == RoundMode::CAST_NONE)
        return std::is_same_v<To, half> || (std::is_integral_v<From> && std::is_same_v<To, float>);
    return true;
}
}  // namespace sim

template <typename To, typename From>
void Cast(const LocalTensor<To>& dst, const LocalTensor<From>& src, RoundMode mode, int64_t count,
          ascend_sim::At at = ascend_sim::At()) {
    static_assert(sim::can_cast<To, From>(), "Cast has no such pair of types on 2201");
    const sim::Instruction in(PIPE_V, "Cast", at);
    in.require((sim::takes_mode<To, From>(mode)), "round_mode", "this pair of types does not take this rounding mode");
    sim::check_operands(in, count, dst, src);
    To* d = dst.data(in.core());
    const From* s = src.data(in.core());
    if (sizeof(To) <= sizeof(From)) {
        for (int64_t i = 0; i < count; ++i) d[i] = sim::convert<To>(s[i], mode);
    } else {
        for (int64_t i = count; i-- > 0;) d[i] = sim::convert<To>(s[i], mode);
    }
}

}  // namespace AscendC
