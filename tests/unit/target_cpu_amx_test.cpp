// Products in tile registers (AMX). Their code is looked at on every processor of that architecture; it runs where there are
// tiles, and says so where there are none.
#include <gtest/gtest.h>

#include "lang/library.h"
#include "loop/builder.h"
#include "loop/print.h"
#include "loop/verify.h"
#include "runtime/thread_pool.h"
#include "schedule/parts.h"
#include "target/cpu/features.h"
#include "target/cpu/plan.h"
#include "target_cpu_test_util.h"
#include "tile/apply.h"
#include "verify/cpu_target.h"
#include "verify/operator.h"

namespace opwright::target::cpu {
namespace {

math::Program declared(const std::string& source) {
    lang::Library library;
    const Status s = library.add(std::make_shared<const Source>(Source{"test.op", source}));
    EXPECT_TRUE(s.ok()) << (s.ok() ? "" : render(s.error()));
    auto p = library.elaborate_symbolic("product");
    EXPECT_TRUE(p.ok()) << (p.ok() ? "" : render(p.error()));
    return *p;
}

std::string bytes(const std::string& a, const std::string& b, const std::string& x = "cast(x[m,k], i32)",
                  const std::string& more = {}) {
    return "op product(x: " + a + "[m,k], w: " + b + "[k,n]" + more + ") -> y: i32[m,n]:\n    y[m,n] = sum[k](" + x +
           " * cast(w[k,n], i32))\n";
}
const std::string kBf16 = "op product(x: bf16[m,k], w: bf16[k,n]) -> y: bf16[m,n]:\n    y[m,n] = max(sum[k](x[m,k] * w[k,n]), 0)\n";
// As they lie in memory: rows of both factors along the depth, and neither; a batch; rows of two indices.
const std::string kTransposed = "op product(x: bf16[m,k], w: bf16[n,k]) -> y: f32[m,n]:\n    y[m,n] = sum[k](cast(x[m,k], f32) * cast(w[n,k], f32))\n";
const std::string kBoth = "op product(x: bf16[k,m], w: bf16[n,k]) -> y: bf16[m,n]:\n    y[m,n] = sum[k](x[k,m] * w[n,k])\n";
const std::string kBatch = "op product(x: bf16[b,m,k], w: bf16[b,k,n]) -> y: bf16[b,m,n]:\n    y[b,m,n] = sum[k](x[b,m,k] * w[b,k,n])\n";
const std::string kLinear = "op product(x: bf16[b,s,k], w: bf16[k,n], a: bf16[n]) -> y: bf16[b,s,n]:\n    y[b,s,n] = sum[k](x[b,s,k] * w[k,n]) + a[n]\n";
const std::string kTurnedBytes = "op product(x: u8[k,m], w: i8[k,n]) -> y: i32[m,n]:\n    y[m,n] = sum[k](cast(x[k,m], i32) * cast(w[k,n], i32))\n";

std::vector<std::string> products() {
    std::vector<std::string> r{kBf16, kTransposed, kBoth, kBatch, kLinear, kTurnedBytes};
    for (const char* a : {"u8", "i8"})
        for (const char* b : {"u8", "i8"}) r.push_back(bytes(a, b));
    r.push_back(bytes("u8", "i8", "(cast(x[m,k], i32) - z[])", ", z: i32[]"));
    return r;
}

// The features of this processor, with tiles.
std::optional<Features> with_tiles() {
    auto f = features_at(Level::Avx512);
    if (!f || !f->vnni) return std::nullopt;
    if (!f->amx) f->attributes += ",+amx-tile,+amx-bf16,+amx-int8";
    f->amx = true;
    return f;
}

TEST(TargetCpuAmx, EveryProductHasItsInstruction) {
    const auto f = with_tiles();
    if (!f) GTEST_SKIP() << "not run: this processor has no AVX-512 with VNNI";
    const std::string wanted[] = {"tdpbf16ps", "tdpbf16ps", "tdpbf16ps", "tdpbf16ps", "tdpbf16ps", "tdpbusd",
                                  "tdpbuud",   "tdpbusd",   "tdpbsud",   "tdpbssd",   "tdpbusd"};
    const std::vector<std::string> all = products();
    for (size_t i = 0; i < all.size(); ++i) {
        const math::Program p = declared(all[i]);
        Planned planned = plan({.program = &p, .constant_inputs = std::vector<bool>(p.inputs.size())}, *f);
        ASSERT_TRUE(planned.untuned.nests[0].contract.tiles) << all[i];
        auto tiles = tile::apply(planned.kernel, planned.untuned, planned.machine);
        ASSERT_TRUE(tiles.ok()) << all[i] << render(tiles.error());
        const Lowered lowered = lower(*tiles);
        EXPECT_TRUE(loop::verify(lowered.program).empty()) << loop::verify(lowered.program)[0];
        const auto object = compile_object(lowered.program, *f, {.want_assembly = true});
        ASSERT_TRUE(object.ok());
        for (const std::string& instruction : {wanted[i], std::string("ldtilecfg"), std::string("tilerelease")})
            EXPECT_NE(object->assembly.find(instruction), std::string::npos) << all[i] << instruction;
    }
}

TEST(TargetCpuAmx, ProductsAreRight) {
    if (!host_features().amx) GTEST_SKIP() << "not run: this processor has no tile registers (AMX), or the system does not grant them";
    runtime::ThreadPool pool(2);
    for (const std::string& source : products()) {
        const verify::Report r = verify::check_program(declared(source), verify::cpu_target({.cache = false}, pool), {});
        EXPECT_TRUE(r.passed()) << source << r.str();
        EXPECT_GT(r.cases, 10) << source;
    }
}

// Several blocks of depth, rows and columns of several tasks.
TEST(TargetCpuAmx, BlocksOfDepthAreRight) {
    if (!host_features().amx) GTEST_SKIP() << "not run: this processor has no tile registers (AMX), or the system does not grant them";
    runtime::ThreadPool pool(2);
    const std::string schedule =
        R"({"nests": [{"grid": [{"index": "m", "tile": 1}, {"index": "n", "tile": 1}],
                       "contract": {"mr": 32, "nv": 2, "lanes": 16, "mt": 64, "nt": 64, "kc": 32, "parts": 2, "tiles": true}}]})";
    const verify::Report r = verify::check_program(declared(kBf16), verify::cpu_target({.cache = false, .schedule = schedule}, pool), {});
    EXPECT_TRUE(r.passed()) << r.str();
}

