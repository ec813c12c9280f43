#include "derive/gradient.h"

#include <fmt/format.h>

#include <algorithm>

#include "derive/differentiate.h"
#include "derive/gradient_builder.h"
#include "derive/gradient_normal.h"
#include "derive/invariant.h"
#include "math/extract.h"

namespace opwright::derive {
using namespace math;

GradientBuilder::GradientBuilder(Program p, const std::vector<TensorId>& wrt) : p_(std::move(p)), wrt_(wrt) {
    normalise(p_);
    primal_ = p_.equations.size();
    active_.resize(p_.tensors.size());
    pending_.resize(p_.tensors.size());
    constant_ = invariants(p_);
    for (TensorId t : wrt_) active_[t] = true;
    for (const Equation& q : p_.equations)
        if (is_float(p_.tensors[q.lhs].dtype) && active(q.rhs)) active_[q.lhs] = true;
}

// Whether an expression depends on wrt through floats.
bool GradientBuilder::active(ExprId id) {
    if (const auto it = active_expr_.find(id); it != active_expr_.end()) return it->second;
    const Expr& e = p_.expr(id);
    bool r = false;
    if (is_float(e.dtype)) {
        if (e.kind == ExprKind::Load) {
            r = active_[e.ref] || (e.outside == Outside::Value && active(e.args.back()));
        } else if (e.kind == ExprKind::Call || e.kind == ExprKind::Cast) {
            for (ExprId a : e.args) r = active(a) || r;
        } else if (e.kind == ExprKind::Reduce || e.kind == ExprKind::Scan) {
            r = active(e.args[0]);
        }
    }
    active_expr_.emplace(id, r);
    return r;
}

void GradientBuilder::run(const std::vector<size_t>& asked, std::vector<TensorId>& cotangents,
                          std::vector<TensorId>& gradients) {
    for (size_t o = 0; o < p_.outputs.size(); ++o) {
        const TensorId t = p_.outputs[o];
        cotangents.push_back(kNone);
        if (!active_[t] || (!asked.empty() && std::find(asked.begin(), asked.end(), o) == asked.end())) continue;
        const TensorId d = temporary("d" + p_.tensors[t].name, p_.tensors[t].dtype, p_.tensors[t].shape);
        cotangents.back() = d;
        pending_[t].terms.push_back({p_.cast(p_.load(d, index(t)), cotangent_type(t))});
    }
    for (size_t i = primal_; i-- > 0;) equation(i);
    for (TensorId t : wrt_) gradients.push_back(settle(t, "d" + p_.tensors[t].name, Role::Output));
}

void GradientBuilder::equation(size_t i) {
    const Equation q = p_.equations[i];
    if (!active_[q.lhs]) return;
    auto it = current_.find(q.lhs);
    if (it == current_.end())
        it = current_.emplace(q.lhs, settle(q.lhs, "d" + p_.tensors[q.lhs].name, Role::Temp)).first;
    if (it->second == kNone) return;
    if (q.update != Update::Set) {
        it->second = update(i, it->second);
        return;
    }
    if (!active(q.rhs)) return;
    const ExprKind kind = p_.expr(q.rhs).kind;
    ExprId over = kNone;
    if (const auto o = over_.find(q.lhs); o != over_.end()) {
        Rewriter here = in_place(p_);
        for (size_t d = 0; d < q.at.size(); ++d) {
            const VarId v = p_.expr(index(q.lhs)[d]).ref;
            here.bound.erase(v);
            here.vars[v] = q.at[d];
        }
        over = here(o->second);
    }
    if (kind == ExprKind::Reduce)
        reduction(q, it->second, over);
    else if (kind == ExprKind::Scan)
        scan(q, it->second);
    else
        propagate(q.rhs, {p_.load(it->second, q.at), kNone, over}, {q.vars, q.vars.size(), kNone});
}

Result<Gradient> gradient(const Program& p, std::vector<size_t> wrt, const GradientOptions& o) {
    OPW_TRY(wrt, differentiated(p, std::move(wrt)));
    std::vector<TensorId> by, cotangents, gradients, given;
    for (size_t i : wrt) by.push_back(p.inputs[i]);
    GradientBuilder builder(p, by);
    builder.run(o.cotangents, cotangents, gradients);
    Program all = builder.program();
    Gradient g;
    g.wrt = std::move(wrt);
    g.kept = choose_kept(all, p.outputs, cotangents, gradients);
    std::vector<TensorId> saved = p.outputs;
    for (Kept& k : g.kept) {
        if (!o.save) k.given = false;
        if (!k.given) continue;
        const auto at = std::find(saved.begin(), saved.end(), k.tensor);
        g.saved.push_back(static_cast<size_t>(at - saved.begin()));
        if (at == saved.end()) saved.push_back(k.tensor);
        given.push_back(k.tensor);
    }
    g.forward = saved.size() == p.outputs.size() ? p : extract(all, p.name + "_forward", p.inputs, saved);
    std::erase_if(all.equations,
                  [&](const Equation& q) { return std::find(given.begin(), given.end(), q.lhs) != given.end(); });
    Derived d = finish(all, p.name + "_gradient", fmt::format("Gradient of {}.", p.name), p.inputs, given, cotangents,
                       gradients);
    g.program = std::move(d.program);
    g.inputs = std::move(d.inputs);
    g.cotangents = std::move(d.others);
    return g;
}

}  // namespace opwright::derive
