// Text in columns, for people.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace opwright {

// What commands print fits this many columns (text that they quote stands as it is).
inline constexpr size_t kTextColumns = 100;
// The same, or what the terminal has where that is less.
size_t text_columns();

// Columns that a person sees: bytes that begin a character of UTF-8.
size_t columns(std::string_view s);

// At most `width` columns, the last one '~' where something was cut off.
std::string cut(const std::string& s, size_t width);

// The same of names like "/layer1/layer1.0/conv1/Conv", which differ at their ends: parts that the next one begins with go first,
// then the beginning, for which '~' stands.
std::string cut_path(const std::string& s, size_t width);

// The words of each line in lines of at most `width` columns, each ended by a newline: `indent` spaces before the
// first, `hanging` before those that continue it. A word that is longer stands alone. The spaces before a line's first
// word are kept.
std::string wrapped(std::string_view text, size_t indent = 0, size_t hanging = 4, size_t width = text_columns());

}  // namespace opwright
