// What `explain --fusion` and `--why` tell of the planner's decisions.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "explain/fusion_report.h"
#include "fuse_net.h"

namespace opwright::fuse {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Compiled compiled(const graph::Graph& g, bool layouts = true) {
    runtime::ThreadPool pool(1);
    CompileOptions o;
    o.execution.cpu.cache = false;
    o.layouts = layouts;
    o.fusion.machine = typical_cpu(2, 64, 32);
    auto c = compile(g, o, pool);
    EXPECT_TRUE(c.ok());
    return std::move(c).value();
}
// Text as it was before it was broken into lines.
std::string flat(const std::string& text) {
    std::string r;
    for (char ch : text)
        if (ch != '\n' && ch != ' ') r += ch;
        else if (!r.empty() && r.back() != ' ') r += ' ';
    return r;
}
std::string why(const Compiled& c, const std::string& node) {
    const auto r = explain::why_fused(c, node);
    return r.ok() ? flat(*r) : r.error().message + " " + r.error().next;
}

TEST(ExplainFusion, TellsWhatSharesAKernelAndWhatDoesNot) {
    const Compiled c = compiled(small_net(1).g);
    EXPECT_THAT(why(c, "stem"), AllOf(HasSubstr("stem and first are one kernel: that saves"),
                                      HasSubstr("stem is followed in the same loops by first"),
                                      HasSubstr("expand is not in it because of first, whose result it reads: ")));
    EXPECT_THAT(why(c, "deep"), HasSubstr("depthwise and deep are one kernel"));
    EXPECT_THAT(why(c, "last"), HasSubstr("last is a kernel of its own, predicted to take"));
}

TEST(ExplainFusion, AViewNeedsNoKernel) {
    Draft d;
    const ValueId x = d.in("x", {4, 6}), a = d.unary("a", Fn::Exp, x);
    d.g.outputs = {d.view("flat", a, {24}), a};
    EXPECT_THAT(why(compiled(d.g), "flat"), HasSubstr("flat only says the shape anew: it needs no kernel."));
}

TEST(ExplainFusion, ANameThatIsNone) {
    const Compiled c = compiled(small_net(1).g);
    EXPECT_EQ(why(c, "depthwsie"), "No kernel holds an operator named 'depthwsie'. Did you mean 'depthwise'?");
    EXPECT_THAT(why(c, "something else"), HasSubstr("--level graph` lists the others."));
}

TEST(ExplainFusion, APartOfANameThatOneOperatorHas) {
    const Compiled c = compiled(small_net(1).g);
    EXPECT_EQ(why(c, "pthwi"), why(c, "depthwise"));
    EXPECT_THAT(why(c, "st"), AllOf(HasSubstr("No kernel holds an operator named 'st'. "), HasSubstr("3 names hold it: stem, first, last.")));
}

TEST(ExplainFusion, WhatRunsOnceIsNoKernelOfARun) {
    Draft d;
    const ValueId x = d.in("x", {64, 512}), c = d.constant("c", counted({512, 512}));
    d.g.outputs = {d.matmul("product", x, d.unary("exp", Fn::Exp, c))};
    EXPECT_THAT(flat(explain::fusion_text(compiled(d.g))), AllOf(HasSubstr("1 kernel remains, predicted to take"), HasSubstr("; 1 more run once, on constants")));
}

TEST(ExplainFusion, TellsOfLayouts) {
    const Compiled c = compiled(small_net(1).g), plain = compiled(small_net(1).g, false);
    EXPECT_THAT(flat(explain::fusion_text(c)), AllOf(HasSubstr("layouts - first and 3 more values between kernels: channels last takes"),
                                                     HasSubstr("of them have their channels last now."),
                                                     HasSubstr("Kernels that read one layout and write the other")));
    EXPECT_THAT(why(c, "deep"), HasSubstr("- its result has its channels last, as"));
    EXPECT_THAT(why(plain, "deep"), Not(HasSubstr("channels last")));
    EXPECT_THAT(flat(explain::fusion_text(plain)), Not(HasSubstr("layouts")));

    const nlohmann::json j = explain::fusion_json(c).at("layouts");
    ASSERT_EQ(j.size(), 1u);
    EXPECT_EQ(j[0].at("values"), 4);
    EXPECT_GE(j[0].at("channels_last").size(), 2u);
    EXPECT_LT(j[0].at("predicted_after_ms"), j[0].at("predicted_before_ms"));
    for (const auto& k : j[0].at("conversions")) EXPECT_GE(k.at("ms").get<double>(), 0);
    EXPECT_TRUE(explain::fusion_json(plain).at("layouts").empty());
}
}  // namespace
}  // namespace opwright::fuse
