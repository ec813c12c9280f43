// Rows in a pipeline. A nest that walks each row several times (its maximum, the exponentials and their sum, the quotients)
// reads from memory in one walk, computes in another and writes in a third, and each waits while the others' units rest.
// Software pipelining over rows (Lam, "Software Pipelining: An Effective Scheduling Technique for VLIW Machines", PLDI 1988)
// makes one loop of all walks, each at a row of its own: the first walk at row t, the second at row t - 1, and so on.
// Internal to target/cpu.
#pragma once
#include <optional>
#include <vector>

#include "target/machine.h"
#include "tile/program.h"

namespace opwright::target::cpu {

struct RowPipeline {
    math::VarId row = math::kNone;  // innermost of the grid
    int lanes = 1;
    int64_t step = 0;     // elements that the common loop takes at a time: whole steps of every walk's own loop
    math::Sym length = 0; // of a row
    // Elements of a row with which all that is read side by side lies in the nearest cache.
    int64_t near = 0;
    bool few = false;    // so few rows are read side by side that those in the next cache come in time
    bool heavy = false;  // some walk computes much, beside which others move data for nothing
    struct Walk {
        const tile::Stmt* loop = nullptr;
        std::vector<const tile::Stmt*> fills;  // of the partial results that the loop folds into
        std::vector<const tile::Stmt*> after;  // what is one number of the row, in order
        std::vector<math::TensorId> first;     // tensors that it is the first to read of a row
        bool keeps = false;                    // stores a row in memory of the task, for the next walk
    };
    std::vector<Walk> walks;
    // One number of a row, known behind walk `made` and read by later ones, up to `last`.
    struct Number {
        math::ExprId computed = math::kNone;  // what computes it
        std::vector<math::ExprId> values;     // expressions that are it
        size_t made = 0, last = 0;
    };
    std::vector<Number> numbers;
};

// Where each task is one row that straight loops over lanes walk several times. `locals` are temporaries of which a task
// holds its own row.
std::optional<RowPipeline> row_pipeline(const tile::Program& p, const tile::Nest& nest, const Machine& machine,
                                        const std::vector<math::TensorId>& locals);

// Whether e is what q has stored, at the same place.
bool loads_result(const math::Program& p, math::ExprId e, const math::Equation& q);

}  // namespace opwright::target::cpu
