// Access to memory: what is turned in registers, what goes past the caches, what is asked for ahead.
#include "target_cpu_operator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "loop/print.h"
#include "target/cpu/cpu.h"
#include "target/cpu/lower/lower.h"
#include "target/cpu/plan.h"
#include "tile/apply.h"

namespace opwright::target::cpu {
namespace {
using namespace math;

TEST(CpuMemory, TransposesOfEveryWidthOfElement) {
    const std::string source = "op f(x[m,n]) -> y[n,m]:\n    y[n,m] = x[m,n]\n";
    for (const std::string& level : levels())
        for (DType t : {DType::U8, DType::I16, DType::BF16, DType::F16, DType::F32, DType::I64, DType::F64})
            for (const auto& [m, n] : {std::pair<int64_t, int64_t>{67, 131}, {1041, 66}, {300, 7}}) {
                const Tensor x = numbers(t, {m, n}, 1);
                const Tensor y = run_operator(source, {x}, {n, m}, level);
                for (int64_t i = 0; i < n * m; ++i)
                    ASSERT_EQ(y.get(i), x.get(i % m * n + i / m)) << level << " " << name(t) << " " << m << "x" << n << " at " << i;
            }
}

// Two tensors read across the lanes, one along them and one that is the same for all of them.
TEST(CpuMemory, ArithmeticOnTransposedReads) {
    const std::string source =
        "op f(x[m,n], w[m,n], z[n,m], b[n]) -> y[n,m]:\n    y[n,m] = x[m,n] * z[n,m] + w[m,n] - b[n]\n";
    for (const std::string& level : levels())
        for (const auto& [m, n] : {std::pair<int64_t, int64_t>{70, 200}, {1100, 65}}) {
            const Tensor x = numbers(DType::F32, {m, n}, 1), w = numbers(DType::F32, {m, n}, 2),
                         z = numbers(DType::F32, {n, m}, 3), b = numbers(DType::F32, {n}, 4);
            const Tensor y = run_operator(source, {x, w, z, b}, {n, m}, level);
            for (int64_t i = 0; i < n * m; ++i) {
                const int64_t at = i % m * n + i / m;
                ASSERT_EQ(y.get(i), x.get(at) * z.get(i) + w.get(at) - b.get(i / m)) << level << " at " << i;
            }
        }
}

TEST(CpuMemory, TransposedReadsOutsideAreWhatTheAccessSays) {
    const std::string source = "op f(x[m,n]) -> y[n,m]:\n    y[n,m] = x[m,n] + x[m + 3, n + 2] outside (7)\n";
    for (const std::string& level : levels()) {
        const int64_t m = 75, n = 150;
        const Tensor x = numbers(DType::F32, {m, n}, 1), y = run_operator(source, {x}, {n, m}, level);
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < m; ++j)
                ASSERT_EQ(y.get(i * m + j), x.get(j * n + i) + (i + 2 < n && j + 3 < m ? x.get((j + 3) * n + i + 2) : 7)) << level << " at " << i << ", " << j;
    }
}

// Rows that begin anywhere in a line, of results beyond 16 MB: the vectors between their ends go past the caches.
TEST(CpuMemory, LargeResultsStreamFromUnevenRows) {
    const int64_t m = 4301, n = 1003;
    const Tensor x = numbers(DType::F32, {m, n}, 1), b = numbers(DType::F32, {n}, 2);
    for (const std::string& level : levels()) {
        const Tensor y = run_operator("op f(x[m,n], b[n]) -> y[m,n]:\n    y[m,n] = 2 * x[m,n] + b[n]\n", {x, b}, {m, n}, level);
        for (int64_t i = 0; i < m * n; ++i)
            ASSERT_EQ(y.as<float>()[i], 2 * x.as<float>()[i] + b.as<float>()[i % n]) << level << " at " << i;
        const Tensor z = run_operator("op f(x[m,n]) -> y[m,n]:\n    c[m] = max[n](x[m,n])\n    s[m] = sum[n](x[m,n])\n"
                             "    y[m,n] = x[m,n] - c[m] + s[m]\n", {x}, {m, n}, level);
        for (int64_t i = 0; i < m; ++i) {
            const float* row = x.as<float>() + i * n;
            const float most = *std::max_element(row, row + n), sum = std::accumulate(row, row + n, 0.0f);  // exact: whole numbers
            for (int64_t j = 0; j < n; ++j)
                ASSERT_EQ(z.as<float>()[i * n + j], row[j] - most + sum) << level << " at " << i << ", " << j;
        }
        const Tensor t = run_operator("op f(x[m,n]) -> y[n,m]:\n    y[n,m] = x[m,n]\n", {x}, {n, m}, level);
        for (int64_t i = 0; i < n * m; ++i)
            ASSERT_EQ(t.as<float>()[i], x.as<float>()[i % m * n + i / m]) << level << " at " << i;
    }
}

// As above where the rows of the result are whole lines, which a transpose needs to bypass the caches.
TEST(CpuMemory, LargeTransposesStream) {
    const int64_t m = 2048, n = 2051;
    const Tensor x = numbers(DType::F32, {m, n}, 1);
    for (const std::string& level : levels()) {
        const Tensor y = run_operator("op f(x[m,n]) -> y[n,m]:\n    y[n,m] = x[m,n]\n", {x}, {n, m}, level);
        for (int64_t i = 0; i < n * m; ++i)
            ASSERT_EQ(y.as<float>()[i], x.as<float>()[i % m * n + i / m]) << level << " at " << i;
    }
}

// Rows of the result that begin anywhere in a line: blocks are turned in the caches and leave by whole lines.
TEST(CpuMemory, LargeTransposesStreamToUnevenRows) {
    for (const std::string& level : levels()) {
        const int64_t m = 2051, n = 1030;
        const Tensor x = numbers(DType::F64, {m, n}, 1);
        const Tensor y = run_operator("op f(x[m,n]) -> y[n,m]:\n    y[n,m] = 2 * x[m,n] + 1\n", {x}, {n, m}, level);
        for (int64_t i = 0; i < n * m; ++i)
            ASSERT_EQ(y.as<double>()[i], 2 * x.as<double>()[i % m * n + i / m] + 1) << level << " at " << i;
        const int64_t b = 3, p = 1201, q = 1203;
        const Tensor u = numbers(DType::F32, {b, p, q}, 2);
        const Tensor v = run_operator("op f(x[b,m,n]) -> y[b,n,m]:\n    y[b,n,m] = x[b,m,n]\n", {u}, {b, q, p}, level);
        for (int64_t i = 0; i < b * p * q; ++i)
            ASSERT_EQ(v.as<float>()[i], u.as<float>()[i / (p * q) * p * q + i % p * q + i / p % q]) << level << " at " << i;
    }
}

TEST(CpuMemory, SumsAcrossRows) {
    for (const std::string& level : levels())
        for (const auto& [m, n] : {std::pair<int64_t, int64_t>{37, 4500}, {1000, 65}, {17, 2049}, {3, 100}}) {
            const Tensor x = numbers(DType::F32, {m, n}, 1);
            const Tensor y = run_operator("op f(x[m,n]) -> y[n]:\n    y[n] = sum[m](x[m,n])\n", {x}, {n}, level);
            for (int64_t j = 0; j < n; ++j) {
                float want = 0;
                for (int64_t i = 0; i < m; ++i) want += x.as<float>()[i * n + j];
                ASSERT_EQ(y.as<float>()[j], want) << level << " " << m << "x" << n << " at " << j;
            }
        }
}

// Extremes of rows look for NaN apart from the numbers: wherever it stands, and whichever zero does.
TEST(CpuMemory, ExtremesOfRowsKeepNanAndTheSignsOfZeros) {
    const std::string source = "op f(x[m,n]) -> y[m]:\n    y[m] = ";
    for (const std::string& level : levels())
        for (int64_t n : {1, 5, 16, 17, 64, 67, 200}) {
            Tensor x(DType::F32, {2 * n + 2, n});
            for (int64_t i = 0; i < x.size(); ++i) x.as<float>()[i] = -0.0f;
            for (int64_t i = 0; i < n; ++i) {
                x.as<float>()[i * n + i] = NAN;        // row i: one NaN among zeros
                x.as<float>()[(n + i) * n + i] = 0.0f;  // row n + i: one +0 among -0
            }
            for (int64_t i = 0; i < n; ++i) x.as<float>()[2 * n * n + i] = -INFINITY;  // then infinities; then -0 alone
            for (const bool max : {true, false}) {
                const Tensor y = run_operator(source + (max ? "max" : "min") + "[n](x[m,n])\n", {x}, {2 * n + 2}, level);
                for (int64_t i = 0; i < n; ++i) {
                    EXPECT_TRUE(std::isnan(y.as<float>()[i])) << level << " n " << n << " at " << i;
                    const float zero = y.as<float>()[n + i];
                    EXPECT_TRUE(zero == 0 && std::signbit(zero) == (!max && n > 1)) << level << " n " << n << " at " << i;
                }
                EXPECT_EQ(y.as<float>()[2 * n], -INFINITY) << level << " n " << n;
                EXPECT_TRUE(std::signbit(y.as<float>()[2 * n + 1])) << level << " n " << n;
            }
        }
}

// Short rows go several at a time: what is one number of a row, read, computed and written, is on lanes then.
TEST(CpuMemory, ShortRowsSideBySide) {
    const std::string source = "op f(x[b,m,n], c[m]) -> y[b,m,n]:\n    a[b,m] = max[n](x[b,m,n])\n"
                               "    e[b,m,n] = x[b,m,n] - a[b,m]\n    s[b,m] = sum[n](e[b,m,n] * x[b,m,n])\n"
                               "    t[b,m] = s[b,m] + c[m]\n    y[b,m,n] = e[b,m,n] + t[b,m]\n";
    const std::string numbers_alone = "op f(x[b,m,n], c[m]) -> z[b,m]:\n    a[b,m] = max[n](x[b,m,n])\n"
                                      "    z[b,m] = sum[n]((x[b,m,n] - a[b,m]) * x[b,m,n]) + c[m]\n";
    for (const std::string& level : levels())
        for (DType type : {DType::F32, DType::F64, DType::I32})
            for (const auto& [b, m] : {std::pair<int64_t, int64_t>{3, 13}, {2, 19}})
                for (int64_t n : {1, 33, 64, 129}) {
                    const Tensor x = numbers(type, {b, m, n}, static_cast<uint64_t>(n)), c = numbers(type, {m}, 2);
                    const Tensor y = run_operator(source, {x, c}, {b, m, n}, level), z = run_operator(numbers_alone, {x, c}, {b, m}, level);
                    for (int64_t r = 0; r < b * m; ++r) {
                        double most = x.get(r * n), sum = c.get(r % m);
                        for (int64_t i = 0; i < n; ++i) most = std::max(most, x.get(r * n + i));
                        for (int64_t i = 0; i < n; ++i) sum += (x.get(r * n + i) - most) * x.get(r * n + i);
                        ASSERT_EQ(z.get(r), sum) << level << " " << name(type) << " " << b << "x" << m << "x" << n << " at " << r;
                        for (int64_t i = 0; i < n; ++i)
                            ASSERT_EQ(y.get(r * n + i), x.get(r * n + i) - most + sum)
                                << level << " " << name(type) << " " << b << "x" << m << "x" << n << " at " << r << ", " << i;
                    }
                }
}

// Where rows are divided by a number of theirs, a reciprocal may serve: every quotient is correctly rounded all the same.
TEST(CpuMemory, DivisionByARowsNumberIsExact) {
    const std::string source = "op f(x[m,n], c[m]) -> y[m,n]:\n    y[m,n] = x[m,n] / c[m]\n";
    const int64_t m = 3000, n = 1021;
    Tensor x(DType::F32, {m, n}), c(DType::F32, {m});
    std::mt19937_64 rng(3);
    const auto floats = [&](Tensor& t, int64_t i, int exponents) {  // any mantissa, about so many exponents around 0
        const auto e = static_cast<uint32_t>(127 - exponents / 2 + static_cast<int>(rng() % static_cast<uint64_t>(exponents)));
        const auto bits = static_cast<uint32_t>(rng() & 0x807fffff) | e << 23;
        std::memcpy(t.as<float>() + i, &bits, 4);
    };
    const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1.8p-130f, 0x1.fffffep127f, 1.0f, 0x1.fffffep0f};
    for (int64_t i = 0; i < m; ++i) {
        floats(c, i, i % 4 ? 20 : 250);
        if (i % 31 == 0) c.as<float>()[i] = special[i / 31 % 10];
        for (int64_t j = 0; j < n; ++j) {
            floats(x, i * n + j, i % 3 ? 40 : 254);
            if (i % 5 == 0 && j % 97 == 0) x.as<float>()[i * n + j] = special[j / 97 % 10];
        }
    }
    for (const std::string& level : levels()) {
        const Tensor y = run_operator(source, {x, c}, {m, n}, level);
        for (int64_t i = 0; i < m * n; ++i) {
            const float got = y.as<float>()[i], want = x.as<float>()[i] / c.as<float>()[i / n];
            ASSERT_TRUE(std::memcmp(&got, &want, 4) == 0 || (std::isnan(got) && std::isnan(want)))
                << level << " " << x.as<float>()[i] << " / " << c.as<float>()[i / n] << " gives " << got << ", not " << want;
        }
    }
}

