// The elimination: rows are solved for the variable with the widest range, unit coefficients first; then rows of mixed
// radix (d = c*q + r), and rows with a stride, whose solutions are k = k0 + (a/g)*t (the residue class of k), with
// g = gcd(a, b) for a*p + b*k.
#include "derive/solve.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "derive/digits.h"

namespace opwright::derive {
using namespace math;
namespace {

// sum of unknowns == known
struct Row {
    size_t dim = 0;
    std::map<VarId, Sym> unknown;
    Linear known;
};

constexpr int64_t kMaxStride = 1 << 16;  // larger ones are no strides but sizes

int64_t positive_mod(int64_t a, int64_t b) { return ((a % b) + b) % b; }
int64_t inverse_mod(int64_t a, int64_t m) {  // a and m without a common divisor; small numbers
    for (int64_t x = 0; x < m; ++x)
        if (positive_mod(a * x, m) == 1 % m) return x;
    return 0;
}

class Solver {
public:
    Solver(Program& p, const std::vector<VarId>& scope, size_t outer) : p_(p), x_(p), scope_(scope), outer_(outer) {}

    std::optional<Solution> run(const std::vector<ExprId>& at, const std::vector<ExprId>& target) {
        auto digits = split_digits(p_, at, scope_);
        if (!digits) return std::nullopt;
        unknown_ = digits->variables;
        for (size_t d = 0; d < at.size(); ++d) {
            Row r{d, {}, {}};
            const auto to = x_.linear(target[d]);
            r.known = to ? *to : Linear{};
            if (!to) r.known.add(target[d], 1);
            r.known.offset = r.known.offset - digits->at[d].offset;
            for (const auto& [atom, c] : digits->at[d].terms) {
                if (p_.expr(atom).kind != ExprKind::Index || !is_unknown(p_.expr(atom).ref)) return std::nullopt;
                r.unknown[p_.expr(atom).ref] = c;
            }
            rows_.push_back(std::move(r));
        }
        while (!rows_.empty()) {
            auto best = std::min_element(rows_.begin(), rows_.end(),
                                         [&](const Row& a, const Row& b) { return rank(a) < rank(b); });
            const Row row = *best;
            rows_.erase(best);
            if (!step(row)) return std::nullopt;
        }
        return finish(*digits);
    }

private:
    bool is_unknown(VarId v) const { return std::find(unknown_.begin(), unknown_.end(), v) != unknown_.end(); }
    bool is_outer(VarId v) const {
        const auto i = std::find(scope_.begin(), scope_.end(), v);
        return i != scope_.end() && i < scope_.begin() + static_cast<std::ptrdiff_t>(outer_);
    }
    // Whether v has the wider range, as far as that shows.
    bool wider(VarId v, VarId w) const {
        const Sym &a = p_.vars[v].extent, &b = p_.vars[w].extent;
        if (a.is_const() && b.is_const())
            return *a.constant() != *b.constant() ? *a.constant() > *b.constant() : is_outer(v) && !is_outer(w);
        if (a.is_const() != b.is_const()) return b.is_const();
        return is_outer(v) && !is_outer(w);
    }
    VarId widest(const Row& r) const {
        VarId best = r.unknown.begin()->first;
        for (const auto& [v, c] : r.unknown)
            if (wider(v, best)) best = v;
        return best;
    }
    static bool unit(const Sym& c) { return c.is(1) || c.is(-1); }
    // Rows to take first: those without a choice, then those whose widest variable has a unit coefficient.
    std::pair<int, size_t> rank(const Row& r) const {
        if (r.unknown.empty()) return {0, 0};
        return {unit(r.unknown.at(widest(r))) ? 1 : 2, r.unknown.size()};
    }

