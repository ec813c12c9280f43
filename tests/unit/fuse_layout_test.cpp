// Layouts (fuse/layout.h): which values get their channels last, what keeps the model's layout, and that results are the
// same.
#include <gmock/gmock.h>

#include "fuse_net.h"
#include "math/permute_dims.h"

namespace opwright::fuse {
namespace {
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(FuseLayout, ARegionWithWindowsHasItsChannelsLast) {
    const Net d = small_net(1);
    const Laid laid = Net(d).laid();
    ASSERT_EQ(laid.regions.size(), 1u);
    const LayoutRegion& r = laid.regions[0];
    for (const char* v : {"wide", "deep"}) EXPECT_THAT(r.changed, Contains(v));
    EXPECT_LT(r.after, r.before);
    EXPECT_THAT(r.reason, HasSubstr("channels last takes"));
    // One kernel reads the model's layout and writes the other, one behind it the other way round.
    EXPECT_EQ(r.conversions.size(), 2u);
    EXPECT_TRUE(graph::verify(laid.graph).empty());
    for (const graph::Value& v : laid.graph.values)
        if (v.name == "wide") EXPECT_EQ(v.shape, (std::vector<Sym>{1, 15, 15, 64}));
    for (ValueId v : laid.graph.outputs) EXPECT_EQ(laid.graph.values[v].shape, (std::vector<Sym>{1, 24, 8, 8}));
}

TEST(FuseLayout, ResultsAreTheSame) {
    Net one = small_net(1), open = small_net(Sym::symbol("batch"));
    one.expect_right({counted({1, 3, 30, 30})});
    open.expect_right({counted({3, 3, 30, 30})});
    open.expect_right({counted({0, 3, 30, 30})});
}

TEST(FuseLayout, WithoutWindowsNothingChanges) {
    Net d;
    const ValueId x = d.in("x", {2, 16, 8, 8});
    d.g.outputs = {d.unary("b", Fn::Tanh, d.binary("a", Fn::Add, x, d.in("z", {2, 16, 8, 8})))};
    EXPECT_TRUE(d.laid().regions.empty());
}

TEST(FuseLayout, WhatAViewReadsKeepsItsLayout) {
    Net d;
    const ValueId x = d.in("x", {1, 16, 28, 28}), a = d.unary("a", Fn::Abs, d.conv("c", x, 32, 3, 1));
    const ValueId b = d.unary("b", Fn::Abs, d.conv("e", a, 32, 3, 1));
    const ValueId flat = d.view("flat", a, {1, 32 * 28 * 28});
    d.g.outputs = {d.conv("f", b, 16, 3, 1), d.unary("g", Fn::Tanh, flat)};
    const std::vector<LayoutRegion> regions = d.laid().regions;
    ASSERT_EQ(regions.size(), 1u);
    EXPECT_THAT(regions[0].values, Contains("b"));
    EXPECT_THAT(regions[0].values, Not(Contains("a")));
    d.expect_right({counted({1, 16, 28, 28})});
}

TEST(FuseLayout, ATransposeOfTheResultBecomesItsLayout) {
    Net d;
    const ValueId x = d.in("x", {1, 16, 28, 28}), c = d.conv("c", x, 32, 3, 1);
    Build b("transpose");
    const std::vector<Sym> s = d.g.values[c].shape, out = {s[0], s[2], s[3], s[1]};
    const auto from = b.in("x", DType::F32, s), to = b.out("y", DType::F32, out);
    const auto n = b.var("n", s[0]), p = b.var("p", s[2]), q = b.var("q", s[3]), m = b.var("m", s[1]);
    b.set(to, {n, p, q, m}, b.load(from, {n, m, p, q}));
    d.g.outputs = {d.node("t", b.done(), {c}, out)};
    size_t kernels = 0;
    for (const Node& node : d.laid().graph.nodes) kernels += node.kind == NodeKind::Compute;
    EXPECT_EQ(kernels, 1u);
    d.expect_right({counted({1, 16, 28, 28})});
}

TEST(FuseLayout, FewChannelsStayBehindTheirPlaces) {
    Net d;
    const ValueId x = d.in("x", {1, 1, 64, 64}), a = d.unary("a", Fn::Abs, d.conv("sobel", x, 2, 3, 1));
    d.g.outputs = {d.conv("sum", a, 1, 3, 1)};
    const Laid laid = d.laid();
    ASSERT_EQ(laid.regions.size(), 1u);
    EXPECT_TRUE(laid.regions[0].changed.empty());
    EXPECT_THAT(laid.regions[0].reason, HasSubstr("the model's layout stays"));
    d.expect_right({counted({1, 1, 64, 64})});
}

TEST(PermuteDims, TurnsAccessesAndBack) {
    const Net d = small_net(1);
    for (const Node& n : d.g.nodes) {
        std::vector<std::vector<size_t>> there(n.program.tensors.size()), back = there;
        for (math::TensorId t = 0; t < there.size(); ++t)
            if (n.program.tensors[t].shape.size() == 4) there[t] = {0, 2, 3, 1}, back[t] = {0, 3, 1, 2};
        const Program turned = math::permute_dims(n.program, there);
        EXPECT_TRUE(math::verify(turned).empty());
        EXPECT_NE(turned.print(), n.program.print());
        EXPECT_EQ(math::permute_dims(turned, back).print(), n.program.print());
    }
}

TEST(PermuteDims, ATransposeThatIsUndoneGoes) {
    Build b("f");
    const std::vector<Sym> last = {1, 9, 8, 32}, first = {1, 32, 9, 8};
    const auto x = b.in("x", DType::F32, last), t = b.temp("t", DType::F32, first), y = b.out("y", DType::F32, first);
    const auto n = b.var("n", 1), h = b.var("h", 9), v = b.var("v", 8), c = b.var("c", 32);
    b.set(t, {n, c, h, v}, b.load(x, {n, h, v, c}));
    const auto m = b.var("m", 1), p = b.var("p", 9), q = b.var("q", 8), d = b.var("d", 32);
    b.set(y, {m, d, p, q}, b(Fn::Abs, b.load(t, {m, d, p, q})));
    const Program f = b.done();
    EXPECT_EQ(math::without_copies(f).equations.size(), 2u);  // a transpose is no copy
    std::vector<std::vector<size_t>> order(f.tensors.size());
    for (math::TensorId i = 0; i < order.size(); ++i)
        if (f.tensors[i].shape == first) order[i] = {0, 2, 3, 1};
    const Program turned = math::without_copies(math::permute_dims(f, order));
    EXPECT_TRUE(math::verify(turned).empty());
    ASSERT_EQ(turned.equations.size(), 1u);
    EXPECT_EQ(turned.reads(turned.equations[0].rhs), std::vector<math::TensorId>{turned.inputs[0]});
}
}  // namespace
}  // namespace opwright::fuse
