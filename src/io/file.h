// Whole files in and out. A file is replaced in one step: a reader sees the old or the new content, never a half.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace opwright::io {

// The bytes of a regular file. Refused when it is absent, unreadable, no file, or longer than max_bytes.
Result<std::string> read_file(const std::string& path, uint64_t max_bytes = uint64_t{1} << 36);

// Writes beside `path` and renames over it. The folder must exist. An existing file's permissions are kept.
Status write_file(const std::string& path, std::string_view bytes);

// Extension in lower case with its dot, ".png"; empty when there is none.
std::string extension(const std::string& path);

}  // namespace opwright::io
