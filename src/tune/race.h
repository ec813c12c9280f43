// Which of several ways of doing the same is fastest: measured in turns, the slow ones dropped early.
#pragma once
#include <functional>
#include <vector>

#include "base/result.h"

namespace opwright::tune {

struct Runner {
    // Seconds of one run, the mean of a few in a row.
    std::function<Result<double>()> sample;
    std::vector<double> seconds;  // of all samples
    bool alive = true;
};

struct RaceOptions {
    double cut = 3;          // times the best: dropped at the first sample
    int rounds = 12;         // of those that stay to the end, at most
    double seconds = 1;      // until when no new round starts
    double margin = 0.02;    // of the first one's time, by which another must be faster to win
};

// runners[0] is the default: it is measured in every round, beside the others in turn, and wins unless another is faster by
// more than the margin in its least time, and in most of the rounds that both ran. The rest is halved every third round.
// Returns the winner. A runner whose sample fails is dropped; of the default, that is the error.
Result<size_t> race(std::vector<Runner>& runners, const RaceOptions& o);

}  // namespace opwright::tune
