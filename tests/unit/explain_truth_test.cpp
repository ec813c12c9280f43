// Known slowness, planted: the evidence of the kernel names the cause, whatever the clock says. How well the estimated
// gains agree with the clock is measured by bench/truth.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "explain/profile.h"
#include "lang/library.h"
#include "operator.h"
#include "runtime/thread_pool.h"

namespace opwright::explain {
namespace {
using testing::HasSubstr;

Tensor filled(Shape s, float value = 0.5f) {
    Tensor t(DType::F32, std::move(s));
    for (int64_t i = 0; i < t.size(); ++i) t.as<float>()[i] = value;
    return t;
}

struct Planted {
    Profile profile;
    const Row& row() const { return profile.rows.at(0); }
    std::string text(Cause c) const {
        for (const Change& x : row().changes)
            if (x.cause == c) return x.what;
        return "(no such change)";
    }
};

// The profile of operator `f`, its first row judged as if it had taken `times` its floor and 100 us.
Planted planted(const std::string& source, const std::vector<Tensor>& inputs, double times, CompileOptions options = {}, int threads = 1) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<Source>(Source{"test", source})).ok());
    auto pool = std::make_shared<runtime::ThreadPool>(threads);
    const auto op = Operator::make(library, "f", {}, options, pool);
    EXPECT_TRUE(op.ok());
    const auto v = (*op)->version(inputs);
    EXPECT_TRUE(v.ok()) << (v.ok() ? "" : v.error().message);
    Machine m;
    m.threads = threads;
    m.flops_f32 = 50e9 * threads;
    m.copies = {{1e5, 50e9}, {1e9, 10e9}};
    m.dispatch_seconds = 1e-6;
    auto p = explain::profile(*v->compiled, v->arguments, m, *pool, {.warmup = 1, .repeats = 1});
    EXPECT_TRUE(p.ok());
    Planted r{*std::move(p)};
    Row& row = r.profile.rows.at(0);
    row.min_seconds = row.seconds = times * row.floor() + 100e-6;
    row.evidence.one_thread = threads > 1 ? row.min_seconds : 0;
    row.evidence.functions.clear();  // their cost is measured on the machine that the test happens to run on
    row.parts = attribute(row, r.profile);
    row.changes = changes(row, r.profile);
    row.advice = advise(row, r.profile);
    return r;
}

double part(const Row& r, Cause c) {
    double s = 0;
    for (const Part& p : r.parts)
        if (p.cause == c) s += p.seconds;
    return s;
}

TEST(Truth, AStridedRead) {
    const Planted p = planted("op f(x[n,m]) -> y[n]:\n    y[n] = x[n, 0] * 2\n", {filled({4096, 16})}, 12);
    ASSERT_FALSE(p.row().changes.empty());
    EXPECT_EQ(p.row().changes[0].cause, Cause::Strides);
    EXPECT_THAT(p.text(Cause::Strides), HasSubstr("'x' is read in steps of 16 elements along n"));
    EXPECT_THAT(p.text(Cause::Strides), HasSubstr("262 kB of cache lines for 16.4 kB that are wanted"));
    // 64 bytes for each 4: the model of it, before what is left over is added.
    EXPECT_GE(part(p.row(), Cause::Strides), (262144 - 16384) / 50e9);
    EXPECT_THAT(p.row().advice, HasSubstr("reads that are not side by side"));
}

TEST(Truth, ReadsSideBySideAreNotBlamed) {
    const Planted p = planted("op f(x[n,m]) -> y[n,m]:\n    y[n,m] = x[n,m] * 2\n", {filled({4096, 16})}, 12);
    EXPECT_EQ(part(p.row(), Cause::Strides), 0);
    EXPECT_EQ(part(p.row(), Cause::Scalar), 0);
    EXPECT_GT(part(p.row(), Cause::Unknown), 0);
}

TEST(Truth, PlacesThatAreData) {
    Tensor at(DType::I64, {1000});
    for (int64_t i = 0; i < 1000; ++i) at.as<int64_t>()[i] = i * 37 % 1000;
    const Planted p = planted("op f(x[m], i: i64[n]) -> y[n]:\n    y[n] = x[i[n]]\n", {filled({1000}), at}, 12);
    EXPECT_THAT(p.text(Cause::Strides), HasSubstr("'x' is read at places that are data"));
}

TEST(Truth, AMissingVectorisation) {
    CompileOptions options;
    options.execution.keep_text = true;
    options.execution.cpu.cache = false;
    const std::string source = "op f(x[n]) -> y[n]:\n    y[n] = x[n] * x[n] + 1\n";
    const std::vector<Tensor> inputs{filled({5000})};
    // The default schedule, with one element at a time in place of vectors.
    lang::Library library;
    ASSERT_TRUE(library.add(std::make_shared<Source>(Source{"test", source})).ok());
    auto pool = std::make_shared<runtime::ThreadPool>(1);
    const auto op = Operator::make(library, "f", {}, options, pool);
    const auto v = (*op)->version(inputs);
    ASSERT_TRUE(v.ok());
    auto schedule = nlohmann::json::parse(v->compiled->executable->kernel(0)->text("schedule-json"));
    for (auto& nest : schedule["nests"])
        for (auto& e : nest["equations"])
            for (const char* field : {"lane", "lanes", "unroll"}) e.erase(field);
    options.execution.cpu.schedule = schedule.dump();

    const Planted slow = planted(source, inputs, 12, options);
    ASSERT_FALSE(slow.row().changes.empty());
    EXPECT_EQ(slow.row().changes[0].cause, Cause::Scalar);
    EXPECT_THAT(slow.text(Cause::Scalar), HasSubstr("'y' is computed one element at a time, where vectors of this processor hold"));
    EXPECT_EQ(part(planted(source, inputs, 12).row(), Cause::Scalar), 0);
}

