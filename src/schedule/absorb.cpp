#include <algorithm>

#include "schedule/hoist.h"

namespace opwright::schedule {
using namespace math;

namespace {

bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

// The only access to `t` in the program: the equation that reads it, the Load, and its indices.
struct OnlyRead {
    size_t equation;
    ExprId load;
};
std::optional<OnlyRead> only_read(const Program& p, TensorId t) {
    std::optional<OnlyRead> r;
    for (size_t i = 0; i < p.equations.size(); ++i) {
        const Equation& q = p.equations[i];
        std::vector<bool> seen(p.expr_count());
        std::vector<std::pair<ExprId, bool>> stack{{q.rhs, false}};  // expression, inside a reduction or scan
        for (ExprId a : q.at) stack.push_back({a, true});
        while (!stack.empty()) {
            auto [e, inner] = stack.back();
            stack.pop_back();
            if (seen[e]) continue;
            seen[e] = true;
            const Expr& x = p.expr(e);
            if ((x.kind == ExprKind::Load || x.kind == ExprKind::Inside) && x.ref == t) {
                if (r || inner || x.kind == ExprKind::Inside) return std::nullopt;
                r = OnlyRead{i, e};
            }
            inner |= x.kind == ExprKind::Reduce || x.kind == ExprKind::Scan;
            for (ExprId a : x.args) stack.push_back({a, inner});
        }
    }
    return r;
}

// The equation that alone defines t, if it is a Set of plain indices (or literal 0 where the extent is 1).
std::optional<size_t> only_definition(const Program& p, TensorId t) {
    std::optional<size_t> r;
    for (size_t i = 0; i < p.equations.size(); ++i) {
        if (p.equations[i].lhs != t) continue;
        if (r || p.equations[i].update != Update::Set) return std::nullopt;
        r = i;
    }
    return r;
}

// Substitutes the reduction of one temporary into its only reader; nullopt when there is none to substitute.
std::optional<Program> absorb_one(const Program& p) {
    for (TensorId t = 0; t < p.tensors.size(); ++t) {
        if (p.tensors[t].role != Role::Temp) continue;
        const auto definition = only_definition(p, t);
        const auto read = only_read(p, t);
        if (!definition || !read || read->equation <= *definition) continue;
        const Equation &from = p.equations[*definition], &to = p.equations[read->equation];
        if (to.update != Update::Set || p.expr(from.rhs).kind == ExprKind::Scan ||
            p.expr(to.rhs).kind == ExprKind::Scan)
            continue;
        if (from.vars.size() != to.vars.size()) continue;
        // Every index of the definition is read at another plain index of the reader: the same points, one to one.
        std::map<VarId, VarId> names;
        std::vector<VarId> used;
        bool plain = true;
        const Expr& load = p.expr(read->load);
        for (size_t d = 0; d < from.at.size(); ++d) {
            const Expr &lhs = p.expr(from.at[d]), &at = p.expr(load.args[d]);
            if (lhs.kind != ExprKind::Index) {
                plain &= at.kind == ExprKind::Literal;
                continue;
            }
            if (at.kind != ExprKind::Index || !has(to.vars, at.ref) || has(used, at.ref) ||
                !(p.vars[at.ref].extent == p.vars[lhs.ref].extent)) {
                plain = false;
                break;
            }
            names[lhs.ref] = at.ref;
            used.push_back(at.ref);
        }
        if (!plain || names.size() != from.vars.size()) continue;
        // What the definition reads must not change before the reader.
        const std::vector<TensorId> needs = p.reads(from.rhs);
        bool changed = false;
        for (size_t i = *definition + 1; i < read->equation; ++i)
            changed |= std::find(needs.begin(), needs.end(), p.equations[i].lhs) != needs.end();
        if (changed) continue;

        Program r;
        r.name = p.name;
        r.doc = p.doc;
        r.tensors = p.tensors;
        r.inputs = p.inputs;
        r.outputs = p.outputs;
        r.vars = p.vars;
        const auto rewriter = [&] {
            Rewriter w{.from = p, .into = r};
            for (TensorId x = 0; x < p.tensors.size(); ++x) w.tensors[x] = x;
            for (VarId v = 0; v < p.vars.size(); ++v) w.bound[v] = v;
            return w;
        };
        for (size_t i = 0; i < p.equations.size(); ++i) {
            if (i == *definition) continue;
            Rewriter w = rewriter();
            if (i == read->equation)
                w.replace = [&](Rewriter&, ExprId e) -> ExprId {
                    if (e != read->load) return kNone;
                    Rewriter inner = rewriter();
                    for (auto& [v, n] : names) inner.bound[v] = n;
                    return inner(from.rhs);
                };
            Equation n = p.equations[i];
            for (ExprId& a : n.at) a = w(a);
            n.rhs = w(n.rhs);
            r.equations.push_back(std::move(n));
        }
        return r;
    }
    return std::nullopt;
}
}  // namespace

Program absorb(const Program& p) {
    Program r = p;
    while (auto next = absorb_one(r)) r = std::move(*next);
    return r;
}

}  // namespace opwright::schedule
