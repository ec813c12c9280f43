// Turning an access round: which values of the index variables reach a given element.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "derive/linear.h"
#include "math/program.h"

namespace opwright::derive {

// A dim whose access steps by more than one: element `offset` + step*i + common*r is reached by steps i for a phase r
// of step/common phases; `common` divides every place that is reached.
struct Strided {
    size_t dim = 0;
    int64_t step = 1, common = 1;
    math::Sym offset;
};

struct Solution {
    std::map<math::VarId, math::ExprId> value;  // of each variable that is not free, over the targets and the free ones
    std::vector<math::VarId> free;              // still to be gone over; some may be new
    math::ExprId condition = math::kNone;       // what must hold besides, kNone where nothing must
    std::vector<math::VarId> loose;             // variables of the scope whose value may leave their range,
    std::vector<math::VarId> ranged;  // and of these the ones that `condition` does not watch: no solution there
    std::vector<Strided> strided;
};

// Solves at[d] == target[d] for all d, over the variables `scope`, of which the first `outer` are preferred to be
// solved for. Index expressions may be sums of multiples of variables, and quotients and remainders of a variable by
// one divisor or nested ones (an element's digits). Strides are solved by residue, so that no free variable goes over
// values that a condition then refuses for divisibility. Nullopt where the access is of another form.
std::optional<Solution> solve(math::Program& p, const std::vector<math::ExprId>& at,
                              const std::vector<math::ExprId>& target, const std::vector<math::VarId>& scope,
                              size_t outer);

}  // namespace opwright::derive
