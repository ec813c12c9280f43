#include "base/diagnostic.h"

#include <algorithm>
#include <string_view>

namespace opwright {
namespace {

std::string_view line_at(const Span& s, uint32_t line_begin) {
    std::string_view text = s.source->text;
    const size_t end = text.find('\n', line_begin);
    return text.substr(line_begin, end == std::string_view::npos ? end : end - line_begin);
}

// The source line of a span with a caret row under it. Tabs become one space so that columns agree.
void append_excerpt(std::string& out, const Span& s, const std::string& label, const char* on, const char* off) {
    const LineColumn at = locate(s);
    const uint32_t begin = std::min<uint32_t>(s.begin, static_cast<uint32_t>(s.source->text.size()));
    const uint32_t line_begin = begin - (at.column - 1);
    std::string line(line_at(s, line_begin));
    std::replace(line.begin(), line.end(), '\t', ' ');
    const std::string number = std::to_string(at.line);
    const std::string gutter(number.size(), ' ');
    // Of a long line, the part around the place.
    constexpr size_t kWidth = 120, kBefore = 40;
    size_t shift = 0;
    if (line.size() > kWidth) {
        shift = at.column - 1 > kBefore ? at.column - 1 - kBefore : 0;
        line = line.substr(shift);
        if (line.size() > kWidth) line = line.substr(0, kWidth - 3) + "...";
        if (shift > 0) line.replace(0, 3, "...");
    }
    const size_t column = at.column - 1 - shift;
    const size_t room = line.size() > column ? line.size() - column : 1;
    const size_t width = std::max<size_t>(1, std::min<size_t>(s.end > s.begin ? s.end - s.begin : 1, room));
    out += "\n" + gutter + " --> " + s.source->name + ":" + number + ":" + std::to_string(at.column);
    out += "\n" + gutter + "  |";
    out += "\n" + number + "  | " + line;
    out += "\n" + gutter + "  | " + std::string(column, ' ') + on + std::string(width, '^') +
           (label.empty() ? "" : " " + label) + off;
}
}  // namespace

LineColumn locate(const Span& s) {
    if (!s.source) return {};
    const std::string& t = s.source->text;
    const size_t at = std::min<size_t>(s.begin, t.size());
    const size_t newline = at == 0 ? std::string::npos : t.rfind('\n', at - 1);
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    return {static_cast<uint32_t>(std::count(t.begin(), t.begin() + static_cast<long>(at), '\n') + 1),
            static_cast<uint32_t>(at - begin + 1)};
}

std::string render(const Diagnostic& d, bool colour) {
    const char* red = colour ? "\x1b[1;31m" : "";
    const char* blue = colour ? "\x1b[1;36m" : "";
    const char* off = colour ? "\x1b[0m" : "";
    std::string out = std::string(red) + "error:" + off + " " + d.message;
    if (d.span.source) append_excerpt(out, d.span, d.label, red, off);
    for (const Note& n : d.notes) {
        out += std::string("\n  = ") + blue + "note:" + off + " " + n.text;
        if (n.span.source) append_excerpt(out, n.span, "", blue, off);
    }
    if (!d.next.empty()) out += std::string("\n  = ") + blue + "next:" + off + " " + d.next;
    return out;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
    std::string best;
    if (word.size() < 2) return best;  // any letter is one slip away from any other
    size_t best_distance = word.size() / 3 + 1;  // a third of the letters, at least one
    for (const std::string& c : candidates) {
        if (c.size() > word.size() + best_distance || word.size() > c.size() + best_distance) continue;
        // Optimal string alignment distance (a swap of neighbours counts as one slip), three rolling rows.
        std::vector<size_t> before(c.size() + 1), above(c.size() + 1), row(c.size() + 1);
        for (size_t j = 0; j <= c.size(); ++j) above[j] = j;
        for (size_t i = 1; i <= word.size(); ++i) {
            row[0] = i;
            for (size_t j = 1; j <= c.size(); ++j) {
                row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (word[i - 1] != c[j - 1])});
                if (i > 1 && j > 1 && word[i - 1] == c[j - 2] && word[i - 2] == c[j - 1])
                    row[j] = std::min(row[j], before[j - 2] + 1);
            }
            before = above;
            above = row;
        }
        const size_t distance = above[c.size()];
        if (distance <= best_distance && c != word && (best.empty() || distance < best_distance)) {
            best = c;
            best_distance = distance;
        }
    }
    return best;
}

}  // namespace opwright
