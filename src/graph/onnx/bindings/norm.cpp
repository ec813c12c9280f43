// Normalisations.
#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

// The type in which statistics are computed: f32 at least.
DType stash_type(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }

// A scale or bias of a normalisation over the last `rank` dims, without dims of 1 before them.
Result<ValueId> trailing(NodeContext& c, ValueId v, int rank) {
    if (v == kNone || rank_of(c, v) <= rank) return v;
    const Dims s = shape_of(c, v);
    const size_t extra = s.size() - static_cast<size_t>(rank);
    for (size_t i = 0; i < extra; ++i)
        if (!s[i].is(1)) return c.unsupported("a scale or bias that varies over dims that are not normalised");
    return c.view(v, slice_of(s, extra, s.size()));
}

Out layer_norm(NodeContext& c) {
    const ValueId x = c.input(0);
    const int rank = rank_of(c, x);
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", -1), rank));
    OPW_TRY(ValueId scale, trailing(c, c.input(1), rank - axis));
    OPW_TRY(ValueId bias, trailing(c, input_or_none(c, 2), rank - axis));
    const DType stash = stash_type(type_of(c, x));
    OPW_TRY(Values out, c.emit("layer_norm", {x, scale, bias},
                               {{"axis", axis},
                                {"epsilon", c.float_attribute("epsilon", static_cast<double>(1e-5f))},
                                {"stash", stash}}));
    const Ints reduced = [&] {
        Ints all = count_up(rank);
        return Ints(all.begin() + axis, all.end());
    }();
    for (size_t i = 1; i < c.output_count() && i < 3; ++i) {
        if (!c.output_wanted(i)) {
            out[i] = kNone;
            continue;
        }
        OPW_TRY(out[i], converted(c, with_axes(c, out[i], reduced), DType::F32));
    }
    out.resize(c.output_count(), kNone);
    return out;
}

Out rms_norm(NodeContext& c) {
    const ValueId x = c.input(0);
    const int rank = rank_of(c, x);
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", -1), rank));
    OPW_TRY(ValueId scale, trailing(c, c.input(1), rank - axis));
    return c.emit("rms_norm", {x, scale},
                  {{"axis", axis},
                   {"epsilon", c.float_attribute("epsilon", static_cast<double>(1e-5f))},
                   {"stash", stash_type(type_of(c, x))}});
}

Out batch_norm(NodeContext& c) {
    if (c.input_count() != 5) return c.unsupported("five inputs are needed: x, scale, bias, mean and variance");
    const ValueId x = c.input(0);
    const DType t = type_of(c, x);
    if (c.opset() < 9 && c.int_attribute("spatial", 1) == 0)
        return c.unsupported("spatial = 0 (statistics for each element) would be needed");
    Values in = {x};
    for (size_t i = 1; i < 5; ++i) {
        OPW_TRY(ValueId v, converted(c, c.input(i), t));
        in.push_back(v);
    }
    const Attributes epsilon = {{"epsilon", c.float_attribute("epsilon", static_cast<double>(1e-5f))}};
    const bool training = c.opset() >= 14 ? c.int_attribute("training_mode", 0) != 0 : c.output_count() > 1;
    if (!training) {
        OPW_TRY(ValueId y, emit1(c, "batch_norm", in, epsilon));
        Values out(c.output_count(), kNone);
        out[0] = y;
        return out;
    }
    if (c.opset() < 14)
        return c.unsupported("batch normalisation in training (more than one output) is supported from opset 14 on");
    Attributes a = epsilon;
    a["momentum"] = c.float_attribute("momentum", static_cast<double>(0.9f));
    OPW_TRY(Values out, c.emit("batch_norm_training", in, a));
    for (size_t i = 1; i < out.size(); ++i) { OPW_TRY(out[i], converted(c, out[i], type_of(c, c.input(i + 2)))); }
    out.resize(c.output_count());
    return out;
}

Out instance_norm(NodeContext& c) {
    return c.emit("instance_norm", {c.input(0), c.input(1), c.input(2)},
                  {{"epsilon", c.float_attribute("epsilon", static_cast<double>(1e-5f))}});
}

Out group_norm(NodeContext& c) {
    const ValueId x = c.input(0);
    const Dims s = shape_of(c, x);
    const int64_t groups = c.int_attribute("num_groups", 0);
    if (groups < 1 || s.size() < 2) return c.unsupported("num_groups must be positive and x have channels");
    const Sym g(groups);
    OPW_TRY(const Sym each, divided(c, s[1], g, "groups"));
    const ValueId grouped = c.view(x, joined({{s[0], g, each}, slice_of(s, 2, s.size())}));
    // Up to opset 20 one scale a group, then one a channel.
    const Dims weights = c.opset() < 21 ? Dims{g, Sym(1)} : Dims{g, each};
    OPW_TRY(ValueId y, emit1(c, "group_norm", {grouped, c.view(c.input(1), weights), c.view(c.input(2), weights)},
                             {{"epsilon", c.float_attribute("epsilon", static_cast<double>(1e-5f))},
                              {"stash", stash_type(type_of(c, x))}}));
    return Values{c.view(y, s)};
}

Out mean_variance(NodeContext& c) {
    OPW_TRY(Ints axes, plain_axes(c, c.ints("axes").value_or(Ints{0, 2, 3}), rank_of(c, c.input(0))));
    return c.emit("mean_variance_norm", {c.input(0)}, {{"axes", to_dims(axes)}});
}

Out lp_norm(NodeContext& c) {
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", -1), rank_of(c, c.input(0))));
    return c.emit("lp_norm", {c.input(0)}, {{"axis", axis}, {"p", c.int_attribute("p", 2)}});
}

Out local_response(NodeContext& c) {
    return c.emit("local_response_norm", {c.input(0)},
                  {{"width", c.int_attribute("size", 1)},
                   {"alpha", c.float_attribute("alpha", static_cast<double>(0.0001f))},
                   {"beta", c.float_attribute("beta", 0.75)},
                   {"bias", c.float_attribute("bias", 1.0)}});
}

}  // namespace

std::span<const Entry> normalisations() {
    static const Entry entries[] = {{"LayerNormalization", layer_norm}, {"RMSNormalization", rms_norm},
                                    {"BatchNormalization", batch_norm}, {"InstanceNormalization", instance_norm},
                                    {"GroupNormalization", group_norm}, {"MeanVarianceNormalization", mean_variance},
                                    {"LpNormalization", lp_norm},       {"LRN", local_response}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
