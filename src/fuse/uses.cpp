#include "fuse/uses.h"

#include <numeric>

namespace opwright::fuse {
using graph::kNone;

Uses::Uses(const graph::Graph& g) : readers(g.values.size()), output(g.values.size()) {
    for (graph::NodeId n = 0; n < g.nodes.size(); ++n)
        for (graph::ValueId v : g.nodes[n].inputs)
            if (v != kNone && (readers[v].empty() || readers[v].back() != n)) readers[v].push_back(n);
    for (graph::ValueId v : g.outputs) output[v] = true;
}

std::vector<graph::ValueId> no_replacement(const graph::Graph& g) {
    std::vector<graph::ValueId> by(g.values.size());
    std::iota(by.begin(), by.end(), 0u);
    return by;
}

void replace_values(graph::Graph& g, std::vector<graph::ValueId> by) {
    const auto end = [&](graph::ValueId v) {
        while (by[v] != v) v = by[v] = by[by[v]];
        return v;
    };
    for (graph::Node& n : g.nodes)
        for (graph::ValueId& v : n.inputs)
            if (v != kNone) v = end(v);
    for (graph::ValueId& v : g.outputs) v = end(v);
}

void keep_nodes(graph::Graph& g, const std::vector<bool>& keep) {
    for (graph::Value& v : g.values) v.producer = kNone;
    std::vector<graph::Node> nodes;
    for (size_t i = 0; i < g.nodes.size(); ++i) {
        if (!keep[i]) continue;
        for (graph::ValueId v : g.nodes[i].outputs)
            if (v != kNone) g.values[v].producer = static_cast<graph::NodeId>(nodes.size());
        nodes.push_back(std::move(g.nodes[i]));
    }
    g.nodes = std::move(nodes);
}

}  // namespace opwright::fuse
