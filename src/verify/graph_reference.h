// A graph run node by node with the fp64 reference; every intermediate is rounded to its declared type.
#pragma once
#include <functional>
#include <vector>

#include "base/result.h"
#include "derive/reference.h"
#include "graph/graph.h"

namespace opwright::verify {

// Told of each node that computes, with what the reference says of its outputs: unrounded values and error bounds.
using ReferenceObserver = std::function<void(graph::NodeId, const std::vector<derive::ReferenceOutput>&)>;

// Outputs in the order of g.outputs, in their declared types. Errors: those of bind_symbols and of the nodes.
Result<std::vector<Tensor>> run_reference(const graph::Graph& g, const std::vector<Tensor>& inputs,
                                          const ReferenceObserver& seen = {});

}  // namespace opwright::verify
