#include "target/ascend/product.h"

#include <algorithm>

namespace opwright::target::ascend {
using namespace math;

namespace {
bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

ExprId strip(const Program& p, ExprId e) {
    while (p.expr(e).kind == ExprKind::Cast && is_float(p.expr(e).dtype) && is_float(p.expr(p.expr(e).args[0]).dtype))
        e = p.expr(e).args[0];
    return e;
}
// The element stride of a plain load along v; nullopt where it is no plain load.
std::optional<Sym> stride(const Program& p, const Expr& x, VarId v) {
    Sym r = 0, step = 1;
    const auto& shape = p.tensors[x.ref].shape;
    for (size_t d = shape.size(); d-- > 0;) {
        const auto f = affine(p, x.args[d]);
        if (!f) return std::nullopt;
        r = r + f->coefficient(v) * step;
        step = step * shape[d];
    }
    return r;
}
// Whether the matrix with rows `r` and columns `c` lies row by row (0), column by column (1), or otherwise (-1).
int layout(const Program& p, const Expr& x, VarId r, VarId c) {
    const auto sr = stride(p, x, r), sc = stride(p, x, c);
    if (!sr || !sc) return -1;
    if (sc->is(1) && *sr == p.vars[c].extent) return 0;
    if (sr->is(1) && *sc == p.vars[r].extent) return 1;
    return -1;
}
}  // namespace

std::optional<Product> extract_product(schedule::Kernel& k, size_t nest) {
    Program& p = k.program;
    if (!k.nests[nest].contraction || k.nests[nest].equations.size() != 1) return std::nullopt;
    const schedule::Contraction& c = *k.nests[nest].contraction;
    Equation& q = p.equations[k.nests[nest].equations[0]];
    if (c.m.size() != 1 || c.n.size() != 1 || c.k.size() != 1) return std::nullopt;
    Product r{
        .nest = nest, .a = strip(p, c.a), .b = strip(p, c.b), .batch = c.batch, .m = c.m[0], .n = c.n[0], .k = c.k[0]};
    const Expr a = p.expr(r.a), b = p.expr(r.b);
    if (a.kind != ExprKind::Load || b.kind != ExprKind::Load || a.outside != Outside::Error ||
        b.outside != Outside::Error)
        return std::nullopt;
    r.type = p.tensors[a.ref].dtype;
    const bool taken = r.type == DType::F16 || r.type == DType::BF16 || r.type == DType::F32;
    if (!taken || p.tensors[b.ref].dtype != r.type || p.tensors[a.ref].role == Role::Temp ||
        p.tensors[b.ref].role == Role::Temp)
        return std::nullopt;
    for (VarId v : {r.m, r.k})
        if (has(p.free_vars(r.b), v) && v == r.m) return std::nullopt;
    const int la = layout(p, a, r.m, r.k), lb = layout(p, b, r.k, r.n);
    if (la < 0 || lb < 0) return std::nullopt;
    r.transposed_a = la == 1;
    r.transposed_b = lb == 1;
    // The result's dims are batch, m, n in this order: then a core's tasks are rows.
    std::vector<VarId> order = r.batch;
    order.push_back(r.m);
    order.push_back(r.n);
    if (q.vars != order || q.at.size() < order.size()) return std::nullopt;

    std::vector<Sym> shape;
    std::vector<ExprId> at;
    for (VarId v : order) {
        shape.push_back(p.vars[v].extent);
        at.push_back(p.index(v));
    }
    const ExprId product = c.reduce;
    r.acc = p.add_tensor("product", DType::F32, shape, Role::Temp);
    const ExprId read = p.load(r.acc, at);
    Program copy = p;
    Rewriter w{.from = copy, .into = p};
    for (TensorId t = 0; t < p.tensors.size(); ++t) w.tensors[t] = t;
    for (VarId v = 0; v < p.vars.size(); ++v) w.bound[v] = v;
    w.replace = [&](Rewriter&, ExprId e) { return e == product ? read : kNone; };
    Equation& epilogue = p.equations[k.nests[nest].equations[0]];
    epilogue.rhs = w(epilogue.rhs);
    k.nests[nest].contraction.reset();
    k.nests[nest].grid = order;
    k.workspace.push_back(r.acc);
    return r;
}

}  // namespace opwright::target::ascend
