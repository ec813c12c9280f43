#include "derive/reference.h"

#include <cmath>
#include <limits>
#include <random>

#include "derive_test_util.h"

namespace opwright::derive {
namespace {
using namespace math;
using namespace test;
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<double> values(const Tensor& t) {
    std::vector<double> r(t.size());
    for (int64_t i = 0; i < t.size(); ++i) r[i] = t.get(i);
    return r;
}
std::vector<ReferenceOutput> run(const Program& p, const std::vector<Tensor>& in, const SymValues& given = {}) {
    auto r = reference(p, in, given);
    EXPECT_TRUE(r.ok()) << (r.ok() ? "" : render(r.error()));
    return r.ok() ? std::move(*r) : std::vector<ReferenceOutput>(p.outputs.size());
}
Tensor noise(Shape s, uint64_t seed, DType t = DType::F32) {
    std::mt19937_64 r(seed);
    std::normal_distribution<double> d;
    Tensor x(t, std::move(s));
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, d(r));
    return x;
}

TEST(DeriveReference, MatmulInOneEquationWithItsEpilogue) {
    Build b("matmul_prelu");
    const Sym m = sym("m"), n = sym("n"), k = sym("k");
    const auto x = b.in("x", DType::F32, {m, k}), w = b.in("w", DType::F32, {n, k}), a = b.in("a", DType::F32, {n});
    const auto y = b.out("y", DType::F32, {m, n});
    const auto vm = b.var("m", m), vn = b.var("n", n), vk = b.var("k", k);
    const auto z = b.sum({vk}, b(Fn::Mul, b.load(x, {vm, vk}), b.load(w, {vn, vk})));
    b.set(y, {vm, vn}, b.p.select(b(Fn::Ge, z, b.f32(0)), z, b(Fn::Mul, b.load(a, {vn}), z)));
    for (const auto& [M, N, K] : {std::tuple{3, 4, 5}, {1, 1, 200}, {130, 2, 33}, {2, 3, 0}, {0, 3, 4}, {4, 0, 4}}) {
        const Tensor X = noise({M, K}, 1), W = noise({N, K}, 2), A = noise({N}, 3);
        const auto r = run(b.done(), {X, W, A});
        ASSERT_EQ(r[0].value.shape(), (Shape{M, N}));
        ASSERT_EQ(r[0].value.dtype(), DType::F64);
        for (int64_t i = 0; i < M; ++i)
            for (int64_t j = 0; j < N; ++j) {
                double s = 0, t = 0;
                for (int64_t l = 0; l < K; ++l) {
                    s += X.get(i * K + l) * W.get(j * K + l);
                    t += std::fabs(X.get(i * K + l) * W.get(j * K + l));
                }
                EXPECT_NEAR(r[0].value.get(i * N + j), s >= 0 ? s : A.get(j) * s, 1e-13 * (1 + t));
                EXPECT_NEAR(r[0].terms.get(i * N + j), s >= 0 ? t : t * std::fabs(A.get(j)), 1e-13 * (1 + t));
                EXPECT_LE(r[0].bound.get(i * N + j), 3 * (K + 3) * 0x1p-24 * t);
            }
    }
}

// One equation whose reductions depend on a part of its variables only: each is computed once per row.
TEST(DeriveReference, SoftmaxHoistsItsReductions) {
    Build b("softmax");
    const Sym m = sym("m"), n = sym("n");
    const auto x = b.in("x", DType::F32, {m, n}), y = b.out("y", DType::F32, {m, n});
    const auto vm = b.var("m", m), vn = b.var("n", n), j = b.var("j", n), k = b.var("k", n);
    const auto top = b.p.reduce(ReduceOp::Max, {j}, b.load(x, {vm, j}), DType::F32);
    const auto e = [&](VarId v) { return b(Fn::Exp, b(Fn::Sub, b.load(x, {vm, v}), top)); };
    b.set(y, {vm, vn}, b(Fn::Div, e(vn), b.sum({k}, e(k))));
    const Tensor X = noise({50, 4000}, 4);  // without hoisting: 8e8 steps
    const auto r = run(b.done(), {X}, {});
    for (int64_t i : {0, 1, 49}) {
        double s = 0;
        for (int64_t l = 0; l < 4000; ++l) s += std::exp(X.get(i * 4000 + l));
        for (int64_t l : {0, 17, 3999})
            EXPECT_NEAR(r[0].value.get(i * 4000 + l), std::exp(X.get(i * 4000 + l)) / s, 1e-15);
    }
}

TEST(DeriveReference, ReductionsInsideReductions) {
    Build b("nested");
    const Sym m = sym("m"), n = sym("n"), k = sym("k");
    const auto x = b.in("x", DType::F32, {m, n, k}), y = b.out("y", DType::F32, {m});
    const auto vm = b.var("m", m), vn = b.var("n", n), vk = b.var("k", k);
    // Not first-come order of variables: the inner one depends on (n, m) with n reduced outside.
    const auto inner = b.p.reduce(ReduceOp::Max, {vk}, b.load(x, {vm, vn, vk}), DType::F32);
    b.set(y, {vm}, b.sum({vn}, b(Fn::Mul, inner, inner)));
    const Tensor X = noise({3, 40, 7}, 5);
    const auto r = run(b.done(), {X});
    for (int64_t i = 0; i < 3; ++i) {
        double s = 0;
        for (int64_t j = 0; j < 40; ++j) {
            double t = -kInf;
            for (int64_t l = 0; l < 7; ++l) t = std::max(t, X.get((i * 40 + j) * 7 + l));
            s += t * t;
        }
        EXPECT_NEAR(r[0].value.get(i), s, 1e-12);
    }
}

TEST(DeriveReference, ReductionsOfNothing) {
    Build b("empty");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n});
    const auto i = b.in("i", DType::I8, {n});
    const auto v = b.var("n", n);
    std::vector<TensorId> out;
    for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min}) {
        b.p.add_equation(b.out("y" + std::to_string(out.size()), DType::F32, {}), {},
                         b.p.reduce(op, {v}, b.load(x, {v}), DType::F32));
        b.p.add_equation(b.out("z" + std::to_string(out.size()), DType::I8, {}), {},
                         b.p.reduce(op, {v}, b.load(i, {v}), DType::I8));
        out.push_back(0);
    }
    b.p.add_equation(b.out("a", DType::I64, {}), {}, b.p.reduce(ReduceOp::ArgMax, {v}, b.load(x, {v}), DType::I64));
    const auto r = run(b.done(), {Tensor(DType::F32, {0}), Tensor(DType::I8, {0})});
    const double want[] = {0, 0, 1, 1, -kInf, -128, kInf, 127, 0};
    for (size_t k = 0; k < r.size(); ++k) EXPECT_EQ(r[k].value.get(0), want[k]) << k;
}

