#include "derive/halo.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

namespace opwright::derive {
using namespace math;
namespace {

// Follows one dim of the output back to the inputs.
class Follower {
public:
    explicit Follower(const Program& p) : p_(p) {}

    std::optional<Halo> run(size_t dim) {
        wanted_[p_.outputs[0]] = {false, dim, 1, 0, 0};
        for (size_t i = p_.equations.size(); i-- > 0;)
            if (!equation(p_.equations[i])) return std::nullopt;
        Halo h{dim, {}};
        bool overlap = false;
        for (TensorId t : p_.inputs) {
            const auto w = wanted_.find(t);
            h.inputs.push_back(w == wanted_.end() ? HaloInput{} : w->second);
            const HaloInput& x = h.inputs.back();
            if (!x.whole && !grows(t, x, dim)) return std::nullopt;
            overlap = overlap || (!x.whole && !(x.step == 1 && x.before.is(0) && x.after.is(0)));
        }
        return overlap ? std::optional(std::move(h)) : std::nullopt;
    }

private:
    // Whether the output grows with what is read along the dim, so that a part of one gives a part of the other, and
    // windows are the same wherever they stand.
    bool grows(TensorId t, const HaloInput& x, size_t dim) const {
        std::vector<std::string> own, result, window;
        collect_symbols(p_.tensors[t].shape[x.dim], own);
        collect_symbols(p_.tensors[p_.outputs[0]].shape[dim], result);
        collect_symbols(x.before, window);
        collect_symbols(x.after, window);
        const auto has = [](const std::vector<std::string>& l, const std::string& n) {
            return std::find(l.begin(), l.end(), n) != l.end();
        };
        return !own.empty() && std::all_of(own.begin(), own.end(),
                                           [&](const std::string& n) { return has(result, n) && !has(window, n); });
    }
    bool equation(const Equation& q) {
        const auto w = wanted_.find(q.lhs);
        if (w == wanted_.end()) return true;
        const HaloInput here = w->second;
        if (here.whole) {
            for (TensorId t : p_.reads(q.rhs))
                if (!want(t, {})) return false;
            return true;
        }
        const Expr& at = p_.expr(q.at[here.dim]);
        if (q.update != Update::Set || at.kind != ExprKind::Index) return false;
        var_ = at.ref;
        here_ = here;
        seen_.assign(p_.expr_count(), false);
        return value(q.rhs);
    }
    bool contains(ExprId e) const {
        const auto free = p_.free_vars(e);
        return std::find(free.begin(), free.end(), var_) != free.end();
    }
    // Whether e can be computed in parts, its index variable being var_.
    bool value(ExprId id) {
        if (seen_[id]) return true;
        seen_[id] = true;
        const Expr& e = p_.expr(id);
        switch (e.kind) {
            case ExprKind::Literal: return true;
            case ExprKind::Index: return e.ref != var_;
            case ExprKind::Size: return !of_axis(e.sym);
            case ExprKind::Scan: return e.vars[0] != var_ && value(e.args[0]);
            case ExprKind::Load:
            case ExprKind::Inside: {
                const size_t rank = p_.tensors[e.ref].shape.size();
                for (size_t a = rank; a < e.args.size(); ++a)
                    if (!value(e.args[a])) return false;
                return access(e, rank);
            }
            default: return std::all_of(e.args.begin(), e.args.end(), [&](ExprId a) { return value(a); });
        }
    }
    // A number that counts elements along the axis would be that of a part.
    bool of_axis(const Sym& s) const {
        std::vector<std::string> used, axis;
        collect_symbols(s, used);
        collect_symbols(p_.vars[var_].extent, axis);
        return std::any_of(used.begin(), used.end(),
                           [&](const std::string& n) { return std::find(axis.begin(), axis.end(), n) != axis.end(); });
    }
    bool access(const Expr& e, size_t rank) {
        std::optional<size_t> along;
        for (size_t d = 0; d < rank; ++d) {
            for (TensorId t : p_.reads(e.args[d]))
                if (!want(t, {})) return false;
            if (!contains(e.args[d])) continue;
            if (along) return false;
            along = d;
        }
        if (!along) return want(e.ref, {});
        const auto f = affine(p_, e.args[*along]);
        const auto step = f ? f->coefficient(var_).constant() : std::nullopt;
        if (!step || *step < 1) return false;
        if (e.outside != Outside::Error && e.outside != Outside::Value && e.outside != Outside::Clamp) return false;
        Sym low = f->offset, high = f->offset;
        for (const auto& [v, k] : f->terms) {
            if (v == var_) continue;
            const Sym last = k * (p_.vars[v].extent - Sym(1));
            if (k.lower() >= 0)
                high = high + last;
            else if (k.upper() <= 0)
                low = low + last;
            else
                return false;
        }
        return want(e.ref, {false, *along, *step * here_.step, low + Sym(*step) * here_.before,
                            high + Sym(*step) * here_.after});
    }
    bool want(TensorId t, const HaloInput& h) {
        if (p_.tensors[t].role == Role::Constant) return h.whole;
        const auto [it, fresh] = wanted_.emplace(t, h);
        HaloInput& have = it->second;
        if (fresh) return true;
        if (have.whole || h.whole) return have.whole == h.whole;
        if (have.dim != h.dim || have.step != h.step) return false;
        have.before = math::min(have.before, h.before);
        have.after = math::max(have.after, h.after);
        return true;
    }

    const Program& p_;
    std::map<TensorId, HaloInput> wanted_;
    VarId var_ = kNone;
    HaloInput here_;
    std::vector<bool> seen_;
};
}  // namespace

std::vector<Halo> halos(const Program& p) {
    std::vector<Halo> r;
    if (p.outputs.size() != 1) return r;
    for (size_t d = 0; d < p.tensors[p.outputs[0]].shape.size(); ++d)
        if (auto h = Follower(p).run(d)) r.push_back(std::move(*h));
    return r;
}

std::string print_halos(const Program& p) {
    std::string r;
    for (const Halo& h : halos(p)) {
        std::string inputs;
        for (size_t i = 0; i < h.inputs.size(); ++i) {
            const HaloInput& x = h.inputs[i];
            inputs += (inputs.empty() ? "" : "; ") + p.tensors[p.inputs[i]].name;
            inputs += x.whole ? " whole"
                              : fmt::format(" by dim {}, {} a result, from {} to {}", x.dim, x.step, x.before.str(),
                                            x.after.str());
        }
        r += fmt::format("{} by dim {}: {}\n", p.tensors[p.outputs[0]].name, h.dim, inputs);
    }
    return r;
}

}  // namespace opwright::derive
