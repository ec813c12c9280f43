// Pooling and reading regions of interest.
#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

Result<Windows> pool_windows(const NodeContext& c, const Dims& x) {
    if (x.size() < 3) return c.unsupported("the input must have spatial dims");
    const auto kernel = c.ints("kernel_shape");
    if (!kernel) return c.unsupported("the attribute kernel_shape is missing");
    return windows_of(c, slice_of(x, 2, x.size()), to_dims(*kernel));
}
Attributes pool_attributes(const Windows& w) {
    return {{"kernel", w.kernel},   {"stride", w.stride}, {"dilation", w.dilation},
            {"pad_begin", w.begin}, {"pad_end", w.end},   {"ceil_mode", w.ceil}};
}

Out max_pool(NodeContext& c) {
    const ValueId x = c.input(0);
    const Dims s = shape_of(c, x);
    OPW_TRY(Windows w, pool_windows(c, s));
    Attributes a = pool_attributes(w);
    if (c.output_count() < 2 || !c.output_wanted(1)) {
        OPW_TRY(Values out, c.emit("max_pool", {x}, a));
        out.resize(c.output_count(), kNone);
        return out;
    }
    // Positions count over the whole tensor; storage_order 1 counts a picture's columns first.
    const Dims spatial = slice_of(s, 2, s.size());
    const bool columns = c.int_attribute("storage_order", 0) != 0;
    Dims weights(spatial.size(), Sym(1));
    for (size_t i = 0; i < spatial.size(); ++i)
        weights[i] = math::product(columns ? slice_of(spatial, 0, i) : slice_of(spatial, i + 1, spatial.size()));
    a["weights"] = weights;
    a["image"] = math::product(spatial);
    Dims later;
    for (size_t i = 0; i < spatial.size(); ++i)
        later.push_back(math::product(slice_of(w.kernel, i + 1, spatial.size())));
    a["later"] = later;
    return c.emit("max_pool_indices", {x}, a);
}

Out average_pool(NodeContext& c) {
    const ValueId x = c.input(0);
    OPW_TRY(Windows w, pool_windows(c, shape_of(c, x)));
    Attributes a = pool_attributes(w);
    const bool counted = c.int_attribute("count_include_pad", 0) != 0;
    bool whole = !w.ceil;  // no window leaves what counts
    for (size_t i = 0; i < w.begin.size(); ++i) whole = whole && (counted || (w.begin[i].is(0) && w.end[i].is(0)));
    a["include_pad"] = counted;
    a["whole"] = whole;
    return c.emit("average_pool", {x}, a);
}

Out lp_pool(NodeContext& c) {
    const ValueId x = c.input(0);
    OPW_TRY(Windows w, pool_windows(c, shape_of(c, x)));
    Attributes a = pool_attributes(w);
    a["p"] = c.int_attribute("p", 2);
    return c.emit("lp_pool", {x}, a);
}

Out global_pool(NodeContext& c) {
    const ValueId x = c.input(0);
    const Ints all = count_up(rank_of(c, x));
    if (all.size() < 3) return c.unsupported("the input must have spatial dims");
    const Ints spatial(all.begin() + 2, all.end());
    ValueId y = kNone;
    if (c.op_type() == "GlobalLpPool") {
        OPW_TRY(y, emit1(c, "global_lp_pool", {x}, {{"p", c.int_attribute("p", 2)}}));
    } else {
        OPW_TRY(y, emit1(c, c.op_type() == "GlobalMaxPool" ? "reduce_max" : "reduce_mean", {x},
                         {{"axes", to_dims(spatial)}}));
    }
    return Values{with_axes(c, y, spatial)};
}

Out max_unpool(NodeContext& c) {
    const ValueId x = c.input(0);
    const Dims s = shape_of(c, x);
    OPW_TRY(Windows w, pool_windows(c, s));
    Dims shape = {s[0], s[1]};
    for (size_t i = 0; i + 2 < s.size(); ++i)
        shape.push_back((s[i + 2] - 1) * w.stride[i] - w.begin[i] - w.end[i] + w.kernel[i]);
    const Sym n = math::product(s);
    OPW_TRY(ValueId y,
            emit1(c, "max_unpool", {c.view(x, {n}), c.view(c.input(1), {n})}, {{"count", math::product(shape)}}));
    y = c.view(y, shape);
    if (input_or_none(c, 2) == kNone) return Values{y};
    OPW_TRY(Dims target, c.content(2));
    if (target.size() != shape.size()) return c.unsupported("output_shape must have one extent a dim");
    Dims begin(shape.size(), Sym(0)), end;
    for (size_t i = 0; i < shape.size(); ++i) end.push_back(target[i] - shape[i]);
    return c.emit("pad", {y, kNone}, {{"begin", begin}, {"end", end}});
}

Out roi_align(NodeContext& c) {
    const int64_t samples = c.int_attribute("sampling_ratio", 0);
    if (samples < 1)
        return c.unsupported(
            "sampling_ratio = 0 makes the number of samples depend on each region; a positive sampling_ratio is "
            "needed");
    const std::string mode = c.string_attribute("mode", "avg");
    const std::string map =
        c.string_attribute("coordinate_transformation_mode", c.opset() < 16 ? "output_half_pixel" : "half_pixel");
    OPW_TRY(ValueId batch, converted(c, c.input(2), DType::I64));
    return c.emit("roi_align", {c.input(0), c.input(1), batch},
                  {{"rows", c.int_attribute("output_height", 1)},
                   {"columns", c.int_attribute("output_width", 1)},
                   {"samples", samples},
                   {"spatial_scale", c.float_attribute("spatial_scale", 1.0)},
                   {"half_pixel", map == "half_pixel"},
                   {"maximum", mode == "max"}});
}

}  // namespace

std::span<const Entry> pools() {
    static const Entry entries[] = {{"MaxPool", max_pool},
                                    {"AveragePool", average_pool},
                                    {"LpPool", lp_pool},
                                    {"GlobalAveragePool", global_pool},
                                    {"GlobalMaxPool", global_pool},
                                    {"GlobalLpPool", global_pool},
                                    {"MaxUnpool", max_unpool},
                                    {"RoiAlign", roi_align}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
