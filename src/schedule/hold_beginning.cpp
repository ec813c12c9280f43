#include "schedule/hold_beginning.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "math/rescale.h"

namespace opwright::schedule {
using namespace math;

namespace {

bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

// The function that joins two parts of a fold.
std::optional<Fn> joins(ReduceOp op) {
    switch (op) {
        case ReduceOp::Sum: return Fn::Add;
        case ReduceOp::Prod: return Fn::Mul;
        case ReduceOp::Max: return Fn::Max;
        case ReduceOp::Min: return Fn::Min;
        case ReduceOp::Any:
        case ReduceOp::All:
        case ReduceOp::ArgMax:
        case ReduceOp::ArgMin:
        case ReduceOp::ArgMaxLast:
        case ReduceOp::ArgMinLast: return std::nullopt;
    }
    return std::nullopt;
}

// What walks along the rows of one nest do.
class Rows {
public:
    Rows(const Program& p, const Nest& nest) : p_(p), nest_(nest) {
        for (uint32_t i : nest.equations) {
            const Equation& q = p.equations[i];
            suits_ = suits_ && q.update == Update::Set;
            std::vector<VarId> own;
            for (VarId v : q.vars)
                if (!has(nest.grid, v)) own.push_back(v);
            folds(q.rhs);
            if (own.empty()) continue;
            walk(own, q.rhs);
            suits_ = suits_ && std::find(nest.local.begin(), nest.local.end(), q.lhs) == nest.local.end();
        }
    }

    // The variable to cut; kNone: there is none.
    VarId variable() const {
        if (!suits_ || nest_.contraction || vars_.size() != 1) return kNone;
        int several = 0;
        for (const auto& [load, walks] : loads_) {
            if (walks < 2) continue;
            const Expr& x = p_.expr(load);
            if (x.outside != Outside::Error || p_.tensors[x.ref].dtype != DType::F32) return kNone;
            for (ExprId a : x.args)
                if (!affine(p_, a)) return kNone;
            ++several;
        }
        const auto pairs = rescales(p_, nest_.equations);
        const bool softmax = std::any_of(pairs.begin(), pairs.end(), [](const Rescale& x) {
            return x.kind == Rescale::Kind::Exponentials;
        });
        return several == 1 && !softmax ? *vars_.begin() : kNone;
    }

private:
    void folds(ExprId e) {
        const Expr& x = p_.expr(e);
        if (x.kind == ExprKind::Scan) suits_ = false;
        if (x.kind == ExprKind::Reduce) {
            if (!seen_.insert(e).second) return;
            suits_ = suits_ && x.vars.size() == 1 && x.args.size() == 1 && is_float(x.dtype) && joins(x.reduce);
            return walk(x.vars, x.args[0]);
        }
        for (ExprId a : x.args) folds(a);
    }
    void walk(const std::vector<VarId>& vars, ExprId body) {
        vars_.insert(vars.begin(), vars.end());
        std::set<ExprId> met;
        note(body, vars, met);
    }
    void note(ExprId e, const std::vector<VarId>& vars, std::set<ExprId>& met) {
        const Expr& x = p_.expr(e);
        if (x.kind == ExprKind::Reduce || !met.insert(e).second) return;
        if (x.kind == ExprKind::Load) {
            const auto free = p_.free_vars(e);
            if (std::any_of(free.begin(), free.end(), [&](VarId v) { return has(vars, v); })) ++loads_[e];
        }
        for (ExprId a : x.args) note(a, vars, met);
    }

    const Program& p_;
    const Nest& nest_;
    bool suits_ = true;
    std::set<VarId> vars_;         // that walks run over
    std::map<ExprId, int> loads_;  // along them: in how many walks
    std::set<ExprId> seen_;
};

class Cutter {
public:
    Cutter(const Kernel& k, int64_t elements) : k_(k), p_(k.program), elements_(elements) {}

    CutKernel run() {
        out_.kernel = k_;
        Program& r = out_.kernel.program;
        r = Program();
        r.name = p_.name;
        r.doc = p_.doc;
        r.tensors = p_.tensors;
        r.inputs = p_.inputs;
        r.outputs = p_.outputs;
        r.vars = p_.vars;
        r.requirements = p_.requirements;
        for (size_t i = 0; i < k_.nests.size(); ++i) nest(i);
        return std::move(out_);
    }

private:
    Rewriter plain() {
        Rewriter w{.from = p_, .into = out_.kernel.program};
        for (TensorId t = 0; t < p_.tensors.size(); ++t) w.tensors[t] = t;
        for (VarId v = 0; v < p_.vars.size(); ++v) w.bound[v] = v;
        return w;
    }

    void nest(size_t i) {
        Program& r = out_.kernel.program;
        const Nest& from = k_.nests[i];
        const VarId v = Rows(p_, from).variable();
        VarId beginning = kNone;
        if (v != kNone) {
            beginning = r.add_var(p_.vars[v].name + "_held", elements_);
            r.vars[v].extent = p_.vars[v].extent - elements_;
            out_.cuts.push_back({i, v, beginning});
        }
        std::vector<uint32_t> moved;
        const auto add = [&](Equation q) {
            moved.push_back(static_cast<uint32_t>(r.equations.size()));
            r.equations.push_back(std::move(q));
        };
        for (uint32_t e : from.equations) {
            const Equation& q = p_.equations[e];
            const bool map = v != kNone && has(q.vars, v);
            for (int part = 0; part < (map ? 2 : 1); ++part) {
                Rewriter w = plain();
                if (map) place(w, v, part ? v : beginning, part);
                w.replace = [&](Rewriter& outer, ExprId x) {
                    return v == kNone ? kNone : fold(outer, x, v, beginning);
                };
                Equation n = q;
                for (ExprId& a : n.at) a = w(a);
                n.rhs = w(q.rhs);
                if (map && !part) std::replace(n.vars.begin(), n.vars.end(), v, beginning);
                add(std::move(n));
            }
        }
        out_.kernel.nests[i].equations = std::move(moved);
        if (from.contraction)
            out_.kernel.nests[i].contraction = match_contraction(r, r.equations[out_.kernel.nests[i].equations[0]]);
    }
    // v is `to`, or, behind the beginning, `to` and its length.
    void place(Rewriter& w, VarId v, VarId to, bool behind) {
        Program& r = out_.kernel.program;
        w.bound.erase(v);
        w.vars[v] = behind ? r.call(Fn::Add, {r.index(to), r.integer(elements_)}) : r.index(to);
    }
    // A fold over v as that of both its parts.
    ExprId fold(Rewriter& outer, ExprId e, VarId v, VarId beginning) {
        const Expr& x = p_.expr(e);
        if (x.kind != ExprKind::Reduce || !has(x.vars, v)) return kNone;
        Program& r = out_.kernel.program;
        ExprId parts[2];
        for (int part = 0; part < 2; ++part) {
            Rewriter w = plain();
            w.vars = outer.vars;
            place(w, v, part ? v : beginning, part);
            const ExprId body = w(x.args[0]);
            parts[part] = r.reduce(x.reduce, {part ? v : beginning}, body, x.dtype);
        }
        return r.call(*joins(x.reduce), {parts[0], parts[1]});
    }

    const Kernel& k_;
    const Program& p_;
    const int64_t elements_;
    CutKernel out_;
};
}  // namespace

CutKernel hold_beginning(const Kernel& k, int64_t elements) { return Cutter(k, elements).run(); }

}  // namespace opwright::schedule
