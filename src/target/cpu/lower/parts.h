// Folds across rows, of too few columns for several threads: the rows are folded in parts by a stage ahead, whose results the
// nest's own stage folds in order. The number of parts follows from the sizes alone, so that results do not depend on the
// number of threads. Internal to target/cpu.
#pragma once
#include <optional>

#include "target/cpu/lower/context.h"

namespace opwright::target::cpu {

struct RowParts {
    const tile::Stmt *fill = nullptr, *rows = nullptr;  // of the nest: the first partial results, and the loop over rows
    math::Sym count = 1;                                // of parts; 1 where they would be too small
    math::Sym stride = 0;                               // elements of the results of one
    loop::BufferId memory = {};                         // all results, one part after the other: of the launch
};
// Where the nest is one such fold and nothing else.
std::optional<RowParts> rows_in_parts(Context& c, const tile::Nest& nest);

}  // namespace opwright::target::cpu
