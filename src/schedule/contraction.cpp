#include <algorithm>

#include "schedule/kernel.h"
#include "schedule/window.h"

namespace opwright::schedule {
using namespace math;

namespace {
bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

// The only Reduce in e, or kNone when there is none or more than one.
ExprId only_reduce(const Program& p, ExprId e) {
    std::vector<ExprId> stack{e}, found;
    std::vector<bool> seen(p.expr_count());
    while (!stack.empty()) {
        const ExprId x = stack.back();
        stack.pop_back();
        if (seen[x]) continue;
        seen[x] = true;
        if (p.expr(x).kind == ExprKind::Reduce) {
            found.push_back(x);
            continue;
        }
        for (ExprId a : p.expr(x).args) stack.push_back(a);
    }
    return found.size() == 1 ? found[0] : kNone;
}

// Element stride of an access along v, nullopt where it is not affine in v.
std::optional<Sym> stride_along(const Program& p, TensorId t, const std::vector<ExprId>& at, VarId v) {
    const auto& shape = p.tensors[t].shape;
    Sym r = 0, step = 1;
    for (size_t d = shape.size(); d-- > 0;) {
        const auto f = affine(p, at[d]);
        if (f)
            r = r + f->coefficient(v) * step;
        else if (const auto fv = p.free_vars(at[d]); std::find(fv.begin(), fv.end(), v) != fv.end())
            return std::nullopt;
        step = step * shape[d];
    }
    return r;
}

// Whether everything around the reduction sees (outer, inner) as one flat index: then columns of both run on lanes as
// one.
bool flat_pair(const Program& p, const Equation& q, ExprId reduce, VarId outer, VarId inner) {
    const auto compatible = [&](TensorId t, const std::vector<ExprId>& at) {
        const auto a = stride_along(p, t, at, outer), b = stride_along(p, t, at, inner);
        if (!a || !b) return false;
        for (ExprId e : at) {  // plain indices only, so that no bound is checked per index
            const auto f = affine(p, e);
            if (!f) return false;
            if ((f->coefficient(outer).is(0) && f->coefficient(inner).is(0)) || f->is_plain_var()) continue;
            return false;
        }
        return *a == *b * p.vars[inner].extent;
    };
    if (!compatible(q.lhs, q.at)) return false;
    std::vector<bool> seen(p.expr_count());
    std::vector<ExprId> stack{q.rhs};
    while (!stack.empty()) {
        const ExprId e = stack.back();
        stack.pop_back();
        if (seen[e] || e == reduce) continue;
        seen[e] = true;
        const Expr& x = p.expr(e);
        if (x.kind == ExprKind::Index && (x.ref == outer || x.ref == inner)) return false;
        if (x.kind == ExprKind::Inside) return false;
        if (x.kind == ExprKind::Load) {
            const std::vector<ExprId> at(x.args.begin(),
                                         x.args.begin() + static_cast<long>(p.tensors[x.ref].shape.size()));
            if (!compatible(x.ref, at)) return false;
            if (x.outside == Outside::Value) stack.push_back(x.args.back());
            continue;
        }
        for (ExprId a : x.args) stack.push_back(a);
    }
    return true;
}

// Below this, packing costs more than it saves; an unknown extent counts as large.
constexpr int64_t kMinRows = 2, kMinColumns = 4, kMinDepth = 4;
bool known_below(const Program& p, const std::vector<VarId>& vars, int64_t limit) {
    Sym n = 1;
    for (VarId v : vars) n = n * p.vars[v].extent;
    return n.upper() < limit;
}

// Windows that are worth a slab for a single row: each element serves taps alone, so it takes more of them than copying
// it costs (measured: 5x5 and 7x7 do, 3x3 does not).
constexpr int64_t kLeastTaps = 16;
bool reads_windows(const Program& p, const Equation& q, const Contraction& c) {
    const auto w = useful_window(p, q, c);
    return w && w->row.taps * w->column.taps >= kLeastTaps;
}

// Depthwise convolutions whose channels come last: the windows' points are rows, and lanes run along what both factors
// have.
std::optional<Contraction> match_lanewise(const Program& p, const Equation& q, Contraction c) {
    constexpr int64_t kFewLanes = 8;
    const VarId lane = q.vars.back();
    if (known_below(p, {lane}, kFewLanes)) return std::nullopt;
    c.lanewise = true;
    c.n = {lane};
    c.k = p.expr(c.reduce).vars;
    for (int turn = 0; turn < 2; ++turn, std::swap(c.a, c.b)) {
        const std::vector<VarId> in_a = p.free_vars(c.a), in_b = p.free_vars(c.b);
        c.m.clear();
        c.batch.clear();
        for (VarId v : q.vars)
            if (v != lane) (has(in_a, v) && !has(in_b, v) ? c.m : c.batch).push_back(v);
        const auto both = [&](VarId v) { return has(in_a, v) && has(in_b, v); };
        if (!std::all_of(c.k.begin(), c.k.end(), both)) return std::nullopt;
        const auto w = useful_points(p, q, c);
        if (w && w->channels.empty() && w->row.taps * w->column.taps > 1 && side_by_side(p, c.a, lane)) return c;
    }
    return std::nullopt;
}
}  // namespace

static std::optional<Contraction> match(const Program& p, const Equation& q, bool single_row) {
    if (q.update != Update::Set || q.vars.empty()) return std::nullopt;
    Contraction c;
    c.reduce = only_reduce(p, q.rhs);
    if (c.reduce == kNone) return std::nullopt;
    const Expr& r = p.expr(c.reduce);
    if (r.reduce != ReduceOp::Sum || r.args.size() > 1) return std::nullopt;
    if (r.dtype != DType::F32 && r.dtype != DType::F64 && r.dtype != DType::I32 && r.dtype != DType::F16 &&
        r.dtype != DType::BF16)
        return std::nullopt;
    ExprId body = r.args[0];
    while (p.expr(body).kind == ExprKind::Cast && is_float(p.expr(body).dtype)) body = p.expr(body).args[0];
    const Expr& product = p.expr(body);
    if (product.kind != ExprKind::Call || product.fn != Fn::Mul) return std::nullopt;
    if (accumulate_type(product.dtype) != accumulate_type(r.dtype)) return std::nullopt;
    c.a = product.args[0];
    c.b = product.args[1];
    std::vector<VarId> in_a = p.free_vars(c.a), in_b = p.free_vars(c.b);
    const VarId innermost = q.vars.back();
    if (single_row && has(in_a, innermost) && has(in_b, innermost)) return match_lanewise(p, q, std::move(c));
    if (has(in_a, innermost) == has(in_b, innermost)) return std::nullopt;
    if (has(in_a, innermost)) {
        std::swap(c.a, c.b);
        std::swap(in_a, in_b);
    }
    for (VarId v : q.vars) {
        const bool a = has(in_a, v), b = has(in_b, v);
        if (a && b)
            c.batch.push_back(v);
        else if (a)
            c.m.push_back(v);
        else
            c.n.push_back(v);
    }
    // Columns are the innermost run of indices that is flat in the output and in all that the epilogue reads.
    size_t first = c.n.size() - 1;
    while (first > 0 && flat_pair(p, q, c.reduce, c.n[first - 1], c.n[first])) --first;
    c.batch.insert(c.batch.end(), c.n.begin(), c.n.begin() + static_cast<long>(first));
    c.n.erase(c.n.begin(), c.n.begin() + static_cast<long>(first));
    for (VarId v : r.vars) {
        if (!has(in_a, v) || !has(in_b, v)) return std::nullopt;
        c.k.push_back(v);
    }
    if (c.n.empty() || c.k.empty()) return std::nullopt;
    if (c.m.empty()) return single_row && reads_windows(p, q, c) ? std::optional(c) : std::nullopt;
    if (known_below(p, c.m, kMinRows) || known_below(p, c.n, kMinColumns) || known_below(p, c.k, kMinDepth))
        return std::nullopt;
    return c;
}

std::optional<Contraction> match_contraction(const Program& p, const Equation& q) { return match(p, q, false); }
std::optional<Contraction> match_contraction_or_row(const Program& p, const Equation& q) { return match(p, q, true); }

}  // namespace opwright::schedule
