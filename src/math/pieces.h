// Equations over small tables of numbers, written out: a tensor that is made piece by piece.
#pragma once
#include "math/program.h"

namespace opwright::math {

// An equation that reads a table of known numbers at an index of its left side and sums over the rest, as the transform
// v[i, p, c] = sum[k](b[i, k] * x[4 * p + k, c]) does, becomes one piece for each value of that index,
// v[0, p, c] := 4 * x[4 * p, c] - x[4 * p + 2, c]: the table's numbers stand in it, terms that a condition on the table
// leaves out are gone, and a temporary that is read at such indices alone is put where it is read. A reader that takes
// index and remainder apart, y[h] = s[h % 4, h // 4], is cut into the remainders. Values are unchanged, but that a sum does
// not begin with the sign of zero. All pieces of a tensor are Overwrites that run over the same variables and meet no
// element twice. nullopt: there is no such equation, or one that cannot be written out so.
std::optional<Program> write_out_tables(const Program& p);

// Whether no element is written by both: overwrites of one tensor, in some dim of which affine indices differ at all points.
bool disjoint(const Program& p, const Equation& a, const Equation& b);

}  // namespace opwright::math
