// Records in and out of files that travel between machines.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tune/database.h"

namespace opwright::tune {
namespace {
constexpr uint64_t kMostBytes = uint64_t{256} << 20;
constexpr std::string_view kSqlite = "SQLite format 3";

Result<std::vector<Record>> read_lines(const std::string& text, const std::string& path) {
    std::vector<Record> r;
    size_t number = 0;
    for (size_t i = 0; i < text.size();) {
        const size_t end = std::min(text.find('\n', i), text.size());
        ++number;
        const std::string_view line(text.data() + i, end - i);
        i = end + 1;
        if (line.find_first_not_of(" \r\t") == std::string_view::npos) continue;
        const auto refuse = [&](const std::string& why) {
            return Diagnostic(fmt::format("'{}' cannot be imported: line {}: {}", path, number, why), {},
                              "Nothing was taken from it; export the file anew with `opwright tune export FILE`.");
        };
        const auto j = nlohmann::json::parse(line, nullptr, false);
        if (j.is_discarded()) return refuse("this is not JSON.");
        auto record = record_from_json(j);
        if (!record.ok()) return refuse(record.error().message);
        r.push_back(std::move(*record));
    }
    return r;
}
}  // namespace

Result<int64_t> export_records(const Database& from, const std::string& path) {
    OPW_TRY(const auto records, from.records({}, true));
    std::string text;
    for (const Record& r : records) text += to_json(r).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    OPW_CHECK(io::write_file(path, text));
    return static_cast<int64_t>(records.size());
}

Result<int64_t> import_records(Database& to, const std::string& path) {
    OPW_TRY(const std::string text, io::read_file(path, kMostBytes));
    std::vector<Record> records;
    if (text.starts_with(kSqlite)) {
        OPW_TRY(const auto other, Database::open(path, Database::Mode::Read));
        OPW_TRY(records, other->records({}, true));
    } else {
        OPW_TRY(records, read_lines(text, path));
    }
    int64_t taken = 0;
    for (const Record& r : records) {
        OPW_TRY(const bool added, to.store(r, true));
        taken += added;
    }
    return taken;
}

}  // namespace opwright::tune
