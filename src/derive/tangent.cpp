#include "derive/tangent.h"

#include <fmt/format.h>

#include <algorithm>

#include <map>
#include <unordered_map>

#include "derive/differentiate.h"
#include "derive/gradient_normal.h"
#include "derive/invariant.h"
#include "derive/stable.h"
#include "math/algebra.h"
#include "math/derivative.h"

namespace opwright::derive {
using namespace math;
namespace {

class TangentBuilder {
public:
    TangentBuilder(const Program& p, const std::vector<size_t>& wrt) : p_(p) {
        normalise(p_);
        constant_ = invariants(p_);
        for (size_t i : wrt) {
            const TensorInfo t = p_.tensors[p_.inputs[i]];
            tangent_[p_.inputs[i]] = temporary("d" + t.name, t.dtype, t.shape);
            inputs_.push_back(tangent_[p_.inputs[i]]);
        }
    }

    void run() {
        // The tangents that are delivered have the plain names: taken before those of the equations.
        for (TensorId t : p_.outputs)
            if (is_float(p_.tensors[t].dtype))
                outputs_.push_back(temporary("d" + p_.tensors[t].name, p_.tensors[t].dtype, p_.tensors[t].shape));
        const std::vector<Equation> primal = p_.equations;
        for (const Equation& q : primal) {
            memo_.clear();
            if (is_float(p_.tensors[q.lhs].dtype) && !(q.lhs < constant_.size() && constant_[q.lhs])) equation(q);
        }
        auto delivered = outputs_.begin();
        for (TensorId t : p_.outputs) {
            if (!is_float(p_.tensors[t].dtype)) continue;
            const TensorId d = *delivered++;
            const std::vector<ExprId> at = index(d);
            const auto it = tangent_.find(t);
            p_.add_equation(d, at,
                            it == tangent_.end() ? p_.literal(0, p_.tensors[d].dtype)
                                                 : p_.cast(p_.load(it->second, at), p_.tensors[d].dtype));
        }
    }
    const Program& program() const { return p_; }
    const std::vector<TensorId>& inputs() const { return inputs_; }
    const std::vector<TensorId>& outputs() const { return outputs_; }

private:
    TensorId temporary(const std::string& name, DType t, std::vector<Sym> shape) {
        return p_.add_tensor(fresh_name(p_, name), t, std::move(shape), Role::Temp);
    }
    std::vector<ExprId> index(TensorId t) {
        std::vector<ExprId> r;
        for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d)
            r.push_back(p_.index(p_.add_var("i" + std::to_string(d), p_.tensors[t].shape[d])));
        return r;
    }
    ExprId through(const std::string& name, const std::vector<VarId>& vars, ExprId value) {
        std::vector<Sym> shape;
        std::vector<ExprId> at;
        for (VarId v : vars) {
            shape.push_back(p_.vars[v].extent);
            at.push_back(p_.index(v));
        }
        const TensorId t = temporary(name, p_.expr(value).dtype, std::move(shape));
        p_.add_equation(t, at, value);
        return p_.load(t, at);
    }
    // A tangent of q's tensor, in the compute type.
    TensorId fresh(const Equation& q, const std::string& what = "") {
        const TensorInfo t = p_.tensors[q.lhs];
        return temporary("d" + t.name + what, compute_type(t.dtype), t.shape);
    }
    ExprId zero_if_none(ExprId e, DType t) { return e == kNone ? p_.literal(0, t) : p_.cast(e, t); }

    void equation(const Equation& q) {
        const ExprKind kind = p_.expr(q.rhs).kind;
        const bool before = tangent_.count(q.lhs) > 0;
        if (q.update != Update::Set && (before || of(q.rhs) != kNone)) return update(q);
        const ExprId d = kind == ExprKind::Reduce ? reduction(q) : kind == ExprKind::Scan ? scan(q) : of(q.rhs);
        if (d == kNone) return;
        tangent_[q.lhs] = fresh(q);
        p_.add_equation(tangent_[q.lhs], q.at, p_.cast(d, p_.tensors[tangent_[q.lhs]].dtype));
    }

