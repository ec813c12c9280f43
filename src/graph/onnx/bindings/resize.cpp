// Padding, resampling and reading at given places.
#include <algorithm>
#include <cmath>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

Out pad(NodeContext& c) {
    const ValueId x = c.input(0);
    const size_t rank = shape_of(c, x).size();
    Dims pads;
    ValueId value = kNone;
    if (c.opset() < 11) {
        pads = to_dims(c.ints("pads").value_or(c.ints("paddings").value_or(Ints{})));
        if (c.has("value")) value = scalar(c, c.float_attribute("value", 0), type_of(c, x));
    } else {
        OPW_TRY(pads, c.content(1));
        value = input_or_none(c, 2);
        if (value != kNone) value = as_scalar(c, value);
    }
    Ints axes = count_up(static_cast<int>(rank));
    if (input_or_none(c, 3) != kNone) {
        OPW_TRY(Ints given, c.constant_ints(3));
        axes.clear();
        for (int64_t a : given) {
            OPW_TRY(int p, plain_axis(c, a, static_cast<int>(rank)));
            axes.push_back(p);
        }
    }
    if (pads.size() != 2 * axes.size()) return c.unsupported("pads must hold a beginning and an end for each axis");
    Dims begin(rank, Sym(0)), end(rank, Sym(0));
    for (size_t i = 0; i < axes.size(); ++i) {
        begin[static_cast<size_t>(axes[i])] = pads[i];
        end[static_cast<size_t>(axes[i])] = pads[axes.size() + i];
    }
    const std::string mode = c.string_attribute("mode", "constant");
    if (mode == "constant") return c.emit("pad", {x, value}, {{"begin", begin}, {"end", end}});
    const char* inside = mode == "edge" ? "clamp" : mode == "reflect" ? "reflect" : mode == "wrap" ? "wrap" : nullptr;
    if (!inside) return c.unsupported("mode '" + mode + "' is unknown");
    return c.emit("pad_from_inside", {x}, {{"begin", begin}, {"end", end}, {"mode", inside}});
}

Out center_crop_pad(NodeContext& c) {
    const ValueId x = c.input(0);
    const Dims s = shape_of(c, x);
    OPW_TRY(Dims target, c.content(1));
    const Ints given = c.ints("axes").value_or(count_up(static_cast<int>(s.size())));
    if (given.size() != target.size()) return c.unsupported("the shape must hold one extent for each axis");
    Dims begin(s.size(), Sym(0)), end(s.size(), Sym(0));
    for (size_t i = 0; i < given.size(); ++i) {
        OPW_TRY(int axis, plain_axis(c, given[i], static_cast<int>(s.size())));
        const size_t a = static_cast<size_t>(axis);
        const Sym more =
            target[i] - s[a];  // rounded toward zero, so that cropping and padding share the odd element alike
        begin[a] = math::select(math::less(more, 0), -math::floor_div(-more, 2), math::floor_div(more, 2));
        end[a] = more - begin[a];
    }
    return c.emit("pad", {x, kNone}, {{"begin", begin}, {"end", end}});
}

// ---- Resize and Upsample
struct Resampling {
    std::string mode, map, nearest;
    double cubic_a = -0.75, extrapolation = 0;
    bool exclude_outside = false, antialias = false;
};
struct Target {
    int axis;
    Sym count;
    std::optional<double> scale;  // as given; without it the ratio of the extents
    double start = 0, stop = 1;
};

// floor(n * scale), which is a closed form of n for whole scales and their reciprocals alone.
Result<Sym> scaled_extent(const NodeContext& c, const Sym& n, double scale) {
    if (auto v = n.constant()) {
        OPW_TRY(int64_t count, count_of(c, static_cast<double>(*v) * scale, "the scaled extent"));
        return Sym(count);
    }
    OPW_TRY(int64_t whole, count_of(c, scale, "a scale"));
    if (scale == std::floor(scale)) return n * Sym(whole);
    for (int64_t d = 2; d <= 64; ++d) {
        const double k = scale * static_cast<double>(d);
        if (k == std::floor(k)) return math::floor_div(n * Sym(static_cast<int64_t>(k)), d);
    }
    return c.unsupported("the scale " + std::to_string(scale) +
                         " of a dim whose extent is open; give the input a fixed shape");
}

// Whole factors that repeat each element: the result is x with a dim of its own for the copies.
bool repeats(const Resampling& r, const Target& t, const Sym& n, int64_t& factor) {
    if (r.mode != "nearest") return false;
    if (t.scale) {
        if (*t.scale != std::floor(*t.scale) || *t.scale < 1) return false;
        factor = static_cast<int64_t>(*t.scale);
    } else {
        const auto from = n.constant(), to = t.count.constant();
        if (from && to && *from > 0 && *to % *from == 0)
            factor = *to / *from;
        else
            return false;
    }
    if (!t.count.known_equal(n * Sym(factor))) return false;
    if (r.map == "asymmetric") return r.nearest == "floor" || factor == 1;
    return (r.map == "half_pixel" || r.map == "pytorch_half_pixel" || r.map == "half_pixel_symmetric") &&
           (r.nearest == "round_prefer_floor" || r.nearest == "round_prefer_ceil") && !n.is(1);
}

