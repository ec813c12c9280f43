// ONNX models to graphs.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace opwright::graph::onnx {

struct ImportOptions {
    // Values of inputs that decide the structure (a Reshape's target that is a graph input, say). import() says which
    // are needed by name when one is missing (see NeedsValue).
    std::map<std::string, Tensor> known_inputs;
    // Ranks/extents for inputs that the model leaves open, by input name; symbolic where absent.
    std::map<std::string, Shape> input_shapes;
    std::string folder;                // for external data; empty: the folder of parse_file, or refused
    int64_t max_nodes = 1 << 20;       // operators after functions are inlined; more are refused
};

// Every node that cannot be imported, all at once.
struct UnsupportedNode {
    std::string node, op_type, reason;  // reason: the attribute or input concerned and what would be needed
};
struct ImportFailure {
    Diagnostic diagnostic;                     // for people; lists every unsupported node
    std::vector<UnsupportedNode> unsupported;  // empty when the file itself is at fault
    std::vector<std::string> needs_value;      // inputs whose values would let the import go on
    std::vector<std::string> needs_shape;      // inputs whose rank the model leaves open and the options do not give
    bool malformed = false;
};

// A parsed model (protobuf), kept so that it can be specialised more than once.
class Model;
using ModelRef = std::shared_ptr<const Model>;
// At most 2 GiB, the limit of the format (larger weights lie in external data, which are mapped when imported).
Result<ModelRef> parse_file(const std::string& path);
Result<ModelRef> parse_bytes(std::string_view bytes);

// ModelValue::unsupported of a value that the model declares without a type: computed outputs may be.
inline constexpr char kNoType[] = "value without a type";
struct ModelValue {
    std::string name;
    DType dtype;
    bool has_rank;
    std::vector<math::Sym> shape;              // symbols for open extents
    std::string unsupported;                   // the type where it is no tensor of ours ("sequence"); no dtype then
};
// Declared inputs that are no initialisers, and outputs.
std::vector<ModelValue> model_inputs(const Model& m);
std::vector<ModelValue> model_outputs(const Model& m);
// metadata_props, and "producer" where they have no such key.
std::map<std::string, std::string> model_metadata(const Model& m);

// Operator types that are imported, sorted; "domain.Type" outside ai.onnx. Attributes or element types of some may not be.
std::vector<std::string> supported_operators();

// Never crashes, never allocates without bound, whatever the model holds.
std::variant<Graph, ImportFailure> import(const Model& m, const ImportOptions& o);

}  // namespace opwright::graph::onnx
