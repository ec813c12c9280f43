#include "target/tuned.h"

#include <algorithm>
#include <cmath>

namespace opwright::target {

int nearest(const std::vector<std::vector<int64_t>>& measured, const std::vector<int64_t>& sizes, double reach) {
    int best = -1;
    double least = 0;
    for (size_t i = 0; i < measured.size(); ++i) {
        if (measured[i].size() != sizes.size()) continue;
        double sum = 0, worst = 0;
        for (size_t s = 0; s < sizes.size(); ++s) {
            const auto at = [](int64_t v) { return static_cast<double>(std::max<int64_t>(v, 1)); };
            const double octaves = std::fabs(std::log2(at(sizes[s]) / at(measured[i][s])));
            sum += octaves;
            worst = std::max(worst, octaves);
        }
        if (worst > std::log2(reach) + 1e-9 || (best >= 0 && sum >= least)) continue;
        best = static_cast<int>(i);
        least = sum;
    }
    return best;
}

}  // namespace opwright::target
