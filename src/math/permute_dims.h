// A Program whose tensors have their dims in another order: the same equations over another layout.
#pragma once
#include <vector>

#include "math/program.h"

namespace opwright::math {

// By tensor: dim d of the result is dim order[d] of p's; empty: as it is. An equation that sets a whole tensor runs over
// its indices in the tensor's new order. Tensors that hold data themselves (Role::Constant) stay as they are.
Program permute_dims(const Program& p, const std::vector<std::vector<size_t>>& order);

// Temporaries that hold another tensor as it stands are read there, and go. Such is a transpose that dims in another order have
// undone.
Program without_copies(const Program& p);

}  // namespace opwright::math
