// L2: a DAG of operators. A node is a Program applied to values, or a view that costs nothing; extents stay symbolic.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "math/program.h"

namespace opwright::graph {

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr uint32_t kNone = 0xffffffffu;

struct Value {
    std::string name;                             // as the model names it, or made up
    DType dtype = DType::F32;
    std::vector<math::Sym> shape;                 // over the graph's symbols
    std::optional<Tensor> constant;               // known now
    // Elements of a small integer (or bool) tensor as symbolic integers, row-major: shapes being computed. A constant
    // integer tensor of at most kContentLimit elements has it too.
    std::optional<std::vector<math::Sym>> content;
    NodeId producer = kNone;                      // kNone: an input, a constant or an absent optional
};
inline constexpr int64_t kContentLimit = 4096;

// The operator of the model that a node comes from; a fused node has several.
struct SourceOp {
    std::string name;      // of the model's node ("Conv_12"), or the output's name where it has none
    std::string type;      // "Conv"
};

enum class NodeKind : uint8_t {
    Compute,   // runs `program`: inputs and outputs in its order
    View,      // the output is the input's elements under another shape; no work
};

struct Node {
    NodeKind kind = NodeKind::Compute;
    std::vector<ValueId> inputs, outputs;
    math::Program program;                        // of Compute; its symbols are the graph's
    std::vector<SourceOp> sources;
};

struct Graph {
    std::string name;
    std::vector<Value> values;
    std::vector<Node> nodes;                      // in an order in which they can run
    std::vector<ValueId> inputs, outputs;         // as the model declares them
    // What must hold of the extents for the graph to mean what the model does; see check_requirements in graph/bind.h.
    std::vector<math::Requirement> requirements;
    // Names of inputs whose *values* (not only shapes) this graph was specialised on: it holds for those values alone.
    std::vector<std::string> fixed_inputs;
    std::map<std::string, std::string> metadata;

    ValueId add_value(Value v) { values.push_back(std::move(v)); return static_cast<ValueId>(values.size() - 1); }
    NodeId add_node(Node n);                      // sets `producer` of its outputs
};

// Level verifier: ids, order, dtypes and ranks of arguments against programs. Empty means well formed.
std::vector<std::string> verify(const Graph& g);
// Readable text, one line a node: "y: f32[n, 8] = gemm(x: f32[n, 4], w: f32[8, 4] const)    # Gemm fc1".
std::string print(const Graph& g);

}  // namespace opwright::graph
