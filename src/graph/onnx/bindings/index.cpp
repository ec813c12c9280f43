// Reading and writing at places that are data.
#include <algorithm>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

Out gather(NodeContext& c) {
    const ValueId x = c.input(0), at = c.input(1);
    const Dims s = shape_of(c, x);
    if (s.empty()) return c.unsupported("a scalar has no dim to gather along");
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", 0), static_cast<int>(s.size())));
    // One place that is known is a slice.
    const auto& known = c.value(at).content;
    if (known && known->size() == 1) {
        const Sym place = (*known)[0], n = s[static_cast<size_t>(axis)];
        const Dims places = shape_of(c, at);
        if (place.lower() >= 0 || place.upper() < 0) {
            OPW_TRY(ValueId y, part(c, x, axis, place.lower() >= 0 ? place : place + n, 1));
            return Values{c.view(y, joined({slice_of(s, 0, static_cast<size_t>(axis)), places,
                                            slice_of(s, static_cast<size_t>(axis) + 1, s.size())}))};
        }
    }
    return c.emit("gather", {x, at}, {{"axis", axis}});
}

Out gather_elements(NodeContext& c) {
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", 0), rank_of(c, c.input(0))));
    return c.emit("gather_elements", {c.input(0), c.input(1)}, {{"axis", axis}});
}

Out gather_nd(NodeContext& c) {
    const auto depth = shape_of(c, c.input(1)).empty() ? std::nullopt : shape_of(c, c.input(1)).back().constant();
    if (!depth) return c.unsupported("the last dim of the indices must have a known extent");
    return c.emit("gather_nd", {c.input(0), c.input(1)},
                  {{"batch", c.int_attribute("batch_dims", 0)}, {"depth", *depth}});
}

Out scatter_elements(NodeContext& c) {
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", 0), rank_of(c, c.input(0))));
    return c.emit("scatter_elements", {c.input(0), c.input(1), c.input(2)},
                  {{"axis", axis}, {"reduction", c.string_attribute("reduction", "none")}});
}

Out scatter_nd(NodeContext& c) {
    const auto depth = shape_of(c, c.input(1)).empty() ? std::nullopt : shape_of(c, c.input(1)).back().constant();
    if (!depth) return c.unsupported("the last dim of the indices must have a known extent");
    return c.emit("scatter_nd", {c.input(0), c.input(1), c.input(2)},
                  {{"depth", *depth}, {"reduction", c.string_attribute("reduction", "none")}});
}

// A cache [batch, ..., s, ...] written along one dim; viewed as [batch, before, s, after].
Out tensor_scatter(NodeContext& c) {
    const Dims s = shape_of(c, c.input(0)), u = shape_of(c, c.input(1));
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", -2), static_cast<int>(s.size())));
    const size_t a = static_cast<size_t>(axis);
    if (a == 0 || u.size() != s.size())
        return c.unsupported("the axis must follow the batch, and the update have the cache's rank");
    const auto view = [&](ValueId v, const Dims& d) {
        return c.view(v, {d[0], math::product(slice_of(d, 1, a)), d[a], math::product(slice_of(d, a + 1, d.size()))});
    };
    const std::string mode = c.string_attribute("mode", "linear");
    if (mode != "linear" && mode != "circular") return c.unsupported("mode '" + mode + "' is unknown");
    OPW_TRY(ValueId y, emit1(c, "cache_update", {view(c.input(0), s), view(c.input(1), u), input_or_none(c, 2)},
                             {{"circular", mode == "circular"}}));
    return Values{c.view(y, s)};
}

