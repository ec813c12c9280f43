// The operators of ai.onnx.ml that compute with indices alone.
#include <algorithm>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;
constexpr const char* kDomain = "ai.onnx.ml";

Out binarizer(NodeContext& c) {
    return c.emit("binarise", {c.input(0)}, {{"level", c.float_attribute("threshold", 0)}});
}

Result<ValueId> row(NodeContext& c, const std::vector<double>& v, double otherwise, DType t) {
    Tensor out(t, {static_cast<int64_t>(std::max<size_t>(v.size(), 1))});
    if (v.empty()) out.set(0, otherwise);
    for (size_t i = 0; i < v.size(); ++i) out.set(static_cast<int64_t>(i), v[i]);
    return c.add_constant(std::move(out));
}

Out scaler(NodeContext& c) {
    OPW_TRY(ValueId x, converted(c, c.input(0), DType::F32));
    if (rank_of(c, x) != 2) return c.unsupported("the input must have two dims");
    OPW_TRY(ValueId offset, row(c, c.floats("offset").value_or(std::vector<double>{}), 0, DType::F32));
    OPW_TRY(ValueId factor, row(c, c.floats("scale").value_or(std::vector<double>{}), 1, DType::F32));
    return c.emit("shift_and_scale", {x, offset, factor});
}

Out normalizer(NodeContext& c) {
    OPW_TRY(ValueId x, converted(c, c.input(0), DType::F32));
    const Dims s = shape_of(c, x);
    if (s.size() > 2 || s.empty()) return c.unsupported("the input must have one or two dims");
    OPW_TRY(ValueId y, emit1(c, "normalise_rows", {with_rank(c, x, 2)}, {{"kind", c.string_attribute("norm", "MAX")}}));
    return Values{c.view(y, s)};
}

// Columns of the last dim.
Out feature_extractor(NodeContext& c) {
    const ValueId x = with_rank(c, c.input(0), 2);
    OPW_TRY(ValueId at, converted(c, c.input(1), DType::I64));
    at = c.view(at, {math::product(shape_of(c, at))});
    return c.emit("gather", {x, at}, {{"axis", rank_of(c, x) - 1}});
}

// x w' + b, the weights being one row a target.
Result<ValueId> linear(NodeContext& c, size_t rows) {
    OPW_TRY(ValueId x, converted(c, c.input(0), DType::F32));
    const std::vector<double> w = c.floats("coefficients").value_or(std::vector<double>{});
    const std::vector<double> b = c.floats("intercepts").value_or(std::vector<double>{});
    if (rows < 1 || w.empty() || w.size() % rows != 0 || (!b.empty() && b.size() != rows))
        return c.unsupported("the coefficients must be one row for each of the " + std::to_string(rows) +
                             " targets, and the intercepts one number");
    OPW_TRY(ValueId weights, row(c, w, 0, DType::F32));
    weights = c.view(weights, {Sym(static_cast<int64_t>(rows)), Sym(static_cast<int64_t>(w.size() / rows))});
    ValueId bias = kNone;
    if (!b.empty()) { OPW_TRY(bias, row(c, b, 0, DType::F32)); }
    return emit1(c, "linear", {with_rank(c, x, 2), weights, bias});
}
Result<ValueId> transformed(NodeContext& c, ValueId scores) {
    const std::string how = c.string_attribute("post_transform", "NONE");
    if (how == "NONE") return scores;
    if (how == "SOFTMAX") return emit1(c, "softmax", {scores}, {{"axes", Dims{1}}});
    if (how == "LOGISTIC") return emit1(c, "sigmoid", {scores});
    return c.unsupported("post_transform '" + how + "' is not declared");
}

Out linear_regressor(NodeContext& c) {
    OPW_TRY(ValueId y, linear(c, static_cast<size_t>(std::max<int64_t>(c.int_attribute("targets", 1), 0))));
    OPW_TRY(y, transformed(c, y));
    return Values{y};
}

Out linear_classifier(NodeContext& c) {
    const auto labels = c.ints("classlabels_ints");
    if (!labels || labels->empty()) return c.unsupported("class labels that are strings are no numbers");
    OPW_TRY(ValueId scores, linear(c, labels->size()));
    OPW_TRY(ValueId best, emit1(c, "arg_max", {scores}, {{"axis", 1}}));
    Tensor names(DType::I64, {static_cast<int64_t>(labels->size())});
    std::copy(labels->begin(), labels->end(), names.as<int64_t>());
    OPW_TRY(ValueId label, emit1(c, "gather", {c.add_constant(std::move(names)), best}, {{"axis", 0}}));
    OPW_TRY(scores, transformed(c, scores));
    return Values{label, scores};
}

Out imputer(NodeContext& c) {
    const ValueId x = c.input(0);
    const bool real = is_float(type_of(c, x));
    std::vector<double> by = c.floats("imputed_value_floats").value_or(std::vector<double>{});
    if (!real) {
        by.clear();
        for (int64_t v : c.ints("imputed_value_int64s").value_or(Ints{})) by.push_back(static_cast<double>(v));
    }
    if (by.empty()) return c.unsupported("the values to put in are missing");
    OPW_TRY(ValueId values, row(c, by, 0, type_of(c, x)));
    const double missing = real ? c.float_attribute("replaced_value_float", 0)
                                : static_cast<double>(c.int_attribute("replaced_value_int64", 0));
    return c.emit("replace_value", {x, values, scalar(c, missing, type_of(c, x))});
}

}  // namespace

std::span<const Entry> classical() {
    static const Entry entries[] = {{"Binarizer", binarizer, kDomain},
                                    {"Scaler", scaler, kDomain},
                                    {"Normalizer", normalizer, kDomain},
                                    {"LinearRegressor", linear_regressor, kDomain},
                                    {"LinearClassifier", linear_classifier, kDomain},
                                    {"Imputer", imputer, kDomain},
                                    {"ArrayFeatureExtractor", feature_extractor, kDomain}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
