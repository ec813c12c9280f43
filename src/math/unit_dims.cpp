#include "math/unit_dims.h"

#include <algorithm>

#include "math/facts.h"

namespace opwright::math {
namespace {

// Whether an index surely lies in 0 .. extent-1: a variable that runs over that, or a number below its lower bound.
bool inside(const Program& p, ExprId at, const Sym& extent) {
    const Expr& e = p.expr(at);
    if (e.kind == ExprKind::Index) return p.vars[e.ref].extent == extent;
    return e.kind == ExprKind::Literal && e.integer >= 0 && e.integer < extent.lower();
}

// Whether an index surely lies outside: a number below 0, or one that the extent never exceeds.
bool beyond(const Program& p, ExprId at, const Sym& extent) {
    const Expr& e = p.expr(at);
    return e.kind == ExprKind::Literal && (e.integer < 0 || e.integer >= extent.upper());
}

ExprId rebuilt(Rewriter& w, ExprId id) {
    const Program& p = w.from;
    Program& q = w.into;
    const Expr& e = p.expr(id);
    switch (e.kind) {
        case ExprKind::Index:
            return is_unit(p, e.ref) ? q.integer(0) : kNone;
        case ExprKind::Load: {
            const std::vector<Sym>& shape = p.tensors[e.ref].shape;
            std::vector<ExprId> at;
            bool stays = true, leaves = false;
            for (size_t i = 0; i < shape.size(); ++i) {
                // Where a dim has one element, an affine index that must stay inside is 0.
                const bool zero = e.outside == Outside::Error && shape[i].is(1) && affine(p, e.args[i]);
                at.push_back(zero ? q.integer(0) : w(e.args[i]));
                stays = stays && inside(q, at.back(), shape[i]);
                leaves = leaves || beyond(q, at.back(), shape[i]);
            }
            // What is read is then what stands for elements outside, whatever becomes of the tensor.
            if (leaves && e.outside == Outside::Value) return w(e.args.back());
            const TensorId t = w.tensors.at(e.ref);
            if (e.outside == Outside::Error || stays) return q.load(t, std::move(at));
            return q.load(t, std::move(at), e.outside, e.outside == Outside::Value ? w(e.args.back()) : kNone);
        }
        case ExprKind::Reduce: {
            if (std::none_of(e.vars.begin(), e.vars.end(), [&](VarId v) { return is_unit(p, v); })) return kNone;
            std::vector<VarId> left;
            for (VarId v : e.vars)
                if (!is_unit(p, v)) left.push_back(w.bind(v));
            if (left.empty() && is_arg(e.reduce)) return q.integer(0);
            const ExprId body = w(e.args[0]);
            const ExprId condition = e.args.size() > 1 ? w(e.args[1]) : kNone;
            if (!left.empty()) return q.reduce(e.reduce, std::move(left), body, e.dtype, condition);
            if (condition == kNone) return body;
            return q.select(condition, body, q.literal(identity(e.reduce, e.dtype), e.dtype));
        }
        case ExprKind::Scan:
            if (!is_unit(p, e.vars[0])) return kNone;
            return e.exclusive ? q.literal(identity(e.reduce, e.dtype), e.dtype) : w(e.args[0]);
        case ExprKind::Literal: case ExprKind::Size: case ExprKind::Inside: case ExprKind::Call: case ExprKind::Cast:
        case ExprKind::Wrap: case ExprKind::Bitcast:
            return kNone;
    }
    return kNone;
}
}  // namespace

Program drop_unit_variables(const Program& p) {
    Program q;
    q.name = p.name;
    q.doc = p.doc;
    q.tensors = p.tensors;
    q.inputs = p.inputs;
    q.outputs = p.outputs;
    q.requirements = p.requirements;
    Rewriter rw{.from = p, .into = q};
    rw.replace = rebuilt;
    for (TensorId t = 0; t < p.tensors.size(); ++t) rw.tensors[t] = t;
    for (const Equation& e : p.equations) {
        Equation n = e;
        n.vars.clear();
        for (VarId v : e.vars)
            if (!is_unit(p, v)) {
                n.vars.push_back(rw.bind(v));
                rw.vars[v] = q.index(n.vars.back());
            }
        for (ExprId& a : n.at) a = rw(a);
        n.rhs = rw(e.rhs);
        q.equations.push_back(std::move(n));
    }
    return q;
}

}  // namespace opwright::math