// One NaN among several rows is that of its row alone; zeros keep their order.
TEST(CpuMemory, ExtremesOfRowsSideBySideKeepNanToTheirRow) {
    const std::string source = "op f(x[m,n]) -> y[m]:\n    y[m] = max[n](x[m,n])\n";
    for (const std::string& level : levels())
        for (int64_t n : {2, 16, 50, 128}) {
            const int64_t m = 35;
            Tensor x(DType::F32, {m, n});
            for (int64_t i = 0; i < m * n; ++i) x.as<float>()[i] = i / n % 2 ? -0.0f : static_cast<float>(i / n);
            for (int64_t r = 0; r < m; r += 3) x.as<float>()[r * n + r % n] = NAN;
            for (int64_t r = 1; r < m; r += 6) x.as<float>()[r * n + r % n] = 0.0f;
            const Tensor y = run_operator(source, {x}, {m}, level);
            for (int64_t r = 0; r < m; ++r) {
                const float v = y.as<float>()[r];
                if (r % 3 == 0) EXPECT_TRUE(std::isnan(v)) << level << " n " << n << " row " << r;
                else if (r % 2 == 0) EXPECT_EQ(v, static_cast<float>(r)) << level << " n " << n << " row " << r;
                else EXPECT_TRUE(v == 0 && std::signbit(v) == (r % 6 != 1)) << level << " n " << n << " row " << r;
            }
        }
}

