#include "derive/gradient.h"

#include <fmt/format.h>

#include <algorithm>

#include "derive/gradient_builder.h"
#include "derive/gradient_normal.h"
#include "derive/invariant.h"
#include "math/extract.h"
#include "math/facts.h"
#include "math/inline.h"

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

void GradientBuilder::run(std::vector<TensorId>& cotangents, std::vector<TensorId>& gradients) {
    for (TensorId t : p_.outputs) {
        cotangents.push_back(kNone);
        if (!active_[t]) continue;
        const TensorId d = temporary("d" + p_.tensors[t].name, p_.tensors[t].dtype, p_.tensors[t].shape);
        cotangents.back() = d;
        pending_[t].terms.push_back(p_.cast(p_.load(d, index(t)), cotangent_type(t)));
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
    if (kind == ExprKind::Reduce)
        reduction(q, it->second);
    else if (kind == ExprKind::Scan)
        scan(q, it->second);
    else
        propagate(q.rhs, {p_.load(it->second, q.at), kNone}, {q.vars, q.vars.size(), kNone});
}

namespace {
// Positions of the inputs that p reads, or that give an extent which nothing else gives.
std::vector<size_t> needed_inputs(const Program& p, size_t originals) {
    const std::vector<bool> read = mentioned(p);
    std::vector<std::string> wanted = p.symbols(), bound;
    std::vector<bool> keep(originals);
    const auto bind = [&](TensorId t) {
        for (const Sym& s : p.tensors[t].shape)
            if (s.kind() == SymKind::Symbol) bound.push_back(s.symbol_name());
    };
    for (size_t i = 0; i < p.inputs.size(); ++i) {
        if (!read[p.inputs[i]]) continue;
        if (i < originals) keep[i] = true;
        bind(p.inputs[i]);
    }
    // Symbols of inputs that go are not wanted because of them.
    std::vector<TensorId> gone;
    for (size_t i = 0; i < originals; ++i)
        if (!keep[i]) gone.push_back(p.inputs[i]);
    Program rest = p;
    for (TensorId t : gone) rest.tensors[t].shape.clear();
    wanted = rest.symbols();
    for (size_t i = 0; i < originals; ++i) {
        if (keep[i]) continue;
        for (const Sym& s : p.tensors[p.inputs[i]].shape)
            if (s.kind() == SymKind::Symbol && std::find(bound.begin(), bound.end(), s.symbol_name()) == bound.end() &&
                std::find(wanted.begin(), wanted.end(), s.symbol_name()) != wanted.end())
                keep[i] = true;
        if (keep[i]) bind(p.inputs[i]);
    }
    std::vector<size_t> r;
    for (size_t i = 0; i < originals; ++i)
        if (keep[i]) r.push_back(i);
    return r;
}
}  // namespace

Result<Gradient> gradient(const Program& p, std::vector<size_t> wrt) {
    for (size_t i : wrt) {
        if (i >= p.inputs.size())
            return Diagnostic(fmt::format("operator {} has {} inputs, and the gradient by input {} is asked for",
                                          p.name, p.inputs.size(), i))
                .with_next("Count inputs from 0.");
        const TensorInfo& t = p.tensors[p.inputs[i]];
        if (!is_float(t.dtype))
            return Diagnostic(
                       fmt::format("{} of operator {} is {}, which has no gradient", t.name, p.name, name(t.dtype)))
                .with_next("Ask for the gradient by inputs of a float type.");
    }
    if (wrt.empty())
        for (size_t i = 0; i < p.inputs.size(); ++i)
            if (is_float(p.tensors[p.inputs[i]].dtype)) wrt.push_back(i);
    const bool any =
        std::any_of(p.outputs.begin(), p.outputs.end(), [&](TensorId t) { return is_float(p.tensors[t].dtype); });
    if (wrt.empty() || !any)
        return Diagnostic(fmt::format("operator {} has no {} of a float type, hence no gradient", p.name,
                                      wrt.empty() ? "input" : "output"))
            .with_next("Gradients exist of float outputs by float inputs.");

    std::vector<TensorId> by, cotangents, gradients;
    for (size_t i : wrt) by.push_back(p.inputs[i]);
    GradientBuilder builder(p, by);
    builder.run(cotangents, gradients);
    Program& all = builder.program();

    Gradient r;
    r.wrt = std::move(wrt);
    std::vector<TensorId> inputs = p.inputs, used;
    for (TensorId t : cotangents)
        if (t != kNone) inputs.push_back(t);
    const std::string name = p.name + "_gradient";
    const Program whole = inline_temporaries(extract(all, name, inputs, gradients)).program;
    r.inputs = needed_inputs(whole, p.inputs.size());
    const std::vector<bool> read = mentioned(whole);
    for (size_t i : r.inputs) used.push_back(whole.inputs[i]);
    for (size_t i = 0, k = p.inputs.size(); i < cotangents.size(); ++i) {
        if (cotangents[i] == kNone) continue;
        if (const TensorId t = whole.inputs[k++]; read[t]) {
            used.push_back(t);
            r.cotangents.push_back(i);
        }
    }
    r.program = extract(whole, name, used, whole.outputs);
    r.program.doc = fmt::format("Gradient of {}.", p.name);
    return r;
}

}  // namespace opwright::derive
