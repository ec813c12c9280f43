// Passes that leave a graph's results alone and make it smaller.
#pragma once
#include "graph/graph.h"

namespace opwright::fuse {

// Nodes with constant inputs and small results become constants, evaluated by the reference and rounded to their types.
// Nodes whose evaluation reports an error stay, to report it when they run.
graph::Graph fold_constants(graph::Graph g);

// Views of views, views of constants, and views that change nothing.
graph::Graph fold_views(graph::Graph g);

// Nodes that apply equal programs to equal inputs become one; equal constants too.
graph::Graph remove_duplicates(graph::Graph g);

// Nodes and outputs that nothing reads, and values that are gone.
graph::Graph remove_dead(graph::Graph g);

// Brings each node's program into the shape that fusion reads: live outputs only, no temporary that need not exist, each
// input once, no unit variables.
graph::Graph normalise(graph::Graph g);

// Programs that follow a product element by element, or row by row, go over its rows where the model says them by several
// dims (a linear layer on [batch, length, width]): no view is then left between them. Expects a normalised graph.
graph::Graph merge_rows(graph::Graph g);

}  // namespace opwright::fuse