// The second equation is folded in the walk that stores the first, which the third reads back.
TEST(CpuMemory, WhatAWalkStoresIsFoldedInIt) {
    const std::string source = "op f(x[m,n]) -> y[m,n]:\n    a[m] = max[n](x[m,n])\n    e[m,n] = x[m,n] - a[m]\n"
                               "    s[m] = sum[n](e[m,n] * x[m,n])\n    y[m,n] = e[m,n] + s[m]\n";
    for (const std::string& level : levels())
        for (int64_t n : {1, 3, 16, 31, 64, 100, 333}) {
            const Tensor x = numbers(DType::F32, {7, n}, static_cast<uint64_t>(n));
            const Tensor y = run_operator(source, {x}, {7, n}, level);
            for (int64_t m = 0; m < 7; ++m) {
                const float* row = x.as<float>() + m * n;
                const float most = *std::max_element(row, row + n);
                float sum = 0;  // whole numbers: exact
                for (int64_t i = 0; i < n; ++i) sum += (row[i] - most) * row[i];
                for (int64_t i = 0; i < n; ++i)
                    ASSERT_EQ(y.as<float>()[m * n + i], row[i] - most + sum) << level << " n " << n << " at " << m << ", " << i;
            }
        }
}

// Where prefetches stood among a loop's stores, its speed depended on where its code lay.
TEST(CpuMemory, WhatIsAskedForAheadComesFirstInALoop) {
    lang::Library library;
    ASSERT_TRUE(library.add(std::make_shared<Source>(Source{"test", "op f(x[i]) -> y[i]:\n    y[i] = exp(x[i]) * x[i]\n"})).ok());
    const std::vector<lang::Argument> x{{DType::F32, {Sym::symbol("n")}, true}};
    auto elaborated = library.elaborate("f", x, {});
    ASSERT_TRUE(elaborated.ok());
    const Localised l = localise(*elaborated);
    const Request request{.program = &l.program, .constant_inputs = {false}, .keep_text = true};
    for (const std::string& level : levels()) {
        auto k = compile(std::span(&request, 1), {.level = level, .cache = false});
        ASSERT_TRUE(k[0].ok());
        std::istringstream text((*k[0])->text("llvm"));
        int blocks = 0;
        bool loaded = false;
        for (std::string line; std::getline(text, line);) {
            if (line.find("call void @llvm.prefetch") != std::string::npos) {
                ++blocks;
                EXPECT_FALSE(loaded) << level;
            }
            loaded = line.find(":  ") == std::string::npos && (loaded || line.find(" = load <") != std::string::npos);
        }
        EXPECT_GT(blocks, 0) << level;
    }
}

