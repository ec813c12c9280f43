// Rows in a pipeline: one loop for all walks of a nest, each at a row of its own.
#include <algorithm>
#include <cmath>

#include "target_cpu_operator.h"

namespace opwright::target::cpu {
namespace {

// The loops of the operator `f` for f32 rows of an open length, the first of so many inputs.
std::string loops(const std::string& source, size_t inputs = 1) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<Source>(Source{"test", source})).ok());
    std::vector<math::Sym> shape{math::Sym::symbol("a"), math::Sym::symbol("b")};
    if (source.find("x[b,") != std::string::npos) shape.insert(shape.begin(), math::Sym::symbol("c"));
    std::vector<lang::Argument> x(1, {DType::F32, shape, true});
    for (size_t i = 1; i < inputs; ++i) x.push_back({DType::F32, {math::Sym::symbol("b")}, true});
    auto elaborated = library.elaborate("f", x, {});
    if (!elaborated.ok()) {
        ADD_FAILURE() << render(elaborated.error());
        return {};
    }
    const math::Localised l = math::localise(*elaborated);
    const Request request{.program = &l.program, .constant_inputs = std::vector<bool>(inputs), .keep_text = true};
    auto k = compile(std::span(&request, 1), {.cache = false});
    EXPECT_TRUE(k[0].ok());
    return k[0].ok() ? (*k[0])->text("loop") : "";
}
bool pipelined(const std::string& text) { return text.find("for turn in") != std::string::npos; }

// Three walks: an extreme; what is kept of the row, and its sum; what is written. Of whole numbers, so that sums are exact; the
// exponential, of 0, is work beside which others move data.
const char* kThree = "op f(x[b,m,n]) -> y[b,m,n]:\n    a[b,m] = max[n](x[b,m,n])\n    e[b,m,n] = (a[b,m] - x[b,m,n]) * exp((a[b,m] - x[b,m,n]) * 0)\n"
                     "    s[b,m] = sum[n](e[b,m,n])\n    y[b,m,n] = e[b,m,n] - 2 * s[b,m]\n";

void expect_three(const Tensor& x, const Tensor& y, int64_t n, const std::string& what) {
    for (int64_t r = 0; r < x.size() / n; ++r) {
        double most = x.get(r * n), sum = 0;
        for (int64_t i = 0; i < n; ++i) most = std::max(most, x.get(r * n + i));
        for (int64_t i = 0; i < n; ++i) sum += most - x.get(r * n + i);
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y.get(r * n + i), most - x.get(r * n + i) - 2 * sum) << what << " at " << r << ", " << i;
    }
}

// A number that the first walk makes is read by all later ones.
TEST(CpuPipeline, NumbersOfSeveralTurnsAgo) {
    const std::string source = "op f(x[m,n]) -> y[m,n]:\n    a[m] = max[n](x[m,n])\n    s[m] = sum[n]((x[m,n] - a[m]) * exp(x[m,n] * 0))\n"
                               "    t[m] = max[n](a[m] - x[m,n] - s[m])\n    y[m,n] = x[m,n] + a[m] + 3 * s[m] + t[m]\n";
    EXPECT_TRUE(pipelined(loops(source)));
    const int64_t m = 9;
    for (const std::string& level : levels())
        for (int64_t n : {132, 320, 777}) {
            const Tensor x = numbers(DType::F32, {m, n}, 3), y = run_operator(source, {x}, {m, n}, level);
            for (int64_t r = 0; r < m; ++r) {
                const float* row = x.as<float>() + r * n;
                const float a = *std::max_element(row, row + n), least = *std::min_element(row, row + n);
                float s = 0;
                for (int64_t i = 0; i < n; ++i) s += row[i] - a;
                for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y.as<float>()[r * n + i], row[i] + a + 3 * s + (a - least - s)) << level << " n " << n << " at " << r << ", " << i;
            }
        }
}

// From fewer rows than walks on, of lengths around the loops' steps; several groups of rows.
TEST(CpuPipeline, EveryNumberOfRowsAndEveryRest) {
    EXPECT_TRUE(pipelined(loops(kThree)));
    for (const std::string& level : levels())
        for (DType type : {DType::F32, DType::F64})
            for (const auto& [b, m] : {std::pair<int64_t, int64_t>{1, 1}, {1, 2}, {1, 3}, {2, 4}, {3, 11}, {0, 5}})
                for (int64_t n : {1, 63, 64, 65, 130, 200, 257, 1000}) {
                    const Tensor x = numbers(type, {b, m, n}, static_cast<uint64_t>(n + m));
                    expect_three(x, run_operator(kThree, {x}, {b, m, n}, level), n,
                                 level + " " + std::string(name(type)) + " " + std::to_string(b) + "x" + std::to_string(m) + "x" + std::to_string(n));
                }
}

