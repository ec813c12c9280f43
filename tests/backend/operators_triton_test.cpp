// Every operator of the library on the Triton target against the fp64 reference, under Triton's interpreter or on the
// GPU. Sampled, so that it takes minutes; OPWRIGHT_CHECK=thorough runs many more cases of each.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "verify/operator.h"
#include "verify/source_target.h"

namespace opwright::verify {
namespace {

OperatorOptions options() {
    OperatorOptions o;
    const char* mode = std::getenv("OPWRIGHT_CHECK");
    const bool thorough = mode && std::string_view(mode) == "thorough";
    o.check.sizes.count = thorough ? 16 : 3;
    o.check.sizes.tiles = {16, 64};
    o.check.sizes.max_work = thorough ? 1 << 15 : 1 << 11;
    if (!thorough) o.check.patterns = {Pattern::Random, Pattern::Ties, Pattern::Nan, Pattern::Zeros, Pattern::Extremes};
    return o;
}

class OperatorsOnTriton : public testing::TestWithParam<std::string> {};

TEST_P(OperatorsOnTriton, MatchTheReference) {
    const auto triton = target::find_target("triton");
    ASSERT_TRUE(triton.ok());
    if (const std::string why = (*triton)->cannot_run(); !why.empty()) GTEST_SKIP() << why;
    const Report r = check_operator(lang::Library::standard(), GetParam(), source_target(**triton), options());
    EXPECT_TRUE(r.passed()) << r.str();
    for (const CaseReport& c : r.failures) ADD_FAILURE() << c.arguments << ", " << name(c.pattern) << ": " << c.message;
    if (std::getenv("OPWRIGHT_CHECK")) std::printf("%s\n", r.str().c_str());
}

INSTANTIATE_TEST_SUITE_P(Library, OperatorsOnTriton, testing::ValuesIn(lang::Library::standard().names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace opwright::verify
