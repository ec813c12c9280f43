// Matrix products for the cube: which contractions the high-level Matmul object takes.
#pragma once
#include <optional>

#include "schedule/kernel.h"

namespace opwright::target::ascend {

// acc[batch..., m, n] = sum over k of a[..m, k..] * b[..k, n..], both factors dense matrices as they lie in memory.
struct Product {
    size_t nest = 0;
    math::TensorId acc = math::kNone;                 // f32 in global memory, which the vector epilogue reads
    math::ExprId a = math::kNone, b = math::kNone;    // loads
    bool transposed_a = false, transposed_b = false;  // a lies as [k, m], b as [n, k]
    std::vector<math::VarId> batch;
    math::VarId m = math::kNone, n = math::kNone, k = math::kNone;
    DType type = DType::F16;  // of the factors
};

// Takes the product out of a contraction of the kernel: the nest's equation becomes the epilogue, which reads the new
// tensor `acc`. nullopt, and the kernel unchanged, where the Matmul object has no form for it.
std::optional<Product> extract_product(schedule::Kernel& k, size_t nest);

}  // namespace opwright::target::ascend
