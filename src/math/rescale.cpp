#include "math/rescale.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

namespace opwright::math {

namespace {

// An expression where it stands: what its equation calls one variable, others may call another.
struct Term {
    ExprId e = kNone;
    std::map<VarId, VarId> names = {};

    Term of(ExprId x) const { return {x, names}; }
    VarId name(VarId v) const {
        const auto it = names.find(v);
        return it == names.end() ? v : it->second;
    }
};

class Matcher {
public:
    Matcher(const Program& p, const std::vector<uint32_t>& equations) : p_(p) {
        for (uint32_t i : equations) {
            const Equation& q = p.equations[i];
            const bool plain = q.update == Update::Set && !definitions_.count(q.lhs);
            definitions_[q.lhs] = plain ? &q : nullptr;
            collect(q.rhs, i);
        }
    }

    std::vector<Rescale> run() {
        std::vector<Rescale> r;
        for (const Fold& second : folds_)
            for (const Fold& first : folds_) {
                if (first.e == second.e) continue;
                if (auto x = exponentials(first, second))
                    r.push_back(*x);
                else if (auto y = deviations(first, second))
                    r.push_back(*y);
                else
                    continue;
                break;
            }
        return r;
    }

private:
    struct Fold {
        ExprId e;
        uint32_t equation;
    };

    void collect(ExprId e, uint32_t equation) {
        const Expr& x = p_.expr(e);
        if (x.kind == ExprKind::Reduce) {
            const bool known = std::any_of(folds_.begin(), folds_.end(), [&](const Fold& f) { return f.e == e; });
            if (!known && x.args.size() == 1 && is_float(x.dtype)) folds_.push_back({e, equation});
            return;
        }
        if (x.kind == ExprKind::Scan) return;
        for (ExprId a : x.args) collect(a, equation);
    }

    // ---- expressions seen through what lies between equations

    // Through exact conversions, and from a temporary to what it was set to.
    Term seen(Term t) const {
        for (;;) {
            const Expr& x = p_.expr(t.e);
            if (x.kind == ExprKind::Cast) {
                if (!is_float(x.dtype) || !fits(t.of(x.args[0]), x.dtype)) return t;
                t.e = x.args[0];
                continue;
            }
            if (x.kind != ExprKind::Load || x.outside != Outside::Error) return t;
            const auto d = definitions_.find(x.ref);
            if (d == definitions_.end() || !d->second) return t;
            Term inner{d->second->rhs};
            for (size_t i = 0; i < d->second->at.size(); ++i) {
                const Expr& to = p_.expr(d->second->at[i]);
                const Expr& from = p_.expr(x.args[i]);
                if (to.kind != ExprKind::Index) continue;  // a dim of extent 1
                if (from.kind != ExprKind::Index) return t;
                inner.names[to.ref] = t.name(from.ref);
            }
            t = std::move(inner);
        }
    }
    // Whether every value of t is one of `type`, so that its conversion is exact: the largest of widened numbers is one
    // of them.
    bool fits(const Term& t, DType type) const {
        const Expr& x = p_.expr(t.e);
        if (!is_float(x.dtype)) return false;
        if (x.dtype == type || size_of(x.dtype) < size_of(type)) return true;
        if (x.kind == ExprKind::Cast) return fits(t.of(x.args[0]), type);
        if (x.kind == ExprKind::Reduce && (x.reduce == ReduceOp::Max || x.reduce == ReduceOp::Min))
            return fits(t.of(x.args[0]), type);
        return false;
    }
    bool same(const Term& left, const Term& right) {
        if (++compared_ > kMost) return false;
        const Term a = seen(left), b = seen(right);
        const Expr &x = p_.expr(a.e), &y = p_.expr(b.e);
        if (x.kind != y.kind || x.dtype != y.dtype || x.args.size() != y.args.size()) return false;
        if (x.fn != y.fn || x.reduce != y.reduce || x.outside != y.outside) return false;
        if (x.exclusive != y.exclusive || x.backward != y.backward) return false;
        Term in_a = a, in_b = b;
        switch (x.kind) {
            case ExprKind::Literal:
                return std::memcmp(&x.number, &y.number, sizeof x.number) == 0 && x.integer == y.integer;
            case ExprKind::Index: return a.name(x.ref) == b.name(y.ref);
            case ExprKind::Size: return x.sym == y.sym;
            case ExprKind::Load:
            case ExprKind::Inside:
                if (x.ref != y.ref) return false;
                break;
            case ExprKind::Reduce:
            case ExprKind::Scan:
                if (!rename(in_a, x.vars, in_b, y.vars)) return false;
                break;
            case ExprKind::Call:
            case ExprKind::Cast:
            case ExprKind::Wrap:
            case ExprKind::Bitcast: break;
        }
        for (size_t i = 0; i < x.args.size(); ++i)
            if (!same(in_a.of(x.args[i]), in_b.of(y.args[i]))) return false;
        return true;
    }
    // Gives bound variables of the same extents common names, which nothing else has.
    bool rename(Term& a, const std::vector<VarId>& va, Term& b, const std::vector<VarId>& vb) {
        if (va.size() != vb.size()) return false;
        for (size_t i = 0; i < va.size(); ++i) {
            if (!(p_.vars[va[i]].extent == p_.vars[vb[i]].extent)) return false;
            a.names[va[i]] = b.names[vb[i]] = static_cast<VarId>(p_.vars.size()) + fresh_++;
        }
        return true;
    }
    bool free_of(const Term& t, const std::vector<VarId>& vars) const {
        const auto free = p_.free_vars(t.e);
        return std::none_of(free.begin(), free.end(), [&](VarId v) {
            return std::find(vars.begin(), vars.end(), t.name(v)) != vars.end();
        });
    }
    // Its variables have the names of the equation that it is asked about.
    bool at_home(const Term& t) const {
        const auto free = p_.free_vars(t.e);
        return std::all_of(free.begin(), free.end(), [&](VarId v) { return t.name(v) == v; });
    }