// Results of 16 MB and more go past the caches, from the first line of each row on.
TEST(CpuPipeline, RowsThatBeginAnywhereInALinePastTheCaches) {
    for (const std::string& level : levels())
        for (const auto& [m, n] : {std::pair<int64_t, int64_t>{4301, 1003}, {4100, 1024}, {21, 200003}}) {
            const Tensor x = numbers(DType::F32, {1, m, n}, 1);
            const Tensor y = run_operator(kThree, {x}, {1, m, n}, level);
            if (n < 2000) {
                expect_three(x, y, n, level);
                continue;
            }
            for (int64_t r = 0; r < m; ++r) {  // the sums of longer rows are rounded: within a row all differ by what is exact
                const float* row = x.as<float>() + r * n;
                const float most = *std::max_element(row, row + n);
                double sum = 0;
                for (int64_t i = 0; i < n; ++i) sum += most - row[i];
                for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(y.as<float>()[r * n + i], most - row[i] - 2 * sum, 4) << level << " at " << r << ", " << i;
            }
        }
}

// A row's result does not depend on what is computed beside it.
TEST(CpuPipeline, ARowIsTheSameToTheBitWhereverItStands) {
    const std::string source = "op f(x[m,n]) -> y[m,n]:\n    y = softmax(x; axes = [1])\n";
    const int64_t m = 9;
    for (const std::string& level : levels())
        for (int64_t n : {131, 500, 1111}) {
            Tensor x = numbers(DType::F32, {m, n}, 5);
            for (int64_t i = 0; i < m * n; ++i) x.as<float>()[i] *= 0.0371f;
            const Tensor all = run_operator(source, {x}, {m, n}, level);
            for (int64_t r = 0; r < m; ++r) {
                Tensor row(DType::F32, {1, n});
                std::memcpy(row.data(), x.as<float>() + r * n, row.bytes());
                const Tensor alone = run_operator(source, {row}, {1, n}, level);
                EXPECT_EQ(std::memcmp(alone.data(), all.as<float>() + r * n, row.bytes()), 0) << level << " n " << n << " row " << r;
            }
        }
}

// One NaN is that of its row alone.
TEST(CpuPipeline, NanStaysInItsRow) {
    const std::string source = "op f(x[m,n]) -> y[m,n]:\n    y = softmax(x; axes = [1])\n";
    const int64_t m = 12, n = 300;
    Tensor x = numbers(DType::F32, {m, n}, 5);
    for (int64_t r = 0; r < m; r += 4) x.as<float>()[r * n + 7 * r] = NAN;
    for (const std::string& level : levels()) {
        const Tensor y = run_operator(source, {x}, {m, n}, level);
        for (int64_t i = 0; i < m * n; ++i) ASSERT_EQ(std::isnan(y.as<float>()[i]), i / n % 4 == 0) << level << " at " << i / n << ", " << i % n;
    }
}

// Numbers of a row that are results too, a row of scales, and more rows side by side than the second cache delivers in time.
TEST(CpuPipeline, NumbersThatAreResults) {
    const std::string body = "    c[m] = max[n](x[m,n])\n    v[m] = max[n]((x[m,n] - c[m]) * (x[m,n] - c[m]))\n"
                             "    y[m,n] = (x[m,n] - c[m]) * s[n] + t[n] - v[m]\n";
    const auto with = [&](const std::string& results) { return "op f(x[m,n], s[n], t[n]) -> " + results + ":\n" + body; };
    const std::string row_first = with("(y[m,n], c[m], v[m])"), number_first = with("(c[m], v[m], y[m,n])"), row_alone = with("y[m,n]");
    EXPECT_TRUE(pipelined(loops(row_first, 3)));
    EXPECT_TRUE(pipelined(loops(row_alone, 3)));
    const int64_t m = 10;
    for (const std::string& level : levels())
        for (int64_t n : {150, 700, 5000}) {
            const Tensor x = numbers(DType::F32, {m, n}, 1), s = numbers(DType::F32, {n}, 2), t = numbers(DType::F32, {n}, 3);
            const Tensor c = run_operator(number_first, {x, s, t}, {m}, level);
            for (const std::string& source : {row_first, row_alone}) {
                const Tensor y = run_operator(source, {x, s, t}, {m, n}, level);
                for (int64_t r = 0; r < m; ++r) {
                    const float* row = x.as<float>() + r * n;
                    const float most = *std::max_element(row, row + n), least = *std::min_element(row, row + n);
                    EXPECT_EQ(c.as<float>()[r], most) << level << " n " << n << " at " << r;
                    for (int64_t i = 0; i < n; ++i)
                        ASSERT_EQ(y.as<float>()[r * n + i], (row[i] - most) * s.as<float>()[i] + t.as<float>()[i] - (least - most) * (least - most))
                            << level << " n " << n << " at " << r << ", " << i;
                }
            }
        }
}

