#include "verify/model_noise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "verify/graph_reference.h"

namespace opwright::verify {
namespace {

std::string name_of(const graph::Node& n) { return n.sources.empty() ? n.program.name : n.sources.back().name; }

double distance(double a, double b) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
    return std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) : INFINITY;
}
}  // namespace

Result<ModelNoise> model_noise(const opwright::Compiled& plain, const std::vector<Tensor>& arguments,
                               runtime::ThreadPool& pool, uint64_t seed) {
    const graph::Graph& g = plain.executable->graph();
    ModelNoise r;
    std::map<graph::NodeId, std::vector<Tensor>> bounds;
    OPW_TRY(r.exact, run_reference(g, arguments, [&](graph::NodeId id, const auto& outputs) {
                for (const derive::ReferenceOutput& o : outputs) {
                    bounds[id].push_back(o.bound);
                    for (int64_t i = 0; i < o.bound.size(); ++i) {
                        if (std::isfinite(o.bound.get(i))) continue;
                        if (r.unbounded++ == 0) r.unbounded_at = name_of(g.nodes[id]);
                    }
                }
            }));
    for (const Tensor& t : r.exact) {
        Tensor move(DType::F64, t.shape());
        for (int64_t i = 0; i < move.size(); ++i) move.set(i, 0);
        r.move.push_back(std::move(move));
    }
    std::mt19937_64 random(seed);
    for (int run = 0; run < kNoiseRuns; ++run) {
        const auto moved = [&](graph::NodeId id, std::span<const Tensor>, std::span<const Tensor> outputs) -> Status {
            const auto at = bounds.find(id);
            for (size_t o = 0; at != bounds.end() && o < outputs.size(); ++o) {
                Tensor here = outputs[o];  // the same memory
                if (!is_float(here.dtype()) || o >= at->second.size()) continue;
                const Tensor& bound = at->second[o];
                for (int64_t i = 0; i < here.size(); ++i) {
                    const double v = here.get(i), b = bound.get(i);
                    if (b == 0 || !std::isfinite(b) || !std::isfinite(v)) continue;
                    const bool up = run == 0 || (run != 1 && (random() & 1));
                    here.set(i, up ? v + b : v - b);
                }
            }
            return ok_status();
        };
        OPW_TRY(const auto outputs, plain.executable->trace(arguments, pool, moved));
        for (size_t o = 0; o < outputs.size() && o < r.exact.size(); ++o)
            for (int64_t i = 0; i < outputs[o].size(); ++i)
                r.move[o].set(i, std::max(r.move[o].get(i), distance(outputs[o].get(i), r.exact[o].get(i))));
    }
    return r;
}

}  // namespace opwright::verify
