// A profile as one page of HTML that needs nothing beside it: roofline, operator graph, losses, code, comparison.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "explain/profile.h"
#include "lang/library.h"

namespace opwright::explain {

struct ReportOptions {
    size_t text_bytes = 24'000;     // of one kernel at one level; the rest is cut at a line, which is said
    size_t texts_bytes = 3'000'000; // of all of them, the costliest kernels first
    std::vector<std::string> levels{"schedule", "loop", "llvm"};  // of Kernel::text, as far as they were kept
};

// What the page shows: {"profile": as to_json() with all that the caller adds, "graph": {"values", "nodes"}, "kernels":
// [{"declarations", "equations", "code"}] beside profile.operators, "texts": what those refer to by number}. `library`
// holds the declarations of operators; those not in it are shown by their equations alone.
nlohmann::json report_data(const Profile& p, const nlohmann::json& profile, const Compiled& c, const lang::Library& library,
                           const ReportOptions& o = {});

// A saved `profile --json` to compare with. Errors: no JSON, or JSON of something else.
Result<nlohmann::json> read_baseline(const std::string& path);

// The page around its data. Names in `data` come from models that nobody has looked at: none of them becomes markup.
std::string report_page(const nlohmann::json& data);

// One of the files that the page is made of, embedded by the build; empty: there is none of that name.
std::string_view report_file(std::string_view name);

}  // namespace opwright::explain
