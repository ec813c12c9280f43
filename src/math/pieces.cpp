#include "math/pieces.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "math/unroll.h"

namespace opwright::math {
namespace {

constexpr int64_t kMostValues = 8;    // of an index that is written out
constexpr int64_t kMostPieces = 64;   // of one tensor
constexpr size_t kMostNodes = 20000;  // expressions that writing out may make

bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

class Writer {
public:
    explicit Writer(const Program& p) : p_(p), plans_(p.equations.size()), equation_of_(p.tensors.size(), kNone) {}

    std::optional<Program> run() {
        for (uint32_t e = 0; e < p_.equations.size(); ++e) {
            uint32_t& of = equation_of_[p_.equations[e].lhs];
            of = of == kNone ? e : kSeveral;
        }
        bool any = false;
        for (uint32_t e = 0; e < p_.equations.size(); ++e) any |= begin(e);
        if (!any || !spread()) return std::nullopt;
        return write();
    }

private:
    static constexpr uint32_t kSeveral = kNone - 1;
    struct Plan {
        bool touched = false;
        std::set<VarId> known;           // of its left side, one piece for each value
        std::map<VarId, int64_t> split;  // of its left side, one piece for each remainder by that number
    };

    bool small(VarId v) const { return p_.vars[v].extent.constant().value_or(kMostValues + 1) <= kMostValues; }
    std::vector<ExprId> below(ExprId root, ExprKind kind) const {
        std::vector<ExprId> r, stack{root};
        std::vector<bool> seen(p_.expr_count());
        while (!stack.empty()) {
            const ExprId e = stack.back();
            stack.pop_back();
            if (seen[e]) continue;
            seen[e] = true;
            if (p_.expr(e).kind == kind) r.push_back(e);
            for (ExprId a : p_.expr(e).args) stack.push_back(a);
        }
        return r;
    }
    // A sum over a few known points.
    bool can_unroll(const Expr& x) const {
        return x.reduce == ReduceOp::Sum && std::all_of(x.vars.begin(), x.vars.end(), [&](VarId v) { return small(v); });
    }

    // The indices of an equation's left side at which its sums read tables.
    bool begin(uint32_t e) {
        const Equation& q = p_.equations[e];
        if (q.update != Update::Set || equation_of_[q.lhs] != e || p_.expr(q.rhs).kind == ExprKind::Scan) return false;
        for (ExprId r : below(q.rhs, ExprKind::Reduce)) {
            if (!can_unroll(p_.expr(r))) continue;
            for (ExprId l : below(r, ExprKind::Load)) {
                const Expr& x = p_.expr(l);
                if (p_.tensors[x.ref].role != Role::Constant) continue;
                const std::vector<VarId> free = p_.free_vars(l);
                const bool summed = std::any_of(free.begin(), free.end(), [&](VarId v) { return has(p_.expr(r).vars, v); });
                for (VarId v : free)
                    if (summed && has(q.vars, v) && small(v)) plans_[e].known.insert(v);
            }
            if (!plans_[e].known.empty()) unrolled_.insert(r);
        }
        return plans_[e].touched = !plans_[e].known.empty();
    }

    // By dim, whether a touched tensor is read at known places of it.
    std::vector<bool> known_dims(TensorId t) const {
        const Equation& q = p_.equations[equation_of_[t]];
        std::vector<bool> r;
        for (ExprId a : q.at) r.push_back(p_.expr(a).kind == ExprKind::Index && plans_[equation_of_[t]].known.count(p_.expr(a).ref));
        return r;
    }
    bool touched(TensorId t) const { return equation_of_[t] < kSeveral && plans_[equation_of_[t]].touched; }

