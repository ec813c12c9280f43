#include "fuse/fuse.h"

#include <algorithm>

#include "fuse/cleanup.h"
#include "fuse/state.h"

namespace opwright::fuse {
namespace {
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::SourceOp;

// The groups as nodes, each where its last member stood.
Graph rewritten(State& s) {
    std::vector<GroupId> order;
    for (GroupId i = 0; i < s.groups.size(); ++i)
        if (!s.groups[i].gone) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](GroupId a, GroupId b) { return s.groups[a].last < s.groups[b].last; });
    for (GroupId i : order)
        if (s.groups[i].nodes.size() > 1) s.form(s.groups[i]);
    std::vector<Node> nodes;
    for (GroupId i : order) {
        Group& group = s.groups[i];
        if (group.nodes.size() == 1) {
            nodes.push_back(s.g.nodes[group.nodes[0]]);
            continue;
        }
        Node n;
        n.kind = graph::NodeKind::Compute;
        n.program = std::move(*group.program);
        n.inputs = std::move(group.inputs);
        n.outputs = std::move(group.outputs);
        for (NodeId m : group.nodes)
            for (const SourceOp& source : s.g.nodes[m].sources) {
                // An operator of the model may have become several nodes.
                const auto same = [&](const SourceOp& o) { return o.name == source.name && o.type == source.type; };
                if (std::none_of(n.sources.begin(), n.sources.end(), same)) n.sources.push_back(source);
            }
        nodes.push_back(std::move(n));
    }
    Graph g = std::move(s.g);
    g.nodes = std::move(nodes);
    for (graph::Value& v : g.values) v.producer = graph::kNone;
    for (NodeId i = 0; i < g.nodes.size(); ++i)
        for (graph::ValueId v : g.nodes[i].outputs)
            if (v != graph::kNone) g.values[v].producer = i;
    return remove_dead(std::move(g));
}
}  // namespace

std::string_view name(How h) {
    switch (h) {
        case How::Apart: return "apart";
        case How::Substituted: return "substituted";
        case How::Repeated: return "repeated";
        case How::Epilogue: return "epilogue";
        case How::Rows: return "rows";
    }
    return "";
}

Fused fuse(Graph g, const Options& options) {
    State s(std::move(g), options);
    join_free(s);
    join_by_gain(s);
    Fused r;
    r.graph = rewritten(s);
    std::reverse(s.decisions.begin(), s.decisions.end());
    r.decisions = std::move(s.decisions);
    r.machine = std::move(s.machine);
    r.sizes = std::move(s.sizes);
    r.assumed = std::move(s.assumed);
    r.measured_seconds = s.measured;
    return r;
}

}  // namespace opwright::fuse
