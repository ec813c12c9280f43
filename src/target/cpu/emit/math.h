// Math functions in terms of the loop IR's arithmetic: polynomials after a reduction of the argument, the same for
// scalars and vectors, so that a tail gives what the body gives. docs/numerics.md states the error bounds, which
// tests/unit/target_cpu_math_test.cpp measures.
#pragma once
#include <string>

#include "loop/builder.h"
#include "target/cpu/features.h"

namespace opwright::target::cpu {

// How to compute a function: `value` where `valid` is true (everywhere when it is none). The other lanes, or all when there
// is no value, by calling `c_function` of the C library; without one, all lanes by the plain instruction where `valid` is not
// true on all of them. Nothing set: a plain instruction does it.
struct MathPlan {
    loop::Expr value, valid;
    std::string c_function;
};

MathPlan plan_math(loop::UnaryFn f, loop::Expr x, const Features& features);
MathPlan plan_math(loop::BinaryFn f, loop::Expr x, loop::Expr y, const Features& features);

}  // namespace opwright::target::cpu
