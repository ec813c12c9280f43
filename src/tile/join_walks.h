// Internal to tile/apply: what a loop over lanes stores is folded in the same walk.
#pragma once
#include "tile/program.h"

namespace opwright::tile {

// A loop over lanes that stores a temporary of the nest, and behind it one that reduces what was stored, point by point (the
// exponentials of a softmax and their sum), become one: the second then finds each value in a register.
// Loops over lanes that set pieces of one tensor become one as well, which reads each element once.
void join_walks(const schedule::Nest& nest, std::vector<Stmt>& body, Program& p);

}  // namespace opwright::tile
