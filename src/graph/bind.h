// Values of a graph's symbols from the shapes of its inputs, and what must hold of them.
#pragma once
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace opwright::graph {

// `inputs`: one tensor for each of g.inputs, in order. Errors name the input, the dim and both extents: another type or
// rank, a fixed extent that differs, one symbol with two values; and a value other than that of a fixed input.
Result<math::SymValues> bind_symbols(const Graph& g, const std::vector<Tensor>& inputs);
// Whether the graph's requirements hold at these sizes (bind_symbols does not ask). Errors: the first that does not.
Status check_requirements(const Graph& g, const math::SymValues& symbols);

}  // namespace opwright::graph