// The loops of an operator on x[m,n], for a processor that has vectors of 64 bytes or this one's.
std::string loops(const std::string& operation, bool every_line) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<Source>(Source{"test", "op f(x[m,n]) -> " + operation + "\n"})).ok());
    const auto elaborated = library.elaborate("f", {{DType::F32, {Sym::symbol("m"), Sym::symbol("n")}, true}}, {});
    EXPECT_TRUE(elaborated.ok());
    const Localised l = localise(*elaborated);
    const Request request{.program = &l.program, .constant_inputs = {false}};
    Features f = host_features();
    f.vector_bytes = 64;
    f.registers = 32;
    f.every_line = every_line;
    const Planned p = plan(request, f);
    const auto tiles = tile::apply(p.kernel, p.untuned, p.machine);
    EXPECT_TRUE(tiles.ok());
    return loop::print(lower(*tiles, p.machine).program);
}

size_t occurrences(const std::string& text, const std::string& what) {
    size_t n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
}

TEST(CpuMemory, FoldsAskForEveryLineOrForEverySecondOneFurtherAhead) {
    const std::string every = loops("y[m]:\n    y[m] = sum[n](x[m,n])", true), second = loops("y[m]:\n    y[m] = sum[n](x[m,n])", false);
    // Eight rows side by side, a step of four vectors, and one vector by itself.
    EXPECT_EQ(occurrences(every, "prefetch"), 8u + 4u + 1u);
    EXPECT_EQ(occurrences(second, "prefetch"), 4u + 2u + 1u);
    EXPECT_NE(every.find("2048"), std::string::npos);
    EXPECT_NE(second.find("8192"), std::string::npos);
}

