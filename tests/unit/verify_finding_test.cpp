// A failure is made small, and what is said of it is true.
#include "verify/finding.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "derive/bounded.h"
#include "verify/contract.h"
#include "verify/diagnose.h"
#include "verify_test_util.h"

namespace opwright::verify {
namespace {
using namespace test;
using testing::Contains;
using testing::HasSubstr;
using Outputs = std::vector<Tensor>;

Failure failure(const Program& p, const Compile& target, const CheckOptions& o = {}) {
    const Report r = check_program(p, target, o);
    EXPECT_FALSE(r.passed());
    EXPECT_TRUE(r.failure);
    return *r.failure;
}

TEST(VerifyShrink, ExtentsBecomeTheSmallestThatFail) {
    const Compile tail = spoilt([](auto&, const SymValues& s, auto&, Outputs& y) {
        if (s.at("m") >= 2 && s.at("n") % 8 == 3 && y[0].size()) y[0].set(y[0].size() - 1, 9.0);
    });
    const Shrunk s = shrink(failure(row_weights(), tail));
    EXPECT_EQ(s.failure.c.sizes, (SymValues{{"m", 2}, {"n", 3}}));
    EXPECT_TRUE(s.finished);
    EXPECT_GT(s.runs, 3);
    EXPECT_FALSE(s.failure.report.passed());
    // Values that do not matter are gone.
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(s.failure.c.inputs[0].get(i), 0) << i;
}

TEST(VerifyShrink, TheValueThatMattersStays) {
    const Compile swallows = spoilt([](auto&, auto&, const std::vector<Tensor>& x, Outputs& y) {
        for (int64_t i = 0; i < y[0].size(); ++i)
            if (std::isnan(x[0].get(i))) y[0].set(i, 0.0);
    });
    const Shrunk s = shrink(failure(negation(), swallows));
    EXPECT_EQ(s.failure.c.sizes.at("n"), 1);
    EXPECT_TRUE(std::isnan(s.failure.c.inputs[0].get(0)));
}

TEST(VerifyShrink, AnotherKindOfFailureIsNotFollowed) {
    // Beyond 20 elements it writes outside; a wrong result is another fault.
    const Compile both = spoilt([](auto&, const SymValues& s, auto&, Outputs& y) {
        if (s.at("n") > 20) static_cast<char*>(y[0].data())[y[0].bytes()] = 0;
        if (s.at("n") == 3) y[0].set(0, 77.0);
    });
    const Program p = negation();
    const auto kernel = both(p);
    Case c{{{"n", 40}}, make_inputs(p, {{"n", 40}}, Pattern::Random, 1), {}, Pattern::Random, 1};
    const CaseReport r = run_case(p, *kernel, c);
    ASSERT_EQ(r.outcome, Outcome::WroteOutside);
    const Shrunk s = shrink({std::make_shared<const Program>(p), *kernel, c, r, {}, {}});
    EXPECT_EQ(s.failure.c.sizes.at("n"), 21);
    EXPECT_EQ(s.failure.report.outcome, Outcome::WroteOutside);
}

TEST(VerifyShrink, RangesAndTheBudgetHold) {
    const Compile wrong = spoilt([](auto&, const SymValues& s, auto&, Outputs& y) {
        if (s.at("n") >= 2) y[0].set(1, 1e9);
    });
    const Program p = negation();
    const Report r = check_program(p, wrong, {}, {}, {Range{3, 5}});
    const Shrunk s = shrink(*r.failure);
    EXPECT_EQ(s.failure.c.sizes.at("n"), 2);
    for (int64_t i = 0; i < 2; ++i) {
        EXPECT_GE(s.failure.c.inputs[0].get(i), 3);
        EXPECT_LT(s.failure.c.inputs[0].get(i), 5);
    }
    const Shrunk none = shrink(*r.failure, {.runs = 0});
    EXPECT_EQ(none.runs, 0);
    EXPECT_FALSE(none.finished);
}

TEST(VerifyDiagnose, ElementsThatNobodyWrote) {
    const Compile forgets = [](const Program& p) -> Result<Compiled> {
        return Compiled([&p](const SymValues& s, const std::vector<Tensor>& in, Outputs& out) -> Status {
            OPW_TRY(auto r, derive::reference(p, in, s));
            for (int64_t i = 0; i + 3 < out[0].size(); ++i) out[0].set(i, r[0].value.get(i));
            return ok_status();
        });
    };
    const auto e = diagnose(failure(negation(), forgets, {.patterns = {Pattern::Random}}));
    EXPECT_THAT(e, Contains(HasSubstr("never written")));
}

TEST(VerifyDiagnose, ReadsOutsideAnInput) {
    const Compile reads = spoilt([](auto&, auto&, const std::vector<Tensor>& x, Outputs& y) {
        float behind;
        std::memcpy(&behind, static_cast<const char*>(x[0].data()) + x[0].bytes(), 4);
        if (y[0].size() > 2) y[0].set(2, behind);
    });
    const auto e = diagnose(failure(negation(), reads, {.patterns = {Pattern::Random}}));
    EXPECT_THAT(e, Contains(HasSubstr("reads outside x")));
}

TEST(VerifyDiagnose, RunsThatDiffer) {
    int turn = 0;
    const Compile races = spoilt([&](auto&, auto&, auto&, Outputs& y) {
        if (y[0].size()) y[0].set(0, ++turn);
    });
    EXPECT_THAT(diagnose(failure(negation(), races, {.patterns = {Pattern::Random}})),
                Contains(HasSubstr("Two runs on the same values differ")));
}

TEST(VerifyDiagnose, NarrowArithmetic) {
    const Compile narrow = spoilt([](auto&, const SymValues& s, const std::vector<Tensor>& x, Outputs& y) {
        for (int64_t i = 0; i < s.at("m"); ++i) {
            double sum = 0;
            for (int64_t j = 0; j < s.at("n"); ++j)
                sum = derive::round_to(sum + std::exp(x[0].get(i * s.at("n") + j)), DType::F16);
            for (int64_t j = 0; j < s.at("n"); ++j)
                y[0].set(i * s.at("n") + j, std::exp(x[0].get(i * s.at("n") + j)) / sum);
        }
    });
    const Failure f = failure(row_weights(), narrow, {.patterns = {Pattern::Random}});
    EXPECT_THAT(diagnose(f), Contains(HasSubstr("within what arithmetic in f16 would show")));
}

// A subject that ignores strides.
class Dense final : public Subject {
public:
    Status run(const SymValues&, std::span<const View> in, std::span<const View> out) override {
        const auto* x = reinterpret_cast<const float*>(in[0].data);
        auto* y = reinterpret_cast<float*>(out[0].data);
        for (int64_t i = 0; i < in[0].size(); ++i) y[i] = -x[i];
        return ok_status();
    }
    std::vector<Layout> layouts() const override { return {Layout::Contiguous, Layout::Sliced}; }
};
TEST(VerifyDiagnose, LayoutsThatAreNotFollowed) {
    const Compile dense = [](const Program&) -> Result<Compiled> { return Compiled(std::make_shared<Dense>()); };
    const Finding f = investigate(failure(negation(), dense), nullptr);
    EXPECT_EQ(layouts_text(*f.failure.program, f.failure.c), "x sliced");
    EXPECT_THAT(f.evidence, Contains(HasSubstr("fails only where x is sliced")));
    EXPECT_EQ(f.failure.c.sizes.at("n"), 2);
}

TEST(VerifyStages, TheFirstThatDiffersIsNamed) {
    const Program p = row_weights();
    const std::vector<Stage> all = stages(p);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[1].name, "s");
    EXPECT_THAT(all[1].equations, Contains("s[i] = sum[j](e[i,j])"));
    for (const Stage& s : all) EXPECT_TRUE(math::verify(s.program).empty()) << s.name;