TEST(TargetCpuAmx, FaultsOfTheirStatementsAreFound) {
    loop::Program p;
    loop::Builder b(p);
    const loop::BufferId words = b.param("words", DType::I32, 0), halves = b.param("halves", DType::BF16, 1);
    b.function("f", [&] {
        b.tile_zero(0);
        b.tile_load(4, words, b.i64(3), b.i64(16));
        b.tile_dot(loop::TileFn::S8U8x4, 0, 4, 6);
        b.tile_store(0, words, b.task_begin(), b.i64(32));
    });
    EXPECT_TRUE(loop::verify(p).empty()) << loop::verify(p)[0];
    const std::string text = loop::print(p);
    for (const char* line : {"tile0 = 0", "tile4 = words[3 : 16x16 by 16]", "tile0 += tile_s8u8x4(tile4, tile6)",
                             "words[task_begin : 16x16 by 32] = tile0"})
        EXPECT_NE(text.find(line), std::string::npos) << text;
    b.function("g", [&] {
        b.tile_zero(8);
        b.tile_load(1, halves, b.i64(0), b.i64(16));
        b.tile_dot(loop::TileFn::Bf16x2, 0, 4, 4);
    });
    const std::vector<std::string> faults = loop::verify(p);
    ASSERT_EQ(faults.size(), 3u);
    EXPECT_NE(faults[0].find("uses tile 8 of 8"), std::string::npos) << faults[0];
    EXPECT_NE(faults[1].find("moves a tile of 'halves' of bf16"), std::string::npos) << faults[1];
    EXPECT_NE(faults[2].find("multiplies a tile with itself"), std::string::npos) << faults[2];
}

TEST(TargetCpuAmx, TilesWhereThereAreNoneAreRefused) {
    const auto f = features_at(Level::Avx512);
    if (!f) GTEST_SKIP() << "not run: this processor has no AVX-512";
    Features without = *f;
    without.amx = false;
    const math::Program p = declared(kBf16);
    const Planned planned = plan({.program = &p, .constant_inputs = {false, false}}, without);
    schedule::Schedule s = planned.untuned;
    s.nests[0].contract.tiles = true;
    const auto tiles = tile::apply(planned.kernel, s, planned.machine);
    ASSERT_FALSE(tiles.ok());
    EXPECT_EQ(tiles.error().message, "The schedule takes tiles for the contraction of y, and the processor has none.");
}

}  // namespace
}  // namespace opwright::target::cpu
