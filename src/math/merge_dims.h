// A Program whose leading dims are one: [b, n, d] as [b*n, d], the elements in the same order.
#pragma once
#include <optional>
#include <vector>

#include "math/program.h"

namespace opwright::math {

struct MergedDims {
    Program program;
    std::vector<bool> tensors;  // by tensor: whether its leading dims are merged; the others are as they were
};

// p with the leading `dims` of all its outputs as one, and those of each input and temporary that is read along with them.
// nullopt where one of the dims is used by itself: by an access, a reduction, a condition or a computed index.
std::optional<MergedDims> merge_leading_dims(const Program& p, const std::vector<Sym>& dims);

}  // namespace opwright::math
