// Arithmetic on a value and a bound on the error that a kernel's arithmetic may show there. docs/numerics.md states the
// rules; this is all of them that concern one operation. Reductions are in accumulate.h.
#pragma once
#include <cmath>
#include <cstdint>

#include "base/dtype.h"
#include "math/functions.h"

namespace opwright::derive {

// The kernel holds something within e of v. e = 0: exactly v, the sign of a zero included; e = inf: nothing is known
// (it may hold infinity or NaN too). A NaN with e = 0 is surely NaN, an infinity with e = 0 surely that infinity.
struct Bounded {
    double v = 0, e = 0;
};
// The same of an integer or a bool: e = 0 is the rule; a bool with e > 0 may be either.
struct BoundedInt {
    int64_t v = 0;
    double e = 0;
};

// How one type rounds.
struct Rounding {
    Rounding() = default;
    explicit Rounding(DType t, double scale = 1.0);

    DType type = DType::F64;
    double unit = 0;       // relative error of rounding to nearest, scaled
    double tiny = 0;       // absolute error of rounding in the subnormal range: half the smallest subnormal
    double highest = 0;    // largest finite value
    double overflow = 0;   // smallest magnitude that rounds to infinity
    double reference = 0;  // relative error of the reference itself (nonzero for f64, whose kernel is as exact)
    bool coarser = false;  // the error is scaled up: what is exact in this type may round in the one that is meant

    // Error of a result r known to within `ulps` units in the last place (0.5: correctly rounded).
    double error(double r, double ulps = 0.5) const {
        if (r == 0) return 0;
        const double u = unit * std::fabs(r), m = u > tiny ? u : tiny;
        return 2 * ulps * m + (ulps > 0.5 ? 2 : 1) * reference * std::fabs(r);
    }
    bool in_range(Bounded x) const { return std::fabs(x.v) + x.e <= highest; }
    // A zero that is no other number, but whose sign is unknown, is {0, tiny}: no other value of the type is within
    // tiny.
    bool is_zero(Bounded x) const { return x.v == 0 && x.e <= tiny; }
    // An f64 product beyond the range, which a fused addition may still bring back: {inf, 1}, since no double holds it.
    static bool overflown(Bounded x) { return std::isinf(x.v) && x.e > 0 && std::isfinite(x.e); }
    // What a register of this type holds: an infinity where the value surely overflows, anything where it may.
    Bounded settle(Bounded x) const;
};

// The same as below of an f64 product, quotient or root whose rounding error may be too small for f64: by significands,
// and the exponents apart. 0.5 * (3 * 2^-1074) rounds, though fma(a, b, -r) is 0.
bool is_exact_when_small(math::Fn f, double a, double b, double r);

// Whether a correctly rounded operation on exact operands delivers r without error: r is a number of the type (to f64
// the reference rounds as the kernel does, so that the error itself is looked at). Add, Sub, Mul, Div and Sqrt only.
inline bool is_exact(math::Fn f, double a, double b, double r, const Rounding& c) {
    if (c.coarser) return false;
    if (c.type != DType::F64) return static_cast<double>(static_cast<float>(r)) == r;
    const auto large = [](double x) { return std::fabs(x) >= 0x1p-960; };  // 2^-106 of it is f64
    switch (f) {
        case math::Fn::Sub: b = -b; [[fallthrough]];
        case math::Fn::Add: {
            const double z = r - a;
            return (a - (r - z)) + (b - z) == 0;
        }
        case math::Fn::Mul: return large(r) ? std::fma(a, b, -r) == 0 : is_exact_when_small(f, a, b, r);
        case math::Fn::Div: return large(a) ? std::fma(r, b, -a) == 0 : is_exact_when_small(f, a, b, r);
        case math::Fn::Sqrt: return large(a) ? std::fma(r, r, -a) == 0 : is_exact_when_small(f, a, b, r);
        default: return false;
    }
}

// Which factors of a product count as zero where they are subnormal.
enum class FlushFactors : uint8_t { None = 0, First = 1, Second = 2, Both = 3 };
// The product y of the factors a under such a policy. Beside a finite factor the term may be what it was or zero: no
// matter which, that is a wider bound. Beside an infinite one it is NaN, and not either.
Bounded flushed_product(FlushFactors which, const Bounded* a, Bounded y, const Rounding& c);

// Functions that deliver a float of a type that computes as `c` rounds (not Select, which has its own form).
Bounded apply_bounded(math::Fn f, const Bounded* a, const Rounding& c);
// Predicates and comparisons of floats.
BoundedInt test_bounded(math::Fn f, const Bounded* a, const Rounding& c);
// Functions of integers and bools of type t.
BoundedInt apply_bounded(math::Fn f, const BoundedInt* a, DType t);
Bounded select_bounded(BoundedInt c, Bounded a, Bounded b);
BoundedInt select_bounded(BoundedInt c, BoundedInt a, BoundedInt b);

// Conversions. Between floats, `elide` says that a kernel may skip the rounding (16-bit types within an equation).
Bounded round_bounded(Bounded x, DType from, DType to, bool elide, double scale);
BoundedInt float_to_int(Bounded x, DType to);
Bounded int_to_float(BoundedInt x, DType from, DType to, double scale);
BoundedInt int_to_int(BoundedInt x, DType from, DType to);  // saturates
BoundedInt wrap_bounded(BoundedInt x, DType to);
// Bits of v as the float type t holds it, and back.
int64_t bits_of(double v, DType t);
double from_bits(int64_t bits, DType t);

// v rounded once to the float type t (f64: itself).
double round_to(double v, DType t);
// A 64-bit unsigned integer is held as its bits; everything else as itself.
double int_value(int64_t v, DType t);
// Integers of type t beyond the exact value: largest and smallest.
int64_t highest_int(DType t);
int64_t lowest_int(DType t);

}  // namespace opwright::derive
