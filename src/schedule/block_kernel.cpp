#include "schedule/block_kernel.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "math/unroll.h"

namespace opwright::schedule {
using namespace math;

namespace {

bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

void visit(const Program& p, ExprId root, std::vector<bool>& seen, const std::function<void(const Expr&)>& f) {
    if (seen[root]) return;
    seen[root] = true;
    f(p.expr(root));
    for (ExprId a : p.expr(root).args) visit(p, a, seen, f);
}
void visit(const Program& p, const Equation& q, const std::function<void(const Expr&)>& f) {
    std::vector<bool> seen(p.expr_count());
    for (ExprId a : q.at) visit(p, a, seen, f);
    visit(p, q.rhs, seen, f);
}

// Everything but the equations.
Program shell(const Program& p) {
    Program r;
    r.name = p.name;
    r.doc = p.doc;
    r.tensors = p.tensors;
    r.inputs = p.inputs;
    r.outputs = p.outputs;
    r.vars = p.vars;
    r.requirements = p.requirements;
    return r;
}
Rewriter rewriter(const Program& from, Program& into) {
    Rewriter w{.from = from, .into = into};
    for (TensorId t = 0; t < from.tensors.size(); ++t) w.tensors[t] = t;
    for (VarId v = 0; v < from.vars.size(); ++v) w.bound[v] = v;
    return w;
}

// One name for the row variables of a nest that have the same extent. In an equation that has several of one extent the
// first keeps the first name, the second the second: they stay apart.
class Unifier {
public:
    explicit Unifier(const Kernel& k) : k_(k), p_(k.program) {}

    Kernel run() {
        Kernel r = k_;
        r.program = shell(p_);
        for (Nest& nest : r.nests) {
            names_.clear();
            pool_.clear();
            beside_.clear();
            if (!nest.contraction) {
                for (uint32_t i : nest.equations) note_together(nest, p_.equations[i]);
                for (uint32_t i : nest.equations) equation(nest, p_.equations[i]);
            }
            std::vector<uint32_t> moved;
            for (uint32_t i : nest.equations) {
                Equation q = p_.equations[i];
                Rewriter w = rewriter(p_, r.program);
                for (auto& [v, n] : names_) w.bound[v] = n;
                for (ExprId& a : q.at) a = w(a);
                q.rhs = w(q.rhs);
                for (VarId& v : q.vars)
                    if (auto it = names_.find(v); it != names_.end()) v = it->second;
                moved.push_back(static_cast<uint32_t>(r.program.equations.size()));
                r.program.equations.push_back(std::move(q));
            }
            nest.equations = std::move(moved);
            if (nest.contraction)
                nest.contraction = match_contraction(r.program, r.program.equations[nest.equations[0]]);
        }
        return r;
    }

private:
    std::vector<VarId> own(const Nest& nest, const Equation& q) const {
        std::vector<VarId> r;
        for (VarId v : q.vars)
            if (!has(nest.grid, v)) r.push_back(v);
        return r;
    }
    void equation(const Nest& nest, const Equation& q) {
        name(own(nest, q));
        visit(p_, q, [&](const Expr& x) {
            if (x.kind == ExprKind::Reduce) name(x.vars);
        });
    }

    // Which variables live together: those of an equation, with those of each of its reductions (none holds another: hoist.h).
    // Equations share variables, so that what one says holds for all.
    void note_together(const Nest& nest, const Equation& q) {
        const std::vector<VarId> points = own(nest, q);
        together(points, points);
        visit(p_, q, [&](const Expr& x) {
            if (x.kind != ExprKind::Reduce) return;
            together(x.vars, points);
            together(x.vars, x.vars);
        });
    }
    void together(const std::vector<VarId>& a, const std::vector<VarId>& b) {
        for (VarId x : a)
            for (VarId y : b)
                if (x != y) beside_[x].insert(y), beside_[y].insert(x);
    }

    void name(const std::vector<VarId>& vars) {
        for (VarId v : vars) {
            if (names_.count(v)) continue;
            std::set<VarId> taken;
            for (VarId u : beside_[v])
                if (auto it = names_.find(u); it != names_.end()) taken.insert(it->second);
            const auto same = [&](VarId u) { return p_.vars[u].extent == p_.vars[v].extent && !taken.count(u); };
            const auto found = std::find_if(pool_.begin(), pool_.end(), same);
            names_[v] = found == pool_.end() ? v : *found;
            if (found == pool_.end()) pool_.push_back(v);
        }
    }

