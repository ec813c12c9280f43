#include "math/merge_dims.h"

#include <algorithm>
#include <map>

#include "math/facts.h"

namespace opwright::math {
namespace {

using Place = std::vector<ExprId>;  // indices of the leading dims, as p has them

struct Pass {
    const Program& p;
    const std::vector<Sym>& dims;
    std::vector<bool> merged;

    bool leads(const std::vector<Sym>& shape) const {
        return shape.size() >= dims.size() && std::equal(dims.begin(), dims.end(), shape.begin());
    }
    Place leading(const std::vector<ExprId>& at) const { return {at.begin(), at.begin() + static_cast<std::ptrdiff_t>(dims.size())}; }

    // A variable for each dim of more than one element.
    bool plain(const Place& at) const {
        for (size_t d = 0; d < dims.size(); ++d) {
            const Expr& x = p.expr(at[d]);
            if (dims[d].is(1) ? !p.is_integer_literal(at[d], 0) : x.kind != ExprKind::Index || !(p.vars[x.ref].extent == dims[d])) return false;
        }
        return true;
    }

    bool choose() {
        merged.assign(p.tensors.size(), false);
        for (TensorId t = 0; t < p.tensors.size(); ++t) merged[t] = leads(p.tensors[t].shape) && p.tensors[t].role != Role::Constant;
        for (TensorId t : p.outputs)
            if (!merged[t]) return false;
        // An input that is read elsewhere too stays as it is; where that takes one of the dims by itself, rewriting finds it.
        for (const Equation& q : p.equations) {
            std::vector<ExprId> roots = q.at;
            roots.push_back(q.rhs);
            for (ExprId root : roots)
                for (const Read& r : reads_with_context(p, root)) {
                    const Expr& x = p.expr(r.expr);
                    if (!merged[x.ref]) continue;
                    if (merged[q.lhs] && x.kind == ExprKind::Load && x.outside == Outside::Error && leading(x.args) == leading(q.at)) continue;
                    if (p.tensors[x.ref].role != Role::Input) return false;
                    merged[x.ref] = false;
                }
        }
        return true;
    }

    // The variables that become one, of all equations: none of them may be met elsewhere.
    std::optional<std::vector<bool>> taken() const {
        std::vector<bool> r(p.vars.size());
        for (const Equation& e : p.equations) {
            if (!merged[e.lhs]) continue;
            const Place place = leading(e.at);
            if (e.update != Update::Set || !plain(place)) return std::nullopt;
            for (ExprId i : place)
                if (p.expr(i).kind == ExprKind::Index) r[p.expr(i).ref] = true;
        }
        return r;
    }

    std::string name_of(const Equation& e) const {
        for (ExprId i : leading(e.at))
            if (p.expr(i).kind == ExprKind::Index) return p.vars[p.expr(i).ref].name;
        return "i";
    }

    std::optional<Program> rewritten() const {
        Program q;
        q.name = p.name, q.doc = p.doc;
        q.tensors = p.tensors;
        q.inputs = p.inputs, q.outputs = p.outputs;
        q.requirements = p.requirements;
        Sym all = 1;
        for (const Sym& d : dims) all = all * d;
        for (TensorId t = 0; t < q.tensors.size(); ++t) {
            if (!merged[t]) continue;
            auto& shape = q.tensors[t].shape;
            shape.erase(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(dims.size()));
            shape.insert(shape.begin(), all);
        }
        const auto gone = taken();
        if (!gone) return std::nullopt;
        bool alone = false;
        Rewriter w{.from = p, .into = q};
        for (TensorId t = 0; t < p.tensors.size(); ++t) w.tensors[t] = t;
        std::map<Place, VarId> variables;
        w.replace = [&](Rewriter& r, ExprId e) -> ExprId {
            const Expr& x = p.expr(e);
            if ((x.kind == ExprKind::Index && (*gone)[x.ref]) || (x.kind == ExprKind::Scan && (*gone)[x.vars[0]])) {
                alone = true;
                return q.literal(0, x.dtype);
            }
            if (x.kind != ExprKind::Load || !merged[x.ref]) return kNone;
            std::vector<ExprId> at = {q.index(variables.at(leading(x.args)))};
            for (size_t d = dims.size(); d < x.args.size(); ++d) at.push_back(r(x.args[d]));
            return q.load(x.ref, std::move(at));
        };
        for (const Equation& e : p.equations) {
            for (VarId v : e.vars)
                if (!(*gone)[v]) w.vars[v] = q.index(w.bind(v));
            std::vector<ExprId> at;
            size_t from = 0;
            if (merged[e.lhs]) {
                const auto [it, fresh] = variables.try_emplace(leading(e.at), 0);
                if (fresh) it->second = q.add_var(name_of(e), all);
                at.push_back(q.index(it->second));
                from = dims.size();
            }
            for (size_t d = from; d < e.at.size(); ++d) at.push_back(w(e.at[d]));
            const ExprId rhs = w(e.rhs);
            if (alone) return std::nullopt;
            q.add_equation(e.lhs, std::move(at), rhs, e.update, e.outside, e.span);
        }
        return q;
    }
};
}  // namespace

std::optional<MergedDims> merge_leading_dims(const Program& p, const std::vector<Sym>& dims) {
    Pass pass{p, dims, {}};
    if (!pass.choose()) return std::nullopt;
    auto q = pass.rewritten();
    if (!q) return std::nullopt;
    return MergedDims{std::move(*q), std::move(pass.merged)};
}

}  // namespace opwright::math
