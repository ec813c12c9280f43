// Advice says what the evidence shows: each cause planted, alone, in a row whose figures are known.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "explain/profile.h"
#include "lang/library.h"
#include "operator.h"
#include "runtime/thread_pool.h"

namespace opwright::explain {
namespace {
using testing::HasSubstr;
using testing::Not;

// 100 GFLOP/s, 10 GB/s, on one thread unless said; starting a kernel costs 1 us.
Profile machine(int threads = 1) {
    Profile p;
    p.machine.threads = p.threads = threads;
    p.machine.flops_f32 = 100e9 * threads;
    p.machine.copies = {{1e6, 100e9}, {1e9, 10e9}};
    p.machine.dispatch_seconds = 1e-6;
    p.repeats = 10;
    p.seconds = p.min_seconds = 0.1;
    return p;
}

// A product whose multiply-adds take 1 ms at the peak of one thread, in register tiles without padding.
Row product(const Profile& p, double seconds) {
    Row r;
    r.name = "y";
    r.type = "MatMul";
    r.contraction = true;
    r.seconds = r.min_seconds = seconds;
    r.terms = 500;
    r.simple = 100e6;
    r.bytes = 1e6;
    r.results = 1e5;
    r.schedule = "packed contraction 6x16";
    r.floor_launch = p.machine.dispatch_seconds;
    r.floor_memory = r.bytes / 10e9;
    r.floor_arithmetic = r.flops() / p.machine.flops_f32;
    target::cpu::RegisterTile t{6, 16, 600, 1000, 500, 1};
    t.m = 200, t.n = 500;
    t.computed = t.wanted();
    r.evidence.stages = {{64, t}};
    return r;
}

double part(const std::vector<Part>& parts, Cause c) {
    for (const Part& x : parts)
        if (x.cause == c) return x.seconds;
    return 0;
}
double sum(const std::vector<Part>& parts) {
    double s = 0;
    for (const Part& x : parts) s += x.seconds;
    return s;
}
std::string advice(Row& r, const Profile& p) {
    r.parts = attribute(r, p);
    EXPECT_NEAR(sum(r.parts), r.min_seconds, 1e-9) << "the parts are the whole";
    return advise(r, p);
}

TEST(Advice, WhatNothingExplainsIsCalledSo) {
    const Profile p = machine();
    Row r = product(p, 5e-3);
    const std::string s = advice(r, p);
    EXPECT_NEAR(part(r.parts, Cause::Unknown), 4e-3, 2e-6);
    EXPECT_THAT(s, HasSubstr("4.00 ms not explained"));
    EXPECT_THAT(s, HasSubstr("with 0 % of padding"));
    EXPECT_THAT(s, Not(HasSubstr("multiples of the register tile")));
}

TEST(Advice, MoreThreadsWhereThereAreProcessors) {
    Profile p = machine();
    Row r = product(p, 1.1e-3);
    EXPECT_THAT(advice(r, p), HasSubstr("is left. Next: fewer operations"));
    p.processors = 2;
    EXPECT_THAT(advice(r, p), HasSubstr("is left. Next: more threads, or fewer operations"));
}

TEST(Advice, PaddingOfTheRegisterTile) {
    const Profile p = machine();
    Row r = product(p, 3e-3);
    r.evidence.stages[0].tile->computed = 2.5 * r.evidence.stages[0].tile->wanted();
    const std::string s = advice(r, p);
    EXPECT_NEAR(part(r.parts, Cause::Padding), 1.5e-3, 1e-6);
    EXPECT_THAT(s, HasSubstr("1.50 ms rows and columns that fill up register tiles"));
    EXPECT_THAT(s, HasSubstr("150 % of padding"));
    EXPECT_THAT(s, HasSubstr("Next: extents that are multiples of the register tile"));
}

TEST(Advice, ExpensiveEpilogue) {
    const Profile p = machine();
    Row r = product(p, 4e-3);
    r.special = 1e6;
    r.evidence.functions = {{"erf", 1e6, 2e-9}};
    const std::string s = advice(r, p);
    EXPECT_NEAR(part(r.parts, Cause::Functions), 2e-3, 1e-9);
    EXPECT_THAT(s, HasSubstr("2.00 ms 1.00 M erf"));
    EXPECT_THAT(s, HasSubstr("Next: a cheaper form of erf (GELU's form with tanh)"));
    EXPECT_THAT(s, Not(HasSubstr("multiples of the register tile")));
}

TEST(Advice, ACheaperFormIsThatOfTheFunctionThatCosts) {
    const Profile p = machine();
    Row r = product(p, 4e-3);
    r.special = 1e6;
    r.evidence.functions = {{"sin", 1e6, 2e-9}, {"erf", 10, 2e-9}};
    EXPECT_THAT(advice(r, p), HasSubstr("Next: a cheaper form of sin, where"));
    r.evidence.functions = {{"/", 1e6, 2e-9}};
    EXPECT_THAT(advice(r, p), HasSubstr("Next: multiplication with a reciprocal"));
}

TEST(Advice, AFusionGainsNoMoreThanTheLesserKernelTakes) {
    Profile p = machine();
    Candidate c;
    c.producer = "y", c.consumer = "z", c.bytes = 1e6;  // 10 us of traffic within the caches, and a start
    EXPECT_NEAR(fusion_gain(c, p), 11e-6, 1e-9);
    c.least = 2e-6;
    EXPECT_DOUBLE_EQ(fusion_gain(c, p), 2e-6);
    c.least = 1, c.start = 5e-8;  // of a kernel that is not handed to other threads
    EXPECT_NEAR(fusion_gain(c, p), 10.05e-6, 1e-9);
}

TEST(Advice, WhatIsPredictedSlowerIsNoGain) {
    Profile p = machine();
    Row r = product(p, 4e-3);
    r.sources = {{"y", "MatMul"}};
    Candidate c;
    c.producer = "y", c.consumer = "z", c.bytes = 1e6, c.reason = "predicted slower";
    c.decision.predicted_before = 1e-3, c.decision.predicted_after = 2e-3;
    p.candidates = {c};
    EXPECT_EQ(refused(r, p), nullptr);
    p.candidates[0].decision.predicted_after = 0.5e-3;
    EXPECT_NE(refused(r, p), nullptr);
}

TEST(Advice, KernelsThatAreAlikeAreToldOfOnce) {
    Profile p = machine();
    for (const double t : {3e-3, 4e-3, 3.5e-3}) p.rows.push_back(product(p, t));
    p.rows.push_back(product(p, 9e-3));
    p.rows.back().shapes = "f32[7] -> f32[7]";
    for (Row& r : p.rows) r.advice = "advice of " + std::to_string(r.min_seconds);
    const auto groups = alike(p);
    ASSERT_EQ(groups.size(), 2u);
    EXPECT_EQ(groups[0], (std::vector<size_t>{3}));  // 8 ms above its floor; the others 2, 3 and 2.5
    EXPECT_EQ(groups[1], (std::vector<size_t>{1, 2, 0}));
    const std::string s = to_text(p);
    EXPECT_THAT(s, HasSubstr("and 2 more like it: together 7.50 ms above their floors"));
    EXPECT_THAT(s, HasSubstr("advice of 0.004"));
    EXPECT_THAT(s, Not(HasSubstr("advice of 0.003")));
}

TEST(Advice, TheTableSaysWhatTakesMostOfAKernel) {
    const Profile p = machine();
    Row r = product(p, 4e-3);
    EXPECT_EQ(r.mostly(), "arithmetic");
    r.special = 1e6;
    r.evidence.functions = {{"erf", 1e6, 2e-9}};
    r.parts = attribute(r, p);
    EXPECT_EQ(r.mostly(), "functions");
}

TEST(Advice, SubnormalNumbersWhereTheyCost) {
    Profile p = machine();
    Row r = product(p, 8e-3);
    r.evidence.stages[0].tile.reset();
    r.evidence.read = 1000;
    r.evidence.subnormal = 630;
    std::string s = advice(r, p);
    EXPECT_EQ(part(r.parts, Cause::Subnormals), 0) << "this processor takes them at full speed";
    EXPECT_THAT(s, Not(HasSubstr("subnormal")));

    p.machine.assist_seconds = 1e-9;
    s = advice(r, p);
    EXPECT_GT(part(r.parts, Cause::Subnormals), 4e-3);
    EXPECT_THAT(s, HasSubstr("630 of the 1.00 k elements that it reads are subnormal"));
}

TEST(Advice, ThreadsThatWait) {
    const Profile p = machine(2);
    Row r = product(p, 2e-3);
    r.evidence.one_thread = 2e-3;  // the second thread gained nothing
    r.evidence.stages[0].tasks = 1;
    std::string s = advice(r, p);
    EXPECT_NEAR(part(r.parts, Cause::Threads), 1e-3, 2e-6);
    EXPECT_THAT(s, HasSubstr("2 threads are 1.00 times as fast as one (2.00 ms), because the work is 1 task"));

    r.evidence.stages[0].tasks = 64;
    s = advice(r, p);
    EXPECT_THAT(s, HasSubstr("though there are 64 tasks to share"));
    EXPECT_THAT(s, Not(HasSubstr("because the work is")));

    r.evidence.one_thread = 0;  // not measured: nothing is said of it
    EXPECT_THAT(advice(r, p), Not(HasSubstr("threads that wait")));
}

TEST(Advice, WorkTooSmallToShareLosesNothingByIt) {
    const Profile p = machine(2);
    Row r = product(p, 3e-6);
    r.evidence.one_thread = 3e-6;
    r.parts = attribute(r, p);
    EXPECT_EQ(part(r.parts, Cause::Threads), 0);
}

TEST(Advice, ThreadsThatShareACoreAreNotExpectedToDoubleIt) {
    const Profile p = machine(2);
    Row r = product(p, 2e-3);
    r.evidence.one_thread = 2e-3;
    r.floor_arithmetic = 2e-3;  // one thread computes as fast as both
    r.parts = attribute(r, p);
    EXPECT_EQ(part(r.parts, Cause::Threads), 0);
    r.floor_arithmetic = 1.6e-3;
    r.parts = attribute(r, p);
    EXPECT_NEAR(part(r.parts, Cause::Threads), 0.4e-3, 2e-6);
}

TEST(Advice, OtherProcessesAreNoPropertyOfTheKernel) {
    const Profile p = machine();
    Row r = product(p, 1.25e-3);
    r.seconds = 4e-3;  // the median; the least run is near the floor
    const std::string s = advice(r, p);
    EXPECT_THAT(s, HasSubstr("80 % of this machine's peak"));
    EXPECT_THAT(s, HasSubstr("Its median run took 4.00 ms: other processes or the clock, not the kernel"));
    r.seconds = r.min_seconds;
    EXPECT_THAT(advice(r, p), Not(HasSubstr("median")));
}

TEST(Advice, PackingAtLeast) {
    const Profile p = machine();
    Row r = product(p, 4e-3);
    r.evidence.stages[0].tile->packed = 25e6;  // 8 bytes each at 100 GB/s: 2 ms
    EXPECT_THAT(advice(r, p), HasSubstr("2.00 ms packing factors (at least)"));
}

// ---- evidence of real kernels

Profile measured(const std::string& source, const std::vector<Tensor>& inputs, int threads = 1) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<Source>(Source{"test", source})).ok());
    auto pool = std::make_shared<runtime::ThreadPool>(threads);
    const auto op = Operator::make(library, "f", {}, {}, pool);
    EXPECT_TRUE(op.ok());
    const auto v = (*op)->version(inputs);
    EXPECT_TRUE(v.ok());
    const auto m = measure_machine(*pool);
    EXPECT_TRUE(m.ok());
    auto p = explain::profile(*v->compiled, v->arguments, *m, *pool, {.warmup = 1, .repeats = 3});
    EXPECT_TRUE(p.ok());
    return *std::move(p);
}

