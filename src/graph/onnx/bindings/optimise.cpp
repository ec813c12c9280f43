// Optimiser steps (ai.onnx.preview.training): rate, count, then a group of tensors for each parameter, listed kind by
// kind.
#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

// `kinds` tensors of each parameter go in, `kinds - 1` come out (all but the gradient), grouped by kind on both sides.
Out optimise(NodeContext& c, const char* op, size_t kinds, const Attributes& a) {
    if (c.input_count() < 2 + kinds || (c.input_count() - 2) % kinds != 0)
        return c.unsupported("the inputs must be rate, count and " + std::to_string(kinds) +
                             " tensors for each parameter");
    const size_t n = (c.input_count() - 2) / kinds;
    const ValueId rate = as_scalar(c, c.input(0)), count = as_scalar(c, c.input(1));
    Values out(n * (kinds - 1), kNone);
    for (size_t i = 0; i < n; ++i) {
        Values in = {rate, count};
        for (size_t k = 0; k < kinds; ++k) in.push_back(c.input(2 + k * n + i));
        OPW_TRY(in[0], converted(c, rate, type_of(c, in[2])));
        OPW_TRY(Values y, c.emit(op, in, a));
        for (size_t k = 0; k + 1 < kinds; ++k) out[k * n + i] = y[k];
    }
    return out;
}

Out adagrad(NodeContext& c) {
    return optimise(c, "adagrad", 3,
                    {{"decay", c.float_attribute("decay_factor", 0)},
                     {"epsilon", c.float_attribute("epsilon", static_cast<double>(1e-6f))},
                     {"l2", c.float_attribute("norm_coefficient", 0)}});
}
Out adam(NodeContext& c) {
    return optimise(c, "adam", 4,
                    {{"alpha", c.float_attribute("alpha", static_cast<double>(0.9f))},
                     {"beta", c.float_attribute("beta", static_cast<double>(0.999f))},
                     {"epsilon", c.float_attribute("epsilon", static_cast<double>(1e-6f))},
                     {"l2", c.float_attribute("norm_coefficient", 0)},
                     {"l2_after", c.float_attribute("norm_coefficient_post", 0)}});
}
Out momentum(NodeContext& c) {
    return optimise(c, "momentum", 3,
                    {{"alpha", c.float_attribute("alpha", 0)},
                     {"beta", c.float_attribute("beta", 0)},
                     {"l2", c.float_attribute("norm_coefficient", 0)},
                     {"nesterov", c.string_attribute("mode", "standard") == "nesterov"}});
}

}  // namespace

std::span<const Entry> optimisers() {
    static const Entry entries[] = {{"Adagrad", adagrad, "ai.onnx.preview.training"},
                                    {"Adam", adam, "ai.onnx.preview.training"},
                                    {"Momentum", momentum, "ai.onnx.preview.training"}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
