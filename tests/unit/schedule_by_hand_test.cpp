// A schedule that a person hands in: it changes the code and not the result, and its faults are named.
#include <gtest/gtest.h>

#include "derive/reference.h"
#include "lang/library.h"
#include "runtime/thread_pool.h"
#include "schedule/schedule.h"
#include "verify/cpu_target.h"
#include "verify/operator.h"

namespace opwright {
namespace {

math::Program declared(const std::string& source, const std::string& op) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"test.op", source})).ok());
    const auto p = library.elaborate_symbolic(op);
    EXPECT_TRUE(p.ok());
    return *p;
}
math::Program row_sum() {
    return declared("op row_sum(x[m,n]) -> y[m]:\n    y[m] = sum[n](x[m,n] * x[m,n])\n", "row_sum");
}
math::Program matmul() {
    return declared("op product(x[m,k], w[k,n]) -> y[m,n]:\n    y[m,n] = sum[k](x[m,k] * w[k,n])\n", "product");
}

std::string error_of(const math::Program& p, const std::string& schedule) {
    runtime::ThreadPool pool(1);
    const auto k = verify::cpu_target({.cache = false, .schedule = schedule}, pool)(p);
    EXPECT_FALSE(k.ok());
    return k.ok() ? "" : k.error().message;
}

TEST(ScheduleByHand, OtherLanesGiveTheSameResult) {
    runtime::ThreadPool pool(1);
    for (const char* plan : {R"({"lane": "n", "lanes": 4, "unroll": 1, "folded": true})",
                             R"({"lane": "n", "lanes": 2, "unroll": 8, "folded": true})", R"({})"}) {
        const std::string schedule =
            std::string(R"({"nests": [{"grid": [{"index": "m", "tile": 1}], "equations": [)") + plan + "]}]}";
        const verify::Report r =
            verify::check_program(row_sum(), verify::cpu_target({.cache = false, .schedule = schedule}, pool), {});
        EXPECT_TRUE(r.passed()) << plan << ": " << r.str();
        EXPECT_GT(r.cases, 10);
    }
}

TEST(ScheduleByHand, AnotherRegisterTileGivesTheSameResult) {
    runtime::ThreadPool pool(1);
    const std::string schedule =
        R"({"nests": [{"grid": [{"index": "m", "tile": 1}, {"index": "n", "tile": 1}],
                       "contract": {"mr": 3, "nv": 1, "lanes": 4, "mt": 6, "nt": 8, "kc": 5}}]})";
    const verify::Report r =
        verify::check_program(matmul(), verify::cpu_target({.cache = false, .schedule = schedule}, pool), {});
    EXPECT_TRUE(r.passed()) << r.str();
}

TEST(ScheduleByHand, FaultsAreNamed) {
    EXPECT_EQ(error_of(row_sum(), "{"), "The schedule is not valid JSON.");
    EXPECT_EQ(error_of(row_sum(), R"({"nests": []})"),
              "The schedule's \"nests\" must be a list of 1 nests, one for each nest of row_sum.");
    EXPECT_EQ(error_of(row_sum(), R"({"nests": [{"grid": [{"index": "q", "tile": 1}]}]})"),
              "In nest 0 of the schedule: there is no index \"q\"; the indices are m, n.");
    EXPECT_EQ(error_of(row_sum(), R"({"nests": [{"grid": [{"index": "m", "tile": 1}], "lanes": 3}]})"),
              "In the schedule, nest 0 has a field \"lanes\", which is unknown.");
    const auto equation = [](const std::string& e, int tile = 1) {
        return R"({"nests": [{"grid": [{"index": "m", "tile": )" + std::to_string(tile) + R"(}], "equations": [)" + e +
               "]}]}";
    };
    EXPECT_EQ(error_of(row_sum(), equation(R"({"lane": "n", "lanes": 6, "folded": true})")),
              "In nest 0 of the schedule: \"lanes\" must be a power of two, and is 6.");
    EXPECT_EQ(
        error_of(row_sum(), equation(R"({"lane": "n", "lanes": 4})")),
        "y can't run on lanes along n: its points along that index depend on each other, or it has no such index.");
    EXPECT_EQ(error_of(row_sum(), equation(R"({"lane": "m", "lanes": 8})", 4)),
              "y can't run on lanes along m: a task covers 4 points of it.");
    EXPECT_EQ(error_of(row_sum(), equation(R"({"lane": "m", "lanes": 8, "folded": true})")),
              "y can't run on lanes along m with partial results: no reduction of a plain equation runs along it.");
    EXPECT_EQ(error_of(row_sum(), equation(R"({"lane": "n", "lanes": 1, "folded": true})")),
              "y can't run on lanes along n: 1 is no number of lanes.");
    EXPECT_EQ(error_of(matmul(), R"({"nests": [{"grid": [{"index": "m", "tile": 1}, {"index": "n", "tile": 1}],
                                     "contract": {"mr": 40, "nv": 4, "lanes": 4, "mt": 40, "nt": 16, "kc": 8}}]})")
                  .substr(0, 63),
              "The register tile 40x16 of y needs 165 vector registers, but th");
}

// The default for a constant extent below a vector's width: one task of that many points.
TEST(ScheduleByHand, RowsShorterThanAVectorRun) {
    runtime::ThreadPool pool(1);
    for (const char* n : {"1", "2", "3", "5", "15"}) {
        const auto p = declared(
            std::string("op f(x[m,") + n + "], b[" + n + "]) -> y[m," + n + "]:\n    y[m,i] = x[m,i] + b[i]\n", "f");
        const auto k = verify::cpu_target({.cache = false}, pool)(p);
        EXPECT_TRUE(k.ok()) << n << ": " << k.error().message;
    }
}

}  // namespace
}  // namespace opwright