TEST(DeriveReference, EveryOutsideMode) {
    const Sym n = sym("n"), wide = Sym(3) * n + Sym(6);
    for (Outside o : {Outside::Value, Outside::Clamp, Outside::Wrap, Outside::Reflect, Outside::Mirror}) {
        for (bool data : {false, true}) {
            Build b("pad");
            const auto x = b.in("x", DType::F32, {n}), y = b.out("y", DType::F32, {wide});
            const auto z = b.out("z", DType::Bool, {wide});
            const auto v = b.var("i", wide), u = b.var("i", wide);
            const auto shift = [&](VarId w) { return b.p.call(Fn::Sub, {b.at(w), b.p.size(n + Sym(3))}); };
            // A division makes the index anything but affine.
            const auto index = [&](VarId w) {
                return data ? b(Fn::FloorDiv, b(Fn::Mul, shift(w), b.p.integer(2)), b.p.integer(2)) : shift(w);
            };
            b.set(y, {v}, b.p.load(x, {index(v)}, o, o == Outside::Value ? b.f32(-7) : kNone));
            b.set(z, {u}, b.p.inside(x, {index(u)}));
            for (int64_t N : {1, 2, 5}) {
                const Tensor X = noise({N}, 6);
                const auto r = run(b.done(), {X});
                for (int64_t i = 0; i < 3 * N + 6; ++i) {
                    int64_t at = i - N - 3;
                    const bool inside = at >= 0 && at < N;
                    EXPECT_EQ(r[1].value.get(i), inside);
                    if (!inside && o == Outside::Value) {
                        EXPECT_EQ(r[0].value.get(i), -7);
                        continue;
                    }
                    while (at < 0 || at >= N) {  // one step of the rule at a time
                        if (o == Outside::Clamp) at = at < 0 ? 0 : N - 1;
                        if (o == Outside::Wrap) at += at < 0 ? N : -N;
                        if (o == Outside::Reflect) at = N == 1 ? 0 : at < 0 ? -at : 2 * (N - 1) - at;
                        if (o == Outside::Mirror) at = at < 0 ? -1 - at : 2 * N - 1 - at;
                    }
                    EXPECT_EQ(r[0].value.get(i), X.get(at)) << static_cast<int>(o) << " " << i << " of " << N;
                    EXPECT_EQ(r[0].bound.get(i), 0);
                }
            }
        }
    }
}

