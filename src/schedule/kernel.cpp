#include "schedule/kernel.h"
#include "schedule/window.h"

#include <algorithm>

#include "math/pieces.h"
#include "schedule/hoist.h"

namespace opwright::schedule {
using namespace math;

namespace {

bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

struct Read {
    TensorId tensor;
    std::vector<ExprId> at;
};
std::vector<Read> reads_of(const Program& p, ExprId root) {
    std::vector<Read> r;
    std::vector<bool> seen(p.expr_count());
    std::vector<ExprId> stack{root};
    while (!stack.empty()) {
        const ExprId e = stack.back();
        stack.pop_back();
        if (seen[e]) continue;
        seen[e] = true;
        const Expr& x = p.expr(e);
        if (x.kind == ExprKind::Load)
            r.push_back({x.ref, {x.args.begin(), x.args.begin() + static_cast<long>(p.tensors[x.ref].shape.size())}});
        for (ExprId a : x.args) stack.push_back(a);
    }
    return r;
}
VarId scan_var(const Program& p, const Equation& q) {
    return p.expr(q.rhs).kind == ExprKind::Scan ? p.expr(q.rhs).vars[0] : kNone;
}

// Whether q runs over v, as a variable of its left side or of a reduction.
bool occurs(const Program& p, const Equation& q, VarId v) {
    if (has(q.vars, v)) return true;
    std::vector<bool> seen(p.expr_count());
    std::vector<ExprId> stack{q.rhs};
    while (!stack.empty()) {
        const ExprId e = stack.back();
        stack.pop_back();
        if (seen[e]) continue;
        seen[e] = true;
        const Expr& x = p.expr(e);
        if (has(x.vars, v) || (x.kind == ExprKind::Index && x.ref == v)) return true;
        stack.insert(stack.end(), x.args.begin(), x.args.end());
    }
    return false;
}

// A nest being grown. Grid variables are those of its first equation; `names` maps each later equation's variables.
struct Growing {
    std::vector<uint32_t> equations;
    std::vector<VarId> grid;
    std::vector<std::map<VarId, VarId>> names;       // per equation: its variable -> grid variable
    std::map<TensorId, std::vector<VarId>> written;  // per dim the grid variable there, or kNone
    bool closed = false;                             // takes no further equation
    bool pieces = false;                             // of one tensor: takes further ones
};

class Former {
public:
    Former(const Program& p, const std::set<TensorId>& apart, bool single_row)
        : p_(p), apart_(apart), single_row_(single_row) {}

    Kernel run() {
        for (uint32_t i = 0; i < p_.equations.size(); ++i)
            if (nests_.empty() || !join(nests_.back(), i)) open(i);
        return build();
    }

private:
    std::optional<Contraction> match(const Equation& q) const {
        return single_row_ ? match_contraction_or_row(p_, q) : match_contraction(p_, q);
    }
    void open(uint32_t i) {
        const Equation& q = p_.equations[i];
        Growing n;
        n.equations = {i};
        n.grid = q.update == Update::Set ? q.vars : independent_vars(p_, q);
        std::erase(n.grid, scan_var(p_, q));
        n.closed = q.update != Update::Set || match(q).has_value();
        n.pieces = q.update == Update::Overwrite && n.grid == q.vars;
        n.names.emplace_back();
        for (VarId v : n.grid) n.names[0][v] = v;
        record(n, q, n.names[0]);
        nests_.push_back(std::move(n));
    }

    void record(Growing& n, const Equation& q, const std::map<VarId, VarId>& names) {
        std::vector<VarId> dims;
        for (ExprId a : q.at) {
            const Expr& e = p_.expr(a);
            auto it = e.kind == ExprKind::Index ? names.find(e.ref) : names.end();
            dims.push_back(it == names.end() ? kNone : it->second);
        }
        n.written[q.lhs] = std::move(dims);
    }

    // Whether q sets further elements of the tensor that the nest makes piece by piece, at the same points, and reads none of it.
    bool is_piece(const Growing& n, const Equation& q) const {
        if (q.update != Update::Overwrite || q.vars != n.grid || independent_vars(p_, q) != n.grid) return false;
        const std::vector<TensorId> reads = p_.reads(q.rhs);
        return std::find(reads.begin(), reads.end(), q.lhs) == reads.end() &&
               std::all_of(n.equations.begin(), n.equations.end(), [&](uint32_t e) { return disjoint(p_, p_.equations[e], q); });
    }

    bool join(Growing& n, uint32_t i) {
        const Equation& q = p_.equations[i];
        if (n.pieces && is_piece(n, q)) {
            n.equations.push_back(i);
            n.names.push_back(n.names[0]);
            return true;
        }
        if (n.closed || q.update != Update::Set || match(q)) return false;
        if (n.written.count(q.lhs)) return false;
        std::map<VarId, VarId> names;
        std::set<VarId> lost;
        bool reads_nest = false;
        for (const Read& r : reads_of(p_, q.rhs)) {
            auto w = n.written.find(r.tensor);
            if (w == n.written.end()) continue;
            if (apart_.count(r.tensor)) return false;
            reads_nest = true;
            for (size_t d = 0; d < r.at.size(); ++d) {
                const VarId g = w->second[d];
                const Expr& e = p_.expr(r.at[d]);
                // A temporary of one nest needs no dims of extent 1, where nothing is read beside them.
                if (p_.tensors[r.tensor].shape[d].is(1) && e.kind != ExprKind::Literal) return false;
                if (g == kNone) continue;
                // Another extent is another set of points, however the access treats what lies outside.
                const bool plain = e.kind == ExprKind::Index && has(q.vars, e.ref) && e.ref != scan_var(p_, q) &&
                                   p_.vars[e.ref].extent == p_.vars[g].extent;
                if (!plain) {
                    lost.insert(g);
                    continue;
                }
                auto [it, fresh] = names.emplace(e.ref, g);
                if (!fresh && it->second != g) {
                    lost.insert(g);
                    lost.insert(it->second);
                }
                for (auto& [v, other] : names)
                    if (other == g && v != e.ref) lost.insert(g);
            }
        }
        if (!reads_nest) return false;
        std::vector<VarId> grid;
        for (VarId g : n.grid)
            if (!lost.count(g) && std::any_of(names.begin(), names.end(), [&](auto& x) { return x.second == g; }))
                grid.push_back(g);
        if (grid.empty()) return false;
        std::erase_if(names, [&](auto& x) { return !has(grid, x.second); });
        n.grid = std::move(grid);
        for (auto& m : n.names) std::erase_if(m, [&](auto& x) { return !has(n.grid, x.second); });
        for (auto& [t, dims] : n.written)
            for (VarId& g : dims)
                if (g != kNone && !has(n.grid, g)) g = kNone;
        n.equations.push_back(i);
        record(n, q, names);
        n.names.push_back(std::move(names));
        return true;
    }

