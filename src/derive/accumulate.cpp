#include "derive/accumulate.h"

#include <algorithm>
#include <limits>

namespace opwright::derive {
using math::ReduceOp;
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
bool maximises(ReduceOp op) { return op == ReduceOp::Max || op == ReduceOp::ArgMax || op == ReduceOp::ArgMaxLast; }
bool sign_open(Bounded x) { return x.e > 0 && std::fabs(x.v) <= x.e; }
bool takes_last(ReduceOp op) { return op == ReduceOp::ArgMaxLast || op == ReduceOp::ArgMinLast; }
}  // namespace

double allowed_steps(double n) { return std::fmax(0, std::fmin(n - 1, 64 * std::sqrt(n))); }

void SumAccumulator::add_wild(Bounded x) {
    if (std::isnan(x.v)) {
        if (x.e == 0)
            nan_ = true;
        else
            err_ = kInf;
    } else if (std::isinf(x.v)) {
        if (Rounding::overflown(x)) soft_ = true;
        if (x.e == 0 || Rounding::overflown(x))
            (x.v > 0 ? plus_ : minus_) = true;
        else
            err_ = kInf;
    } else {
        add(x);
    }
}
void SumAccumulator::merge(const SumAccumulator& o) {
    const double abs = abs_ + o.abs_, fall = fall_ + o.fall_, rise = rise_ + o.rise_;
    const double large = large_ + o.large_, large_abs = large_abs_ + o.large_abs_;
    add({o.s_, o.err_});
    large_ = large;
    large_abs_ = large_abs;
    c_ += o.c_;
    abs_ = abs;
    fall_ = fall;
    rise_ = rise;
    whole_ &= o.whole_;
    nan_ |= o.nan_;
    plus_ |= o.plus_;
    minus_ |= o.minus_;
    soft_ |= o.soft_;
}
Bounded SumAccumulator::result(double n, const Rounding& c) const {
    if (nan_) return {kNan, 0};
    const double sum = std::isfinite(s_ + c_) ? s_ + c_ : s_;
    if (std::isinf(err_)) return {plus_ ? kInf : minus_ ? -kInf : sum, kInf};
    // Integers whose partial sums all fit the significand add up without error.
    const bool exact = whole_ && err_ == 0 && abs_ <= 1 / c.unit && !plus_ && !minus_;
    double e = exact ? 0 : err_ + allowed_steps(n) * c.unit * abs_ + 2 * c.reference * abs_;
    // Every partial sum lies between fall and rise but for its rounding, and what rounds without overflow is no larger
    // than the largest finite number: huge terms of one sign say nothing about the other end.
    const double rounding = exact ? 0 : (allowed_steps(n) * c.unit + 2 * c.reference) * std::fmin(abs_, c.highest);
    const bool up = rise_ > 0 && !(rise_ + rounding <= c.highest),
               down = fall_ < 0 && !(-fall_ + rounding <= c.highest);
    // A product beyond the range of f64 comes back if fused with a term of the other sign.
    if (plus_ && minus_) return {kNan, soft_ ? kInf : 0};
    if (plus_) return {kInf, down || (soft_ && fall_ < 0) ? kInf : 0};
    if (minus_) return {-kInf, up || (soft_ && rise_ > 0) ? kInf : 0};
    if (n > 0 && sum == 0)
        e += c.tiny;  // the sign of a zero sum depends on the order, and on starting from 0 or a term
    if (!up && !down) return {sum, e};
    if (!std::isfinite(sum)) {
        // The reference's own sum overflowed. Every order does only where the sum is beyond the range for sure.
        const double slack = (allowed_steps(n) * c.unit + 4 * c.reference) * large_abs_ + (n * kLarge + err_) * kShrink;
        if ((up && down) || !(std::fabs(large_) - slack > c.highest * kShrink)) return {sum, kInf};
        return {std::copysign(kInf, large_), 0};
    }
    // Some orders overflow on the way; all do, to one infinity, where the sum itself is beyond the range.
    if ((up && down) || std::fabs(sum) - e < c.overflow) return {sum, kInf};
    return {std::copysign(kInf, sum), 0};
}

