// Who reads a value.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace opwright::fuse {

struct Uses {
    std::vector<std::vector<graph::NodeId>> readers;  // by value; each node once, ascending
    std::vector<bool> output;                         // by value: the graph delivers it
    explicit Uses(const graph::Graph& g);
    bool any(graph::ValueId v) const { return output[v] || !readers[v].empty(); }
};

// Replaces values in all nodes' inputs and in the graph's outputs: by[v] instead of v, followed to its end.
void replace_values(graph::Graph& g, std::vector<graph::ValueId> by);
// by[v] == v for every value.
std::vector<graph::ValueId> no_replacement(const graph::Graph& g);

// Keeps the nodes marked, in order, and sets the values' producers accordingly.
void keep_nodes(graph::Graph& g, const std::vector<bool>& keep);

}  // namespace opwright::fuse
