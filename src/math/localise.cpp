#include "math/localise.h"

#include <algorithm>

namespace opwright::math {

namespace {
// Symbols that a requirement says are equal to something else, as what they are equal to. What runs has been checked to
// meet the requirements.
std::map<std::string, Sym> equalities(const Program& p) {
    std::map<std::string, Sym> by;
    for (const Requirement& q : p.requirements) {
        const Sym r = substitute(q.value, by);
        if (r.kind() != SymKind::Equal) continue;
        // The later name goes: that of an input that is bound to what an earlier one has bound.
        const auto& o = r.operands();
        for (size_t side : {o[0].kind() == SymKind::Symbol && o[1].kind() == SymKind::Symbol &&
                                    o[0].symbol_name() < o[1].symbol_name()
                                ? size_t{1}
                                : size_t{0},
                            size_t{1}, size_t{0}}) {
            const Sym &name = o[side], &value = o[1 - side];
            if (name.kind() != SymKind::Symbol) continue;
            std::vector<std::string> inside;
            collect_symbols(value, inside);
            if (std::find(inside.begin(), inside.end(), name.symbol_name()) != inside.end()) continue;
            for (auto& [n, v] : by) v = substitute(v, {{name.symbol_name(), value}});
            by.emplace(name.symbol_name(), value);
            break;
        }
    }
    return by;
}
}  // namespace

Localised localise(const Program& p) {
    const std::map<std::string, Sym> same = equalities(p);
    std::vector<std::pair<Sym, Sym>> known;  // old expression, new symbol
    const auto rename = [&](const Sym& given) -> Sym {
        const Sym s = same.empty() ? given : substitute(given, same);
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