    // ---- the two forms

    // Whether t is the fold `first`, taken at the same point of the outer variables.
    bool is(const Term& t, const Fold& first) const {
        const Term s = seen(t);
        return s.e == first.e && at_home(s);
    }
    bool mentions(const Term& t, const Fold& first) const {
        const Term s = seen(t);
        if (s.e == first.e) return at_home(s);
        const Expr& x = p_.expr(s.e);
        if (x.kind == ExprKind::Reduce || x.kind == ExprKind::Scan) return false;
        return std::any_of(x.args.begin(), x.args.end(), [&](ExprId a) { return mentions(s.of(a), first); });
    }
    // Both run at the same points and fold variables of the same extents.
    bool alike(const Fold& first, const Fold& second) const {
        const Expr &a = p_.expr(first.e), &b = p_.expr(second.e);
        if (compute_type(a.dtype) != compute_type(b.dtype) || a.vars.size() != b.vars.size()) return false;
        for (size_t i = 0; i < a.vars.size(); ++i)
            if (!(p_.vars[a.vars[i]].extent == p_.vars[b.vars[i]].extent)) return false;
        auto u = p_.free_vars(first.e), v = p_.free_vars(second.e);
        std::sort(u.begin(), u.end());
        std::sort(v.begin(), v.end());
        return u == v;
    }
    // Whether t, a part of a term of `second`, is the term of `first`.
    bool is_term(const Term& t, const Fold& first, const Fold& second) {
        const Expr &a = p_.expr(first.e), &b = p_.expr(second.e);
        Term f{a.args[0]};
        for (size_t i = 0; i < a.vars.size(); ++i) f.names[a.vars[i]] = b.vars[i];
        compared_ = 0;
        return same(f, t);
    }
    std::optional<double> positive(const Term& t) const {
        const Expr& x = p_.expr(seen(t).e);
        if (x.kind != ExprKind::Literal || !is_float(x.dtype) || !std::isfinite(x.number) || x.number <= 0)
            return std::nullopt;
        return x.number;
    }
    // t = factor * rest, by a literal above 0; a division counts where the factor is exact.
    std::optional<std::pair<double, Term>> scaled(const Term& t) const {
        const Expr& x = p_.expr(t.e);
        if (x.kind != ExprKind::Call) return std::nullopt;
        if (x.fn == Fn::Mul) {
            for (int side : {0, 1})
                if (const auto a = positive(t.of(x.args[static_cast<size_t>(side)])))
                    return std::pair(*a, t.of(x.args[static_cast<size_t>(1 - side)]));
        } else if (x.fn == Fn::Div) {
            int exponent = 0;
            const auto a = positive(t.of(x.args[1]));
            if (a && std::frexp(*a, &exponent) == 0.5) return std::pair(1 / *a, t.of(x.args[0]));
        }
        return std::nullopt;
    }

