// The planner's decisions for people: a table, the answer for one operator, JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "compile.h"

namespace opwright::explain {

// What was weighed against what: the candidates taken and refused, those that matter most first, at most `limit` of each
// (0 = all); what the figures mean and the sizes that they hold for. Fits 100 columns.
std::string fusion_text(const Compiled& c, size_t limit = 25);

// The operator that is meant: of that name, or the only one whose name holds it. Error: there is none, or there are several.
Result<std::string> operator_named(const Compiled& c, const std::string& name);

// Which operators share a kernel with this one, what that saves, and why the neighbours that don't, don't. Error: as
// operator_named.
Result<std::string> why_fused(const Compiled& c, const std::string& name);

// {"candidates": [...], "layouts": [...], "winograd": [...], "kernels": [...], "machine": {...}, "sizes": {...}, "assumed": [...]}; docs/cli.md names the fields.
nlohmann::json fusion_json(const Compiled& c);
// One candidate with its sizes put in: an element of "candidates", and of a profile's "fusion".
nlohmann::json candidate_json(const fuse::Decision& d, double bytes);

}  // namespace opwright::explain
