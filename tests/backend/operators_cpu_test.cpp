// Every operator of the library on the CPU target against the fp64 reference: all examples, element types, sizes around
// the tile edges and special values. One test an operator; OPWRIGHT_CHECK=thorough runs many more cases of each.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "runtime/thread_pool.h"
#include "verify/cpu_target.h"
#include "verify/operator.h"

namespace opwright::verify {
namespace {

OperatorOptions options() {
    OperatorOptions o;
    const char* mode = std::getenv("OPWRIGHT_CHECK");
    const bool thorough = mode && std::string_view(mode) == "thorough";
    o.check.sizes.count = thorough ? 40 : 10;
    o.check.sizes.max_work = thorough ? 1 << 20 : 1 << 14;
    return o;
}

class OperatorsOnCpu : public testing::TestWithParam<std::string> {};

TEST_P(OperatorsOnCpu, MatchTheReference) {
    static runtime::ThreadPool pool(2);
    const Report r =
        check_operator(lang::Library::standard(), GetParam(), cpu_target({.cache = false}, pool), options());
    EXPECT_TRUE(r.passed()) << r.str();
    for (const CaseReport& c : r.failures) ADD_FAILURE() << c.arguments << ", " << name(c.pattern) << ": " << c.message;
    if (std::getenv("OPWRIGHT_CHECK")) std::printf("%s\n", r.str().c_str());
}

INSTANTIATE_TEST_SUITE_P(Library, OperatorsOnCpu, testing::ValuesIn(lang::Library::standard().names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace opwright::verify
