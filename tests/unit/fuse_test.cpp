#include "fuse/fuse.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compile.h"
#include "derive_test_util.h"
#include "fuse/cleanup.h"
#include "fuse/summary.h"
#include "runtime/thread_pool.h"

namespace opwright::fuse {
namespace {
using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;
using math::ExprId;
using math::Fn;
using math::Program;
using math::Sym;
using test::Build;

const Sym kM = Sym::symbol("m"), kN = Sym::symbol("n"), kK = Sym::symbol("k");

// A graph under construction; every value is f32.
struct Draft {
    Graph g;

    ValueId value(const std::string& n, std::vector<Sym> s) { return g.add_value({n, DType::F32, std::move(s), {}, {}, kNone}); }
    ValueId in(const std::string& n, std::vector<Sym> s) {
        g.inputs.push_back(value(n, std::move(s)));
        return g.inputs.back();
    }
    ValueId constant(const std::string& n, Tensor t) {
        const ValueId v = value(n, {t.shape().begin(), t.shape().end()});
        g.values[v].constant = std::move(t);
        return v;
    }
    ValueId node(const std::string& n, Program p, std::vector<ValueId> in, std::vector<Sym> shape) {
        const ValueId out = value(n, std::move(shape));
        Node x;
        x.inputs = std::move(in);
        x.outputs = {out};
        x.sources = {{n, p.name}};
        x.program = std::move(p);
        g.add_node(std::move(x));
        return out;
    }
    ValueId view(const std::string& n, ValueId of, std::vector<Sym> shape) {
        const ValueId out = value(n, std::move(shape));
        Node x;
        x.kind = NodeKind::View;
        x.inputs = {of};
        x.outputs = {out};
        x.sources = {{n, "Reshape"}};
        g.add_node(std::move(x));
        return out;
    }
    ValueId unary(const std::string& n, Fn f, ValueId of) {
        Build b(n);
        const auto shape = g.values[of].shape;
        const auto x = b.in("x", DType::F32, shape), y = b.out("y", DType::F32, shape);
        std::vector<ExprId> at;
        for (size_t i = 0; i < shape.size(); ++i) at.push_back(b.at(b.var("i" + std::to_string(i), shape[i])));
        b.p.add_equation(y, at, b(f, b.p.load(x, at)));
        return node(n, b.done(), {of}, shape);
    }
    ValueId binary(const std::string& n, Fn f, ValueId u, ValueId v) {
        Build b(n);
        const auto shape = g.values[u].shape;
        const auto x = b.in("x", DType::F32, shape), w = b.in("w", DType::F32, shape), y = b.out("y", DType::F32, shape);
        std::vector<ExprId> at;
        for (size_t i = 0; i < shape.size(); ++i) at.push_back(b.at(b.var("i" + std::to_string(i), shape[i])));
        b.p.add_equation(y, at, b(f, b.p.load(x, at), b.p.load(w, at)));
        return node(n, b.done(), {u, v}, shape);
    }
    ValueId matmul(const std::string& n, ValueId u, ValueId v) {
        Build b(n);
        const auto s = g.values[u].shape, t = g.values[v].shape;
        const auto x = b.in("x", DType::F32, s), w = b.in("w", DType::F32, t), y = b.out("y", DType::F32, {s[0], t[1]});
        const auto i = b.var("i", s[0]), j = b.var("j", t[1]), k = b.var("k", s[1]);
        b.set(y, {i, j}, b.sum({k}, b(Fn::Mul, b.load(x, {i, k}), b.load(w, {k, j}))));
        return node(n, b.done(), {u, v}, {s[0], t[1]});
    }
    ValueId transpose(const std::string& n, ValueId of) {
        Build b(n);
        const auto s = g.values[of].shape;
        const auto x = b.in("x", DType::F32, s), y = b.out("y", DType::F32, {s[1], s[0]});
        const auto i = b.var("i", s[1]), j = b.var("j", s[0]);
        b.set(y, {i, j}, b.load(x, {j, i}));
        return node(n, b.done(), {of}, {s[1], s[0]});
    }
    ValueId row_sum(const std::string& n, ValueId of) {
        Build b(n);
        const auto s = g.values[of].shape;
        const auto x = b.in("x", DType::F32, s), y = b.out("y", DType::F32, {s[0]});
        const auto i = b.var("i", s[0]), j = b.var("j", s[1]);
        b.set(y, {i}, b.sum({j}, b.load(x, {i, j})));
        return node(n, b.done(), {of}, {s[0]});
    }
    ValueId spread(const std::string& n, ValueId of, Sym columns) {
        Build b(n);
        const auto s = g.values[of].shape;
        const auto x = b.in("x", DType::F32, s), y = b.out("y", DType::F32, {s[0], columns});
        const auto i = b.var("i", s[0]), j = b.var("j", columns);
        b.set(y, {i, j}, b.load(x, {i}));
        return node(n, b.done(), {of}, {s[0], columns});
    }
};

Tensor counted(Shape s) {
    Tensor r(DType::F32, std::move(s));
    for (int64_t i = 0; i < r.size(); ++i) r.set(i, std::sin(static_cast<double>(i) * 1.7));
    return r;
}

// Fused and unfused graphs deliver the same, by the reference kernels and by compiled ones.
Fused expect_same(const Graph& g, const std::vector<Tensor>& inputs) {
    EXPECT_TRUE(graph::verify(g).empty());
    runtime::ThreadPool pool(1);
    CompileOptions o;
    o.execution.engine = runtime::Engine::Reference;
    o.check = true;
    o.fuse = false;
    auto plain = compile(g, o, pool);
    o.fuse = true;
    auto fused = compile(g, o, pool);
    o.execution.engine = runtime::Engine::Cpu;
    o.execution.cpu.cache = false;
    auto compiled = compile(g, o, pool);
    EXPECT_TRUE(compiled.ok()) << compiled.error().message;
    EXPECT_TRUE(plain.ok() && fused.ok());
    const auto a = plain->executable->run(inputs, pool);
    EXPECT_TRUE(a.ok()) << a.error().message;
    for (const auto& other : {fused->executable, compiled->executable}) {
        const auto b = other->run(inputs, pool);
        EXPECT_TRUE(b.ok()) << b.error().message;
        for (size_t i = 0; i < a->size(); ++i) {
            EXPECT_EQ((*a)[i].shape(), (*b)[i].shape());
            for (int64_t k = 0; k < (*a)[i].size(); ++k) EXPECT_NEAR((*a)[i].get(k), (*b)[i].get(k), 1e-5 * (1 + std::fabs((*a)[i].get(k)))) << i << " " << k;
        }
    }
    return {fused->executable->graph(), fused->decisions};
}

std::string refusal(const Fused& f, const std::string& producer) {
    for (const Decision& d : f.decisions)
        if (d.producer == producer && !d.taken) return d.reason;
    return "";
}

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

TEST(Fuse, TheDeliveredAndTheSharedStay) {
    Draft d;
    const auto x = d.in("x", {kN});
    const auto e = d.unary("e", Fn::Exp, x), a = d.unary("a", Fn::Abs, e), b = d.unary("b", Fn::Neg, e);
    d.g.outputs = {a, b};
    Fused f = expect_same(d.g, {counted({5})});
    EXPECT_EQ(f.graph.nodes.size(), 3u);
    EXPECT_EQ(refusal(f, "e"), "b reads it too");
    d.g.outputs = {e, a};
    f = expect_same(d.g, {counted({5})});
    EXPECT_EQ(refusal(f, "e"), "the model delivers it");
}

TEST(Fuse, CostlyProducersAreNotRepeated) {
    Draft d;
    const auto x = d.in("x", {kM, kK}), w = d.in("w", {kK, kN});
    const auto e = d.unary("e", Fn::Exp, x), z = d.matmul("z", e, w);
    d.g.outputs = {z};
    const Fused f = expect_same(d.g, {counted({3, 4}), counted({4, 5})});
    EXPECT_EQ(f.graph.nodes.size(), 2u);
    EXPECT_EQ(refusal(f, "e"), "its elements would be computed more than once");
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

TEST(Fuse, ARowValueSpreadOverARowIsNoEpilogue) {
    Draft d;
    const auto x = d.in("x", {kM, kN});
    const auto s = d.row_sum("s", x), b = d.spread("b", s, kN), y = d.binary("y", Fn::Div, x, b);
    d.g.outputs = {y};
    const Fused f = expect_same(d.g, {counted({3, 5})});
    EXPECT_EQ(f.graph.nodes.size(), 2u);
    EXPECT_EQ(refusal(f, "s"), "it reduces, and its reader walks another index space");
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

}  // namespace
}  // namespace opwright::fuse
