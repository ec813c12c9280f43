// Block tile programs: what a nest keeps on the chip, how axes are chosen, what a schedule may not say.
#include "tile/blocks.h"

#include <gtest/gtest.h>

#include "lang/library.h"
#include "math/localise.h"
#include "math/unit_dims.h"
#include "schedule/block_kernel.h"

namespace opwright::tile {
namespace {

math::Program symbolic(const std::string& source, const std::string& op) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"test.op", source})).ok());
    const auto p = library.elaborate_symbolic(op);
    EXPECT_TRUE(p.ok());
    return math::localise(*p).program;
}
constexpr const char* kSoftmax =
    "op softmax(x[m,n]) -> y[m,n]:\n"
    "    h[m] = max[n](x[m,n])\n"
    "    e[m,n] = exp(x[m,n] - h[m])\n"
    "    s[m] = sum[n](e[m,n])\n"
    "    y[m,n] = e[m,n] / s[m]\n";

std::string blocks(const math::Program& p, bool whole) {
    const schedule::Kernel k = schedule::form_block_kernel(p, !whole);
    auto t = apply_blocks(k, schedule::default_block_schedule(k, {}, whole));
    EXPECT_TRUE(t.ok());
    EXPECT_TRUE(verify(*t).empty());
    return print(*t);
}

TEST(Blocks, ARowHeldWholeIsLoadedOnce) {
    EXPECT_EQ(blocks(symbolic(kSoftmax, "softmax"), true),
              "nest 0 over grid [m by 1024]:\n"
              "  x[m:1024, n] : f32 = load x[m,n]\n"
              "  max[m:1024] : f32 = reduce max of x along n\n"
              "  store h[m] = max\n"
              "  e[m:1024, n] : f32 = map exp(x[m,n] - h[m])\n"
              "  store e[m,n] = e\n"
              "  sum[m:1024] : f32 = reduce sum of e along n\n"
              "  store s[m] = sum\n"
              "  y[m:1024, n] : f32 = map e[m,n] / s[m]\n"
              "  store y[m,n] = y\n");
}

TEST(Blocks, ALongRowIsWalkedAndItsTemporariesRecomputed) {
    const std::string text = blocks(symbolic(kSoftmax, "softmax"), false);
    EXPECT_EQ(text.find("store e"), std::string::npos) << text;
    EXPECT_NE(text.find("for n in 0..s1 step 1024 on lanes"), std::string::npos) << text;
    EXPECT_NE(text.find("y[m:1024, n:1024] : f32 = map exp(x[m,n] - h[m]) / s[m]"), std::string::npos) << text;
}

TEST(Blocks, TwoFoldsTakeOneWalkWhereTheScheduleSaysSo) {
    const schedule::Kernel k = schedule::form_block_kernel(symbolic(kSoftmax, "softmax"), true);
    schedule::Schedule s = schedule::default_block_schedule(k, {}, false);
    s.nests[0].online = true;
    auto again = schedule::from_json(schedule::to_json(s, k), k);
    ASSERT_TRUE(again.ok());
    EXPECT_TRUE(again->nests[0].online);
    auto t = apply_blocks(k, *again);
    ASSERT_TRUE(t.ok());
    EXPECT_TRUE(verify(*t).empty());
    EXPECT_EQ(print(*t),
              "nest 0 over grid [m by 1024]:\n"
              "  max[m:1024, n:1024] : f32 = fill identity of max\n"
              "  sum[m:1024, n:1024] : f32 = fill identity of sum\n"
              "  for n in 0..s1 step 1024 on lanes:\n"
              "    x[m:1024, n:1024] : f32 = load x[m,n]\n"
              "    max, sum = online(max, sum, x)\n"
              "  max[m:1024] : f32 = reduce max of max along n\n"
              "  store h[m] = max\n"
              "  sum[m:1024] : f32 = reduce sum of max, sum along n, shift h[m]\n"
              "  store s[m] = sum\n"
              "  for n in 0..s1 step 1024 on lanes:\n"
              "    x[m:1024, n:1024] : f32 = load x[m,n]\n"
              "    y[m:1024, n:1024] : f32 = map exp(x[m,n] - h[m]) / s[m]\n"
              "    store y[m,n] = y\n");
}

TEST(Blocks, OnlineIsTrueOrFalse) {
    const schedule::Kernel k = schedule::form_block_kernel(symbolic(kSoftmax, "softmax"), true);
    std::string json = schedule::to_json(schedule::default_block_schedule(k, {}, false), k);
    json.insert(json.find("\"elements\""), "\"online\": 3, ");
    const auto s = schedule::from_json(json, k);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().message, "In nest 0 of the schedule: \"online\" must be true or false.");
}

