#include "runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>

namespace opwright::runtime {
namespace {

TEST(RuntimeThreadPool, CoversEveryIndexOnce) {
    for (int threads : {1, 2, 3, 8}) {
        ThreadPool pool(threads);
        EXPECT_EQ(pool.size(), threads);
        for (int64_t count : {0, 1, 2, 7, 64, 1000}) {
            for (int64_t grain : {1, 3, 64, 5000}) {
                std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
                std::atomic<int> short_chunks{0}, bad_worker{0};
                pool.parallel_for(count, grain, [&](int64_t begin, int64_t end, int worker) {
                    if (end - begin < grain && end != count) ++short_chunks;
                    if (worker < 0 || worker >= threads) ++bad_worker;
                    for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
                });
                for (auto& s : seen) ASSERT_EQ(s.load(), 1);
                EXPECT_EQ(short_chunks.load(), 0);
                EXPECT_EQ(bad_worker.load(), 0);
            }
        }
    }
}

TEST(RuntimeThreadPool, ManyShortJobs) {
    ThreadPool pool(3);
    std::atomic<int64_t> sum{0};
    for (int i = 0; i < 3000; ++i)
        pool.parallel_for(5, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    EXPECT_EQ(sum.load(), 15000);
}

TEST(RuntimeThreadPool, JobsAfterSleep) {
    ThreadPool pool(2);
    for (int i = 0; i < 5; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than the workers spin
        std::atomic<int> n{0};
        pool.parallel_for(10, 1, [&](int64_t b, int64_t e, int) { n += static_cast<int>(e - b); });
        EXPECT_EQ(n.load(), 10);
    }
}

TEST(RuntimeThreadPool, WorkersShareTheWork) {
    ThreadPool pool(2);
    // Two tasks that wait for each other finish only if two threads run them.
    std::atomic<int> arrived{0};
    pool.parallel_for(2, 1, [&](int64_t, int64_t, int) {
        ++arrived;
        while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
}

// Whatever the grain: of eight indices in grains of three, one worker had three and the other five.
TEST(RuntimeThreadPool, SharesAreEven) {
    ThreadPool pool(2);
    for (int64_t grain : {1, 3, 4}) {
        std::atomic<int> arrived{0};
        std::atomic<int64_t> first{-1};
        pool.parallel_for(8, grain, [&](int64_t begin, int64_t, int worker) {
            int64_t none = -1;
            if (worker == 1) first.compare_exchange_strong(none, begin);
            ++arrived;
            while (arrived.load() < 2) std::this_thread::yield();
        });
        EXPECT_EQ(first.load(), 4) << grain;
    }
}

TEST(RuntimeThreadPool, NestedCallsRunInline) {
    ThreadPool pool(2);
    std::atomic<int64_t> sum{0};
    std::atomic<int> strangers{0};
    pool.parallel_for(4, 1, [&](int64_t begin, int64_t end, int outer) {
        for (int64_t i = begin; i < end; ++i)
            pool.parallel_for(100, 1, [&](int64_t b, int64_t e, int inner) {
                if (inner != outer) ++strangers;
                sum += e - b;
            });
    });
    EXPECT_EQ(sum.load(), 400);
    EXPECT_EQ(strangers.load(), 0);
}

TEST(RuntimeThreadPool, OnePoolInsideAnother) {
    ThreadPool a(2), b(2);
    std::atomic<int64_t> sum{0};
    a.parallel_for(4, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) b.parallel_for(10, 1, [&](int64_t x, int64_t y, int) { sum += y - x; });
    });
    EXPECT_EQ(sum.load(), 40);
}

TEST(RuntimeThreadPool, CallersTakeTurns) {
    ThreadPool pool(2);
    std::atomic<int64_t> sum{0};
    auto caller = [&] {
        for (int i = 0; i < 200; ++i) pool.parallel_for(8, 1, [&](int64_t b, int64_t e, int) { sum += e - b; });
    };
    std::thread one(caller), two(caller);
    one.join(), two.join();
    EXPECT_EQ(sum.load(), 3200);
}

// What a worker leaves in its memory is there in its next ranges of the job; a word at the beginning says when a job is new.
TEST(RuntimeThreadPool, ScratchIsKeptWithinAJob) {
    ThreadPool pool(2);
    for (int64_t grain : {1, 100}) {  // shared, and by the caller alone
        std::atomic<int> wrong{0};
        for (int job = 1; job <= 3; ++job) {
            bool began[2] = {};
            pool.parallel_for(64, grain, [&](int64_t, int64_t, int worker) {
                auto* word = static_cast<int64_t*>(pool.scratch(worker, 64));
                if (*word != (began[worker] ? job : 0)) ++wrong;
                *word = job;
                began[worker] = true;
                if (job == 3) {  // a job inside has a new one, and so has what comes behind it
                    pool.parallel_for(4, 1, [&](int64_t, int64_t, int inner) {
                        auto* own = static_cast<int64_t*>(pool.scratch(inner, 64));
                        if (*own != 0) ++wrong;
                        *own = 9;
                    });
                    began[worker] = false;
                }
            });
        }
        EXPECT_EQ(wrong.load(), 0) << grain;
    }
}

TEST(RuntimeThreadPool, ScratchGrowsAndIsAligned) {
    ThreadPool pool(3);
    for (size_t bytes : {size_t{1}, size_t{100}, size_t{100000}, size_t{50}}) {
        for (int w = 0; w < 3; ++w) {
            auto* m = static_cast<unsigned char*>(pool.scratch(w, bytes));
            EXPECT_EQ(reinterpret_cast<uintptr_t>(m) % 64, 0u);
            m[0] = m[bytes - 1] = static_cast<unsigned char>(w);
        }
    }
    std::set<void*> distinct{pool.scratch(0, 1), pool.scratch(1, 1), pool.scratch(2, 1)};
    EXPECT_EQ(distinct.size(), 3u);
}

TEST(RuntimeThreadPool, StartsAndStops) {
    for (int i = 0; i < 50; ++i) ThreadPool pool(4);
    EXPECT_GE(available_processors(), 1);
}

}  // namespace
}  // namespace opwright::runtime
