// The scalar functions in CUDA C++, with exactly the meaning of math/functions.h, and the small library of helpers that
// a generated file carries: only those that it uses.
#pragma once
#include <set>
#include <span>
#include <string>
#include <vector>

#include "math/functions.h"
#include "target/cuda/text.h"

namespace opwright::target::cuda {

// Helpers used so far; text() is their definitions, each after those it needs.
class Helpers {
public:
    // Marks the helper of this name (and what it needs) as used; returns the name.
    const std::string& use(const std::string& name);
    static std::vector<std::string> names();  // of all helpers, and of what they define
    // `emulated`: without what tests/backend/cuda_emulation.h defines in place of PTX.
    std::string text(bool emulated) const;

private:
    std::set<std::string> used_;
};

// f(a...) where every operand has C type c_type(t).
Operand call(math::Fn f, std::span<const Operand> a, DType t, Helpers& h);
// Saturating conversion (Cast), and the one that keeps low bits (Wrap).
Operand convert(const Operand& a, DType from, DType to, Helpers& h);
Operand wrap(const Operand& a, DType from, DType to);
Operand bitcast(const Operand& a, DType from, DType to, Helpers& h);
// Between memory and registers.
Operand from_memory(const Operand& a, DType t, Helpers& h);
Operand to_memory(const Operand& a, DType t, Helpers& h);

// a (op) b of a reduction, and the value of the reduction of nothing; not for the arg forms.
Operand combine(math::ReduceOp op, const Operand& a, const Operand& b, DType t, Helpers& h);
std::string identity_text(math::ReduceOp op, DType t);

}  // namespace opwright::target::cuda
