// Gradients of models. Private to the command.
#pragma once
#include <string>
#include <vector>

#include "cli/subject.h"

namespace opwright::cli {

struct ModelGradientFlags {
    std::string target;
    std::vector<std::string> wrt, output;
    DataFlags data;
    ExecutionFlags execution;
};

// Tells what of the forward pass is kept for the backward pass; with `output`, runs both and writes the gradients. The
// cotangent of an output y is the input dy where given, 1 everywhere otherwise.
Status model_gradient(const ModelGradientFlags& f);

}  // namespace opwright::cli