TEST(DeriveReference, ConvolutionWithPadding) {
    Build b("conv");
    const Sym c = sym("c"), h = sym("h"), w = sym("w");
    const auto x = b.in("x", DType::F32, {c, h, w}), f = b.in("f", DType::F32, {c, Sym(3), Sym(3)});
    const auto y = b.out("y", DType::F32, {h, w});
    const auto vi = b.var("i", h), vj = b.var("j", w), vc = b.var("c", c), p = b.var("p", Sym(3)),
               q = b.var("q", Sym(3));
    const auto off = [&](VarId a, VarId k) { return b(Fn::Sub, b(Fn::Add, b.at(a), b.at(k)), b.p.integer(1)); };
    b.set(y, {vi, vj},
          b.sum({vc, p, q}, b(Fn::Mul, b.p.load(x, {b.at(vc), off(vi, p), off(vj, q)}, Outside::Value, b.f32(0)),
                              b.load(f, {vc, p, q}))));
    for (const auto& [C, H, W] : {std::tuple{2, 5, 4}, {5, 3, 3}, {1, 1, 1}}) {
        const Tensor X = noise({C, H, W}, 7), F = noise({C, 3, 3}, 8);
        const auto r = run(b.done(), {X, F});
        for (int64_t i = 0; i < H; ++i)
            for (int64_t j = 0; j < W; ++j) {
                double s = 0;
                for (int64_t k = 0; k < C; ++k)
                    for (int64_t a = 0; a < 3; ++a)
                        for (int64_t e = 0; e < 3; ++e)
                            if (i + a - 1 >= 0 && i + a - 1 < H && j + e - 1 >= 0 && j + e - 1 < W)
                                s += X.get((k * H + i + a - 1) * W + j + e - 1) * F.get((k * 3 + a) * 3 + e);
                EXPECT_NEAR(r[0].value.get(i * W + j), s, 1e-13);
            }
    }
}

TEST(DeriveReference, ScansInBothDirections) {
    for (bool exclusive : {false, true})
        for (bool backward : {false, true})
            for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max}) {
                Build b("scan");
                const Sym m = sym("m"), n = sym("n");
                const auto x = b.in("x", DType::F32, {n, m}), y = b.out("y", DType::F32, {n, m});
                const auto i = b.in("i", DType::I8, {n, m}), z = b.out("z", DType::I8, {n, m});
                const auto vn = b.var("n", n), vm = b.var("m", m), un = b.var("n", n), um = b.var("m", m);
                b.set(y, {vn, vm}, b.p.scan(op, vn, b.load(x, {vn, vm}), exclusive, backward));
                b.set(z, {un, um}, b.p.scan(op, un, b.load(i, {un, um}), exclusive, backward));
                const int64_t N = 300, M = 2;
                const Tensor X = noise({N, M}, 9), I = noise({N, M}, 10, DType::I8);
                const auto r = run(b.done(), {X, I});
                for (int64_t c = 0; c < M; ++c) {
                    double s = op == ReduceOp::Sum ? 0 : op == ReduceOp::Prod ? 1 : -kInf;
                    int64_t t = op == ReduceOp::Sum ? 0 : op == ReduceOp::Prod ? 1 : -128;
                    for (int64_t k = 0; k < N; ++k) {
                        const int64_t at = (backward ? N - 1 - k : k) * M + c;
                        const auto expect = [&] {
                            EXPECT_TRUE(r[0].value.get(at) == s ||
                                        std::fabs(r[0].value.get(at) - s) < 1e-12 * (1 + std::fabs(s)))
                                << at;
                            EXPECT_EQ(r[1].value.get_int(at), t);
                        };
                        if (exclusive) expect();
                        const double v = X.get(at);
                        const int64_t w = I.get_int(at);
                        s = op == ReduceOp::Sum ? s + v : op == ReduceOp::Prod ? s * v : std::max(s, v);
                        t = op == ReduceOp::Sum    ? wrap_to(t + w, DType::I8)
                            : op == ReduceOp::Prod ? wrap_to(t * w, DType::I8)
                                                   : std::max(t, w);
                        if (!exclusive) expect();
                    }
                }
            }
}

