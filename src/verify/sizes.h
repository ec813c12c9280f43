// Extents at which kernels go wrong: nothing, one, around vector widths and tiles, primes.
#pragma once
#include <cstdint>
#include <vector>

#include "math/program.h"

namespace opwright::verify {

struct SizeOptions {
    std::vector<int64_t> tiles = {8, 16,
                                  64};    // widths whose edges matter; the last one's are tried first to be dropped
    int64_t max_work = int64_t{1} << 20;  // operations and elements, all together, that one case may need
    size_t count = 24;                    // at most so many combinations
    uint64_t seed = 1;
};

// 0, 1, 2, 3 and, for each width, w-1, w, w+1 and a prime beyond; ascending, without repetition.
std::vector<int64_t> edge_extents(const std::vector<int64_t>& tiles);

// Values for all symbols of p, `base` first (if it is admissible): each symbol in turn over the edge extents with the
// others as in `base`, all at one extent, then random combinations. Only those whose extents are not negative, for
// which the requirements hold, and that stay within the work. Symbols in `fixed` keep their value.
std::vector<math::SymValues> edge_sizes(const math::Program& p, const math::SymValues& base, const SizeOptions& o,
                                        const math::SymValues& fixed = {});

// Operations and elements of p at these sizes; INT64_MAX where they cannot be counted.
int64_t work_of(const math::Program& p, const math::SymValues& values);

}  // namespace opwright::verify
