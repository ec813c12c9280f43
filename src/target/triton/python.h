// Python text: identifiers that are free and valid, and lines laid out as the formatter `black` does (100 columns).
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace opwright::target::triton {

// Identifiers of one scope.
class Names {
public:
    // `wanted`, made a valid identifier that is no keyword and nobody else's: x, x_1, x_2, ...
    std::string take(std::string_view wanted);
    void reserve(std::string_view name) { taken_.insert(std::string(name)); }

private:
    std::set<std::string, std::less<>> taken_;
};

class PythonWriter {
public:
    // One statement, broken over lines where it is too long.
    void line(std::string_view text);
    void comment(std::string_view text);  // wrapped at words, each line with "# "
    void docstring(const std::vector<std::string>& lines);
    void blank(int lines = 1);
    void append(std::string_view block);  // finished text, as it is
    void indent() { ++depth_; }
    void outdent() { --depth_; }
    const std::string& text() const { return text_; }

private:
    std::string text_;
    int depth_ = 0;
};

// "..." with escapes, for a message.
std::string quoted(std::string_view s);

}  // namespace opwright::target::triton