TEST(DeriveReference, ScatterUpdates) {
    struct Want {
        Update u;
        std::vector<double> y;
    };
    for (const Want& w : {Want{Update::Add, {11, 24, 30}},
                          {Update::Mul, {10, 80, 30}},
                          {Update::Max, {10, 20, 30}},
                          {Update::Min, {1, 2, 30}},
                          {Update::Overwrite, {1, 2, 30}}}) {
        Build b("scatter");
        const Sym n = sym("n"), k = sym("k");
        const auto base = b.in("base", DType::F32, {n}), x = b.in("x", DType::F32, {k}), i = b.in("i", DType::I64, {k});
        const auto y = b.out("y", DType::F32, {n});
        const auto vn = b.var("n", n), vk = b.var("k", k);
        b.set(y, {vn}, b.load(base, {vn}));
        b.p.add_equation(y, {b.load(i, {vk})}, b.load(x, {vk}), w.u, Outside::Value);
        const auto r =
            run(b.done(), {tensor(DType::F32, {3}, {10., 20., 30.}), tensor(DType::F32, {4}, {1., 2., 2., 9.}),
                           tensor<int64_t>(DType::I64, {4}, {0, 1, 1, 3})});
        EXPECT_EQ(values(r[0].value), w.y) << static_cast<int>(w.u);
        EXPECT_EQ(r[0].bound.get(2), 0);
    }
}

TEST(DeriveReference, OverwritesCoverAPieceEach) {
    Build b("concat");
    const Sym n = sym("n"), k = sym("k");
    const auto x = b.in("x", DType::I32, {n}), z = b.in("z", DType::I32, {k}), y = b.out("y", DType::I32, {n + k});
    const auto vn = b.var("n", n), vk = b.var("k", k);
    b.p.add_equation(y, {b.at(vn)}, b.load(x, {vn}), Update::Overwrite);
    Build half = b;
    b.p.add_equation(y, {b(Fn::Add, b.at(vk), b.p.size(n))}, b.load(z, {vk}), Update::Overwrite);
    const std::vector<Tensor> in{tensor<int64_t>(DType::I32, {2}, {1, 2}), tensor<int64_t>(DType::I32, {3}, {3, 4, 5})};
    EXPECT_EQ(values(run(b.done(), in)[0].value), (std::vector<double>{1, 2, 3, 4, 5}));
    EXPECT_EQ(reference(half.p, in).error().message,
              "operator concat leaves elements of y undefined, the first at row-major position 2");
}

TEST(DeriveReference, IntegersWrapAndConvert) {
    Build b("ints");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::U8, {n}), y = b.out("y", DType::U8, {n}), s = b.out("s", DType::I32, {}),
               c = b.out("c", DType::I8, {n});
    const auto h = b.out("h", DType::F16, {n}), bits = b.out("bits", DType::I8, {n});
    const auto v = b.var("n", n), u = b.var("n", n), w = b.var("n", n), a = b.var("n", n), e = b.var("n", n);
    b.set(y, {v}, b(Fn::Add, b.load(x, {v}), b.p.integer(100, DType::U8)));
    b.set(s, {}, b.sum({u}, b.p.cast(b.load(x, {u}), DType::I32), DType::I32));
    b.set(c, {w}, b.p.cast(b.load(x, {w}), DType::I8));
    b.set(h, {a}, b.p.cast(b.load(x, {a}), DType::F16));
    b.set(bits, {e}, b.p.bitcast(b.load(x, {e}), DType::I8));
    const auto r = run(b.done(), {tensor<int64_t>(DType::U8, {3}, {200, 250, 7})});
    EXPECT_EQ(values(r[0].value), (std::vector<double>{44, 94, 107}));
    EXPECT_EQ(r[0].value.dtype(), DType::U8);
    EXPECT_EQ(r[1].value.get_int(0), 457);
    EXPECT_EQ(values(r[2].value), (std::vector<double>{127, 127, 7}));
    EXPECT_EQ(values(r[3].value), (std::vector<double>{200, 250, 7}));
    EXPECT_EQ(values(r[3].bound), (std::vector<double>{0, 0, 0}));
    EXPECT_EQ(values(r[4].value), (std::vector<double>{-56, -6, 7}));
}

