// Convolutions. Groups become dims of their own by views, so that every index stays affine.
#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

Attributes window_attributes(const Windows& w) {
    return {{"stride", w.stride}, {"dilation", w.dilation}, {"pad_begin", w.begin}, {"pad_end", w.end}};
}

// Extents of a convolution with weights [M, C / groups, k...].
struct Layout {
    Dims x, w;
    Sym groups, in, out;  // channels a group
    Dims spatial, kernel;
};
Result<Layout> layout_of(NodeContext& c, ValueId x, ValueId w) {
    Layout l;
    l.x = shape_of(c, x);
    l.w = shape_of(c, w);
    if (l.x.size() < 3 || l.x.size() != l.w.size())
        return c.unsupported("input and weights must have the same rank, 3 or more");
    const int64_t groups = c.int_attribute("group", 1);
    if (groups < 1) return c.unsupported("the group must be positive");
    l.groups = groups;
    l.in = l.w[1];
    OPW_TRY(l.out, divided(c, l.w[0], l.groups, "groups"));
    if (l.x[1].known_different(l.in * l.groups))
        return c.unsupported("the input has " + l.x[1].str() + " channels where the weights expect " +
                             (l.in * l.groups).str());
    l.spatial = slice_of(l.x, 2, l.x.size());
    l.kernel = slice_of(l.w, 2, l.w.size());
    return l;
}
ValueId grouped_input(NodeContext& c, ValueId x, const Layout& l) {
    return c.view(x, joined({{l.x[0], l.groups, l.in}, l.spatial}));
}
ValueId grouped_weights(NodeContext& c, ValueId w, const Layout& l) {
    return c.view(w, joined({{l.groups, l.out, l.in}, l.kernel}));
}
ValueId grouped_bias(NodeContext& c, ValueId b, const Layout& l) {
    return b == kNone ? kNone : c.view(b, {l.groups, l.out});
}
// [n, g, m, p...] as [n, g * m, p...].
ValueId joined_channels(NodeContext& c, ValueId y) {
    const Dims s = shape_of(c, y);
    return c.view(y, joined({{s[0], s[1] * s[2]}, slice_of(s, 3, s.size())}));
}

Out conv(NodeContext& c) {
    const ValueId x = c.input(0), w = c.input(1), bias = input_or_none(c, 2);
    OPW_TRY(Layout l, layout_of(c, x, w));
    OPW_TRY(Windows win, windows_of(c, l.spatial, l.kernel));
    const Attributes a = window_attributes(win);
    if (l.groups.is(1)) return c.emit("conv", {x, w, bias}, a);
    if (l.in.is(1) && l.out.is(1))
        return c.emit("conv_depthwise", {x, c.view(w, joined({{l.w[0]}, l.kernel})), bias}, a);
    OPW_TRY(ValueId y,
            emit1(c, "conv_grouped", {grouped_input(c, x, l), grouped_weights(c, w, l), grouped_bias(c, bias, l)}, a));
    return Values{joined_channels(c, y)};
}

Out conv_integer(NodeContext& c) {
    const ValueId x = c.input(0), w = c.input(1);
    OPW_TRY(Layout l, layout_of(c, x, w));
    OPW_TRY(Windows win, windows_of(c, l.spatial, l.kernel));
    ValueId zx = input_or_none(c, 2), zw = input_or_none(c, 3);
    if (zx != kNone) zx = as_scalar(c, zx);
    if (zw != kNone) zw = math::product(shape_of(c, zw)).is(1) ? c.view(zw, {1, 1}) : c.view(zw, {l.groups, l.out});
    OPW_TRY(ValueId y, emit1(c, "conv_integer", {grouped_input(c, x, l), grouped_weights(c, w, l), zx, zw},
                             window_attributes(win)));
    return Values{joined_channels(c, y)};
}

