#include "schedule/hoist.h"

#include <algorithm>
#include <set>

namespace opwright::schedule {
using namespace math;

namespace {

class Hoister {
public:
    explicit Hoister(const Program& p) : from_(p) {}

    Program run() {
        into_.name = from_.name;
        into_.doc = from_.doc;
        into_.tensors = from_.tensors;
        into_.inputs = from_.inputs;
        into_.outputs = from_.outputs;
        into_.vars = from_.vars;
        for (const Equation& q : from_.equations) equation(q);
        return std::move(into_);
    }

private:
    Rewriter rewriter() {
        Rewriter w{.from = from_, .into = into_};
        for (TensorId t = 0; t < from_.tensors.size(); ++t) w.tensors[t] = t;
        return w;
    }

    void equation(const Equation& q) {
        Rewriter w = rewriter();
        for (VarId v : q.vars) w.vars[v] = into_.index(v);
        bool whole = true;  // at the root of the right-hand side, outside any index
        w.replace = [&](Rewriter& self, ExprId e) -> ExprId {
            if (from_.expr(e).kind != ExprKind::Reduce) return kNone;
            std::vector<VarId> free = from_.free_vars(e);
            const bool same = whole && free.size() == q.vars.size() && q.update == Update::Set;
            return same ? flatten(self, e) : temporary(self, e, std::move(free));
        };
        Equation n = q;
        whole = false;
        for (ExprId& a : n.at) a = w(a);
        whole = true;
        // A reduction inside an index of a load is met through the same hook; it is a temporary there as well, because
        // only the body of a kept reduction and the epilogue around it are evaluated at a point of the equation.
        n.rhs = w(q.rhs);
        into_.equations.push_back(std::move(n));
    }

    // Keeps the Reduce at its place, with directly nested sums merged and inner reductions made temporaries.
    ExprId flatten(Rewriter& outer, ExprId e) {
        const Expr x = from_.expr(e);
        std::vector<VarId> vars = x.vars;
        ExprId body = x.args[0];
        ExprId condition = x.args.size() > 1 ? x.args[1] : kNone;
        while (condition == kNone && !is_arg(x.reduce)) {
            const Expr& b = from_.expr(body);
            if (b.kind != ExprKind::Reduce || b.reduce != x.reduce || b.dtype != x.dtype || b.args.size() > 1) break;
            if (from_.expr(b.args[0]).dtype != x.dtype) break;
            vars.insert(vars.end(), b.vars.begin(), b.vars.end());
            body = b.args[0];
        }
        Rewriter inner = rewriter();
        inner.vars = outer.vars;
        for (VarId v : vars) inner.vars[v] = into_.index(v);
        inner.replace = [this](Rewriter& self, ExprId r) -> ExprId {
            return from_.expr(r).kind == ExprKind::Reduce ? temporary(self, r, from_.free_vars(r)) : kNone;
        };
        const ExprId b = inner(body);
        const ExprId c = condition == kNone ? kNone : inner(condition);
        return into_.reduce(x.reduce, std::move(vars), b, x.dtype, c);
    }

    // t[f...] = the reduction, over fresh variables f; answers with a load of t at the present ones.
    ExprId temporary(Rewriter& user, ExprId e, std::vector<VarId> free) {
        TensorId t;
        if (auto it = made_.find(e); it != made_.end()) {
            t = it->second;
        } else {
            std::vector<Sym> shape;
            for (VarId v : free) shape.push_back(from_.vars[v].extent);
            const std::string base(math::name(from_.expr(e).reduce));
            t = into_.add_tensor(base + std::to_string(made_.size()), from_.expr(e).dtype, shape, Role::Temp);
            made_.emplace(e, t);
            Rewriter w = rewriter();
            std::vector<ExprId> at;
            for (VarId v : free) {
                w.vars[v] = into_.index(into_.add_var(from_.vars[v].name, from_.vars[v].extent));
                at.push_back(w.vars[v]);
            }
            const ExprId rhs = flatten(w, e);
            into_.add_equation(t, std::move(at), rhs);
        }
        std::vector<ExprId> at;
        for (VarId v : free) at.push_back(user.vars.at(v));
        return into_.load(t, std::move(at));
    }

