#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <numeric>

#include "base/tensor.h"
#include "loop/verify.h"
#include "target_cpu_test_util.h"

namespace opwright::target::cpu {
namespace {

using namespace loop;

class TargetCpuEmit : public testing::TestWithParam<int> {
protected:
    const Features& f() const {
        static const std::vector<Features> all = machine_levels();
        return all[static_cast<size_t>(GetParam())];
    }
    Program p;
    Builder b{p};
};

TEST_P(TargetCpuEmit, LoopsLocalsAndTasks) {
    auto n = b.symbol("n");
    auto x = b.param("x", DType::F32, 0, Access::Read), y = b.param("y", DType::F32, 1, Access::Write);
    b.function("row_sums", [&] {
        b.loop("r", b.task_begin(), b.task_end(), 1, [&](Expr r) {
            LocalRef acc = b.local("acc", broadcast(b.f32(0), 8)), odd = b.local("odd", b.f32(0));
            b.loop("i", 0, n, 8, [&](Expr i) {
                Expr v = b.let("v", b.load(x, r * n + i, 8, first_lanes(n - i, 8)));
                b.set(acc, b.get(acc) + v);
                b.if_(gt(extract(v, 0), b.f32(2)), [&] { b.set(odd, b.get(odd) + b.f32(1)); });
            });
            b.store(y, r * 2, reduce_lanes(BinaryFn::Add, b.get(acc)));
            b.store(y, r * 2 + 1, b.get(odd));
        });
    });
    auto m = compile_or_fail(p, f());
    const int64_t rows = 5;
    for (int64_t size : {0, 1, 7, 8, 9, 30}) {
        std::vector<float> in(static_cast<size_t>(rows * size + 1)), out(2 * rows, -1);
        std::iota(in.begin(), in.end(), 0.0f);
        ASSERT_EQ(run(m, "row_sums", {{in.data(), out.data()}, {size}, rows}), 0);
        for (int64_t r = 0; r < rows; ++r) {
            float sum = 0, odd = 0;
            for (int64_t i = 0; i < size; ++i) sum += in[static_cast<size_t>(r * size + i)];
            for (int64_t i = 0; i < size; i += 8) odd += in[static_cast<size_t>(r * size + i)] > 2;
            EXPECT_EQ(out[static_cast<size_t>(2 * r)], sum);
            EXPECT_EQ(out[static_cast<size_t>(2 * r + 1)], odd);
        }
    }
}

TEST_P(TargetCpuEmit, ScratchLocalBuffersAndStatus) {
    auto n = b.symbol("n");
    auto y = b.param("y", DType::I64, 0, Access::Write);
    auto s = b.scratch("s", DType::I32, n), t = b.scratch("t", DType::I64, n * 2);
    auto l = b.local_buffer("l", DType::I32, 16);
    b.function("f", [&] {
        b.loop("i", 0, n, 1, [&](Expr i) {
            b.store(s, i, cast(i, DType::I32));
            b.store(t, i * 2, i * i);
        });
        b.store(l, b.i64(0), ramp(b.i32(100), 1, 16));
        b.loop("i", 0, n, 1, [&](Expr i) {
            b.store(y, i, cast(b.load(s, i), DType::I64) + b.load(t, i * 2) + cast(b.load(l, mod(i, 16)), DType::I64));
            b.if_(eq(i, b.i64(3)), [&] { b.set_error(42); });
            b.if_(eq(i, b.i64(5)), [&] { b.set_error(43); });
        });
    });
    auto m = compile_or_fail(p, f());
    std::vector<int64_t> out(10);
    const int64_t size = 10;
    EXPECT_EQ(m->entry("f").scratch_bytes(&size), 64 + 192);
    EXPECT_EQ(run(m, "f", {{out.data()}, {size}}), 42);
    for (int64_t i = 0; i < size; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], i + i * i + 100 + i);
    EXPECT_EQ(run(m, "f", {{out.data()}, {3}}), 0);
    EXPECT_FALSE(m->entry("g"));
}

TEST_P(TargetCpuEmit, ScratchInPlaceOfTheCallersMemory) {
    auto n = b.symbol("n");
    auto y = b.param("y", DType::I64, 0, Access::Write);
    auto own = b.scratch("own", DType::I64, n);
    auto given = b.param_or_scratch("given", DType::I64, 1, n - 3);
    b.function("f", [&] {
        b.loop("i", 0, n, 1, [&](Expr i) {
            b.store(own, i, i);
            b.store(given, i, i * 2);
        });
        b.loop("i", 0, n, 1, [&](Expr i) { b.store(y, i, b.load(own, i) + b.load(given, i)); });
    });
    EXPECT_NE(print(p).find("given i64 or scratch [n + -3]"), std::string::npos) << print(p);
    EXPECT_TRUE(verify(p).empty());
    auto m = compile_or_fail(p, f());
    for (int64_t size : {2, 3, 5}) {
        std::vector<int64_t> out(8, -1), caller(8, -1);
        EXPECT_EQ(m->entry("f").scratch_bytes(&size), size > 3 ? 128 : 64);
        EXPECT_EQ(run(m, "f", {{out.data(), caller.data()}, {size}}), 0);
        for (int64_t i = 0; i < size; ++i) {
            EXPECT_EQ(out[static_cast<size_t>(i)], 3 * i);
            EXPECT_EQ(caller[static_cast<size_t>(i)], size > 3 ? -1 : 2 * i);
        }
    }
}

TEST_P(TargetCpuEmit, UnrolledLoopsAndHoisting) {
    auto n = b.symbol("n");
    auto x = b.param("x", DType::F32, 0, Access::Read), y = b.param("y", DType::F32, 1, Access::Write);
    b.function("f", [&] {
        LocalRef acc = b.local("acc", b.f32(0));
        b.loop("i", 0, n, 4, [&](Expr i) {
            b.unrolled("j", 0, 4, 1, [&](Expr j) {
                Expr k = b.let("k", i + j);
                b.if_(lt(k, n), [&] { b.set(acc, b.get(acc) + b.load(x, k) * cast(k * n, DType::F32)); },
                      [&] { b.set(acc, b.get(acc) + cast(floordiv(n, 3), DType::F32)); });
            });
        });
        b.store(y, b.i64(0), b.get(acc));
    });
    auto m = compile_or_fail(p, f());
    std::vector<float> in{1, 2, 3, 4, 5, 6}, out(1);
    run(m, "f", {{in.data(), out.data()}, {6}});
    EXPECT_EQ(out[0], 6 * (2 + 6 + 12 + 20 + 30) + 2 * 2);
    run(m, "f", {{in.data(), out.data()}, {0}});
    EXPECT_EQ(out[0], 0);
}

// A function whose slow way splits the block moves out of the loops that it does not depend on.
TEST_P(TargetCpuEmit, HoistedFunctionsWithSlowWays) {
    auto n = b.symbol("n"), angle = b.symbol("angle");
    auto y = b.param("y", DType::F32, 0, Access::Write);
    const int lanes = f().lanes(DType::F32);
    b.function("f", [&] {
        b.loop("r", 0, n, 1, [&](Expr r) {
            b.loop("i", 0, b.i64(2 * lanes), lanes, [&](Expr i) {
                Expr row = unary(UnaryFn::Sin, cast(angle * r, DType::F32));  // of r alone
                Expr all = unary(UnaryFn::Cos, cast(broadcast(angle, lanes) + 1, DType::F32));
                b.if_(gt(r, b.i64(0)), [&] { b.store(y, r * (2 * lanes) + i, broadcast(row, lanes) + all); },
                      [&] { b.store(y, r * (2 * lanes) + i, all * unary(UnaryFn::Tan, cast(ramp(i, 1, lanes), DType::F32))); });
            });
        });
    });
    auto m = compile_or_fail(p, f());
    for (int64_t a : {int64_t{1}, int64_t{100}, int64_t{10000000}}) {
        std::vector<float> out(static_cast<size_t>(3 * 2 * lanes));
        run(m, "f", {{out.data()}, {3, a}});
        for (int64_t r = 0; r < 3; ++r)
            for (int64_t i = 0; i < 2 * lanes; ++i) {
                const double all = std::cos(static_cast<double>(a + 1));
                const double want = r > 0 ? std::sin(static_cast<double>(a * r)) + all : all * std::tan(static_cast<double>(i));
                EXPECT_NEAR(out[static_cast<size_t>(r * 2 * lanes + i)], want, 1e-5 * (1 + std::fabs(want))) << a << " " << r << " " << i;
            }
    }
}

// Loads that a loop does not change move before it; those that it may change, or may not reach, stay.
TEST_P(TargetCpuEmit, LoadsBeforeLoops) {
    auto n = b.symbol("n");
    auto x = b.param("x", DType::I64, 0, Access::Read), y = b.param("y", DType::I64, 1);
    auto same = b.param("same", DType::I64, 1, Access::ReadWrite, false), also = b.param("also", DType::I64, 1, Access::ReadWrite, false);
    auto counter = b.scratch("counter", DType::I64, b.i64(1));
    Expr zero = b.i64(0);
    b.function("invariant", [&] {
        b.store(y, zero, b.i64(0));
        b.loop("i", 0, n, 1, [&](Expr i) { b.store(counter, zero, b.load(x, zero) * i); });
        b.loop("i", 0, n, 1, [&](Expr) { b.store(y, zero, b.load(x, zero)); });  // x is null when n is 0
    });
    b.function("changed", [&] {
        b.store(counter, zero, b.i64(0));
        b.loop("i", 0, n, 1, [&](Expr) {
            b.unrolled("u", 0, 2, 1, [&](Expr u) { b.store(counter, zero, b.load(counter, zero) + u + 1); });
        });
        b.store(y, zero, b.load(counter, zero));
    });
    b.function("aliased", [&] { b.loop("i", 0, n, 1, [&](Expr) { b.store(same, zero, b.load(also, zero) + 1); }); });
    b.function("guarded", [&] {
        b.loop("i", 0, n, 1, [&](Expr i) { b.if_(lt(n, i), [&] { b.store(y, zero, b.load(x, zero)); }); });
    });
    b.function("inner", [&] {
        b.loop("i", 0, n, 1, [&](Expr i) {
            b.store(counter, zero, i);
            b.loop("j", 0, b.i64(2), 1, [&](Expr j) { b.store(y, i * 2 + j, b.load(counter, zero) * 10 + j); });
        });
    });
    auto m = compile_or_fail(p, f());
    int64_t in = 7;
    std::vector<int64_t> out(8);
    run(m, "invariant", {{nullptr, out.data()}, {0}});
    EXPECT_EQ(out[0], 0);
    run(m, "invariant", {{&in, out.data()}, {3}});
    EXPECT_EQ(out[0], 7);
    run(m, "changed", {{&in, out.data()}, {5}});
    EXPECT_EQ(out[0], 15);
    run(m, "aliased", {{&in, out.data()}, {5}});
    EXPECT_EQ(out[0], 20);
    run(m, "guarded", {{nullptr, out.data()}, {5}});
    run(m, "inner", {{&in, out.data()}, {4}});
    EXPECT_EQ(out, (std::vector<int64_t>{0, 1, 10, 11, 20, 21, 30, 31}));
}

// ---- memory ----

TEST_P(TargetCpuEmit, StridedLoadsAndStores) {
    for (DType t : {DType::I16, DType::F32}) {
        const int lanes = f().lanes(t);
        const std::vector<int64_t> strides{-3, -1, 0, 1, 2, 3, 4, 7};
        Program q;
        Builder c(q);
        auto x = c.param("x", t, 0, Access::Read), y = c.param("y", t, 1, Access::Write);
        auto base = c.symbol("base");
        Expr some = first_lanes(c.i64(3), lanes);
        for (int64_t s : strides) {
            c.function("in" + std::to_string(s), [&] { c.store(y, c.i64(0), c.load_strided(x, base, s, lanes)); });
            c.function("in_masked" + std::to_string(s), [&] {
                c.store(y, c.i64(0), c.load_strided(x, base, s, lanes, some, c.literal(t, 9)));
            });
            if (s == 0) continue;
            c.function("out" + std::to_string(s), [&] { c.store_strided(y, base, s, c.load(x, c.i64(0), lanes)); });
            c.function("out_masked" + std::to_string(s), [&] { c.store_strided(y, base, s, c.load(x, c.i64(0), lanes), some); });
        }
        auto m = compile_or_fail(q, f());
        for (int64_t s : strides) {
            const int64_t span = (lanes - 1) * std::abs(s) + 1, first = s < 0 ? span - 1 : 0;
            Tensor in(t, {std::max<int64_t>(span, lanes)}), out(t, {std::max<int64_t>(span, lanes)});
            for (int64_t i = 0; i < in.size(); ++i) in.set_int(i, i % 120);
            const Call call{{in.data(), out.data()}, {first}};
            for (int limit : {lanes, 3}) {
                run(m, (limit == 3 ? "in_masked" : "in") + std::to_string(s), call);
                for (int i = 0; i < lanes; ++i) ASSERT_EQ(out.get_int(i), i < limit ? in.get_int(first + i * s) : 9) << s;
                if (s == 0) continue;
                std::memset(out.data(), 0, out.bytes());
                run(m, (limit == 3 ? "out_masked" : "out") + std::to_string(s), call);
                for (int64_t i = 0; i < span; ++i) {
                    const int64_t lane = (i - first) / s;
                    const bool hit = (i - first) % s == 0 && lane < limit;
                    ASSERT_EQ(out.get_int(i), hit ? in.get_int(lane) : 0) << limit << " " << s << " " << i;
                }
            }
        }
    }
}

TEST_P(TargetCpuEmit, StreamingStores) {
    for (DType t : {DType::U8, DType::Bool, DType::F32}) {
        const int lanes = f().lanes(t);
        Program q;
        Builder c(q);
        auto x = c.param("x", t, 0, Access::Read), y = c.param("y", t, 1, Access::Write);
        c.function("copy", [&] {
            c.loop("i", 0, c.symbol("n"), lanes, [&](Expr i) { c.store_streaming(y, i, c.load(x, i, lanes)); });
        });
        auto m = compile_or_fail(q, f());
        Tensor in(t, {4 * lanes}), out(t, {4 * lanes});
        for (int64_t i = 0; i < in.size(); ++i) in.set_int(i, t == DType::Bool ? i % 3 == 0 : i % 100);
        run(m, "copy", {{in.data(), out.data()}, {in.size()}});
        EXPECT_EQ(std::memcmp(in.data(), out.data(), in.bytes()), 0);
    }
    auto x = b.param("x", DType::F32, 0);
    b.function("f", [&] { b.store_streaming(x, b.i64(0), b.f32(1)); });
    EXPECT_EQ(verify(p), std::vector<std::string>{"function 'f': streams to 'x' other than whole vectors side by side."});
}

TEST_P(TargetCpuEmit, GatherAndScatter) {
    for (DType t : {DType::Bool, DType::I8, DType::F16, DType::I32, DType::F32, DType::F64, DType::U64}) {
        for (DType index : {DType::I32, DType::I64}) {
            const int lanes = 8;
            Program q;
            Builder c(q);
            auto x = c.param("x", t, 0, Access::Read), y = c.param("y", t, 1), at = c.param("at", index, 2, Access::Read);
            Expr offsets = c.load(at, c.i64(0), lanes);
            Expr mask = ne(offsets, like_int(offsets, 7));
            c.function("gather", [&] { c.store(y, c.i64(0), c.gather(x, offsets)); });
            c.function("gather_masked", [&] { c.store(y, c.i64(0), c.gather(x, offsets, mask, c.literal(t, 1))); });
            c.function("scatter", [&] { c.scatter(y, offsets, c.load(x, c.i64(0), lanes)); });
            c.function("scatter_masked", [&] { c.scatter(y, offsets, c.load(x, c.i64(0), lanes), mask); });
            auto m = compile_or_fail(q, f());
            Tensor in(t, {8}), out(t, {8}), places(index, {8});
            const int order[8] = {7, 0, 3, 3, 1, 6, 5, 2};
            for (int i = 0; i < 8; ++i) in.set_int(i, t == DType::Bool ? (i * 5 / 3) % 2 : i + 2), places.set_int(i, order[i]);
            const Call call{{in.data(), out.data(), places.data()}, {}};
            run(m, "gather", call);
            for (int i = 0; i < 8; ++i) EXPECT_EQ(out.get_int(i), in.get_int(order[i]));
            run(m, "gather_masked", call);
            for (int i = 0; i < 8; ++i) EXPECT_EQ(out.get_int(i), order[i] == 7 ? 1 : in.get_int(order[i]));
            for (bool masked : {false, true}) {
                std::memset(out.data(), 0, out.bytes());
                run(m, masked ? "scatter_masked" : "scatter", call);
                Tensor want(t, {8});
                std::memset(want.data(), 0, want.bytes());
                for (int i = 0; i < 8; ++i)
                    if (!masked || order[i] != 7) want.set_int(order[i], in.get_int(i));  // the last of equals stays
                EXPECT_EQ(std::memcmp(out.data(), want.data(), out.bytes()), 0) << name(t);
            }
        }
    }
}

// Two pages, the second without access: `end` is the first byte that must not be touched.
struct GuardedPage {
    size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    char* base = static_cast<char*>(mmap(nullptr, 3 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    char *begin = base + size, *end = base + 2 * size;
    GuardedPage() {
        mprotect(base, size, PROT_NONE);
        mprotect(end, size, PROT_NONE);
    }
    ~GuardedPage() { munmap(base, 3 * size); }
};

TEST_P(TargetCpuEmit, MaskedAccessTouchesNothingElse) {
    GuardedPage in, out;
    for (DType t : {DType::Bool, DType::U8, DType::F16, DType::F32, DType::F64}) {
        const int lanes = std::max(4, f().lanes(t));
        Program q;
        Builder c(q);
        auto x = c.param("x", t, 0, Access::Read), y = c.param("y", t, 1, Access::Write);
        auto n = c.symbol("n");
        Expr zero = c.i64(0), mask = first_lanes(n, lanes);
        c.function("contiguous", [&] { c.store(y, zero, c.load(x, zero, lanes, mask), mask); });
        c.function("reversed", [&] { c.store_strided(y, zero, -1, c.load_strided(x, zero, -1, lanes, mask), mask); });
        c.function("gathered", [&] {
            Expr at = min(ramp(zero, 3, lanes), broadcast(c.i64(1 << 20), lanes));
            c.scatter(y, at, c.gather(x, at, mask), mask);
        });
        c.function("scalar", [&] { c.store(y, zero, c.load(x, zero, 1, gt(n, zero)), gt(n, zero)); });
        c.function("strided", [&] { c.store(y, zero, c.load_strided(x, zero, 2, 4)); });
        auto m = compile_or_fail(q, f());
        const auto step = static_cast<int64_t>(size_of(t));
        for (int64_t count = 0; count <= lanes; ++count) {
            Call at_end{{in.end - count * step, out.end - count * step}, {count}};
            ASSERT_EQ(run(m, "contiguous", at_end), 0);
            Call at_begin{{in.begin + (count - 1) * step, out.begin + (count - 1) * step}, {count}};
            ASSERT_EQ(run(m, "reversed", at_begin), 0);
            const int64_t span = count ? (count - 1) * 3 + 1 : 0;
            ASSERT_EQ(run(m, "gathered", {{in.end - span * step, out.end - span * step}, {count}}), 0);
        }
        ASSERT_EQ(run(m, "scalar", {{in.end, out.end}, {0}}), 0);
        ASSERT_EQ(run(m, "strided", {{in.end - 7 * step, out.end - 4 * step}, {0}}), 0);  // 7 elements, not 8
    }
}

TEST_P(TargetCpuEmit, LanesMoveAndFold) {
    for (int lanes : {2, 4, 8, 16, 32, 64}) {
        std::vector<int32_t> x(static_cast<size_t>(lanes));
        for (int i = 0; i < lanes; ++i) x[static_cast<size_t>(i)] = (i * 37) % 23 - 11;
        auto fold = [&](BinaryFn fn) {
            return map<int32_t>(f(), lanes, x, [&](Expr v) { return broadcast(reduce_lanes(fn, v), lanes); })[0];
        };
        EXPECT_EQ(fold(BinaryFn::Add), std::accumulate(x.begin(), x.end(), 0));
        EXPECT_EQ(fold(BinaryFn::Min), *std::min_element(x.begin(), x.end()));
        EXPECT_EQ(fold(BinaryFn::Max), *std::max_element(x.begin(), x.end()));
        EXPECT_EQ(fold(BinaryFn::Or), std::accumulate(x.begin(), x.end(), 0, std::bit_or<>()));
        EXPECT_EQ(fold(BinaryFn::And), std::accumulate(x.begin(), x.end(), -1, std::bit_and<>()));
        auto product = map<uint32_t>(f(), lanes, std::vector<uint32_t>(x.begin(), x.end()), [&](Expr v) {
            return broadcast(reduce_lanes(BinaryFn::Mul, v), lanes);
        })[0];
        EXPECT_EQ(product, std::accumulate(x.begin(), x.end(), 1u, std::multiplies<>()));
        auto reversed = map<int32_t>(f(), lanes, x, [](Expr v) { return reverse(v); });
        EXPECT_TRUE(std::equal(x.begin(), x.end(), reversed.rbegin()));
        auto moved = map<int32_t>(f(), lanes, x, [&](Expr v) {
            return insert(concat(slice(v, lanes / 2, lanes / 2), slice(v, 0, lanes / 2)), 1, extract(v, 0));
        });
        EXPECT_EQ(moved[0], x[static_cast<size_t>(lanes / 2)]);
        EXPECT_EQ(moved[1], x[0]);
        EXPECT_EQ(moved.back(), lanes == 2 ? x[0] : x[static_cast<size_t>(lanes / 2 - 1)]);
    }
    for (int n : {0, 5, 8}) {
        std::vector<int32_t> x{1, 1, 1, 1, 1, 1, 1, 1};
        std::fill_n(x.begin(), n, 0);
        auto count = [&](BinaryFn fn) {
            return map<int32_t>(f(), 8, x, [&](Expr v) {
                return broadcast(cast(reduce_lanes(fn, eq(v, like_int(v, 0))), DType::I32), 8);
            })[0];
        };
        EXPECT_EQ(count(BinaryFn::Or), n > 0);
        EXPECT_EQ(count(BinaryFn::And), n == 8);
    }
}

TEST_P(TargetCpuEmit, FirstLanesAtEveryWidth) {
    for (int lanes : {2, 4, 8, 16, 32, 64, 128, 256}) {
        Program q;
        Builder c(q);
        auto y = c.param("y", DType::U8, 0, Access::Write);
        c.function("f", [&] {
            c.store(y, c.i64(0), select(first_lanes(c.symbol("n"), lanes), c.literal(DType::U8, 1), c.literal(DType::U8, 0)));
        });
        auto m = compile_or_fail(q, f());
        std::vector<uint8_t> out(static_cast<size_t>(lanes));
        for (int64_t count : {int64_t{-5}, int64_t{0}, int64_t{1}, int64_t{lanes - 1}, int64_t{lanes}, int64_t{lanes + 1},
                              std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
            run(m, "f", {{out.data()}, {count}});
            for (int i = 0; i < lanes; ++i) ASSERT_EQ(out[static_cast<size_t>(i)], i < count) << lanes << " " << count;
        }
    }
}

std::string level_name(const testing::TestParamInfo<int>& i) {
    return std::string(name(machine_levels()[static_cast<size_t>(i.param)].level));
}
INSTANTIATE_TEST_SUITE_P(Levels, TargetCpuEmit, testing::Range(0, static_cast<int>(machine_levels().size())), level_name);

// ---- texts ----

TEST(TargetCpuObject, TextsForPeople) {
    Program p;
    Builder b(p);
    auto x = b.param("x", DType::F32, 0), y = b.param("y", DType::F32, 1);
    b.function("double_it", [&] { b.store(y, b.i64(0), b.load(x, b.i64(0), 4) + b.load(x, b.i64(0), 4)); });
    auto object = compile_object(p, *features_at(Level::Baseline), {.want_ir = true, .want_assembly = true});
    ASSERT_TRUE(object.ok());
    EXPECT_NE(object->ir.find("define void @double_it("), std::string::npos);
    EXPECT_NE(object->ir.find("fadd <4 x float>"), std::string::npos);
    EXPECT_NE(object->assembly.find("double_it:"), std::string::npos);
}

TEST(TargetCpuObject, DamagedCodeIsAnError) {
    EXPECT_FALSE(load_object("").ok());
    EXPECT_FALSE(load_object("not an object").ok());
    Program p;
    Builder b(p);
    b.function("f", [] {});
    auto object = compile_object(p, host_features());
    ASSERT_TRUE(object.ok());
    for (size_t cut : {size_t{10}, size_t{64}, object->code.size() / 2})
        EXPECT_FALSE(load_object(std::string_view(object->code).substr(0, cut)).ok()) << cut;
    EXPECT_TRUE(load_object(object->code).ok());
}

TEST(TargetCpuObject, FaultyProgramsAreRefused) {
    Program p;
    Builder b(p);
    auto x = b.param("x", DType::F32, 0, Access::Read);
    b.function("f", [&] { b.store(x, b.i64(0), b.f32(1)); });
    EXPECT_THROW((void)compile_object(p, host_features()), std::logic_error);
}

}  // namespace
}  // namespace opwright::target::cpu
