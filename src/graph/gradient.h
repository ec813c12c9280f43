// Reverse mode over a graph: node by node, each with the gradient that is derived from its program.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace opwright::graph {

// What becomes of a value of the forward pass that the backward pass reads.
struct Kept {
    std::string value;
    math::Sym bytes;
    bool saved = false;  // an output of `forward` and an input of `backward`; else computed again in `backward`
    std::string reason;
};

struct GraphGradient {
    Graph forward;   // the graph; the saved values follow its outputs
    Graph backward;  // inputs: the graph's own that it needs, the saved values, one cotangent d<output> a float
                     // output; outputs: d<name> of each of `wrt`, in order
    std::vector<Kept> kept;
};

// `wrt`: names of inputs or of constants (initialisers); empty: all inputs of a float type. Errors: a name that the
// graph does not have, one of an integer type, nothing to differentiate.
Result<GraphGradient> gradient(const Graph& g, std::vector<std::string> wrt = {});

}  // namespace opwright::graph