TEST(DeriveReference, HalfTypesComputeInF32AndRoundOnce) {
    Build b("half");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F16, {n}), y = b.out("y", DType::F16, {n}), copy = b.out("copy", DType::F16, {n});
    const auto v = b.var("n", n), u = b.var("n", n);
    b.set(y, {v}, b(Fn::Mul, b.load(x, {v}), b.load(x, {v})));
    b.set(copy, {u}, b.load(x, {u}));
    const auto r = run(b.done(), {tensor(DType::F16, {3}, {1.5, 0.1, 300.0})});
    EXPECT_EQ(values(r[1].bound), (std::vector<double>{0, 0, 0}));
    const double t = f16_to_f32(f64_to_f16(0.1));
    EXPECT_EQ(r[0].value.get(1), t * t);
    EXPECT_EQ(r[0].bound.get(1), std::fabs(f16_to_f32(f64_to_f16(t * t)) - t * t));  // f32 holds the product exactly
    EXPECT_EQ(r[0].value.get(2), 90000);  // unrounded: it overflows where it is stored
}

TEST(DeriveReference, ConstantsAndScalars) {
    Build b("taps");
    const Sym n = sym("n");
    const auto c = b.p.add_constant("c", tensor(DType::F32, {2}, {0.5, 2.0}));
    const auto x = b.in("x", DType::F32, {n}), y = b.out("y", DType::F32, {n}), s = b.out("s", DType::F32, {});
    const auto v = b.var("n", n), i = b.var("i", Sym(2)), u = b.var("n", n);
    b.set(y, {v}, b.sum({i}, b(Fn::Mul, b.load(x, {v}), b.load(c, {i}))));
    b.set(s, {}, b.sum({u}, b.load(y, {u})));
    const auto r = run(b.done(), {tensor(DType::F32, {2}, {2.0, 4.0})});
    EXPECT_EQ(values(r[0].value), (std::vector<double>{5, 10}));
    EXPECT_EQ(values(r[1].value), (std::vector<double>{15}));
    EXPECT_EQ(values(r[1].terms), (std::vector<double>{15}));
}

TEST(DeriveReference, CompensatesSums) {
    Build b("sum");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F64, {n}), y = b.out("y", DType::F64, {});
    const auto v = b.var("n", n);
    b.set(y, {}, b.sum({v}, b.load(x, {v}), DType::F64));
    EXPECT_EQ(run(b.done(), {tensor(DType::F64, {4}, {1e16, 1.0, -1e16, 1.0})})[0].value.get(0), 2);
}

TEST(DeriveReference, ArgmaxOfComputedNearTiesIsOpen) {
    Build b("argmax");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n}), y = b.out("y", DType::I64, {}), z = b.out("z", DType::I64, {});
    const auto v = b.var("n", n), u = b.var("n", n);
    b.p.add_equation(y, {}, b.p.reduce(ReduceOp::ArgMax, {v}, b.load(x, {v}), DType::I64));
    b.p.add_equation(z, {}, b.p.reduce(ReduceOp::ArgMax, {u}, b(Fn::Exp, b.load(x, {u})), DType::I64));
    const auto r = run(b.done(), {tensor(DType::F32, {3}, {1.0, 2.0, 2.0000002})});
    EXPECT_EQ(r[0].value.get_int(0), 2);
    EXPECT_EQ(r[0].bound.get(0), 0);     // comparing inputs is exact
    EXPECT_EQ(r[1].bound.get(0), kInf);  // comparing their exponentials is not
}

