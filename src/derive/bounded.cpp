#include "derive/bounded.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <limits>

namespace opwright::derive {
using math::Fn;
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

// |x - r|, 0 for equal infinities, infinity where NaN comes in.
double distance(double x, double r) {
    if (x == r) return 0;
    const double d = std::fabs(x - r);
    return std::isnan(d) ? kInf : d;
}
bool surely_nan(Bounded x) { return std::isnan(x.v) && x.e == 0; }
double at(Fn f, double a) { return math::apply(f, {&a, 1}); }
double at(Fn f, double a, double b) {
    const double v[2] = {a, b};
    return math::apply(f, v);
}

// Error of f over [a-e, a+e] for a function that is monotone there or a step: attained at an end.
Bounded by_ends(Fn f, Bounded a, double r, const Rounding& c) {
    const bool zero = c.is_zero(a);
    const double lo = at(f, zero ? -0.0 : a.v - a.e), hi = at(f, zero ? 0.0 : a.v + a.e);
    // Surely NaN: at both ends and, for the functions defined around 0 only, not across their whole domain.
    if (std::isnan(r) && std::isnan(lo) && std::isnan(hi) && (std::fabs(a.v) > a.e || std::isnan(at(f, 0))))
        return {r, 0};
    const double e = std::fmax(distance(lo, r), distance(hi, r));
    const bool sign_open = r == 0 && e == 0 && std::signbit(lo) != std::signbit(hi);
    return {r, sign_open ? c.tiny : e};
}
// The same of two arguments: monotone in each, so attained at a corner.
Bounded by_corners(Fn f, Bounded a, Bounded b, double r, const Rounding& c) {
    double e = 0;
    bool all_nan = std::isnan(r), sign_open = false;
    for (int i = 0; i < 4; ++i) {
        const auto end = [](Bounded y, bool up) { return y.e == 0 ? y.v : up ? y.v + y.e : y.v - y.e; };  // keeps -0
        const double x = at(f, end(a, i & 1), end(b, i & 2));
        all_nan = all_nan && std::isnan(x);
        sign_open |= std::signbit(x) != std::signbit(r);
        e = std::fmax(e, distance(x, r));
    }
    return {r, all_nan ? 0 : r == 0 && e == 0 && sign_open ? c.tiny : e};
}

Bounded unary(Fn f, Bounded a, const Rounding& c) {
    const double r = at(f, a.v);
    if (surely_nan(a)) return {r, 0};
    if (std::isinf(a.e)) return {r, kInf};
    const double ulps = math::info(f).ulps;
    if (a.e == 0 && f == Fn::Sqrt && is_exact(f, a.v, 0, r, c)) return {r, 0};
    if (a.e == 0) return c.settle({r, std::isfinite(r) ? c.error(r, ulps) : 0});
    Bounded p{r, 0};
    switch (f) {
        case Fn::Abs: p.e = a.e; break;
        case Fn::Sin: p.e = std::fmin(2, std::fabs(std::cos(a.v)) * a.e + a.e * a.e / 2); break;
        case Fn::Cos: p.e = std::fmin(2, std::fabs(std::sin(a.v)) * a.e + a.e * a.e / 2); break;
        case Fn::Tan: {
            const auto branch = [](double x) { return std::floor(x / kPi + 0.5); };
            if (branch(a.v - a.e) != branch(a.v + a.e))
                p.e = kInf;
            else
                p = by_ends(f, a, r, c);
            break;
        }
        case Fn::Cosh:
            p = by_ends(f, a, r, c);
            if (std::fabs(a.v) <= a.e) p.e = std::fmax(p.e, r - 1);
            break;
        default: p = by_ends(f, a, r, c); break;
    }
    if (std::isfinite(p.v) && !c.is_zero(p)) p.e += c.error(std::fabs(p.v) + p.e, ulps);
    return c.settle(p);
}

Bounded quotient_steps(Fn f, Bounded a, Bounded b, double r, const Rounding& c) {
    // Computed as a - step(a / b) * b or by a library remainder: both are allowed.
    if (!std::isfinite(r) || !std::isfinite(b.v)) {
        if (std::isnan(r) && a.e == 0 && b.e == 0) return {r, 0};
        if (a.e == 0 && b.e == 0 && f != Fn::FloorDiv && std::isfinite(a.v)) return {r, c.error(r)};
        return by_corners(f, a, b, r, c);
    }
    if (std::fabs(b.v) <= b.e) return {r, kInf};
    // The kernel steps a quotient that was rounded first, which may lift it onto the next integer.
    const double q = a.v / b.v, eq = (a.e + std::fabs(q) * b.e) / (std::fabs(b.v) - b.e);
    const auto step = [f](double x) { return f == Fn::Fmod ? std::trunc(x) : std::floor(x); };
    const double n = step(q);
    double en = 0;
    for (double x : {q - eq, q + eq})
        en = std::fmax(en, std::fmax(distance(step(x), n), distance(step(round_to(x, c.type)), n)));
    if (f == Fn::FloorDiv) return {r, en + (std::fabs(n) > 1 / c.unit ? c.error(n) : 0)};
    // A small exact quotient leaves an exact remainder whichever way it is computed, up to one rounding of n * b.
    return {r,
            a.e + std::fabs(n) * b.e + en * std::fabs(b.v) + (n == 0 && en == 0 ? 0 : c.error(n * b.v) + c.error(r))};
}

Bounded binary(Fn f, Bounded a, Bounded b, const Rounding& c) {
    // A product that overflows may still be exact inside a fused multiply-add: sums take it as it is, see below.
    const bool sum = f == Fn::Add || f == Fn::Sub;
    const bool wild = !c.in_range(a) || !c.in_range(b);
    // Nor need it overflow where a power of two scales it down: NVIDIA's compiler makes that part of the product.
    if (f == Fn::Mul && wild)
        for (const auto& [x, by] : {std::pair{a, b}, std::pair{b, a}}) {
            int exponent = 0;
            const bool scales = by.e == 0 && std::fabs(std::frexp(by.v, &exponent)) == 0.5 && exponent <= 0;
            if (!scales || c.in_range(x) || !std::isfinite(x.v) || !std::isfinite(x.e)) continue;
            const Bounded scaled = c.settle({x.v * by.v, x.e * std::fabs(by.v)});
            return std::isinf(scaled.v) && scaled.e == 0 ? scaled : Bounded{x.v * by.v, kInf};
        }
    if (!sum) {
        a = c.settle(a);
        b = c.settle(b);
    }
    const double r = at(f, a.v, b.v);
    const double ulps = math::info(f).ulps;
    if (f == Fn::Pow && a.v == 1 && a.e == 0) return {1, 0};
    if (f == Fn::Pow && b.v == 0 && b.e == 0) return {1, 0};
    if (surely_nan(a) || surely_nan(b)) return {std::numeric_limits<double>::quiet_NaN(), 0};
    if (std::isinf(a.e) || std::isinf(b.e)) return {r, kInf};
    Bounded p{r, 0};
    if (sum) {
        // One that overflows may meet an infinity as an infinity of its own, or fused as a finite number.
        if (c.overflown(a) || c.overflown(b)) {  // an f64 product: how far beyond the range is not known
            const double x = f == Fn::Sub ? -b.v : b.v;
            const bool agree = std::signbit(a.v) == std::signbit(x) || a.v == 0 || x == 0;
            return {r, agree ? 0 : kInf};
        }
        if (std::isinf(a.v) || std::isinf(b.v))
            return c.in_range(std::isinf(a.v) ? b : a) || std::isinf(a.v) == std::isinf(b.v) ? by_corners(f, a, b, r, c)
                                                                                             : Bounded{r, kInf};
        p.e = a.e + b.e;
        if (p.e > 0 || !is_exact(f, a.v, b.v, r, c)) p.e += c.error(std::fabs(r) + p.e);
        if (!wild) return c.settle(p);
        // Unfused, an overflowed operand is an infinity: certain only where the exact sum overflows the same way.
        const Bounded s = c.settle(p), x = c.settle(a), y = c.settle({f == Fn::Sub ? -b.v : b.v, b.e});
        const bool agrees =
            std::isinf(s.v) && s.e == 0 && !(std::isinf(x.v) && x.v != s.v) && !(std::isinf(y.v) && y.v != s.v);
        return agrees ? s : Bounded{r, kInf};
    }
    if (f == Fn::Min || f == Fn::Max) {
        // Where one is surely chosen its bound alone counts.
        const bool first = f == Fn::Max ? a.v - a.e > b.v + b.e : a.v + a.e < b.v - b.e;
        const bool second = f == Fn::Max ? b.v - b.e > a.v + a.e : b.v + b.e < a.v - a.e;
        return {r, first ? a.e : second ? b.e : std::fmax(a.e, b.e)};
    }
    if (f == Fn::FloorDiv || f == Fn::Mod || f == Fn::Fmod) return c.settle(quotient_steps(f, a, b, r, c));
    if (!std::isfinite(r) || !std::isfinite(a.v) || !std::isfinite(b.v)) {
        if (f == Fn::Div && b.e > 0 && std::fabs(b.v) <= b.e) return {r, kInf};
        if (f == Fn::Mul && std::isinf(r) && std::isfinite(a.v) && std::isfinite(b.v))
            return {r, 1};  // f64: see settle
        p = by_corners(f, a, b, r, c);
        return std::isfinite(r) && !c.is_zero(p) ? Bounded{r, p.e + c.error(std::fabs(r) + p.e, ulps)} : p;
    }
    switch (f) {
        case Fn::Mul: {
            p.e = std::fabs(a.v) * b.e + std::fabs(b.v) * a.e + a.e * b.e;
            const bool open = a.e > 0 || b.e > 0, zero = a.v == 0 || b.v == 0;
            if (p.e == 0 && (zero || (!open && is_exact(f, a.v, b.v, r, c))))
                return {r, zero && open ? c.tiny : 0};  // the sign of a zero
            // The bound is f64 itself: of a result as small as that, its products may have vanished.
            if (open && p.e < std::numeric_limits<double>::min()) p.e += c.tiny;
            p.e += std::fmax(c.tiny, c.error(std::fabs(r) + p.e));
            return p;  // not settled: its user may fuse it
        }
        case Fn::Div:
            if (std::fabs(b.v) <= b.e) return {r, kInf};
            p.e = a.e / (std::fabs(b.v) - b.e) + std::fabs(r) * (b.e / (std::fabs(b.v) - b.e));  // nothing vanishes
            if (a.e == 0 && b.e == 0 && r != 0 && is_exact(f, a.v, b.v, r, c)) return p;
            break;
        case Fn::Pow:
            if (a.e > 0 && std::fabs(a.v) <= a.e) p.e = distance(at(f, 0.0, b.v), r);  // the minimum of an even power
            {
                const double e = by_corners(f, a, b, r, c).e;
                p.e = a.e == 0 && b.e == 0 ? 0 : std::fmax(p.e, e);
            }
            break;
        case Fn::Atan2: {
            const double e = std::hypot(a.e, b.e), d = std::hypot(a.v, b.v) - e;
            if (e == 0) break;
            p.e = d <= 0 || (std::fabs(a.v) <= a.e && b.v - b.e < 0) ? 2 * kPi : std::fmin(2 * kPi, e / d);
            break;
        }
        default: std::abort();
    }
    const bool vanished = r == 0 && (a.v != 0 || a.e > 0 || b.e > 0) && (f == Fn::Div || f == Fn::Pow);
    p.e += vanished ? c.tiny + c.error(p.e, ulps) : c.error(std::fabs(r) + p.e, ulps);
    return c.settle(p);
}
}  // namespace

