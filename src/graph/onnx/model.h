// A parsed model, and the names of its open extents. For the importer alone: includes the protobuf messages.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>

#include "graph/onnx/decode.h"
#include "graph/onnx/import.h"

namespace opwright::graph::onnx {

class Model : public std::enable_shared_from_this<Model> {
public:
    pb::ModelProto proto;
    std::string folder;  // of the file; empty for bytes
};

// No tensor may have more dims; the format knows no limit, and no model comes near.
inline constexpr int kMaxRank = 32;

// Symbols for open extents. One dim_param is one symbol; "?", -1, "" and the like are a new symbol each, named after
// the value and the position. Names are made of letters, digits and underscores, so that they can be typed.
class SymbolTable {
public:
    explicit SymbolTable(const pb::GraphProto& g);
    // The symbol of dim `d` of the declared value; its number where the extent is one. Same answer whenever asked.
    math::Sym dim(const pb::ValueInfoProto& v, int d) const;
    bool is_open(const pb::ValueInfoProto& v, int d) const;

private:
    std::string fresh(const std::string& wish);
    std::set<std::string> taken_;
    std::map<std::string, std::string> params_;                    // dim_param -> symbol
    std::map<std::pair<std::string, int>, std::string> nameless_;  // value, dim -> symbol
};

// nullptr where the value has no shape (rank open) or is no tensor.
const pb::TensorShapeProto* shape_of(const pb::ValueInfoProto& v);
// Declared inputs that no initialiser fills.
std::vector<const pb::ValueInfoProto*> open_inputs(const pb::GraphProto& g);
// "" for a tensor of an element type of ours, else what it is.
std::string unsupported_type(const pb::TypeProto& t);

}  // namespace opwright::graph::onnx
