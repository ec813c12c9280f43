#include "tune/predict.h"

#include <algorithm>
#include <cmath>

namespace opwright::tune {
using namespace math;
using schedule::ContractPlan;
using schedule::EquationPlan;
using target::cpu::RegisterTile;

namespace {
constexpr double kLatency = 4, kIssue = 2, kLoads = 2;  // cycles; vector operations and loads started in one
constexpr double kLoopCycles = 1.5, kTaskCycles = 150, kSpecial = 20, kDivide = 5;
constexpr double kScattered = 4, kStream = 0.1, kNear = 4;  // cycles of an element that lies apart, and of a row
                                                            // beside others; elements that one vector load skips
constexpr int64_t kFar = int64_t{1} << 30;  // elements apart, where it is not known
constexpr double kL1 = 32 << 10, kL2 = 1 << 20, kLine = 64;

class Model {
public:
    Model(const target::cpu::Planned& p, const schedule::Schedule& s, const SymValues& sizes, const explain::Machine& m)
        : p_(p.kernel.program), k_(p.kernel), s_(s), sizes_(sizes), m_(m) {
        const double lanes = std::max(1, p.machine.vector_bytes / 4);
        threads_ = std::max(1, m.threads);
        hz_ = m.flops_f32 > 0 ? m.flops_f32 / (2 * lanes * kIssue * threads_) : 2e9;  // cycles of one core in a second
        vector_bytes_ = p.machine.vector_bytes;
    }

    double run(const std::vector<target::cpu::StageFacts>& stages) {
        double seconds = 0;
        size_t stage = 0;
        for (size_t n = 0; n < k_.nests.size(); ++n) {
            // A contraction may have stages before its own that bring factors into panels.
            while (k_.nests[n].contraction && stage + 1 < stages.size() && !stages[stage].tile) ++stage;
            const double tasks = stage < stages.size() ? std::max<double>(1, static_cast<double>(stages[stage].tasks)) : 1;
            if (k_.nests[n].contraction && stage < stages.size() && stages[stage].tile)
                seconds += contraction(s_.nests[n].contract, *stages[stage].tile, tasks);
            else
                seconds += rest(k_.nests[n], s_.nests[n], tasks);
            ++stage;
        }
        return seconds;
    }

private:
    double extent(VarId v) const { return std::max(0.0, static_cast<double>(evaluate(p_.vars[v].extent, sizes_).value_or(1))); }
    // The share of the threads' time that has work, for this many equal tasks.
    double busy(double tasks) const { return tasks / (std::ceil(tasks / threads_) * threads_); }
    double bandwidth(double bytes) const { return std::max(1e8, m_.bandwidth(bytes)); }

    double contraction(const ContractPlan& c, const RegisterTile& t, double tasks) const {
        const double mr = c.mr, nv = c.nv, nr = nv * c.lanes, element = vector_bytes_ / c.lanes;
        const double m = static_cast<double>(t.m), n = static_cast<double>(t.n), k = static_cast<double>(t.k), batch = static_cast<double>(t.batch);
        // Of one position of depth of a register tile.
        const double ideal = mr * nv / kIssue, step = std::max({ideal, (mr + nv) / kLoads, kLatency}) + kLoopCycles / 4;
        const double vectors = t.computed / c.lanes, tiles = t.computed / std::max(1.0, mr * nr * k);
        const double depth = c.kc > 0 ? static_cast<double>(c.kc) : k;  // windows take all of it at once
        const double blocks = std::max(1.0, std::ceil(k / depth));
        const double cycles = vectors / (mr * nv) * step + tiles * blocks * (2 * mr * nv + 20) + tasks * kTaskCycles;
        const double arithmetic = cycles / hz_ / threads_ / busy(tasks);

        // The columns' panel stays while the rows' panels pass, where it fits.
        const double kc = std::min<double>(depth, k), mt = std::min<double>(static_cast<double>(c.mt), m),
                     nt = std::min<double>(static_cast<double>(c.nt), n);
        const double rows_from = mt * kc * element <= kL2 ? bandwidth(kL2 / 2) : bandwidth(mt * kc * element * 4);
        double traffic = batch * m * k * (n / nr) * element / rows_from;
        if (kc * nr * element > kL1 / 2) traffic += batch * n * k * (m / mr) * element / bandwidth(std::max(kL2 / 2, nt * kc * element));
        const double partial = 2 * batch * m * n * element * (blocks - 1) / bandwidth(std::max(kL2 / 2, mt * nt * element));
        const double packing = 3 * t.packed * element / bandwidth((m + n) * k * element) + t.packed / hz_ / threads_;
        const double all = (m * k + n * k + m * n) * element * batch;
        return std::max(arithmetic, traffic) + partial + packing + m * n * batch * element / bandwidth(all);
    }

