// Reductions with few results and many terms: several blocks share a result. Each folds one slice of the terms and
// leaves a partial result in memory; a second kernel folds these, always in the same order.
#pragma once
#include <vector>

#include "math/program.h"
#include "target/cuda/program.h"

namespace opwright::target::cuda {

struct Group;

// The first of the two kernels.
struct Slices {
    math::ExprId reduce = math::kNone;
    std::vector<math::VarId> grid;   // of the results; where threads take neighbouring results, their variable is last
    std::vector<math::VarId> along;  // the variables of the reduction, in the order in which its terms are cut
    bool columns = false;            // neighbouring threads: neighbouring results; else neighbouring terms
    math::VarId slice = math::kNone;
    math::Sym length, slice_length;                                  // in terms; a slice is whole packs
    math::TensorId partial = math::kNone, partial_at = math::kNone;  // [grid, slice]; at: of arg reductions
    std::vector<math::ExprId> at;                                    // their indices

    // The variable along which accesses are contiguous.
    math::VarId lane() const { return columns ? grid.back() : along.back(); }
};

// The groups that do the work of `g` where it has few results and `from` terms or more, in order: adds their variables,
// tensors (to `workspace` too) and equations to p. g.when and that of the new groups say which of both run. Empty where
// g has no such form.
std::vector<Group> split_reductions(math::Program& p, Group& g, int64_t from, std::vector<math::TensorId>& workspace);

}  // namespace opwright::target::cuda
