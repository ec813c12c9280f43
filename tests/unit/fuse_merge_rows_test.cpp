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

// A product of rows that are three of the dims, added to one of matrices whose batch is two of them.
TEST(FuseMergeRows, ProductsSplitAtDifferentDims) {
    for (const bool first : {true, false}) {
        Layers d;
        const ValueId matrices = d.in("matrices", {6, 4, 7}), rows = d.in("rows", {24, 7});
        Build e("batched");
        const auto p = e.in("p", DType::F32, {6, 4, 7}), q = e.in("q", DType::F32, {6, 7, 5}), r = e.out("r", DType::F32, {6, 4, 5});
        const auto b = e.var("b", 6), m = e.var("m", 4), n = e.var("n", 5), k = e.var("k", 7);
        e.set(r, {b, m, n}, e.sum({k}, e(Fn::Mul, e.load(p, {b, m, k}), e.load(q, {b, k, n}))));
        const ValueId by_batch = d.node("batched", e.done(), {matrices, d.constant("q", counted({6, 7, 5}))}, {6, 4, 5});
        const ValueId by_row = d.matmul("plain", rows, d.constant("w", counted({7, 5})));
        std::vector<ValueId> v{d.view("a", by_batch, {2, 3, 4, 5}), d.view("b", by_row, {2, 3, 4, 5})};
        if (first) std::swap(v[0], v[1]);
        Build add("sum");
        const std::vector<Sym> shape{2, 3, 4, 5};
        const auto s = add.in("s", DType::F32, shape), t = add.in("t", DType::F32, shape), y = add.out("y", DType::F32, shape);
        const auto i0 = add.var("i0", 2), i1 = add.var("i1", 3), i2 = add.var("i2", 4), i3 = add.var("i3", 5);
        add.set(y, {i0, i1, i2, i3}, add(Fn::Add, add.load(s, {i0, i1, i2, i3}), add.load(t, {i0, i1, i2, i3})));
        d.g.outputs = {d.node("sum", add.done(), v, shape)};
        EXPECT_EQ(kernels(expect_same(d.g, {counted({6, 4, 7}), counted({24, 7})})), 2u);
    }
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