    Kernel build() {
        Kernel k;
        Program& r = k.program;
        r.name = p_.name;
        r.doc = p_.doc;
        r.tensors = p_.tensors;
        r.inputs = p_.inputs;
        r.outputs = p_.outputs;
        r.vars = p_.vars;
        std::map<TensorId, size_t> writer;
        for (size_t n = 0; n < nests_.size(); ++n) {
            Nest nest;
            nest.grid = nests_[n].grid;
            for (size_t j = 0; j < nests_[n].equations.size(); ++j) {
                const Equation& q = p_.equations[nests_[n].equations[j]];
                Rewriter w{.from = p_, .into = r};
                for (TensorId t = 0; t < p_.tensors.size(); ++t) w.tensors[t] = t;
                for (VarId v = 0; v < p_.vars.size(); ++v) w.bound[v] = v;  // all variables keep their identity ...
                for (auto& [v, g] : nests_[n].names[j]) w.bound[v] = g;     // ... but those of the shared grid,
                for (VarId g : nest.grid)  // and those that would be taken for one of them
                    if (!nests_[n].names[j].count(g) && occurs(p_, q, g))
                        w.bound[g] = r.add_var(p_.vars[g].name, p_.vars[g].extent);
                Equation e = q;
                for (ExprId& a : e.at) a = w(a);
                e.rhs = w(q.rhs);
                for (VarId& v : e.vars) v = w.bound.at(v);
                writer[q.lhs] = n;
                nest.equations.push_back(static_cast<uint32_t>(r.equations.size()));
                r.equations.push_back(std::move(e));
            }
            if (nest.equations.size() == 1) {
                const Equation& only = r.equations[nest.equations[0]];
                nest.contraction = single_row_ ? match_contraction_or_row(r, only) : match_contraction(r, only);
            }
            k.nests.push_back(std::move(nest));
        }
        // A temporary is local when only the nest that writes it reads it.
        std::set<TensorId> shared;
        for (size_t n = 0; n < k.nests.size(); ++n)
            for (uint32_t i : k.nests[n].equations) {
                const Equation& e = r.equations[i];
                std::vector<TensorId> used = r.reads(e.rhs);
                for (ExprId a : e.at)
                    for (TensorId t : r.reads(a)) used.push_back(t);
                if (e.update != Update::Set) used.push_back(e.lhs);
                for (TensorId t : used)
                    if (r.tensors[t].role == Role::Temp &&
                        (!writer.count(t) || writer[t] != n || e.update != Update::Set))
                        shared.insert(t);
            }
        for (TensorId t = 0; t < r.tensors.size(); ++t) {
            if (r.tensors[t].role != Role::Temp || !writer.count(t)) continue;
            if (shared.count(t))
                k.workspace.push_back(t);
            else
                k.nests[writer[t]].local.push_back(t);
        }
        return k;
    }

    const Program& p_;
    const std::set<TensorId>& apart_;
    const bool single_row_;
    std::vector<Growing> nests_;
};
}  // namespace

bool made_of_pieces(const Program& p, const Nest& nest) {
    return nest.equations.size() > 1 && p.equations[nest.equations[0]].update == Update::Overwrite;
}

std::vector<VarId> independent_vars(const Program& p, const Equation& q) {
    std::vector<VarId> r;
    for (ExprId a : q.at) {
        const auto f = affine(p, a);
        if (!f || f->terms.size() != 1 || f->terms[0].second.is(0)) continue;
        if (!f->terms[0].second.is_const()) continue;
        const VarId v = f->terms[0].first;
        if (!has(r, v)) r.push_back(v);
    }
    return r;
}

static Kernel form(const Program& p, const std::vector<bool>& constant_inputs, const std::set<TensorId>& apart,
                   bool single_row) {
    Kernel k = Former(collapse(hoist(absorb(p))), apart, single_row).run();
    for (const TensorInfo& t : k.program.tensors) k.constant.push_back(t.role == Role::Constant);
    for (size_t i = 0; i < constant_inputs.size(); ++i)
        if (constant_inputs[i]) k.constant[k.program.inputs[i]] = true;
    return k;
}
Kernel form_kernel(const Program& p, const std::vector<bool>& constant_inputs, const std::set<TensorId>& apart) {
    return form(p, constant_inputs, apart, false);
}
Kernel form_kernel_with_rows(const Program& p, const std::vector<bool>& constant_inputs) {
    return form(p, constant_inputs, {}, true);
}

}  // namespace opwright::schedule
