#include "emit/names.h"

#include <fmt/format.h>

#include <cctype>

namespace opwright::emit {

Names::Names(std::string_view reserved) {
    for (size_t i = 0; i < reserved.size();) {
        const size_t end = std::min(reserved.find(' ', i), reserved.size());
        if (end > i) taken_.emplace(reserved.substr(i, end - i));
        i = end + 1;
    }
}

std::string Names::identifier(std::string_view wanted) {
    std::string r;
    for (const char c : wanted) r += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (r.empty() || std::isdigit(static_cast<unsigned char>(r[0]))) r = "v" + r;
    return r;
}

std::string Names::extent(std::string_view symbol) {
    std::string r = identifier(symbol);
    for (char& c : r) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return r;
}

std::string Names::take(std::string_view wanted) {
    const std::string base = identifier(wanted);
    std::string r = base;
    for (int n = 2; !taken_.insert(r).second; ++n) r = fmt::format("{}_{}", base, n);
    return r;
}

}  // namespace opwright::emit
