#include "tune/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "derive/cost.h"
#include "derive/reference.h"

namespace opwright::tune {
using namespace math;

namespace {
constexpr int64_t kPoints = 192;
// Operations of the reference that one check may cost: about a second.
constexpr double kMostWork = 3e7;

// The equation that sets all of t, where it is the only one and its indices are plain; null otherwise.
const Equation* plain_equation(const Program& p, TensorId t) {
    const Equation* found = nullptr;
    for (const Equation& q : p.equations) {
        if (q.lhs != t) continue;
        if (found || q.update != Update::Set) return nullptr;
        found = &q;
    }
    if (!found || p.expr(found->rhs).kind == ExprKind::Scan) return nullptr;
    for (ExprId a : found->at)
        if (p.expr(a).kind != ExprKind::Index && !p.is_integer_literal(a, 0)) return nullptr;
    return found;
}

bool reads_output(const Program& p, TensorId t) {
    return std::any_of(p.equations.begin(), p.equations.end(), [&](const Equation& q) {
        const auto reads = p.reads(q.rhs);
        return std::find(reads.begin(), reads.end(), t) != reads.end();
    });
}

Tensor picked(const Tensor& from, const std::vector<int64_t>& positions) {
    Tensor r(from.dtype(), {static_cast<int64_t>(positions.size())});
    const size_t size = size_of(from.dtype());
    for (size_t i = 0; i < positions.size(); ++i)
        std::memcpy(static_cast<char*>(r.data()) + i * size,
                    static_cast<const char*>(from.data()) + static_cast<size_t>(positions[i]) * size, size);
    return r;
}
}  // namespace

Sampled sample(const Program& p, const SymValues& sizes, int64_t points, uint64_t seed) {
    std::mt19937_64 random(seed);
    Sampled r;
    Program& q = r.program;
    q.name = p.name;
    q.tensors = p.tensors;
    q.inputs = p.inputs;
    q.outputs = p.outputs;
    q.vars = p.vars;
    const auto rewriter = [&] {
        Rewriter rw{.from = p, .into = q};
        for (TensorId t = 0; t < p.tensors.size(); ++t) rw.tensors[t] = t;
        for (VarId v = 0; v < p.vars.size(); ++v) {
            rw.vars[v] = q.index(v);
            rw.bound[v] = v;
        }
        return rw;
    };
    Rewriter same = rewriter();
    r.positions.resize(p.outputs.size());
    for (const Equation& e : p.equations) {
        const auto output = std::find(p.outputs.begin(), p.outputs.end(), e.lhs);
        const Equation* plain = output == p.outputs.end() ? nullptr : plain_equation(p, e.lhs);
        std::vector<int64_t> extents;
        int64_t elements = 1;
        if (plain)
            for (const Sym& d : p.tensors[e.lhs].shape) {
                extents.push_back(evaluate(d, sizes).value_or(0));
                elements *= extents.back();
            }
        if (!plain || elements <= points || reads_output(p, e.lhs)) {
            Equation n = e;
            for (ExprId& a : n.at) a = same(a);
            n.rhs = same(e.rhs);
            q.equations.push_back(std::move(n));
            continue;
        }
        std::vector<int64_t>& positions = r.positions[static_cast<size_t>(output - p.outputs.begin())];
        positions = {0, elements - 1};
        while (static_cast<int64_t>(positions.size()) < points)
            positions.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(elements)));
        const VarId s = q.add_var("sample", points);
        Rewriter rw = rewriter();
        std::vector<int64_t> rest = positions;
        for (size_t d = extents.size(); d-- > 0;) {
            Tensor table(DType::I64, {points});
            for (int64_t i = 0; i < points; ++i) {
                table.set_int(i, rest[static_cast<size_t>(i)] % extents[d]);
                rest[static_cast<size_t>(i)] /= extents[d];
            }
            const Expr& at = p.expr(e.at[d]);
            if (at.kind != ExprKind::Index) continue;
            rw.bound.erase(at.ref);
            rw.vars[at.ref] = q.load(q.add_constant(fmt::format("positions{}", d), std::move(table)), {q.index(s)});
        }
        q.tensors[e.lhs].shape = {Sym(points)};
        q.add_equation(e.lhs, {q.index(s)}, rw(e.rhs));
    }
    return r;
}

Status Checker::make_reference() {
    sampled_ = sample(p_, sizes_, kPoints, 7);
    const auto work = evaluate(derive::cost(sampled_.program).flops(), sizes_);
    if (!work || static_cast<double>(*work) > kMostWork)
        return Diagnostic(fmt::format("it differs from the untuned result, and the reference would take {} operations to tell",
                                      work ? fmt::format("{:.0f} million", static_cast<double>(*work) / 1e6) : "too many"));
    OPW_TRY(reference_, derive::reference(sampled_.program, inputs_, sizes_));
    return ok_status();
}

std::string Checker::check(const std::vector<Tensor>& outputs) {
    bool equal = true;
    for (size_t o = 0; o < outputs.size(); ++o)
        equal = equal && (outputs[o].bytes() == 0 || std::memcmp(outputs[o].data(), untuned_[o].data(), outputs[o].bytes()) == 0);
    if (equal) return {};
    if (!made_) made_ = make_reference();
    if (!made_->ok()) return made_->error().message;
    for (size_t o = 0; o < outputs.size(); ++o) {
        const auto& positions = sampled_.positions[o];
        const verify::Comparison c = verify::compare(reference_[o], positions.empty() ? outputs[o] : picked(outputs[o], positions),
                                                     p_.tensors[p_.outputs[o]].dtype);
        if (!c.passed()) return c.str();
        if (positions.empty()) continue;
        double bound = 0;
        for (int64_t i = 0; i < reference_[o].bound.size(); ++i)
            if (const double b = reference_[o].bound.get(i); std::isfinite(b)) bound = std::max(bound, b);
        for (int64_t i = 0; i < outputs[o].size(); ++i) {
            const double a = outputs[o].get(i), b = untuned_[o].get(i);
            if (std::isnan(a) != std::isnan(b) || (a != b && !std::isnan(a) && !(std::fabs(a - b) <= 4 * bound)))
                return fmt::format("element {} is {:.9g}, and {:.9g} untuned", i, a, b);
        }
    }
    return {};
}

}  // namespace opwright::tune
