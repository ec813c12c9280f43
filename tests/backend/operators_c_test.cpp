// Every operator of the library on target c against the fp64 reference, at a few sizes: it is the shortest target, and
// what C-family targets share is tested here. OPWRIGHT_CHECK=thorough takes all types and many sizes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "verify/operator.h"
#include "verify/source_target.h"

namespace opwright::verify {
namespace {

class OperatorsInC : public testing::TestWithParam<std::string> {};

TEST_P(OperatorsInC, MatchTheReference) {
    const auto c = target::find_target("c");
    ASSERT_TRUE(c.ok());
    ASSERT_EQ((*c)->cannot_run(), "");
    OperatorOptions o;
    const char* mode = std::getenv("OPWRIGHT_CHECK");
    if (!mode || std::string_view(mode) != "thorough") {
        o.check.sizes.count = 4;
        o.check.sizes.max_work = 1 << 13;
        o.types = {DType::F32};
    }
    const Report r = check_operator(lang::Library::standard(), GetParam(), source_target(**c), o);
    EXPECT_TRUE(r.passed()) << r.str();
    EXPECT_EQ(r.refused, 0) << r.str();
}

INSTANTIATE_TEST_SUITE_P(Library, OperatorsInC, testing::ValuesIn(lang::Library::standard().names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace opwright::verify
