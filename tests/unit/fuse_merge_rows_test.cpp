// Linear layers on [batch, length, width]: what follows the product goes over its rows, and joins it.
#include "fuse_draft.h"
#include "math/merge_dims.h"

namespace opwright::fuse {
namespace {

struct Layers : Draft {
    const Sym b = 3, n = 5;

    // A product with weights as exporters' MatMul becomes: rows of all leading dims, and back.
    ValueId linear(const std::string& name, ValueId x, int64_t width) {
        const auto s = g.values[x].shape;
        const ValueId rows = view(name, x, {s[0] * s[1], s[2]});
        const ValueId y = matmul(name, rows, constant(name + "_w", counted({*s[2].constant(), width})));
        return view(name, y, {s[0], s[1], width});
    }
    // x[b, n, d] + c, where c is read at `at` of (b, n, d).
    ValueId plus(const std::string& name, ValueId x, ValueId c, std::vector<size_t> at) {
        Build e(name);
        const auto s = g.values[x].shape;
        const auto t = e.in("x", DType::F32, s), u = e.in("c", DType::F32, g.values[c].shape), y = e.out("y", DType::F32, s);
        std::vector<ExprId> v, of;
        for (size_t i = 0; i < 3; ++i) v.push_back(e.at(e.var(std::string(1, "bnd"[i]), s[i])));
        for (size_t i : at) of.push_back(v[i]);
        e.p.add_equation(y, v, e(Fn::Add, e.p.load(t, v), e.p.load(u, of)));
        return node(name, e.done(), {x, c}, s);
    }
};

size_t kernels(const Fused& f) {
    return static_cast<size_t>(std::count_if(f.graph.nodes.begin(), f.graph.nodes.end(), [](const Node& n) { return n.kind == NodeKind::Compute; }));
}

TEST(FuseMergeRows, BiasActivationAndResidualJoinALinearLayer) {
    Layers d;
    const ValueId x = d.in("x", {d.b, d.n, 16});
    const ValueId h = d.unary("act", Fn::Tanh, d.plus("bias", d.linear("first", x, 24), d.constant("c", counted({24})), {2}));
    const ValueId y = d.plus("sum", d.linear("second", h, 16), x, {0, 1, 2});
    d.g.outputs = {y};
    EXPECT_EQ(kernels(expect_same(d.g, {counted({3, 5, 16})})), 2u);
}

TEST(FuseMergeRows, SymbolicDims) {
    Layers d;
    const Sym batch = Sym::symbol("batch"), length = Sym::symbol("length");
    const ValueId x = d.in("x", {batch, length, 16});
    d.g.outputs = {d.unary("act", Fn::Tanh, d.plus("bias", d.linear("first", x, 24), d.constant("c", counted({24})), {2}))};
    EXPECT_EQ(kernels(expect_same(d.g, {counted({2, 7, 16})})), 1u);
}

TEST(FuseMergeRows, WhatReadsOneOfTheDimsAloneStaysAsItIs) {
    Layers d;
    const ValueId x = d.in("x", {d.b, d.n, 16});
    const ValueId places = d.constant("places", counted({5, 24}));
    d.g.outputs = {d.plus("position", d.linear("first", x, 24), places, {1, 2})};
    EXPECT_EQ(kernels(expect_same(d.g, {counted({3, 5, 16})})), 2u);
}

TEST(FuseMergeRows, ATensorOfTheSameExtentsReadElsewhereIsLeftAlone) {
    // c[b, n] stands for [16, 16] here as for the rows: read at (n, b) it takes both dims by themselves.
    Build e("p");
    const auto x = e.in("x", DType::F32, {4, 4, 8}), c = e.in("c", DType::F32, {4, 4}), y = e.out("y", DType::F32, {4, 4, 8});
    const auto b = e.var("b", 4), n = e.var("n", 4), d = e.var("d", 8);
    e.set(y, {b, n, d}, e(Fn::Add, e.load(x, {b, n, d}), e.load(c, {n, b})));
    EXPECT_FALSE(math::merge_leading_dims(e.done(), {4, 4}));
}

TEST(FuseMergeRows, TemporariesOfRowsAreMergedToo) {
    Build e("p");
    const auto x = e.in("x", DType::F32, {3, 4, 8}), y = e.out("y", DType::F32, {3, 4, 8});
    const auto m = e.p.add_tensor("m", DType::F32, {3, 4}, math::Role::Temp);
    const auto b = e.var("b", 3), n = e.var("n", 4), d = e.var("d", 8), k = e.var("k", 8);
    e.set(m, {b, n}, e.sum({k}, e.load(x, {b, n, k})));
    e.set(y, {b, n, d}, e(Fn::Sub, e.load(x, {b, n, d}), e.load(m, {b, n})));
    const auto q = math::merge_leading_dims(e.done(), {3, 4});
    ASSERT_TRUE(q);
    EXPECT_TRUE(math::verify(q->program).empty());
    EXPECT_EQ(q->program.print(), "m[b] = sum[k](x[b,k])\ny[b,d] = x[b,d] - m[b]\n");
}

}  // namespace
}  // namespace opwright::fuse
