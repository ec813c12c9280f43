#include "verify/contract.h"

#include <fmt/format.h>

#include <set>
#include <vector>

namespace opwright::verify {
using namespace math;
namespace {

struct Facts {
    std::set<DType> computes, accumulates;
    bool half = false, order = false, integers = false, functions = false, scans = false;
    double ulps = 0;
};

Facts facts_of(const Program& p) {
    Facts f;
    std::vector<bool> seen(p.expr_count());
    std::vector<ExprId> stack;
    for (const Equation& q : p.equations) stack.push_back(q.rhs);
    for (const TensorInfo& t : p.tensors) f.half |= t.dtype == DType::F16 || t.dtype == DType::BF16;
    while (!stack.empty()) {
        const ExprId id = stack.back();
        stack.pop_back();
        if (seen[id]) continue;
        seen[id] = true;
        const Expr& x = p.expr(id);
        const bool sums = (x.kind == ExprKind::Reduce || x.kind == ExprKind::Scan) &&
                          (x.reduce == ReduceOp::Sum || x.reduce == ReduceOp::Prod);
        if (sums) f.accumulates.insert(x.dtype);
        f.scans |= x.kind == ExprKind::Scan;
        f.order |= (x.kind == ExprKind::Reduce || x.kind == ExprKind::Scan) && !sums;
        if (x.kind == ExprKind::Call) {
            if (is_float(x.dtype)) f.computes.insert(compute_type(x.dtype));
            f.integers |= is_int(x.dtype);
            f.order |= x.fn == Fn::Max || x.fn == Fn::Min;
            if (is_float(x.dtype)) f.ulps = std::max(f.ulps, static_cast<double>(info(x.fn).ulps));
        }
        const size_t rank = x.kind == ExprKind::Load || x.kind == ExprKind::Inside ? p.tensors[x.ref].shape.size() : 0;
        for (size_t i = rank; i < x.args.size(); ++i) stack.push_back(x.args[i]);  // positions are exact
    }
    return f;
}

std::string names_of(const std::set<DType>& s) {
    std::string r;
    for (DType t : s) r += fmt::format("{}{}", r.empty() ? "" : " and ", opwright::name(t));
    return r;
}
}  // namespace

std::string contract(const Program& p) {
    const Facts f = facts_of(p);
    std::string r;
    const auto add = [&](const std::string& s) { r += (r.empty() ? "" : "; ") + s; };
    if (!f.computes.empty()) add(names_of(f.computes) + " arithmetic");
    if (f.half) add("16-bit floats compute in f32 and round where they are stored");
    if (!f.accumulates.empty())
        add(fmt::format("sums and products accumulate in {}, in any order", names_of(f.accumulates)));
    if (!f.computes.empty()) {
        add("a * b + c may round once or twice");
        if (f.ulps > 0.5) add(fmt::format("functions within {:g} ulp", f.ulps));
    }
    if (f.integers) add("integers are exact and wrap");
    if (f.computes.empty() && f.accumulates.empty() && !f.integers && !f.order) add("values are copied to the bit");
    add(f.order ? "NaN propagates, also through max and min, and -0 is below +0"
                : "NaN, infinities and -0 as in IEEE 754");
    if (!f.computes.empty())
        add("subnormals are kept; one that is flushed to zero is told apart as a policy difference");
    add("each element is allowed the error bound that the fp64 reference derives for it");
    return r;
}

}  // namespace opwright::verify