FloatAccumulator::FloatAccumulator(ReduceOp op, const Rounding& c) : op_(op), c_(&c) {
    best_.v = op == ReduceOp::Prod ? 1 : maximises(op) ? -kInf : kInf;
    rival_ = maximises(op) ? -kInf : kInf;
}
void FloatAccumulator::add(Bounded x, int64_t position) {
    if (op_ == ReduceOp::Prod) {
        // The exponent range is judged at the end, from up_ and down_.
        if (std::isfinite(x.v) && std::isfinite(best_.v) && std::isfinite(x.e)) {
            const double r = best_.v * x.v;
            double e = std::fabs(best_.v) * x.e + std::fabs(x.v) * best_.e + best_.e * x.e;
            if (!empty_) e += c_->error(std::fabs(r) + e);
            // A zero stays one, but has an unknown sign as soon as one factor's is unknown. What may be anything so far
            // may be an infinity too, which a zero makes NaN.
            if (std::isinf(best_.e))
                e = kInf;
            else if (c_->is_zero(best_) || c_->is_zero(x))
                e = sign_open(best_) || sign_open(x) ? c_->tiny : 0;
            best_ = {r, e};
        } else {
            const Bounded f[2] = {best_, x};
            best_ = apply_bounded(math::Fn::Mul, f, *c_);
        }
        const double m = std::fabs(x.v);
        if (m > 1) up_ *= m;
        if (m < 1 && m > 0) down_ *= m;
        ++count_;
        empty_ = false;
        return;
    }
    x = c_->settle(x);
    if (std::isnan(x.v) && x.e == 0) {  // NaN wins every comparison; the first or last of several is the index
        if (!nan_ || (takes_last(op_) ? position > position_ : position < position_)) position_ = position;
        nan_ = true;
        empty_ = false;
        return;
    }
    widest_ = std::fmax(widest_, x.e);
    if (nan_) return;
    if (std::isnan(x.v)) return;  // perhaps NaN: widest_ is infinite
    const bool up = maximises(op_);
    bool wins = empty_ || (up ? x.v > best_.v : x.v < best_.v);
    if (!wins && x.v == best_.v) {
        if (is_arg(op_))
            wins = takes_last(op_) ? position > position_ : position < position_;
        else
            wins = std::signbit(x.v) != std::signbit(best_.v) && std::signbit(best_.v) == up;
    }
    const Bounded loser = wins ? best_ : x;
    if (!empty_) rival_ = up ? std::fmax(rival_, loser.v + loser.e) : std::fmin(rival_, loser.v - loser.e);
    if (wins) {
        best_ = x;
        position_ = position;
    }
    empty_ = false;
}
void FloatAccumulator::merge(const FloatAccumulator& o) {
    doubt_ |= o.doubt_;
    widest_ = std::fmax(widest_, o.widest_);
    if (o.empty_) return;
    if (op_ == ReduceOp::Prod) {
        const double up = up_ * o.up_, down = down_ * o.down_;
        const int64_t count = count_ + o.count_;
        if (empty_)
            best_ = o.best_;
        else
            add(o.best_, 0);
        up_ = up;
        down_ = down;
        count_ = count;
        empty_ = false;
        return;
    }
    if (o.nan_) return add({kNan, 0}, o.position_);
    if (nan_) return;
    rival_ = maximises(op_) ? std::fmax(rival_, o.rival_) : std::fmin(rival_, o.rival_);
    add(o.best_, o.position_);
}
Bounded FloatAccumulator::result() const {
    if (nan_) return {kNan, 0};
    if (op_ == ReduceOp::Prod) {
        if (doubt_) return {best_.v, kInf};
        if (std::isnan(best_.v) || std::isinf(best_.e)) return best_;
        const bool over = !(up_ <= c_->highest), under = !(down_ >= c_->tiny / c_->unit);
        if (std::isinf(best_.v)) return {best_.v, under ? kInf : 0};
        // Some order of the factors meets an infinity on the way; all do where the product itself is beyond the range.
        if (over && (under || std::fabs(best_.v) - best_.e < c_->overflow)) return {best_.v, kInf};
        // A partial product in the subnormal range loses up to tiny, which factors above 1 then enlarge.
        return c_->settle({best_.v, best_.e + (under ? static_cast<double>(count_) * c_->tiny * up_ : 0)});
    }
    return {best_.v, doubt_ ? kInf : widest_};
}
BoundedInt FloatAccumulator::index() const {
    if (doubt_) return {position_, kInf};
    if (nan_) return {position_, std::isinf(widest_) ? kInf : 0};
    if (std::isinf(widest_)) return {position_, kInf};
    if (widest_ == 0) return {position_, 0};
    const bool close = maximises(op_) ? rival_ >= best_.v - best_.e : rival_ <= best_.v + best_.e;
    return {position_, close ? kInf : 0.0};
}

