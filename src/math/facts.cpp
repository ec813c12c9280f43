#include "math/facts.h"

#include <algorithm>
#include <unordered_set>

namespace opwright::math {
namespace {

bool contains(const std::vector<VarId>& vs, VarId v) { return std::find(vs.begin(), vs.end(), v) != vs.end(); }

size_t index_count(const Program& p, const Expr& e) {
    return e.kind == ExprKind::Load || e.kind == ExprKind::Inside ? p.tensors[e.ref].shape.size() : 0;
}

struct WorkCounter {
    const Program& p;
    Work w;
    std::unordered_set<ExprId> seen;

    void visit(ExprId id) {
        if (!seen.insert(id).second) return;
        const Expr& e = p.expr(id);
        switch (e.kind) {
            case ExprKind::Literal: case ExprKind::Index: case ExprKind::Size: case ExprKind::Cast: case ExprKind::Wrap:
            case ExprKind::Bitcast: break;
            case ExprKind::Inside: ++w.simple; [[fallthrough]];
            case ExprKind::Load:
                if (e.kind == ExprKind::Load) ++w.loads;
                for (size_t i = 0; i < index_count(p, e); ++i)
                    if (!affine(p, e.args[i])) w.all_affine = false;
                for (size_t i = index_count(p, e); i < e.args.size(); ++i) visit(e.args[i]);
                return;
            case ExprKind::Call:
                switch (info(e.fn).cost) {
                    case CostClass::Free: break;
                    case CostClass::Simple: ++w.simple; break;
                    case CostClass::Divide: ++w.divide; break;
                    case CostClass::Special: ++w.special; break;
                }
                break;
            case ExprKind::Reduce: w.reduces = true; break;
            case ExprKind::Scan: w.scans = true; break;
        }
        for (ExprId a : e.args) visit(a);
    }
};

// Whether distinct values of the terms' variables give distinct sums: mixed-radix form, where each coefficient is the
// product of the extents of the variables below it.
bool injective(const Program& p, std::vector<std::pair<VarId, Sym>> terms) {
    std::erase_if(terms, [&](auto& t) { return is_unit(p, t.first); });
    if (terms.size() <= 1) return true;
    Sym radix = 1;
    while (!terms.empty()) {
        auto it = std::find_if(terms.begin(), terms.end(), [&](auto& t) { return t.second == radix; });
        if (it == terms.end()) return false;
        radix = radix * p.vars[it->first].extent;
        terms.erase(it);
    }
    return true;
}
}  // namespace

Work work(const Program& p, ExprId e) {
    WorkCounter c{p, {}, {}};
    c.visit(e);
    return c.w;
}

bool is_unit(const Program& p, VarId v) { return p.vars[v].extent.is(1); }

bool repeats(const Program& p, const std::vector<ExprId>& at, const std::vector<VarId>& domain) {
    std::vector<VarId> used;
    for (ExprId a : at) {
        const auto f = affine(p, a);
        if (!f || !injective(p, f->terms)) return true;
        for (auto& [v, c] : f->terms) {
            if (is_unit(p, v)) continue;
            if (contains(used, v)) continue;  // x[i,i]: still one element for each i
            used.push_back(v);
        }
    }
    return std::any_of(domain.begin(), domain.end(), [&](VarId v) { return !is_unit(p, v) && !contains(used, v); });
}

bool identity(const Program& p, const std::vector<ExprId>& at, const std::vector<Sym>& shape,
              const std::vector<VarId>& domain) {
    size_t next = 0;
    const auto skip_units = [&] { while (next < domain.size() && is_unit(p, domain[next])) ++next; };
    for (size_t i = 0; i < at.size(); ++i) {
        const Expr& e = p.expr(at[i]);
        if (e.kind == ExprKind::Index && !is_unit(p, e.ref)) {
            skip_units();
            if (next == domain.size() || domain[next] != e.ref || !(p.vars[e.ref].extent == shape[i])) return false;
            ++next;
        } else if (!shape[i].is(1)) {
            return false;
        }
    }
    skip_units();
    return next == domain.size();
}

std::vector<bool> mentioned(const Program& p) {
    std::vector<bool> r(p.tensors.size()), seen(p.expr_count());
    std::vector<ExprId> stack;
    for (const Equation& q : p.equations) {
        stack.assign(q.at.begin(), q.at.end());
        stack.push_back(q.rhs);
        while (!stack.empty()) {
            const ExprId id = stack.back();
            stack.pop_back();
            if (seen[id]) continue;
            seen[id] = true;
            const Expr& e = p.expr(id);
            if (e.kind == ExprKind::Load || e.kind == ExprKind::Inside) r[e.ref] = true;
            stack.insert(stack.end(), e.args.begin(), e.args.end());
        }
    }
    return r;
}

std::vector<Read> reads_with_context(const Program& p, ExprId root) {
    std::vector<Read> out;
    const auto walk = [&](auto&& self, ExprId start, const std::vector<VarId>& around) -> void {
        std::unordered_set<ExprId> seen;
        std::vector<ExprId> stack{start};
        while (!stack.empty()) {
            const ExprId id = stack.back();
            stack.pop_back();
            if (!seen.insert(id).second) continue;
            const Expr& e = p.expr(id);
            if (e.kind == ExprKind::Load || e.kind == ExprKind::Inside) out.push_back({id, around});
            if (e.kind == ExprKind::Reduce) {
                std::vector<VarId> inner = around;
                inner.insert(inner.end(), e.vars.begin(), e.vars.end());
                for (ExprId a : e.args) self(self, a, inner);
            } else {
                stack.insert(stack.end(), e.args.rbegin(), e.args.rend());
            }
        }
    };
    walk(walk, root, {});
    return out;
}

}  // namespace opwright::math
