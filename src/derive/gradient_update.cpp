// Adjoints of updates.
#include <algorithm>

#include "derive/gradient_builder.h"
#include "math/extract.h"
#include "math/facts.h"

namespace opwright::derive {
using namespace math;
namespace {
ExprId read_where_written(Program& p, TensorId t, const Equation& q) {
    if (q.outside != Outside::Value) return p.load(t, q.at);
    return p.load(t, q.at, Outside::Value, p.literal(0, p.tensors[t].dtype));
}
}  // namespace

bool GradientBuilder::overlaps_earlier(size_t i) const {
    IndexAlgebra x(const_cast<Program&>(p_));
    const Equation& q = p_.equations[i];
    for (size_t k = 0; k < i; ++k) {
        const Equation& o = p_.equations[k];
        if (o.lhs != q.lhs) continue;
        bool apart = false;
        for (size_t d = 0; d < q.at.size() && o.update == Update::Overwrite; ++d) {
            const auto a = x.linear(q.at[d]), b = x.linear(o.at[d]);
            const auto ra = a ? x.range(*a) : std::nullopt, rb = b ? x.range(*b) : std::nullopt;
            apart = apart || (ra && rb && ((ra->low - rb->high).lower() > 0 || (rb->low - ra->high).lower() > 0));
        }
        if (!apart) return true;
    }
    return false;
}

TensorId GradientBuilder::value_before(size_t i, size_t end) {
    const TensorId t = p_.equations[i].lhs;
    const bool later = std::any_of(p_.equations.begin() + static_cast<std::ptrdiff_t>(end),
                                   p_.equations.begin() + static_cast<std::ptrdiff_t>(primal_),
                                   [&](const Equation& q) { return q.lhs == t; });
    if (!later) return t;
    const TensorId copy = temporary(p_.tensors[t].name + "_before", p_.tensors[t].dtype, p_.tensors[t].shape);
    for (size_t k = 0; k < end; ++k) {
        const Equation q = p_.equations[k];
        if (q.lhs == t) p_.add_equation(copy, q.at, q.rhs, q.update, q.outside);
    }
    return copy;
}

TensorId GradientBuilder::update(size_t i, TensorId cotangent) {
    const Equation q = p_.equations[i];
    const Scope s{q.vars, q.vars.size(), kNone};
    switch (q.update) {
        case Update::Set: return kNone;
        case Update::Add: propagate(q.rhs, {read_where_written(p_, cotangent, q), kNone}, s); return cotangent;
        case Update::Overwrite: return overwritten(i, cotangent);
        case Update::Mul: return multiplied(i, cotangent);
        case Update::Max:
        case Update::Min: return extreme_of(i, cotangent);
    }
    return kNone;
}

TensorId GradientBuilder::overwritten(size_t i, TensorId cotangent) {
    const Equation q = p_.equations[i];
    const Scope s{q.vars, q.vars.size(), kNone};
    const std::string name = p_.tensors[q.lhs].name;
    Cotangent c{read_where_written(p_, cotangent, q), kNone};
    if (active(q.rhs) && repeats(p_, q.at, q.vars)) {
        // Of several writes to a place the last counts: its number, in row-major order, is kept.
        IndexAlgebra x(p_);
        Linear number;
        Sym stride = 1;
        for (size_t v = q.vars.size(); v-- > 0;) {
            number.add(p_.index(q.vars[v]), stride);
            stride = stride * p_.vars[q.vars[v]].extent;
        }
        const TensorId writer = temporary(name + "_writer", DType::I64, p_.tensors[q.lhs].shape);
        const std::vector<ExprId> all = index(writer);
        const ExprId mine = x.expression(number);
        p_.add_equation(writer, all, p_.integer(-1));
        p_.add_equation(writer, q.at, mine, Update::Overwrite, q.outside);
        c.where = p_.call(Fn::Eq, {read_where_written(p_, writer, q), mine});
    }
    propagate(q.rhs, c, s);
    if (!overlaps_earlier(i)) return cotangent;
    const TensorId left = temporary("d" + name + "_kept", p_.tensors[cotangent].dtype, p_.tensors[q.lhs].shape);
    const std::vector<ExprId> all = index(left);
    p_.add_equation(left, all, p_.load(cotangent, all));
    p_.add_equation(left, q.at, p_.literal(0, p_.tensors[left].dtype), Update::Overwrite, q.outside);
    return left;
}

// As the adjoint of a product: what is not zero, and how many zeros, at each place.
TensorId GradientBuilder::multiplied(size_t i, TensorId cotangent) {
    const Equation q = p_.equations[i];
    const std::string name = p_.tensors[q.lhs].name;
    const DType t = p_.tensors[q.lhs].dtype, wide = cotangent_type(q.lhs);
    const TensorId before = value_before(i, i);
    const TensorId zeros = temporary(name + "_zeros", wide, p_.tensors[q.lhs].shape);
    const TensorId rest = temporary(name + "_rest", wide, p_.tensors[q.lhs].shape);
    const std::vector<ExprId> all = index(zeros);
    const auto zero = [&](ExprId e) { return p_.call(Fn::Eq, {e, p_.literal(0, t)}); };
    const auto nonzero = [&](ExprId e) { return p_.select(zero(e), p_.literal(1, wide), p_.cast(e, wide)); };
    const ExprId old = p_.load(before, all);
    p_.add_equation(zeros, all, p_.cast(zero(old), wide));
    p_.add_equation(zeros, q.at, p_.cast(zero(q.rhs), wide), Update::Add, q.outside);
    p_.add_equation(rest, all, nonzero(old));
    p_.add_equation(rest, q.at, nonzero(q.rhs), Update::Mul, q.outside);
    const auto each = [&](ExprId g, ExprId product, ExprId count, ExprId factor) {
        const ExprId whole = x_.mul(g, product);
        return Cotangent{x_.div(whole, nonzero(factor)), p_.call(Fn::Eq, {count, p_.cast(zero(factor), wide)})};
    };
    propagate(q.rhs,
              each(read_where_written(p_, cotangent, q), read_where_written(p_, rest, q),
                   read_where_written(p_, zeros, q), q.rhs),
              {q.vars, q.vars.size(), kNone});
    const TensorId r = temporary("d" + name + "_before", wide, p_.tensors[q.lhs].shape);
    p_.add_equation(r, all, masked(each(p_.load(cotangent, all), p_.load(rest, all), p_.load(zeros, all), old)));
    return r;
}

// Shared evenly among the values that attain the extreme, the one before included.
TensorId GradientBuilder::extreme_of(size_t i, TensorId cotangent) {
    const Equation q = p_.equations[i];
    const std::string name = p_.tensors[q.lhs].name;
    const DType wide = cotangent_type(q.lhs);
    const TensorId before = value_before(i, i), after = value_before(i, i + 1);
    const TensorId ties = temporary(name + "_ties", wide, p_.tensors[q.lhs].shape);
    const std::vector<ExprId> all = index(ties);
    const ExprId kept = p_.call(Fn::Eq, {p_.load(before, all), p_.load(after, all)});
    const ExprId taken = p_.call(Fn::Eq, {q.rhs, read_where_written(p_, after, q)});
    p_.add_equation(ties, all, p_.cast(kept, wide));
    p_.add_equation(ties, q.at, p_.cast(taken, wide), Update::Add, q.outside);
    const TensorId share = temporary("d" + name + "_each", wide, p_.tensors[q.lhs].shape);
    p_.add_equation(share, all, x_.div(p_.load(cotangent, all), p_.load(ties, all)));
    propagate(q.rhs, {read_where_written(p_, share, q), taken}, {q.vars, q.vars.size(), kNone});
    const TensorId r = temporary("d" + name + "_before", wide, p_.tensors[q.lhs].shape);
    p_.add_equation(r, all, masked({p_.load(share, all), kept}));
    return r;
}

}  // namespace opwright::derive
