#include "target/cpu/loop_facts.h"

#include <algorithm>
#include <cmath>

namespace opwright::target::cpu {
using namespace math;

namespace {
constexpr double kLine = 64;  // bytes that come from memory together

class Loops {
public:
    Loops(const Program& p, const target::Machine& m, const SymValues& sizes) : p_(p), m_(m), sizes_(sizes) {}

    LoopFacts facts(const Equation& q, const schedule::EquationPlan& plan) {
        LoopFacts f;
        f.result = p_.tensors[q.lhs].name;
        vars_ = q.vars;
        widest_ = size_of(compute_type(p_.tensors[q.lhs].dtype));
        std::vector<ExprId> loads;
        inspect(q.rhs, loads);
        const bool lanes = plan.lane != kNone && plan.lanes > 1;
        f.lanes = lanes ? plan.lanes : 1;
        inner_ = lanes ? plan.lane : vars_.empty() ? kNone : vars_.back();
        f.widest = std::max(1, m_.vector_bytes / static_cast<int>(widest_));
        // A short row has no use for more.
        for (const double n = inner_ == kNone ? 1 : extent(inner_); f.widest > 1 && n <= f.widest / 2;) f.widest /= 2;
        f.points = 1;
        for (VarId v : vars_) f.points *= extent(v);
        f.scan = p_.expr(q.rhs).kind == ExprKind::Scan;
        for (ExprId e : loads) read(e, f);
        return f;
    }

private:
    double value(const Sym& s) const { return static_cast<double>(evaluate(s, sizes_).value_or(0)); }
    double extent(VarId v) const { return value(p_.vars[v].extent); }

    // Loads of values, not those inside indices, which select; and all variables that the right-hand side runs over.
    void inspect(ExprId root, std::vector<ExprId>& loads) {
        std::vector<bool> seen(p_.expr_count());
        std::vector<ExprId> stack{root};
        while (!stack.empty()) {
            const ExprId e = stack.back();
            stack.pop_back();
            if (seen[e]) continue;
            seen[e] = true;
            const Expr& x = p_.expr(e);
            if (x.kind == ExprKind::Reduce)
                for (VarId v : x.vars)
                    if (std::find(vars_.begin(), vars_.end(), v) == vars_.end()) vars_.push_back(v);
            if (x.kind == ExprKind::Load) {
                loads.push_back(e);
                widest_ = std::max(widest_, size_of(compute_type(x.dtype)));
            }
            if (x.kind == ExprKind::Load || x.kind == ExprKind::Inside) continue;
            for (ExprId a : x.args) stack.push_back(a);
        }
    }

    void read(ExprId e, LoopFacts& f) const {
        const Expr& x = p_.expr(e);
        const TensorInfo& t = p_.tensors[x.ref];
        LoopFacts::Access a;
        a.tensor = t.name;
        a.along = inner_ == kNone ? "" : p_.vars[inner_].name;
        std::vector<double> step(vars_.size());
        double stride = 1;
        for (size_t d = t.shape.size(); d-- > 0; stride *= value(t.shape[d])) {
            const auto index = affine(p_, x.args[d]);
            a.data |= !index && !p_.free_vars(x.args[d]).empty();
            for (size_t i = 0; index && i < vars_.size(); ++i) step[i] += value(index->coefficient(vars_[i])) * stride;
        }
        double distinct = 1, least = INFINITY;
        for (size_t i = 0; i < vars_.size(); ++i) {
            if (step[i] == 0 || extent(vars_[i]) <= 1) continue;
            distinct *= extent(vars_[i]);
            least = std::min(least, std::fabs(step[i]));
            if (vars_[i] == inner_) a.step = static_cast<int64_t>(std::fabs(step[i]));
        }
        if (!a.data && a.step <= 1) return;
        const double bytes = static_cast<double>(size_of(t.dtype)), all = stride * bytes;
        a.wanted = std::min(distinct * bytes, all);
        a.fetched = a.data || !std::isfinite(least) ? a.wanted : std::min(distinct * std::clamp(least * bytes, bytes, std::max(kLine, bytes)), all);
        a.fetched = std::max(a.fetched, a.wanted);
        f.strided.push_back(std::move(a));
    }

    const Program& p_;
    const target::Machine& m_;
    const SymValues& sizes_;
    std::vector<VarId> vars_;
    VarId inner_ = kNone;
    size_t widest_ = 1;
};
}  // namespace

std::vector<LoopFacts> loop_facts(const schedule::Kernel& k, const schedule::Schedule& s, const target::Machine& m, const SymValues& sizes) {
    std::vector<LoopFacts> r;
    Loops loops(k.program, m, sizes);
    for (size_t n = 0; n < k.nests.size() && n < s.nests.size(); ++n) {
        if (k.nests[n].contraction) continue;
        for (size_t j = 0; j < k.nests[n].equations.size() && j < s.nests[n].equations.size(); ++j)
            r.push_back(loops.facts(k.program.equations[k.nests[n].equations[j]], s.nests[n].equations[j]));
    }
    return r;
}

}  // namespace opwright::target::cpu