Rounding::Rounding(DType t, double scale) {
    static const std::array<Rounding, kDTypeCount> table = [] {
        std::array<Rounding, kDTypeCount> r;
        for (int i = 0; i < kDTypeCount; ++i) {
            const auto d = static_cast<DType>(i);
            int mantissa = 52, emin = -1022, emax = 1023;
            if (d == DType::F16) {
                mantissa = 10;
                emin = -14;
                emax = 15;
            }
            if (d == DType::BF16) {
                mantissa = 7;
                emin = -126;
                emax = 127;
            }
            if (d == DType::F32) {
                mantissa = 23;
                emin = -126;
                emax = 127;
            }
            r[i].type = d;
            r[i].unit = unit_roundoff(d);
            r[i].tiny = std::fmax(std::ldexp(1.0, emin - mantissa - 1), 0x1p-1074);
            r[i].highest = opwright::highest(d);
            r[i].overflow = d == DType::F64 ? kInf : r[i].highest + std::ldexp(1.0, emax - mantissa - 1);
            r[i].reference = d == DType::F64 ? 0x1p-53 : 0;
        }
        return r;
    }();
    *this = table[static_cast<int>(t)];
    unit *= scale;
    coarser = scale > 1;
}

Bounded Rounding::settle(Bounded x) const {
    if (in_range(x) || std::isnan(x.v)) return std::isnan(x.e) ? Bounded{x.v, kInf} : x;
    if (std::isinf(x.v) && x.e == 0) return x;
    if (std::isfinite(x.e) && std::fabs(x.v) - x.e >= overflow) return {std::copysign(kInf, x.v), 0};
    return {x.v, kInf};
}

