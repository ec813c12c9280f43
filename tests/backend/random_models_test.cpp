// Random models (verify/random_model): fused and not, on one thread and two, on each vector unit, against the reference
// and against each other. OPWRIGHT_RANDOM asks for that many of each part, OPWRIGHT_RANDOM_SEED for others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "lang/library.h"
#include "loop_faults.h"
#include "runtime/thread_pool.h"
#include "verify/cpu_target.h"
#include "verify/operator.h"
#include "verify/random_model_check.h"

namespace opwright::verify {
namespace {

uint64_t asked(const char* variable, uint64_t otherwise) {
    const char* s = std::getenv(variable);
    return s ? std::strtoull(s, nullptr, 10) : otherwise;
}

// In parts, so that they run side by side.
class RandomModelsPart : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomModelsPart, RunOnTheCpu) {
    const uint64_t count = asked("OPWRIGHT_RANDOM", 30);
    const uint64_t first = asked("OPWRIGHT_RANDOM_SEED", 1) + GetParam() * count;
    const RandomModelReport r = check_random_models(model_options(), first, count);
    for (const RandomModelFailure& f : r.failures)
        ADD_FAILURE() << "seed " << f.seed << ": " << f.wrong << "\nsmallest: " << f.smallest_wrong << "\n"
                      << described(f.smallest.bytes);
    std::printf("%s", r.str().c_str());
    EXPECT_EQ(r.refused, 0u) << r.str();
    EXPECT_LT(r.all.ill, r.all.outputs / 5);  // else it says nothing
    if (count >= 10) EXPECT_LT(r.all.launched, 2 * r.all.unfused / 3) << "hardly anything was fused";
}
INSTANTIATE_TEST_SUITE_P(Of8, RandomModelsPart, testing::Range<uint64_t>(0, 8));

int64_t nodes(const RandomModel& m) {
    const std::string text = described(m.bytes);
    return std::count(text.begin(), text.end(), '(');
}

// The check can fail: every fold starts from a wrong value.
TEST(RandomModels, AFaultInTheLoopsIsCaughtAndItsModelMadeSmall) {
    CompileOptions o;
    size_t planted = 0;
    o.execution.cpu.edit = [&](loop::Program& p) { planted += loop::start_folds_elsewhere(p); };
    const RandomModelReport r = check_random_models(model_options(o), 1, 12, 3, 5);
    ASSERT_GT(planted, 0u);
    ASSERT_EQ(r.failures.size(), 3u) << r.str();
    for (const RandomModelFailure& f : r.failures) {
        EXPECT_NE(f.wrong, "");
        EXPECT_NE(f.smallest_wrong, "");
        EXPECT_LE(nodes(f.smallest), 3) << described(f.smallest.bytes);
        EXPECT_GT(nodes(random_model(f.seed)), 3);
    }
}

// What is not needed for a failure goes: here a model fails because it has a softmax.
TEST(RandomModels, SmallerKeepsWhatFails) {
    const auto fails = [](const RandomModel& m) { return described(m.bytes).find(" = Softmax(") != std::string::npos; };
    int made_small = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        const RandomModel m = random_model(seed);
        if (!fails(m)) continue;
        const RandomModel s = smaller(m, fails, 10);
        ASSERT_TRUE(fails(s));
        EXPECT_EQ(s.inputs.size(), 1u);
        EXPECT_EQ(nodes(s), 1) << described(s.bytes);
        EXPECT_EQ(check_model(s, model_options()(seed), seed).wrong, "") << described(s.bytes);
        if (++made_small == 5) break;
    }
    EXPECT_EQ(made_small, 5);
}

// What random models found, as an operator: a 1x1 convolution of bf16 on a picture turned round packs rows of several variables
// by words (seed 8207: the compiler ended in an exception).
TEST(FoundByRandomModels, WordsOfAPictureTurnedRound) {
    lang::Library library;
    const Status read = library.add(std::make_shared<const Source>(Source{"found.op", R"(
op found(x: bf16[n,d,h,w], k: bf16[m,d]) -> y: bf16[n,m,w,h]:
    y[b,o,i,j] = cast(sum[c](cast(x[b,c,j,i], f32) * cast(k[o,c], f32)), bf16)
    example x = bf16[5,16,5,5], k = bf16[16,16]
)"}));
    ASSERT_TRUE(read.ok()) << render(read.error());
    runtime::ThreadPool pool(2);
    OperatorOptions o;
    o.types = {DType::BF16};
    const Report r = check_operator(library, "found", cpu_target({.cache = false}, pool), o);
    EXPECT_TRUE(r.passed()) << r.str();
}

}  // namespace
}  // namespace opwright::verify
