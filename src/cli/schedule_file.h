// Schedules that a person hands to a command.
#pragma once
#include <string>

#include "base/result.h"

namespace opwright::cli {

// The text of a schedule's file. Errors: one that can't be read, is empty, or is no JSON, with the line; a model as the
// `target`, since a schedule is that of one operator.
Result<std::string> read_schedule(const std::string& path, const std::string& target);

}  // namespace opwright::cli
