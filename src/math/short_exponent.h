// Exponentials that 16-bit results take fewer digits of than exp gives.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "math/program.h"

namespace opwright::math {

// The exponentials of f32 in these equations (positions in p.equations) whose relative error is that of the results:
// those that are only multiplied, divided and summed on their way there. `stored`: the type in which an equation's
// result lies in memory; nothing where it stays on the chip. None unless all results in memory are f16 or bf16.
std::vector<ExprId> short_exponentials(const Program& p, const std::vector<uint32_t>& equations,
                                       const std::function<std::optional<DType>(TensorId)>& stored);

}  // namespace opwright::math
