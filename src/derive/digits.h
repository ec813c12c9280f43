// Index variables that accesses take apart by division, as in x[p // block, p % block].
#pragma once
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "derive/linear.h"

namespace opwright::derive {

struct Digits {
    std::vector<math::VarId> variables;      // those of the scope that are not taken apart, and the digits
    std::vector<Linear> at;                  // the accesses over `variables`
    std::map<math::VarId, Linear> composed;  // variables taken apart, over their digits
    std::set<math::VarId> covers;            // of those, the ones that all values of their digits make, in range
};

// Nullopt where an index expression is not of this form, or a divisor does not divide the next.
std::optional<Digits> split_digits(math::Program& p, const std::vector<math::ExprId>& at,
                                   const std::vector<math::VarId>& scope);

}  // namespace opwright::derive
