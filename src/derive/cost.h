// Cost of a Program in closed form over its extents: operations by class, compulsory bytes, arithmetic intensity.
#pragma once
#include <map>
#include <string>

#include "math/program.h"

namespace opwright::derive {

struct Cost {
    // Operations: a multiply-add of a sum of products counts two; reductions and scans count one a term; integer index
    // arithmetic and type conversions count nothing. An expression is counted once at the points of the loops it stands
    // in: those of its equation, or, within a reduction, of the variables which that reduction depends on and runs
    // over; what does not depend on the reduction's variables is counted outside it.
    math::Sym simple, divide, special;  // add/mul/compare/select; division and square root; exp, tanh, ...
    std::map<math::Fn, math::Sym> by_function;  // of the last two classes
    // Compulsory: every distinct element of inputs and constants that is read, once; of outputs written, once.
    math::Sym read_bytes, write_bytes;
    math::Sym flops() const;  // simple + divide + special
    math::Sym bytes() const;
};
Cost cost(const math::Program& p);
// "2*m*n*k + 3*m*n FLOPs, ...", with the values too where all extents are known.
std::string print_cost(const math::Program& p, const Cost& c);

}  // namespace opwright::derive
