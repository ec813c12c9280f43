// Losses.
#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

// The loss of log probabilities: each target's, their sum, or their mean weighted by class.
Result<ValueId> likelihood(NodeContext& c, ValueId log_p, ValueId target, ValueId weight) {
    const std::string reduction = c.string_attribute("reduction", "mean");
    Attributes a;
    if (c.has("ignore_index")) a["ignore"] = c.int_attribute("ignore_index", 0);
    if (reduction == "none") return emit1(c, "nll_loss", {log_p, target, weight}, a);
    if (reduction != "mean" && reduction != "sum") return c.unsupported("reduction '" + reduction + "' is unknown");
    a["average"] = reduction == "mean";
    return emit1(c, "nll_loss_total", {log_p, target, weight}, a);
}

Out nll(NodeContext& c) {
    OPW_TRY(ValueId y, likelihood(c, c.input(0), c.input(1), input_or_none(c, 2)));
    return Values{y};
}

Out cross_entropy(NodeContext& c) {
    OPW_TRY(ValueId log_p, emit1(c, "log_softmax", {c.input(0)}, {{"axes", Dims{1}}}));
    OPW_TRY(ValueId y, likelihood(c, log_p, c.input(1), input_or_none(c, 2)));
    Values out = {y};
    if (c.output_count() > 1) out.push_back(log_p);
    return out;
}

}  // namespace

std::span<const Entry> losses() {
    static const Entry entries[] = {{"NegativeLogLikelihoodLoss", nll}, {"SoftmaxCrossEntropyLoss", cross_entropy}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
