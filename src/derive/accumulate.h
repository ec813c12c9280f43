// Accumulators of reductions and scans over bounded values. A reduction may be split among several and merged: the
// value is compensated, so the order does not show, and the bound holds for every order a kernel may choose.
#pragma once
#include <cstdint>

#include "derive/bounded.h"

namespace opwright::derive {

// Rounding steps allowed to a sum of n terms: n - 1, so any order whatever, up to 4096 terms; beyond, 64*sqrt(n), which
// still allows any order that keeps its longest chain of additions within that (docs/numerics.md).
double allowed_steps(double n);

// A sum of floats. `add` is the inner loop of the reference, hence inline.
class SumAccumulator {
public:
    void add(Bounded x) {
        const double t = s_ + x.v, z = t - s_;
        c_ += (s_ - (t - z)) + (x.v - z);  // Knuth's TwoSum: exact error of the addition
        s_ = t;
        abs_ += std::fabs(x.v);
        err_ += x.e;
        const double low = x.v - x.e, high = x.v + x.e;
        fall_ += low < 0 ? low : 0;
        rise_ += high > 0 ? high : 0;
        whole_ &= (x.v + 0x1.8p52) - 0x1.8p52 == x.v;
        if (std::fabs(x.v) >= kLarge) [[unlikely]] {
            large_ += x.v * kShrink;
            large_abs_ += std::fabs(x.v) * kShrink;
        }
    }
    // A term that may or may not count, at most so large: where it does, it is rounded like the others.
    void add_doubtful(double reach) {
        add({0, reach});
        abs_ += reach;
    }
    // A term that may be infinite, NaN or without a bound.
    void add_wild(Bounded x);
    void merge(const SumAccumulator& o);
    Bounded result(double n, const Rounding& c) const;
    double terms() const { return abs_; }

private:
    // Of f64 sums near the end of the range, where s_ itself may overflow on the way: the large terms, made smaller.
    static constexpr double kLarge = 0x1p1000, kShrink = 0x1p-64;
    double large_ = 0, large_abs_ = 0;
    double s_ = 0, c_ = 0, abs_ = 0, err_ = 0;
    double fall_ = 0, rise_ = 0;  // the terms below and above zero at their furthest: no exact partial sum leaves these
    bool whole_ = true;           // every term is an integer
    bool nan_ = false, plus_ = false, minus_ = false, soft_ = false;
};

// Every other reduction of floats. doubt(): a term may or may not count (its condition is uncertain).
class FloatAccumulator {
public:
    FloatAccumulator(math::ReduceOp op, const Rounding& c);
    void add(Bounded x, int64_t position);
    void doubt() { doubt_ = true; }
    void merge(const FloatAccumulator& o);
    Bounded result() const;    // of Prod, Max, Min
    BoundedInt index() const;  // of the arg forms

private:
    math::ReduceOp op_;
    const Rounding* c_;
    Bounded best_;
    int64_t position_ = 0;
    double rival_;              // furthest reach of a term that is not the best
    double widest_ = 0;         // largest bound of any term
    double up_ = 1, down_ = 1;  // product of the factors above and below 1: any partial product lies between
    int64_t count_ = 0;
    bool empty_ = true, nan_ = false, doubt_ = false;
};

// Reductions of integers and bools: exact, wrapping in type t.
class IntAccumulator {
public:
    IntAccumulator(math::ReduceOp op, DType t);
    void add(BoundedInt x, int64_t position);
    void doubt() { error_ = __builtin_inf(); }
    void merge(const IntAccumulator& o);
    BoundedInt result() const;

private:
    bool better(int64_t a, int64_t b) const;
    math::ReduceOp op_;
    DType t_;
    int64_t value_, position_ = 0;
    double error_ = 0, widest_ = 0;
    bool empty_ = true, certain_ = false;
};

}  // namespace opwright::derive