bool is_exact_when_small(Fn f, double a, double b, double r) {
    if (r == 0) return a == 0 || (f == Fn::Mul && b == 0);
    int of_a = 0, of_b = 0, of_r = 0;
    const double x = std::frexp(a, &of_a), y = std::frexp(b, &of_b), z = std::frexp(r, &of_r);
    switch (f) {
        case Fn::Mul: return std::fma(x, y, -std::ldexp(z, of_r - of_a - of_b)) == 0;
        case Fn::Div: return std::fma(z, y, -std::ldexp(x, of_a - of_r - of_b)) == 0;
        case Fn::Sqrt: return std::fma(z, z, -std::ldexp(x, of_a - 2 * of_r)) == 0;
        default: return false;
    }
}

Bounded apply_bounded(Fn f, const Bounded* a, const Rounding& c) {
    if (f == Fn::Neg) return {-a[0].v, a[0].e};
    return math::info(f).arity == 1 ? unary(f, c.settle(a[0]), c) : binary(f, a[0], a[1], c);
}

Bounded flushed_product(FlushFactors which, const Bounded* a, Bounded y, const Rounding& c) {
    if (std::isnan(y.v)) return y;
    const double normal = c.tiny / c.unit, flushed = y.v;  // the smallest normal number; what may be missing
    for (const int i : {0, 1}) {
        const bool counts = static_cast<int>(which) >> i & 1;
        const Bounded f = a[i], other = a[1 - i];
        if (!counts || f.v == 0 || std::fabs(f.v) - f.e >= normal) continue;
        if (!std::isinf(other.v))
            y.e += std::fabs(flushed);
        else if (other.e == 0 && std::fabs(f.v) + f.e < normal)
            return {std::numeric_limits<double>::quiet_NaN(), 0};
        else
            y.e = kInf;
    }
    return y;
}

