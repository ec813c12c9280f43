#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "runtime/buffer_pool.h"
#include "runtime/memory_plan.h"
#include "runtime/sym_table.h"

namespace opwright::runtime {
namespace {
using math::Sym;

void expect_sound(const std::vector<Lifetime>& b, const MemoryPlan& p) {
    ASSERT_EQ(p.offsets.size(), b.size());
    for (size_t i = 0; i < b.size(); ++i) {
        EXPECT_EQ(p.offsets[i] % 64, 0);
        EXPECT_GE(p.offsets[i], 0);
        EXPECT_LE(p.offsets[i] + b[i].bytes, p.bytes);
        for (size_t j = 0; j < i; ++j) {
            const bool together = b[i].first <= b[j].last && b[j].first <= b[i].last;
            const bool overlap = p.offsets[i] < p.offsets[j] + b[j].bytes && p.offsets[j] < p.offsets[i] + b[i].bytes;
            EXPECT_FALSE(together && overlap) << i << " and " << j;
        }
    }
    EXPECT_GE(p.bytes, p.lower_bound);
}

TEST(RuntimeMemoryPlan, AChainNeedsTwoBuffers) {
    std::vector<Lifetime> b;
    for (int i = 0; i < 100; ++i) b.push_back({1000, i, i + 1});
    const MemoryPlan p = plan_memory(b);
    expect_sound(b, p);
    EXPECT_EQ(p.bytes, 2 * 1024);
    EXPECT_EQ(p.lower_bound, 2 * 1024);
}

TEST(RuntimeMemoryPlan, RandomLivesNeverOverlap) {
    std::mt19937 random(7);
    for (int round = 0; round < 30; ++round) {
        std::vector<Lifetime> b;
        for (int i = 0; i < 60; ++i) {
            const int first = static_cast<int>(random() % 50);
            b.push_back({static_cast<int64_t>(random() % 5000), first, first + static_cast<int>(random() % 8)});
        }
        const MemoryPlan p = plan_memory(b);
        expect_sound(b, p);
        EXPECT_LT(p.bytes, 2 * p.lower_bound);
    }
}

TEST(RuntimeMemoryPlan, NothingNeedsNothing) {
    EXPECT_EQ(plan_memory({}).bytes, 0);
    const std::vector<Lifetime> empty{{0, 0, 3}, {0, 1, 2}};
    EXPECT_EQ(plan_memory(empty).bytes, 0);
}

TEST(RuntimeSymTable, AgreesWithEvaluate) {
    const Sym h = Sym::symbol("h"), w = Sym::symbol("w"), s = Sym::symbol("s");
    const std::vector<Sym> all{h * w + 3, floor_div(h - 5, s), mod(w, s), min(h, w), max(h, w * 2), less(h, w), equal(h, w),
                               select(less(h, w), floor_div(h, w - w), w), Sym(7), h, (h + w) * (h + w) - h * h};
    SymTable table({"h", "w", "s"});
    std::vector<uint32_t> slots;
    for (const Sym& x : all) slots.push_back(table.add(x));
    EXPECT_EQ(table.add(h * w + 3), slots[0]);
    for (const std::vector<int64_t>& v : {std::vector<int64_t>{3, 9, 2}, {9, 3, 0}, {0, 0, 1}, {INT64_MAX, 2, -1}}) {
        const auto got = table.evaluate(v);
        for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(got[slots[i]], math::evaluate(all[i], {{"h", v[0]}, {"w", v[1]}, {"s", v[2]}})) << all[i].str();
    }
}

TEST(RuntimeBufferPool, LargeBlocksComeBack) {
    BufferPool pool;
    auto a = pool.take(1 << 20);
    void* first = a.get();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
    a.reset();
    EXPECT_EQ(pool.take((1 << 20) - 1000).get(), first);  // given back at once, so free again
    EXPECT_NE(pool.take(1 << 18).get(), first);           // a block four times as large would be waste
    EXPECT_NE(pool.take(0).get(), nullptr);
}

#if defined(__linux__)
TEST(RuntimeBufferPool, LargeBlocksAskForLargePages) {
    if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) GTEST_SKIP() << "not run: this system has pages of one size";
    BufferPool pool;
    const auto a = pool.take(5 << 20);
    const auto address = reinterpret_cast<uintptr_t>(a.get());
    EXPECT_EQ(address % (2 << 20), 0u);
    std::ifstream maps("/proc/self/smaps");
    bool here = false;
    std::string flags;
    for (std::string line; std::getline(maps, line);) {
        uintptr_t begin = 0, end = 0;
        if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2) here = begin <= address && address < end;
        if (here && line.starts_with("VmFlags:")) flags = line;
    }
    EXPECT_THAT(flags, testing::HasSubstr(" hg"));
}
#endif

TEST(RuntimeBufferPool, BlocksOutliveThePool) {
    std::shared_ptr<void> a;
    {
        BufferPool pool;
        a = pool.take(1 << 20);
    }
    static_cast<char*>(a.get())[(1 << 20) - 1] = 1;
}

}  // namespace
}  // namespace opwright::runtime