    // The tangent of an expression, in its compute type; kNone where it is 0.
    ExprId of(ExprId id) {
        if (const auto it = memo_.find(id); it != memo_.end()) return it->second;
        const ExprId r = is_float(p_.expr(id).dtype) ? find(id) : kNone;
        memo_.emplace(id, r);
        return r;
    }
    ExprId find(ExprId id) {
        const Expr e = p_.expr(id);
        const DType t = compute_type(e.dtype);
        if (e.kind == ExprKind::Cast) {
            const ExprId a = of(e.args[0]);
            return a == kNone ? kNone : p_.cast(a, t);
        }
        if (e.kind == ExprKind::Load) return load(e, t);
        if (e.kind != ExprKind::Call) return kNone;
        if (e.fn == Fn::Select) {
            const ExprId a = of(e.args[1]), b = of(e.args[2]);
            return a == kNone && b == kNone ? kNone : p_.select(e.args[0], zero_if_none(a, t), zero_if_none(b, t));
        }
        if (const auto l = logistic(p_, id); l && of(l->z) != kNone) {
            const ExprId part = x_.mul(of(l->z), l->share);
            if (e.fn != Fn::Div) return part;
            const ExprId less = x_.neg(x_.mul(id, part)), a = of(e.args[0]);
            return a == kNone ? less : x_.add(x_.div(a, l->u), less);
        }
        ExprId sum = kNone;
        const ExprId positive = norm_is_positive(p_, id);
        for (size_t i = 0; i < e.args.size(); ++i) {
            const ExprId a = of(e.args[i]);
            if (a == kNone) continue;
            const bool other_constant = e.args.size() > 1 && of(e.args[1 - i]) == kNone;
            Scaled d = times_derivative(p_, id, i, a, other_constant);
            if (d.value == kNone) continue;
            if (i == 0) d.where = x_.both(d.where, positive);
            if (d.where != kNone) d.value = p_.select(d.where, d.value, x_.like(d.value, 0));
            sum = sum == kNone ? d.value : x_.add(sum, d.value);
        }
        return sum;
    }
    ExprId load(const Expr& e, DType t) {
        const auto it = tangent_.find(e.ref);
        std::vector<ExprId> at(e.args.begin(),
                               e.args.begin() + static_cast<std::ptrdiff_t>(p_.tensors[e.ref].shape.size()));
        if (e.outside != Outside::Value)
            return it == tangent_.end() ? kNone : p_.cast(p_.load(it->second, at, e.outside), t);
        const ExprId fill = of(e.args.back());
        if (it == tangent_.end())
            return fill == kNone ? kNone : p_.select(p_.inside(e.ref, at), p_.literal(0, t), fill);
        const DType stored = p_.tensors[it->second].dtype;
        return p_.cast(p_.load(it->second, at, Outside::Value, zero_if_none(fill, stored)), t);
    }

    ExprId reduction(const Equation& q) {
        const Expr e = p_.expr(q.rhs);
        const ExprId body = e.args[0], d = of(body), condition = e.args.size() > 1 ? e.args[1] : kNone;
        if (d == kNone || is_arg(e.reduce)) return kNone;
        const DType t = p_.expr(body).dtype, wide = accumulate_type(t);
        const auto sum = [&](const char* what, ExprId term) {
            return through(p_.tensors[q.lhs].name + what, q.vars,
                           p_.reduce(ReduceOp::Sum, e.vars, p_.cast(term, wide), wide, condition));
        };
        const auto where = [&](ExprId c, ExprId v) { return p_.select(c, v, x_.like(v, 0)); };
        if (e.reduce == ReduceOp::Sum) return p_.reduce(ReduceOp::Sum, e.vars, p_.cast(d, e.dtype), e.dtype, condition);
        if (e.reduce == ReduceOp::Max || e.reduce == ReduceOp::Min) {
            const ExprId attains = p_.call(Fn::Eq, {body, p_.load(q.lhs, q.at)});
            return x_.div(sum("_moves", where(attains, d)), sum("_ties", p_.cast(attains, wide)));
        }
        if (e.reduce != ReduceOp::Prod) return kNone;
        const ExprId zero = p_.call(Fn::Eq, {body, x_.like(body, 0)});
        const ExprId rest = p_.select(zero, x_.like(body, 1), body);
        const ExprId zeros = sum("_zeros", p_.cast(zero, wide));
        const ExprId product = through(p_.tensors[q.lhs].name + "_rest", q.vars,
                                       p_.reduce(ReduceOp::Prod, e.vars, rest, e.dtype, condition));
        const ExprId others = p_.call(Fn::Eq, {zeros, p_.cast(zero, wide)});
        return p_.reduce(ReduceOp::Sum, e.vars, p_.cast(where(others, x_.div(x_.mul(d, product), rest)), e.dtype),
                         e.dtype, condition);
    }