Result<ValueId> resample(NodeContext& c, ValueId x, const Resampling& r, const Target& t) {
    const Dims s = shape_of(c, x);
    const size_t axis = static_cast<size_t>(t.axis);
    int64_t factor = 1;
    if (repeats(r, t, s[axis], factor)) {
        if (factor == 1) return x;
        OPW_TRY(ValueId y, emit1(c, "repeat_along", {x}, {{"axes", Dims{t.axis + 1}}, {"extents", Dims{factor}}}));
        Dims to = s;
        to[axis] = s[axis] * Sym(factor);
        return c.view(y, to);
    }
    Attributes a = {{"axis", t.axis},   {"count", t.count}, {"map", r.map},
                    {"start", t.start}, {"stop", t.stop},   {"extrapolation", r.extrapolation}};
    if (t.scale) a["scale"] = *t.scale;
    if (r.mode == "nearest") {
        a["nearest"] = r.nearest;
        return emit1(c, "resize_nearest", {x}, a);
    }
    const DType type = type_of(c, x);
    if (!is_float(type)) return c.unsupported("interpolation between integers");
    int64_t half = r.mode == "cubic" ? 2 : 1;
    double shrink = 1;
    if (r.antialias) {
        double scale = 0;
        if (t.scale)
            scale = *t.scale;
        else if (s[axis].constant() && t.count.constant())
            scale = static_cast<double>(*t.count.constant()) / static_cast<double>(*s[axis].constant());
        else
            return c.unsupported("antialias over a dim whose extent is open; give the input a fixed shape");
        shrink = std::min(scale, 1.0);
        OPW_TRY(half, count_of(c, std::ceil(static_cast<double>(half) / shrink), "the reach of antialias"));
    }
    a["kernel"] = r.mode;
    a["cubic_a"] = r.cubic_a;
    a["taps"] = 2 * half;
    a["shrink"] = shrink;
    a["renormalise"] = r.antialias;
    a["exclude_outside"] = r.exclude_outside;
    return emit1(c, "resize_interpolate", {x}, a);
}

// All targets at once: dims that do not change cost nothing, dims that shrink go first.
Out resample_all(NodeContext& c, const Resampling& r, std::vector<Target> targets) {
    ValueId v = c.input(0);
    const Dims s = shape_of(c, v);
    std::stable_sort(targets.begin(), targets.end(), [&](const Target& p, const Target& q) {
        const auto shrinks = [&](const Target& t) {
            return t.scale ? *t.scale < 1 : (s[static_cast<size_t>(t.axis)] - t.count).lower() > 0;
        };
        return shrinks(p) && !shrinks(q);
    });
    for (const Target& t : targets) {
        const bool same = t.count.known_equal(s[static_cast<size_t>(t.axis)]) && (!t.scale || *t.scale == 1) &&
                          r.map != "tf_crop_and_resize";
        if (same) continue;
        OPW_TRY(v, resample(c, v, r, t));
    }
    return Values{v};
}

Result<std::vector<Target>> targets_of_scales(const NodeContext& c, const Dims& s, const Ints& axes,
                                              const std::vector<double>& scales) {
    if (scales.size() != axes.size()) return c.unsupported("there must be one scale for each axis");
    std::vector<Target> out;
    for (size_t i = 0; i < axes.size(); ++i) {
        if (!(scales[i] > 0 && scales[i] < 1e9)) return c.unsupported("a scale must be positive and finite");
        OPW_TRY(Sym count, scaled_extent(c, s[static_cast<size_t>(axes[i])], scales[i]));
        out.push_back({static_cast<int>(axes[i]), count, scales[i]});
    }
    return out;
}

Result<std::vector<double>> constant_numbers(NodeContext& c, size_t i) {
    OPW_TRY(Tensor t, c.constant(i));
    std::vector<double> out;
    for (int64_t k = 0; k < t.size(); ++k) out.push_back(t.get(k));
    return out;
}

Out upsample(NodeContext& c) {
    std::vector<double> scales;
    if (c.opset() < 9) {
        scales = c.floats("scales").value_or(std::vector<double>{});
    } else {
        OPW_TRY(scales, constant_numbers(c, 1));
    }
    const Dims s = shape_of(c, c.input(0));
    OPW_TRY(auto targets, targets_of_scales(c, s, count_up(static_cast<int>(s.size())), scales));
    Resampling r{c.string_attribute("mode", "nearest"), "asymmetric", "floor"};
    if (r.mode == "bilinear") r.mode = "linear";
    if (r.mode != "nearest" && r.mode != "linear") return c.unsupported("mode '" + r.mode + "' is unknown");
    return resample_all(c, r, targets);
}

