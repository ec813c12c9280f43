// Fusion: nodes join the node that reads them, where that saves memory traffic and repeats no work. Every candidate, taken
// or not, leaves a record.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace opwright::fuse {

struct Limits {
    int nodes = 48;          // of the graph in one fused program
    int operations = 400;    // scalar operations and loads of one element
    int inputs = 24;
};

// The value `value` of `producer` and its reader `consumer` (names of the model's operators).
struct Decision {
    std::string producer, consumer, value;
    bool taken = false;
    math::Sym bytes;         // memory traffic saved, or that taking it would have saved
    std::string reason;
};

struct Fused {
    graph::Graph graph;
    std::vector<Decision> decisions;
};

// Expects a normalised graph (cleanup.h). A fused node stands where its last member stood; its sources are theirs.
//
// A group has one last node, whose outputs are the group's. Going backwards from it, a producer joins when all its readers
// have joined and it is (a) a map without reductions that is evaluated at most once an element, costs nothing, or is cheap
// and read at few places: it is substituted; or (b) the group's only member with reductions, and every way from it to the
// group's output keeps its index space: the others become its epilogue. Views that only insert, remove or split dims
// count as maps. Group by group from the last node of the graph to the first: linear in nodes and edges.
Fused fuse(graph::Graph g, const Limits& limits = {});

}  // namespace opwright::fuse