    // Readers of what is written out are written out along the same dims. False: one can't be.
    bool spread() {
        for (bool changed = true; changed;) {
            changed = false;
            for (uint32_t e = 0; e < p_.equations.size(); ++e)
                if (!spread(e, changed)) return false;
        }
        return true;
    }
    bool spread(uint32_t e, bool& changed) {
        const Equation& q = p_.equations[e];
        Plan& plan = plans_[e];
        const auto reduces = below(q.rhs, ExprKind::Reduce);
        for (ExprId l : below(q.rhs, ExprKind::Load)) {
            const Expr& x = p_.expr(l);
            if (!touched(x.ref)) continue;
            if (q.update != Update::Set || equation_of_[q.lhs] != e || x.outside != Outside::Error || p_.tensors[x.ref].role != Role::Temp)
                return false;
            changed |= !std::exchange(plan.touched, true);
            const auto known = known_dims(x.ref);
            for (size_t d = 0; d < known.size(); ++d) {
                if (!known[d]) continue;
                const Expr& at = p_.expr(x.args[d]);
                if (at.kind == ExprKind::Literal) continue;
                const bool remainder = at.kind == ExprKind::Call && at.fn == Fn::Mod;
                const Expr& index = remainder ? p_.expr(at.args[0]) : at;
                if (index.kind != ExprKind::Index) return false;
                if (remainder) {
                    const Expr& by = p_.expr(at.args[1]);
                    if (by.kind != ExprKind::Literal || by.integer < 1 || by.integer > kMostValues || !has(q.vars, index.ref)) return false;
                    const auto [s, fresh] = plan.split.emplace(index.ref, by.integer);
                    if (s->second != by.integer) return false;
                    changed |= fresh;
                } else if (has(q.vars, index.ref)) {
                    if (!small(index.ref)) return false;
                    changed |= plan.known.insert(index.ref).second;
                } else {
                    for (ExprId r : reduces)
                        if (has(p_.expr(r).vars, index.ref)) {
                            if (!can_unroll(p_.expr(r))) return false;
                            changed |= unrolled_.insert(r).second;
                        }
                }
            }
        }
        for (const auto& [v, n] : plan.split)
            if (plan.known.count(v)) return false;
        return true;
    }

    std::optional<Program> write() {
        into_.name = p_.name;
        into_.doc = p_.doc;
        into_.tensors = p_.tensors;
        into_.inputs = p_.inputs;
        into_.outputs = p_.outputs;
        into_.vars = p_.vars;
        into_.requirements = p_.requirements;
        for (uint32_t e = 0; e < p_.equations.size(); ++e) {
            const Equation& q = p_.equations[e];
            if (plans_[e].touched && p_.tensors[q.lhs].role == Role::Temp) continue;  // goes where it is read
            if (!write(e) || into_.expr_count() > kMostNodes) return std::nullopt;
        }
        if (failed_) return std::nullopt;
        return std::move(into_);
    }

    bool write(uint32_t e) {
        const Equation& q = p_.equations[e];
        const Plan& plan = plans_[e];
        std::vector<std::pair<VarId, int64_t>> digits;  // variable, number of values
        int64_t pieces = 1;
        for (VarId v : q.vars)
            if (plan.known.count(v) || plan.split.count(v)) {
                digits.emplace_back(v, plan.known.count(v) ? *p_.vars[v].extent.constant() : plan.split.at(v));
                pieces *= digits.back().second;
            }
        if (pieces > kMostPieces) return false;
        quotients_.clear();
        ragged_.clear();
        for (const auto& [v, by] : plan.split) {
            quotients_[v] = into_.add_var(p_.vars[v].name + "_tile", ceil_div(p_.vars[v].extent, by));
            if (!p_.vars[v].extent.multiple_of(by)) ragged_.insert(v);
        }
        for (int64_t i = 0; i < pieces; ++i) {
            Rewriter w = rewriter();
            remainders_.clear();
            int64_t rest = i;
            for (size_t d = digits.size(); d-- > 0;) {
                const auto& [v, n] = digits[d];
                const int64_t value = rest % n;
                rest /= n;
                w.bound.erase(v);
                w.vars[v] = into_.integer(value);
                if (const auto by = plan.split.find(v); by != plan.split.end()) {
                    remainders_[v] = value;
                    const ExprId start = into_.call(Fn::Mul, {into_.integer(by->second), into_.index(quotients_.at(v))});
                    w.vars[v] = into_.call(Fn::Add, {start, into_.integer(value)});
                }
            }
            Equation n = q;
            n.vars.clear();
            for (VarId v : q.vars)
                if (!plan.known.count(v)) n.vars.push_back(plan.split.count(v) ? quotients_.at(v) : v);
            for (ExprId& a : n.at) a = w(a);
            n.rhs = w(q.rhs);
            if (!digits.empty()) {
                n.update = Update::Overwrite;
                n.outside = ragged_.empty() ? Outside::Error : Outside::Value;
            }
            into_.equations.push_back(std::move(n));
        }
        return true;
    }

