// Nests that run together, some rows at a time: a contraction whose rows the next nests work on, each row by itself, until
// a contraction takes them as its rows. Attention is that: scores, softmax, mix. Temporaries between them then need room
// for the rows of one task, which stay in the caches, in place of all rows; what is computed is the same.
#pragma once
#include <optional>
#include <vector>

#include "schedule/schedule.h"

namespace opwright::schedule {

struct Together {
    size_t first = 0, last = 0;          // nests, all between included
    math::Sym batches = 1, rows = 1;     // a row is a batch point with a row of the contractions; rows of one point follow each other
    std::vector<math::TensorId> held;    // temporaries that only these nests use; the rows are their leading dims
};

// The most nests from `first` on that may run together; nullopt where there are none. They read what they write at their own
// row alone.
std::optional<Together> match_together(const Kernel& k, size_t first);

// Rows at a time for the default schedule, or 0; makes the register tiles of the nests fit that number.
int64_t default_rows_together(const Kernel& k, const Together& t, Schedule& s);

}  // namespace opwright::schedule
