#include "derive/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace opwright::derive {
using namespace math;
namespace {

// Dims of tensors and variables of equations, joined where one indexes the other.
class Axes {
public:
    explicit Axes(const Program& p) : p_(p) {
        for (const TensorInfo& t : p.tensors) {
            first_.push_back(parent_.size());
            for (size_t d = 0; d < t.shape.size(); ++d) add(t.shape[d]);
        }
        for (size_t i = 0; i < p.equations.size(); ++i) equation(i);
        sizes();
    }

    std::vector<Sharding> run() {
        std::vector<Sharding> r;
        std::map<size_t, bool> done;
        const auto consider = [&](TensorId t, size_t d) {
            const size_t root = find(first_[t] + d);
            if (done[root] || bad_[root] || extent_[first_[t] + d].is(1)) return;
            done[root] = true;
            if (auto s = rule(root, t, d)) r.push_back(std::move(*s));
        };
        for (TensorId t : p_.inputs)
            for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d) consider(t, d);
        for (TensorId t : p_.outputs)
            for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d) consider(t, d);
        return r;
    }

private:
    size_t add(const Sym& extent) {
        parent_.push_back(parent_.size());
        extent_.push_back(extent);
        bad_.push_back(false);
        return parent_.size() - 1;
    }
    size_t find(size_t i) {
        while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
        return i;
    }
    void join(size_t a, size_t b) {
        const bool differ = !(extent_[a] == extent_[b]);
        a = find(a);
        b = find(b);
        const bool bad = bad_[a] || bad_[b] || differ;
        parent_[a] = b;
        bad_[b] = bad;
    }
    void refuse(size_t i) { bad_[find(i)] = true; }

    // A size is one number: what is as long as `n` is cut together, whether one indexes the other or not (the two factors
    // of a gradient, an input that gives sizes only), and what a size is a part of, as in (n + 1)//2, can't be cut.
    void sizes() {
        std::map<std::string, size_t> first;
        for (size_t i = 0; i < extent_.size(); ++i) {
            std::vector<std::string> names;
            collect_symbols(extent_[i], names);
            for (const std::string& n : names) join(i, first.emplace(n, i).first->second);  // refused where they differ
        }
    }

    void equation(size_t i) {
        const Equation& q = p_.equations[i];
        std::map<VarId, size_t> node;
        const auto of = [&](VarId v) {
            const auto it = node.find(v);
            return it != node.end() ? it->second : node[v] = add(p_.vars[v].extent);
        };
        const auto access = [&](TensorId t, const std::vector<ExprId>& at) {
            std::vector<VarId> seen;
            for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d) {
                const Expr& e = p_.expr(at[d]);
                if (e.kind == ExprKind::Index) {
                    join(of(e.ref), first_[t] + d);
                    if (std::find(seen.begin(), seen.end(), e.ref) != seen.end()) refuse(of(e.ref));  // x[i,i]
                    seen.push_back(e.ref);
                } else {
                    refuse(first_[t] + d);
                    for (VarId v : p_.free_vars(at[d])) refuse(of(v));
                }
            }
        };
        access(q.lhs, q.at);
        std::vector<bool> visited(p_.expr_count());
        const std::function<void(ExprId, bool)> walk = [&](ExprId id, bool as_index) {
            const Expr& e = p_.expr(id);
            if (e.kind == ExprKind::Index) {
                if (!as_index) refuse(of(e.ref));  // its number matters
                return;
            }
            if (visited[id]) return;
            visited[id] = true;
            if (e.kind == ExprKind::Load || e.kind == ExprKind::Inside) {
                access(e.ref, e.args);
                const size_t rank = p_.tensors[e.ref].shape.size();
                for (size_t a = 0; a < e.args.size(); ++a) walk(e.args[a], a < rank);
                return;
            }
            if (e.kind == ExprKind::Scan || (e.kind == ExprKind::Reduce && is_arg(e.reduce)))
                for (VarId v : e.vars) refuse(of(v));
            if (e.kind == ExprKind::Reduce && id != q.rhs)
                for (VarId v : e.vars) refuse(of(v));
            if (e.kind == ExprKind::Size) refuse_extents(e.sym);
            for (ExprId a : e.args) walk(a, false);
        };
        for (ExprId a : q.at) walk(a, true);
        walk(q.rhs, false);
        const Expr& rhs = p_.expr(q.rhs);
        if (rhs.kind == ExprKind::Reduce)
            for (VarId v : rhs.vars) reduced_.push_back({of(v), i});
        if (q.update != Update::Set)  // several writes meet: an index that is not on the left is reduced
            for (VarId v : q.vars)
                if (std::none_of(q.at.begin(), q.at.end(),
                                 [&](ExprId a) { return p_.expr(a).kind == ExprKind::Index && p_.expr(a).ref == v; }))
                    refuse(of(v));
    }
    // A number that counts elements would be that of a part.
    void refuse_extents(const Sym& s) {
        std::vector<std::string> names;
        collect_symbols(s, names);
        for (size_t i = 0; i < extent_.size(); ++i) {
            std::vector<std::string> own;
            collect_symbols(extent_[i], own);
            for (const std::string& n : own)
                if (std::find(names.begin(), names.end(), n) != names.end()) refuse(i);
        }
    }

    std::optional<Sharding> rule(size_t root, TensorId of, size_t dim) {
        // Tensors that hold partial results; they may only be handed on.
        std::map<TensorId, ReduceOp> partial;
        for (const auto& [v, i] : reduced_)
            if (find(v) == root) partial[p_.equations[i].lhs] = p_.expr(p_.equations[i].rhs).reduce;
        for (const Equation& q : p_.equations) {
            for (TensorId t : p_.reads(q.rhs)) {
                if (!partial.count(t)) continue;
                const bool copied = p_.expr(q.rhs).kind == ExprKind::Load && q.update == Update::Set;
                if (!copied) return std::nullopt;
                partial[q.lhs] = partial[t];
            }
            if (partial.count(q.lhs) && q.update != Update::Set) return std::nullopt;
        }
        const auto placement = [&](TensorId t) -> std::optional<Placement> {
            if (partial.count(t)) return Placement{Placement::Kind::Partial, 0, partial[t]};
            std::optional<Placement> r = Placement{};
            for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d) {
                if (find(first_[t] + d) != root) continue;
                if (r->kind == Placement::Kind::Sharded) return std::nullopt;  // along two dims at once
                r = Placement{Placement::Kind::Sharded, d, ReduceOp::Sum};
            }
            return r;
        };
        Sharding s;
        s.axis = p_.tensors[of].shape[dim].kind() == SymKind::Symbol
                     ? p_.tensors[of].shape[dim].symbol_name()
                     : fmt::format("dim {} of {}", dim, p_.tensors[of].name);
        for (TensorId t = 0; t < p_.tensors.size(); ++t) {
            const auto pl = placement(t);
            if (!pl || (p_.tensors[t].role == Role::Constant && pl->kind != Placement::Kind::Replicated))
                return std::nullopt;
        }
        for (TensorId t : p_.inputs) s.inputs.push_back(*placement(t));
        for (TensorId t : p_.outputs) s.outputs.push_back(*placement(t));
        return s;
    }

    const Program& p_;
    std::vector<size_t> first_, parent_;
    std::vector<Sym> extent_;
    std::vector<bool> bad_;
    std::vector<std::pair<size_t, size_t>> reduced_;  // a variable's node, the equation that reduces it
};
}  // namespace

std::vector<Sharding> shardings(const Program& p) { return Axes(p).run(); }

std::string print_shardings(const Program& p) {
    std::string r;
    for (const Sharding& s : shardings(p)) {
        const auto list = [&](const std::vector<TensorId>& ts, const std::vector<Placement>& at) {
            std::string l;
            for (size_t i = 0; i < ts.size(); ++i) {
                const std::string& n = p.tensors[ts[i]].name;
                l += l.empty() ? "" : ", ";
                if (at[i].kind == Placement::Kind::Sharded)
                    l += fmt::format("{} by dim {}", n, at[i].dim);
                else if (at[i].kind == Placement::Kind::Partial)
                    l += fmt::format("{} as partial results, to be combined by {}", n, name(at[i].op));
                else
                    l += n + " whole";
            }
            return l;
        };
        r += fmt::format("{}: {} -> {}\n", s.axis, list(p.inputs, s.inputs), list(p.outputs, s.outputs));
    }
    return r;
}

}  // namespace opwright::derive
