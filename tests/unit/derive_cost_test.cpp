#include "derive/cost.h"

#include "derive_test_util.h"

namespace opwright::derive {
namespace {
using namespace math;
using namespace test;

TEST(DeriveCost, MatmulWithPrelu) {
    Build b("matmul_prelu");
    const Sym m = sym("m"), n = sym("n"), k = sym("k");
    const auto x = b.in("x", DType::F32, {m, k}), w = b.in("w", DType::F32, {n, k}), a = b.in("a", DType::F32, {n});
    const auto z = b.temp("z", DType::F32, {m, n}), y = b.out("y", DType::F32, {m, n});
    const auto vm = b.var("m", m), vn = b.var("n", n), vk = b.var("k", k), um = b.var("m", m), un = b.var("n", n);
    b.set(z, {vm, vn}, b.sum({vk}, b(Fn::Mul, b.load(x, {vm, vk}), b.load(w, {vn, vk}))));
    const auto zz = b.load(z, {um, un});
    b.set(y, {um, un}, b.p.select(b(Fn::Ge, zz, b.f32(0)), zz, b(Fn::Mul, b.load(a, {un}), zz)));
    const Cost c = cost(b.done());
    EXPECT_EQ(c.simple, Sym(2) * m * n * k + Sym(3) * m * n);
    EXPECT_EQ(c.divide, Sym(0));
    EXPECT_EQ(c.special, Sym(0));
    EXPECT_EQ(c.read_bytes, Sym(4) * (m * k + n * k + n));
    EXPECT_EQ(c.write_bytes, Sym(4) * m * n);
    EXPECT_EQ(print_cost(b.p, c).substr(0, 27), "2*k*m*n + 3*m*n FLOPs; at l");
}

TEST(DeriveCost, ReductionsAreHoistedAndCommonPartsCountedOnce) {
    Build b("softmax");
    const Sym m = sym("m"), n = sym("n");
    const auto x = b.in("x", DType::F32, {m, n}), y = b.out("y", DType::F32, {m, n});
    const auto vm = b.var("m", m), vn = b.var("n", n), j = b.var("j", n), k = b.var("k", n);
    const auto top = b.p.reduce(ReduceOp::Max, {j}, b.load(x, {vm, j}), DType::F32);
    const auto bottom = b.sum({k}, b(Fn::Exp, b(Fn::Sub, b.load(x, {vm, k}), top)));
    const auto e = b(Fn::Exp, b(Fn::Sub, b.load(x, {vm, vn}), top));
    b.set(y, {vm, vn}, b(Fn::Div, e, bottom));
    const Cost c = cost(b.done());
    EXPECT_EQ(c.special, Sym(2) * m * n);  // once under the sum, once outside
    EXPECT_EQ(c.divide, m * n);
    EXPECT_EQ(c.simple, Sym(4) * m * n);      // max, sum, two subtractions
    EXPECT_EQ(c.read_bytes, Sym(4) * m * n);  // x is read twice but is there once
    EXPECT_EQ(c.bytes(), Sym(8) * m * n);
}

TEST(DeriveCost, WhatAReductionDoesNotDependOnIsCountedOutsideIt) {
    Build b("scaled_sum");
    const Sym m = sym("m"), n = sym("n");
    const auto x = b.in("x", DType::F32, {m, n}), s = b.in("s", DType::F32, {m}), y = b.out("y", DType::F32, {m});
    const auto vm = b.var("m", m), vn = b.var("n", n);
    b.set(y, {vm}, b.sum({vn}, b(Fn::Mul, b.load(x, {vm, vn}), b(Fn::Exp, b.load(s, {vm})))));
    const Cost c = cost(b.done());
    EXPECT_EQ(c.special, m);
    EXPECT_EQ(c.simple, Sym(2) * m * n);
}

TEST(DeriveCost, AffineAndDataDependentReadsAreBoundedByTheTensor) {
    Build b("gather");
    const Sym rows = sym("r"), n = sym("n"), c = sym("c");
    const auto t = b.in("t", DType::F16, {rows, c}), i = b.in("i", DType::I64, {n}), y = b.out("y", DType::F16, {n, c});
    const auto vn = b.var("n", n), vc = b.var("c", c);
    b.set(y, {vn, vc}, b.p.load(t, {b.load(i, {vn}), b.at(vc)}));
    const Cost k = cost(b.done());
    const SymValues small{{"r", 100}, {"n", 3}, {"c", 5}}, large{{"r", 2}, {"n", 30}, {"c", 5}};
    EXPECT_EQ(evaluate(k.read_bytes, small), 3 * 5 * 2 + 3 * 8);
    EXPECT_EQ(evaluate(k.read_bytes, large), 2 * 5 * 2 + 30 * 8);
    EXPECT_EQ(k.flops(), Sym(0));

    Build d("diagonal");
    const auto x = d.in("x", DType::F32, {n, n}), z = d.out("z", DType::F32, {n});
    const auto v = d.var("n", n);
    d.set(z, {v}, d.load(x, {v, v}));
    EXPECT_EQ(evaluate(cost(d.done()).read_bytes, {{"n", 7}}), 4 * 7);
}

TEST(DeriveCost, IndexArithmeticIsFreeIntegerDataIsNot) {
    Build b("mask");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::I64, {n, n}), y = b.out("y", DType::I64, {n, n});
    const auto i = b.var("i", n), j = b.var("j", n);
    const auto below = b(Fn::Le, b.at(j), b.at(i));
    b.set(y, {i, j}, b.p.select(below, b(Fn::Add, b.load(x, {i, j}), b.p.integer(1)), b.p.integer(0)));
    EXPECT_EQ(cost(b.done()).simple, Sym(2) * n * n);  // the addition and the selection, not the comparison
}

TEST(DeriveCost, ScansAndUpdatesCountOneATerm) {
    Build b("cumsum");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n}), y = b.out("y", DType::F32, {n});
    const auto v = b.var("n", n);
    b.set(y, {v}, b.p.scan(ReduceOp::Sum, v, b.load(x, {v}), false, false));
    EXPECT_EQ(cost(b.done()).simple, n);
}

TEST(DeriveCost, PrintsValuesWhereExtentsAreKnown) {
    Build b("dot");
    const auto x = b.in("x", DType::F32, {Sym(1000)}), y = b.out("y", DType::F32, {});
    const auto v = b.var("i", Sym(1000));
    b.set(y, {}, b.sum({v}, b(Fn::Mul, b.load(x, {v}), b.load(x, {v}))));
    EXPECT_EQ(print_cost(b.done(), cost(b.p)),
              "2000 FLOPs; at least 4000 bytes read, 4 written; 2 kFLOP, 4 kB, 0.5 FLOP/B");
}

}  // namespace
}  // namespace opwright::derive