    void require(ExprId condition) {
        if (p_.is_integer_literal(condition, 1)) return;
        s_.condition = s_.condition == kNone ? condition : p_.call(Fn::And, {s_.condition, condition});
    }
    void require_zero(const Linear& l) { require(p_.call(Fn::Eq, {x_.expression(l), p_.integer(0)})); }
    Linear unknowns_as_atoms(const Row& r, VarId but, VarId but2 = kNone) {
        Linear l;
        for (const auto& [v, c] : r.unknown)
            if (v != but && v != but2) l.add(p_.index(v), c);
        return l;
    }
    bool used_elsewhere(const Linear& l) const {
        for (const Row& r : rows_)
            for (const auto& [v, c] : r.unknown)
                if (std::any_of(l.terms.begin(), l.terms.end(), [&](const auto& t) {
                        return p_.expr(t.first).kind == ExprKind::Index && p_.expr(t.first).ref == v;
                    }))
                    return true;
        return false;
    }
    // v == value, for the rows that are left.
    void assign(VarId v, const Linear& value) {
        solved_.emplace_back(v, value);
        for (Row& r : rows_) {
            const auto it = r.unknown.find(v);
            if (it == r.unknown.end()) continue;
            const Sym c = it->second;
            r.unknown.erase(it);
            for (const auto& [atom, k] : value.terms) {
                const Expr& e = p_.expr(atom);
                if (e.kind == ExprKind::Index && is_unknown(e.ref)) {
                    Sym& sum = r.unknown[e.ref];
                    sum = sum + k * c;
                    if (sum.is(0)) r.unknown.erase(e.ref);
                } else {
                    r.known.add(atom, -(k * c));
                }
            }
            r.known.offset = r.known.offset - value.offset * c;
        }
        unknown_.erase(std::find(unknown_.begin(), unknown_.end(), v));
    }

    bool step(const Row& r) {
        if (r.unknown.empty()) return require_zero(r.known), true;
        const VarId v = widest(r);
        const Sym c = r.unknown.at(v);
        if (unit(c)) {
            Linear value = r.known;
            value -= unknowns_as_atoms(r, v);
            if (c.is(-1)) value = Linear{}.accumulate(value, -1);
            assign(v, value);
            return true;
        }
        if (c.lower() >= -1 && c.upper() == 1 && r.unknown.size() == 1) return repeated(r, v, c);
        return radix(r) || residue(r, v, c);
    }

    // c is 1, or 0 where the dim is 1 long and serves every value of v: v = known + t, t over one value or all of v's.
    bool repeated(const Row& r, VarId v, const Sym& c) {
        const VarId t = new_free(v, math::select(math::less(0, c), 1, p_.vars[v].extent));
        Linear value = r.known;
        value.add(p_.index(t), 1);
        assign(v, value);
        return true;
    }

    // Coefficients 1, e1, e1*e2, ... of variables with extents e1, e2, ...: digits of the known.
    bool radix(const Row& r) {
        std::vector<VarId> order;
        for (Sym next = 1; order.size() < r.unknown.size();) {
            const auto it = std::find_if(r.unknown.begin(), r.unknown.end(), [&](const auto& u) {
                return u.second == next && std::find(order.begin(), order.end(), u.first) == order.end();
            });
            if (it == r.unknown.end()) return false;
            order.push_back(it->first);
            next = next * p_.vars[it->first].extent;
        }
        for (size_t i = 0; i < order.size(); ++i) {
            const Sym step = r.unknown.at(order[i]);
            const bool last = i + 1 == order.size();
            assign(order[i],
                   last ? quotient(r.known, step) : remainder(quotient(r.known, step), p_.vars[order[i]].extent));
        }
        return true;
    }

