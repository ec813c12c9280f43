// The time model: where its figures come from, and that it says of kernels what was measured of them.
#include "fuse/time_model.h"

#include <gmock/gmock.h>

#include "fuse_draft.h"

namespace opwright::fuse {
namespace {
using testing::HasSubstr;

// The processor on which the figures of the table below were measured, as `opwright doctor` measured it: one thread.
Machine measured_machine() {
    Machine m = typical_cpu(1, 64, 32);
    m.levels = {{32e3, 60e9}, {1e6, 35e9}, {16e6, 20e9}, {1e18, 10e9}};
    return m;
}

ProgramWork of(const Program& p, const math::SymValues& sizes = {}) { return program_work(p, sizes); }

TEST(TimeModel, BytesAndOperationsOfAProductAndARow) {
    Draft d;
    d.matmul("z", d.in("x", {100, 300}), d.in("w", {300, 200}));
    const ProgramWork p = of(d.g.nodes[0].program);
    EXPECT_TRUE(p.contracts);
    EXPECT_DOUBLE_EQ(p.multiply_add, 2.0 * 100 * 300 * 200);
    ASSERT_EQ(p.inputs.size(), 2u);
    EXPECT_DOUBLE_EQ(p.inputs[0].bytes, 4.0 * 100 * 300);
    EXPECT_DOUBLE_EQ(p.inputs[0].wanted, 100.0 * 300 * 200);  // each element of x once for each column
    EXPECT_DOUBLE_EQ(p.outputs[0].bytes, 4.0 * 100 * 200);

    Draft e;
    e.unary("y", Fn::Exp, e.in("x", {kM, kN}));
    const ProgramWork q = of(e.g.nodes[0].program, {{"m", 10}, {"n", 1000}});
    EXPECT_DOUBLE_EQ(q.special, 10000);
    EXPECT_DOUBLE_EQ(q.inputs[0].useful, 1);
    EXPECT_EQ(q.live, 1);
}

TEST(TimeModel, AStridedReadWastesItsLines) {
    Draft d;
    d.transpose("t", d.in("x", {512, 512}));
    EXPECT_LT(of(d.g.nodes[0].program).inputs[0].useful, 0.6);
    // Every fourth element of a line.
    Build b("every_fourth");
    const auto x = b.in("x", DType::F32, {4096}), y = b.out("y", DType::F32, {1024});
    const auto i = b.var("i", 1024);
    b.p.add_equation(y, {b.at(i)}, b.p.load(x, {b(Fn::Mul, b.at(i), b.p.integer(4))}));
    EXPECT_DOUBLE_EQ(of(b.done()).inputs[0].useful, 0.25);
}

TEST(TimeModel, ARowAtATimeThatLiesAcrossMemoryIsGathered) {
    // A norm down the columns: each point of the grid is a column, whose elements lie a row apart.
    Build b("columns");
    const auto x = b.in("x", DType::F32, {512, 256}), y = b.out("y", DType::F32, {512, 256}), s = b.temp("s", DType::F32, {256});
    const auto i = b.var("i", 512), j = b.var("j", 256), k = b.var("k", 512), c = b.var("c", 256);
    b.set(s, {c}, b.sum({k}, b.load(x, {k, c})));
    b.set(y, {i, j}, b(Fn::Div, b.load(x, {i, j}), b.load(s, {j})));
    const ProgramWork across = of(b.done());
    EXPECT_EQ(across.nests, 1);
    EXPECT_DOUBLE_EQ(across.inputs[0].useful, 1.0 / 16);
    Draft d;  // along the rows
    const auto u = d.in("x", {256, 512});
    d.g.outputs = {d.with_rows("y", Fn::Div, u, d.row_sum("s", u))};
    Options o;
    o.machine = measured_machine();
    const Fused f = fuse(normalise(d.g), o);
    ASSERT_EQ(f.graph.nodes.size(), 1u);
    const ProgramWork along = of(f.graph.nodes[0].program);
    EXPECT_DOUBLE_EQ(along.inputs[0].useful, 1);
    const Machine m = measured_machine();
    EXPECT_GT(estimate(m, alone(across)).seconds, 3 * estimate(m, alone(along)).seconds);
}

TEST(TimeModel, RegistersThatSpillCost) {
    Work w;
    w.simple = 1e6, w.body = 1e6, w.live = 20;
    Machine m = measured_machine();
    m.registers = 16;
    const Estimate e = estimate(m, w);
    EXPECT_GT(e.spills, 0);
    EXPECT_DOUBLE_EQ(e.seconds, e.launch + e.arithmetic + e.spills);
    EXPECT_THAT(print(e, w), HasSubstr("spills"));
    w.live = 16;
    EXPECT_EQ(estimate(m, w).spills, 0);
}

TEST(TimeModel, FewTasksLeaveUnitsIdle) {
    Machine m = typical_cpu(8, 64, 32);
    Work w;
    w.simple = 1e9;
    w.tasks = 1;
    const double one = estimate(m, w).seconds;
    w.tasks = 100;
    EXPECT_NEAR(one / estimate(m, w).seconds, 8, 0.5);
}

TEST(TimeModel, LiveValuesOfChainsAndTrees) {
    Build b("tree");
    const auto x = b.in("x", DType::F32, {8}), y = b.out("y", DType::F32, {8});
    const auto i = b.var("i", 8);
    // ((x0 + x1) + (x2 + x3)) of four different values wants three registers, a chain of sums two.
    std::vector<ExprId> v;
    for (int k = 0; k < 4; ++k) v.push_back(b(Fn::Mul, b.load(x, {i}), b.f32(k + 2)));
    const ExprId tree = b(Fn::Add, b(Fn::Add, v[0], v[1]), b(Fn::Add, v[2], v[3]));
    const ExprId chain = b(Fn::Add, b(Fn::Add, b(Fn::Add, v[0], v[1]), v[2]), v[3]);
    b.set(y, {i}, tree);
    EXPECT_GE(live_values(b.p, tree), live_values(b.p, chain));
    EXPECT_LE(live_values(b.p, tree), 6);
    EXPECT_EQ(live_values(b.p, v[0]), 2);
}

}  // namespace
}  // namespace opwright::fuse