TEST(CpuPipeline, RowsThatReadNothingOfTheirOwn) {
    const std::string source = "op f(x[m], z[n]) -> y[m,n]:\n    s[m] = sum[n](exp(x[m] * 0) * cast(n, f32))\n    y[m,n] = s[m] + cast(n, f32)\n";
    for (const std::string& level : levels())
        for (int64_t n : {130, 300}) {
            const Tensor y = run_operator(source, {numbers(DType::F32, {10}, 1), numbers(DType::F32, {n}, 2)}, {10, n}, level);
            for (int64_t i = 0; i < 10 * n; ++i) ASSERT_EQ(y.as<float>()[i], static_cast<float>(n * (n - 1) / 2 + i % n)) << level << " n " << n << " at " << i;
        }
}

TEST(CpuPipeline, WhatIsTakenAndWhatIsNot) {
    EXPECT_TRUE(pipelined(loops("op f(x[m,n]) -> y[m,n]:\n    y = softmax(x; axes = [1])\n")));
    EXPECT_TRUE(pipelined(loops("op f(x[m,n]) -> y[m,n]:\n    y = log_softmax(x; axes = [1])\n")));
    EXPECT_FALSE(pipelined(loops("op f(x[m,n]) -> y[m]:\n    y[m] = sum[n](exp(x[m,n]))\n"))) << "one walk";
    EXPECT_FALSE(pipelined(loops("op f(x[m,n]) -> y[n]:\n    y[n] = sum[m](exp(x[m,n]))\n"))) << "rows are folded into each other";
}

// A row that is kept for longer than one turn, or read elsewhere than where it was written, has no room in a pipeline.
TEST(CpuPipeline, KeptRowsAreReadByTheNextWalkAtTheSamePlace) {
    const std::string later = "op f(x[m,n]) -> y[m,n]:\n    e[m,n] = exp(x[m,n] * 0) * abs(x[m,n])\n    s[m] = sum[n](e[m,n])\n"
                              "    t[m] = sum[n](x[m,n] - s[m])\n    y[m,n] = e[m,n] - t[m]\n";
    const std::string turned = "op f(x[m,n]) -> y[m,n]:\n    e[m,n] = exp(x[m,n] * 0) * abs(x[m,n])\n    s[m] = sum[n](e[m,n])\n"
                               "    y[m,n] = e[m,size(n) - 1 - n] - s[m]\n";
    EXPECT_FALSE(pipelined(loops(later)));
    EXPECT_FALSE(pipelined(loops(turned)));
    const int64_t m = 10;
    for (const std::string& level : levels())
        for (int64_t n : {140, 300}) {
            const Tensor x = numbers(DType::F32, {m, n}, 9);
            const Tensor y = run_operator(later, {x}, {m, n}, level), z = run_operator(turned, {x}, {m, n}, level);
            for (int64_t r = 0; r < m; ++r) {
                const float* row = x.as<float>() + r * n;
                float s = 0, t = 0;
                for (int64_t i = 0; i < n; ++i) s += std::abs(row[i]);
                for (int64_t i = 0; i < n; ++i) t += row[i] - s;
                for (int64_t i = 0; i < n; ++i) {
                    ASSERT_EQ(y.as<float>()[r * n + i], std::abs(row[i]) - t) << level << " at " << r << ", " << i;
                    ASSERT_EQ(z.as<float>()[r * n + i], std::abs(row[n - 1 - i]) - s) << level << " at " << r << ", " << i;
                }
            }
        }
}

}  // namespace
}  // namespace opwright::target::cpu