Out one_hot(NodeContext& c) {
    // The depth may be of any type, also a float.
    Sym depth;
    if (input_or_none(c, 1) != kNone && is_float(type_of(c, c.input(1)))) {
        OPW_TRY(double n, constant_number(c, 1));
        if (!(n >= 0 && n < 1e12)) return c.unsupported("the depth must be a number of classes");
        depth = static_cast<int64_t>(n);
    } else {
        OPW_TRY(Dims given, c.content(1));
        if (given.size() != 1) return c.unsupported("the depth must be one number");
        depth = given[0];
    }
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", -1), rank_of(c, c.input(0)), true));
    OPW_TRY(ValueId off, part(c, c.input(2), 0, 0, 1));
    OPW_TRY(ValueId on, part(c, c.input(2), 0, 1, 1));
    return c.emit("one_hot", {c.input(0), as_scalar(c, off), as_scalar(c, on)}, {{"axis", axis}, {"depth", depth}});
}

Out top_k(NodeContext& c) {
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", -1), rank_of(c, c.input(0))));
    Sym k;
    if (c.opset() < 10) {
        k = c.int_attribute("k", 1);
    } else {
        OPW_TRY(Dims given, c.content(1));
        if (given.size() != 1) return c.unsupported("k must be one number");
        k = given[0];
    }
    Attributes a = {{"axis", axis}, {"k", k}, {"largest", c.int_attribute("largest", 1) != 0}};
    return c.emit("top_k", {c.input(0)}, a);
}

// The places where a known condition holds.
Out compress(NodeContext& c) {
    OPW_TRY(Tensor condition, c.constant(1));
    Ints places;
    for (int64_t i = 0; i < condition.size(); ++i)
        if (condition.get(i) != 0) places.push_back(i);
    Tensor at(DType::I64, {static_cast<int64_t>(places.size())});
    std::copy(places.begin(), places.end(), at.as<int64_t>());
    ValueId x = c.input(0);
    int axis = 0;
    if (c.has("axis")) {
        OPW_TRY(axis, plain_axis(c, c.int_attribute("axis", 0), rank_of(c, x)));
    } else {
        x = c.view(x, {math::product(shape_of(c, x))});
    }
    return c.emit("gather", {x, c.add_constant(at)}, {{"axis", axis}});
}

// Of a tensor that is known: the shape of the result depends on the values.
Out non_zero(NodeContext& c) {
    OPW_TRY(const Tensor x, c.constant(0));
    std::vector<int64_t> places;
    for (int64_t i = 0; i < x.size(); ++i)
        if (x.get(i) != 0) places.push_back(i);
    const int64_t rank = std::max(x.rank(), 1), count = static_cast<int64_t>(places.size());
    Tensor out(DType::I64, {rank, count});
    int64_t step = 1;
    for (int64_t d = rank; d-- > 0;) {
        const int64_t n = x.rank() == 0 ? 1 : x.shape()[static_cast<size_t>(d)];
        for (int64_t k = 0; k < count; ++k) out.set_int(d * count + k, places[static_cast<size_t>(k)] / step % n);
        step *= n;
    }
    return Values{c.add_constant(std::move(out))};
}

Out reverse_sequence(NodeContext& c) {
    const int64_t time = c.int_attribute("time_axis", 0), batch = c.int_attribute("batch_axis", 1);
    if (!((time == 0 && batch == 1) || (time == 1 && batch == 0)))
        return c.unsupported("time_axis and batch_axis must be 0 and 1");
    return c.emit(time == 0 ? "reverse_sequence" : "batched_reverse_sequence", {c.input(0), c.input(1)});
}

}  // namespace

std::span<const Entry> indexers() {
    static const Entry entries[] = {{"Gather", gather},
                                    {"GatherElements", gather_elements},
                                    {"GatherND", gather_nd},
                                    {"Scatter", scatter_elements},
                                    {"ScatterElements", scatter_elements},
                                    {"ScatterND", scatter_nd},
                                    {"TensorScatter", tensor_scatter},
                                    {"OneHot", one_hot},
                                    {"TopK", top_k},
                                    {"Compress", compress},
                                    {"NonZero", non_zero},
                                    {"ReverseSequence", reverse_sequence}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