    Rewriter rewriter() {
        Rewriter w{.from = p_, .into = into_};
        for (TensorId t = 0; t < p_.tensors.size(); ++t) w.tensors[t] = t;
        for (VarId v = 0; v < p_.vars.size(); ++v) w.bound[v] = v;
        w.replace = [this](Rewriter& self, ExprId e) { return replaced(self, e); };
        return w;
    }

    ExprId replaced(Rewriter& self, ExprId e) {
        const Expr& x = p_.expr(e);
        switch (x.kind) {
            case ExprKind::Call: return x.fn == Fn::Mod || x.fn == Fn::FloorDiv ? digit(x) : kNone;
            case ExprKind::Reduce: return unrolled_.count(e) ? chain(self, x) : kNone;
            case ExprKind::Load:
                if (p_.tensors[x.ref].role == Role::Constant) return table_entry(p_, x, self);
                return touched(x.ref) ? in_place(self, x) : x.outside == Outside::Error ? guarded(self, x) : kNone;
            default: return kNone;
        }
    }

    // Quotient and remainder of a variable that is cut by the same number.
    ExprId digit(const Expr& x) {
        const Expr &index = p_.expr(x.args[0]), &by = p_.expr(x.args[1]);
        if (index.kind != ExprKind::Index || by.kind != ExprKind::Literal) return kNone;
        const auto r = remainders_.find(index.ref);
        if (r == remainders_.end()) return kNone;
        const VarId quotient = quotients_.at(index.ref);
        if (!(into_.vars[quotient].extent == ceil_div(p_.vars[index.ref].extent, by.integer))) return kNone;
        return x.fn == Fn::Mod ? into_.integer(r->second) : into_.index(quotient);
    }

    // What is read at a place of the last pieces that need not exist.
    ExprId guarded(Rewriter& self, const Expr& x) {
        if (ragged_.empty()) return kNone;
        bool leaves = false;
        std::vector<ExprId> at;
        for (ExprId a : x.args) {
            for (VarId v : p_.free_vars(a)) leaves |= ragged_.count(v) > 0;
            at.push_back(self(a));
        }
        return leaves ? into_.load(x.ref, std::move(at), Outside::Value, into_.literal(0, x.dtype)) : kNone;
    }

