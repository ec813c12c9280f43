#include "verify/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "derive/shape.h"

namespace opwright::verify {
using namespace math;
namespace {

// "y[m,n] = sum[k](...)", as Program::print has it.
std::vector<std::string> equation_texts(const Program& p, TensorId t) {
    std::vector<std::string> r;
    for (const Equation& q : p.equations) {
        if (q.lhs != t) continue;
        constexpr const char* kSigns[] = {"=", "+=", "*=", "max=", "min=", "<-"};
        std::string at;
        for (ExprId e : q.at) at += (at.empty() ? "" : ",") + p.print(e);
        r.push_back(
            fmt::format("{}[{}] {} {}", p.tensors[t].name, at, kSigns[static_cast<int>(q.update)], p.print(q.rhs)));
    }
    return r;
}

Stage stage_of(const Program& p, TensorId t) {
    Stage s;
    s.tensor = t;
    s.name = p.tensors[t].name;
    s.equations = equation_texts(p, t);
    Program& r = s.program;
    r.name = p.name + "_" + s.name;
    r.requirements = p.requirements;
    std::unordered_map<TensorId, TensorId> tensors;
    for (const Equation& q : p.equations) {
        if (q.lhs != t) continue;
        std::vector<TensorId> reads = p.reads(q.rhs);
        for (ExprId e : q.at)
            for (TensorId x : p.reads(e)) reads.push_back(x);
        for (TensorId x : reads) {
            if (x == t || tensors.count(x)) continue;
            const TensorInfo& info = p.tensors[x];
            if (info.role == Role::Constant) {
                tensors[x] = r.add_constant(info.name, info.data);
            } else {
                tensors[x] = r.add_tensor(info.name, info.dtype, info.shape, Role::Input);
                s.reads.push_back(x);
            }
        }
    }
    // A size may be bound by an input that this stage does not read; those are given by name.
    tensors[t] = r.add_tensor(s.name, p.tensors[t].dtype, p.tensors[t].shape, Role::Output);
    for (const Equation& q : p.equations) {
        if (q.lhs != t) continue;
        Rewriter w{.from = p, .into = r, .tensors = tensors};
        for (VarId v : q.vars) w.vars[v] = r.index(r.add_var(p.vars[v].name, p.vars[v].extent));
        std::vector<ExprId> at;
        for (ExprId e : q.at) at.push_back(w(e));
        r.add_equation(tensors[t], std::move(at), w(q.rhs), q.update, q.outside, q.span);
    }
    return s;
}

// Inside tensors are read too: their extents matter. `inside` needs the tensor to exist.
bool closed(const Program& p, TensorId t) {
    for (const Equation& q : p.equations) {
        if (q.lhs != t) continue;
        std::vector<ExprId> stack{q.rhs};
        std::vector<bool> seen(p.expr_count());
        const std::vector<TensorId> reads = p.reads(q.rhs);
        while (!stack.empty()) {
            const Expr& x = p.expr(stack.back());
            const ExprId id = stack.back();
            stack.pop_back();
            if (seen[id]) continue;
            seen[id] = true;
            if (x.kind == ExprKind::Inside && std::find(reads.begin(), reads.end(), x.ref) == reads.end()) return false;
            if (x.kind == ExprKind::Load && x.ref == t) return false;  // an update that reads itself
            stack.insert(stack.end(), x.args.begin(), x.args.end());
        }
    }
    return true;
}

// The same program, whose intermediates are outputs too, in order of evaluation.
Program opened(const Program& p) {
    Program r = p;
    std::vector<TensorId> temporaries;
    for (const Equation& q : r.equations)
        if (r.tensors[q.lhs].role == Role::Temp) {
            r.tensors[q.lhs].role = Role::Output;
            temporaries.push_back(q.lhs);
        }
    r.outputs.insert(r.outputs.begin(), temporaries.begin(), temporaries.end());
    return r;
}

Tensor rounded(const Tensor& value, DType t) {
    if (value.dtype() == t) return value;
    Tensor r(t, value.shape());
    for (int64_t i = 0; i < r.size(); ++i) r.set(i, value.get(i));
    return r;
}

// Values of all tensors that p computes; empty where the reference refuses.
std::map<TensorId, Tensor> values_of(const Program& p, const Case& c) {
    const Program all = opened(p);
    std::map<TensorId, Tensor> r;
    const auto reference = derive::reference(all, c.inputs, c.sizes);
    if (!reference.ok()) return r;
    for (size_t o = 0; o < all.outputs.size(); ++o)
        r[all.outputs[o]] = rounded((*reference)[o].value, all.tensors[all.outputs[o]].dtype);
    for (size_t i = 0; i < p.inputs.size(); ++i) r[p.inputs[i]] = c.inputs[i];
    return r;
}

StageVerdict verdict_of(const std::string& name, const CaseReport& r) {
    return {name, r.outcome == Outcome::Compared && r.passed() ? std::string(verify::name(r.verdict)) : r.message,
            !r.passed()};
}
}  // namespace

std::vector<Stage> stages(const Program& p) {
    std::vector<Stage> r;
    std::vector<TensorId> order;
    for (const Equation& q : p.equations)
        if (std::find(order.begin(), order.end(), q.lhs) == order.end()) order.push_back(q.lhs);
    for (TensorId t : order)
        if (closed(p, t)) r.push_back(stage_of(p, t));
    return r;
}

StageReport compare_stages(const Program& p, const Compile& target, const Case& c) {
    StageReport r;
    const auto values = values_of(p, c);
    if (values.empty()) return r;
    for (const Stage& s : stages(p)) {
        const auto kernel = target(s.program);
        if (!kernel.ok()) {
            r.alone.push_back({s.name, one_line(kernel.error()), false});
            continue;
        }
        Case one{c.sizes, {}, {}, c.pattern, c.seed};
        for (TensorId t : s.reads) one.inputs.push_back(values.at(t));
        r.alone.push_back(verdict_of(s.name, run_case(s.program, *kernel, one)));
    }
    const auto at_fault = [](const std::vector<StageVerdict>& v) {
        return std::find_if(v.begin(), v.end(), [](const StageVerdict& s) { return s.wrong; });
    };
    if (const auto a = at_fault(r.alone); a != r.alone.end()) {
        r.summary =
            fmt::format("{} is the first stage that differs, and it differs alone: its kernel is at fault", a->name);
        return r;
    }
    if (r.alone.size() < 2) return r;
    const Program all = opened(p);
    const auto kernel = target(all);
    if (kernel.ok()) {
        Case one = c;
        one.layouts.clear();
        const auto run = deliver(all, *kernel, one);
        auto reference = References::make(all, c.inputs, c.sizes);
        if (run.ok() && run->status.ok() && reference.ok())
            for (size_t o = 0; o < all.outputs.size(); ++o) {
                const TensorInfo& t = all.tensors[all.outputs[o]];
                const Comparison x = reference->compare(o, run->outputs[o].tensor());
                r.kept.push_back({t.name, x.str(), !x.passed()});
            }
    }
    if (const auto k = at_fault(r.kept); k != r.kept.end())
        r.summary = fmt::format(
            "{} is the first stage that differs, and only where the stages are one kernel: fusing "
            "them is at fault",
            k->name);
    else
        r.summary =
            "each stage alone is right, and all are where the intermediates are kept: the fault shows only where "
            "they stay inside the kernel";
    return r;
}

std::string behind(const Program& p, const Case& c, size_t o, const Shape& at) {
    const auto values = values_of(p, c);
    std::string r;
    std::map<TensorId, bool> shown;
    const std::function<void(TensorId, const Shape&)> visit = [&](TensorId t, const Shape& place) {
        const auto q =
            std::find_if(p.equations.begin(), p.equations.end(), [&](const Equation& e) { return e.lhs == t; });
        if (q == p.equations.end()) return;
        std::map<VarId, int64_t> index;
        for (size_t d = 0; d < q->at.size() && d < place.size(); ++d)
            if (p.expr(q->at[d]).kind == ExprKind::Index) index[p.expr(q->at[d]).ref] = place[d];
        std::vector<ExprId> stack{q->rhs};
        std::vector<bool> seen(p.expr_count());
        while (!stack.empty()) {
            const ExprId id = stack.back();
            const Expr& x = p.expr(id);
            stack.pop_back();
            if (seen[id]) continue;
            seen[id] = true;
            stack.insert(stack.end(), x.args.begin(), x.args.end());
            if (x.kind != ExprKind::Load || p.tensors[x.ref].role != Role::Temp || shown[x.ref]) continue;
            const auto value = values.find(x.ref);
            if (value == values.end()) continue;
            Shape from;
            int64_t position = 0;
            for (size_t d = 0; d < p.tensors[x.ref].shape.size(); ++d) {
                const Expr& e = p.expr(x.args[d]);
                int64_t i = -1;
                if (e.kind == ExprKind::Literal) i = e.integer;
                if (e.kind == ExprKind::Index && index.count(e.ref)) i = index[e.ref];
                if (i < 0 || i >= value->second.shape()[d]) break;
                from.push_back(i);
                position = position * value->second.shape()[d] + i;
            }
            if (from.size() != p.tensors[x.ref].shape.size()) continue;
            shown[x.ref] = true;
            r += fmt::format("{}{}{} = {:.7g}", r.empty() ? "" : ", ", p.tensors[x.ref].name, to_string(from),
                             std::isnan(value->second.get(position)) ? std::fabs(value->second.get(position))
                                                                     : value->second.get(position));
            visit(x.ref, from);
        }
    };
    visit(p.outputs[o], at);
    return r;
}

}  // namespace opwright::verify
