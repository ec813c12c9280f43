#include "math/inline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <optional>

#include "math/facts.h"

namespace opwright::math {
namespace {

// A place where a temporary's value is wanted, once everything between it and a kept equation is substituted.
struct Site {
    size_t equation = 0;
    std::vector<ExprId> at;        // of the scratch program, over the kept equation's variables
    std::vector<VarId> domain;     // variables that the place is evaluated over
    Outside outside = Outside::Error;
    bool inside = false;           // asks whether the element exists, not for its value
    bool operator<(const Site& o) const {
        return std::tie(equation, at, domain, outside, inside) < std::tie(o.equation, o.at, o.domain, o.outside, o.inside);
    }
};

class Inliner {
public:
    Inliner(const Program& p, const InlineOptions& o) : p_(p), o_(o), scratch_(p), sites_(p.tensors.size()),
        definition_(p.tensors.size(), kUndefined), last_write_(p.tensors.size(), 0), taken_(p.tensors.size()),
        dead_(p.equations.size()) {}

    Inlined run() {
        for (size_t e = 0; e < p_.equations.size(); ++e) {
            const TensorId t = p_.equations[e].lhs;
            definition_[t] = definition_[t] == kUndefined ? e : kSeveral;
            last_write_[t] = e;
        }
        for (size_t e = p_.equations.size(); e-- > 0;) decide(e);
        std::reverse(r_.records.begin(), r_.records.end());
        rebuild();
        return std::move(r_);
    }

private:
    static constexpr size_t kUndefined = SIZE_MAX, kSeveral = SIZE_MAX - 1;

    // ---- deciding, from the last equation to the first, so that all readers of a temporary are settled before it
    void decide(size_t e) {
        const Equation& q = p_.equations[e];
        const bool only_equation = p_.tensors[q.lhs].role == Role::Temp && definition_[q.lhs] == e;
        if (only_equation) {
            auto& sites = sites_[q.lhs];
            std::sort(sites.begin(), sites.end());
            sites.erase(std::unique(sites.begin(), sites.end(), [](auto& a, auto& b) { return !(a < b) && !(b < a); }), sites.end());
            std::string reason;
            const bool take = worth(e, sites, reason);
            if (!sites.empty()) r_.records.push_back({p_.tensors[q.lhs].name, take, reason});
            if (take) {
                taken_[q.lhs] = true;
                if (sites.empty()) dead_[e] = true;
                for (const Site& s : sites) pass_on(q, s);
                return;
            }
        }
        const auto direct = [&](ExprId root) {
            for (const Read& r : reads_with_context(p_, root)) {
                std::vector<VarId> domain = q.vars;
                domain.insert(domain.end(), r.reduced.begin(), r.reduced.end());
                add_site(r.expr, indices(p_.expr(r.expr)), {e, {}, std::move(domain)});
            }
        };
        for (ExprId a : q.at) direct(a);
        direct(q.rhs);
    }

    std::vector<ExprId> indices(const Expr& x) const {
        return {x.args.begin(), x.args.begin() + static_cast<std::ptrdiff_t>(p_.tensors[x.ref].shape.size())};
    }

    void add_site(ExprId read, std::vector<ExprId> at, Site s) {
        const Expr& x = p_.expr(read);
        if (p_.tensors[x.ref].role != Role::Temp) return;
        s.at = std::move(at);
        if (x.kind == ExprKind::Inside) s.inside = true;
        else if (x.outside != Outside::Error) s.outside = x.outside;
        sites_[x.ref].push_back(std::move(s));
    }

    // The reads in q's right-hand side, seen from a place where q is substituted.
    void pass_on(const Equation& q, const Site& s) {
        Rewriter rw{.from = p_, .into = scratch_};
        for (size_t i = 0; i < q.at.size(); ++i)
            if (p_.expr(q.at[i]).kind == ExprKind::Index) rw.vars[p_.expr(q.at[i]).ref] = s.at[i];
        for (const Read& r : reads_with_context(p_, q.rhs)) {
            if (p_.tensors[p_.expr(r.expr).ref].role != Role::Temp) continue;
            std::vector<ExprId> at;
            for (ExprId a : indices(p_.expr(r.expr))) {
                for (const Read& n : reads_with_context(p_, a)) rw.tensors[p_.expr(n.expr).ref] = p_.expr(n.expr).ref;
                at.push_back(rw(a));
            }
            add_site(r.expr, std::move(at), {s.equation, {}, s.domain, s.outside, s.inside});
        }
    }

    bool worth(size_t e, const std::vector<Site>& sites, std::string& reason) {
        const Equation& q = p_.equations[e];
        if (sites.empty()) return true;
        if (q.update != Update::Set) return reason = "is assembled piece by piece", false;
        const Work w = work(p_, q.rhs);
        if (w.reduces) return reason = "holds a reduction, which is evaluated once", false;
        if (w.scans) return reason = "holds a scan", false;
        for (TensorId t : p_.reads(q.rhs))
            if (definition_[t] != kUndefined && last_write_[t] > e)
                return reason = fmt::format("{} changes after it is read", p_.tensors[t].name), false;
        const bool edges = std::any_of(sites.begin(), sites.end(), [](auto& s) { return s.inside || s.outside != Outside::Error; });
        if (edges && !permutation(q)) return reason = "is read outside its bounds too", false;
        const auto nodes = static_cast<int>(w.simple + w.divide + w.special + w.loads + 1);
        const auto n = static_cast<int>(sites.size());
        if (added_ + nodes * n > o_.max_nodes) return reason = "the fused expression would be too large", false;

        const bool again = std::any_of(sites.begin(), sites.end(), [&](auto& s) { return repeats(scratch_, s.at, s.domain); });
        bool take = false;
        if (n == 1 && !again) {
            take = true;
            reason = fmt::format("read once, by {}", p_.tensors[p_.equations[sites[0].equation].lhs].name);
        } else if (w.free() && w.all_affine && n <= o_.max_sites) {
            take = true;
            reason = "only moves elements";
        } else if (!again && w.cheap() && w.loads * n <= n + 1 + w.loads && n <= 3) {
            take = true;
            reason = fmt::format("cheap to evaluate at {} places", n);
        } else if (again) {
            reason = "would be evaluated more than once an element";
        } else {
            reason = fmt::format("is read at {} places", n);
        }
        if (take) added_ += nodes * n;
        return take;
    }

