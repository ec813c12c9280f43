// Declarations that once gave a wrong result, made small; random operators (random_programs_test.cpp) found them.
#include <gtest/gtest.h>

#include "lang/library.h"
#include "runtime/thread_pool.h"
#include "verify/cpu_target.h"
#include "verify/operator.h"
#include "verify/source_target.h"

namespace opwright::verify {
namespace {

struct Found {
    const char* name;
    const char* text;
};
constexpr Found kFound[] = {
    // Equations of different extents shared one loop, because the read of the one in the other folds back.
    {"a_temporary_read_at_other_points_than_it_has", R"(
op found(x: f32[n], o: f32[m]) -> y: f32[m, n]:
    i in 0..6
    t: f32[i] = x[2 * i] outside zero + 1
    y[p,q] = x[q] - t[p] outside wrap + o[p]
    example x = f32[9], o = f32[3]
    example x = f32[40], o = f32[17]
)"},
    // Where all reads are inside, the test of where an update goes was left out with theirs.
    {"an_update_that_leaves_where_reads_do_not", R"(
op found(x: f32[n, m], w: f32[6]) -> y: f32[n, 2]:
    u in 0..n
    y[p,q] = x[p,0] outside zero
    y[(u + 2) // 4,1 + (-2) * u] outside drop := w[u] outside wrap + x[u // 3,u] outside (2)
    example x = f32[25,21], w = f32[6]
)"},
    // The type of a conversion on the left was taken for an index.
    {"a_conversion_in_a_place", R"(
op found(x: f32[n], at: i32[m]) -> y: f32[n]:
    y[i] = x[i]
    y[cast(at[u], i64)] outside drop max= x[u] outside zero
    example x = f32[9], at = i32[5]
)"},
    // A variable of the second equation was taken for the one of the first that has the same name.
    {"a_variable_that_two_equations_use_for_different_dims", R"(
op found(x: f32[m], w: f32[2]) -> y: f32[m, m]:
    i in 0..5
    t: f32[i,p] = x[p] + cast(i, f32)
    y[p,q] = w[0] * t[p - 1,q] outside zero + cast(p, f32)
    example x = f32[4], w = f32[2]
    example x = f32[40], w = f32[2]
)"},
    // The test of an access beside a dim of extent 1 was left out with the dim.
    {"a_read_beside_a_dim_of_one_element", R"(
op found(x: f32[m], w: f32[2]) -> y: f32[m]:
    i in 0..1
    t: f32[i,p] = x[p] * w[0] + cast(i, f32)
    y[p] = t[3 * p - 1,p] outside zero + t[p,p] outside (2) * w[1]
    example x = f32[4], w = f32[2]
    example x = f32[40], w = f32[2]
)"},
    // Division of integers by what is known to be 0 only after the access is lowered.
    {"a_remainder_by_an_element_that_is_always_outside", R"(
op found(x: i32[n, n], w: i32[n]) -> y: i32[n]:
    y[i] = w[i] % x[i,-1] outside zero + w[i] // x[i,-1] outside zero + w[i] / x[i,-1] outside zero
    example x = i32[9,9], w = i32[9]
)"},
    // Quotients of the lane in two dims of stride 1, of which one was followed.
    {"quotients_of_a_lane_in_two_dims", R"(
op found(x: f32[m], w: f32[n, 1]) -> y: f32[8]:
    y[i] = w[(i + 3) // 2,i // 2] outside zero + cast(i, f32) * x[0]
    example x = f32[1], w = f32[0,1]
    example x = f32[1], w = f32[9,1]
)"},
    // A product that a zero makes 0 kept the sign that factors of unknown sign gave it in the reference.
    {"a_zero_among_factors_of_unknown_sign", R"(
op found(x: f32[n]) -> y: f32[]:
    i in 0..6
    y[] = prod[i](sin(x[i] outside zero * 0.75))
    example x = f32[1]
    example x = f32[5]
)"},
    // A temporary of one element, which C and CUDA hold as a scalar, was read for one beyond it.
    {"a_literal_index_beyond_a_temporary", R"(
op found(x: f32[n]) -> (y: f32[], z: f32[]):
    i in 0..1
    t: f32[i] = x[i] outside (5) + 1
    y[] = t[1] outside (2) + t[0]
    z[] = t[-1] outside zero - t[0]
    example x = f32[0]
    example x = f32[9]
)"},
};

TEST(FoundByRandom, IsRight) {
    runtime::ThreadPool pool(2);
    const auto c = target::find_target("c");
    ASSERT_TRUE(c.ok());
    for (const Found& f : kFound) {
        SCOPED_TRACE(f.name);
        lang::Library library;
        const Status read = library.add(std::make_shared<const Source>(Source{"found.op", f.text}));
        ASSERT_TRUE(read.ok()) << render(read.error());
        OperatorOptions o;
        o.types = {DType::F32};
        for (const Compile& target : {cpu_target({}, pool), source_target(**c)}) {
            const Report r = check_operator(library, "found", target, o);
            EXPECT_TRUE(r.passed()) << r.str();
        }
    }
}

}  // namespace
}  // namespace opwright::verify
