#include <algorithm>

#include "target/cpu/lower/context.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;

Interior interior(Context& c, Point& point, VarId lane, const std::vector<VarId>& inner, std::vector<ExprId> roots) {
    Interior r;
    bool whole_known = true;
    std::vector<bool> seen(c.math.expr_count());
    // A position that is not linear and no data, as (v + 1) // 2; false where nothing can be said of its lanes.
    const auto divided = [&](ExprId id, const Sym& extent) {
        const auto free = c.math.free_vars(id);
        const bool varies = std::any_of(
            free.begin(), free.end(), [&](VarId v) { return std::find(inner.begin(), inner.end(), v) != inner.end(); });
        if (!c.math.reads(id).empty()) return true;  // each is checked
        if (std::find(free.begin(), free.end(), lane) == free.end()) {
            whole_known &= !varies;
            if (varies) return true;
            const LExpr at = point.eval(id, 0);
            r.whole = joint(r.whole, loop::both(loop::ge(at, c.b.i64(0)), loop::lt(at, point.sym(extent))));
            return true;
        }
        const math::Expr& e = c.math.expr(id);
        const auto f = e.kind == ExprKind::Call && e.fn == Fn::FloorDiv ? affine(c.math, e.args[0]) : std::nullopt;
        const math::Expr* by = f ? &c.math.expr(e.args[1]) : nullptr;
        if (varies || !f || by->kind != ExprKind::Literal || by->integer < 1 || !f->coefficient(lane).is(1))
            return e.kind == ExprKind::Call && e.fn == Fn::Mod;  // lanes of others may leave unseen
        LExpr rest = point.sym(f->offset);
        for (const auto& [v, k] : f->terms)
            if (v != lane) rest = rest + point.variable(v) * point.sym(k);
        const LExpr begin = -rest, end = point.sym(extent) * by->integer - rest;
        r.lanes = r.lanes ? Range{loop::max(r.lanes->begin, begin), loop::min(r.lanes->end, end)} : Range{begin, end};
        return true;
    };
    while (!roots.empty()) {
        const ExprId e = roots.back();
        roots.pop_back();
        if (seen[e]) continue;
        seen[e] = true;
        const math::Expr& x = c.math.expr(e);
        for (ExprId a : x.args) roots.push_back(a);
        const bool bounded = x.kind == ExprKind::Inside || (x.kind == ExprKind::Load && x.outside == Outside::Value);
        if (!bounded) continue;
        for (size_t d = 0; d < c.math.tensors[x.ref].shape.size(); ++d) {
            const auto f = affine(c.math, x.args[d]);
            const Sym& extent = c.math.tensors[x.ref].shape[d];
            if (!f) {
                if (!divided(x.args[d], extent)) return {};
                continue;
            }
            if (f->is_plain_var() && c.math.vars[f->terms[0].first].extent == extent) continue;
            LExpr low = point.sym(f->offset), high = low;  // of the index without the lane's part
            bool bounds_known = true;
            for (const auto& [v, k] : f->terms) {
                if (v == lane) continue;
                if (std::find(inner.begin(), inner.end(), v) == inner.end()) {
                    const LExpr part = point.variable(v) * point.sym(k);
                    low = low + part;
                    high = high + part;
                } else if (k.lower() >= 0) {
                    high = high + point.sym(k * (c.math.vars[v].extent - Sym(1)));
                } else if (k.upper() <= 0) {
                    low = low + point.sym(k * (c.math.vars[v].extent - Sym(1)));
                } else {
                    bounds_known = false;
                }
            }
            if (f->coefficient(lane).is(0)) {
                whole_known &= bounds_known;
                if (bounds_known)
                    r.whole = joint(r.whole, loop::both(loop::ge(low, c.b.i64(0)), loop::lt(high, point.sym(extent))));
                continue;
            }
            const auto step = f->coefficient(lane).constant();
            if (!step || *step < 1 || !bounds_known) return {};
            const LExpr begin = loop::ceildiv(-low, *step),
                        end = loop::floordiv(point.sym(extent) - 1 - high, *step) + 1;
            r.lanes =
                r.lanes ? Range{loop::max(r.lanes->begin, begin), loop::min(r.lanes->end, end)} : Range{begin, end};
        }
    }
    if (!whole_known) r.whole = {};
    return r;
}

bool plain_indices(const schedule::Kernel& k) {
    const math::Program& m = k.program;
    const auto plain = [&](ExprId at) {
        const ExprKind kind = m.expr(at).kind;
        return kind == ExprKind::Index || kind == ExprKind::Literal || kind == ExprKind::Size;
    };
    const auto contracts = [](const schedule::Nest& n) { return n.contraction.has_value(); };
    if (std::any_of(k.nests.begin(), k.nests.end(), contracts)) return false;
    const auto all_plain = [&](const std::vector<ExprId>& at) { return std::all_of(at.begin(), at.end(), plain); };
    for (ExprId e = 0; e < m.expr_count(); ++e)
        if (m.expr(e).kind == ExprKind::Load && !all_plain(m.expr(e).args)) return false;
    return std::all_of(m.equations.begin(), m.equations.end(), [&](const Equation& q) { return all_plain(q.at); });
}

}  // namespace opwright::target::cpu