    // The right-hand side is another tensor's element with the indices permuted, each dim over its whole extent, so
    // that an index outside one is outside the other.
    bool permutation(const Equation& q) const {
        const Expr& x = p_.expr(q.rhs);
        if (x.kind != ExprKind::Load || x.outside != Outside::Error) return false;
        std::vector<VarId> used;
        for (size_t i = 0; i < x.args.size(); ++i) {
            const Expr& a = p_.expr(x.args[i]);
            if (a.kind != ExprKind::Index || !(p_.vars[a.ref].extent == p_.tensors[x.ref].shape[i])) return false;
            if (std::find(used.begin(), used.end(), a.ref) != used.end()) return false;
            used.push_back(a.ref);
        }
        return used.size() == q.vars.size() && q.vars.size() == q.at.size();
    }

    // ---- rebuilding with the substitutions made
    void rebuild() {
        q_.name = p_.name;
        q_.doc = p_.doc;
        q_.requirements = p_.requirements;
        for (TensorId t : p_.inputs) tensor(t);
        Rewriter rw = rewriter();
        for (size_t e = 0; e < p_.equations.size(); ++e) {
            const Equation& old = p_.equations[e];
            if (dead_[e] || taken_[old.lhs]) continue;
            Equation n = old;
            n.lhs = tensor(old.lhs);
            for (VarId& v : n.vars) {
                rw.vars[v] = q_.index(rw.bind(v));
                v = rw.bound.at(v);
            }
            for (ExprId& a : n.at) a = rw(a);
            n.rhs = rw(old.rhs);
            q_.equations.push_back(std::move(n));
        }
        for (TensorId t : p_.outputs) q_.outputs.push_back(tensor(t));
        r_.program = std::move(q_);
    }

    Rewriter rewriter() {
        Rewriter rw{.from = p_, .into = q_};
        rw.replace = [this](Rewriter& w, ExprId id) -> ExprId {
            const Expr& x = p_.expr(id);
            if (x.kind != ExprKind::Load && x.kind != ExprKind::Inside) return kNone;
            std::vector<ExprId> at;
            for (ExprId a : indices(x)) at.push_back(w(a));
            if (x.kind == ExprKind::Inside) return inside(x.ref, std::move(at));
            return load(x.ref, std::move(at), x.outside, x.outside == Outside::Value ? w(x.args.back()) : kNone);
        };
        return rw;
    }

    TensorId tensor(TensorId t) {
        if (auto it = tensors_.find(t); it != tensors_.end()) return it->second;
        const TensorInfo& i = p_.tensors[t];
        TensorId n;
        if (i.role == Role::Constant) {
            n = q_.add_constant(i.name, i.data);
        } else {
            n = q_.add_tensor(i.name, i.dtype, i.shape, i.role == Role::Input ? Role::Input : Role::Temp);
            q_.tensors[n].role = i.role;  // outputs are listed at the end, in their order
        }
        return tensors_[t] = n;
    }

    Rewriter at_place(const Equation& d, const std::vector<ExprId>& at) {
        Rewriter rw = rewriter();
        for (size_t i = 0; i < d.at.size(); ++i)
            if (p_.expr(d.at[i]).kind == ExprKind::Index) rw.vars[p_.expr(d.at[i]).ref] = at[i];
        return rw;
    }

    ExprId load(TensorId t, std::vector<ExprId> at, Outside o, ExprId fill) {
        if (!taken_[t]) return q_.load(tensor(t), std::move(at), o, fill);
        const Equation& d = p_.equations[definition_[t]];
        if (o != Outside::Error) {
            Rewriter rw = at_place(d, at);
            std::vector<ExprId> moved;
            for (ExprId a : p_.expr(d.rhs).args) moved.push_back(rw(a));
            return load(p_.expr(d.rhs).ref, std::move(moved), o, fill);
        }
        const auto key = std::make_pair(t, at);
        if (auto it = placed_.find(key); it != placed_.end()) return it->second;
        Rewriter rw = at_place(d, at);
        const ExprId r = rw(d.rhs);
        placed_.emplace(key, r);
        return r;
    }

    ExprId inside(TensorId t, std::vector<ExprId> at) {
        if (!taken_[t]) return q_.inside(tensor(t), std::move(at));
        const Equation& d = p_.equations[definition_[t]];
        Rewriter rw = at_place(d, at);
        std::vector<ExprId> moved;
        for (ExprId a : p_.expr(d.rhs).args) moved.push_back(rw(a));
        return inside(p_.expr(d.rhs).ref, std::move(moved));
    }

    const Program& p_;
    const InlineOptions& o_;
    Program scratch_;
    std::vector<std::vector<Site>> sites_;
    std::vector<size_t> definition_, last_write_;
    std::vector<bool> taken_, dead_;
    int added_ = 0;
    Program q_;
    std::unordered_map<TensorId, TensorId> tensors_;
    std::map<std::pair<TensorId, std::vector<ExprId>>, ExprId> placed_;
    Inlined r_;
};
}  // namespace

Inlined inline_temporaries(const Program& p, const InlineOptions& o) { return Inliner(p, o).run(); }

}  // namespace opwright::math
