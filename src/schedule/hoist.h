// Brings a Program into kernel form: no reduction inside another or inside an index, and none that is recomputed for a
// variable it does not depend on. Such reductions become temporaries of their own.
#pragma once
#include "math/program.h"

namespace opwright::schedule {

// Substitutes a temporary into its only reader where both run over the same points, so that what follows a reduction is
// its epilogue: z[m,n] = sum[k](...); y[m,n] = f(z[m,n]) becomes one equation. Outputs are unchanged, but that a
// temporary of a 16-bit float type is not rounded to it (temporaries never are).
math::Program absorb(const math::Program& p);

// In the result every Reduce of an equation has exactly the equation's variables free, and its body and condition hold
// no Reduce. Directly nested reductions of one kind are merged. The value of every output is unchanged.
math::Program hoist(const math::Program& p);

// Merges adjacent index variables that every access uses together and plainly (x[i,j], y[i,j] -> x[ij], y[ij]), so that
// flat element-wise work is one loop. Tensors keep their memory and get merged dims. Only programs of one equation.
math::Program collapse(const math::Program& p);

}  // namespace opwright::schedule
