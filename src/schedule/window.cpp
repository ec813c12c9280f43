#include "schedule/window.h"

namespace opwright::schedule {
using namespace math;

namespace {
constexpr int64_t kMostTaps = 32, kMostStride = 8;

bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

// What a factor reads: every access with its dims, and the variables it uses as values.
struct Reads {
    std::vector<std::pair<TensorId, std::vector<ExprId>>> accesses;
    std::vector<VarId> values;
};
Reads inspect(const Program& p, ExprId root) {
    Reads r;
    std::vector<bool> seen(p.expr_count());
    std::vector<ExprId> stack{root};
    while (!stack.empty()) {
        const ExprId e = stack.back();
        stack.pop_back();
        if (seen[e]) continue;
        seen[e] = true;
        const Expr& x = p.expr(e);
        if (x.kind == ExprKind::Index) r.values.push_back(x.ref);
        if (x.kind == ExprKind::Load || x.kind == ExprKind::Inside) {
            const auto rank = static_cast<long>(p.tensors[x.ref].shape.size());
            r.accesses.push_back({x.ref, {x.args.begin(), x.args.begin() + rank}});
            stack.insert(stack.end(), x.args.begin() + rank, x.args.end());
            continue;
        }
        stack.insert(stack.end(), x.args.begin(), x.args.end());
    }
    return r;
}

std::optional<WindowAxis> axis(const Program& p, const Reads& reads, const std::vector<VarId>& reduced, VarId out) {
    WindowAxis a{.out = out};
    bool first = true;
    const auto number = [](const Sym& s) { return s.constant().value_or(0); };
    for (const auto& [tensor, at] : reads.accesses) {
        int found = 0;
        for (ExprId e : at) {
            const auto f = affine(p, e);
            if (!f) return std::nullopt;
            if (f->coefficient(out).is(0)) continue;
            WindowAxis here{.out = out, .stride = number(f->coefficient(out))};
            for (const auto& [v, k] : f->terms) {
                if (v == out) continue;
                if (!has(reduced, v) || here.tap != kNone) return std::nullopt;
                here.tap = v;
                here.dilation = number(k);
                here.taps = number(p.vars[v].extent);
            }
            if (++found > 1 || here.stride < 1 || here.stride > kMostStride || here.dilation < 1) return std::nullopt;
            if (here.taps < 1 || here.taps > kMostTaps || (here.stride > 1 && here.dilation > 1)) return std::nullopt;
            if (!first && (here.tap != a.tap || here.stride != a.stride || here.dilation != a.dilation))
                return std::nullopt;
            a = here;
            first = false;
        }
    }
    if (first) return std::nullopt;
    if (has(reads.values, out) || (a.tap != kNone && has(reads.values, a.tap))) return std::nullopt;
    // The tap is read together with the output's index alone.
    if (a.tap != kNone)
        for (const auto& [tensor, at] : reads.accesses)
            for (ExprId e : at) {
                const auto f = affine(p, e);
                if (!f->coefficient(a.tap).is(0) && f->coefficient(out).is(0)) return std::nullopt;
            }
    return a;
}
}  // namespace

std::optional<Window> match_window(const Program& p, const Equation& q, const Contraction& c) {
    const Reads reads = inspect(p, c.b);
    const std::vector<VarId> in_a = p.free_vars(c.a), in_b = p.free_vars(c.b);
    Window w;
    const auto column = axis(p, reads, c.k, c.n.back());
    if (!column) return std::nullopt;
    w.column = *column;
    for (VarId v : q.vars) {
        if (v == w.column.out || has(c.m, v)) continue;
        w.batch.push_back(v);
    }
    for (size_t i = w.batch.size(); i-- > 0 && w.row.out == kNone;) {
        const VarId v = w.batch[i];
        if (has(in_a, v) || !has(in_b, v)) continue;
        const auto row = axis(p, reads, c.k, v);
        if (!row || (row->tap != kNone && row->tap == w.column.tap)) break;
        w.row = *row;
        w.batch.erase(w.batch.begin() + static_cast<long>(i));
    }
    for (VarId v : c.k)
        if (v != w.row.tap && v != w.column.tap) w.channels.push_back(v);
    return w;
}

std::optional<Window> useful_window(const Program& p, const Equation& q, const Contraction& c) {
    const auto w = match_window(p, q, c);
    if (!w || (w->row.taps * w->column.taps == 1 && w->column.stride == 1)) return std::nullopt;
    const int64_t width = p.vars[w->column.out].extent.upper();
    return width < 4 || width < w->column.reach() ? std::nullopt : w;
}

}  // namespace opwright::schedule
