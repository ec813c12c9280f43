// Reads along another index than that of the lanes, as a transpose has them: contiguous vectors, turned in registers.
// Internal to target/cpu.
#pragma once
#include <vector>

#include "target/cpu/lower/context.h"

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

// Memory for a block of results of an equation that are turned, `lanes` to a vector: rows lie along the lanes, a few
// elements apart, so that vectors of equal place in them are not in one set of a cache.
struct Staged {
    Storage memory;
    size_t lane_dim = 0, across_dim = 0;  // of the equation's tensor
    int lanes = 1;
    int64_t row = 0;                      // elements from row to row
    // Where the results lie while the block begins at these values of the two variables.
    Storage at(loop::Expr lane, loop::Expr across) const;
};
// For blocks of `lane_tile` by `across_tile` results; nullopt where the equation's indices are not plain variables.
std::optional<Staged> stage(Context& c, const math::Equation& q, math::VarId lane, int64_t lane_tile, math::VarId across,
                            int64_t across_tile, int lanes);

struct Span {
    math::VarId var = math::kNone;
    loop::Expr begin, end;
};
// Writes the staged block to the equation's tensor past the caches, whole lines at a time: rows may begin anywhere in one.
void stream_rows(Context& c, Point& point, const math::Equation& q, const Staged& from, const Span& lane, const Span& across);

}  // namespace opwright::target::cpu
