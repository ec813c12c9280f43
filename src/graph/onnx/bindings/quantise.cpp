// Quantised numbers.
#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

// How scales lie along x: one for all, one a position of an axis, or one for each run of `block` elements along it.
struct Scales {
    int axis = 0;
    int64_t block = 0;  // 0: no runs
    ValueId scale = kNone, zero = kNone;
};
Result<Scales> scales_of(NodeContext& c) {
    Scales s;
    const Dims x = shape_of(c, c.input(0));
    s.scale = c.input(1);
    s.zero = input_or_none(c, 2);
    const Dims d = shape_of(c, s.scale);
    const int rank = static_cast<int>(x.size());
    s.block = c.int_attribute("block_size", 0);
    if (s.block > 0 && d.size() == x.size()) {
        OPW_TRY(s.axis, plain_axis(c, c.int_attribute("axis", 1), rank));
        return s;
    }
    s.block = 0;
    if (d.size() > 1) return c.unsupported("scales of more than one dim need block_size");
    const bool one = d.empty() || d[0].is(1);
    if (!one) { OPW_TRY(s.axis, plain_axis(c, c.int_attribute("axis", 1), rank)); }
    s.scale = with_rank(c, s.scale, 1);
    if (s.zero != kNone) s.zero = with_rank(c, s.zero, 1);
    return s;
}
// The library's scales run along an existing dim.
ValueId with_dim(NodeContext& c, ValueId x) { return with_rank(c, x, std::max(1, rank_of(c, x))); }

Out quantise(NodeContext& c) {
    OPW_TRY(Scales s, scales_of(c));
    const ValueId x = c.input(0);
    const Dims shape = shape_of(c, x);
    DType to = DType::U8;
    if (s.zero != kNone)
        to = type_of(c, s.zero);
    else if (c.int_attribute("output_dtype", 0) != 0) {
        OPW_TRY(to, element_type(c, c.int_attribute("output_dtype", 0)));
    }
    if (!is_int(to)) return c.unsupported("the quantised type must be an integer type");
    // Divided in the type asked for, else in that of x.
    DType by = type_of(c, x) == DType::I32 ? type_of(c, s.scale) : type_of(c, x);
    if (c.int_attribute("precision", 0) != 0) { OPW_TRY(by, element_type(c, c.int_attribute("precision", 0))); }
    OPW_TRY(s.scale, converted(c, s.scale, by));
    Attributes a = {{"axis", s.axis}, {"to", to}};
    if (s.block > 0) a["block"] = s.block;
    OPW_TRY(ValueId y, emit1(c, s.block > 0 ? "quantise_blocks" : "quantise", {with_dim(c, x), s.scale, s.zero}, a));
    return Values{shape.empty() ? as_scalar(c, y) : y};
}

Out dequantise(NodeContext& c) {
    OPW_TRY(Scales s, scales_of(c));
    const ValueId x = c.input(0);
    const Dims shape = shape_of(c, x);
    if (!is_int(type_of(c, x))) return c.unsupported("the quantised type must be an integer type");
    DType to = type_of(c, s.scale);
    if (c.int_attribute("output_dtype", 0) != 0) { OPW_TRY(to, element_type(c, c.int_attribute("output_dtype", 0))); }
    Attributes a = {{"axis", s.axis}};
    if (s.block > 0) a["block"] = s.block;
    OPW_TRY(ValueId y,
            emit1(c, s.block > 0 ? "dequantise_blocks" : "dequantise", {with_dim(c, x), s.scale, s.zero}, a));
    OPW_TRY(y, converted(c, y, to));
    return Values{shape.empty() ? as_scalar(c, y) : y};
}

Out dynamic(NodeContext& c) { return c.emit("dynamic_quantise", {c.input(0)}); }

}  // namespace

std::span<const Entry> quantisers() {
    static const Entry entries[] = {
        {"QuantizeLinear", quantise}, {"DequantizeLinear", dequantise}, {"DynamicQuantizeLinear", dynamic}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