TEST(Truth, ALayoutConversion) {
    const Planted p = planted("op f(x[n,c,h]) -> y[n,h,c]:\n    y[n,h,c] = x[n,c,h]\n", {filled({4, 32, 500})}, 3);
    ASSERT_FALSE(p.row().changes.empty());
    EXPECT_EQ(p.row().changes[0].cause, Cause::Conversion);
    EXPECT_DOUBLE_EQ(p.row().changes[0].seconds, p.row().min_seconds) << "all of it would go";
    EXPECT_THAT(p.row().advice, HasSubstr("Computes nothing"));
    // A part of a tensor, or one that something is done to, is no conversion.
    EXPECT_FALSE(planted("op f(x[n,m]) -> y[m]:\n    y[m] = x[0,m]\n", {filled({4, 32})}, 3).row().evidence.conversion);
    EXPECT_FALSE(planted("op f(x[n,m]) -> y[n,m]:\n    y[n,m] = x[n,m]\n", {filled({4, 32})}, 3).row().evidence.conversion);
    EXPECT_FALSE(planted("op f(x[n,m]) -> y[m,n]:\n    y[m,n] = x[n,m] + 1\n", {filled({4, 32})}, 3).row().evidence.conversion);
}

TEST(Truth, AOneThreadLoop) {
    const Planted p = planted("op f(x[n]) -> y[]:\n    y[] = sum[n](x[n])\n", {filled({1 << 18})}, 8, {}, 2);
    EXPECT_GT(part(p.row(), Cause::Threads), 0.4 * p.row().min_seconds);
    EXPECT_THAT(p.text(Cause::Threads), HasSubstr("because the work is 1 task"));
}

TEST(Truth, WhatIsSharedWithNobodyIsNotChargedForSharing) {
    // Many tasks, and less time than handing them out takes on this machine: its floor is no more than its time.
    const auto op = Operator::make(lang::Library::standard(), "relu", {}, {}, std::make_shared<runtime::ThreadPool>(2));
    ASSERT_TRUE(op.ok());
    const auto v = (*op)->version({filled({64, 64})});
    ASSERT_TRUE(v.ok());
    Machine m;
    m.threads = 2, m.flops_f32 = 1e15, m.copies = {{1e5, 1e15}};
    m.dispatch_seconds = 1;
    runtime::ThreadPool pool(2);
    const auto p = explain::profile(*v->compiled, v->arguments, m, pool, {.warmup = 1, .repeats = 1});
    ASSERT_TRUE(p.ok());
    EXPECT_EQ(p->rows.at(0).floor_launch, p->call_seconds);
}

TEST(Truth, TooSmallAKernel) {
    Planted p = planted("op f(x[n]) -> y[n]:\n    y[n] = x[n] + 1\n", {filled({16})}, 1);
    Row& r = p.profile.rows[0];
    EXPECT_EQ(r.floor_launch, p.profile.call_seconds) << "one task is handed to nobody";
    EXPECT_GT(p.profile.call_seconds, 0);
    r.floor_launch = 1e-6;
    r.min_seconds = r.seconds = 1.5e-6;
    r.parts = attribute(r, p.profile);
    r.changes = changes(r, p.profile);
    ASSERT_FALSE(r.changes.empty());
    EXPECT_EQ(r.changes[0].cause, Cause::Start);
    EXPECT_NEAR(r.changes[0].seconds, 1.5e-6, 0.1e-6);
    EXPECT_THAT(r.changes[0].what, HasSubstr("larger inputs (a batch)"));
}

TEST(Truth, AnUnfusedChain) {
    Planted p = planted("op f(x[n]) -> y[n]:\n    y[n] = x[n] + 1\n", {filled({1 << 20})}, 1.1);
    Profile& profile = p.profile;
    Row& r = profile.rows[0];
    profile.candidates = {{"f", "g", "y", "fusion is switched off", false, 2.0 * 4 * (1 << 20)},
                          {"other", "g", "z", "not of this row", false, 1e12}};
    r.sources = {{"f", "Add"}};
    r.changes = changes(r, profile);
    ASSERT_FALSE(r.changes.empty());
    EXPECT_EQ(r.changes[0].cause, Cause::Fusion);
    EXPECT_NEAR(r.changes[0].seconds, 8.4e6 / 10e9 + 1e-6, 2e-5) << "the traffic of the value between, and one start";
    EXPECT_THAT(r.changes[0].what, HasSubstr("fusing f into g would save 8.39 MB"));
}

}  // namespace
}  // namespace opwright::explain
