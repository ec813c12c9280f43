// The helper functions that C-family source needs: those scalar functions that C has not, or has with other results for
// NaN, zeros, overflow and division by zero (math/functions.h says which results are meant).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "math/functions.h"

namespace opwright::emit {

// How a member of the C family spells things.
struct CDialect {
    std::string function = "static inline";  // before a helper function
    // Type names: of values in registers, and of elements in memory (16-bit floats differ).
    std::map<DType, std::string> value, element;
    std::string index = "int64_t";  // of positions and extents
    std::string infinity, infinity64, nan, nan64;
    // Helpers that the dialect has a better form of, by name; whole functions. An empty text: the dialect has it built
    // in.
    std::map<std::string, std::string> own;
    // Adds the error `code` to those that the kernel reports, as an expression of type void.
    std::string report = "*error = {}";  // {} is the code
};
// C99 with <stdint.h>, <stdbool.h>, <math.h>, <string.h>.
CDialect c99();

// Collects the helpers that a source uses, in an order in which each follows what it calls.
class CFunctions {
public:
    explicit CFunctions(const CDialect& d) : d_(d) {}
    // The name of a helper, which is now part of the source: "max_f32".
    std::string use(const std::string& name);
    // All of them, with a blank line between.
    std::string text() const;
    const CDialect& dialect() const { return d_; }

private:
    std::string body(const std::string& name);

    const CDialect& d_;
    std::vector<std::pair<std::string, std::string>> used_;
};

}  // namespace opwright::emit
