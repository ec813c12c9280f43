// Reductions over small tables, written out.
#pragma once
#include "math/program.h"

namespace opwright::math {

// A reduction over at most `max_terms` points known now, whose body reads a constant tensor at those points (the
// weights of a stencil), becomes the chain of its terms with the table's numbers in it, in the order of the reduction.
// Targets then need no table, and people read the stencil. Argument reductions and those with a condition stay.
Program unroll_tables(const Program& p, int max_terms = 32);

// The number that a load of a constant tensor finds, as a literal of self.into; kNone where its place is not known.
ExprId table_entry(const Program& p, const Expr& load, Rewriter& self);

}  // namespace opwright::math