BoundedInt test_bounded(Fn f, const Bounded* args, const Rounding& c) {
    const Bounded a = c.settle(args[0]);
    if (math::info(f).arity == 1)  // IsNan, IsInf
        return {f == Fn::IsNan ? std::isnan(a.v) : std::isinf(a.v), std::isinf(a.e) ? 1.0 : 0.0};
    const Bounded b = c.settle(args[1]);
    const auto r = static_cast<int64_t>(at(f, a.v, b.v));
    if (surely_nan(a) || surely_nan(b)) return {r, 0};
    const double e = (c.is_zero(a) ? 0 : a.e) + (c.is_zero(b) ? 0 : b.e);
    return {r, e > 0 && !(distance(a.v, b.v) > e) ? 1.0 : 0.0};
}

BoundedInt apply_bounded(Fn f, const BoundedInt* a, DType t) {
    const int n = math::info(f).arity;
    int64_t v[3];
    double e = 0;
    for (int i = 0; i < n; ++i) {
        v[i] = a[i].v;
        e += a[i].e;
    }
    const int64_t r = math::apply_int(f, {v, static_cast<size_t>(n)}, t);
    if (e == 0) return {r, 0};
    const double x = int_value(v[0], t), y = n > 1 ? int_value(v[1], t) : 0;
    switch (f) {
        case Fn::Neg:
        case Fn::Abs:
        case Fn::Add:
        case Fn::Sub: break;
        case Fn::Mul: e = std::fabs(x) * a[1].e + std::fabs(y) * a[0].e + a[0].e * a[1].e; break;
        case Fn::Min:
        case Fn::Max: return {r, std::fmax(a[0].e, a[1].e)};
        case Fn::Not:
        case Fn::Xor: return {r, 1};
        case Fn::And: return {r, (!v[0] && a[0].e == 0) || (!v[1] && a[1].e == 0) ? 0.0 : 1.0};
        case Fn::Or: return {r, (v[0] && a[0].e == 0) || (v[1] && a[1].e == 0) ? 0.0 : 1.0};
        case Fn::Sign: return {r, std::fabs(x) > e ? 0.0 : 2.0};
        case Fn::Eq:
        case Fn::Ne:
        case Fn::Lt:
        case Fn::Le:
        case Fn::Gt:
        case Fn::Ge: return {r, std::fabs(x - y) > e ? 0.0 : 1.0};
        default: return {r, kInf};
    }
    // Within reach of a wrap, the value may be anything.
    const double w = int_value(r, t);
    return {r, w + e > opwright::highest(t) || w - e < opwright::lowest(t) ? kInf : e};
}

Bounded select_bounded(BoundedInt c, Bounded a, Bounded b) {
    const Bounded r = c.v ? a : b, other = c.v ? b : a;
    if (c.e == 0) return r;
    if (surely_nan(a) && surely_nan(b)) return r;
    return {r.v, std::fmax(r.e, distance(other.v, r.v) + other.e)};
}
BoundedInt select_bounded(BoundedInt c, BoundedInt a, BoundedInt b) {
    const BoundedInt r = c.v ? a : b, other = c.v ? b : a;
    if (c.e == 0) return r;
    return {r.v, std::fmax(r.e, std::fabs(static_cast<double>(other.v) - static_cast<double>(r.v)) + other.e)};
}

