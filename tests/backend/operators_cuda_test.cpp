// Every operator of the library on the CUDA target, its kernels run by the emulation on the CPU, against the fp64
// reference: examples, element types, sizes around the edges of warps and tiles, special values. One test an operator.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "cuda_emulated.h"
#include "verify/operator.h"

namespace opwright::verify {
namespace {

OperatorOptions options(bool recording) {
    OperatorOptions o;
    const char* mode = std::getenv("OPWRIGHT_CHECK");
    const bool thorough = mode && std::string_view(mode) == "thorough";
    o.check.sizes.count = thorough ? 16 : 5;
    o.check.sizes.max_work = 1 << 14;
    if (!thorough) o.types = {DType::F32, DType::BF16, DType::I32};
    if (recording) o.check.patterns = {Pattern::Random};
    return o;
}

// The names to test; OPWRIGHT_OPERATORS may list some alone, separated by commas.
std::vector<std::string> names() {
    const char* some = std::getenv("OPWRIGHT_OPERATORS");
    std::vector<std::string> r;
    for (const std::string& n : lang::Library::standard().names())
        if (!some || ("," + std::string(some) + ",").find("," + n + ",") != std::string::npos) r.push_back(n);
    return r;
}

EmulatedCuda& kernels() {
    static EmulatedCuda* all = [] {
        auto* e = new EmulatedCuda;
        for (const std::string& n : names()) check_operator(lang::Library::standard(), n, e->recorder(), options(true));
        const Status s = e->build();
        EXPECT_TRUE(s.ok()) << s.error().message;
        return e;
    }();
    return *all;
}

class OperatorsOnCuda : public testing::TestWithParam<std::string> {};

TEST_P(OperatorsOnCuda, MatchTheReference) {
    const Report r = check_operator(lang::Library::standard(), GetParam(), kernels().target(), options(false));
    EXPECT_TRUE(r.passed()) << r.str();
    for (const CaseReport& c : r.failures) ADD_FAILURE() << c.arguments << ", " << name(c.pattern) << ": " << c.message;
    if (std::getenv("OPWRIGHT_CHECK")) std::printf("%s\n", r.str().c_str());
}

INSTANTIATE_TEST_SUITE_P(Library, OperatorsOnCuda, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace opwright::verify
