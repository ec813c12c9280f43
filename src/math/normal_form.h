// An equation's mathematics in one form, whatever operators it was put together from: to tell what a kernel is.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "math/program.h"

namespace opwright::math {

// The value that equation `equation` sets, as if on real numbers, with every temporary put in its place: a sum of products of
// powers, in which sums over an index are linear, exponentials of sums are products, and common factors cancel (so that a
// softmax is the same with and without its maximum). Equal texts mean equal mathematics; a number between 1e-13 and 0.01
// that is added under a root or a quotient (an epsilon) is written as one sign. Reads of tensors[i] are written as number i;
// those tensors are taken as they are, even where an equation sets them; `numbers` are tensors of one known element. Nullopt: it reads others, or holds what has no such form
// (scans, positions that are data, reads past edges, conditions of reductions), or its form is too large.
std::optional<std::string> normal_form(const Program& p, size_t equation, const std::vector<TensorId>& tensors,
                                       const std::map<TensorId, double>& numbers = {});

// Tensors that the equation depends on once everything but `kept` and the program's inputs and constants is put in its place.
std::vector<TensorId> depends_on(const Program& p, size_t equation, const std::vector<TensorId>& kept,
                                 const std::map<TensorId, double>& numbers = {});

}  // namespace opwright::math
