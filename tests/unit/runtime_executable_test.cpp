#include "runtime/executable.h"

#include <gtest/gtest.h>

#include <thread>

#include "compile.h"
#include "derive_test_util.h"
#include "runtime/thread_pool.h"

namespace opwright::runtime {
namespace {
using graph::Graph;
using graph::kNone;
using graph::ValueId;
using math::Fn;
using math::Sym;
using test::Build;

const Sym kM = Sym::symbol("m"), kN = Sym::symbol("n");

ValueId add(Graph& g, const std::string& name, std::vector<Sym> shape, DType t = DType::F32) { return g.add_value({name, t, std::move(shape), {}, {}, kNone}); }

// out = f(in), or f(in, in).
ValueId unary(Graph& g, const std::string& name, Fn f, ValueId in) {
    Build b(name);
    const auto shape = g.values[in].shape;
    const auto x = b.in("x", DType::F32, shape), y = b.out("y", DType::F32, shape);
    std::vector<math::ExprId> at;
    for (const Sym& s : shape) at.push_back(b.at(b.var("i" + std::to_string(at.size()), s)));
    const math::ExprId v = b.p.load(x, at);
    b.p.add_equation(y, at, math::info(f).arity == 1 ? b(f, v) : b(f, v, v));
    graph::Node n;
    n.inputs = {in};
    n.outputs = {add(g, name, shape)};
    n.sources = {{name, "Test"}};
    n.program = b.done();
    g.add_node(n);
    return n.outputs[0];
}
ValueId view(Graph& g, const std::string& name, ValueId in, std::vector<Sym> shape) {
    graph::Node n;
    n.kind = graph::NodeKind::View;
    n.inputs = {in};
    n.outputs = {add(g, name, std::move(shape))};
    g.add_node(n);
    return n.outputs[0];
}
Tensor filled(Shape s, double first = 0) {
    Tensor t(DType::F32, std::move(s));
    for (int64_t i = 0; i < t.size(); ++i) t.set(i, first + static_cast<double>(i));
    return t;
}
std::shared_ptr<const Executable> build(Graph g, ThreadPool& pool) {
    EXPECT_TRUE(graph::verify(g).empty()) << graph::verify(g).front();
    auto e = Executable::build(std::move(g), {.engine = Engine::Reference}, pool);
    EXPECT_TRUE(e.ok()) << e.error().message;
    return *e;
}
std::string refusal(const Executable& e, const std::vector<Tensor>& in, ThreadPool& pool) {
    auto r = e.run(in, pool);
    EXPECT_FALSE(r.ok());
    return r.ok() ? "" : r.error().message;
}

TEST(RuntimeExecutable, EveryKindOfOutput) {
    Graph g;
    const ValueId x = add(g, "x", {kM, kN});
    g.inputs = {x};
    const ValueId c = add(g, "c", {2});
    g.values[c].constant = filled({2}, 5);
    const ValueId y = unary(g, "y", Fn::Neg, x), v = view(g, "v", y, {kM * kN}), w = view(g, "w", x, {kM * kN}), u = view(g, "u", c, {1, 2});
    g.outputs = {y, v, x, c, y, w, u};
    ThreadPool pool(1);
    const auto e = build(g, pool);
    const Tensor in = filled({2, 3});
    auto r = e->run({{in}}, pool);
    ASSERT_TRUE(r.ok()) << r.error().message;
    for (const size_t i : {0, 1, 4}) {
        EXPECT_EQ((*r)[i].get(5), -5);
        EXPECT_EQ((*r)[i].shape(), i == 1 ? Shape{6} : (Shape{2, 3}));
    }
    EXPECT_EQ((*r)[2].get(4), 4);
    EXPECT_NE((*r)[2].data(), in.data());  // the caller's memory is not handed back
    EXPECT_EQ((*r)[3].get(1), 6);
    EXPECT_EQ((*r)[5].shape(), Shape{6});
    EXPECT_EQ((*r)[6].shape(), (Shape{1, 2}));
    (*r)[3].set(0, 77);  // nor is the constant
    EXPECT_EQ((*e->run({{in}}, pool))[3].get(0), 5);
}

TEST(RuntimeExecutable, ContentOfShapesIsMadeForEachSize) {
    Graph g;
    const ValueId x = add(g, "x", {kM, kN});
    g.inputs = {x};
    const ValueId s = add(g, "s", {2}, DType::I64);
    g.values[s].content = std::vector<Sym>{kM * 2, kN + kM};
    g.outputs = {s};
    ThreadPool pool(1);
    const auto e = build(g, pool);
    for (const int64_t m : {0, 3}) {
        auto r = e->run({{filled({m, 4})}}, pool);
        ASSERT_TRUE(r.ok()) << r.error().message;
        EXPECT_EQ((*r)[0].get_int(0), 2 * m);
        EXPECT_EQ((*r)[0].get_int(1), 4 + m);
    }
}

TEST(RuntimeExecutable, LongChainsReuseMemory) {
    Graph g;
    const ValueId x = add(g, "x", {kN});
    g.inputs = {x};
    ValueId v = x;
    for (int i = 0; i < 20; ++i) v = unary(g, "n" + std::to_string(i), Fn::Neg, v);
    g.outputs = {v};
    ThreadPool pool(1);
    const auto e = build(g, pool);
    const Shape shape{1000};
    const auto m = e->memory({{shape}});
    ASSERT_TRUE(m.ok());
    EXPECT_EQ(m->arena, 2 * 4032);
    EXPECT_EQ(m->arena, m->lower_bound);
    auto r = e->run({{filled(shape)}}, pool);
    ASSERT_TRUE(r.ok());
    EXPECT_EQ((*r)[0].get(999), 999);
}

TEST(RuntimeExecutable, ConstantNodesRunBeforehand) {
    Graph g;
    const ValueId x = add(g, "x", {3}), c = add(g, "c", {3});
    g.inputs = {x};
    g.values[c].constant = filled({3}, 1);
    const ValueId d = unary(g, "d", Fn::Mul, c), e = view(g, "e", d, {3, 1}), f = unary(g, "f", Fn::Neg, e), y = unary(g, "y", Fn::Add, x);
    g.outputs = {f, y};
    ThreadPool pool(1);
    const auto ex = build(g, pool);
    EXPECT_EQ(ex->kernel(0), nullptr);
    EXPECT_EQ(ex->kernel(2), nullptr);
    EXPECT_NE(ex->kernel(3), nullptr);
    auto r = ex->run({{filled({3})}}, pool);
    ASSERT_TRUE(r.ok());
    EXPECT_EQ((*r)[0].get(2), -9);
    EXPECT_EQ((*r)[1].get(2), 4);
}

TEST(RuntimeExecutable, InputsThatDoNotFitAreNamed) {
    Graph g;
    g.name = "g";
    const ValueId x = add(g, "x", {kM, 3}), w = add(g, "w", {kM, kM * 2});
    g.inputs = {x, w};
    g.outputs = {unary(g, "y", Fn::Neg, x), unary(g, "z", Fn::Neg, w)};
    ThreadPool pool(1);
    const auto e = build(g, pool);
    EXPECT_TRUE(e->run({{filled({2, 3}), filled({2, 4})}}, pool).ok());
    EXPECT_EQ(refusal(*e, {filled({2, 3})}, pool), "g takes 2 inputs, and 1 were given.");
    EXPECT_EQ(refusal(*e, {Tensor(DType::F64, {2, 3}), filled({2, 4})}, pool), "Input 'x' takes f32, and the tensor given is f64.");
    EXPECT_EQ(refusal(*e, {filled({2}), filled({2, 4})}, pool), "Input 'x' has rank 2, and the tensor given has shape [2].");
    EXPECT_EQ(refusal(*e, {filled({2, 4}), filled({2, 4})}, pool), "Dimension 1 of input 'x' is 4, but must be 3.");
    EXPECT_EQ(refusal(*e, {filled({2, 3}), filled({3, 4})}, pool), "Dimension 0 of input 'w' is 3, but m is 2 by dimension 0 of 'x'.");
    EXPECT_EQ(refusal(*e, {filled({2, 3}), filled({2, 5})}, pool), "Dimension 1 of input 'w' is 5, but must be 2*m = 4.");
}

TEST(RuntimeExecutable, ViewsOfOtherSizesAreRefused) {
    Graph g;
    const ValueId x = add(g, "x", {kM, kN});
    g.inputs = {x};
    const ValueId v = view(g, "v", x, {kN, 4});
    g.nodes.back().sources = {{"as_rows", "Reshape"}};
    g.outputs = {unary(g, "y", Fn::Neg, v)};
    ThreadPool pool(1);
    const auto e = build(g, pool);
    EXPECT_TRUE(e->run({{filled({4, 3})}}, pool).ok());
    for (const int64_t m : {3, 5}) {  // one reads beyond memory, the other loses elements
        const auto r = e->run({{filled({m, 3})}}, pool);
        ASSERT_FALSE(r.ok());
        EXPECT_EQ(r.error().message, "'x' of shape [" + std::to_string(m) + ", 3] cannot be seen as 'v' of shape [3, 4]: " +
                                         std::to_string(3 * m) + " elements are not 12.");
        EXPECT_EQ(r.error().notes.at(0).text, "in the operator 'as_rows' (Reshape)");
    }
}

TEST(RuntimeExecutable, SizesThatNoInputGivesAreRefused) {
    Graph g;
    const ValueId x = add(g, "x", {kM}), y = add(g, "y", {kN});
    g.inputs = {x};
    Build b("spread");
    const auto p = b.in("x", DType::F32, {kM}), q = b.out("y", DType::F32, {kN});
    const auto i = b.var("i", kN);
    b.p.add_equation(q, b.at({i}), b.p.load(p, {b.p.integer(0)}));
    graph::Node n;
    n.inputs = {x};
    n.outputs = {y};
    n.program = b.done();
    g.add_node(n);
    g.outputs = {y};
    ThreadPool pool(1);
    auto e = Executable::build(g, {.engine = Engine::Reference}, pool);
    ASSERT_FALSE(e.ok());
    EXPECT_EQ(e.error().message, "The size n depends on data, not on the shape of an input.");
}

TEST(RuntimeExecutable, ThreadsShareOneExecutable) {
    Graph g;
    const ValueId x = add(g, "x", {kN});
    g.inputs = {x};
    const ValueId y = unary(g, "y", Fn::Add, x), z = unary(g, "z", Fn::Neg, y);
    g.outputs = {z};
    ThreadPool pool(2);
    auto e = Executable::build(g, {}, pool);
    ASSERT_TRUE(e.ok()) << e.error().message;
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int k = 0; k < 40; ++k) {
                const int64_t n = 100 + 17 * ((t + k) % 5);
                auto r = (*e)->run({{filled({n}, t)}}, pool);
                for (int64_t i = 0; i < n; ++i)
                    if (!r.ok() || (*r)[0].get(i) != -2.0 * static_cast<double>(t + i)) ++wrong;
            }
        });
    for (auto& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
}