    // What one point of an expression takes: vector operations, and loads whose lanes lie side by side or not.
    struct Work {
        double operations = 0, loads = 0, scattered = 0;
    };
    void count(ExprId e, const EquationPlan& plan, Work& w, std::vector<ExprId>& reduces, std::vector<bool>& seen) const {
        if (seen[e]) return;
        seen[e] = true;
        const Expr& x = p_.expr(e);
        if (x.kind == ExprKind::Reduce) {
            reduces.push_back(e);
            return;
        }
        size_t skip = 0;
        if (x.kind == ExprKind::Load) {
            skip = p_.tensors[x.ref].shape.size();
            const double stride = stride_along(x.ref, x.args.data(), plan.lane);
            if (stride == 0 || stride == 1) ++w.loads;
            else if (stride > 1 && stride <= kNear) w.loads += stride, w.operations += stride;
            else if (turned(plan)) ++w.loads, w.operations += std::log2(plan.lanes);
            else ++w.scattered;
        }
        if (x.kind == ExprKind::Call)
            switch (info(x.fn).cost) {
                case CostClass::Free: break;
                case CostClass::Simple: ++w.operations; break;
                case CostClass::Divide: w.operations += kDivide; break;
                case CostClass::Special: w.operations += kSpecial; break;
            }
        for (size_t i = skip; i < x.args.size(); ++i) count(x.args[i], plan, w, reduces, seen);
    }
    // Whether squares of a read across the lanes are turned in registers (target/cpu/lower/turned.h), with a permutation
    // a level and vector.
    static bool turned(const EquationPlan& e) { return e.lane_first && e.unroll == 1 && e.lanes > 1 && e.lanes <= 16; }
    // Elements from lane to lane; kFar where that is not known.
    double stride_along(TensorId t, const ExprId* at, VarId v) const {
        if (v == kNone) return 0;
        const auto& shape = p_.tensors[t].shape;
        double r = 0, step = 1;
        for (size_t d = shape.size(); d-- > 0;) {
            if (const auto f = affine(p_, at[d])) {
                r += static_cast<double>(evaluate(f->coefficient(v), sizes_).value_or(kFar)) * step;
            } else {
                const auto fv = p_.free_vars(at[d]);
                if (std::find(fv.begin(), fv.end(), v) != fv.end()) return static_cast<double>(kFar);
            }
            step *= static_cast<double>(evaluate(shape[d], sizes_).value_or(1));
        }
        return std::fabs(r);
    }

    double rest(const schedule::Nest& nest, const schedule::NestPlan& plan, double tasks) const {
        double cycles = tasks * kTaskCycles, bytes = 0, lines = 0;
        for (size_t j = 0; j < nest.equations.size() && j < plan.equations.size(); ++j) {
            const Equation& q = p_.equations[nest.equations[j]];
            const EquationPlan& e = plan.equations[j];
            double points = 1;
            for (VarId v : q.vars) points *= extent(v);
            Work w;
            std::vector<ExprId> reduces;
            std::vector<bool> seen(p_.expr_count());
            count(q.rhs, e, w, reduces, seen);
            add(points, w, e, e.lane_reduces ? 1 : e.lanes, false, cycles, lines);
            for (size_t r = 0; r < reduces.size(); ++r) {  // those inside others are found as they are met
                const Expr x = p_.expr(reduces[r]);
                double inner = points;
                for (VarId v : x.vars) inner *= extent(v);
                Work terms;
                terms.operations = 1;
                for (ExprId a : x.args) count(a, e, terms, reduces, seen);
                add(inner, terms, e, e.lane == kNone ? 1 : e.lanes, true, cycles, lines);
                if (e.lane_reduces) cycles += points * (12.0 + 2 * e.unroll);  // partial results become one
            }
        }
        std::vector<bool> met(p_.tensors.size());
        for (uint32_t i : nest.equations) {
            std::vector<TensorId> touched = p_.reads(p_.equations[i].rhs);
            touched.push_back(p_.equations[i].lhs);
            for (TensorId t : touched) {
                if (met[t]) continue;
                met[t] = true;
                double elements = 1;
                for (const Sym& d : p_.tensors[t].shape) elements *= static_cast<double>(evaluate(d, sizes_).value_or(1));
                bytes += elements * static_cast<double>(size_of(p_.tensors[t].dtype));
            }
        }
        const double arithmetic = cycles / hz_ / threads_ / busy(tasks);
        return std::max(arithmetic, bytes / bandwidth(bytes) + lines * kLine / bandwidth(kL2 / 2) / 8) + m_.dispatch_seconds;
    }
    // `points` of this work on lanes. A sum waits for its last addition unless several run side by side.
    static void add(double points, const Work& w, const EquationPlan& e, double lanes, bool sums, double& cycles, double& lines) {
        const double vectors = points / lanes;
        const double side_by_side = e.rows > 0 ? 1 : std::max(1, e.unroll);
        const double issue = std::max(w.operations / kIssue, w.loads / kLoads + w.scattered * lanes * kScattered) +
                             e.rows * kStream;
        const double waits = sums ? (e.rows > 0 ? 1.0 : kLatency / side_by_side) : 0;
        cycles += vectors * (std::max(issue, waits) + kLoopCycles / (e.rows > 0 ? e.rows : side_by_side));
        lines += vectors * w.scattered * lanes;
    }

    const Program& p_;
    const schedule::Kernel& k_;
    const schedule::Schedule& s_;
    const SymValues& sizes_;
    const explain::Machine& m_;
    double threads_ = 1, hz_ = 2e9, vector_bytes_ = 16;
};
}  // namespace

Result<double> predict(const target::cpu::Planned& p, const schedule::Schedule& s, std::span<const int64_t> symbols,
                       const explain::Machine& m) {
    OPW_TRY(const auto stages, target::cpu::facts(p, s, symbols));
    SymValues sizes;
    for (size_t i = 0; i < p.symbols.size(); ++i) sizes[p.symbols[i]] = symbols[i];
    return Model(p, s, sizes, m).run(stages);
}

}  // namespace opwright::tune
