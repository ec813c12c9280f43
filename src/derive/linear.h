// Linear forms over integer expressions, with symbolic coefficients: the arithmetic of indices while accesses are
// solved.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "math/program.h"

namespace opwright::derive {

// sum of coefficient * atom, plus offset. An atom is an I64 expression that is no sum: an index variable, a quotient, a
// remainder, or whatever does not depend on index variables to be solved for.
struct Linear {
    std::vector<std::pair<math::ExprId, math::Sym>> terms;  // each atom once, no zero coefficients
    math::Sym offset;

    void add(math::ExprId atom, const math::Sym& coefficient);
    Linear& operator+=(const Linear& o) { return accumulate(o, 1); }
    Linear& operator-=(const Linear& o) { return accumulate(o, -1); }
    Linear& accumulate(const Linear& o, const math::Sym& scale);
    math::Sym coefficient(math::ExprId atom) const;
};

struct Range {
    math::Sym low, high;  // both are reached or not exceeded
};

class IndexAlgebra {
public:
    explicit IndexAlgebra(math::Program& p) : p_(p) {}

    // Nullopt where e is no linear form of atoms: a load of data, a product of variables, a choice.
    std::optional<Linear> linear(math::ExprId e) const;
    math::ExprId expression(const Linear& l);
    // Quotient and remainder by s > 0, rounding down; what divides evenly is taken out.
    Linear floor_div(const Linear& l, const math::Sym& s);
    Linear mod(const Linear& l, const math::Sym& s);
    // Bounds that hold wherever the index variables are in their ranges; nullopt where a sign is not known.
    std::optional<Range> range(const Linear& l) const;
    std::optional<Range> range_of_atom(math::ExprId atom) const;
    // Whether l surely lies in 0 .. extent-1.
    bool within(const Linear& l, const math::Sym& extent) const;

private:
    std::pair<Linear, Linear> split(const Linear& l, const math::Sym& s) const;  // multiples of s, and the rest
    math::Program& p_;
};

}  // namespace opwright::derive