Tensor filled(Shape s, float value) {
    Tensor t(DType::F32, std::move(s));
    for (int64_t i = 0; i < t.size(); ++i) t.as<float>()[i] = value;
    return t;
}

TEST(Evidence, PaddingIsThatOfTheActualExtents) {
    const Profile m = measured("op f(x[m,k], w[k,n]) -> y[m,n]:\n    y[m,n] = sum[k](x[m,k] * w[k,n])\n",
                               {filled({37, 65}, 1), filled({65, 51}, 1)});
    ASSERT_EQ(m.rows.size(), 1u);
    const auto& stages = m.rows[0].evidence.stages;
    // Of the forms that the extents choose from, packed columns and columns read where they stand, one runs.
    const auto product = std::find_if(stages.begin(), stages.end(), [](const auto& s) { return s.tile.has_value(); });
    ASSERT_NE(product, stages.end());
    const target::cpu::RegisterTile& t = *product->tile;
    EXPECT_EQ(t.m, 37);
    EXPECT_EQ(t.n, 51);
    EXPECT_EQ(t.k, 65);
    const int64_t columns = (t.n + t.columns - 1) / t.columns * t.columns;
    EXPECT_GE(t.computed, 37.0 * static_cast<double>(columns * t.k));
    EXPECT_LE(t.computed, static_cast<double>((37 + t.rows - 1) * columns * t.k));
    EXPECT_FALSE(m.rows[0].advice.empty());
}