Out resize(NodeContext& c) {
    if (c.opset() < 11) return upsample(c);
    Resampling r{c.string_attribute("mode", "nearest"),
                 c.string_attribute("coordinate_transformation_mode", "half_pixel"),
                 c.string_attribute("nearest_mode", "round_prefer_floor")};
    r.cubic_a = c.float_attribute("cubic_coeff_a", -0.75);
    r.extrapolation = c.float_attribute("extrapolation_value", 0);
    r.exclude_outside = c.int_attribute("exclude_outside", 0) != 0;
    r.antialias = c.int_attribute("antialias", 0) != 0;
    if (r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic")
        return c.unsupported("mode '" + r.mode + "' is unknown");
    const Dims s = shape_of(c, c.input(0));
    const int rank = static_cast<int>(s.size());
    Ints axes;
    for (int64_t a : c.ints("axes").value_or(count_up(rank))) {
        OPW_TRY(int p, plain_axis(c, a, rank));
        axes.push_back(p);
    }
    std::vector<Target> targets;
    std::vector<double> scales;
    if (input_or_none(c, 2) != kNone) { OPW_TRY(scales, constant_numbers(c, 2)); }
    if (!scales.empty()) {
        OPW_TRY(targets, targets_of_scales(c, s, axes, scales));
    } else {
        OPW_TRY(Dims sizes, c.content(3));
        if (sizes.size() != axes.size()) return c.unsupported("there must be one size for each axis");
        const std::string policy = c.string_attribute("keep_aspect_ratio_policy", "stretch");
        double common = 0;
        if (policy != "stretch") {
            // One scale for all axes: the least or the greatest of those asked for.
            for (size_t i = 0; i < axes.size(); ++i) {
                const auto from = s[static_cast<size_t>(axes[i])].constant(), to = sizes[i].constant();
                if (!from || !to || *from == 0)
                    return c.unsupported("keep_aspect_ratio_policy '" + policy +
                                         "' with open extents; give the input a fixed shape");
                const double scale = static_cast<double>(*to) / static_cast<double>(*from);
                common = i == 0 ? scale : policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
            }
        }
        for (size_t i = 0; i < axes.size(); ++i) {
            Target t{static_cast<int>(axes[i]), sizes[i], std::nullopt};
            if (policy != "stretch") {
                const double extent = common * static_cast<double>(*s[static_cast<size_t>(axes[i])].constant());
                OPW_TRY(int64_t count, count_of(c, extent + 0.5, "the scaled extent"));
                t.count = Sym(count);
                t.scale = common;
            }
            targets.push_back(t);
        }
    }
    if (r.map == "tf_crop_and_resize") {
        OPW_TRY(std::vector<double> roi, constant_numbers(c, 1));
        if (roi.size() != 2 * axes.size()) return c.unsupported("roi must hold a start and an end for each axis");
        for (size_t i = 0; i < targets.size(); ++i) {
            targets[i].start = roi[i];
            targets[i].stop = roi[axes.size() + i];
        }
    }
    return resample_all(c, r, targets);
}

Out grid_sample(NodeContext& c) {
    const std::string padding = c.string_attribute("padding_mode", "zeros");
    const bool corners = c.int_attribute("align_corners", 0) != 0;
    std::string mode = c.string_attribute("mode", "linear");
    const char* op = mode == "linear" || mode == "bilinear" ? "grid_sample_linear"
                     : mode == "nearest"                    ? "grid_sample_nearest"
                     : mode == "cubic" || mode == "bicubic" ? "grid_sample_cubic"
                                                            : nullptr;
    const char* border = padding == "zeros"        ? "zero"
                         : padding == "border"     ? "clamp"
                         : padding == "reflection" ? corners ? "reflect" : "mirror"
                                                   : nullptr;
    if (!op) return c.unsupported("mode '" + mode + "' is unknown");
    if (!border) return c.unsupported("padding_mode '" + padding + "' is unknown");
    OPW_TRY(ValueId grid, converted(c, c.input(1), type_of(c, c.input(0))));
    return c.emit(op, {c.input(0), grid}, {{"align_corners", corners}, {"padding", padding}, {"border", border}});
}

Out affine_grid(NodeContext& c) {
    OPW_TRY(Dims size, c.content(1));
    if (size.size() < 3) return c.unsupported("the size must hold batch, channels and spatial extents");
    return c.emit(
        "affine_grid", {c.input(0)},
        {{"image", slice_of(size, 2, size.size())}, {"align_corners", c.int_attribute("align_corners", 0) != 0}});
}

}  // namespace

std::span<const Entry> resamplers() {
    static const Entry entries[] = {
        {"Pad", pad},       {"CenterCropPad", center_crop_pad}, {"Upsample", upsample},
        {"Resize", resize}, {"GridSample", grid_sample},        {"AffineGrid", affine_grid}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