double round_to(double v, DType t) {
    switch (t) {
        case DType::F32: return static_cast<float>(v);
        case DType::F16: return f16_to_f32(f64_to_f16(v));
        case DType::BF16: return bf16_to_f32(f64_to_bf16(v));
        default: return v;
    }
}
double int_value(int64_t v, DType t) {
    return t == DType::U64 ? static_cast<double>(static_cast<uint64_t>(v)) : static_cast<double>(v);
}
int64_t highest_int(DType t) { return math::saturate_to(kInf, t); }
int64_t lowest_int(DType t) { return math::saturate_to(-kInf, t); }

Bounded round_bounded(Bounded x, DType from, DType to, bool elide, double scale) {
    const Rounding target(to, scale);
    if (!elide) x = Rounding(compute_type(from)).settle(x);
    if (!std::isfinite(x.v) || std::isinf(x.e)) return x;
    if (x.e == 0) {
        const double r = round_to(x.v, to);
        if (!elide) return {r, 0};
        if (!std::isfinite(r)) return {x.v, kInf};
        return {x.v, std::fabs(r - x.v)};
    }
    if (unit_roundoff(to) <= unit_roundoff(compute_type(from))) return x;
    const Bounded r{x.v, x.e + target.error(std::fabs(x.v) + x.e)};
    if (elide) return target.in_range(r) ? r : Bounded{x.v, kInf};
    return target.settle(r);
}

BoundedInt float_to_int(Bounded x, DType to) {
    const int64_t r = math::saturate_to(x.v, to);
    if (x.e == 0 || (x.v == 0 && x.e < 0x1p-149)) return {r, 0};
    if (std::isinf(x.e)) return {r, kInf};
    const double lo = int_value(math::saturate_to(x.v - x.e, to), to),
                 hi = int_value(math::saturate_to(x.v + x.e, to), to);
    const double v = int_value(r, to);
    if (to == DType::Bool) return {r, std::fabs(x.v) <= x.e ? 1.0 : 0.0};
    return {r, std::fmax(hi - v, v - lo)};
}
Bounded int_to_float(BoundedInt x, DType from, DType to, double scale) {
    const double v = int_value(x.v, from);
    // Through the compute type where the kernel does so; exact small integers cost nothing.
    const bool exact = x.e == 0 && round_to(v, to) == v && std::fabs(v) <= 0x1p53;
    return Rounding(to).settle({v, x.e + (exact ? 0 : Rounding(to, scale).error(v))});
}
BoundedInt int_to_int(BoundedInt x, DType from, DType to) {
    if (to == DType::Bool) return {x.v != 0, x.e > 0 && std::fabs(int_value(x.v, from)) <= x.e ? 1.0 : 0.0};
    int64_t r = x.v;
    if (from == DType::U64) {
        const auto u = static_cast<uint64_t>(x.v);
        if (to != DType::U64 && u > static_cast<uint64_t>(highest_int(to))) r = highest_int(to);
    } else if (to == DType::U64) {
        r = x.v < 0 ? 0 : x.v;
    } else if (from != DType::Bool) {
        const int64_t lo = lowest_int(to), hi = highest_int(to);
        r = x.v < lo ? lo : x.v > hi ? hi : x.v;
    }
    return {r, x.e};
}
BoundedInt wrap_bounded(BoundedInt x, DType to) {
    const int64_t r = math::wrap_to(x.v, to);
    if (x.e == 0) return {r, 0};
    const double v = int_value(r, to);
    return {r, v + x.e > opwright::highest(to) || v - x.e < opwright::lowest(to) ? kInf : x.e};
}

int64_t bits_of(double v, DType t) {
    switch (t) {
        case DType::F16: return f64_to_f16(v);
        case DType::BF16: return f64_to_bf16(v);
        case DType::F32: return std::bit_cast<int32_t>(static_cast<float>(v));
        default: return std::bit_cast<int64_t>(v);
    }
}
double from_bits(int64_t bits, DType t) {
    switch (t) {
        case DType::F16: return f16_to_f32(static_cast<uint16_t>(bits));
        case DType::BF16: return bf16_to_f32(static_cast<uint16_t>(bits));
        case DType::F32: return std::bit_cast<float>(static_cast<uint32_t>(bits));
        default: return std::bit_cast<double>(bits);
    }
}

}  // namespace opwright::derive
