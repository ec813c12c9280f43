#include "schedule/siblings.h"

#include <algorithm>

#include "math/extract.h"

namespace opwright::schedule {
using namespace math;
namespace {

// The reduction of a nest that consists of one plain reduction over all its points, else kNone.
ExprId only_reduction(const Kernel& k, const Nest& n) {
    if (n.equations.size() != 1 || n.contraction || !n.local.empty()) return kNone;
    const Equation& q = k.program.equations[n.equations[0]];
    if (q.update != Update::Set || q.vars != n.grid || k.program.expr(q.rhs).kind != ExprKind::Reduce) return kNone;
    return is_arg(k.program.expr(q.rhs).reduce) ? kNone : q.rhs;
}

bool same_extents(const Program& p, const std::vector<VarId>& a, const std::vector<VarId>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](VarId x, VarId y) { return p.vars[x].extent == p.vars[y].extent; });
}

bool joins(const Kernel& k, const Nest& first, const Nest& later) {
    const Program& p = k.program;
    const ExprId a = only_reduction(k, {.equations = {first.equations[0]}, .grid = first.grid}),
                 b = only_reduction(k, later);
    if (a == kNone || b == kNone || first.contraction || !first.local.empty()) return false;
    if (first.equations.size() > 1 && std::any_of(first.equations.begin(), first.equations.end(), [&](uint32_t i) {
            return only_reduction(k, {.equations = {i}, .grid = first.grid}) == kNone;
        }))
        return false;
    if (!same_extents(p, first.grid, later.grid) || !same_extents(p, p.expr(a).vars, p.expr(b).vars)) return false;
    const std::vector<TensorId> x = p.reads(a), y = p.reads(b);
    return std::any_of(x.begin(), x.end(), [&](TensorId t) { return std::find(y.begin(), y.end(), t) != y.end(); });
}
}  // namespace

void join_siblings(Kernel& k) {
    Program& p = k.program;
    for (size_t i = 0; i < k.nests.size(); ++i)
        for (size_t j = i + 1; j < k.nests.size();) {
            // What the later nest reads must be there when the earlier one runs.
            bool depends = false;
            for (uint32_t e : k.nests[j].equations)
                for (TensorId t : p.reads(p.equations[e].rhs))
                    for (size_t b = i; b < j; ++b)
                        for (uint32_t w : k.nests[b].equations) depends |= p.equations[w].lhs == t;
            if (depends || !joins(k, k.nests[i], k.nests[j])) {
                ++j;
                continue;
            }
            Equation& q = p.equations[k.nests[j].equations[0]];
            const Expr mine = p.expr(q.rhs), other = p.expr(p.equations[k.nests[i].equations[0]].rhs);
            Rewriter same = in_place(p);
            for (size_t v = 0; v < q.vars.size(); ++v) same.bound[q.vars[v]] = k.nests[i].grid[v];
            for (size_t v = 0; v < mine.vars.size(); ++v) same.bound[mine.vars[v]] = other.vars[v];
            for (ExprId& a : q.at) a = same(a);
            q.rhs = same(q.rhs);
            q.vars = k.nests[i].grid;
            k.nests[i].equations.push_back(k.nests[j].equations[0]);
            k.nests.erase(k.nests.begin() + static_cast<std::ptrdiff_t>(j));
        }
}

}  // namespace opwright::schedule