Out conv_quantised(NodeContext& c) {
    if (c.input_count() < 8) return c.unsupported("eight inputs are needed");
    const ValueId x = c.input(0), w = c.input(3);
    OPW_TRY(Layout l, layout_of(c, x, w));
    OPW_TRY(Windows win, windows_of(c, l.spatial, l.kernel));
    const auto channel = [&](ValueId v) {
        return math::product(shape_of(c, v)).is(1) ? c.view(v, {1, 1}) : c.view(v, {l.groups, l.out});
    };
    const Values in = {grouped_input(c, x, l),   as_scalar(c, c.input(1)), as_scalar(c, c.input(2)),
                       grouped_weights(c, w, l), channel(c.input(4)),      channel(c.input(5)),
                       as_scalar(c, c.input(6)), as_scalar(c, c.input(7)), grouped_bias(c, input_or_none(c, 8), l)};
    OPW_TRY(ValueId y, emit1(c, "conv_quantised", in, window_attributes(win)));
    return Values{joined_channels(c, y)};
}

// Weights [C, M / groups, k...].
Out conv_transpose(NodeContext& c) {
    const ValueId x = c.input(0), w = c.input(1);
    const Dims xs = shape_of(c, x), ws = shape_of(c, w);
    if (xs.size() < 3 || xs.size() != ws.size())
        return c.unsupported("input and weights must have the same rank, 3 or more");
    const Sym groups(c.int_attribute("group", 1));
    if (groups.lower() < 1) return c.unsupported("the group must be positive");
    const size_t n = xs.size() - 2;
    const Dims spatial = slice_of(xs, 2, xs.size()), kernel = slice_of(ws, 2, ws.size());
    const Dims stride = to_dims(c.ints("strides").value_or(Ints(n, 1))),
               dilation = to_dims(c.ints("dilations").value_or(Ints(n, 1)));
    const Dims pads = to_dims(c.ints("pads").value_or(Ints(2 * n, 0)));
    Dims extra = to_dims(c.ints("output_padding").value_or(Ints(n, 0)));
    const std::optional<Ints> shape = c.ints("output_shape");
    const std::string mode = c.string_attribute("auto_pad", "NOTSET");
    if (stride.size() != n || dilation.size() != n || pads.size() != 2 * n || extra.size() != n ||
        (shape && shape->size() != n && shape->size() != n + 2))
        return c.unsupported("strides, dilations, pads, output_padding and output_shape must fit the spatial dims");
    Dims begin = slice_of(pads, 0, n), end = slice_of(pads, n, 2 * n);
    for (size_t i = 0; i < n; ++i) {
        const Sym full = stride[i] * (spatial[i] - 1) + extra[i] + (kernel[i] - 1) * dilation[i] + 1;
        std::optional<Sym> target;
        if (shape)
            target = Sym((*shape)[shape->size() - n + i]);
        else if (mode == "SAME_UPPER" || mode == "SAME_LOWER")
            target = spatial[i] * stride[i];
        else if (mode == "VALID")
            begin[i] = end[i] = 0;
        if (!target) continue;
        const Sym total = math::max(Sym(0), full - *target), half = math::floor_div(total, 2);
        begin[i] = mode == "SAME_UPPER" ? half : total - half;
        end[i] = total - begin[i];
        extra[i] = extra[i] + math::max(Sym(0), *target - full);  // an output larger than the taps reach ends in zeros
    }
    const Sym out = ws[1];
    OPW_TRY(const Sym in, divided(c, ws[0], groups, "groups"));
    if (xs[1].known_different(ws[0]))
        return c.unsupported("the input has " + xs[1].str() + " channels where the weights expect " + ws[0].str());
    Attributes a = {{"stride", stride}, {"pad_begin", begin}, {"pad_end", end}, {"extra", extra}};
    bool dilated = false;
    for (const Sym& d : dilation) dilated = dilated || !d.is(1);
    if (dilated) a["dilation"] = dilation;
    const ValueId bias = input_or_none(c, 2);
    OPW_TRY(ValueId y,
            emit1(c, dilated ? "conv_transpose_dilated" : "conv_transpose",
                  {c.view(x, joined({{xs[0], groups, in}, spatial})), c.view(w, joined({{groups, in, out}, kernel})),
                   bias == kNone ? kNone : c.view(bias, {groups, out})},
                  a));
    return Values{joined_channels(c, y)};
}

