#include "math/inline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "derive/reference.h"
#include "derive_test_util.h"
#include "math/facts.h"
#include "math/merge.h"
#include "math/unit_dims.h"

namespace opwright::math {
namespace {
using test::Build;
using test::sym;
using test::tensor;

const Sym kM = Sym::symbol("m"), kN = Sym::symbol("n"), kK = Sym::symbol("k");

Tensor counted(DType t, Shape s) {
    Tensor r(t, std::move(s));
    for (int64_t i = 0; i < r.size(); ++i) r.set(i, std::sin(static_cast<double>(i) * 1.7) * 3);
    return r;
}

// Both programs deliver the same values on these inputs.
void expect_same(const Program& a, const Program& b, const std::vector<Tensor>& inputs) {
    ASSERT_TRUE(verify(a).empty()) << verify(a).front() << "\n" << a.print();
    ASSERT_TRUE(verify(b).empty()) << verify(b).front() << "\n" << b.print();
    const auto x = derive::reference(a, inputs), y = derive::reference(b, inputs);
    ASSERT_TRUE(x.ok()) << x.error().message;
    ASSERT_TRUE(y.ok()) << y.error().message;
    ASSERT_EQ(x->size(), y->size());
    for (size_t i = 0; i < x->size(); ++i) {
        ASSERT_EQ((*x)[i].value.shape(), (*y)[i].value.shape());
        for (int64_t k = 0; k < (*x)[i].value.size(); ++k) EXPECT_DOUBLE_EQ((*x)[i].value.get(k), (*y)[i].value.get(k)) << i << " " << k;
    }
}

const InlineRecord& record(const Inlined& r, const std::string& tensor) {
    for (const InlineRecord& x : r.records)
        if (x.tensor == tensor) return x;
    static const InlineRecord none;
    ADD_FAILURE() << "no record of " << tensor;
    return none;
}

TEST(MathInline, ChainBecomesOneEquation) {
    Build b("chain");
    const auto x = b.in("x", DType::F32, {kM, kN}), t = b.temp("t", DType::F32, {kM, kN}), u = b.temp("u", DType::F32, {kM, kN}),
               y = b.out("y", DType::F32, {kM, kN});
    const auto i = b.var("i", kM), j = b.var("j", kN);
    b.set(t, {i, j}, b(Fn::Exp, b.load(x, {i, j})));
    const auto p = b.var("p", kM), q = b.var("q", kN);
    b.set(u, {p, q}, b(Fn::Mul, b.load(t, {p, q}), b.load(t, {p, q})));
    const auto r = b.var("r", kM), s = b.var("s", kN);
    b.set(y, {r, s}, b(Fn::Add, b.load(u, {r, s}), b.load(x, {r, s})));
    const Inlined done = inline_temporaries(b.done());
    EXPECT_EQ(done.program.equations.size(), 1u) << done.program.print();
    EXPECT_EQ(done.program.tensors.size(), 2u);
    EXPECT_EQ(done.program.print(), "y[r,s] = exp(x[r,s]) * exp(x[r,s]) + x[r,s]\n");
    expect_same(b.p, done.program, {counted(DType::F32, {3, 5})});
}

TEST(MathInline, AReductionStays) {
    Build b("rows");
    const auto x = b.in("x", DType::F32, {kM, kN}), t = b.temp("t", DType::F32, {kM}), y = b.out("y", DType::F32, {kM});
    const auto i = b.var("i", kM), j = b.var("j", kN);
    b.set(t, {i}, b.sum({j}, b.load(x, {i, j})));
    const auto r = b.var("r", kM);
    b.set(y, {r}, b(Fn::Mul, b.load(t, {r}), b.f32(0.5)));
    const Inlined done = inline_temporaries(b.done());
    EXPECT_EQ(done.program.equations.size(), 2u);
    EXPECT_FALSE(record(done, "t").taken);
    EXPECT_EQ(record(done, "t").reason, "holds a reduction, which is evaluated once");
    expect_same(b.p, done.program, {counted(DType::F32, {3, 5})});
}

// exp of a row, wanted for every column: evaluated once, not n times.
TEST(MathInline, CostlyBroadcastStaysAndFreeBroadcastGoes) {
    Build b("broadcast");
    const auto x = b.in("x", DType::F32, {kM}), t = b.temp("t", DType::F32, {kM}), u = b.temp("u", DType::F32, {kM, 1}),
               y = b.out("y", DType::F32, {kM, kN});
    const auto i = b.var("i", kM);
    b.set(t, {i}, b(Fn::Exp, b.load(x, {i})));
    const auto v = b.var("v", kM);
    b.p.add_equation(u, {b.at(v), b.p.integer(0)}, b.load(t, {v}));
    const auto r = b.var("r", kM), s = b.var("s", kN);
    b.p.add_equation(y, b.at({r, s}), b(Fn::Add, b.p.load(u, {b.at(r), b.p.integer(0)}), b.f32(1)));
    const Inlined done = inline_temporaries(b.done());
    EXPECT_FALSE(record(done, "t").taken);
    EXPECT_EQ(record(done, "t").reason, "would be evaluated more than once an element");
    EXPECT_TRUE(record(done, "u").taken);
    // Nothing fixes n: the output's own extent does.
    Program whole = done.program;
    const auto a = derive::reference(b.p, {counted(DType::F32, {3})}, {{"n", 4}}), c = derive::reference(whole, {counted(DType::F32, {3})}, {{"n", 4}});
    ASSERT_TRUE(a.ok() && c.ok());
    for (int64_t k = 0; k < 12; ++k) EXPECT_EQ((*a)[0].value.get(k), (*c)[0].value.get(k));
}

TEST(MathInline, TransposeGoesIntoAContraction) {
    Build b("matmul");
    const auto x = b.in("x", DType::F32, {kM, kK}), w = b.in("w", DType::F32, {kN, kK}), t = b.temp("t", DType::F32, {kK, kN}),
               y = b.out("y", DType::F32, {kM, kN});
    const auto a = b.var("a", kK), c = b.var("c", kN);
    b.set(t, {a, c}, b.load(w, {c, a}));
    const auto i = b.var("i", kM), j = b.var("j", kN), k = b.var("k", kK);
    b.set(y, {i, j}, b.sum({k}, b(Fn::Mul, b.load(x, {i, k}), b.load(t, {k, j}))));
    const Inlined done = inline_temporaries(b.done());
    EXPECT_EQ(done.program.print(), "y[i,j] = sum[k](x[i,k] * w[j,k])\n");
    expect_same(b.p, done.program, {counted(DType::F32, {3, 5}), counted(DType::F32, {2, 5})});
}

// A window that reaches over the edge: the edges of a transposed tensor are the tensor's own.
TEST(MathInline, EdgesFollowAPermutationOnly) {
    for (const bool scaled : {false, true}) {
        Build b("window");
        const auto x = b.in("x", DType::F32, {kM, kN}), t = b.temp("t", DType::F32, {kN, kM}), y = b.out("y", DType::F32, {kN, kM});
        const auto a = b.var("a", kN), c = b.var("c", kM);
        const ExprId moved = b.load(x, {c, a});
        b.set(t, {a, c}, scaled ? b(Fn::Exp, moved) : moved);
        const auto i = b.var("i", kN), j = b.var("j", kM), d = b.var("d", 3);
        const ExprId at = b.p.call(Fn::Sub, {b.p.call(Fn::Add, {b.at(i), b.at(d)}), b.p.integer(1)});
        b.p.add_equation(y, b.at({i, j}), b.sum({d}, b.p.load(t, {at, b.at(j)}, Outside::Value, b.f32(-2))));
        const Inlined done = inline_temporaries(b.done());
        EXPECT_EQ(record(done, "t").taken, !scaled) << done.program.print();
        expect_same(b.p, done.program, {counted(DType::F32, {3, 4})});
    }
}

// y = f(f(f(...))) with f(v)[i] = v[i] + v[i-1]-like reads would double at each level; a diamond with equal indices
// must not.
TEST(MathInline, DiamondsStaySmall) {
    Build b("fibonacci");
    std::vector<TensorId> v{b.in("x0", DType::F32, {kN}), b.in("x1", DType::F32, {kN})};
    for (int d = 2; d < 40; ++d) {
        const auto t = d == 39 ? b.out("y", DType::F32, {kN}) : b.temp("t" + std::to_string(d), DType::F32, {kN});
        const auto i = b.var("i", kN);
        b.set(t, {i}, b(Fn::Add, b.load(v[v.size() - 1], {i}), b.load(v[v.size() - 2], {i})));
        v.push_back(t);
    }
    const Inlined done = inline_temporaries(b.done());
    EXPECT_EQ(done.program.equations.size(), 1u);
    EXPECT_LT(done.program.expr_count(), 60u);
    expect_same(b.p, done.program, {counted(DType::F32, {4}), counted(DType::F32, {4})});
}

TEST(MathInline, ShiftedReadsDoNotMultiply) {
    Build b("stencils");
    TensorId v = b.in("x", DType::F32, {kN});
    for (int d = 0; d < 12; ++d) {
        const auto t = d == 11 ? b.out("y", DType::F32, {kN}) : b.temp("t" + std::to_string(d), DType::F32, {kN});
        const auto i = b.var("i", kN);
        const ExprId left = b.p.load(v, {b.p.call(Fn::Sub, {b.at(i), b.p.integer(1)})}, Outside::Value, b.f32(0));
        b.set(t, {i}, b(Fn::Mul, b(Fn::Add, b.load(v, {i}), left), b.f32(0.5)));
        v = t;
    }
    const Inlined done = inline_temporaries(b.done());
    EXPECT_LT(done.program.expr_count(), 400u);
    expect_same(b.p, done.program, {counted(DType::F32, {9})});
}

// A tensor that a later equation updates must not be read late.
TEST(MathInline, OrderOfUpdatesIsKept) {
    Build b("update");
    const auto x = b.in("x", DType::F32, {kN}), s = b.temp("s", DType::F32, {kN}), t = b.temp("t", DType::F32, {kN}), y = b.out("y", DType::F32, {kN});
    const auto i = b.var("i", kN);
    b.set(s, {i}, b.load(x, {i}));
    const auto j = b.var("j", kN);
    b.set(t, {j}, b(Fn::Mul, b.load(s, {j}), b.f32(2)));
    const auto k = b.var("k", kN);
    b.p.add_equation(s, {b.at(k)}, b.f32(1), Update::Add);
    const auto l = b.var("l", kN);
    b.set(y, {l}, b(Fn::Add, b.load(t, {l}), b.load(s, {l})));
    const Inlined done = inline_temporaries(b.done());
    EXPECT_FALSE(record(done, "t").taken);
    EXPECT_EQ(record(done, "t").reason, "s changes after it is read");
    expect_same(b.p, done.program, {counted(DType::F32, {5})});
}

// An update that adds for every j keeps running over j when its value no longer mentions j.
TEST(MathInline, UpdatesKeepTheirVariables) {
    Build b("count");
    const auto x = b.in("x", DType::I64, {kN}), t = b.temp("t", DType::F32, {kN}), y = b.out("y", DType::F32, {3});
    const auto j = b.var("j", kN);
    b.set(t, {j}, b.f32(1));
    const auto i = b.var("i", 3);
    b.set(y, {i}, b.f32(0));
    const auto k = b.var("k", kN);
    b.p.add_equation(y, {b.load(x, {k})}, b.load(t, {k}), Update::Add);
    const Inlined done = inline_temporaries(b.done());
    EXPECT_TRUE(record(done, "t").taken);
    expect_same(b.p, done.program, {tensor<int>(DType::I64, {5}, {0, 2, 2, 1, 2})});
}

TEST(MathInline, DeadTemporariesGo) {
    Build b("dead");
    const auto x = b.in("x", DType::F32, {kN}), t = b.temp("t", DType::F32, {kN}), u = b.temp("u", DType::F32, {kN}), y = b.out("y", DType::F32, {kN});
    const auto i = b.var("i", kN), j = b.var("j", kN), k = b.var("k", kN);
    b.set(t, {i}, b(Fn::Exp, b.load(x, {i})));
    b.set(u, {j}, b(Fn::Exp, b.load(t, {j})));
    b.set(y, {k}, b.load(x, {k}));
    const Inlined done = inline_temporaries(b.done());
    EXPECT_EQ(done.program.print(), "y[k] = x[k]\n");
    EXPECT_EQ(done.program.tensors.size(), 2u);
}

TEST(MathMerge, PartsShareValuesAndSymbols) {
    Build f("scale"), g("add");
    {
        const auto x = f.in("x", DType::F32, {kM, kN}), y = f.out("y", DType::F32, {kM, kN});
        const auto i = f.var("i", kM), j = f.var("j", kN);
        f.set(y, {i, j}, f(Fn::Mul, f.load(x, {i, j}), f.f32(3)));
        f.p.requirements.push_back({less(Sym(0), kM), "m must be positive."});
    }
    {
        const auto x = g.in("x", DType::F32, {kM, kN}), w = g.in("w", DType::F32, {kM, kN}), y = g.out("y", DType::F32, {kM, kN});
        const auto i = g.var("i", kM), j = g.var("j", kN);
        g.set(y, {i, j}, g(Fn::Add, g.load(x, {i, j}), g.load(w, {i, j})));
        g.p.requirements = f.p.requirements;
    }
    const Part parts[] = {{&f.done(), {7}, {8}}, {&g.done(), {8, 7}, {9}}};
    const uint32_t in[] = {7}, out[] = {9};
    const Program p = merge("both", parts, in, out);
    ASSERT_TRUE(verify(p).empty()) << verify(p).front();
    EXPECT_EQ(p.inputs.size(), 1u);
    EXPECT_EQ(p.outputs.size(), 1u);
    EXPECT_EQ(p.requirements.size(), 1u);
    EXPECT_EQ(inline_temporaries(p).program.print(), "y2[i,j] = x[i,j] * 3 + x[i,j]\n");
    const auto r = derive::reference(p, {tensor(DType::F32, {1, 2}, {1.0, 2.0})});
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_EQ((*r)[0].value.get(1), 8);
    const uint32_t both[] = {9, 8};
    const Program q = merge("both", parts, in, both);
    ASSERT_TRUE(verify(q).empty());
    EXPECT_EQ(q.outputs.size(), 2u);
}

TEST(MathUnitDims, AConvolutionWithAWindowOfOneIsAContraction) {
    Build b("conv");
    const auto x = b.in("x", DType::F32, {1, kK, kM, kN}), w = b.in("w", DType::F32, {5, kK, 1, 1}), y = b.out("y", DType::F32, {1, 5, kM, kN});
    const auto n = b.var("b", 1), o = b.var("o", 5), p = b.var("p", kM), q = b.var("q", kN), c = b.var("c", kK), i = b.var("i", 1), j = b.var("j", 1);
    const ExprId at[] = {b.p.call(Fn::Add, {b.at(p), b.at(i)}), b.p.call(Fn::Add, {b.at(q), b.at(j)})};
    b.p.add_equation(y, b.at({n, o, p, q}), b.sum({c, i, j}, b(Fn::Mul, b.p.load(x, {b.at(n), b.at(c), at[0], at[1]}), b.load(w, {o, c, i, j}))));
    const Program slim = drop_unit_variables(b.done());
    EXPECT_EQ(slim.print(), "y[0,o,p,q] = sum[c](x[0,c,p,q] * w[o,c,0,0])\n");
    expect_same(b.p, slim, {counted(DType::F32, {1, 3, 4, 2}), counted(DType::F32, {5, 3, 1, 1})});
}

TEST(MathUnitDims, AnAccessThatStaysInsideSaysSo) {
    Build b("inside");
    const auto x = b.in("x", DType::F32, {kN, 3}), y = b.out("y", DType::F32, {kN});
    const auto i = b.var("i", kN), d = b.var("d", 1);
    const ExprId at = b.p.call(Fn::Add, {b.at(i), b.at(d)}), next = b.p.call(Fn::Add, {b.at(i), b.p.integer(1)});
    const ExprId in = b.p.load(x, {at, b.p.integer(2)}, Outside::Value, b.f32(0)), out = b.p.load(x, {next, b.p.integer(2)}, Outside::Value, b.f32(0));
    b.set(y, {i}, b.sum({d}, b(Fn::Add, in, out)));
    const Program slim = drop_unit_variables(b.done());
    EXPECT_EQ(slim.print(), "y[i] = x[i,2] + x[i + 1,2] outside (0)\n");
    expect_same(b.p, slim, {counted(DType::F32, {4, 3})});
}

TEST(MathUnitDims, ReductionsOverOneElement) {
    Build b("unit");
    const auto x = b.in("x", DType::F32, {kN, 1}), y = b.out("y", DType::F32, {kN}), z = b.out("z", DType::I64, {kN});
    const auto i = b.var("i", kN), j = b.var("j", 1), k = b.var("k", kN), l = b.var("l", 1);
    b.set(y, {i}, b.p.reduce(ReduceOp::Max, {j}, b.load(x, {i, j}), DType::F32));
    b.set(z, {k}, b.p.reduce(ReduceOp::ArgMax, {l}, b.load(x, {k, l}), DType::I64));
    const Program slim = drop_unit_variables(b.done());
    EXPECT_EQ(slim.print(), "y[i] = x[i,0]\nz[k] = 0\n");
    expect_same(b.p, slim, {counted(DType::F32, {4, 1})});
}

TEST(MathFacts, RepeatsAndIdentity) {
    Build b("facts");
    const auto i = b.var("i", kM), j = b.var("j", kN), k = b.var("k", 3), u = b.var("u", 1);
    const ExprId sum = b.p.call(Fn::Add, {b.at(i), b.at(k)});
    const ExprId split = b.p.call(Fn::Add, {b.p.call(Fn::Mul, {b.at(i), b.p.integer(3)}), b.at(k)});
    EXPECT_FALSE(repeats(b.p, {b.at(j), b.at(i)}, {i, j}));
    EXPECT_TRUE(repeats(b.p, {b.at(i)}, {i, j}));
    EXPECT_FALSE(repeats(b.p, {b.at(i)}, {i, u}));
    EXPECT_TRUE(repeats(b.p, {sum}, {i, k}));     // a window
    EXPECT_FALSE(repeats(b.p, {split}, {i, k}));  // a dim split in two
    EXPECT_TRUE(identity(b.p, {b.at(i), b.at(j)}, {kM, kN}, {i, j}));
    EXPECT_TRUE(identity(b.p, {b.at(i), b.p.integer(0), b.at(j)}, {kM, 1, kN}, {i, u, j}));
    EXPECT_FALSE(identity(b.p, {b.at(j), b.at(i)}, {kN, kM}, {i, j}));
    EXPECT_FALSE(identity(b.p, {b.at(i)}, {kM}, {i, j}));
    EXPECT_FALSE(identity(b.p, {b.at(i), b.at(j)}, {kM, kK}, {i, j}));
}

}  // namespace
}  // namespace opwright::math
