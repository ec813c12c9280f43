#include "base/text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace opwright {
namespace {

// One line of the text, without its newline.
void wrap_line(std::string& out, std::string_view text, size_t indent, size_t hanging, size_t width) {
    const size_t first = std::min(text.find_first_not_of(' '), text.size());
    std::string line(indent + first, ' ');
    size_t used = line.size();
    bool fresh = true;
    for (size_t i = first; i < text.size();) {
        const size_t end = std::min(text.find(' ', i), text.size());
        const std::string_view word = text.substr(i, end - i);
        if (!fresh && used + 1 + columns(word) > width) {
            out += line + "\n";
            line.assign(hanging + first, ' ');
            used = line.size();
            fresh = true;
        }
        if (!fresh) line += ' ', ++used;
        line += word;
        used += columns(word);
        fresh = false;
        i = end + 1;
    }
    out += (fresh ? "" : line) + "\n";
}
}  // namespace

size_t text_columns() {
    static const size_t columns = [] {
        constexpr size_t kLeast = 60;  // narrower ones wrap as they like
        winsize size{};
        for (const int file : {STDOUT_FILENO, STDERR_FILENO})
            if (isatty(file) && ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
                return std::clamp<size_t>(size.ws_col, kLeast, kTextColumns);
        return kTextColumns;
    }();
    return columns;
}

size_t columns(std::string_view s) {
    return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string cut(const std::string& s, size_t width) {
    if (columns(s) <= width) return s;
    std::string r;
    size_t n = 0;
    for (char c : s) {
        if ((c & 0xC0) != 0x80 && n++ == width - 1) break;
        r += c;
    }
    return r + "~";
}

std::string wrapped(std::string_view text, size_t indent, size_t hanging, size_t width) {
    std::string r;
    for (size_t i = 0; i < text.size();) {
        const size_t end = std::min(text.find('\n', i), text.size());
        wrap_line(r, text.substr(i, end - i), indent, hanging, width);
        i = end + 1;
    }
    return r;
}

}  // namespace opwright
