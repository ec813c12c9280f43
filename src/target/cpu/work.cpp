#include "target/cpu/work.h"

#include <algorithm>

#include "schedule/parts.h"
#include "target/cpu/lower/lower.h"

namespace opwright::target::cpu {
using namespace math;

namespace {
class WorkOf {
public:
    WorkOf(const math::Program& p, const schedule::Nest& nest, const schedule::NestPlan& plan) : p_(p) {
        for (size_t j = 0; j < nest.equations.size(); ++j) {
            const Equation& q = p.equations[nest.equations[j]];
            Sym n = 1;
            for (VarId v : q.vars) n = n * p.vars[v].extent;
            if (nest.contraction) {
                for (VarId v : nest.contraction->k) n = n * p.vars[v].extent;
                const int64_t speed = schedule::speed_of(std::max(1, plan.contract.parts), plan.contract.tiles);
                total_ = total_ + n * Sym(std::max<int64_t>(1, kContractionWork / speed));
                // Few multiply-adds an element, as of depthwise layers and of one row, take as long as reading and storing them.
                std::vector<TensorId> moved = p.reads(q.rhs);
                moved.push_back(q.lhs);
                for (TensorId t : moved)
                    total_ = total_ + product(p.tensors[t].shape) * Sym(static_cast<int64_t>(size_of(p.tensors[t].dtype)) * kByte);
                continue;
            }
            lanes_ = std::max(1, plan.equations[j].lanes);
            scan_ = p.expr(q.rhs).kind == ExprKind::Scan;
            at(q.rhs, n, static_cast<int64_t>(size_of(p.tensors[q.lhs].dtype)) * kByte);
        }
    }
    Sym total() const { return total_; }

private:
    static constexpr int64_t kByte = 16, kOperation = 128, kSpecial = 16, kScalarStep = 1000;

    // The expression at n points, with `more` at each.
    void at(ExprId root, const Sym& n, int64_t more) {
        std::vector<bool> seen(p_.expr_count());
        std::vector<ExprId> stack{root}, reduces;
        int64_t each = more;
        while (!stack.empty()) {
            const ExprId e = stack.back();
            stack.pop_back();
            if (seen[e]) continue;
            seen[e] = true;
            const math::Expr& x = p_.expr(e);
            if (x.kind == ExprKind::Load) each += static_cast<int64_t>(size_of(x.dtype)) * kByte;
            if (x.kind == ExprKind::Call)
                each += (info(x.fn).cost == CostClass::Special ? kSpecial : 1) * kOperation / lanes_;
            if (x.kind == ExprKind::Reduce) {
                reduces.push_back(e);
                continue;
            }
            stack.insert(stack.end(), x.args.begin(), x.args.end());
        }
        if (scan_) each += kScalarStep;
        total_ = total_ + n * Sym(std::max<int64_t>(1, each));
        for (ExprId e : reduces) {
            const math::Expr& x = p_.expr(e);
            Sym terms = n;
            for (VarId v : x.vars) terms = terms * p_.vars[v].extent;
            for (ExprId a : x.args) at(a, terms, kOperation / lanes_);
        }
    }

    const math::Program& p_;
    Sym total_ = 0;
    int lanes_ = 1;
    bool scan_ = false;
};
}  // namespace

Sym work_of(const Program& p, const schedule::Nest& nest, const schedule::NestPlan& plan) {
    return WorkOf(p, nest, plan).total();
}

}  // namespace opwright::target::cpu