// What follows in memory into the nearest cache, or the next row into the second one.
TEST(CpuMemory, RowsReadSeveralTimesAskAsTheProcessorReadsFastest) {
    const std::string operation = "y[m,n]:\n    c[m] = sum[n](x[m,n])\n    y[m,n] = x[m,n] - c[m]";
    const auto of_a_row = [&](bool every_line) {
        const std::string text = loops(operation, every_line);
        return text.substr(text.find("in together .. task_end"));
    };
    const std::string near = of_a_row(true), far = of_a_row(false);
    EXPECT_GT(occurrences(near, "prefetch x["), 0u);
    EXPECT_EQ(occurrences(near, "prefetch far"), 0u);
    EXPECT_NE(near.find("4096"), std::string::npos);
    EXPECT_GT(occurrences(far, "prefetch far x["), 0u);
    EXPECT_EQ(far.find("4096"), std::string::npos);
}

TEST(CpuMemory, RowsSideBySideAreAskedForInTheOrderOfMemory) {
    const std::string text = loops("y[m]:\n    y[m] = sum[n](x[m,n])", true);
    EXPECT_NE(text.find("let side: i64 = n + s1 * m + n * 7\n"), std::string::npos) << text;
    for (int row = 1; row < 8; ++row) EXPECT_NE(text.find("+ " + std::to_string(16 * row) + "]"), std::string::npos) << row;
}

TEST(CpuMemory, ShortRowsInTheCachesAskForNothing) {
    const std::string text = loops("y[m]:\n    y[m] = sum[n](x[m,n])", true);
    const size_t choice = text.find("if %ahead != 0:"), other = text.find("else:", choice), rest = text.find("for n in vectors_end", other);
    ASSERT_NE(rest, std::string::npos) << text;
    EXPECT_LT(text.find("prefetch", choice), other);
    EXPECT_GT(text.find("prefetch", other), rest);
}

TEST(CpuMemory, TransposesToRowsAPageApartGoByOneSquare) {
    const std::string text = loops("y[n,m]:\n    y[n,m] = x[m,n]", false);
    EXPECT_NE(text.find("% 2048 == 0, 16, 64)"), std::string::npos) << text;
    const Tensor x = numbers(DType::F32, {1024, 80}, 5);
    for (const std::string& level : levels()) {
        const Tensor y = run_operator("op f(x[m,n]) -> y[n,m]:\n    y[n,m] = x[m,n]\n", {x}, {80, 1024}, level);
        for (int64_t m = 0; m < 1024; ++m)
            for (int64_t n = 0; n < 80; ++n) ASSERT_EQ(y.get(n * 1024 + m), x.get(m * 80 + n)) << level << " " << m << " " << n;
    }
}

}  // namespace
}  // namespace opwright::target::cpu
