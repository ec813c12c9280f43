#include "cli/schedule_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/file.h"

namespace opwright::cli {

Result<std::string> read_schedule(const std::string& path, const std::string& target) {
    constexpr const char* kNext = "`opwright explain OPERATOR --level schedule --json` prints a schedule to start from.";
    if (io::extension(target) == ".onnx")
        return Diagnostic(fmt::format("A schedule is that of one operator, and '{}' is a model.", target), {}, kNext);
    OPW_TRY(std::string text, io::read_file(path, uint64_t{1} << 24));
    if (text.find_first_not_of(" \t\r\n") == std::string::npos)
        return Diagnostic(fmt::format("'{}' is empty, and a schedule is wanted.", path), {}, kNext);
    try {
        static_cast<void>(nlohmann::json::parse(text));
    } catch (const nlohmann::json::parse_error& e) {
        const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
        return Diagnostic(fmt::format("'{}' is not valid JSON: see line {}.", path,
                                      1 + std::count(text.begin(), end, '\n')),
                          {}, kNext);
    }
    return text;
}

}  // namespace opwright::cli
