// Extents at which kernels go wrong: nothing, one, around vector widths and tiles, primes.
#pragma once
#include <cstdint>
#include <vector>

#include "math/program.h"

namespace opwright::verify {

inline const std::vector<int64_t> kUsualWidths = {8, 16, 64};

struct SizeOptions {
    // Widths whose edges matter. Empty: those of the kernel under test, kUsualWidths where it names none.
    std::vector<int64_t> tiles;
    int64_t max_work = int64_t{1} << 20;  // operations and elements, all together, that one case may need
    size_t count = 28;                    // at most so many combinations
    uint64_t seed = 1;
};

// 0, 1, 2, 3 and, for each width, w-1, w, w+1 and a prime beyond; ascending, without repetition.
std::vector<int64_t> edge_extents(const std::vector<int64_t>& tiles);

// What a kernel says of its tiles, vectors and blocks as tiles for SizeOptions: ascending, each once, without 1; the
// usual ones where nothing is left.
std::vector<int64_t> usable_widths(std::vector<int64_t> widths);

// Values for all symbols of p, `base` first (if it is admissible): each symbol in turn over the edge extents with the
// others as in `base` (at 1 where that is too much work), all at one extent, one as large as the work allows with the
// others at 1, then random combinations. Only those whose extents are not negative, for which the requirements hold,
// and that stay within the work. Symbols in `fixed` keep their value.
std::vector<math::SymValues> edge_sizes(const math::Program& p, const math::SymValues& base, const SizeOptions& o,
                                        const math::SymValues& fixed = {});

// Operations and elements of p at these sizes; INT64_MAX where they cannot be counted.
int64_t work_of(const math::Program& p, const math::SymValues& values);

}  // namespace opwright::verify