TEST(DeriveReference, ConditionsLimitReductions) {
    Build b("triangle");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n, n}), y = b.out("y", DType::F32, {n});
    const auto i = b.var("i", n), j = b.var("j", n);
    b.set(y, {i}, b.p.reduce(ReduceOp::Sum, {j}, b.load(x, {i, j}), DType::F32, b(Fn::Le, b.at(j), b.at(i))));
    for (int64_t N : {3, 70}) {
        const Tensor X = noise({N, N}, 12);
        const auto r = run(b.done(), {X});
        for (int64_t k = 0; k < N; ++k) {
            double s = 0;
            for (int64_t l = 0; l <= k; ++l) s += X.get(k * N + l);
            EXPECT_NEAR(r[0].value.get(k), s, 1e-13);
        }
    }
}

TEST(DeriveReference, ANanUnderADoubtfulConditionSaysNothing) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Max}) {
        Build b("doubt");
        const Sym n = sym("n");
        const auto half = b.in("half", DType::F32, {}), x = b.in("x", DType::F32, {n}), y = b.out("y", DType::F32, {});
        const auto i = b.var("i", n);
        // tanh(0.5) is near the literal, closer than the kernel's error.
        const auto near = b(Fn::Lt, b(Fn::Tanh, b.load(half, {})), b.f32(0.46211717));
        b.set(y, {},
              b.p.reduce(op, {i}, b.load(x, {i}), DType::F32, b(Fn::And, near, b(Fn::Ge, b.at(i), b.p.integer(1)))));
        const auto r =
            run(b.done(), {tensor(DType::F32, {}, {0.5}), tensor(DType::F32, {3}, {1.0, std::nan(""), 2.0})});
        EXPECT_EQ(r[0].bound.get(0), kInf);
    }
}

TEST(DeriveReference, ReportsAnIndexOutsideItsTensor) {
    Build b("gather");
    const Sym n = sym("n"), k = sym("k");
    const auto t = b.in("table", DType::F32, {n, Sym(2)}), i = b.in("idx", DType::I64, {k}),
               y = b.out("y", DType::F32, {k, Sym(2)});
    const auto vk = b.var("i", k), c = b.var("c", Sym(2));
    b.set(y, {vk, c}, b.p.load(t, {b.load(i, {vk}), b.at(c)}));
    const Tensor table = noise({5, 2}, 13);
    EXPECT_EQ(values(run(b.done(), {table, tensor<int64_t>(DType::I64, {1}, {4})})[0].value),
              (std::vector<double>{table.get(8), table.get(9)}));
    EXPECT_EQ(render(reference(b.p, {table, tensor<int64_t>(DType::I64, {3}, {0, 1, 7})}).error()),
              "error: operator gather reads table outside: the index of dim 0 is 7, and the extent is 5\n"
              "  = note: at i = 2, c = 0\n"
              "  = next: Give indices inside the tensor, or say what lies outside, as in 'outside clamp'.");
    EXPECT_FALSE(reference(b.p, {table, tensor<int64_t>(DType::I64, {1}, {-1})}).ok());

    Build s("put");
    const auto x = s.in("x", DType::F32, {k}), at = s.in("at", DType::I64, {k}), z = s.out("z", DType::F32, {n});
    const auto vn = s.var("n", n), vk2 = s.var("k", k);
    s.set(z, {vn}, s.f32(0));
    s.p.add_equation(z, {s.load(at, {vk2})}, s.load(x, {vk2}), Update::Add);
    EXPECT_EQ(reference(s.done(), {noise({1}, 1), tensor<int64_t>(DType::I64, {1}, {3})}, {{"n", 3}}).error().message,
              "operator put writes z outside: the index of dim 0 is 3, and the extent is 3");
}

TEST(DeriveReference, RefusesWrongTypesAndTooMuchWork) {
    Build b("copy");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n}), y = b.out("y", DType::F32, {n});
    const auto v = b.var("n", n), j = b.var("j", Sym(1000000));
    b.set(y, {v}, b.sum({j}, b.load(x, {v})));
    EXPECT_EQ(reference(b.done(), {Tensor(DType::F64, {1})}).error().message,
              "x of operator copy is f32, the given tensor is f64");
    EXPECT_EQ(
        reference(b.p, {noise({100}, 1)}, {}, {.max_operations = 1000000}).error().message,
        "the reference of operator copy would need 2e+08 operations at these sizes, more than the limit of 1e+06");
}

