#include "math/unroll.h"

#include <algorithm>

namespace opwright::math {
namespace {

std::optional<Fn> chain_of(ReduceOp op) {
    switch (op) {
        case ReduceOp::Sum: return Fn::Add;
        case ReduceOp::Prod: return Fn::Mul;
        case ReduceOp::Max: return Fn::Max;
        case ReduceOp::Min: return Fn::Min;
        case ReduceOp::Any: return Fn::Or;
        case ReduceOp::All: return Fn::And;
        case ReduceOp::ArgMax:
        case ReduceOp::ArgMin:
        case ReduceOp::ArgMaxLast:
        case ReduceOp::ArgMinLast: return std::nullopt;
    }
    return std::nullopt;
}

class Unroller {
public:
    Unroller(const Program& p, int max_terms) : p_(p), max_terms_(max_terms) {}

    Program run() {
        into_.name = p_.name;
        into_.doc = p_.doc;
        into_.tensors = p_.tensors;
        into_.inputs = p_.inputs;
        into_.outputs = p_.outputs;
        into_.vars = p_.vars;
        into_.requirements = p_.requirements;
        for (const Equation& q : p_.equations) {
            Rewriter w = rewriter();
            Equation n = q;
            for (ExprId& a : n.at) a = w(a);
            n.rhs = w(q.rhs);
            into_.equations.push_back(std::move(n));
        }
        return std::move(into_);
    }

private:
    Rewriter rewriter() {
        Rewriter w{.from = p_, .into = into_};
        for (TensorId t = 0; t < p_.tensors.size(); ++t) w.tensors[t] = t;
        for (VarId v = 0; v < p_.vars.size(); ++v) w.bound[v] = v;
        w.replace = [this](Rewriter& self, ExprId e) { return replaced(self, e); };
        return w;
    }

    ExprId replaced(Rewriter& self, ExprId e) {
        const Expr& x = p_.expr(e);
        if (x.kind == ExprKind::Load && p_.tensors[x.ref].role == Role::Constant) return table_entry(p_, x, self);
        if (x.kind != ExprKind::Reduce || x.args.size() > 1 || !chain_of(x.reduce) || !reads_table(x)) return kNone;
        std::vector<int64_t> extents;
        int64_t terms = 1;
        for (VarId v : x.vars) {
            const auto n = p_.vars[v].extent.constant();
            if (!n || *n < 1 || (terms *= *n) > max_terms_) return kNone;
            extents.push_back(*n);
        }
        ExprId chain = kNone;
        std::vector<int64_t> point(extents.size(), 0);
        for (int64_t i = 0; i < terms; ++i) {
            Rewriter w = rewriter();
            w.vars = self.vars;
            w.bound = self.bound;
            for (size_t d = 0; d < point.size(); ++d) {
                w.bound.erase(x.vars[d]);
                w.vars[x.vars[d]] = into_.integer(point[d]);
            }
            const ExprId term = into_.cast(w(x.args[0]), x.dtype);
            chain = chain == kNone ? term : into_.call(*chain_of(x.reduce), {chain, term});
            for (size_t d = point.size(); d-- > 0;) {
                if (++point[d] < extents[d]) break;
                point[d] = 0;
            }
        }
        return chain;
    }

    bool reads_table(const Expr& reduce) const {
        for (TensorId t : p_.reads(reduce.args[0]))
            if (p_.tensors[t].role == Role::Constant) return true;
        return false;
    }

    const Program& p_;
    int max_terms_;
    Program into_;
};
}  // namespace

ExprId table_entry(const Program& p, const Expr& load, Rewriter& self) {
    const TensorInfo& t = p.tensors[load.ref];
    int64_t flat = 0;
    for (size_t d = 0; d < t.shape.size(); ++d) {
        const Expr at = self.into.expr(self(load.args[d]));
        const auto n = t.shape[d].constant();
        if (at.kind != ExprKind::Literal || !n || at.integer < 0 || at.integer >= *n) return kNone;
        flat = flat * *n + at.integer;
    }
    return is_float(t.dtype) ? self.into.literal(t.data.get(flat), t.dtype) : self.into.integer(t.data.get_int(flat), t.dtype);
}

Program unroll_tables(const Program& p, int max_terms) { return Unroller(p, max_terms).run(); }

}  // namespace opwright::math
