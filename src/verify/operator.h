// Checks an operator of the library on a target: over its examples, element types, sizes and patterns of values.
#pragma once
#include "lang/library.h"
#include "verify/check.h"

namespace opwright::verify {

struct OperatorOptions {
    CheckOptions check;
    // Types that stand in for the examples' float type; those the declaration refuses are left out. The first example
    // as it is stated gets all sizes and patterns, the others every third.
    std::vector<DType> types = {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32,
                                DType::I8,  DType::U8,  DType::I64, DType::Bool};
    std::optional<DType> only;  // this type in place of the examples' float type, and no other
    // Types that stand in for the first argument's type in examples that hold no float; none: such examples keep
    // theirs.
    std::vector<DType> integer_types;
};

// An operator of the library: every example as it stands; then with every extent that differs from 1 replaced by a
// symbol (equal extents by one), compiled once and run at edge sizes, for each type.
Report check_operator(const lang::Library& library, const std::string& op, const Compile& target,
                      const OperatorOptions& o = {});
// For subjects that want to know the attributes that are stated. An operator without examples gives an empty one.
using CompileFor = std::function<Compile(const lang::Example&)>;
Report check_operator(const lang::Library& library, const std::string& op, const CompileFor& target,
                      const OperatorOptions& o);

}  // namespace opwright::verify