    ExprId chain(Rewriter& self, const Expr& x) {
        std::vector<int64_t> point(x.vars.size(), 0);
        int64_t terms = 1;
        for (VarId v : x.vars) terms *= *p_.vars[v].extent.constant();
        ExprId sum = kNone;
        for (int64_t i = 0; i < terms; ++i) {
            Rewriter w = rewriter();
            w.vars = self.vars;
            w.bound = self.bound;
            int64_t rest = i;
            for (size_t d = x.vars.size(); d-- > 0;) {
                const int64_t n = *p_.vars[x.vars[d]].extent.constant();
                w.bound.erase(x.vars[d]);
                w.vars[x.vars[d]] = into_.integer(rest % n);
                rest /= n;
            }
            if (x.args.size() > 1) {
                const Expr& condition = into_.expr(w(x.args[1]));
                failed_ |= condition.kind != ExprKind::Literal;
                if (!condition.integer) continue;
            }
            sum = plus(sum, into_.cast(w(x.args[0]), x.dtype));
        }
        return sum == kNone ? into_.literal(0, x.dtype) : sum;
    }
    // Multiplying by 1 or -1 changes nothing else.
    ExprId plus(ExprId sum, ExprId term) {
        const Expr x = into_.expr(term);
        const bool product = x.kind == ExprKind::Call && x.fn == Fn::Mul && is_float(x.dtype);
        const Expr* factor = product ? &into_.expr(x.args[0]) : nullptr;
        const bool one = factor && factor->kind == ExprKind::Literal && factor->number == 1;
        const bool minus = factor && factor->kind == ExprKind::Literal && factor->number == -1;
        const ExprId value = one || minus ? x.args[1] : term;
        if (sum == kNone) return minus ? into_.call(Fn::Neg, {value}) : value;
        return into_.call(minus ? Fn::Sub : Fn::Add, {sum, value});
    }

    // What a temporary holds at this place: a point of its own variables alone, so that nothing is computed twice.
    ExprId in_place(Rewriter& self, const Expr& x) {
        const uint32_t e = equation_of_[x.ref];
        const Equation& q = p_.equations[e];
        std::vector<ExprId> key{x.ref};
        for (ExprId a : x.args) key.push_back(self(a));
        if (const auto it = values_.find(key); it != values_.end()) return it->second;
        Rewriter w = rewriter();
        for (size_t d = 0; d < q.at.size(); ++d) {
            const Expr& at = p_.expr(q.at[d]);
            const ExprKind kind = into_.expr(key[d + 1]).kind;
            failed_ |= kind != ExprKind::Literal && kind != ExprKind::Index;
            if (at.kind != ExprKind::Index) continue;
            w.bound.erase(at.ref);
            w.vars[at.ref] = key[d + 1];
        }
        failed_ |= !plans_[e].split.empty();
        // Its variables are its own.
        const auto remainders = std::exchange(remainders_, {});
        const auto ragged = std::exchange(ragged_, {});
        const ExprId r = w(q.rhs);
        remainders_ = remainders;
        ragged_ = ragged;
        values_.emplace(std::move(key), r);
        return r;
    }

    const Program& p_;
    Program into_;
    std::vector<Plan> plans_;             // by equation
    std::vector<uint32_t> equation_of_;   // by tensor: the one that sets it; kNone, kSeveral
    std::set<ExprId> unrolled_;           // reductions
    std::map<std::vector<ExprId>, ExprId> values_;  // of temporaries, by tensor and place
    std::map<VarId, VarId> quotients_;    // of the equation that is being written: cut variables,
    std::map<VarId, int64_t> remainders_; // of the present piece,
    std::set<VarId> ragged_;              // and those that the number does not divide
    bool failed_ = false;
};
}  // namespace

std::optional<Program> write_out_tables(const Program& p) { return Writer(p).run(); }

bool disjoint(const Program& p, const Equation& a, const Equation& b) {
    if (a.lhs != b.lhs || a.update != Update::Overwrite || b.update != Update::Overwrite) return false;
    for (size_t d = 0; d < a.at.size(); ++d) {
        const auto x = affine(p, a.at[d]), y = affine(p, b.at[d]);
        if (!x || !y || x->terms.size() > 1 || y->terms.size() != x->terms.size()) continue;
        const auto apart = (x->offset - y->offset).constant();
        if (!apart || *apart == 0) continue;
        if (x->terms.empty()) return true;
        const auto step = x->terms[0].second.constant(), other = y->terms[0].second.constant();
        if (step && step == other && *step != 0 && *apart % *step != 0) return true;
    }
    return false;
}

}  // namespace opwright::math