// Near the end of the range of f64 the reference's own sum overflows in orders in which a kernel's need not.
TEST(DeriveReference, SumsOfF64ThatMayOverflowHaveNoBound) {
    Build b("sum64");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F64, {n}), y = b.out("y", DType::F64, {});
    const auto v = b.var("n", n);
    b.set(y, {}, b.sum({v}, b.load(x, {v}), DType::F64));
    b.done();
    const auto sum = [&](std::initializer_list<double> values) {
        const auto r = run(b.p, {tensor(DType::F64, {static_cast<int64_t>(values.size())}, values)});
        return std::pair{r[0].value.get(0), r[0].bound.get(0)};
    };
    const double inf = INFINITY;
    EXPECT_EQ(sum({1.7e308, 1.7e308}), std::pair(inf, 0.0));
    EXPECT_EQ(sum({-1.7e308, -1.7e308, -1}), std::pair(-inf, 0.0));
    EXPECT_EQ(sum({highest(DType::F64), 0x1p970}).second, inf);  // rounds to infinity, by the least of all
    EXPECT_EQ(sum({1.7e308, 1.7e308, -1.7e308}).second, inf);    // finite in another order
    EXPECT_EQ(sum({1.7e308, 1e290}).second, sum({1e290, 1.7e308}).second);
    EXPECT_LT(sum({1e308, 1e307}).second, 1e293);
}

TEST(DeriveReference, SubnormalFactorsMayBeFlushedOnRequest) {
    Build b("dot");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n}), w = b.in("w", DType::F32, {n}), y = b.out("y", DType::F32, {});
    const auto v = b.var("n", n);
    b.set(y, {}, b.sum({v}, b(Fn::Mul, b.load(x, {v}), b.load(w, {v}))));
    const std::vector<Tensor> in{tensor(DType::F32, {2}, {1e-39, 2e-38}), tensor(DType::F32, {2}, {3.0, 1.0})};
    const auto kept = run(b.done(), in);
    const auto flushed = reference(b.p, in, {}, {.flush_factors = FlushFactors::Both});
    EXPECT_EQ(kept[0].value.get(0), (*flushed)[0].value.get(0));
    EXPECT_LT(kept[0].bound.get(0), 1e-44);
    EXPECT_NEAR((*flushed)[0].bound.get(0), 3e-39, 1e-43);
}

TEST(DeriveReference, SpecialValuesFlowThrough) {
    Build b("special");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n}), relu = b.out("relu", DType::F32, {n}), sq = b.out("sq", DType::F32, {}),
               neg = b.out("neg", DType::F32, {n});
    const auto v = b.var("n", n), u = b.var("n", n), w = b.var("n", n);
    b.set(relu, {v}, b(Fn::Max, b.load(x, {v}), b.f32(0)));
    b.set(sq, {}, b.sum({u}, b(Fn::Mul, b.load(x, {u}), b.load(x, {u}))));
    b.set(neg, {w}, b(Fn::Neg, b.load(x, {w})));
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto r = run(b.done(), {tensor(DType::F32, {5}, {nan, kInf, -kInf, -0.0, 1.0})});
    EXPECT_TRUE(std::isnan(r[0].value.get(0)));
    EXPECT_EQ(r[0].value.get(1), kInf);
    EXPECT_EQ(r[0].value.get(2), 0);
    EXPECT_FALSE(std::signbit(r[0].value.get(3)));
    for (int i = 0; i < 5; ++i) EXPECT_EQ(r[0].bound.get(i), 0);
    EXPECT_TRUE(std::isnan(r[1].value.get(0)));
    EXPECT_FALSE(std::signbit(r[2].value.get(3)));
    // Squares that overflow one by one give infinity in every order and with or without fused operations.
    const auto big = run(b.p, {tensor(DType::F32, {2}, {3e38, 2e38})});
    EXPECT_EQ(big[1].value.get(0), kInf);
    EXPECT_EQ(big[1].bound.get(0), 0);
}

}  // namespace
}  // namespace opwright::derive
