// The operator library: every declaration of ops/*.op, embedded in the binary, and files that a person names.
#pragma once
#include <string_view>
#include <vector>

namespace opwright::lang {

struct EmbeddedFile {
    std::string_view name;  // "elementwise.op"
    std::string_view text;
};
// The files of ops/, generated into the binary at build time.
const std::vector<EmbeddedFile>& embedded_library();

}  // namespace opwright::lang
