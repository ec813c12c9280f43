#include "derive/gradient_fold.h"

#include "derive/linear.h"
#include "math/algebra.h"

namespace opwright::derive {
using namespace math;
namespace {

class Fold {
public:
    Fold(Program& p, TensorId t, const std::vector<ExprId>& at, size_t dim, const Sym& low, const Sym& n)
        : p_(p), x_{p}, i_(p), t_(t), at_(at), dim_(dim), low_(low), n_(n) {
        high_ = low + p.tensors[t].shape[dim] - Sym(1);
    }

    ExprId clamp() {
        // Everything before the first element belongs to it, everything after the last to that.
        const ExprId j = at_[dim_];
        ExprId r = read(place(1, 0));
        const Sym before = math::min(-low_, p_.tensors[t_].shape[dim_]);
        if (before.upper() > 0) {
            const VarId e = p_.add_var("e", math::max(before, 0));
            Linear l;
            l.add(p_.index(e), 1);
            r = x_.add(r, at_end(p_.call(Fn::Eq, {j, p_.integer(0)}), sum(e, read(l))));
        }
        const Sym from = math::max(n_, low_), after = high_ - from + Sym(1);
        if (after.upper() > 0) {
            const VarId e = p_.add_var("e", math::max(after, 0));
            Linear l;
            l.add(p_.index(e), 1);
            l.offset = from - low_;
            r = x_.add(r, at_end(p_.call(Fn::Eq, {j, p_.size(n_ - Sym(1))}), sum(e, read(l))));
        }
        return r;
    }
    ExprId wrap() { return images(1, 0, n_); }
    ExprId mirror() { return x_.add(images(1, 0, 2 * n_), images(-1, -1, 2 * n_)); }
    ExprId reflect() {
        const Sym period = math::max(2 * n_ - Sym(2), 1);
        const ExprId j = at_[dim_];
        const ExprId inner =
            p_.call(Fn::And, {p_.call(Fn::Gt, {j, p_.integer(0)}), p_.call(Fn::Lt, {j, p_.size(n_ - Sym(1))})});
        return x_.add(images(1, 0, period), at_end(inner, images(-1, 0, period)));
    }

private:
    // The place sign*j + offset as an index of t's dim.
    Linear place(int64_t sign, const Sym& offset) const {
        Linear l;
        l.add(at_[dim_], sign);
        l.offset = offset - low_;
        return l;
    }
    ExprId read(const Linear& l) {
        std::vector<ExprId> at = at_;
        at[dim_] = i_.expression(l);
        const DType t = p_.tensors[t_].dtype;
        if (i_.within(l, p_.tensors[t_].shape[dim_])) return p_.load(t_, std::move(at));
        return p_.load(t_, std::move(at), Outside::Value, p_.literal(0, t));
    }
    ExprId sum(VarId over, ExprId body) {
        const DType t = p_.expr(body).dtype, wide = accumulate_type(t);
        return p_.cast(p_.reduce(ReduceOp::Sum, {over}, p_.cast(body, wide), wide), t);
    }
    ExprId at_end(ExprId where, ExprId e) { return p_.select(where, e, x_.like(e, 0)); }
    // Sum over all places sign*j + offset + period*s that t has.
    ExprId images(int64_t sign, const Sym& offset, const Sym& period) {
        // sign*j + offset lies in 0..n-1, or -n+1+offset..offset.
        const Sym least = sign > 0 ? offset : offset - n_ + Sym(1), most = sign > 0 ? offset + n_ - Sym(1) : offset;
        const Sym first = ceil_div(low_ - most, period), last = math::floor_div(high_ - least, period);
        Linear l = place(sign, offset + period * first);
        const Sym count = last - first + Sym(1);
        if (count.upper() <= 0) return p_.literal(0, p_.tensors[t_].dtype);
        if (count.is(1)) return read(l);
        const VarId s = p_.add_var("s", math::max(count, 0));
        l.add(p_.index(s), period);
        return sum(s, read(l));
    }

    Program& p_;
    Algebra x_;
    IndexAlgebra i_;
    TensorId t_;
    const std::vector<ExprId>& at_;
    size_t dim_;
    Sym low_, n_, high_;
};
}  // namespace

ExprId fold_back(Program& p, TensorId t, const std::vector<ExprId>& at, size_t dim, const Sym& low, const Sym& n,
                 Outside mode) {
    Fold f(p, t, at, dim, low, n);
    switch (mode) {
        case Outside::Clamp: return f.clamp();
        case Outside::Wrap: return f.wrap();
        case Outside::Reflect: return f.reflect();
        default: return f.mirror();
    }
}

}  // namespace opwright::derive
