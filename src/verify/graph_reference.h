// A graph run node by node with the fp64 reference; every intermediate is rounded to its declared type.
#pragma once
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace opwright::verify {

// Outputs in the order of g.outputs, in their declared types. Errors: those of bind_symbols and of the nodes.
Result<std::vector<Tensor>> run_reference(const graph::Graph& g, const std::vector<Tensor>& inputs);

}  // namespace opwright::verify
