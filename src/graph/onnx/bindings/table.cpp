#include <algorithm>
#include <map>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx {
namespace {

using Key = std::pair<std::string_view, std::string_view>;  // domain, type
using Table = std::map<Key, Binding>;

const Table& table() {
    static const Table t = [] {
        using namespace bindings;
        Table out;
        for (const auto& family : {elementwise(), reductions(), normalisations(), losses(), contractions(),
                                   convolutions(), pools(), resamplers(), indexers(), layouts(), quantisers(),
                                   attentions(), spectra(), recurrences(), optimisers(), classical(), refusals()})
            for (const Entry& e : family) out.emplace(Key{e.domain, e.type}, e.bind);
        return out;
    }();
    return t;
}

// Operators with more (or fewer) necessary inputs than one.
const std::map<std::string_view, size_t>& necessary() {
    static const std::map<std::string_view, size_t> n = [] {
        std::map<std::string_view, size_t> out;
        const auto put = [&](size_t count, std::initializer_list<std::string_view> types) {
            for (std::string_view t : types) out[t] = count;
        };
        put(0, {"Optional", "OptionalHasElement", "RandomNormal", "RandomUniform", "Scan", "SequenceEmpty"});
        put(2, {"Add",
                "AffineGrid",
                "And",
                "ArrayFeatureExtractor",
                "BitShift",
                "BitwiseAnd",
                "BitwiseOr",
                "BitwiseXor",
                "CastLike",
                "CausalConvWithState",
                "CenterCropPad",
                "Compress",
                "Conv",
                "ConvInteger",
                "ConvTranspose",
                "CumProd",
                "CumSum",
                "DequantizeLinear",
                "Div",
                "Equal",
                "Expand",
                "Gather",
                "GatherElements",
                "GatherND",
                "Gemm",
                "Greater",
                "GreaterOrEqual",
                "GridSample",
                "LayerNormalization",
                "Less",
                "LessOrEqual",
                "MatMul",
                "MatMulInteger",
                "MaxUnpool",
                "Mod",
                "Mul",
                "NegativeLogLikelihoodLoss",
                "Or",
                "PRelu",
                "Pow",
                "QuantizeLinear",
                "RMSNormalization",
                "ReverseSequence",
                "STFT",
                "SoftmaxCrossEntropyLoss",
                "Sub",
                "TensorScatter",
                "Tile",
                "Xor"});
        put(3, {"Adagrad",
                "Adam",
                "Attention",
                "Col2Im",
                "DeformConv",
                "GRU",
                "GroupNormalization",
                "InstanceNormalization",
                "LSTM",
                "LinearAttention",
                "Momentum",
                "OneHot",
                "RNN",
                "Range",
                "RoiAlign",
                "RotaryEmbedding",
                "Scatter",
                "ScatterElements",
                "ScatterND",
                "Where"});
        put(5, {"BatchNormalization", "MelWeightMatrix"});
        put(8, {"QLinearConv", "QLinearMatMul"});
        return out;
    }();
    return n;
}

}  // namespace

size_t required_inputs(const std::string&, const std::string& op_type) {
    const auto found = necessary().find(op_type);
    return found == necessary().end() ? 1 : found->second;
}

Binding find_binding(const std::string& domain, const std::string& op_type) {
    const auto found = table().find({domain == "ai.onnx" ? "" : domain, op_type});
    return found == table().end() ? nullptr : found->second;
}

std::vector<std::string> bound_operators() {
    std::vector<std::string> out;
    const auto refused = bindings::refusals();
    for (const auto& [key, bind] : table()) {
        const bool refuses = std::any_of(refused.begin(), refused.end(), [&](const bindings::Entry& e) {
            return e.domain == key.first && e.type == key.second;
        });
        if (!refuses) out.push_back((key.first.empty() ? "" : std::string(key.first) + ".") + std::string(key.second));
    }
    std::sort(out.begin(), out.end());
    return out;
}

}  // namespace opwright::graph::onnx
