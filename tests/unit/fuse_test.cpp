#include "fuse/fuse.h"

#include <gmock/gmock.h>

#include "fuse/summary.h"
#include "fuse_draft.h"

namespace opwright::fuse {
namespace {

TEST(Fuse, ElementwiseChainsAndDiamondsBecomeOneNode) {
    Draft d;
    const auto x = d.in("x", {kM, kN});
    const auto e = d.unary("e", Fn::Exp, x), a = d.unary("a", Fn::Abs, e), m = d.binary("m", Fn::Mul, a, e), s = d.binary("s", Fn::Add, m, x);
    d.g.outputs = {s};
    const Fused f = expect_same(d.g, {counted({3, 5})});
    ASSERT_EQ(f.graph.nodes.size(), 1u);
    EXPECT_EQ(f.graph.nodes[0].sources.size(), 4u);
    EXPECT_EQ(f.graph.nodes[0].program.equations.size(), 1u);
    // e is written once and read twice, a and m once each.
    Sym saved = 0;
    for (const Decision& q : f.decisions) saved = saved + q.bytes;
    EXPECT_EQ(saved.str(), (kM * kN * 28).str());
}

TEST(Fuse, EpilogueOfAContraction) {
    Draft d;
    const auto x = d.in("x", {kM, kK}), w = d.in("w", {kK, kN}), r = d.in("r", {kM, kN});
    const auto z = d.matmul("z", x, w), s = d.binary("s", Fn::Add, z, r), t = d.unary("t", Fn::Tanh, s);
    d.g.outputs = {t};
    const Fused f = expect_same(d.g, {counted({3, 4}), counted({4, 5}), counted({3, 5})});
    ASSERT_EQ(f.graph.nodes.size(), 1u);
    EXPECT_EQ(f.graph.nodes[0].program.equations.size(), 2u) << f.graph.nodes[0].program.print();
}

TEST(Fuse, TheDeliveredAndTheSharedAreWrittenOnTheWay) {
    Draft d;
    const auto x = d.in("x", {kN});
    const auto e = d.unary("e", Fn::Exp, x), a = d.unary("a", Fn::Abs, e), b = d.unary("b", Fn::Neg, e);
    d.g.outputs = {a, b};
    Fused f = expect_same(d.g, {counted({5})});
    EXPECT_EQ(f.graph.nodes.size(), 1u);  // e is evaluated once, for two outputs
    EXPECT_EQ(f.graph.nodes[0].outputs.size(), 2u);
    d.g.outputs = {e, a};
    f = expect_same(d.g, {counted({5})});
    ASSERT_EQ(f.graph.nodes.size(), 1u);
    EXPECT_TRUE(f.decisions[0].still_delivered);
}

TEST(Fuse, CostlyProducersAreNotRepeated) {
    Draft d;
    const auto x = d.in("x", {kM, kK}), w = d.in("w", {kK, kN});
    const auto e = d.unary("e", Fn::Exp, x), z = d.matmul("z", e, w);
    d.g.outputs = {z};
    const Fused f = expect_same(d.g, {counted({3, 4}), counted({4, 5})});
    EXPECT_EQ(f.graph.nodes.size(), 2u);
    EXPECT_EQ(refusal(f, "e"), "it is a product's factor, and only what moves elements is computed while those are packed");
}

TEST(Fuse, PrologueOfAReductionAndTransposeOfAnOperand) {
    Draft d;
    const auto x = d.in("x", {kM, kN});
    const auto e = d.unary("e", Fn::Exp, x), s = d.row_sum("s", e);
    d.g.outputs = {s};
    EXPECT_EQ(expect_same(d.g, {counted({3, 5})}).graph.nodes.size(), 1u);

    Draft t;
    const auto u = t.in("u", {kM, kK}), w = t.in("w", {kN, kK});
    const auto wt = t.transpose("wt", w), z = t.matmul("z", u, wt);
    t.g.outputs = {z};
    const Fused f = expect_same(t.g, {counted({3, 4}), counted({5, 4})});
    ASSERT_EQ(f.graph.nodes.size(), 1u);
    EXPECT_EQ(f.graph.nodes[0].program.equations.size(), 1u) << f.graph.nodes[0].program.print();
}

TEST(Fuse, OneReductionToAGroup) {
    Draft d;
    const auto x = d.in("x", {kM, kK}), w = d.in("w", {kK, kN}), v = d.in("v", {kK, kN});
    const auto a = d.matmul("a", x, w), b = d.matmul("b", x, v), s = d.binary("s", Fn::Add, a, b);
    d.g.outputs = {s};
    const Fused f = expect_same(d.g, {counted({3, 4}), counted({4, 5}), counted({4, 5})});
    EXPECT_EQ(f.graph.nodes.size(), 2u);
    EXPECT_EQ(refusal(f, "a"), "s reduces already");
}

TEST(Fuse, ARowValueSpreadOverARowSharesTheRowsLoop) {
    Draft d;
    const auto x = d.in("x", {kM, kN});
    const auto s = d.row_sum("s", x), b = d.spread("b", s, kN), y = d.binary("y", Fn::Div, x, b);
    d.g.outputs = {y};
    const Fused f = expect_same(d.g, {counted({3, 5})});
    ASSERT_EQ(f.graph.nodes.size(), 1u);
    EXPECT_EQ(f.decisions.front().how, How::Rows);
}

TEST(Fuse, ViewsWithUnitDimsLieBetween) {
    Draft d;
    const auto x = d.in("x", {kM, kK}), w = d.in("w", {kK, kN});
    const auto z = d.matmul("z", x, w), v = d.view("v", z, {1, kM, 1, kN}), t = d.unary("t", Fn::Tanh, v);
    d.g.outputs = {t};
    const Fused f = expect_same(d.g, {counted({3, 4}), counted({4, 5})});
    EXPECT_EQ(f.graph.nodes.size(), 1u);
    // A view behind which nothing joins stays a view.
    Draft e;
    const auto y = e.in("y", {kM, kN}), u = e.view("u", y, {kM, 1, kN}), r = e.unary("r", Fn::Abs, u);
    e.g.outputs = {r};
    const Fused g = expect_same(e.g, {counted({3, 4})});
    EXPECT_EQ(g.graph.nodes.size(), 2u);
    EXPECT_EQ(g.graph.nodes[0].kind, NodeKind::View);
}

TEST(Fuse, SplitDimsAreAffineMergedOnesAreNot) {
    EXPECT_EQ(view_program({kM * 4, kN}, {kM, 4, kN}, DType::F32)->print(), "y[i0,i1,i2] = x[i1 + i0 * 4,i2]\n");
    EXPECT_EQ(view_program({kM, 1}, {1, kM}, DType::F32)->print(), "y[0,i1] = x[i1,0]\n");
    EXPECT_FALSE(view_program({kM, kN}, {kM * kN}, DType::F32).has_value());
    EXPECT_FALSE(view_program({kM, kN}, {kN, kM}, DType::F32).has_value());
}

TEST(Fuse, LongChainsAreCutAndStayLinear) {
    Draft d;
    auto v = d.in("x", {kN});
    for (int i = 0; i < 1000; ++i) v = d.unary("n" + std::to_string(i), i % 2 ? Fn::Tanh : Fn::Neg, v);
    d.g.outputs = {v};
    const Fused f = fuse(normalise(remove_dead(d.g)));
    EXPECT_LE(f.graph.nodes.size(), 25u);
    EXPECT_GE(f.graph.nodes.size(), 15u);
    for (const Node& n : f.graph.nodes) EXPECT_EQ(n.program.equations.size(), 1u);
}

TEST(FuseCleanup, ConstantsFoldAndDuplicatesGo) {
    Draft d;
    const auto x = d.in("x", {2, 3});
    const auto c = d.constant("c", counted({2, 3})), e = d.unary("e", Fn::Exp, c);
    const auto a = d.binary("a", Fn::Add, x, e), b = d.binary("b", Fn::Add, x, e), y = d.binary("y", Fn::Mul, a, b);
    d.unary("dead", Fn::Abs, x);
    d.g.outputs = {y};
    const Graph g = remove_dead(remove_duplicates(fold_constants(remove_dead(d.g))));
    ASSERT_TRUE(graph::verify(g).empty()) << graph::verify(g).front();
    EXPECT_EQ(g.nodes.size(), 2u);
    bool folded = false;
    for (const graph::Value& v : g.values)
        if (v.name == "e") folded = v.constant && std::fabs(v.constant->get(1) - std::exp(std::sin(1.7))) < 1e-6;
    EXPECT_TRUE(folded);
    expect_same(d.g, {counted({2, 3})});
}

TEST(FuseCleanup, ViewsOfViewsAndOfConstants) {
    Draft d;
    const auto x = d.in("x", {kM, kN});
    const auto v = d.view("v", x, {kM * kN}), w = d.view("w", v, {kM, kN}), y = d.unary("y", Fn::Abs, w);
    const auto c = d.constant("c", counted({6})), u = d.view("u", c, {2, 3}), z = d.unary("z", Fn::Abs, u);
    d.g.outputs = {y, z};
    const Graph g = remove_dead(fold_views(fold_constants(d.g)));
    EXPECT_EQ(g.nodes.size(), 1u);  // z is folded, y reads x
    expect_same(d.g, {counted({2, 3})});
}

TEST(Fuse, AnOperatorThatBecameSeveralNodesIsNamedOnce) {
    Draft d;
    const ValueId x = d.in("x", {8, 16});
    d.g.outputs = {d.with_number("mean", Fn::Div, d.row_sum("mean", x), 16)};
    for (Node& n : d.g.nodes) n.sources = {{"mean", "ReduceMean"}};
    const Fused f = fuse(normalise(remove_dead(d.g)));
    ASSERT_EQ(f.graph.nodes.size(), 1u);
    EXPECT_EQ(f.graph.nodes[0].sources.size(), 1u);
}

TEST(Fuse, TheReaderBehindAViewIsTheOneThatIsNamed) {
    Draft d;
    const ValueId s = d.row_sum("sum", d.in("x", {8, 16})), v = d.view("seen", s, {2, 4});
    d.g.outputs = {d.matmul("product", v, d.in("w", {4, 8}))};
    const Fused f = fuse(normalise(remove_dead(d.g)));
    ASSERT_FALSE(refusal(f, "sum").empty());
    EXPECT_EQ(f.decisions[0].consumer, "product");
}

TEST(Fuse, AGroupThatRepeatsTheSameMapIsNoReader) {
    // The rows' maxima and the product both spread r. What reads the maxima comes last, and shares their rows.
    Draft d;
    const ValueId y = d.in("y", {8, 16}), z = d.in("z", {8, 16});
    const ValueId wide = d.spread("wide", d.in("r", {8}), 16), max = d.row_reduce("max", math::ReduceOp::Max, d.binary("mul", Fn::Mul, y, wide));
    const ValueId product = d.matmul("product", wide, d.in("w", {16, 8}));
    d.g.outputs = {product, d.with_rows("sub", Fn::Sub, z, max)};
    const Fused f = expect_same(d.g, {counted({8, 16}), counted({8, 16}), counted({8}), counted({16, 8})});
    EXPECT_EQ(refusal(f, "max"), "");
    EXPECT_EQ(f.graph.nodes.size(), 2u);
}

// x to the power of a constant, of type t.
Graph power(DType t, double n) {
    Draft d;
    Build e("power");
    const auto x = e.in("x", t, {kM}), c = e.in("n", t, {}), y = e.out("y", t, {kM});
    const auto i = e.var("i", kM);
    e.set(y, {i}, e(Fn::Pow, e.load(x, {i}), e.p.load(c, {})));
    Tensor exponent(t, {});
    exponent.set(0, n);
    const ValueId in = d.in("x", {kM});
    d.g.values[in].dtype = t;
    const ValueId of = d.constant("n", exponent);
    d.g.values[of].dtype = t;
    d.g.outputs = {d.node("power", e.done(), {in, of}, {kM})};
    d.g.values[d.g.outputs[0]].dtype = t;
    return d.g;
}

TEST(FuseCleanup, SquaresAndCubesAreProducts) {
    const auto text = [](DType t, double n) { return normalise(power(t, n)).nodes.at(0).program.print(); };
    EXPECT_EQ(text(DType::F32, 2), "y[i] = x[i] * x[i]\n");
    EXPECT_EQ(text(DType::F32, 3), "y[i] = x[i] * x[i] * x[i]\n");
    EXPECT_EQ(text(DType::F16, 2), "y[i] = x[i] * x[i]\n");
    // Rounded twice, a cube of 16 bits is another.
    EXPECT_THAT(text(DType::F16, 3), testing::HasSubstr("** 3"));
    EXPECT_THAT(text(DType::F32, 0.5), testing::HasSubstr("** 0.5"));
    Tensor x(DType::F32, {4});
    for (int64_t k = 0; k < 4; ++k) x.set(k, std::vector<double>{-1.5, 0, 3, -INFINITY}[static_cast<size_t>(k)]);
    runtime::ThreadPool pool(1);
    CompileOptions o;
    o.execution.cpu.cache = false;
    for (const double n : {2.0, 3.0}) {
        const auto c = compile(power(DType::F32, n), o, pool);
        ASSERT_TRUE(c.ok());
        const auto y = c->executable->run(std::vector<Tensor>{x}, pool);
        ASSERT_TRUE(y.ok());
        for (int64_t k = 0; k < 4; ++k) EXPECT_EQ((*y)[0].get(k), std::pow(x.get(k), n));
    }
}

}  // namespace
}  // namespace opwright::fuse
