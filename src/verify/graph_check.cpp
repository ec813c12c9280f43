#include "verify/graph_check.h"

#include <algorithm>
#include <cmath>

namespace opwright::verify {
namespace {

double relative_difference(const Tensor& a, const Tensor& b) {
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < a.size(); ++i) {
        const double x = a.get(i), y = b.get(i);
        if (std::isnan(x) && std::isnan(y)) continue;
        if (x == y) {
            if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
            continue;
        }
        if (!std::isfinite(x) || !std::isfinite(y)) return INFINITY;
        largest = std::max({largest, std::fabs(x), std::fabs(y)});
        difference = std::max(difference, std::fabs(x - y));
    }
    return difference == 0 ? 0 : difference / largest;
}
}  // namespace

Result<GraphReport> check_graph(const opwright::Compiled& fused, const opwright::Compiled* plain, std::span<const Tensor> inputs, runtime::ThreadPool& pool,
                                const GraphOptions& o) {
    const graph::Graph& g = fused.executable->graph();
    std::vector<Shape> shapes;
    for (const Tensor& t : inputs) shapes.push_back(t.shape());
    OPW_TRY(const math::SymValues symbols, fused.executable->bind(shapes));
    GraphReport r;
    const auto look = [&](graph::NodeId id, std::span<const Tensor> in, std::span<const Tensor> out) -> Status {
        const graph::Node& n = g.nodes[id];
        KernelCheck k;
        k.name = n.sources.empty() ? n.program.name : n.sources.back().name;
        for (const graph::SourceOp& s : n.sources) k.type += (k.type.empty() ? "" : "+") + s.type;
        auto expected = References::make(n.program, {in.begin(), in.end()}, symbols, o.max_operations);
        if (!expected.ok()) {
            k.message = expected.error().message;
        } else {
            k.compared = true;
            ++r.compared;
            for (size_t i = 0; i < out.size(); ++i) {
                const Comparison c = expected->compare(i, out[i]);
                k.max_share = std::max(k.max_share, c.max_share);
                k.max_ulp = std::max(k.max_ulp, c.max_ulp);
                if (c.verdict >= k.verdict) k.verdict = c.verdict, k.message = c.str();
            }
            if (k.verdict == Verdict::Wrong) ++r.wrong;
        }
        r.kernels.push_back(std::move(k));
        return ok_status();
    };
    OPW_TRY(const auto outputs, fused.executable->trace(inputs, pool, look));
    if (plain) {
        OPW_TRY(const auto others, plain->executable->run(inputs, pool));
        for (size_t i = 0; i < outputs.size(); ++i)
            if (is_float(outputs[i].dtype())) r.fusion_difference = std::max(r.fusion_difference, relative_difference(outputs[i], others[i]));
    }
    return r;
}

}  // namespace opwright::verify
