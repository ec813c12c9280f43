#include "explain/units.h"

#include <fmt/format.h>

#include <cmath>

namespace opwright::explain {
namespace {

// Three significant digits, without an exponent.
std::string three(double v) {
    const double a = std::fabs(v);
    return fmt::format("{:.{}f}", v, a >= 100 || a == 0 ? 0 : a >= 10 ? 1 : 2);
}
std::string scaled(double v, const char* unit, const char* gap) {
    static const char* const prefixes[] = {"", "k", "M", "G", "T", "P"};
    int i = 0;
    while (std::fabs(v) >= 999.5 && i < 5) v /= 1000, ++i;
    if (i == 0) return fmt::format("{:.0f}{}{}", v, *unit ? gap : "", unit);
    return fmt::format("{} {}{}", three(v), prefixes[i], unit);
}
}  // namespace

std::string time_text(double s) {
    if (s >= 0.9995) return three(s) + " s";
    if (s >= 0.9995e-3) return three(s * 1e3) + " ms";
    return three(s * 1e6) + " µs";
}
std::string bytes_text(double b) { return scaled(b, "B", " "); }
std::string count_text(double n) { return scaled(n, "", ""); }
std::string percent_text(double f) { return fmt::format("{:.{}f} %", 100 * f, f > 0 && f < 0.0995 ? 1 : 0); }

}  // namespace opwright::explain