Out deform_conv(NodeContext& c) {
    const ValueId x = c.input(0), w = c.input(1);
    OPW_TRY(Layout l, layout_of(c, x, w));
    if (l.spatial.size() != 2) return c.unsupported("deformable convolution is declared for two spatial dims");
    OPW_TRY(Windows win, windows_of(c, l.spatial, l.kernel));
    const Sym sets(c.int_attribute("offset_group", 1));
    const Dims o = shape_of(c, c.input(2));
    if (o.size() != 4) return c.unsupported("the offsets must have four dims");
    const ValueId offset = c.view(c.input(2), {o[0], sets, l.kernel[0], l.kernel[1], 2, o[2], o[3]});
    ValueId mask = input_or_none(c, 4);
    if (mask != kNone) mask = c.view(mask, {o[0], sets, l.kernel[0], l.kernel[1], o[2], o[3]});
    OPW_TRY(ValueId y, emit1(c, "deform_conv_2d",
                             {grouped_input(c, x, l), grouped_weights(c, w, l), offset, mask,
                              grouped_bias(c, input_or_none(c, 3), l)},
                             {{"stride", win.stride}, {"dilation", win.dilation}, {"pad_begin", win.begin}}));
    return Values{joined_channels(c, y)};
}

Out col_to_im(NodeContext& c) {
    const ValueId x = c.input(0);
    OPW_TRY(Dims image, c.content(1));
    OPW_TRY(Dims block, c.content(2));
    if (image.size() != block.size() || rank_of(c, x) != 3)
        return c.unsupported("image_shape and block_shape must have one length, and x three dims");
    OPW_TRY(Windows win, windows_of(c, image, block));
    Dims counts;
    for (size_t i = 0; i < image.size(); ++i)
        counts.push_back(math::floor_div(image[i] + win.begin[i] + win.end[i] - win.dilation[i] * (block[i] - 1) - 1,
                                         win.stride[i]) +
                         1);
    const Dims s = shape_of(c, x);
    OPW_TRY(const Sym channels, divided(c, s[1], math::product(block), "elements of a block"));
    return c.emit("fold", {c.view(x, joined({{s[0], channels}, block, counts}))},
                  {{"image", image}, {"stride", win.stride}, {"dilation", win.dilation}, {"pad_begin", win.begin}});
}

Out causal(NodeContext& c) {
    const ValueId x = c.input(0), w = c.input(1);
    const Dims xs = shape_of(c, x), ws = shape_of(c, w);
    if (xs.size() != 3 || ws.size() != 3 || !ws[1].is(1))
        return c.unsupported("input [batch, channels, length] and weights [channels, 1, k] are needed");
    ValueId past = input_or_none(c, 3);
    if (past == kNone) {
        OPW_TRY(past, emit1(c, "full", {scalar(c, 0, type_of(c, x))}, {{"shape", Dims{xs[0], xs[1], ws[2] - 1}}}));
    }
    OPW_TRY(Values out, c.emit("conv_causal", {x, c.view(w, {ws[0], ws[2]}), past, input_or_none(c, 2)}));
    const std::string activation = c.string_attribute("activation", "none");
    if (activation == "silu" || activation == "swish") {
        OPW_TRY(out[0], emit1(c, "silu", {out[0]}));
    } else if (activation != "none") {
        return c.unsupported("activation '" + activation + "' is unknown");
    }
    out.resize(c.output_count());
    return out;
}

}  // namespace

std::span<const Entry> convolutions() {
    static const Entry entries[] = {{"Conv", conv},
                                    {"ConvInteger", conv_integer},
                                    {"QLinearConv", conv_quantised},
                                    {"ConvTranspose", conv_transpose},
                                    {"DeformConv", deform_conv},
                                    {"Col2Im", col_to_im},
                                    {"CausalConvWithState", causal}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
