#include "math/localise.h"

#include <algorithm>

namespace opwright::math {

Localised localise(const Program& p) {
    std::vector<std::pair<Sym, Sym>> known;  // old expression, new symbol
    const auto rename = [&](const Sym& s) -> Sym {
        if (s.is_const()) return s;
        for (auto& [from, to] : known)
            if (from == s) return to;
        Sym n = Sym::symbol("s" + std::to_string(known.size()), std::max<int64_t>(s.lower(), INT32_MIN));
        known.emplace_back(s, n);
        return n;
    };

    Localised r;
    Program& q = r.program;
    q.name = p.name;
    q.doc = p.doc;
    q.tensors = p.tensors;
    q.inputs = p.inputs;
    q.outputs = p.outputs;
    for (TensorInfo& t : q.tensors)
        for (Sym& s : t.shape) s = rename(s);
    for (const Var& v : p.vars) q.vars.push_back({v.name, rename(v.extent)});

    Rewriter rw{.from = p, .into = q};
    for (TensorId t = 0; t < p.tensors.size(); ++t) rw.tensors[t] = t;
    for (VarId v = 0; v < p.vars.size(); ++v) {
        rw.vars[v] = q.index(v);
        rw.bound[v] = v;
    }
    rw.replace = [&](Rewriter& w, ExprId e) -> ExprId {
        const Expr& x = w.from.expr(e);
        return x.kind == ExprKind::Size ? w.into.size(rename(x.sym)) : kNone;
    };
    for (const Equation& e : p.equations) {
        Equation n = e;
        for (ExprId& a : n.at) a = rw(a);
        n.rhs = rw(e.rhs);
        q.equations.push_back(std::move(n));
    }
    // Requirements stay with the original, which is checked at launch.
    std::map<std::string, Sym> value_of;
    for (auto& [from, to] : known) value_of.emplace(to.symbol_name(), from);
    for (const std::string& s : q.symbols()) r.values.push_back(value_of.at(s));
    return r;
}

}  // namespace opwright::math