    const Case c{
        {{"m", 2}, {"n", 3}}, make_inputs(p, {{"m", 2}, {"n", 3}}, Pattern::Random, 1), {}, Pattern::Random, 1};
    const auto spoil_tensor = [](const char* which, bool alone) {
        return spoilt([=](const Program& q, auto&, auto&, Outputs& y) {
            if (alone != (q.outputs.size() == 1)) return;
            for (size_t o = 0; o < q.outputs.size(); ++o)
                if (q.tensors[q.outputs[o]].name == which) y[o].set(0, 1e9);
        });
    };
    EXPECT_THAT(compare_stages(p, spoil_tensor("s", true), c).summary,
                HasSubstr("s is the first stage that differs, and it differs alone"));
    EXPECT_THAT(compare_stages(p, spoil_tensor("e", false), c).summary,
                HasSubstr("e is the first stage that differs, and only where"));
    EXPECT_THAT(compare_stages(p, spoilt(nullptr), c).summary, HasSubstr("each stage alone is right"));
    EXPECT_THAT(behind(p, c, 0, {1, 2}), HasSubstr("s[1] = "));
    EXPECT_THAT(behind(p, c, 0, {1, 2}), HasSubstr("e[1, 2] = "));
}

TEST(VerifyFinding, TheReportNamesCaseElementAndEquation) {
    const Compile wrong = spoilt([](const Program& q, const SymValues& s, auto&, Outputs& y) {
        if (q.name == "row_weights" && s.at("n") >= 3 && y[0].size()) y[0].set(2, 7.0);
    });
    const Report r = check_program(row_weights(), wrong, {});
    const std::string report = text(r, "a test");
    EXPECT_THAT(report, HasSubstr("FAILED"));
    EXPECT_THAT(report, HasSubstr("sums and products accumulate in f32, in any order"));
    const std::string t = text(investigate(*r.failure, wrong));
    EXPECT_THAT(t, HasSubstr("smallest   x = f32[1,3]"));
    EXPECT_THAT(t, HasSubstr("x = 0 0 0"));
    EXPECT_THAT(t, HasSubstr("the first at [0, 2]: expected 0.333333"));
    EXPECT_THAT(t, HasSubstr("equation   y[i,j] = e[i,j] / s[i]"));
    EXPECT_THAT(t, HasSubstr("s[0] = 3"));
    EXPECT_THAT(t, HasSubstr("at 2 in dim 1 (of 3)"));
}

TEST(VerifyContract, SaysWhatOccurs) {
    EXPECT_THAT(contract(row_weights()), HasSubstr("f32 arithmetic; sums and products accumulate in f32"));
    EXPECT_THAT(contract(negation()), testing::Not(HasSubstr("accumulate")));
    EXPECT_THAT(contract(negation()), HasSubstr("subnormals are kept"));
}

}  // namespace
}  // namespace opwright::verify
