// The values that an index expression takes, as closed forms of the extents.
#pragma once
#include <functional>
#include <optional>

#include "math/program.h"

namespace opwright::target::triton {

struct Range {
    math::Sym low, high;  // both are reached or beyond what is
};
// Of an i64 expression of index variables and sizes, given that no variable is without values; nullopt where it holds
// data, or a form that has none. `data` may know the range of what this does not: loads and casts.
std::optional<Range> index_range(const math::Program& p, math::ExprId e,
                                 const std::function<std::optional<Range>(math::ExprId)>& data = nullptr);

}  // namespace opwright::target::triton
