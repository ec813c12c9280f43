// The tile programs that an emitted function chooses from: rows held on the chip, and rows that are walked in steps.
#pragma once
#include <string>
#include <vector>

#include "target/triton/kernel.h"
#include "tile/program.h"

namespace opwright::target::triton {

struct Variant {
    tile::Program program;
    std::vector<std::vector<math::Sym>> rows;  // per nest: extents that its program holds whole
    int64_t row = 0;                           // so many elements they may have together, each padded to a power of two
    bool whole = false;                        // some nest has such rows
    RowForm form = RowForm::Alone;
    int64_t above = 0;                         // rows that are no longer take the next variant
};

// One that serves all sizes, or the one that holds rows, where it helps one that holds longer ones in parts or shares them
// among programs, and, for those that are too long for both, the one that walks.
// `schedule`: of a person, as JSON; empty: the default. It replaces the first. Errors: what it breaks.
Result<std::vector<Variant>> make_variants(const math::Program& p, const std::string& schedule);

}  // namespace opwright::target::triton
