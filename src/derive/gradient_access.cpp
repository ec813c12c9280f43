// What accesses contribute: gathered where the access can be turned round, scattered where it depends on data.
#include <algorithm>
#include <cmath>
#include <functional>

#include "derive/gradient_builder.h"
#include "derive/gradient_fold.h"
#include "derive/gradient_normal.h"
#include "math/extract.h"

namespace opwright::derive {
using namespace math;
namespace {

// Phases of a stride that become sums of their own, in all dims together: as many kernels are compiled.
constexpr int64_t kPhasesApart = 9;

bool has(const std::vector<VarId>& vs, VarId v) { return std::find(vs.begin(), vs.end(), v) != vs.end(); }

// Whether e is finite for finite tensors, whatever index it is read at.
bool tame(const Program& p, ExprId id) {
    const Expr& e = p.expr(id);
    switch (e.kind) {
        case ExprKind::Literal: return !is_float(e.dtype) || std::isfinite(e.number);
        case ExprKind::Load:
        case ExprKind::Cast:
        case ExprKind::Index:
        case ExprKind::Size:
        case ExprKind::Inside: break;
        case ExprKind::Call:
            if (e.fn != Fn::Add && e.fn != Fn::Sub && e.fn != Fn::Mul && e.fn != Fn::Neg && e.fn != Fn::Select &&
                e.fn != Fn::Abs && e.fn != Fn::Sign)
                return !is_float(e.dtype);
            break;
        default: return false;
    }
    if (e.kind == ExprKind::Load && e.outside != Outside::Value) return true;
    return std::all_of(e.args.begin(), e.args.end(), [&](ExprId a) { return tame(p, a); });
}

// Whether e is 0 wherever the variable v, of extent `extent`, leaves its range.
bool vanishes(const Program& p, ExprId id, VarId v, const Sym& extent) {
    const Expr& e = p.expr(id);
    const auto zero = [&](ExprId a) {
        const Expr& x = p.expr(a);
        return x.kind == ExprKind::Literal && is_float(x.dtype) && x.number == 0;
    };
    if (zero(id)) return true;
    if (e.kind == ExprKind::Cast) return vanishes(p, e.args[0], v, extent);
    if (e.kind == ExprKind::Load) {
        if (e.outside != Outside::Error && !(e.outside == Outside::Value && zero(e.args.back()))) return false;
        const auto& shape = p.tensors[e.ref].shape;
        for (size_t d = 0; d < shape.size(); ++d)
            if (p.expr(e.args[d]).kind == ExprKind::Index && p.expr(e.args[d]).ref == v &&
                (extent - shape[d]).lower() >= 0)
                return true;
        return false;
    }
    if (e.kind != ExprKind::Call) return false;
    switch (e.fn) {
        case Fn::Neg: return vanishes(p, e.args[0], v, extent);
        case Fn::Mul:
            return (vanishes(p, e.args[0], v, extent) && tame(p, e.args[1])) ||
                   (vanishes(p, e.args[1], v, extent) && tame(p, e.args[0]));
        case Fn::Add:
        case Fn::Sub: return vanishes(p, e.args[0], v, extent) && vanishes(p, e.args[1], v, extent);
        case Fn::Select: return vanishes(p, e.args[1], v, extent) && vanishes(p, e.args[2], v, extent);
        case Fn::Div: return vanishes(p, e.args[0], v, extent) && p.expr(e.args[1]).kind == ExprKind::Literal;
        default: return false;
    }
}

// body = outer * inner, where outer depends on none of `over`.
struct Factored {
    ExprId outer = kNone, inner = kNone;
};
Factored factor(Algebra& x, ExprId body, const std::vector<VarId>& over) {
    const auto free = x.p.free_vars(body);
    if (std::none_of(free.begin(), free.end(), [&](VarId v) { return has(over, v); })) return {body, kNone};
    const Expr e = x.p.expr(body);
    if (e.kind == ExprKind::Call && e.fn == Fn::Mul) {
        const Factored a = factor(x, e.args[0], over), b = factor(x, e.args[1], over);
        const auto times = [&](ExprId l, ExprId r) { return l == kNone ? r : r == kNone ? l : x.mul(l, r); };
        return {times(a.outer, b.outer), times(a.inner, b.inner)};
    }
    if (e.kind == ExprKind::Call && e.fn == Fn::Div) {
        const Factored b = factor(x, e.args[1], over);
        if (b.inner == kNone) {
            const Factored a = factor(x, e.args[0], over);
            return {x.div(a.outer == kNone ? x.like(body, 1) : a.outer, e.args[1]), a.inner};
        }
    }
    if (e.kind == ExprKind::Call && e.fn == Fn::Neg) {
        const Factored a = factor(x, e.args[0], over);
        return {a.outer == kNone ? x.like(body, -1) : x.neg(a.outer), a.inner};
    }
    return {kNone, body};
}

// An index brought into 0 .. n-1 as `mode` says.
ExprId folded_index(Program& p, ExprId i, Outside mode, const Sym& n) {
    const auto call = [&](Fn f, ExprId a, ExprId b) { return p.call(f, {a, b}); };
    const ExprId zero = p.integer(0);
    switch (mode) {
        case Outside::Clamp: return call(Fn::Max, call(Fn::Min, i, p.size(n - Sym(1))), zero);
        case Outside::Wrap: return call(Fn::Mod, i, p.size(n));
        case Outside::Reflect: {
            const Sym period = math::max(2 * n - Sym(2), 1);
            const ExprId r = call(Fn::Mod, i, p.size(period));
            return call(Fn::Min, r, call(Fn::Sub, p.size(period), r));
        }
        case Outside::Mirror: {
            const ExprId r = call(Fn::Mod, i, p.size(2 * n));
            return call(Fn::Min, r, call(Fn::Sub, p.size(2 * n - Sym(1)), r));
        }
        default: return i;
    }
}
}  // namespace

const std::vector<ExprId>& GradientBuilder::index(TensorId t) {
    const auto it = index_.find(t);
    if (it != index_.end()) return it->second;
    const std::vector<Sym> shape = p_.tensors[t].shape;
    std::vector<ExprId> r;
    for (size_t d = 0; d < shape.size(); ++d) {
        const bool named = shape[d].kind() == SymKind::Symbol;
        r.push_back(p_.index(p_.add_var(named ? shape[d].symbol_name() : "i" + std::to_string(d), shape[d])));
    }
    return index_[t] = std::move(r);
}

TensorId GradientBuilder::temporary(const std::string& name, DType t, std::vector<Sym> shape) {
    const TensorId id = p_.add_tensor(fresh_name(p_, name), t, std::move(shape), Role::Temp);
    active_.push_back(false);
    constant_.push_back(false);
    pending_.emplace_back();
    return id;
}
ExprId GradientBuilder::through_temporary(const std::string& name, const std::vector<VarId>& vars, ExprId value) {
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

void GradientBuilder::contribute(Contribution c) {
    if (constant_[c.tensor]) return;
    c.cotangent.value = p_.cast(with_results(c.cotangent.value), cotangent_type(c.tensor));
    const bool folds = c.outside != Outside::Error && c.outside != Outside::Value;
    if (folds) {
        if (!extended(c)) scatter(c);
        return;
    }
    auto s = solve(p_, c.at, index(c.tensor), c.scope.vars, c.scope.outer);
    std::optional<Term> term;
    if (s && !s->strided.empty() && !s->free.empty())
        if (const auto phases = by_phases(c, *s)) term = Term{*phases};
    if (!term && s) term = gathered(c, index(c.tensor), std::move(*s), false);
    if (term)
        pending_[c.tensor].terms.push_back(*term);
    else
        scatter(c);
}

// The contribution to the element `target`. `spare`: elements outside the tensor are asked for too, and not used.
std::optional<GradientBuilder::Term> GradientBuilder::gathered(Contribution c, const std::vector<ExprId>& target,
                                                               Solution s, bool spare) {
    // A divisor follows only where it is read at places that it has, for every term of the sum.
    const bool plain = !spare && s.loose.empty() && s.ranged.empty() && c.cotangent.where == kNone;
    if (!plain) c.cotangent = divided(c.cotangent);
    Rewriter rewrite = in_place(p_);
    for (const auto& [v, e] : s.value) {
        rewrite.bound.erase(v);
        rewrite.vars[v] = e;
    }
    const auto loose = [&](ExprId a) {
        const auto free = p_.free_vars(a);
        return std::any_of(free.begin(), free.end(), [&](VarId v) { return has(s.loose, v); });
    };
    rewrite.replace = [&](Rewriter& self, ExprId id) -> ExprId {
        for (size_t d = 0; d < c.at.size(); ++d)
            if (c.at[d] == id && p_.expr(id).kind == ExprKind::Call) return target[d];
        const Expr e = p_.expr(id);
        if (e.kind != ExprKind::Load || e.outside != Outside::Error) return kNone;
        const bool leaves = spare || std::any_of(e.args.begin(), e.args.end(), loose);
        if (!leaves) return kNone;
        std::vector<ExprId> at;
        for (ExprId a : e.args) at.push_back(self(a));
        bool inside = true;  // where it is sure to be inside, nothing needs to be said
        IndexAlgebra x(p_);
        for (size_t d = 0; d < at.size(); ++d) {
            const auto l = x.linear(at[d]);
            inside = inside && l && x.within(*l, p_.tensors[e.ref].shape[d]);
        }
        if (inside) return p_.load(e.ref, std::move(at));
        return p_.load(e.ref, std::move(at), Outside::Value, p_.literal(0, e.dtype));
    };
    // A variable that leaves its range has no say; where the value is 0 there anyway, that needs no condition.
    ExprId condition = c.scope.condition == kNone ? kNone : rewrite(c.scope.condition);
    if (s.condition != kNone) condition = x_.both(condition, s.condition);
    for (VarId v : s.ranged) {
        const Sym extent = p_.vars[v].extent;
        if (vanishes(p_, c.cotangent.value, v, extent)) continue;
        IndexAlgebra x(p_);
        const ExprId at = s.value.at(v);
        const auto l = x.linear(at);
        const auto r = l ? x.range(*l) : std::nullopt;
        if (!r || r->low.lower() < 0) condition = x_.both(condition, p_.call(Fn::Ge, {at, p_.integer(0)}));
        if (!r || (extent - Sym(1) - r->high).lower() < 0)
            condition = x_.both(condition, p_.call(Fn::Lt, {at, p_.size(extent)}));
    }
    Cotangent cot = c.cotangent;
    cot.value = rewrite(cot.value);
    if (cot.where != kNone) cot.where = rewrite(cot.where);
    if (cot.over != kNone) {
        cot.over = rewrite(cot.over);
        const auto varies = p_.free_vars(cot.over);
        if (std::any_of(varies.begin(), varies.end(), [&](VarId v) { return has(s.free, v); })) cot = divided(cot);
    }
    ExprId body = masked(cot);
    if (s.free.empty()) return Term{condition == kNone ? body : p_.select(condition, body, x_.like(body, 0)), cot.over};

    Factored f = factor(x_, body, s.free);
    if (f.inner == kNone) f.inner = x_.like(body, 1);
    std::vector<VarId> over, idle;
    const auto used = p_.free_vars(f.inner);
    const auto tested = condition == kNone ? std::vector<VarId>{} : p_.free_vars(condition);
    for (VarId v : s.free) (has(used, v) || has(tested, v) ? over : idle).push_back(v);
    ExprId r = f.inner;
    const DType wide = accumulate_type(p_.expr(r).dtype);
    if (!over.empty()) {
        r = p_.cast(p_.reduce(ReduceOp::Sum, over, p_.cast(r, wide), wide, condition), p_.expr(body).dtype);
    } else if (condition != kNone) {
        r = p_.select(condition, r, x_.like(r, 0));
    }
    for (VarId v : idle) r = x_.mul(r, p_.cast(p_.size(p_.vars[v].extent), p_.expr(r).dtype));
    return Term{f.outer == kNone ? r : x_.mul(f.outer, r), cot.over};
}

// Strides: the elements of each phase are an ordinary sum without a stride, and the result interleaves the phases.
std::optional<ExprId> GradientBuilder::by_phases(const Contribution& c, const Solution& first) {
    const std::vector<Sym> shape = p_.tensors[c.tensor].shape;
    const std::vector<ExprId> plain = index(c.tensor);
    IndexAlgebra x(p_);
    std::vector<ExprId> target = plain, phase, step = plain, phase_read, step_read = plain;
    std::vector<Sym> phases, steps = shape;
    ExprId divides = kNone;
    for (const Strided& s : first.strided) {
        const Sym base = math::floor_div(-s.offset, s.step);
        const Sym last = math::floor_div(shape[s.dim] - Sym(1) - s.offset, s.step);
        const VarId m = p_.add_var(p_.vars[p_.expr(plain[s.dim]).ref].name, last - base + Sym(1));
        const VarId r = p_.add_var("r", s.step / s.common);
        Linear at;  // step * (base + m) + common * r + offset
        at.add(p_.index(m), s.step);
        at.add(p_.index(r), s.common);
        at.offset = base * s.step + s.offset;
        target[s.dim] = x.expression(at);
        step[s.dim] = p_.index(m);
        steps[s.dim] = p_.vars[m].extent;
        phase.push_back(p_.index(r));
        phases.push_back(p_.vars[r].extent);
        Linear from;  // j - offset
        from.add(plain[s.dim], 1);
        from.offset = -s.offset;
        Linear quotient = x.floor_div(from, s.step);
        quotient.offset = quotient.offset - base;
        step_read[s.dim] = x.expression(quotient);
        phase_read.push_back(x.expression(x.floor_div(x.mod(from, s.step), s.common)));
        if (s.common > 1)
            divides = x_.both(divides, p_.call(Fn::Eq, {x.expression(x.mod(from, s.common)), p_.integer(0)}));
    }
    const std::string name = "d" + p_.tensors[c.tensor].name + "_phases";
    const auto refused = [&](ExprId read) {
        return divides == kNone ? read : p_.select(divides, read, x_.like(read, 0));
    };
    const Sym all = product(phases);
    if (first.free.size() > first.strided.size() && all.is_const() && *all.constant() <= kPhasesApart) {
        const auto read = phases_apart(c, first, name, target, step, steps, step_read, phase_read, phases);
        return read ? std::optional(refused(*read)) : std::nullopt;
    }
    auto s = solve(p_, c.at, target, c.scope.vars, c.scope.outer);
    if (!s) return std::nullopt;
    const auto value = gathered(c, target, std::move(*s), true);
    if (!value) return std::nullopt;
    // Phases stand before the first dim that has them, as if they were channels.
    const auto with_phases = [&](std::vector<ExprId> dims, const std::vector<ExprId>& ph) {
        const auto where = dims.begin() + static_cast<std::ptrdiff_t>(first.strided.front().dim);
        dims.insert(where, ph.begin(), ph.end());
        return dims;
    };
    const std::vector<ExprId> at = with_phases(step, phase);
    std::vector<Sym> extents;
    for (ExprId a : at) extents.push_back(p_.vars[p_.expr(a).ref].extent);
    const TensorId z = temporary(name, p_.expr(value->value).dtype, std::move(extents));
    p_.add_equation(z, at, value->value);
    return refused(p_.load(z, with_phases(step_read, phase_read)));
}

// Where the sum goes over more than the taps of a window, as over the channels of a convolution, each phase is a sum of
// its own: it has just the taps that reach it, and none that only fill up to those of another phase.
std::optional<ExprId> GradientBuilder::phases_apart(const Contribution& c, const Solution& first,
                                                    const std::string& name, const std::vector<ExprId>& phased,
                                                    const std::vector<ExprId>& step, const std::vector<Sym>& steps,
                                                    const std::vector<ExprId>& step_read,
                                                    const std::vector<ExprId>& phase_read,
                                                    const std::vector<Sym>& phases) {
    IndexAlgebra x(p_);
    std::vector<int64_t> number(phases.size(), 0);
    const std::function<std::optional<ExprId>(size_t)> from = [&](size_t d) -> std::optional<ExprId> {
        if (d < phases.size()) {
            std::optional<ExprId> r;
            for (int64_t i = *phases[d].constant(); i-- > 0;) {
                number[d] = i;
                const auto one = from(d + 1);
                if (!one) return std::nullopt;
                r = r ? p_.select(p_.call(Fn::Eq, {phase_read[d], p_.integer(i)}), *one, *r) : *one;
            }
            return r;
        }
        std::vector<ExprId> target = phased, at = step;
        std::vector<Sym> extents = steps;
        for (size_t k = 0; k < at.size(); ++k)  // index variables of its own
            target[k] = at[k] = p_.index(p_.add_var(p_.vars[p_.expr(step[k]).ref].name, steps[k]));
        for (size_t k = 0; k < first.strided.size(); ++k) {
            const Strided& s = first.strided[k];
            Linear here;
            here.offset = x.linear(phased[s.dim])->offset + Sym(s.common * number[k]);
            here.add(at[s.dim], s.step);
            target[s.dim] = x.expression(here);
        }
        auto solved = solve(p_, c.at, target, c.scope.vars, c.scope.outer);
        if (!solved) return std::nullopt;
        const auto value = gathered(c, target, std::move(*solved), true);
        if (!value) return std::nullopt;
        const TensorId z = temporary(name, p_.expr(value->value).dtype, extents);
        p_.add_equation(z, at, value->value);
        return p_.load(z, step_read);
    };
    return from(0);
}

// Clamp, wrap, reflect, mirror: the cotangent of the tensor as if it went on, then folded back dim by dim.
bool GradientBuilder::extended(const Contribution& c) {
    IndexAlgebra x(p_);
    const std::vector<Sym> shape = p_.tensors[c.tensor].shape;
    std::vector<Sym> longer = shape, low(shape.size(), 0);
    Contribution wide = c;
    wide.outside = Outside::Error;
    bool any = false;
    for (size_t d = 0; d < shape.size(); ++d) {
        const auto l = x.linear(c.at[d]);
        const auto r = l ? x.range(*l) : std::nullopt;
        if (!r) return false;
        if (x.within(*l, shape[d])) continue;
        any = true;
        Linear moved = *l;
        moved.offset = moved.offset - r->low;
        wide.at[d] = x.expression(moved);
        longer[d] = math::max(r->high - r->low + Sym(1), 0);
        low[d] = r->low;
    }
    if (!any) return contribute(std::move(wide)), true;
    if (!solve(p_, wide.at, index(c.tensor), c.scope.vars, c.scope.outer)) return false;
    const std::string name = "d" + p_.tensors[c.tensor].name + "_beyond";
    TensorId t = temporary(name, cotangent_type(c.tensor), longer);
    wide.tensor = t;
    contribute(std::move(wide));
    TensorId settled = settle(t, name, Role::Temp);
    for (size_t d = 0; d < shape.size(); ++d) {
        if (longer[d] == shape[d] && low[d].is(0)) continue;
        longer[d] = shape[d];
        const TensorId next = temporary(name, cotangent_type(c.tensor), longer);
        const std::vector<ExprId> at = index(next);
        p_.add_equation(next, at, fold_back(p_, settled, at, d, low[d], shape[d], c.outside));
        settled = next;
    }
    pending_[c.tensor].terms.push_back({p_.load(settled, index(c.tensor))});
    return true;
}

void GradientBuilder::scatter(const Contribution& c) {
    Scatter s{c.at, kNone, c.outside == Outside::Value ? Outside::Value : Outside::Error};
    for (size_t d = 0; d < s.at.size(); ++d)
        s.at[d] = folded_index(p_, s.at[d], c.outside, p_.tensors[c.tensor].shape[d]);
    s.value = masked({divided(c.cotangent.value, c.cotangent.over), x_.both(c.scope.condition, c.cotangent.where)});
    std::vector<VarId> placed, summed;
    for (ExprId a : s.at)
        for (VarId v : p_.free_vars(a)) placed.push_back(v);
    const auto used = p_.free_vars(s.value);
    for (VarId v : c.scope.vars)
        if (has(used, v) && !has(placed, v)) summed.push_back(v);
    const DType t = p_.expr(s.value).dtype, wide = accumulate_type(t);
    if (!summed.empty()) s.value = p_.cast(p_.reduce(ReduceOp::Sum, summed, p_.cast(s.value, wide), wide), t);
    for (VarId v : c.scope.vars)  // an update goes over the variables that it mentions
        if (!has(used, v) && !has(placed, v)) s.value = x_.mul(s.value, p_.cast(p_.size(p_.vars[v].extent), t));
    pending_[c.tensor].scatters.push_back(std::move(s));
}

TensorId GradientBuilder::settle(TensorId t, const std::string& name, Role role) {
    const Pending& all = pending_[t];
    if (!all.any() && role == Role::Temp) return kNone;
    const std::vector<ExprId> at = index(t);
    const DType wide = cotangent_type(t);
    // What all terms are to be divided by waits where the cotangent is passed on.
    const ExprId over = all.terms.empty() ? kNone : all.terms[0].over;
    const bool waits = over != kNone && role == Role::Temp && all.scatters.empty() && carries_divisor(t) &&
                       std::all_of(all.terms.begin(), all.terms.end(), [&](const Term& e) { return e.over == over; });
    std::vector<ExprId> terms;
    const std::vector<Term> given = all.terms;
    for (const Term& e : given) terms.push_back(waits ? e.value : divided(e.value, e.over));
    if (waits) over_[t] = over;
    if (role == Role::Temp && all.scatters.empty() && terms.size() == 1) {
        const Expr& e = p_.expr(terms[0]);  // a tensor already
        if (e.kind == ExprKind::Load && e.outside == Outside::Error && e.args == at &&
            p_.tensors[e.ref].shape == p_.tensors[t].shape && e.dtype == wide)
            return e.ref;
    }
    const DType type = role == Role::Temp ? wide : p_.tensors[t].dtype;
    const std::vector<Scatter> scatters = all.scatters;
    ExprId sum = p_.literal(0, wide);
    for (ExprId e : terms) sum = x_.add(sum, e);
    const TensorId r = temporary(name, scatters.empty() ? type : wide, p_.tensors[t].shape);
    p_.add_equation(r, at, p_.cast(sum, p_.tensors[r].dtype));
    for (const Scatter& s : scatters) p_.add_equation(r, s.at, p_.cast(s.value, wide), Update::Add, s.outside);
    if (p_.tensors[r].dtype == type) return r;
    const TensorId narrow = temporary(name, type, p_.tensors[t].shape);
    p_.add_equation(narrow, at, p_.cast(p_.load(r, at), type));
    return narrow;
}

}  // namespace opwright::derive
