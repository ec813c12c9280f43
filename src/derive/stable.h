// Forms of expressions whose derivative by the plain rules would meet infinity times 0.
#pragma once
#include <optional>

#include "math/program.h"

namespace opwright::derive {

// A call that holds u = c + exp(z), c a positive number: ... / u, log(u) or log1p(exp(z)). The derivative of u over u
// itself is exp(z) / u, which `share` computes from the side that does not overflow.
struct Logistic {
    math::ExprId z = math::kNone, u = math::kNone, share = math::kNone;
};
std::optional<Logistic> logistic(math::Program& p, math::ExprId call);

// The condition that a root is not 0, where the call is a root (or another power below 1) of a sum of squares or of
// powers of absolute values: at 0 its derivative is taken as 0, the smallest subgradient of a norm. kNone for other
// calls.
math::ExprId norm_is_positive(math::Program& p, math::ExprId call);

}  // namespace opwright::derive
