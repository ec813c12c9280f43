// What tuning found, for people and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tune/session.h"

namespace opwright::tune {

// Spearman's rank correlation of predicted and least measured time, over candidates that have both: 1 where the model
// ranks as the clock does, 0 where it knows nothing. nullopt for fewer than three.
std::optional<double> rank_correlation(const Record& r);

// "matmul at 512, 512, 512"; the name alone where there are no open sizes.
std::string title(const Record& r);
// Fit 100 columns. One line a kernel; and all candidates of one, in the order of their times.
std::string table(const std::vector<Record>& records);
std::string candidates(const Record& r);

std::string to_text(const Session& s, bool all_candidates);
nlohmann::json to_json(const Session& s);
nlohmann::json report_json(const Record& r);  // with what follows from its times

}  // namespace opwright::tune
