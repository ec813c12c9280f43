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

std::string cut_path(const std::string& s, size_t width) {
    if (columns(s) <= width) return s;
    std::string r;
    for (size_t i = 0; i < s.size();) {
        const size_t end = std::min(s.find('/', i), s.size());
        const std::string_view part(s.data() + i, end - i), rest = std::string_view(s).substr(std::min(end + 1, s.size()));
        // Exporters repeat a module's name in those of its parts: layer1/layer1.0/conv1.
        const bool repeated = rest.size() > part.size() && rest.substr(0, part.size()) == part && rest[part.size()] == '.';
        if (!part.empty() && !repeated) r += (r.empty() ? "" : "/") + std::string(part);
        i = end + 1;
    }
    if (columns(r) <= width) return r;
    size_t begin = 0;
    for (size_t n = columns(r); n > width - 1; ++begin)
        if ((r[begin] & 0xC0) != 0x80) --n;
    while (begin < r.size() && (r[begin] & 0xC0) == 0x80) ++begin;
    return "~" + r.substr(begin);
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
