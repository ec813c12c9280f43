#include "fuse/summary.h"

#include <algorithm>

namespace opwright::fuse {
using namespace math;

namespace {
// Whether a product of two loads stands in the body, each of which misses a variable: operands with reuse.
bool is_contraction(const Program& p, const Equation& q, ExprId root) {
    for (const Read& r : reads_with_context(p, root)) {
        if (r.reduced.empty()) continue;
        std::vector<VarId> domain = q.vars;
        domain.insert(domain.end(), r.reduced.begin(), r.reduced.end());
        const Expr& x = p.expr(r.expr);
        const std::vector<ExprId> at(x.args.begin(), x.args.begin() + static_cast<std::ptrdiff_t>(p.tensors[x.ref].shape.size()));
        if (repeats(p, at, domain)) return true;
    }
    return false;
}
}  // namespace

Summary summarise(const Program& p) {
    Summary s;
    s.inputs.resize(p.inputs.size());
    std::vector<std::vector<std::vector<ExprId>>> places(p.inputs.size());
    std::vector<size_t> input_of(p.tensors.size(), SIZE_MAX);
    for (size_t i = 0; i < p.inputs.size(); ++i) {
        input_of[p.inputs[i]] = i;
        s.inputs[i].identity = true;
    }
    bool set_as_whole = p.outputs.size() == 1;
    for (const Equation& q : p.equations) {
        const math::Work w = math::work(p, q.rhs);
        s.work.simple += w.simple, s.work.divide += w.divide, s.work.special += w.special, s.work.loads += w.loads;
        s.work.reduces |= w.reduces, s.work.scans |= w.scans, s.work.all_affine &= w.all_affine;
        if (q.update != Update::Set && q.lhs == p.outputs[0]) set_as_whole = false;
        if (w.reduces && is_contraction(p, q, q.rhs)) s.contraction = true;
        const bool is_output = q.lhs == p.outputs[0] && q.update == Update::Set;
        const auto look = [&](ExprId root) {
            for (const Read& r : reads_with_context(p, root)) {
                const Expr& x = p.expr(r.expr);
                const size_t i = input_of[x.ref];
                if (i == SIZE_MAX) continue;
                InputUse& u = s.inputs[i];
                const TensorInfo& t = p.tensors[x.ref];
                const std::vector<ExprId> at(x.args.begin(), x.args.begin() + static_cast<std::ptrdiff_t>(t.shape.size()));
                if (x.kind == ExprKind::Inside || x.outside != Outside::Error) u.edges = true;
                std::vector<VarId> domain = q.vars;
                domain.insert(domain.end(), r.reduced.begin(), r.reduced.end());
                if (repeats(p, at, domain)) u.repeats = true;
                if (!is_output || !r.reduced.empty() || !identity(p, at, t.shape, q.vars)) u.identity = false;
                // The same indices in another equation are another pass over the tensor.
                std::vector<ExprId> place = at;
                place.push_back(static_cast<ExprId>(&q - p.equations.data()));
                if (std::find(places[i].begin(), places[i].end(), place) == places[i].end()) places[i].push_back(std::move(place));
            }
        };
        for (ExprId a : q.at) look(a);
        look(q.rhs);
    }
    for (size_t i = 0; i < p.inputs.size(); ++i) s.inputs[i].sites = static_cast<int>(places[i].size());
    s.whole = std::all_of(p.equations.begin(), p.equations.end(), [](const Equation& q) { return q.update == Update::Set; });
    const bool plain = set_as_whole && !s.work.scans;
    s.map = plain && p.equations.size() == 1 && !s.work.reduces;
    s.reduces = plain && s.work.reduces;
    if (!s.map)
        for (InputUse& u : s.inputs) u.identity = false;
    s.movement = s.map && s.work.free() && s.work.all_affine && p.expr(p.equations[0].rhs).kind == ExprKind::Load;
    return s;
}

std::optional<Program> view_program(const std::vector<Sym>& from, const std::vector<Sym>& to, DType t) {
    Program p;
    p.name = "view";
    const TensorId x = p.add_tensor("x", t, from, Role::Input), y = p.add_tensor("y", t, to, Role::Output);
    std::vector<ExprId> left, right;
    std::vector<VarId> vars;
    for (const Sym& d : to) {
        vars.push_back(p.add_var("i" + std::to_string(vars.size()), d));
        left.push_back(d.is(1) ? p.integer(0) : p.index(vars.back()));
    }
    size_t next = 0;
    for (const Sym& d : from) {
        if (d.is(1)) {
            right.push_back(p.integer(0));
            continue;
        }
        // The dims of `to` whose product is d, outermost first.
        const size_t begin = next;
        Sym covered = 1;
        while (next < to.size() && !(covered == d)) covered = covered * to[next++];
        if (!(covered == d)) return std::nullopt;
        ExprId index = p.integer(0);
        Sym stride = 1;
        for (size_t i = next; i-- > begin;) {
            if (!to[i].is(1)) index = p.call(Fn::Add, {index, p.call(Fn::Mul, {p.index(vars[i]), p.size(stride)})});
            stride = stride * to[i];
        }
        right.push_back(index);
    }
    while (next < to.size() && to[next].is(1)) ++next;
    if (next != to.size()) return std::nullopt;
    p.add_equation(y, left, p.load(x, right));
    return p;
}

}  // namespace opwright::fuse