    ExprId scan(const Equation& q) {
        const Expr e = p_.expr(q.rhs);
        const ExprId body = e.args[0], d = of(body);
        if (d == kNone) return kNone;
        const VarId along = e.vars[0];
        const std::string name = p_.tensors[q.lhs].name;
        const auto running = [&](const char* what, ReduceOp op, ExprId term, bool exclusive) {
            return through(name + what, q.vars, p_.scan(op, along, term, exclusive, e.backward));
        };
        const auto sum = [&](const char* what, ExprId term) { return running(what, ReduceOp::Sum, term, e.exclusive); };
        if (e.reduce == ReduceOp::Sum) return p_.scan(ReduceOp::Sum, along, d, e.exclusive, e.backward);
        if (e.reduce == ReduceOp::Prod) {
            const ExprId zero = p_.call(Fn::Eq, {body, x_.like(body, 0)}), none = x_.like(d, 0);
            const ExprId zeros = sum("_zeros", p_.cast(zero, p_.expr(body).dtype));
            const ExprId rest = running("_rest", ReduceOp::Prod, p_.select(zero, x_.like(body, 1), body), e.exclusive);
            const ExprId smooth = sum("_moves", p_.select(zero, none, x_.div(d, body))),
                         jump = sum("_moves_zero", p_.select(zero, d, none));
            const auto count = [&](double n) { return p_.call(Fn::Eq, {zeros, x_.like(zeros, n)}); };
            return p_.select(count(0), x_.mul(rest, smooth), p_.select(count(1), x_.mul(rest, jump), none));
        }
        // The tangent at the place where the extreme was first reached.
        const Sym n = p_.vars[along].extent;
        const ExprId i = p_.index(along);
        const auto turned = [&](ExprId v) { return e.backward ? p_.call(Fn::Sub, {p_.size(n - Sym(1)), v}) : v; };
        const ExprId before = running("_before", e.reduce, body, true);
        const ExprId record = p_.call(e.reduce == ReduceOp::Max ? Fn::Gt : Fn::Lt, {body, before});
        const ExprId place = running("_place", ReduceOp::Max, p_.select(record, turned(i), p_.integer(0)), e.exclusive);
        const Expr terms = p_.expr(through("d" + name + "_terms", q.vars, d));
        std::vector<ExprId> at = terms.args;
        for (ExprId& a : at)
            if (a == i) a = turned(place);
        if (!e.exclusive) return p_.load(terms.ref, at);
        return p_.load(terms.ref, at, Outside::Value, x_.like(d, 0));
    }

