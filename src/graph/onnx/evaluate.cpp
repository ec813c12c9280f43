#include <algorithm>

#include "graph/onnx/importer.h"
#include "graph/onnx/tensor_proto.h"

namespace opwright::graph::onnx {

using Outputs = std::vector<ValueId>;

namespace {
template <class T>
Tensor vector_tensor(DType t, const std::vector<T>& v) {
    Tensor r(t, {static_cast<int64_t>(v.size())});
    for (size_t i = 0; i < v.size(); ++i) {
        if constexpr (std::is_same_v<T, double>)
            r.set(static_cast<int64_t>(i), v[i]);
        else
            r.set_int(static_cast<int64_t>(i), v[i]);
    }
    return r;
}
}  // namespace

const std::set<std::string>& own_operators() {
    static const std::set<std::string> kOperators = {"Constant", "Identity", "Shape", "Size", "Dropout"};
    return kOperators;
}

std::vector<std::string> supported_operators() {
    std::set<std::string> all = {"If", "Loop", "Scan"};
    all.insert(own_operators().begin(), own_operators().end());
    all.insert(sequence_operators().begin(), sequence_operators().end());
    for (const std::string& b : bound_operators()) all.insert(b);
    return {all.begin(), all.end()};
}

std::optional<Result<Outputs>> Importer::constant_node(const ResolvedNode& node) {
    Context c(*this, node);
    std::optional<Tensor> t;
    if (c.has("value"))
        t = c.tensor("value");
    else if (c.has("value_int"))
        t = vector_tensor(DType::I64, std::vector<int64_t>{c.int_attribute("value_int", 0)}).reshaped({});
    else if (c.has("value_ints"))
        t = vector_tensor(DType::I64, c.ints("value_ints").value_or(std::vector<int64_t>{}));
    else if (c.has("value_float"))
        t = vector_tensor(DType::F32, std::vector<double>{c.float_attribute("value_float", 0)}).reshaped({});
    else if (c.has("value_floats"))
        t = vector_tensor(DType::F32, c.floats("value_floats").value_or(std::vector<double>{}));
    else if (c.has("sparse_value"))
        return Result<Outputs>(c.unsupported("its value is a sparse tensor"));
    else if (c.has("value_string") || c.has("value_strings"))
        return Result<Outputs>(c.unsupported("its value is a string"));
    if (c.attribute_error()) return Result<Outputs>(*c.attribute_error());
    if (!t) return Result<Outputs>(c.unsupported("it has no value"));
    return Result<Outputs>(Outputs{add_constant(std::move(*t), "")});
}

// Before opset 7 the second operand was broadcast only where `broadcast` said so, from the dim `axis` on.
void Importer::align_old_broadcast(ResolvedNode& node) {
    static const std::set<std::string> kBinary = {"Add", "Sub", "Mul",   "Div",  "Pow",    "And",
                                                  "Or",  "Xor", "Equal", "Less", "Greater"};
    if (node.opset >= 7 || !kBinary.count(node.source.type) || !node.proto->domain().empty()) return;
    Context c(*this, node);
    const int64_t axis = c.int_attribute("axis", -1);
    if (c.int_attribute("broadcast", 0) != 0 && c.has("axis") && node.inputs.size() == 2 && node.inputs[0] != kNone &&
        node.inputs[1] != kNone) {
        const auto rank = static_cast<int64_t>(graph_.values[node.inputs[0]].shape.size());
        std::vector<math::Sym> shape = graph_.values[node.inputs[1]].shape;
        const int64_t first = axis < 0 ? axis + rank : axis;
        while (first >= 0 && first + static_cast<int64_t>(shape.size()) < rank) shape.emplace_back(1);
        node.inputs[1] = view(node.inputs[1], std::move(shape), node.source);
    }
    node.attributes.erase("broadcast");
    node.attributes.erase("axis");
    node.attributes.erase("consumed_inputs");
}

std::optional<Result<Outputs>> Importer::evaluate(const ResolvedNode& node) {
    const std::string& op = node.source.type;
    const auto& domain = node.proto->domain();
    if (!domain.empty() && domain != "ai.onnx") return std::nullopt;
    if (op == "Constant") return constant_node(node);
    const bool has_first = !node.inputs.empty() && node.inputs[0] != kNone;
    Context c(*this, node);
    if (op == "Identity" && has_first) return Result<Outputs>(Outputs{node.inputs[0]});
    if (op == "Dropout" && has_first && !c.output_wanted(1)) {
        // Inference: nothing is dropped, unless the node says that it is training.
        const bool training = node.inputs.size() > 2 && node.inputs[2] != kNone;
        const auto& value = training ? graph_.values[node.inputs[2]].content : std::nullopt;
        if (!training || (value && value->size() == 1 && (*value)[0].is(0)))
            return Result<Outputs>(Outputs{node.inputs[0]});
    }
    if (op == "Cast" && has_first &&
        dtype_from_onnx(static_cast<int32_t>(c.int_attribute("to", 0))) == graph_.values[node.inputs[0]].dtype)
        return Result<Outputs>(Outputs{node.inputs[0]});
    if (op == "CastLike" && node.inputs.size() == 2 && has_first && node.inputs[1] != kNone &&
        graph_.values[node.inputs[0]].dtype == graph_.values[node.inputs[1]].dtype)
        return Result<Outputs>(Outputs{node.inputs[0]});
    auto known = evaluate_content(c, measure_);
    if (c.attribute_error()) return Result<Outputs>(*c.attribute_error());
    if (!known || known->size() < c.output_count()) return std::nullopt;
    Outputs out;
    for (const Known& k : *known) out.push_back(add_known(k, ""));
    return Result<Outputs>(std::move(out));
}

}  // namespace opwright::graph::onnx