IntAccumulator::IntAccumulator(ReduceOp op, DType t) : op_(op), t_(t) {
    switch (op) {
        case ReduceOp::Prod:
        case ReduceOp::All: value_ = 1; break;
        case ReduceOp::Max:
        case ReduceOp::ArgMax:
        case ReduceOp::ArgMaxLast: value_ = lowest_int(t); break;
        case ReduceOp::Min:
        case ReduceOp::ArgMin:
        case ReduceOp::ArgMinLast: value_ = highest_int(t); break;
        case ReduceOp::Sum:
        case ReduceOp::Any: value_ = 0; break;
    }
}
bool IntAccumulator::better(int64_t a, int64_t b) const {
    if (!maximises(op_)) std::swap(a, b);
    return t_ == DType::U64 ? static_cast<uint64_t>(a) > static_cast<uint64_t>(b) : a > b;
}
void IntAccumulator::add(BoundedInt x, int64_t position) {
    widest_ = std::fmax(widest_, x.e);
    switch (op_) {
        case ReduceOp::Sum:
            value_ = static_cast<int64_t>(static_cast<uint64_t>(value_) + static_cast<uint64_t>(x.v));
            error_ += x.e;
            break;
        case ReduceOp::Prod:
            value_ = static_cast<int64_t>(static_cast<uint64_t>(value_) * static_cast<uint64_t>(x.v));
            if (x.e > 0) error_ = kInf;
            break;
        case ReduceOp::Any:
        case ReduceOp::All: {
            const bool decides = (x.v != 0) == (op_ == ReduceOp::Any);
            if (decides) {
                value_ = x.v != 0;
                certain_ |= x.e == 0;
            }
            break;
        }
        case ReduceOp::Max:
        case ReduceOp::Min:
            if (better(x.v, value_)) value_ = x.v;
            break;
        case ReduceOp::ArgMax:
        case ReduceOp::ArgMin:
        case ReduceOp::ArgMaxLast:
        case ReduceOp::ArgMinLast:
            if (empty_ || better(x.v, value_) ||
                (x.v == value_ && (takes_last(op_) ? position > position_ : position < position_))) {
                value_ = x.v;
                position_ = position;
            }
            break;
    }
    empty_ = false;
}
void IntAccumulator::merge(const IntAccumulator& o) {
    const double widest = std::fmax(widest_, o.widest_), error = error_ + o.error_;
    const bool certain = certain_ || o.certain_;
    if (!o.empty_) add({o.value_, 0}, o.position_);
    widest_ = widest;
    error_ = error;
    certain_ = certain;
}
BoundedInt IntAccumulator::result() const {
    switch (op_) {
        case ReduceOp::Sum:
        case ReduceOp::Prod: return wrap_bounded({value_, error_}, t_);
        case ReduceOp::Any:
        case ReduceOp::All: return {value_, std::isinf(error_) || (widest_ > 0 && !certain_) ? 1.0 : 0.0};
        case ReduceOp::Max:
        case ReduceOp::Min: return {value_, std::fmax(error_, widest_)};
        case ReduceOp::ArgMax:
        case ReduceOp::ArgMin:
        case ReduceOp::ArgMaxLast:
        case ReduceOp::ArgMinLast: return {position_, widest_ > 0 || error_ > 0 ? kInf : 0.0};
    }
    return {value_, 0};
}

}  // namespace opwright::derive