TEST(RuntimeExecutable, TracesEachNode) {
    Graph g;
    const ValueId x = add(g, "x", {kN});
    g.inputs = {x};
    const ValueId y = unary(g, "y", Fn::Add, x), z = unary(g, "z", Fn::Neg, y);
    g.outputs = {z};
    ThreadPool pool(1);
    const auto e = build(g, pool);
    std::vector<double> seen;
    auto r = e->trace({{filled({3}, 1)}}, pool, [&](graph::NodeId, std::span<const Tensor> in, std::span<const Tensor> out) {
        seen.push_back(in[0].get(2));
        seen.push_back(out[0].get(2));
        return ok_status();
    });
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(seen, (std::vector<double>{3, 6, 6, -6}));
    r = e->trace({{filled({3}, 1)}}, pool, [](graph::NodeId, auto, auto) -> Status { return Diagnostic("Enough."); });
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().message, "Enough.");
}

TEST(RuntimeExecutable, MeasuresEveryStep) {
    Graph g;
    const ValueId x = add(g, "x", {kN});
    g.inputs = {x};
    const ValueId y = unary(g, "y", Fn::Add, x), z = unary(g, "z", Fn::Neg, y);
    g.outputs = {z};
    ThreadPool pool(1);
    const auto e = build(g, pool);
    auto t = e->measure({{filled({3}, 1)}}, pool, 1, 5);
    ASSERT_TRUE(t.ok());
    ASSERT_EQ(t->steps.size(), 2u);
    EXPECT_EQ(t->steps[1].node, 1u);
    for (const StepTime& s : t->steps) {
        EXPECT_GT(s.min, 0);
        EXPECT_LE(s.min, s.median);
    }
    EXPECT_LE(t->min, t->median);
}

}  // namespace
}  // namespace opwright::runtime