    std::optional<Rescale> exponentials(const Fold& first, const Fold& second) {
        const Expr &a = p_.expr(first.e), &b = p_.expr(second.e);
        if (a.reduce != ReduceOp::Max || b.reduce != ReduceOp::Sum || !alike(first, second)) return std::nullopt;
        const Term term = seen({b.args[0]});
        const Expr& e = p_.expr(term.e);
        if (e.kind != ExprKind::Call || (e.fn != Fn::Exp && e.fn != Fn::Exp2)) return std::nullopt;
        Rescale r{.kind = Rescale::Kind::Exponentials, .first = first.e, .second = second.e};
        r.exponential = term.e;
        Term difference = seen(term.of(e.args[0]));
        if (const auto s = scaled(difference)) {
            r.scale = s->first;
            difference = seen(s->second);
        }
        const Expr& d = p_.expr(difference.e);
        if (d.kind != ExprKind::Call || d.fn != Fn::Sub) return std::nullopt;
        Term f = difference.of(d.args[0]), m = difference.of(d.args[1]);
        if (!is(m, first)) {  // a * f - a * m
            const auto left = scaled(seen(f)), right = scaled(seen(m));
            if (!left || !right || left->first != right->first) return std::nullopt;
            r.scale *= left->first;
            f = left->second;
            m = right->second;
        }
        if (!is(m, first) || !at_home(m) || !is_term(f, first, second)) return std::nullopt;
        return found(r, first, second, m, e.fn);
    }

    std::optional<Rescale> deviations(const Fold& first, const Fold& second) {
        const Expr &a = p_.expr(first.e), &b = p_.expr(second.e);
        if (a.reduce != ReduceOp::Sum || b.reduce != ReduceOp::Sum || !alike(first, second)) return std::nullopt;
        const Term square = seen({b.args[0]});
        const Expr& s = p_.expr(square.e);
        if (s.kind != ExprKind::Call || s.args.size() != 2) return std::nullopt;
        compared_ = 0;
        const bool product = s.fn == Fn::Mul && same(square.of(s.args[0]), square.of(s.args[1]));
        if (!product && !(s.fn == Fn::Pow && positive(square.of(s.args[1])) == 2.0)) return std::nullopt;
        const Term difference = seen(square.of(s.args[0]));
        const Expr& d = p_.expr(difference.e);
        if (d.kind != ExprKind::Call || d.fn != Fn::Sub) return std::nullopt;
        for (const size_t side : {0u, 1u}) {
            const Term f = difference.of(d.args[side]), c = difference.of(d.args[1 - side]);
            if (!free_of(c, b.vars) || !at_home(c) || !mentions(c, first) || !is_term(f, first, second)) continue;
            return found({.kind = Rescale::Kind::Deviations, .first = first.e, .second = second.e}, first, second, c,
                         Fn::Exp);
        }
        return std::nullopt;
    }
    Rescale found(Rescale r, const Fold& first, const Fold& second, const Term& shift, Fn function) const {
        r.first_equation = first.equation;
        r.second_equation = second.equation;
        r.value = p_.expr(first.e).args[0];
        r.shift = shift.e;
        r.function = function;
        return r;
    }

    static constexpr int kMost = 4096;  // comparisons for one question: terms are small, or they are not alike

    const Program& p_;
    std::map<TensorId, const Equation*> definitions_;  // null: set more than once, or updated
    std::vector<Fold> folds_;
    int compared_ = 0;
    VarId fresh_ = 0;
};
}  // namespace

std::vector<Rescale> rescales(const Program& p, const std::vector<uint32_t>& equations) {
    return Matcher(p, equations).run();
}

}  // namespace opwright::math
