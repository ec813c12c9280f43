// Input tensors for checking a Program: random ones that make sense for each type and place, and patterns of special
// values.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "math/program.h"

namespace opwright::verify {

enum class Pattern : uint8_t {
    Random,    // floats of a normal distribution, small integers
    Positive,  // floats in 0.5 .. 4, integers from 1
    Ties,      // few distinct values, halves among them: equal maxima, roundings half way
    Offset,    // floats of small spread around a large value: cancellation
    Nan,
    Infinity,
    Zeros,      // NaN; +inf and -inf; +0 and -0; among random values
    Subnormal,  // the smallest numbers of each type, among random values
    Extremes,   // highest and lowest, among random values
};
std::string_view name(Pattern p);  // "random", "positive", ...
std::vector<Pattern> all_patterns();
// Whether a program without float inputs sees a difference from Random.
bool applies_to_integers(Pattern p);

// Values that an input is to lie in, low <= v < high, where its meaning demands it.
struct Range {
    double low = 0, high = 0;
};

// Integer inputs whose values become positions in a tensor with nothing said about the outside, and the positions that
// all their uses have: 0 <= v < extent. Found by following values, not comparisons, through intermediates.
std::vector<std::optional<int64_t>> index_extents(const math::Program& p, const math::SymValues& values);

// One tensor an input. Special values stand at the first element, around the edges of `lanes`, at the tail, and at
// random places. A stated range holds for every pattern but for the special values of floats; integer inputs that are
// positions stay inside, using negative ones where the stated range does.
std::vector<Tensor> make_inputs(const math::Program& p, const math::SymValues& values, Pattern pattern, uint64_t seed,
                                const std::vector<std::optional<Range>>& ranges = {}, int64_t lanes = 16);

}  // namespace opwright::verify
