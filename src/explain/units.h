// Quantities as people read them.
#pragma once
#include <string>

namespace opwright::explain {

std::string time_text(double seconds);     // "12.3 µs", "1.25 ms", "2.1 s"
std::string bytes_text(double bytes);      // "1.2 MB" (powers of 1000)
std::string count_text(double n);          // "12.5 M"
std::string percent_text(double fraction); // "37 %"

}  // namespace opwright::explain
