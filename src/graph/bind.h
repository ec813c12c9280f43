// Values of a graph's symbols from the shapes of its inputs.
#pragma once
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace opwright::graph {

// `inputs`: one tensor for each of g.inputs, in order. Errors name the input, the dim and both extents: another type or
// rank, a fixed extent that differs, one symbol with two values; and a value other than that of a fixed input.
Result<math::SymValues> bind_symbols(const Graph& g, const std::vector<Tensor>& inputs);

}  // namespace opwright::graph
