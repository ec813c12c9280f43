#include "math/unit_dims.h"

#include <algorithm>

#include "math/facts.h"

namespace opwright::math {
namespace {

ExprId rebuilt(Rewriter& w, ExprId id) {
    const Program& p = w.from;
    Program& q = w.into;
    const Expr& e = p.expr(id);
    switch (e.kind) {
        case ExprKind::Index:
            return is_unit(p, e.ref) ? q.integer(0) : kNone;
        case ExprKind::Load: {
            // Where a dim has one element, an affine index that must stay inside is 0.
            if (e.outside != Outside::Error) return kNone;
            std::vector<ExprId> at;
            for (size_t i = 0; i < e.args.size(); ++i)
                at.push_back(p.tensors[e.ref].shape[i].is(1) && affine(p, e.args[i]) ? q.integer(0) : w(e.args[i]));
            return q.load(w.tensors.at(e.ref), std::move(at));
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
