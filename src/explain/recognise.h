// What a fused kernel is, by its mathematics: exporters spell a norm, a softmax or a GELU in many small operators.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace opwright::explain {

// Names of the library's operators that the node's program holds, in the order of its equations: "layer_norm", "gelu". The
// comparison is of normal forms (math/normal_form.h) with the library's declarations, elaborated for the shapes at hand;
// names of operators and tensors play no part in it. Empty where nothing is recognised, or where the node comes from one
// operator of the model, which says itself what it is.
std::vector<std::string> recognise(const graph::Graph& g, const graph::Node& n);

// "layer_norm + gelu (from 14 operators)", or "softmax (a part of 9 operators)" where the node does more than that: without
// `parts`, that is empty, as where nothing is recognised.
std::string recognised_text(const graph::Graph& g, const graph::Node& n, bool parts = true);

}  // namespace opwright::explain
