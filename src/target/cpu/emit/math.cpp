// Coefficients are minimax fits of our own (Remez exchange in 160-bit arithmetic, relative error of the whole function as
// the weight), rounded to the type that evaluates them.
#include "target/cpu/emit/math.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <span>

#include "target/cpu/emit/math_tables.h"

namespace opwright::target::cpu {
namespace {

using loop::BinaryFn;
using loop::Expr;
using loop::UnaryFn;
using namespace loop;  // binary, unary, select, mul_add, ...

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLog2E = 0x1.715476p+0;
// ln 2 in two parts: the first has 15 bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e4p-1, kLn2Low = 0x1.7f7d1cp-20;
constexpr double kMagic = 0x1.8p23;  // added to a small float, leaves its nearest integer in the low bits

Expr abs(Expr x) { return unary(UnaryFn::Abs, x); }
Expr bits(Expr x) { return bitcast(x, DType::I32); }
Expr as_float(Expr x) { return bitcast(x, DType::F32); }
Expr shift_left(Expr x, int n) { return binary(BinaryFn::Shl, x, like_int(x, n)); }
Expr shift_right(Expr x, int n) { return binary(BinaryFn::Shr, x, like_int(x, n)); }

// Bounds that let NaN pass.
Expr at_most(Expr x, double bound) { return select(gt(x, like(x, bound)), like(x, bound), x); }
Expr at_least(Expr x, double bound) { return select(lt(x, like(x, bound)), like(x, bound), x); }

// |magnitude| with the sign of `sign` (f32).
Expr copy_sign(Expr magnitude, Expr sign) {
    Expr sign_bit = both(bits(sign), like_int(bits(sign), INT32_MIN));
    return as_float(either(bits(abs(magnitude)), sign_bit));
}

Expr horner(Expr x, std::initializer_list<double> coefficients) {
    Expr r;
    for (auto c = std::rbegin(coefficients); c != std::rend(coefficients); ++c)
        r = r ? mul_add(r, x, like(x, *c)) : like(x, *c);
    return r;
}

// The polynomial whose coefficients are entry `index` of each table, the constant term first: terms in pairs, then by
// powers of r^2, which makes a shorter chain than multiply-adds by r.
Expr piecewise(Expr r, Expr index, std::span<const LookupTable> tables) {
    const auto pair = [&](size_t i) {
        Expr low = lookup(index, tables[i]);
        return i + 1 < tables.size() ? mul_add(lookup(index, tables[i + 1]), r, low) : low;
    };
    size_t i = (tables.size() - 1) / 2 * 2;
    Expr p = pair(i), square = r * r;
    while (i > 0) p = mul_add(p, square, pair(i -= 2));
    return p;
}

// ---- exponentials, f32 -----------------------------------------------------------------------------------------------

// x = n ln 2 + r with integral n and |r| <= ln 2 / 2; |x| < 2^15. `integer` holds n in its low bits.
struct ExpParts { Expr n, r, integer; };

// With `parts` (a power of two) n and its place count in parts of 1: |r| <= ln 2 / 2 / parts, |x| < 2^15 / parts.
ExpParts reduce_exp(Expr x, int parts = 1) {
    const Expr magic = like(x, kMagic / parts);
    Expr t = mul_add(x, like(x, kLog2E), magic);
    Expr n = t - magic;
    Expr r = mul_add(n, like(x, -kLn2High), x);
    return {n, mul_add(n, like(x, -kLn2Low), r), bits(t)};
}

Expr exp_polynomial(Expr r) {
    Expr q = horner(r, {0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558f2p-5, 0x1.123a2p-7, 0x1.6a23dp-10});
    return mul_add(r * r, q, r) + like(r, 1);
}

Expr exp_f32(Expr x) {
    const ExpParts p = reduce_exp(at_least(at_most(x, 89), -104));
    return scale(exp_polynomial(p.r), p.n);
}

// e^r by a polynomial of degree 3 for r within a sixteenth of what it is above, times 2^(i / 16).
Expr exp_by_sixteenths(Expr x) {
    const ExpParts p = reduce_exp(at_least(at_most(x, 89), -104), 16);
    Expr power = lookup(p.integer, kSixteenths);
    Expr q = horner(p.r, {1, 0x1.00021ep-1, 0x1.55559ap-3});
    return scale(mul_add(power * p.r, q, power), p.n);  // by the whole part of n
}

Expr exp2_f32(Expr x) {
    x = at_least(at_most(x, 129), -151);
    Expr n = (x + like(x, kMagic)) - like(x, kMagic), r = x - n;
    Expr q = horner(r, {0x1.62e43p-1, 0x1.ebfbep-3, 0x1.c6b08ap-5, 0x1.3b29f4p-7, 0x1.5d8a86p-10, 0x1.445c84p-13, 0x1.fde602p-17});
    return scale(mul_add(q, r, like(x, 1)), n);
}

// e^r - 1 on the reduced range.
Expr expm1_polynomial(Expr r) {
    Expr q = horner(r, {0.5, 0x1.555554p-3, 0x1.5554bp-5, 0x1.11118ap-7, 0x1.6d723ep-10, 0x1.a032c4p-13});
    return mul_add(r * r, q, r);
}

Expr expm1_f32(Expr x) {
    const ExpParts p = reduce_exp(at_least(at_most(x, 89), -18));
    // Half of the result first: 2^128 is no float.
    Expr half = scale(like(x, 1), p.n - like(x, 1));
    Expr r = mul_add(half, expm1_polynomial(p.r), half - like(x, 0.5));
    return select(lt(abs(x), like(x, 0x1p-26)), x, r + r);
}

Expr tanh_f32(Expr x) {
    Expr a = at_most(abs(x), 10);
    const ExpParts p = reduce_exp(a + a);
    Expr power = as_float(shift_left(p.integer, 23) + like_int(p.integer, 0x3f800000));  // 2^n, n in [0, 29]
    Expr m = mul_add(power, expm1_polynomial(p.r), power - like(x, 1));                     // e^2a - 1
    return copy_sign(div(m, m + like(x, 2)), x);
}

Expr tanh_by_pieces(Expr x) {
    Expr a = at_most(abs(x), 10), half_octave = shift_right(bits(a), 22);
    constexpr int64_t first = (127 - 4) * 2;  // of 1/16
    half_octave = binary(BinaryFn::Max, half_octave, like_int(half_octave, first));
    const std::span<const LookupTable> tables = kTanh;
    Expr r = a - lookup(half_octave, tables[0]);
    Expr slope = piecewise(r, half_octave, tables.subspan(2));
    return copy_sign(mul_add(slope, r, lookup(half_octave, tables[1])), x);
}

// e^|x| / 2 without overflow before the result's; |x| is bounded by the caller.
Expr half_exp(Expr a) {
    const ExpParts p = reduce_exp(a);
    return scale(exp_polynomial(p.r), p.n - like(a, 1));
}

Expr sinh_f32(Expr x) {
    Expr a = abs(x), t = x * x;
    Expr small = mul_add(t * a, horner(t, {0x1.555556p-3, 0x1.111134p-7, 0x1.9ffe92p-13, 0x1.7a15b6p-19}), a);
    Expr h = half_exp(at_most(a, 91));
    Expr large = h - div(like(x, 0.25), h);
    return copy_sign(select(lt(a, like(x, 1)), small, large), x);
}

Expr cosh_f32(Expr x) {
    Expr h = half_exp(at_most(abs(x), 91));
    return h + div(like(x, 0.25), h);
}

// ---- logarithms, f32 -------------------------------------------------------------------------------------------------

// u = 2^e m with m in [sqrt(1/2), sqrt(2)), for normal positive u.
struct LogParts { Expr e, m, exponent; };

LogParts split(Expr u) {
    constexpr int64_t root_half = 0x3f3504f3;
    Expr i = bits(u) - like_int(bits(u), root_half);
    Expr exponent = shift_right(i, 23);
    Expr mantissa = both(i, like_int(i, 0x7fffff)) + like_int(i, root_half);
    return {cast(exponent, DType::F32), as_float(mantissa), exponent};
}

// Subnormal x times 2^23, and what that adds to the exponent.
Expr normalise(Expr x, Expr* correction) {
    Expr small = lt(x, like(x, 0x1p-126));
    *correction = select(small, like(x, -23), like(x, 0));
    return select(small, x * like(x, 0x1p23), x);
}

// log(1 + f) - f + f^2 / 2 for 1 + f in [sqrt(1/2), sqrt(2)).
Expr log_tail(Expr f) {
    Expr q = horner(f, {0x1.555548p-2, -0x1.000006p-2, 0x1.99a4b6p-3, -0x1.555c4ep-3, 0x1.233768p-3, -0x1.fc2206p-4,
                        0x1.e6f062p-4, -0x1.de3c1cp-4, 0x1.1457c4p-4});
    return f * (f * f) * q;
}

Expr log_of(Expr f, Expr e) {
    Expr tail = mul_add(e, like(f, kLn2Low), log_tail(f));
    tail = mul_add(f * like(f, -0.5), f, tail);
    return mul_add(e, like(f, kLn2High), tail + f);
}

// -inf at `zero`, NaN below, inf at inf.
Expr log_limits(Expr x, double zero, Expr finite) {
    Expr at_zero = select(eq(x, like(x, zero)), like(x, -kInf), like(x, NAN));
    Expr limit = select(gt(x, like(x, zero)), x, at_zero);
    return select(both(gt(x, like(x, zero)), lt(x, like(x, kInf))), finite, limit);
}

Expr log_f32(Expr x) {
    Expr correction, u = normalise(x, &correction);
    const LogParts p = split(u);
    return log_limits(x, 0, log_of(p.m - like(x, 1), p.e + correction));
}

Expr log2_f32(Expr x) {
    Expr correction, u = normalise(x, &correction);
    const LogParts p = split(u);
    Expr f = p.m - like(x, 1), e = p.e + correction;
    // log2(e) = 1 + 0.4427...: the part that is exact stays apart.
    Expr tail = mul_add(f * like(x, -0.5), f, log_tail(f));
    Expr y = f + tail;
    Expr low = (f - y) + tail;
    Expr r = mul_add(y, like(x, 0x1.c551dap-2), low * like(x, kLog2E)) + y;
    return log_limits(x, 0, r + e);
}

// log(1 + x) for x > -1; no limits.
Expr log1p_finite(Expr x) {
    Expr u = x + like(x, 1);
    const LogParts p = split(u);
    // m - 1 = x s + (s - 1) with s = 2^-e, rounded once; for large x the 1 does not matter.
    Expr s = as_float(shift_left(like_int(p.exponent, 127) - p.exponent, 23));
    Expr f = select(gt(x, like(x, 0x1p24)), p.m - like(x, 1), mul_add(x, s, s - like(x, 1)));
    return log_of(f, p.e);
}

Expr log1p_f32(Expr x) {
    Expr r = select(lt(abs(x), like(x, 0x1p-26)), x, log1p_finite(x));
    return log_limits(x, -1, r);
}

Expr asinh_f32(Expr x) {
    Expr a = abs(x), one = like(x, 1);
    Expr big = gt(a, like(x, 0x1p30));
    Expr u = a + div(a * a, one + unary(UnaryFn::Sqrt, mul_add(a, a, one)));
    Expr r = log1p_finite(select(big, a, u)) + select(big, like(x, 0x1.62e43p-1), like(x, 0));
    r = select(lt(a, like(x, 0x1p-13)), a, r);
    return copy_sign(select(lt(a, like(x, kInf)), r, a), x);
}

Expr acosh_f32(Expr x) {
    Expr t = x - like(x, 1);
    Expr big = gt(x, like(x, 0x1p30));
    Expr u = t + unary(UnaryFn::Sqrt, mul_add(t, t, t + t));  // NaN below 1
    Expr r = log1p_finite(select(big, x, u)) + select(big, like(x, 0x1.62e43p-1), like(x, 0));
    Expr defined = both(ge(x, like(x, 1)), lt(x, like(x, kInf)));
    return select(defined, r, select(gt(x, like(x, 1)), x, like(x, NAN)));
}

Expr atanh_f32(Expr x) {
    Expr a = abs(x);
    Expr u = div(a + a, like(x, 1) - a);
    Expr r = log_limits(u, -1, log1p_finite(u)) * like(x, 0.5);
    return copy_sign(select(lt(a, like(x, 0x1p-13)), a, r), x);
}

// ---- circular functions, f32 -----------------------------------------------------------------------------------------

// x = n pi/2 + r with |r| <= pi/4 and `quadrant` = n in its low bits; needs fused multiply-add and |x| < kCircleLimit.
// Three parts of pi/2 of 24 bits each; the first product cancels exactly.
constexpr double kCircleLimit = 0x1p16;
struct CircleParts { Expr r, quadrant; };

CircleParts reduce_circle(Expr x) {
    Expr t = mul_add(x, like(x, 0x1.45f306p-1), like(x, kMagic));
    Expr n = t - like(x, kMagic);
    Expr r = mul_add(n, like(x, -0x1.921fb4p+0), x);
    r = mul_add(n, like(x, -0x1.4442d0p-24), r);
    return {mul_add(n, like(x, -0x1.846988p-48), r), bits(t)};
}

Expr sin_polynomial(Expr r) {
    Expr t = r * r;
    return mul_add(t * r, horner(t, {-0x1.555556p-3, 0x1.111108p-7, -0x1.a00f74p-13, 0x1.6ccf5ep-19}), r);
}

Expr cos_polynomial(Expr r) {
    Expr t = r * r;
    Expr q = horner(t, {0x1.555556p-5, -0x1.6c16b8p-10, 0x1.a010d6p-16, -0x1.241caap-22});
    return mul_add(t * t, q, mul_add(t, like(r, -0.5), like(r, 1)));
}

// Sine of the angle `quarters` quadrants further on.
Expr sine(Expr x, int quarters) {
    const CircleParts p = reduce_circle(x);
    Expr q = p.quadrant + quarters;
    Expr odd = ne(both(q, like_int(q, 1)), like_int(q, 0));
    Expr r = select(odd, cos_polynomial(p.r), sin_polynomial(p.r));
    Expr sign = shift_left(both(q, like_int(q, 2)), 30);
    return as_float(binary(BinaryFn::Xor, bits(r), sign));
}

Expr tangent(Expr x) {
    const CircleParts p = reduce_circle(x);
    Expr odd = ne(both(p.quadrant, like_int(p.quadrant, 1)), like_int(p.quadrant, 0));
    Expr s = sin_polynomial(p.r), c = cos_polynomial(p.r);
    return div(select(odd, -c, s), select(odd, s, c));
}

MathPlan circular(UnaryFn f, Expr x, const Features& features) {
    const std::string c_function = std::string(name(f)) + "f";
    if (!features.fma) return {{}, {}, c_function};
    Expr valid = lt(abs(x), like(x, kCircleLimit));
    Expr tiny = lt(abs(x), like(x, 0x1p-13));
    if (f == UnaryFn::Cos) return {sine(x, 1), valid, c_function};
    return {select(tiny, x, f == UnaryFn::Sin ? sine(x, 0) : tangent(x)), valid, c_function};
}

// atan on [0, 1].
Expr atan_polynomial(Expr a) {
    Expr t = a * a;
    Expr q = horner(t, {-0x1.555552p-2, 0x1.9997ep-3, -0x1.247374p-3, 0x1.c4f1ep-4, -0x1.68e6fcp-4, 0x1.1422cp-4, -0x1.6e199p-5,
                        0x1.714bp-6, -0x1.df96d8p-8, 0x1.23f908p-10});
    return mul_add(t * a, q, a);
}

constexpr double kHalfPi = 0x1.921fb6p+0, kHalfPiLow = -0x1.777a5cp-25;  // pi/2 and what is left of it
constexpr double kPi = 0x1.921fb6p+1, kPiLow = -0x1.777a5cp-24;

Expr atan_f32(Expr x) {
    Expr a = abs(x);
    Expr inverted = gt(a, like(x, 1));
    Expr r = atan_polynomial(select(inverted, div(like(x, 1), a), a));
    r = select(inverted, like(x, kHalfPi) - (r - like(x, kHalfPiLow)), r);
    return copy_sign(r, x);
}

Expr atan2_f32(Expr y, Expr x) {
    Expr ax = abs(x), ay = abs(y);
    Expr steep = gt(ay, ax);
    Expr low = select(steep, ax, ay), high = select(steep, ay, ax);
    Expr ratio = div(low, high);
    ratio = select(eq(low, high), select(eq(high, like(x, 0)), like(x, 0), like(x, 1)), ratio);  // 0/0 and inf/inf
    Expr r = atan_polynomial(ratio);
    r = select(steep, like(x, kHalfPi) - (r - like(x, kHalfPiLow)), r);
    Expr left = lt(bits(x), like_int(bits(x), 0));  // -0 too
    r = select(left, like(x, kPi) - (r - like(x, kPiLow)), r);
    Expr defined = both(eq(x, x), eq(y, y));
    return select(defined, copy_sign(r, y), x + y);
}

// (asin(a) - a) / a^3 as a polynomial in t = a^2, a <= 1/2.
Expr asin_tail(Expr t) {
    return horner(t, {0x1.55554cp-3, 0x1.33387cp-4, 0x1.6caed2p-5, 0x1.0491ap-5, 0x1.d91fbp-7, 0x1.3355bcp-5});
}

Expr asin_f32(Expr x) {
    Expr a = abs(x), one = like(x, 1);
    Expr outer = gt(a, like(x, 0.5));
    // asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)); NaN above 1 from the root.
    Expr t = select(outer, (one - a) * like(x, 0.5), a * a);
    Expr s = select(outer, unary(UnaryFn::Sqrt, t), a);
    Expr r = mul_add(t * s, asin_tail(t), s);
    return copy_sign(select(outer, like(x, kHalfPi) - ((r + r) - like(x, kHalfPiLow)), r), x);
}

Expr acos_f32(Expr x) {
    Expr a = abs(x), one = like(x, 1);
    Expr outer = gt(a, like(x, 0.5)), negative = lt(x, like(x, 0));
    Expr t = select(outer, (one - a) * like(x, 0.5), a * a);
    Expr s = select(outer, unary(UnaryFn::Sqrt, t), x);
    Expr r = mul_add(t * s, asin_tail(t), s);
    Expr twice = r + r;
    Expr outside = select(negative, like(x, kPi) - (twice - like(x, kPiLow)), twice);
    return select(outer, outside, like(x, kHalfPi) - (r - like(x, kHalfPiLow)));
}

// ---- erf, f32 --------------------------------------------------------------------------------------------------------

Expr erf_f32(Expr x) {
    Expr a = at_most(abs(x), 4), t = a * a;
    Expr q = horner(t, {0x1.06eba2p-3, -0x1.81273ep-2, 0x1.ce2cf8p-4, -0x1.b7f90ep-6, 0x1.5405b2p-8, -0x1.a3f7p-11, 0x1.496a32p-14});
    Expr small = mul_add(a, q, a);
    // 1 - e^g with a polynomial for g = log(erfc(a)); only the absolute error of e^g counts.
    Expr g = horner(a, {-0x1.661de4p-12, -0x1.2088eap+0, -0x1.46baecp-1, -0x1.a6533ep-4, 0x1.65cb7p-6, -0x1.825aeap-9, 0x1.86dd6ep-13});
    const ExpParts p = reduce_exp(g);
    Expr e = horner(p.r, {0x1.fffdfcp-2, 0x1.5557bp-3, 0x1.572a64p-5, 0x1.10625p-7});
    e = mul_add(p.r * p.r, e, p.r) + like(x, 1);
    Expr power = as_float(shift_left(p.integer, 23) + like_int(p.integer, 0x3f800000));  // n in [-26, -2]
    Expr large = like(x, 1) - e * power;
    return copy_sign(select(lt(a, like(x, 1)), small, large), x);
}

Expr erf_by_pieces(Expr x) {
    Expr a = at_most(abs(x), 0x1.effffep+1);  // the last float before 3.875, whose piece would be the 16th
    const std::span<const LookupTable> tables = kErf;
    Expr magic = like(x, kMagic / 4);  // leaves quarters
    Expr t = a + magic, r = a - (t - magic);
    Expr slope = piecewise(r, bits(t), tables.subspan(1));
    return copy_sign(mul_add(slope, r, lookup(bits(t), tables[0]) + r), x);
}

// ---- powers and remainders of f32, through f64 -----------------------------------------------------------------------

Expr pow_f32(Expr x, Expr y) {
    Expr a = abs(x), one = like(x, 1), zero = like(x, 0);
    Expr correction, u = normalise(a, &correction);
    const LogParts p = split(u);
    // log2 |x| with a relative error near 2^-43: s = (m - 1) / (m + 1), an odd series in s.
    Expr m = cast(p.m, DType::F64), e = cast(p.e + correction, DType::F64);
    Expr s = div(m - like(m, 1), m + like(m, 1)), t = s * s;
    Expr q = horner(t, {0x1.71547652b8250p+1, 0x1.ec709dc53e4abp-1, 0x1.2776c290e8255p-1, 0x1.a61a30c585520p-2,
                        0x1.4794ffa724f7dp-2, 0x1.21b6044d2955cp-2});
    Expr l = mul_add(s, q, e);
    l = select(cast(eq(a, zero), DType::Bool), like(l, -kInf), l);
    l = select(lt(a, like(x, kInf)), l, cast(a, DType::F64));  // inf and NaN
    Expr z = at_least(at_most(cast(y, DType::F64) * l, 130), -160);
    Expr magic = like(z, 0x1.8p52), n = (z + magic) - magic, r = z - n;
    Expr power = horner(r, {0x1.ffffffffabbccp-1, 0x1.62e42ff11627ap-1, 0x1.ebfbe0a4be886p-3, 0x1.c6b08aaf3156ep-5,
                            0x1.3b29dc40d2ec5p-7, 0x1.5d8a7085cddb8p-10, 0x1.446a1fdd54f3ap-13, 0x1.fe1786b50da52p-17});
    Expr result = cast(scale(power, n), DType::F32);
    // The sign of x where y is an odd integer; NaN for other powers of negative numbers.
    Expr ay = abs(y);
    Expr integral = either(ge(ay, like(y, 0x1p24)), eq(unary(UnaryFn::Trunc, y), y));
    Expr low_bit = both(cast(at_most(ay, 0x1p24), DType::I32), broadcast(literal_int(*x.program, DType::I32, 1), x.type().lanes));
    Expr odd = both(both(integral, lt(ay, like(y, 0x1p24))), ne(low_bit, like_int(low_bit, 0)));
    Expr negative = lt(bits(x), like_int(bits(x), 0));
    result = select(both(negative, odd), -result, result);
    Expr undefined = both(both(lt(x, zero), gt(x, like(x, -kInf))), negate(integral));
    result = select(undefined, like(x, NAN), result);
    Expr unit = either(eq(y, zero), either(eq(x, one), both(eq(x, like(x, -1)), eq(ay, like(y, kInf)))));
    return select(unit, one, result);
}

// Exact while the quotient has few enough bits; the C library computes the rest.
MathPlan fmod_f32(Expr x, Expr y) {
    Expr a = cast(abs(x), DType::F64), b = cast(abs(y), DType::F64);
    Expr q = unary(UnaryFn::Trunc, div(a, b));
    Expr r = cast(a - q * b, DType::F32);
    Expr valid = both(lt(q, like(q, 0x1p27)), lt(b, like(b, kInf)));
    return {copy_sign(r, x), valid, "fmodf"};
}

// Takes the sign of the divisor.
Expr mod_float(Expr x, Expr y) {
    Expr r = binary(BinaryFn::FMod, x, y), zero = like(r, 0);
    Expr differ = ne(lt(r, zero), lt(y, zero));
    Expr signed_zero = select(lt(y, zero), like(r, -0.0), zero);
    return select(eq(r, zero), signed_zero, select(differ, r + y, r));
}

// ---- division of many by one number ----------------------------------------------------------------------------------

// Correctly rounded. The reciprocal r = RN(1/s) and what it is short of 1/s give a quotient that is off by less than an ulp;
// its remainder is a float, and added to it times r rounds to the float nearest to the quotient (Markstein's theorem). That
// holds while nothing overflows and the remainder, 47 bits below the numerator, is no subnormal number that lost bits; zeros
// come out as +0.
MathPlan divide_by_one(Expr x, Expr y) {
    constexpr double kFar = 0x1p25, kNumerator = 0x1p98;
    const Expr s(y.program, y.program->node(y.id).args[0]);
    const int lanes = x.type().lanes;
    Expr reciprocal = div(like(s, 1), s);
    Expr rest = fma(-s, reciprocal, like(s, 1)) * reciprocal;
    Expr r = broadcast(reciprocal, lanes);
    Expr q = fma(x, r, x * broadcast(rest, lanes));
    Expr quotient = fma(fma(-q, y, x), r, q);
    Expr usual = both(ge(abs(s), like(s, 1 / kFar)), le(abs(s), like(s, kFar)));
    Expr a = abs(x);
    Expr inside = both(ge(a, like(x, 1 / kNumerator)), le(a, like(x, kNumerator)));
    Expr zero = eq(bits(x), broadcast(both(bits(s), like_int(bits(s), INT32_MIN)), lanes));  // of the divisor's sign
    return {quotient, both(either(inside, zero), broadcast(usual, lanes)), {}};
}

// ---- rounding without an instruction for it (SSE2) -------------------------------------------------------------------

Expr rounded(UnaryFn f, Expr x) {
    const bool f32 = x.type().dtype == DType::F32;
    const DType integer = f32 ? DType::I32 : DType::I64;
    Expr limit = like(x, f32 ? 0x1p23 : 0x1p52);  // from here on all floats are integers
    Expr a = abs(x), r = (a + limit) - limit, one = like(x, 1), zero = like(x, 0);
    if (f == UnaryFn::Trunc) r = r - select(gt(r, a), one, zero);
    Expr sign = both(bitcast(x, integer), bitcast(like(x, -0.0), integer));
    auto signed_as_x = [&](Expr v) { return bitcast(either(bitcast(abs(v), integer), sign), x.type().dtype); };
    Expr s = signed_as_x(r);
    if (f == UnaryFn::Floor) s = select(gt(s, x), s - one, s);
    if (f == UnaryFn::Ceil) s = signed_as_x(select(lt(s, x), s + one, s));
    return select(lt(a, limit), s, x);
}

}  // namespace

MathPlan plan_math(UnaryFn f, Expr x, const Features& features) {
    const DType t = x.type().dtype;
    if (!is_float(t)) return {};
    if (f >= UnaryFn::Floor && f <= UnaryFn::Trunc) {
#if defined(__x86_64__)
        if (features.level == Level::Baseline) return {rounded(f, x), {}, {}};
#endif
        return {};
    }
    if (f < UnaryFn::Exp || f > UnaryFn::Erf) return {};
    if (t == DType::F64) return {{}, {}, std::string(name(f))};
    const bool pieces = features.level == Level::Avx512;
    switch (f) {
        case UnaryFn::Exp: return {pieces ? exp_by_sixteenths(x) : exp_f32(x), {}, {}};
        case UnaryFn::Exp2: return {exp2_f32(x), {}, {}};
        case UnaryFn::Expm1: return {expm1_f32(x), {}, {}};
        case UnaryFn::Log: return {log_f32(x), {}, {}};
        case UnaryFn::Log2: return {log2_f32(x), {}, {}};
        case UnaryFn::Log1p: return {log1p_f32(x), {}, {}};
        case UnaryFn::Sin:
        case UnaryFn::Cos:
        case UnaryFn::Tan: return circular(f, x, features);
        case UnaryFn::Asin: return {asin_f32(x), {}, {}};
        case UnaryFn::Acos: return {acos_f32(x), {}, {}};
        case UnaryFn::Atan: return {atan_f32(x), {}, {}};
        case UnaryFn::Sinh: return {sinh_f32(x), {}, {}};
        case UnaryFn::Cosh: return {cosh_f32(x), {}, {}};
        case UnaryFn::Tanh: return {pieces ? tanh_by_pieces(x) : tanh_f32(x), {}, {}};
        case UnaryFn::Asinh: return {asinh_f32(x), {}, {}};
        case UnaryFn::Acosh: return {acosh_f32(x), {}, {}};
        case UnaryFn::Atanh: return {atanh_f32(x), {}, {}};
        case UnaryFn::Erf: return {pieces ? erf_by_pieces(x) : erf_f32(x), {}, {}};
        default: return {};
    }
}

MathPlan plan_math(BinaryFn f, Expr x, Expr y, const Features& features) {
    const DType t = x.type().dtype;
    if (!is_float(t)) return {};
    if (f == BinaryFn::Div && t == DType::F32 && features.slow_divide && x.type().lanes == 16 &&
        y.program->node(y.id).op == Op::Broadcast && y.program->node(x.id).op != Op::Broadcast) {
        // By a constant, as GELU divides in the epilogue of a product, it is rare, and its branches made register tiles spill
        // (a third of the time of a whole kernel). Products' epilogues divide as they are for the same reason.
        const bool constant = y.program->node(y.program->node(y.id).args[0]).op == Op::Literal;
        return constant || y.program->plain_addresses ? MathPlan{} : divide_by_one(x, y);
    }
    if (f == BinaryFn::FloorDiv) return {unary(UnaryFn::Floor, div(x, y)), {}, {}};
    if (f == BinaryFn::Mod) return {mod_float(x, y), {}, {}};
    if (f != BinaryFn::Pow && f != BinaryFn::Atan2 && f != BinaryFn::FMod) return {};
    if (t == DType::F64) return {{}, {}, std::string(name(f))};
    if (f == BinaryFn::FMod) return fmod_f32(x, y);
    return {f == BinaryFn::Pow ? pow_f32(x, y) : atan2_f32(x, y), {}, {}};
}

}  // namespace opwright::target::cpu
