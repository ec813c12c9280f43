// What a kernel's loads and loops owe to each other: what a block holds where it has no element, and the order in which
// a row that is read several times is walked.
#include <algorithm>

#include "target/triton/kernel_printer.h"
#include "target/triton/share.h"

namespace opwright::target::triton {
using namespace math;
using tile::kNoBuffer;
using tile::Stmt;
using tile::StmtKind;

void KernelPrinter::scan_uses(const std::vector<Stmt>& body) {
    const auto before = loaded_;
    for (const Stmt& s : body) {
        const Expr* value =
            s.dst != kNoBuffer && p_.buffers[s.dst].value != kNone ? &math_.expr(p_.buffers[s.dst].value) : nullptr;
        if ((s.kind == StmtKind::Load || s.kind == StmtKind::Gather) && value->kind == ExprKind::Load) {
            loaded_[p_.buffers[s.dst].value] = s.dst;
        } else if (s.kind == StmtKind::Map && value->kind == ExprKind::Cast && is_float(value->dtype)) {
            if (const auto it = loaded_.find(value->args[0]); it != loaded_.end()) origin_[s.dst] = it->second;
        } else if ((s.kind == StmtKind::Reduce || s.kind == StmtKind::Accumulate) && s.a != kNoBuffer) {
            if (s.b == kNoBuffer && !is_arg(s.op)) wanted_fill(s);
        } else if (s.kind == StmtKind::Scan && expressions_.axis.count(s.var)) {
            folded_[origin(s.a)].push_back(math_.expr(math_.equations[s.equation].rhs).reduce);
        } else if (s.kind == StmtKind::AccumulatePair) {
            folded_[origin(s.a)].push_back(math_.expr(p_.pairs[s.pair].first).reduce);
            lanes_[s.dst] = lanes_[s.b] = s.pair;
        } else {
            for (BufferId b : {s.a, s.b})
                if (b != kNoBuffer) ++others_[b];
        }
        if (s.kind == StmtKind::Store) stored_.emplace(s.a, math_.tensors[math_.equations[s.equation].lhs].name);
        scan_uses(s.body);
    }
    loaded_ = before;
}

KernelPrinter::BufferId KernelPrinter::origin(BufferId b) const {
    const auto it = origin_.find(b);
    return it == origin_.end() ? b : it->second;
}

// A block whose lanes beyond the extent hold the identity of the fold that takes it needs no mask there. So does the
// sum of a softmax where they hold -inf, for exp(-inf - h) is 0; of a row with no elements, whose sum would be NaN,
// nothing must be stored then.
KernelPrinter::BufferId KernelPrinter::exponent(const Stmt& s) const {
    if (s.op != ReduceOp::Sum || p_.buffers[s.dst].value == kNone) return kNoBuffer;
    const Expr& sum = math_.expr(p_.buffers[s.dst].value);
    if (sum.kind != ExprKind::Reduce) return kNoBuffer;
    const auto it = loaded_.find(shifted_exponent(math_, sum.args[0], sum.vars));
    if (it == loaded_.end()) return kNoBuffer;
    for (uint32_t e : form_.equations) {
        const Equation& q = math_.equations[e];
        const bool local = std::find(form_.local.begin(), form_.local.end(), q.lhs) != form_.local.end();
        const auto has_row = [&](VarId v) { return std::find(q.vars.begin(), q.vars.end(), v) != q.vars.end(); };
        if (!local && !std::all_of(sum.vars.begin(), sum.vars.end(), has_row)) return kNoBuffer;
    }
    return it->second;
}

void KernelPrinter::wanted_fill(const Stmt& s) {
    const BufferId source = origin(s.a), shifted = exponent(s);
    if (shifted != kNoBuffer) {
        folded_[shifted].push_back(ReduceOp::Max);
        exponent_[&s] = shifted;
    } else {
        folded_[source].push_back(s.op);
    }
}

std::optional<ReduceOp> KernelPrinter::fill_of(BufferId load) const {
    const auto f = folded_.find(load);
    if (f == folded_.end() || others_.count(load)) return std::nullopt;
    const ReduceOp op = f->second[0];
    if (!std::all_of(f->second.begin(), f->second.end(), [&](ReduceOp o) { return o == op; })) return std::nullopt;
    const Expr& x = math_.expr(p_.buffers[load].value);
    return x.kind == ExprKind::Load && x.outside != Outside::Value ? std::optional(op) : std::nullopt;
}

bool KernelPrinter::filled(const Stmt& s) const {
    if (const auto e = exponent_.find(&s); e != exponent_.end()) return filled_.count(e->second) > 0;
    return filled_.count(origin(s.a)) > 0;
}

namespace {
void loads_of(const tile::Program& p, const Stmt& s, std::vector<ExprId>& out) {
    if (s.kind == StmtKind::Load) out.push_back(p.buffers[s.dst].value);
    for (const Stmt& b : s.body) loads_of(p, b, out);
}
bool in_order(const Stmt& s) {  // a scan or an update goes by its own order
    return s.kind == StmtKind::Scan || s.kind == StmtKind::ScatterReduce ||
           std::any_of(s.body.begin(), s.body.end(), in_order);
}
}  // namespace

// A row that is walked several times is found in the caches where it was read last: every other walk goes backward, and
// the loads say whether another walk follows.
void KernelPrinter::plan_walks() {
    std::vector<const Stmt*> walks;
    std::vector<std::vector<ExprId>> loads;
    for (const Stmt& s : nest_.body)
        if (s.kind == StmtKind::For && s.lane) {
            walks.push_back(&s);
            loads_of(p_, s, loads.emplace_back());
        }
    const auto reads = [&](size_t walk, ExprId e) {
        return std::find(loads[walk].begin(), loads[walk].end(), e) != loads[walk].end();
    };
    bool backward = false;
    for (size_t i = 0; i < walks.size(); ++i) {
        bool again = false;
        for (ExprId e : loads[i]) {
            bool earlier = false, later = false;
            for (size_t j = 0; j < walks.size(); ++j)
                if (j != i && reads(j, e)) (j < i ? earlier : later) = true;
            if (earlier || later) eviction_[walks[i]][e] = later ? "evict_last" : "evict_first";
            again = again || earlier;
        }
        if (!again || in_order(*walks[i])) {
            backward = false;
            continue;
        }
        backward = !backward;
        if (backward) backward_.insert(walks[i]);
    }
}

}  // namespace opwright::target::triton
