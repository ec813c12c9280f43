// What must hold of extents for a graph to mean what the model does: slices "to the end" and reshapes of open extents.
#include <gtest/gtest.h>

#include <limits>

#include "graph/bind.h"
#include "graph_model_builder.h"
#include "model.h"
#include "runtime/thread_pool.h"
#include "verify/graph_reference.h"

namespace opwright::graph::onnx {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min(), kHighest = std::numeric_limits<int64_t>::max();
constexpr int64_t kLowest32 = std::numeric_limits<int32_t>::min(), kHighest32 = std::numeric_limits<int32_t>::max();

// The elements that ONNX's Slice takes of 0, 1, ..., n-1: bounds count from the end where negative, then are held in
// [0, n], or going backward in [0, n-1] and [-1, n-1].
std::vector<int64_t> expected(int64_t n, __int128 start, __int128 end, __int128 step) {
    const auto held = [&](__int128 at, __int128 low, __int128 high) {
        return std::max(low, std::min(high, at < 0 ? at + n : at));
    };
    std::vector<int64_t> r;
    if (n == 0) return r;
    if (step > 0)
        for (__int128 i = held(start, 0, n), last = held(end, 0, n); i < last; i += step)
            r.push_back(static_cast<int64_t>(i));
    else
        for (__int128 i = held(start, 0, n - 1), last = held(end, -1, n - 1); i > last; i += step)
            r.push_back(static_cast<int64_t>(i));
    return r;
}

Graph sliced(const Dim& n, DType bounds, int64_t start, int64_t end, int64_t step) {
    ModelBuilder b;
    b.input("x", DType::I64, {n});
    b.constant("start", make_tensor<int64_t>(bounds, {1}, {start}));
    b.constant("end", make_tensor<int64_t>(bounds, {1}, {end}));
    b.constant("axis", make_tensor<int64_t>(bounds, {1}, {0}));
    b.constant("step", make_tensor<int64_t>(bounds, {1}, {step}));
    b.node("Slice", {"x", "start", "end", "axis", "step"}, {"y"}).set_name("cut");
    b.output("y");
    auto r = b.import_with();
    EXPECT_TRUE(std::holds_alternative<Graph>(r)) << render(std::get<ImportFailure>(r).diagnostic);
    return std::get<Graph>(r);
}

void expect_slices(DType type, const std::vector<int64_t>& bounds, const std::vector<int64_t>& steps) {
    for (const int64_t start : bounds)
        for (const int64_t end : bounds)
            for (const int64_t step : steps) {
                const Graph open = sliced("N", type, start, end, step);
                for (const int64_t n : {0, 1, 7}) {
                    Tensor x(DType::I64, {n});
                    for (int64_t i = 0; i < n; ++i) x.set_int(i, i);
                    const auto want = expected(n, start, end, step);
                    for (const Graph& g : {open, sliced(n, type, start, end, step)}) {
                        const auto got = verify::run_reference(g, {x});
                        ASSERT_TRUE(got.ok()) << got.error().message;
                        std::vector<int64_t> elements;
                        for (int64_t i = 0; i < (*got)[0].size(); ++i) elements.push_back((*got)[0].get_int(i));
                        EXPECT_EQ(elements, want)
                            << "x[" << start << ":" << end << ":" << step << "] of " << n << " elements";
                    }
                }
            }
}

TEST(GraphRequirement, SlicesHoldTheirBoundsWithinTheDim) {
    expect_slices(
        DType::I64,
        {kLowest, kLowest + 1, kLowest32, -1'000'000'000, -9, -3, 0, 2, 7, 1'000'000'000, kHighest32, kHighest},
        {1, 3, -1, -2, kHighest, kLowest});
}
TEST(GraphRequirement, SlicesByI32Bounds) {
    expect_slices(DType::I32, {kLowest32, -1'000'000'000, -2, 5, 1'000'000'000, kHighest32},
                  {1, -1, kHighest32, kLowest32});
}

std::string refusal(const Graph& g, int64_t n) {
    const Status s = check_requirements(g, {{"N", n}});
    return s.ok() ? "" : s.error().message + " " + s.error().notes.at(0).text;
}

// A number that stands for "the end" must not cut a dim that reaches beyond it.
TEST(GraphRequirement, BoundsThatStandForTheEndAreNotReached) {
    const Graph end = sliced("N", DType::I32, 0, 1'000'000'000, 1);
    EXPECT_EQ(print(end), "graph test(x: i64[N])\n    return x: i64[N]\n");
    EXPECT_EQ(refusal(end, 1'000'000'000), "");
    EXPECT_EQ(refusal(end, 1'000'000'001),
              "The node 'cut' (Slice) takes 1000000000 for the end of a dim, which must not have more elements. "
              "The inputs given have N = 1000000001.");
    const Graph reversed = sliced("N", DType::I64, -1, kLowest32, -1);
    EXPECT_EQ(refusal(reversed, -(kLowest32 + 1)), "");
    EXPECT_EQ(refusal(reversed, -kLowest32),
              "The node 'cut' (Slice) takes -2147483648 for the start of a dim, which must not have more elements. "
              "The inputs given have N = 2147483648.");
    EXPECT_TRUE(sliced("N", DType::I64, 0, kHighest, 1).requirements.empty());     // no dim is larger
    EXPECT_TRUE(sliced("N", DType::I64, 0, 999'999'999, 1).requirements.empty());  // a bound like any other
    EXPECT_TRUE(sliced(int64_t{5}, DType::I32, 0, 1'000'000'000, 1).requirements.empty());
}

ModelBuilder reshaped() {
    ModelBuilder b;
    b.input("x", DType::F32, {"N", int64_t{5}});
    b.constant("shape", ints({-1, 3}));
    b.node("Reshape", {"x", "shape"}, {"r"}).set_name("fold");
    b.node("Neg", {"r"}, {"y"});
    b.output("y");
    return b;
}

TEST(GraphRequirement, AReshapeKeepsTheNumberOfElements) {
    const auto imported = reshaped().import_with();
    const Graph& g = std::get<Graph>(imported);
    EXPECT_EQ(refusal(g, 3), "");
    EXPECT_EQ(refusal(g, 4),
              "The node 'fold' (Reshape) sees [N, 5] as [(5*N)//3, 3], which must hold as many elements. "
              "The inputs given have N = 4.");
}

// Fusion makes the view disappear into its reader; the requirement stays.
TEST(GraphRequirement, HoldsForWhatIsCompiled) {
    const auto m = opwright::Model::parse(reshaped().bytes(), {}, std::make_shared<runtime::ThreadPool>(1));
    ASSERT_TRUE(m.ok()) << m.error().message;
    const auto run = [&](int64_t n) { return (*m)->run({{"x", Tensor(DType::F32, {n, 5})}}); };
    const auto fits = run(6);
    ASSERT_TRUE(fits.ok()) << fits.error().message;
    EXPECT_EQ((*fits)[0].shape(), (Shape{10, 3}));
    const auto breaks = run(7);
    ASSERT_FALSE(breaks.ok());
    EXPECT_EQ(breaks.error().message,
              "The node 'fold' (Reshape) sees [N, 5] as [(5*N)//3, 3], which must hold as many elements.");
}

// Where both sides name the same extents nothing is asked at run time.
TEST(GraphRequirement, WhatIsProvedIsNotAsked) {
    ModelBuilder b;
    b.input("x", DType::F32, {"N", int64_t{4}, "W"});
    b.constant("shape", ints({0, 2, -1}));
    b.node("Reshape", {"x", "shape"}, {"y"});
    b.output("y");
    const auto imported = b.import_with();
    EXPECT_TRUE(std::get<Graph>(imported).requirements.empty());
}

}  // namespace
}  // namespace opwright::graph::onnx
