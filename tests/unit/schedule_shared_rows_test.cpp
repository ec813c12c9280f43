// Variables of one extent get one name in a nest, so that loops can be joined: but never two that live together.
#include <gtest/gtest.h>

#include "lang/library.h"
#include "runtime/thread_pool.h"
#include "verify/cpu_target.h"
#include "verify/operator.h"

namespace opwright::schedule {
namespace {

verify::Report checked(const std::string& source) {
    lang::Library library;
    const Status s = library.add(std::make_shared<const Source>(Source{"test.op", source}));
    EXPECT_TRUE(s.ok()) << (s.ok() ? "" : render(s.error()));
    const auto p = library.elaborate_symbolic("f");
    EXPECT_TRUE(p.ok()) << (p.ok() ? "" : render(p.error()));
    runtime::ThreadPool pool(1);
    return verify::check_program(*p, verify::cpu_target({.cache = false}, pool), {});
}

// The sum of a column names its variable before the map that has it beside another one of the same extent.
TEST(ScheduleSharedRows, DownTheColumnsAndThenAlongTheRowsOfASquare) {
    const verify::Report r = checked(
        "op f(x[b,n,n]) -> y[b,n,n]:\n    z = softmax(x; axes = [1])\n    y = softmax(z; axes = [2])\n");
    EXPECT_TRUE(r.passed()) << r.str();
}

}  // namespace
}  // namespace opwright::schedule
