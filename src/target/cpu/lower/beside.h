// Rows side by side: short rows spend their time in the folds of a vector to one number, each a chain of instructions that
// wait for each other, and in what is computed of one number. Several rows at a time fold together and compute these
// numbers on lanes. Internal to target/cpu.
#pragma once
#include <optional>
#include <vector>

#include "target/cpu/lower/context.h"

namespace opwright::target::cpu {

// Rows of which a nest can take several side by side.
struct Beside {
    math::VarId var = math::kNone;  // innermost of the grid
    int rows = 0;                   // at a time
    math::Sym length = 0;           // of the longest row that is folded
    int64_t short_row = 0;          // rows up to this length gain by it
};

// Where each task is one row, walked by loops over lanes that fold it or store, between what is one number of the row.
std::optional<Beside> rows_beside(const tile::Program& p, const tile::Nest& nest);

// Whether the statements of a loop over lanes fold something.
bool folds(const tile::Stmt& loop);

// The results of folding each vector's lanes, one a lane: as many as vectors, a power of two, as the vectors' lanes are.
loop::Expr fold_together(loop::Builder& b, std::vector<loop::Expr> vectors,
                         const std::function<loop::Expr(loop::Expr, loop::Expr)>& combine);

}  // namespace opwright::target::cpu
