// Operators that are known and not supported, each with the reason.
#include <map>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

constexpr const char* kControl = "control flow that depends on data: a sub-graph would have to be run by the executor";
constexpr const char* kSequence = "sequences and optional values are no tensors";
constexpr const char* kString = "strings are no numbers that a kernel could compute with";
constexpr const char* kRandom =
    "random numbers would be needed, and no generator is declared whose values others could reproduce";
constexpr const char* kOpenShape = "the shape of the result depends on the data";
constexpr const char* kTrees = "decision trees and look-ups by key are no index notation";

const std::map<std::string_view, const char*>& reasons() {
    static const std::map<std::string_view, const char*> r = {
        {"If", kControl},
        {"Loop", kControl},
        {"Scan", kControl},
        {"SequenceMap", kControl},
        {"SequenceAt", kSequence},
        {"SequenceConstruct", kSequence},
        {"SequenceEmpty", kSequence},
        {"SequenceErase", kSequence},
        {"SequenceInsert", kSequence},
        {"SequenceLength", kSequence},
        {"SplitToSequence", kSequence},
        {"ConcatFromSequence", kSequence},
        {"Optional", kSequence},
        {"OptionalGetElement", kSequence},
        {"OptionalHasElement", kSequence},
        {"StringConcat", kString},
        {"StringNormalizer", kString},
        {"StringSplit", kString},
        {"RegexFullMatch", kString},
        {"Bernoulli", kRandom},
        {"RandomNormal", kRandom},
        {"RandomNormalLike", kRandom},
        {"RandomUniform", kRandom},
        {"RandomUniformLike", kRandom},
        {"Multinomial", kRandom},
        {"Unique", kOpenShape},
        {"NonMaxSuppression", kOpenShape},
        {"ImageDecoder", "encoded pictures are decoded by the program that reads them, not by an operator"},
        {"MaxRoiPool", "the extents of its bins depend on the data"}};
    return r;
}
const std::map<std::string_view, const char*>& classical_reasons() {
    static const std::map<std::string_view, const char*> r = {
        {"LabelEncoder", kTrees},
        {"TreeEnsemble", kTrees},
        {"TreeEnsembleClassifier", kTrees},
        {"TreeEnsembleRegressor", kTrees},
        {"CategoryMapper", kTrees},
        {"DictVectorizer", kTrees},
        {"OneHotEncoder", kTrees},
        {"ZipMap", kSequence},
        {"CastMap", kSequence},
        {"SVMClassifier", "support vector machines are not declared"},
        {"SVMRegressor", "support vector machines are not declared"},
        {"FeatureVectorizer", "features of several inputs are not joined; use Concat"}};
    return r;
}

const std::map<std::string_view, const char*>& preview_reasons() {
    static const std::map<std::string_view, const char*> r = {
        {"FlexAttention", "its score and probability functions are graphs of their own, given as attributes"}};
    return r;
}
const std::map<std::string_view, const char*>& training_reasons() {
    static const std::map<std::string_view, const char*> r = {{"Gradient", "gradients of a graph inside the graph"}};
    return r;
}

Result<Values> refuse(NodeContext& c) { return c.unsupported(reasons().at(c.op_type())); }
Result<Values> refuse_classical(NodeContext& c) { return c.unsupported(classical_reasons().at(c.op_type())); }
Result<Values> refuse_preview(NodeContext& c) { return c.unsupported(preview_reasons().at(c.op_type())); }
Result<Values> refuse_training(NodeContext& c) { return c.unsupported(training_reasons().at(c.op_type())); }

}  // namespace

std::span<const Entry> refusals() {
    static const std::vector<Entry> entries = [] {
        std::vector<Entry> e;
        for (const auto& [type, why] : reasons()) e.push_back({type, refuse});
        for (const auto& [type, why] : classical_reasons()) e.push_back({type, refuse_classical, "ai.onnx.ml"});
        for (const auto& [type, why] : preview_reasons()) e.push_back({type, refuse_preview, "ai.onnx.preview"});
        for (const auto& [type, why] : training_reasons())
            e.push_back({type, refuse_training, "ai.onnx.preview.training"});
        return e;
    }();
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
