// Reads along another index than that of the lanes, as a transpose has them: contiguous vectors, turned in registers.
// Internal to target/cpu.
#pragma once
#include <vector>

#include "target/cpu/lower_nest.h"

namespace opwright::target::cpu {

// A square of `lanes` x `lanes` elements: lanes along `lane` from `first` on, of which those past `last` (none: no lane
// is) are copies, and `across` from `start` on, all inside.
struct Square {
    math::VarId lane = math::kNone, across = math::kNone;
    loop::Expr first, last, start;
    int lanes = 1;
};

// Whether the load's elements lie side by side along `across` and apart along `lane`.
bool turned(const math::Program& p, math::ExprId load, math::VarId lane, math::VarId across);

// The values of the load (whose tensor it also asks for ahead) at the positions of `across`, each a vector along `lane`.
std::vector<loop::Expr> turn(Context& c, Point& point, math::ExprId load, const Square& s);

}  // namespace opwright::target::cpu
