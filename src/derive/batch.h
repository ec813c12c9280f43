// The batching rule (vmap): an operator over many arguments at once.
#pragma once
#include <vector>

#include "math/program.h"

namespace opwright::derive {

// p with a dim of `extent` before the others of the inputs marked in `batched` (in order), and of every tensor that
// depends on them; other inputs are shared by the whole batch. Outputs that depend on no batched input stay as they
// are.
math::Program batch(const math::Program& p, const std::vector<bool>& batched, const math::Sym& extent);

}  // namespace opwright::derive