TEST(Blocks, AColumnSumHasColumnsAndRowsInItsBlock) {
    const std::string text =
        blocks(symbolic("op column_sum(x[m,n]) -> y[n]:\n    y[n] = sum[m](x[m,n])\n", "column_sum"), true);
    EXPECT_NE(text.find("for m in 0..s0 step 16 on lanes"), std::string::npos) << text;
    EXPECT_NE(text.find("sum[n:1024] : f32 = reduce sum of sum along m"), std::string::npos) << text;
}

TEST(Blocks, ATemporaryReadElsewhereGoesThroughMemory) {
    const math::Program p = symbolic(
        "op turn(x[m,n]) -> y[m,n]:\n"
        "    s[m] = sum[n](x[m,n])\n"
        "    e[m,n] = x[m,n] / s[m]\n"
        "    z[m] = max[n](e[m,n])\n"
        "    y[m,n] = e[m,n - 1] outside zero * z[m]\n",
        "turn");
    const schedule::Kernel k = schedule::form_block_kernel(p, false);
    ASSERT_EQ(k.workspace.size(), 1u);  // e, read beside where it was written
    EXPECT_EQ(k.nests.size(), 2u);
}

TEST(Blocks, AScaleAChannelDoesNotTieTheMapToItsChannels) {
    const math::Program p = symbolic(
        "op scaled(x[c,n], v[c]) -> y[c,n]:\n"
        "    g[c] = exp(v[c]) * sin(v[c])\n"
        "    y[c,n] = x[c,n] * g[c]\n",
        "scaled");
    const schedule::Kernel k = schedule::form_block_kernel(p, false);
    ASSERT_EQ(k.nests.size(), 2u);
    EXPECT_EQ(k.nests[1].grid.size(), 2u);
}

TEST(Blocks, SmallTablesAreWrittenOut) {
    const lang::Library& l = lang::Library::standard();
    const auto examples = l.examples(*l.find("sobel"));
    ASSERT_TRUE(examples.ok());
    const auto p = l.elaborate("sobel", (*examples)[0].arguments, (*examples)[0].attributes);
    ASSERT_TRUE(p.ok());
    const schedule::Kernel k = schedule::form_block_kernel(math::localise(*p).program, false);
    for (const math::Equation& q : k.program.equations)
        for (math::TensorId t : k.program.reads(q.rhs)) EXPECT_NE(k.program.tensors[t].role, math::Role::Constant);
}

TEST(Blocks, ASchedulesFaultIsNamed) {
    const schedule::Kernel k = schedule::form_block_kernel(symbolic(kSoftmax, "softmax"), false);
    schedule::Schedule s = schedule::default_block_schedule(k, {}, true);
    s.nests[0].blocks.back().tile = 256;
    const auto t = apply_blocks(k, s);
    ASSERT_FALSE(t.ok());
    EXPECT_EQ(t.error().message, "e is kept on the chip along index n, which the schedule cuts into tiles of 256.");
}

// Every operator of the library has a well formed block program both ways, and its schedule survives JSON.
TEST(Blocks, TheLibrary) {
    const lang::Library& l = lang::Library::standard();
    int programs = 0;
    for (const std::string& name : l.names()) {
        const auto examples = l.examples(*l.find(name));
        ASSERT_TRUE(examples.ok());
        for (const lang::Example& e : *examples) {
            const auto p = l.elaborate(name, e.arguments, e.attributes);
            ASSERT_TRUE(p.ok()) << name;
            const math::Program local = math::localise(math::drop_unit_variables(*p)).program;
            for (const bool whole : {true, false}) {
                const schedule::Kernel k = schedule::form_block_kernel(local, !whole);
                const schedule::Schedule s = schedule::default_block_schedule(k, {}, whole);
                const std::string json = schedule::to_json(s, k);
                const auto back = schedule::from_json(json, k);
                ASSERT_TRUE(back.ok()) << name << ": " << back.error().message;
                EXPECT_EQ(schedule::to_json(*back, k), json) << name;
                const auto t = apply_blocks(k, s);
                ASSERT_TRUE(t.ok()) << name << ": " << t.error().message;
                EXPECT_TRUE(verify(*t).empty()) << name << ": " << verify(*t)[0] << "\n" << print(*t);
                ++programs;
            }
        }
    }
    EXPECT_GT(programs, 400);
}

}  // namespace
}  // namespace opwright::tile
