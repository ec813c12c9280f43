// The operators of ai.onnx.ml that compute with indices alone.
#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;
constexpr const char* kDomain = "ai.onnx.ml";

Out binarizer(NodeContext& c) { return c.emit("binarise", {c.input(0)}, {{"level", c.float_attribute("threshold", 0)}}); }

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

}  // namespace

std::span<const Entry> classical() {
    static const Entry entries[] = {{"Binarizer", binarizer, kDomain}, {"Scaler", scaler, kDomain}, {"Normalizer", normalizer, kDomain},
                                    {"ArrayFeatureExtractor", feature_extractor, kDomain}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