    ExprId read_where_written(TensorId t, const Equation& q) {
        if (q.outside != Outside::Value) return p_.load(t, q.at);
        return p_.load(t, q.at, Outside::Value, p_.literal(0, p_.tensors[t].dtype));
    }
    void update(const Equation& q) {
        const bool first = !tangent_.count(q.lhs);
        if (first || is_input(tangent_[q.lhs])) {
            const TensorId old = first ? kNone : tangent_[q.lhs];
            tangent_[q.lhs] = fresh(q);
            const std::vector<ExprId> at = index(tangent_[q.lhs]);
            const DType t = p_.tensors[tangent_[q.lhs]].dtype;
            p_.add_equation(tangent_[q.lhs], at, old == kNone ? p_.literal(0, t) : p_.cast(p_.load(old, at), t));
        }
        const TensorId d = tangent_[q.lhs];
        const DType t = p_.tensors[d].dtype;
        const ExprId moved = zero_if_none(of(q.rhs), t);
        if (q.update == Update::Add || q.update == Update::Overwrite)
            return p_.add_equation(d, q.at, moved, q.update, q.outside);
        // *=, max=, min=: the value before the update is that of the equations before it.
        const TensorId before = value_until(q, false);
        const TensorId next = fresh(q), count = fresh(q, "_count");
        const std::vector<ExprId> all = index(next);
        const ExprId old = p_.load(before, all);
        const auto where = [&](ExprId c, ExprId v) { return p_.select(c, v, x_.like(v, 0)); };
        if (q.update == Update::Mul) {
            const TensorId rest = fresh(q, "_rest");
            const auto zero = [&](ExprId e) { return p_.call(Fn::Eq, {e, x_.like(e, 0)}); };
            const auto nonzero = [&](ExprId e) { return p_.select(zero(e), p_.literal(1, t), p_.cast(e, t)); };
            p_.add_equation(count, all, p_.cast(zero(old), t));
            p_.add_equation(count, q.at, p_.cast(zero(q.rhs), t), Update::Add, q.outside);
            p_.add_equation(rest, all, nonzero(old));
            p_.add_equation(rest, q.at, nonzero(q.rhs), Update::Mul, q.outside);
            const auto part = [&](ExprId move, ExprId product, ExprId zeros, ExprId factor) {
                return where(p_.call(Fn::Eq, {zeros, p_.cast(zero(factor), t)}),
                             x_.div(x_.mul(move, product), nonzero(factor)));
            };
            p_.add_equation(next, all, part(p_.load(d, all), p_.load(rest, all), p_.load(count, all), old));
            p_.add_equation(next, q.at, part(moved, read_where_written(rest, q), read_where_written(count, q), q.rhs),
                            Update::Add, q.outside);
        } else {
            const TensorId after = value_until(q, true), sum = fresh(q, "_moves");
            const ExprId kept = p_.call(Fn::Eq, {old, p_.load(after, all)}),
                         taken = p_.call(Fn::Eq, {q.rhs, read_where_written(after, q)});
            p_.add_equation(count, all, p_.cast(kept, t));
            p_.add_equation(count, q.at, p_.cast(taken, t), Update::Add, q.outside);
            p_.add_equation(sum, all, where(kept, p_.load(d, all)));
            p_.add_equation(sum, q.at, where(taken, moved), Update::Add, q.outside);
            p_.add_equation(next, all, x_.div(p_.load(sum, all), p_.load(count, all)));
        }
        tangent_[q.lhs] = next;
    }
    bool is_input(TensorId t) const { return std::find(inputs_.begin(), inputs_.end(), t) != inputs_.end(); }
    // The tensor that q updates as it is before q, or after.
    TensorId value_until(const Equation& q, bool included) {
        const TensorInfo info = p_.tensors[q.lhs];
        const TensorId copy = temporary(info.name + "_before", info.dtype, info.shape);
        const std::vector<Equation> all = p_.equations;
        for (const Equation& o : all) {
            if (o.lhs != q.lhs) continue;
            const bool same = o.rhs == q.rhs && o.at == q.at && o.update == q.update;
            if (same && !included) break;
            p_.add_equation(copy, o.at, o.rhs, o.update, o.outside);
            if (same) break;
        }
        return copy;
    }

    Program p_;
    Algebra x_{p_};
    std::vector<bool> constant_;
    std::map<TensorId, TensorId> tangent_;
    std::vector<TensorId> inputs_, outputs_;
    std::unordered_map<ExprId, ExprId> memo_;
};
}  // namespace

Result<Tangent> tangent(const Program& p, std::vector<size_t> wrt) {
    OPW_TRY(wrt, differentiated(p, std::move(wrt)));
    TangentBuilder builder(p, wrt);
    builder.run();
    Derived d =
        finish(builder.program(), p.name + "_tangent", fmt::format("Derivative of {} along a direction.", p.name),
               p.inputs, {}, builder.inputs(), builder.outputs());
    Tangent r{std::move(d.program), std::move(d.inputs), {}, {}};
    for (size_t i : d.others) r.tangents.push_back(wrt[i]);
    for (size_t i = 0; i < p.outputs.size(); ++i)
        if (is_float(p.tensors[p.outputs[i]].dtype)) r.outputs.push_back(i);
    return r;
}

}  // namespace opwright::derive