TEST(Evidence, SubnormalsAndFunctionsAreCounted) {
    Tensor x = filled({64, 64}, 0.5f);
    for (int i = 0; i < 100; ++i) x.as<float>()[i] = 1e-40f;
    x.as<float>()[100] = 0;  // no subnormal
    const Profile m = measured("op f(x[m,n]) -> y[m,n]:\n    y[m,n] = erf(x[m,n]) / (x[m,n] + 2)\n", {x});
    const Evidence& e = m.rows.at(0).evidence;
    EXPECT_EQ(e.read, 64 * 64);
    EXPECT_EQ(e.subnormal, 100);
    ASSERT_EQ(e.functions.size(), 2u);
    for (const auto& f : e.functions) {
        EXPECT_TRUE(f.name == "erf" || f.name == "/") << f.name;
        EXPECT_EQ(f.count, 64 * 64);
        EXPECT_GT(f.seconds, 1e-12);
        EXPECT_LT(f.seconds, 1e-6);
    }
}

TEST(Evidence, OneThreadIsMeasuredBesideSeveral) {
    const Profile several = measured("op f(x[m,n]) -> y[m,n]:\n    y[m,n] = x[m,n] * 2\n", {filled({300, 300}, 1)}, 2);
    EXPECT_GT(several.rows.at(0).evidence.one_thread, 0);
    const Profile alone = measured("op f(x[m,n]) -> y[m,n]:\n    y[m,n] = x[m,n] * 2\n", {filled({300, 300}, 1)}, 1);
    EXPECT_EQ(alone.rows.at(0).evidence.one_thread, 0);
}

}  // namespace
}  // namespace opwright::explain
