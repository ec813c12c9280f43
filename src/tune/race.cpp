#include "tune/race.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace opwright::tune {
namespace {
double least(const Runner& r) {
    return r.seconds.empty() ? std::numeric_limits<double>::infinity() : *std::min_element(r.seconds.begin(), r.seconds.end());
}
}  // namespace

Result<size_t> race(std::vector<Runner>& runners, const RaceOptions& o) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const auto late = [&] { return std::chrono::duration<double>(Clock::now() - start).count() > o.seconds; };
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < o.rounds; ++round) {
        // Two rounds at least, so that no time stands alone.
        if (round >= 2 && late()) break;
        for (size_t i = 0; i < runners.size(); ++i) {
            Runner& r = runners[i];
            if (!r.alive) continue;
            if (round > 0 && i > 0 && late() && r.seconds.size() >= 2) continue;
            auto t = r.sample();
            if (!t.ok()) {
                if (i == 0) return t.error();
                r.alive = false;
                r.seconds.clear();
                continue;
            }
            r.seconds.push_back(*t);
            best = std::min(best, *t);
            if (i > 0 && round == 0 && *t > o.cut * best) r.alive = false;
        }
        if (round == 0)
            for (size_t i = 1; i < runners.size(); ++i) runners[i].alive &= least(runners[i]) <= o.cut * best;
        if (round % 3 != 2) continue;
        // The slower half goes, but never the last two.
        std::vector<size_t> left;
        for (size_t i = 1; i < runners.size(); ++i)
            if (runners[i].alive) left.push_back(i);
        std::sort(left.begin(), left.end(), [&](size_t a, size_t b) { return least(runners[a]) < least(runners[b]); });
        for (size_t k = std::max<size_t>(2, (left.size() + 1) / 2); k < left.size(); ++k) runners[left[k]].alive = false;
    }
    size_t winner = 0;
    for (size_t i = 1; i < runners.size(); ++i) {
        const Runner& r = runners[i];
        if (!r.alive || least(r) >= least(runners[winner])) continue;
        if (least(r) > least(runners[0]) * (1 - o.margin)) continue;
        const size_t both = std::min(r.seconds.size(), runners[0].seconds.size());
        size_t faster = 0;
        for (size_t k = 0; k < both; ++k) faster += r.seconds[k] < runners[0].seconds[k];
        if (both < 2 || 3 * faster < 2 * both) continue;
        winner = i;
    }
    return winner;
}

}  // namespace opwright::tune
