// The time of a kernel under a schedule, from a model of the processor: what candidates are ranked by before they are
// measured. docs/tuning.md tells how well it ranks; its absolute values are rough.
#pragma once
#include <span>

#include "explain/machine.h"
#include "target/cpu/plan.h"

namespace opwright::tune {

// Seconds. A nest takes the longer of its arithmetic and its traffic:
// - arithmetic in cycles of a core that starts two vector operations and two loads a cycle and waits four cycles for a
//   result that the next operation needs; the tiles' padding, the last round of tasks that leaves threads idle, and some
//   cycles a loop and a task come on top;
// - traffic of a contraction: panels of its factors once a register tile from the cache that holds them, partial results
//   once more a block of depth, elements brought into panels; of other nests: what they read and write, once, a cache
//   line at a time where the lanes do not lie side by side.
// Error: the schedule is illegal (tile::apply).
Result<double> predict(const target::cpu::Planned& p, const schedule::Schedule& s, std::span<const int64_t> symbols,
                       const explain::Machine& m);

}  // namespace opwright::tune
