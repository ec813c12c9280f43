// What the planner counts once for each form of a program: the form is its text and its sizes.
#include <gtest/gtest.h>

#include "fuse/state.h"
#include "lang/library.h"

namespace opwright::fuse {
namespace {

math::Program declared(const std::string& source) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"test.op", source})).ok());
    const auto p = library.elaborate_symbolic("f");
    EXPECT_TRUE(p.ok());
    return *p;
}

TEST(FuseWork, IsCountedOnceForEachTextAndSize) {
    const Options options;
    State s(graph::Graph{}, options);
    s.sizes = {{"m", 4}, {"n", 1000}, {"k", 1000}};
    const math::Program m = declared("op f(x[m]) -> y[m]:\n    y[m] = x[m] + 1\n"), n = declared("op f(x[n]) -> y[n]:\n    y[n] = x[n] + 1\n"),
                        k = declared("op f(a[k]) -> b[k]:\n    b[k] = a[k] + 1\n"), other = declared("op f(x[n]) -> y[n]:\n    y[n] = exp(x[n])\n");
    for (const math::Program* p : {&m, &n, &k, &other, &m}) {
        const ProgramWork got = s.work(*p), want = program_work(*p, s.sizes, s.machine.together);
        EXPECT_EQ(got.points, want.points);
        EXPECT_EQ(got.simple, want.simple);
        EXPECT_EQ(got.special, want.special);
    }
    EXPECT_NE(s.work(m).points, s.work(n).points);
    EXPECT_NE(s.work(n).special, s.work(other).special);
    EXPECT_EQ(&s.work(n), &s.work(k));  // alike up to names
}

}  // namespace
}  // namespace opwright::fuse
