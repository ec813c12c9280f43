// Adjoints of reductions and scans.
#include "derive/gradient_builder.h"

namespace opwright::derive {
using namespace math;
namespace {
constexpr int64_t kBits = 31;  // of an i32 without its sign
}

// t[i] = reduce[k where condition](body).
void GradientBuilder::reduction(const Equation& q, TensorId cotangent, ExprId over) {
    const Expr e = p_.expr(q.rhs);
    const ExprId body = e.args[0], condition = e.args.size() > 1 ? e.args[1] : kNone;
    Scope s{q.vars, q.vars.size(), condition};
    s.vars.insert(s.vars.end(), e.vars.begin(), e.vars.end());
    const ExprId g = p_.load(cotangent, q.at), y = p_.load(q.lhs, q.at);
    const DType t = p_.expr(body).dtype, wide = accumulate_type(t);
    const std::string name = p_.tensors[q.lhs].name;
    const auto number = [&](double v) { return p_.literal(v, t); };
    switch (e.reduce) {
        case ReduceOp::Sum: propagate(body, {g, kNone, over}, s); return;
        case ReduceOp::Max:
        case ReduceOp::Min: {
            // Shared evenly among the terms that attain it.
            ExprId attains = p_.call(Fn::Eq, {body, y});
            // Of a window of a few terms, a bit for each says which do: the terms themselves are read once, and what
            // they are made of not at all where the bits are saved.
            Sym terms = 1;
            for (VarId v : e.vars) terms = terms * p_.vars[v].extent;
            if (condition == kNone && terms.is_const() && *terms.constant() > 1 && *terms.constant() <= kBits) {
                ExprId place = p_.integer(0);
                for (VarId v : e.vars) {
                    const ExprId extent = p_.size(p_.vars[v].extent);
                    place = p_.call(Fn::Add, {p_.call(Fn::Mul, {place, extent}), p_.index(v)});
                }
                const ExprId zero = p_.integer(0, DType::I32);
                const ExprId bit = p_.call(Fn::Shl, {p_.integer(1, DType::I32), p_.cast(place, DType::I32)});
                const DType sum = accumulate_type(DType::I32);
                const ExprId some = p_.cast(p_.select(attains, bit, zero), sum);
                const ExprId bits = through_temporary(
                    name + "_attained", q.vars, p_.cast(p_.reduce(ReduceOp::Sum, e.vars, some, sum), DType::I32));
                attains = p_.call(Fn::Ne, {p_.call(Fn::BitAnd, {bits, bit}), zero});
            }
            const ExprId count = through_temporary(
                name + "_ties", q.vars, p_.reduce(ReduceOp::Sum, e.vars, p_.cast(attains, wide), wide, condition));
            const ExprId share =
                through_temporary("d" + name + "_each", q.vars, x_.div(g, p_.cast(count, p_.expr(g).dtype)));
            propagate(body, {share, attains}, s);
            return;
        }
        case ReduceOp::Prod: {
            // The product of the others: of what is not zero without the term itself, where no other term is zero.
            const ExprId zero = p_.call(Fn::Eq, {body, number(0)});
            const ExprId zeros = through_temporary(
                name + "_zeros", q.vars, p_.reduce(ReduceOp::Sum, e.vars, p_.cast(zero, wide), wide, condition));
            const ExprId rest = through_temporary(
                name + "_rest", q.vars,
                p_.reduce(ReduceOp::Prod, e.vars, p_.select(zero, number(1), body), e.dtype, condition));
            const ExprId each = p_.select(zero, x_.mul(g, rest), x_.div(x_.mul(g, rest), body));
            propagate(body, {each, p_.call(Fn::Eq, {zeros, p_.cast(zero, wide)})}, s);
            return;
        }
        case ReduceOp::Any:
        case ReduceOp::All:
        case ReduceOp::ArgMax:
        case ReduceOp::ArgMin:
        case ReduceOp::ArgMaxLast:
        case ReduceOp::ArgMinLast: return;
    }
}

// t[..i..] = scan[i](body).
void GradientBuilder::scan(const Equation& q, TensorId cotangent) {
    const Expr e = p_.expr(q.rhs);
    const ExprId body = e.args[0], g = p_.load(cotangent, q.at);
    const VarId along = e.vars[0];
    const DType t = p_.expr(body).dtype;
    const std::string name = p_.tensors[q.lhs].name;
    const auto number = [&](double v) { return p_.literal(v, t); };
    const Scope s{q.vars, q.vars.size(), kNone};
    const auto running = [&](const std::string& what, ReduceOp op, ExprId term, bool exclusive, bool backward) {
        return through_temporary(what, q.vars, p_.scan(op, along, term, exclusive, backward));
    };
    const auto back = [&](const std::string& what, ExprId term) {
        return running(what, ReduceOp::Sum, term, e.exclusive, !e.backward);
    };
    switch (e.reduce) {
        case ReduceOp::Sum: propagate(body, {back("d" + name + "_terms", g), kNone}, s); return;
        case ReduceOp::Prod: {
            // Running products of what is not zero, and how many zeros there were: each factor gets the products that
            // hold it and no other zero.
            const ExprId zero = p_.call(Fn::Eq, {body, number(0)});
            const ExprId zeros = running(name + "_zeros", ReduceOp::Sum, p_.cast(zero, t), e.exclusive, e.backward);
            const ExprId rest =
                running(name + "_rest", ReduceOp::Prod, p_.select(zero, number(1), body), e.exclusive, e.backward);
            const ExprId product = x_.mul(g, rest);
            const auto with = [&](double n) {
                return p_.select(p_.call(Fn::Eq, {zeros, number(n)}), product, x_.like(product, 0));
            };
            const ExprId none = back("d" + name + "_nonzero", with(0)), one = back("d" + name + "_zero", with(1));
            propagate(body, {p_.select(zero, one, x_.div(none, body)), kNone}, s);
            return;
        }
        case ReduceOp::Max:
        case ReduceOp::Min: {
            // Goes to the place where the value was first reached: that of the last new record.
            const Sym n = p_.vars[along].extent;
            const ExprId i = p_.index(along);
            const ExprId place = e.backward ? p_.call(Fn::Sub, {p_.size(n - Sym(1)), i}) : i;
            const ExprId before = running(name + "_before", e.reduce, body, true, e.backward);
            const ExprId record = p_.call(e.reduce == ReduceOp::Max ? Fn::Gt : Fn::Lt, {body, before});
            const ExprId first = running(name + "_place", ReduceOp::Max, p_.select(record, place, p_.integer(0)),
                                         e.exclusive, e.backward);
            const TensorId terms = temporary("d" + name + "_terms", p_.expr(g).dtype, p_.tensors[q.lhs].shape);
            const std::vector<ExprId> all = index(terms);
            p_.add_equation(terms, all, p_.literal(0, p_.tensors[terms].dtype));
            std::vector<ExprId> at = q.at;
            for (ExprId& a : at)
                if (a == i) a = e.backward ? p_.call(Fn::Sub, {p_.size(n - Sym(1)), first}) : first;
            // An exclusive scan's first element is none of the body's.
            p_.add_equation(terms, at, g, Update::Add, e.exclusive ? Outside::Value : Outside::Error);
            propagate(body, {p_.load(terms, q.at), kNone}, s);
            return;
        }
        default: return;
    }
}

}  // namespace opwright::derive
