#include "tune/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "math/localise.h"
#include "target/cpu/plan.h"

namespace opwright::tune {
namespace {
using Clock = std::chrono::steady_clock;

constexpr double kLeastSeconds = 0.4;  // in which a kernel's candidates can be compiled and measured
constexpr double kLeastShare = 0.002;  // of the time: below, nothing is to be gained

// Kernels that are equal and run at equal sizes.
struct Group {
    graph::NodeId node = graph::kNone;  // the first of them
    std::string name;
    std::vector<int64_t> symbols;
    double seconds = 0;                 // of all of them
    int places = 0;
    bool chosen = false;
};

std::string name_of(const graph::Node& n) {
    if (n.sources.empty()) return n.program.name;
    return n.sources.size() == 1 ? n.sources[0].name : fmt::format("{} (+{})", n.sources.back().name, n.sources.size() - 1);
}

std::vector<bool> constants(const graph::Graph& g, const graph::Node& n) {
    std::vector<bool> r;
    for (graph::ValueId v : n.inputs) {
        while (!g.values[v].constant && g.values[v].producer != graph::kNone &&
               g.nodes[g.values[v].producer].kind == graph::NodeKind::View)
            v = g.nodes[g.values[v].producer].inputs[0];
        r.push_back(g.values[v].constant.has_value());
    }
    return r;
}
}  // namespace

Result<Session> tune(const Compiled& c, std::span<const Tensor> inputs, const SessionOptions& o, const explain::Machine& machine,
                     runtime::ThreadPool& pool) {
    const auto start = Clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    const graph::Graph& g = c.executable->graph();
    if (o.progress) o.progress({0, 0, g.name, "measuring the kernels", 0, o.budget});
    OPW_TRY(const runtime::Timing timing, c.executable->measure(inputs, pool, 1, 3));

    std::vector<Group> groups;
    std::map<std::string, size_t> known;
    std::vector<math::Localised> programs(g.nodes.size());
    double total = 0;
    for (const runtime::StepTime& t : timing.steps) {
        programs[t.node] = math::localise(g.nodes[t.node].program);
        std::string key = target::cpu::content_of({&programs[t.node].program, constants(g, g.nodes[t.node]), false});
        for (int64_t s : t.symbols) key += fmt::format(",{}", s);
        const auto [it, fresh] = known.emplace(std::move(key), groups.size());
        if (fresh) groups.push_back({t.node, name_of(g.nodes[t.node]), t.symbols});
        groups[it->second].seconds += t.min;
        ++groups[it->second].places;
        total += t.min;
    }
    // Those that are worth it and fit the budget.
    Session s;
    std::vector<size_t> order(groups.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return groups[a].seconds > groups[b].seconds; });
    const auto room = static_cast<size_t>(std::max(1.0, (o.budget - elapsed()) / kLeastSeconds));
    double weight = 0;
    size_t count = 0;
    for (size_t k = 0; k < order.size(); ++k) {
        Group& x = groups[order[k]];
        const double share = total > 0 ? x.seconds / total : 0;
        if (k > 0 && share < kLeastShare) s.left.push_back({x.name, "takes too little of the time to matter", share});
        else if (count >= room) s.left.push_back({x.name, "the budget is too short for it", share});
        else x.chosen = true, weight += x.seconds, ++count;
    }

    // One run, in whose course each chosen kernel is tuned where its inputs lie.
    size_t done = 0;
    Status kept = ok_status();
    const auto seen = [&](graph::NodeId node, std::span<const Tensor> in, std::span<const Tensor> out) -> Status {
        const auto at = std::find_if(groups.begin(), groups.end(), [&](const Group& x) { return x.node == node && x.chosen; });
        if (at == groups.end()) return ok_status();
        Group& x = *at;
        const double share = total > 0 ? x.seconds / total : 0, left = o.budget - elapsed();
        const double mine = weight > 0 ? left * x.seconds / weight : left;
        weight -= x.seconds;
        x.chosen = false;
        ++done;
        if (left < kLeastSeconds && done > 1) {
            s.left.push_back({x.name, "the budget is too short for it", share});
            return ok_status();
        }
        Subject subject{x.name, &programs[node].program, constants(g, g.nodes[node]), x.symbols, usable_inputs({in.begin(), in.end()}), {}};
        for (const Tensor& t : out) subject.outputs.push_back(t.shape());
        KernelOptions k = o.kernel;
        k.seconds = std::max(kLeastSeconds, mine);
        k.progress = [&](const std::string& what) {
            if (o.progress) o.progress({done, count, x.name, what, elapsed(), o.budget});
        };
        auto record = tune_kernel(subject, k, machine, pool);
        if (!record.ok()) {
            s.left.push_back({x.name, record.error().message, share});
            return ok_status();
        }
        if (o.keep && kept.ok()) kept = o.keep(*record);
        s.tuned.push_back({std::move(*record), share, x.places});
        return ok_status();
    };
    if (auto r = c.executable->trace(inputs, pool, seen); !r.ok()) return r.error();
    std::sort(s.tuned.begin(), s.tuned.end(), [](auto& a, auto& b) { return a.share > b.share; });
    s.seconds = elapsed();
    if (!kept.ok()) return kept.error();
    return s;
}

}  // namespace opwright::tune
