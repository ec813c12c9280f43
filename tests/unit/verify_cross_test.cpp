// Ways of running an operator that must agree, and the schedules that are tried.
#include "verify/cross.h"

#include <gmock/gmock.h>

#include <set>

namespace opwright::verify {
namespace {

TEST(VerifyCross, WaysOfRunningAgree) {
    CrossOptions o;
    o.sizes = 3;
    o.max_work = 1 << 12;
    o.schedules = 24;
    o.targets = {"c"};
    for (const char* op : {"softmax", "matmul", "reduce_sum", "relu", "add"}) {
        const auto lines = cross_check(lang::Library::standard(), op, o);
        ASSERT_TRUE(lines.ok()) << op << ": " << lines.error().message;
        std::set<std::string> names;
        for (const CrossLine& l : *lines) {
            EXPECT_TRUE(l.passed) << op << ": " << l.name << ": " << l.text;
            if (l.run) names.insert(l.name);
        }
        EXPECT_TRUE(names.count("threads") && names.count("repeated") && names.count("schedules") &&
                    names.count("cache"))
            << op;
        if (std::string(op) == "softmax") { EXPECT_TRUE(names.count("fusion")); }
    }
    EXPECT_FALSE(cross_check(lang::Library::standard(), "no_such_operator", o).ok());
}

TEST(VerifyCross, SchedulesDifferInOneField) {
    const std::string text = R"({"operator": "f", "nests": [{"grid": [{"index": "i", "tile": 64}],
        "equations": [{"value": "y", "lane": "i", "lanes": 8, "unroll": 4}]}]})";
    const auto all = schedule_variants(text, 100);
    EXPECT_GT(all.size(), 10u);
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
    EXPECT_THAT(all, testing::Contains(testing::HasSubstr(R"("unroll":2)")));
    EXPECT_THAT(all, testing::Contains(testing::HasSubstr(R"({"value":"y"})")));  // scalar code
    EXPECT_EQ(schedule_variants(text, 5).size(), 5u);
    EXPECT_TRUE(schedule_variants("no JSON", 5).empty());
}

}  // namespace
}  // namespace opwright::verify