    const Kernel& k_;
    const Program& p_;
    std::map<VarId, VarId> names_;
    std::vector<VarId> pool_;                  // the names given in this nest
    std::map<VarId, std::set<VarId>> beside_;  // variables that live together with one, and need other names
};

// Tensors that a nest writes and then reads at other indices than it wrote.
std::set<TensorId> misread(const Kernel& k) {
    const Program& p = k.program;
    std::set<TensorId> r;
    for (const Nest& nest : k.nests) {
        std::map<TensorId, std::vector<ExprId>> written;
        for (uint32_t i : nest.equations) {
            const Equation& q = p.equations[i];
            visit(p, q, [&](const Expr& x) {
                if (x.kind != ExprKind::Load) return;
                const auto w = written.find(x.ref);
                if (w == written.end()) return;
                const auto rank = static_cast<long>(w->second.size());
                if (!std::equal(x.args.begin(), x.args.begin() + rank, w->second.begin())) r.insert(x.ref);
            });
            written[q.lhs] = q.at;
        }
    }
    return r;
}

// Tensors that pass from a flat map to equations that run over further variables: nothing is gained by doing both at
// one point of the grid, and the further variables would no longer run side by side.
std::set<TensorId> narrow(const Kernel& k) {
    const Program& p = k.program;
    std::set<TensorId> r, written;
    for (const Nest& nest : k.nests) {
        written.clear();
        for (uint32_t i : nest.equations) {
            const Equation& q = p.equations[i];
            bool folds = false;
            visit(p, q, [&](const Expr& x) { folds |= x.kind == ExprKind::Reduce || x.kind == ExprKind::Scan; });
            if (folds) break;
            if (q.vars.size() > nest.grid.size())
                for (TensorId t : p.reads(q.rhs))
                    if (written.count(t)) r.insert(t);
            written.insert(q.lhs);
        }
    }
    return r;
}

// A temporary of a nest that has a row variable among its indices; kNone: there is none.
TensorId row_local(const Kernel& k) {
    for (const Nest& nest : k.nests)
        for (TensorId t : nest.local)
            for (uint32_t i : nest.equations) {
                const Equation& q = k.program.equations[i];
                if (q.lhs == t &&
                    std::any_of(q.vars.begin(), q.vars.end(), [&](VarId v) { return !has(nest.grid, v); }))
                    return t;
            }
    return kNone;
}

// p with the equation of t substituted into every read; nullopt where that would repeat a reduction or a scan.
std::optional<Program> substitute(const Program& p, TensorId t) {
    const Equation* definition = nullptr;
    for (const Equation& q : p.equations)
        if (q.lhs == t) {
            if (definition || q.update != Update::Set) return std::nullopt;
            definition = &q;
        }
    if (!definition) return std::nullopt;
    bool movable = true;
    visit(p, *definition, [&](const Expr& x) {
        if (x.kind == ExprKind::Reduce || x.kind == ExprKind::Scan) movable = false;
    });
    for (const Equation& q : p.equations)
        visit(p, q, [&](const Expr& x) {
            if (x.ref == t && (x.kind == ExprKind::Inside || (x.kind == ExprKind::Load && x.outside != Outside::Error)))
                movable = false;
        });
    if (!movable) return std::nullopt;

    Program r = shell(p);
    for (const Equation& q : p.equations) {
        if (&q == definition) continue;
        Rewriter w = rewriter(p, r);
        w.replace = [&](Rewriter& outer, ExprId e) -> ExprId {
            const Expr& x = p.expr(e);
            if (x.kind != ExprKind::Load || x.ref != t) return kNone;
            Rewriter inner = rewriter(p, r);
            for (size_t d = 0; d < definition->at.size(); ++d)
                if (const Expr& lhs = p.expr(definition->at[d]); lhs.kind == ExprKind::Index) {
                    inner.bound.erase(lhs.ref);
                    inner.vars[lhs.ref] = outer(x.args[d]);
                }
            inner.replace = outer.replace;
            return inner(definition->rhs);
        };
        Equation n = q;
        for (ExprId& a : n.at) a = w(a);
        n.rhs = w(q.rhs);
        r.equations.push_back(std::move(n));
    }
    return r;
}
}  // namespace

Kernel with_shared_rows(const Kernel& k) { return Unifier(k).run(); }

Kernel form_block_kernel(const Program& p, bool recompute) {
    std::set<TensorId> apart;
    Program program = unroll_tables(p);
    for (;;) {
        Kernel k = Unifier(form_kernel(program, {}, apart)).run();
        const size_t known = apart.size();
        // form_kernel keeps the ids of the tensors it is given; those that it adds itself are not kept apart.
        for (TensorId t : misread(k)) apart.insert(t);
        for (TensorId t : narrow(k)) apart.insert(t);
        const TensorId row = recompute ? row_local(k) : kNone;
        if (row != kNone && apart.size() == known) {
            if (auto without = substitute(k.program, row)) {
                program = std::move(*without);
                continue;
            }
            apart.insert(row);
        }
        if (apart.size() == known) return k;
        program = k.program;
    }
}

}  // namespace opwright::schedule