    bool residue(const Row& r, VarId v, Sym a) {
        // Signs: a > 0.
        Linear known = r.known;
        Sym sign = 1;
        if (a.upper() < 0) {
            sign = -1;
            a = -a;
            known = Linear{}.accumulate(known, -1);
        }
        if (a.lower() < 1) return false;
        if (r.unknown.size() == 1) {
            require_zero(remainder(known, a));
            assign(v, quotient(known, a));
            return true;
        }
        // The other variable that takes the residue: a unit coefficient if there is one, else what leaves the fewest.
        VarId k = kNone;
        for (const auto& [u, c] : r.unknown) {
            if (u == v || (!unit(c) && !(c.is_const() && a.is_const()))) continue;
            if (k == kNone || (unit(c) && !unit(r.unknown.at(k)))) k = u;
        }
        if (k == kNone) return false;
        const Linear others = Linear{}.accumulate(unknowns_as_atoms(r, v, k), sign);
        if (used_elsewhere(others)) return false;
        known -= others;
        const Sym b = r.unknown.at(k) * sign;
        const Sym extent = p_.vars[k].extent;
        Sym period = a;
        Linear first;
        int64_t common = 1;
        if (a.is_const()) {
            const int64_t n = *a.constant(), m = *b.constant();
            if (n > kMaxStride) return false;
            common = std::gcd(n, m);
            period = n / common;
            if (common > 1) require_zero(remainder(known, common));
            first = quotient(known, common);
            const int64_t factor = inverse_mod(positive_mod(m / common, n / common), n / common);
            first = remainder(Linear{}.accumulate(first, factor), period);
            if (others.terms.empty() && known.terms.size() == 1 && known.terms[0].second.is(1))
                s_.strided.push_back({r.dim, n, common, -known.offset});
        } else {
            if (!b.is(1)) return false;
            first = remainder(known, a);
        }
        // Where the residue is a number (below the period), no step goes past the variable's end.
        const Sym count = ceil_div(first.terms.empty() ? extent - first.offset : extent, period);
        Linear value_k = first;
        Linear value_p = b.is(1) && common == 1 ? quotient(known, a) : quotient(Linear(known).accumulate(first, -b), a);
        if (!count.is(1)) {
            const VarId t = new_free(k, count);
            value_k.add(p_.index(t), period);
            value_p.add(p_.index(t), -math::floor_div(b * period, a));
        }
        assign(k, value_k);
        assign(v, value_p);
        return true;
    }
    Linear quotient(const Linear& l, const Sym& s) { return x_.floor_div(l, s); }
    Linear remainder(const Linear& l, const Sym& s) { return x_.mod(l, s); }

    VarId new_free(VarId like, const Sym& extent) {
        const VarId t = p_.add_var(p_.vars[like].name, extent);
        unknown_.push_back(t);
        return t;
    }

    std::optional<Solution> finish(const Digits& digits) {
        s_.free = unknown_;
        // Values over targets and free variables: later ones hold what the earlier ones still refer to.
        std::map<VarId, Linear> value;
        for (size_t i = solved_.size(); i-- > 0;) {
            Linear l;
            l.offset = solved_[i].second.offset;
            for (const auto& [atom, c] : solved_[i].second.terms) {
                const Expr& e = p_.expr(atom);
                const auto known = e.kind == ExprKind::Index ? value.find(e.ref) : value.end();
                if (known == value.end())
                    l.add(atom, c);
                else
                    l.accumulate(known->second, c);
            }
            value.emplace(solved_[i].first, std::move(l));
        }
        for (const auto& [v, l] : value) {
            if (x_.within(l, p_.vars[v].extent)) continue;
            if (std::find(scope_.begin(), scope_.end(), v) == scope_.end()) {
                require_range(l, p_.vars[v].extent);
                continue;
            }
            s_.loose.push_back(v);
            s_.ranged.push_back(v);
        }
        for (const auto& [v, form] : digits.composed) {  // variables of the scope that were split into digits
            Linear l;
            l.offset = form.offset;
            for (const auto& [atom, c] : form.terms) {
                const auto known = value.find(p_.expr(atom).ref);
                if (known == value.end())
                    l.add(atom, c);
                else
                    l.accumulate(known->second, c);
            }
            value[v] = l;
            if (x_.within(l, p_.vars[v].extent)) continue;
            s_.loose.push_back(v);
            if (!digits.covers.count(v)) s_.ranged.push_back(v);
        }
        for (VarId v : scope_)
            if (const auto it = value.find(v); it != value.end()) s_.value[v] = x_.expression(it->second);
        return std::move(s_);
    }
    void require_range(const Linear& l, const Sym& extent) {
        const auto r = x_.range(l);
        if (!r || r->low.lower() < 0) require(p_.call(Fn::Ge, {x_.expression(l), p_.integer(0)}));
        if (!r || (extent - Sym(1) - r->high).lower() < 0)
            require(p_.call(Fn::Lt, {x_.expression(l), p_.size(extent)}));
    }

    Program& p_;
    IndexAlgebra x_;
    const std::vector<VarId>& scope_;
    size_t outer_;
    std::vector<VarId> unknown_;
    std::vector<Row> rows_;
    std::vector<std::pair<VarId, Linear>> solved_;
    Solution s_;
};
}  // namespace

std::optional<Solution> solve(Program& p, const std::vector<ExprId>& at, const std::vector<ExprId>& target,
                              const std::vector<VarId>& scope, size_t outer) {
    return Solver(p, scope, outer).run(at, target);
}

}  // namespace opwright::derive
