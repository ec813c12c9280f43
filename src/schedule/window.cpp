#include "schedule/window.h"

#include <algorithm>

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

namespace {
// Windows of `factor` at the output's index `column`. Indices of `lanes` are not the task's to choose.
std::optional<Window> match(const Program& p, const Equation& q, const Contraction& c, ExprId factor, VarId column,
                            const std::vector<VarId>& lanes) {
    const ExprId other = factor == c.a ? c.b : c.a;
    const Reads reads = inspect(p, factor);
    const std::vector<VarId> in_other = p.free_vars(other), in_factor = p.free_vars(factor);
    Window w;
    const auto along = axis(p, reads, c.k, column);
    if (!along) return std::nullopt;
    w.column = *along;
    for (VarId v : q.vars)
        if (v != column && !has(lanes, v)) w.batch.push_back(v);
    for (size_t i = w.batch.size(); i-- > 0 && w.row.out == kNone;) {
        const VarId v = w.batch[i];
        if (has(in_other, v) || !has(in_factor, v)) continue;
        const auto row = axis(p, reads, c.k, v);
        if (!row || (row->tap != kNone && row->tap == w.column.tap)) break;
        w.row = *row;
        w.batch.erase(w.batch.begin() + static_cast<long>(i));
    }
    for (VarId v : c.k)
        if (v != w.row.tap && v != w.column.tap) w.channels.push_back(v);
    return w;
}
}  // namespace

std::optional<Window> match_window(const Program& p, const Equation& q, const Contraction& c) {
    return match(p, q, c, c.b, c.n.back(), c.m);
}

std::optional<Window> match_points(const Program& p, const Equation& q, const Contraction& c) {
    if (c.m.empty()) return std::nullopt;
    auto w = match(p, q, c, c.a, c.m.back(), c.n);
    return w && w->channels.size() <= 1 ? w : std::nullopt;
}

bool side_by_side(const Program& p, ExprId factor, VarId v) {
    const Reads reads = inspect(p, factor);
    return !reads.accesses.empty() &&
           std::all_of(reads.accesses.begin(), reads.accesses.end(), [&](const auto& access) {
               const auto& at = access.second;
               for (size_t d = 0; d < at.size(); ++d) {
                   const auto f = affine(p, at[d]);
                   if (!f || !f->coefficient(v).is(d + 1 == at.size() ? 1 : 0)) return false;
               }
               return !at.empty();
           });
}

std::optional<Window> useful_window(const Program& p, const Equation& q, const Contraction& c) {
    const auto w = c.lanewise ? std::nullopt : match_window(p, q, c);
    if (!w || (w->row.taps * w->column.taps == 1 && w->column.stride == 1)) return std::nullopt;
    const int64_t width = p.vars[w->column.out].extent.upper();
    return width < 4 || width < w->column.reach() ? std::nullopt : w;
}

std::optional<Window> useful_points(const Program& p, const Equation& q, const Contraction& c) {
    const auto w = match_points(p, q, c);
    const bool apart = w && (w->row.stride > 1 || w->column.stride > 1);
    return w && (w->row.taps * w->column.taps > 1 || apart) ? w : std::nullopt;
}

std::optional<Windows> windows_of(const Program& p, const Equation& q, const Contraction& c) {
    if (c.lanewise) return Windows{*match_points(p, q, c), true};
    if (const auto w = useful_window(p, q, c)) return Windows{*w, false};
    if (const auto w = useful_points(p, q, c)) return Windows{*w, true};
    if (const auto w = match_window(p, q, c)) return Windows{*w, false};
    return std::nullopt;
}

}  // namespace opwright::schedule
