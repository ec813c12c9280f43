// Reductions, positions of extrema, running reductions and the softmax family.
#include <map>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

const std::map<std::string_view, const char*> kReductions = {
    {"ReduceSum", "reduce_sum"},        {"ReduceMean", "reduce_mean"},
    {"ReduceMax", "reduce_max"},        {"ReduceMin", "reduce_min"},
    {"ReduceProd", "reduce_prod"},      {"ReduceL1", "reduce_l1"},
    {"ReduceL2", "reduce_l2"},          {"ReduceSumSquare", "reduce_sum_square"},
    {"ReduceLogSum", "reduce_log_sum"}, {"ReduceLogSumExp", "reduce_log_sum_exp"}};

Out reduce(NodeContext& c) {
    const ValueId x = c.input(0);
    const int rank = rank_of(c, x);
    OPW_TRY(Ints axes, axes_of(c, 1, {}));
    if (axes.empty()) {
        // Over no dims these keep x as it is; the others still apply their function to each element.
        const std::string& type = c.op_type();
        const bool keeps = type == "ReduceSum" || type == "ReduceMean" || type == "ReduceMax" || type == "ReduceMin" ||
                           type == "ReduceProd";
        const bool none = c.int_attribute("noop_with_empty_axes", 0) != 0;
        if (none && keeps) return Values{x};
        if (!none) axes = count_up(rank);
    }
    OPW_TRY(axes, plain_axes(c, axes, rank));
    OPW_TRY(ValueId y, emit1(c, kReductions.at(c.op_type()), {x}, {{"axes", to_dims(axes)}}));
    return Values{c.int_attribute("keepdims", 1) != 0 ? with_axes(c, y, axes) : y};
}

Out arg_extremum(NodeContext& c) {
    const ValueId x = c.input(0);
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", 0), rank_of(c, x)));
    OPW_TRY(ValueId y, emit1(c, c.op_type() == "ArgMax" ? "arg_max" : "arg_min", {x},
                             {{"axis", axis}, {"last", c.int_attribute("select_last_index", 0) != 0}}));
    return Values{c.int_attribute("keepdims", 1) != 0 ? with_axes(c, y, {axis}) : y};
}

Out running(NodeContext& c) {
    const ValueId x = c.input(0);
    OPW_TRY(Ints given, c.constant_ints(1));
    if (given.size() != 1) return c.unsupported("the axis must be one number");
    OPW_TRY(int axis, plain_axis(c, given[0], rank_of(c, x)));
    return c.emit(c.op_type() == "CumSum" ? "running_sum" : "running_product", {x},
                  {{"axis", axis},
                   {"exclusive", c.int_attribute("exclusive", 0) != 0},
                   {"reverse", c.int_attribute("reverse", 0) != 0}});
}

// Before opset 13 these work on all dims from the axis on, as one.
Out softmax(NodeContext& c) {
    const ValueId x = c.input(0);
    const int rank = rank_of(c, x);
    const bool flat = c.opset() < 13;
    const int64_t given = c.int_attribute("axis", flat ? 1 : -1);
    OPW_TRY(int axis, plain_axis(c, given, rank, flat && given >= 0));
    const Ints all = count_up(rank);
    const Ints axes = flat ? Ints(all.begin() + axis, all.end()) : Ints{axis};
    if (c.op_type() != "Hardmax")
        return c.emit(c.op_type() == "Softmax" ? "softmax" : "log_softmax", {x}, {{"axes", to_dims(axes)}});
    if (!flat) return c.emit("hardmax", {x}, {{"axis", axis}});
    const Dims shape = shape_of(c, x);
    const ValueId rows = c.view(x, {math::product(slice_of(shape, 0, static_cast<size_t>(axis))),
                                    math::product(slice_of(shape, static_cast<size_t>(axis), shape.size()))});
    OPW_TRY(ValueId y, emit1(c, "hardmax", {rows}, {{"axis", 1}}));
    return Values{c.view(y, shape)};
}

}  // namespace

std::span<const Entry> reductions() {
    static const std::vector<Entry> entries = [] {
        std::vector<Entry> e = {{"ArgMax", arg_extremum}, {"ArgMin", arg_extremum}, {"CumSum", running},
                                {"CumProd", running},     {"Softmax", softmax},     {"LogSoftmax", softmax},
                                {"Hardmax", softmax}};
        for (const auto& [type, op] : kReductions) e.push_back({type, reduce});
        return e;
    }();
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