    const Program& from_;
    Program into_;
    std::unordered_map<ExprId, TensorId> made_;
};

// All accesses of an equation: tensor and indices (without fills).
struct AccessOf {
    TensorId tensor;
    std::vector<ExprId> at;
};
void collect_accesses(const Program& p, ExprId e, std::set<ExprId>& seen, std::vector<AccessOf>& out,
                      std::set<VarId>& values, bool index_position) {
    if (!seen.insert(e).second) return;
    const Expr& x = p.expr(e);
    if (x.kind == ExprKind::Index && !index_position) values.insert(x.ref);
    if (x.kind == ExprKind::Load || x.kind == ExprKind::Inside) {
        const size_t rank = p.tensors[x.ref].shape.size();
        out.push_back({x.ref, {x.args.begin(), x.args.begin() + static_cast<long>(rank)}});
        for (size_t i = 0; i < x.args.size(); ++i) {
            if (i < rank && p.expr(x.args[i]).kind == ExprKind::Index) continue;
            collect_accesses(p, x.args[i], seen, out, values, false);
        }
        return;
    }
    if (x.kind == ExprKind::Scan) values.insert(x.vars[0]);
    if (x.kind == ExprKind::Reduce && is_arg(x.reduce)) values.insert(x.vars.begin(), x.vars.end());
    for (ExprId a : x.args) collect_accesses(p, a, seen, out, values, false);
}

// Merges variables a and b (a outside b) in a program of one equation; nullopt when some access forbids it.
std::optional<Program> merge_pair(const Program& p, VarId a, VarId b) {
    const Equation& q = p.equations[0];
    std::vector<AccessOf> accesses{{q.lhs, q.at}};
    std::set<ExprId> seen;
    std::set<VarId> values;
    collect_accesses(p, q.rhs, seen, accesses, values, false);
    if (values.count(a) || values.count(b)) return std::nullopt;

    // Where each tensor is merged: the dim of `a`, or -1 for tensors that use neither. Every access must agree.
    std::unordered_map<TensorId, int> merged_dim;
    for (const AccessOf& x : accesses) {
        int at = -1;
        for (size_t d = 0; d < x.at.size(); ++d) {
            const Expr& e = p.expr(x.at[d]);
            const bool is_a = e.kind == ExprKind::Index && e.ref == a, is_b = e.kind == ExprKind::Index && e.ref == b;
            if (is_a) {
                if (at >= 0 || d + 1 >= x.at.size()) return std::nullopt;
                const Expr& n = p.expr(x.at[d + 1]);
                if (n.kind != ExprKind::Index || n.ref != b) return std::nullopt;
                if (!(p.tensors[x.tensor].shape[d] == p.vars[a].extent)) return std::nullopt;
                if (!(p.tensors[x.tensor].shape[d + 1] == p.vars[b].extent)) return std::nullopt;
                at = static_cast<int>(d++);
            } else if (is_b) {
                return std::nullopt;
            } else {
                for (VarId v : p.free_vars(x.at[d]))
                    if (v == a || v == b) return std::nullopt;
            }
        }
        auto [it, fresh] = merged_dim.emplace(x.tensor, at);
        if (!fresh && it->second != at) return std::nullopt;
    }

    Program r;
    r.name = p.name;
    r.doc = p.doc;
    r.tensors = p.tensors;
    r.inputs = p.inputs;
    r.outputs = p.outputs;
    r.vars = p.vars;
    const VarId ab = r.add_var(p.vars[a].name + p.vars[b].name, p.vars[a].extent * p.vars[b].extent);
    for (auto& [t, d] : merged_dim) {
        if (d < 0) continue;
        auto& shape = r.tensors[t].shape;
        shape[static_cast<size_t>(d)] = shape[static_cast<size_t>(d)] * shape[static_cast<size_t>(d) + 1];
        shape.erase(shape.begin() + d + 1);
    }
    Rewriter w{.from = p, .into = r};
    for (TensorId t = 0; t < p.tensors.size(); ++t) w.tensors[t] = t;
    for (VarId v = 0; v < p.vars.size(); ++v) w.vars[v] = r.index(v);
    const auto drop = [](std::vector<ExprId> at, int d, ExprId merged) {
        at[static_cast<size_t>(d)] = merged;
        at.erase(at.begin() + d + 1);
        return at;
    };
    w.replace = [&](Rewriter& self, ExprId e) -> ExprId {
        const Expr x = p.expr(e);
        if (x.kind == ExprKind::Reduce) {
            std::vector<VarId> vs;
            for (VarId v : x.vars)
                if (v == a)
                    vs.push_back(ab);
                else if (v != b)
                    vs.push_back(v);
            const ExprId body = self(x.args[0]);
            const ExprId condition = x.args.size() > 1 ? self(x.args[1]) : kNone;
            return r.reduce(x.reduce, std::move(vs), body, x.dtype, condition);
        }
        if (x.kind != ExprKind::Load && x.kind != ExprKind::Inside) return kNone;
        auto it = merged_dim.find(x.ref);
        if (it == merged_dim.end() || it->second < 0) return kNone;
        std::vector<ExprId> args;
        for (ExprId y : x.args) args.push_back(self(y));
        if (x.kind == ExprKind::Inside) return r.inside(x.ref, drop(std::move(args), it->second, r.index(ab)));
        ExprId fill = kNone;
        if (x.outside == Outside::Value) {
            fill = args.back();
            args.pop_back();
        }
        return r.load(x.ref, drop(std::move(args), it->second, r.index(ab)), x.outside, fill);
    };
    Equation n = q;
    n.at.clear();
    for (ExprId e : q.at) n.at.push_back(w(e));
    if (merged_dim.at(q.lhs) >= 0) n.at = drop(std::move(n.at), merged_dim.at(q.lhs), r.index(ab));
    n.rhs = w(q.rhs);
    n.vars.clear();
    for (VarId v : q.vars)
        if (v == a)
            n.vars.push_back(ab);
        else if (v != b)
            n.vars.push_back(v);
    r.equations.push_back(std::move(n));
    return r;
}
}  // namespace

Program hoist(const Program& p) { return Hoister(p).run(); }

Program collapse(const Program& p) {
    if (p.equations.size() != 1) return p;
    Program r = p;
    for (bool changed = true; changed;) {
        changed = false;
        std::vector<std::vector<VarId>> runs{r.equations[0].vars};
        for (ExprId e = 0; e < r.expr_count(); ++e)
            if (r.expr(e).kind == ExprKind::Reduce && !is_arg(r.expr(e).reduce)) runs.push_back(r.expr(e).vars);
        for (auto& run : runs)
            for (size_t i = 0; i + 1 < run.size() && !changed; ++i)
                if (auto m = merge_pair(r, run[i], run[i + 1])) {
                    r = std::move(*m);
                    changed = true;
                }
    }
    return r;
}

}  // namespace opwright::schedule
