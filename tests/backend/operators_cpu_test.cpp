// Every operator of the library on the CPU target against the fp64 reference, with every vector unit that this machine
// has: all examples, element types, sizes around the tile edges and special values. One test an operator and unit;
// OPWRIGHT_CHECK=thorough runs many more cases of each.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "runtime/thread_pool.h"
#include "target/cpu/features.h"
#include "verify/cpu_target.h"
#include "verify/operator.h"

namespace opwright::verify {
namespace {

std::vector<std::string> units() {
    std::vector<std::string> r;
    for (target::cpu::Level l : target::cpu::kLevels)
        if (target::cpu::features_at(l)) r.emplace_back(target::cpu::name(l));
    return r;
}

// The widest unit gets everything. Of narrower ones, what depends on the unit is checked: tails, conversions, functions
// without an instruction.
OperatorOptions options(bool widest) {
    OperatorOptions o;
    const char* mode = std::getenv("OPWRIGHT_CHECK");
    const bool thorough = mode && std::string_view(mode) == "thorough";
    o.check.sizes.count = thorough ? 40 : widest ? 10 : 4;
    o.check.sizes.max_work = thorough ? 1 << 20 : widest ? 1 << 14 : 1 << 12;
    if (widest || thorough)
        o.integer_types = {DType::I32, DType::I8,  DType::U8,  DType::I64, DType::I16,
                           DType::U16, DType::U32, DType::U64, DType::Bool};
    else
        o.types = {DType::F32, DType::F16, DType::I32, DType::U8};
    return o;
}

class OperatorsOnCpu : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(OperatorsOnCpu, MatchTheReference) {
    static runtime::ThreadPool pool(2);
    const auto& [unit, op] = GetParam();
    const Report r = check_operator(lang::Library::standard(), op, cpu_target({.level = unit, .cache = false}, pool),
                                    options(unit == units().back()));
    EXPECT_TRUE(r.passed()) << r.str();
    for (const CaseReport& c : r.failures) ADD_FAILURE() << c.arguments << ", " << name(c.pattern) << ": " << c.message;
    if (std::getenv("OPWRIGHT_CHECK")) std::printf("%s\n", r.str().c_str());
}

INSTANTIATE_TEST_SUITE_P(Library, OperatorsOnCpu,
                         testing::Combine(testing::ValuesIn(units()),
                                          testing::ValuesIn(lang::Library::standard().names())),
                         [](const auto& info) { return std::get<0>(info.param) + "_" + std::get<1>(info.param); });

}  // namespace
}  // namespace opwright::verify
