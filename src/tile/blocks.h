// Schedule application for block targets: kernel + schedule -> tile program whose buffers are blocks.
#pragma once
#include "base/result.h"
#include "tile/program.h"

namespace opwright::tile {

// The kernel comes from schedule::form_block_kernel. In the result:
// - a buffer's box lists the block axes free in its value, in the order of the plan's `blocks`: [] is a scalar,
// [j:1024]
//   a vector, [i:4, j] rows held whole. A For runs over blocks of a row variable (lane), or point by point (not lane);
//   a row variable held whole has no For.
// - temporaries of a nest are buffers: `held` tells which. Nothing is loaded from or stored to them.
// - padding: a block may reach past its variable's extent (a ragged tail, a whole axis padded to a power of two). Loads
//   and stores there are masked off; values there are undefined, so folds along such an axis take the identity instead.
// Errors name the equation, the index and the limit that the schedule breaks.
Result<Program> apply_blocks(schedule::Kernel kernel, schedule::Schedule schedule);

// Which buffer holds a value, as statements go by. Copy it where a For begins, and go on with the copy of before after
// it: what was loaded inside is gone.
class Held {
public:
    // Takes note of a statement that was executed.
    void after(const Program& p, const Stmt& s);
    // The buffer that holds e: what a load, map, reduction or scan left, or a tensor that the nest itself has set;
    // kNoBuffer: e is to be computed.
    BufferId find(const Program& p, math::ExprId e) const;

private:
    std::vector<std::pair<math::ExprId, BufferId>> values_;
    std::vector<std::pair<math::TensorId, BufferId>> tensors_;
};

}  // namespace opwright::tile
