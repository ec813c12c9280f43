#include "derive/shape.h"

#include "derive_test_util.h"

namespace opwright::derive {
namespace {
using namespace math;
using namespace test;

Build matmul() {
    Build b("matmul");
    const Sym m = sym("m"), n = sym("n"), k = sym("k");
    const auto x = b.in("x", DType::F32, {m, k}), w = b.in("w", DType::F32, {n, k});
    const auto y = b.out("y", DType::F32, {m, n});
    const auto vm = b.var("m", m), vn = b.var("n", n), vk = b.var("k", k);
    b.set(y, {vm, vn}, b.sum({vk}, b(Fn::Mul, b.load(x, {vm, vk}), b.load(w, {vn, vk}))));
    return b;
}

// A one-dimensional convolution without padding, whose window leaves x by `pad` on each side.
Build conv(int64_t pad) {
    Build b("conv");
    const Sym h = sym("h"), k = sym("k"), p = h - k + Sym(1);
    const auto x = b.in("x", DType::F32, {h}), w = b.in("w", DType::F32, {k});
    const auto y = b.out("y", DType::F32, {p});
    const auto vp = b.var("p", p), vk = b.var("i", k);
    const auto at = b(Fn::Sub, b(Fn::Add, b.at(vp), b.at(vk)), b.p.integer(pad));
    b.set(y, {vp}, b.sum({vk}, b(Fn::Mul, b.p.load(x, {at}), b.load(w, {vk}))));
    return b;
}

TEST(DeriveShape, BindsSymbolsAndDeliversShapes) {
    Build b = matmul();
    const Program& p = b.done();
    auto v = bind_symbols(p, {{3, 5}, {4, 5}});
    ASSERT_TRUE(v.ok());
    EXPECT_EQ(*v, (SymValues{{"m", 3}, {"n", 4}, {"k", 5}}));
    EXPECT_TRUE(check_requirements(p, *v).ok());
    EXPECT_EQ(*output_shapes(p, *v), (std::vector<Shape>{{3, 4}}));
    EXPECT_EQ(print_shape_rule(p), "x[m, k], w[n, k] -> y[m, n]");
}

TEST(DeriveShape, NamesTheDimThatDoesNotFit) {
    Build b = matmul();
    auto v = bind_symbols(b.done(), {{3, 5}, {4, 6}});
    ASSERT_FALSE(v.ok());
    EXPECT_EQ(render(v.error()),
              "error: dim 1 of w of operator matmul must have the extent k = 5 and has 6\n"
              "  = note: k = 5, from dim 1 of x\n"
              "  = next: The shapes must fit x[m, k], w[n, k] -> y[m, n].");
    EXPECT_EQ(bind_symbols(b.p, {{3, 5}}).error().message, "operator matmul takes 2 tensors and was given 1");
    EXPECT_EQ(bind_symbols(b.p, {{3, 5}, {4}}).error().message,
              "w of operator matmul has rank 2, the given tensor [4] has rank 1");
}

TEST(DeriveShape, ChecksConstantsAndSolvesExpressions) {
    Build b("pairs");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {Sym(2) * n + Sym(1), Sym(3)});
    const auto y = b.out("y", DType::F32, {n});
    const auto v = b.var("n", n);
    b.p.add_equation(y, {b.at(v)}, b.p.load(x, {b.at(v), b.p.integer(0)}));
    EXPECT_EQ(bind_symbols(b.done(), {{9, 3}})->at("n"), 4);
    EXPECT_EQ(bind_symbols(b.p, {{9, 2}}).error().message,
              "dim 1 of x of operator pairs must have the extent 3 and has 2");
    EXPECT_EQ(bind_symbols(b.p, {{8, 3}}).error().message,
              "dim 0 of x of operator pairs has the extent 2*n + 1, and n is not known");
    EXPECT_EQ(bind_symbols(b.p, {{8, 3}}, {{"n", 4}}).error().message,
              "dim 0 of x of operator pairs must have the extent 2*n + 1 = 9 and has 8");
}

TEST(DeriveShape, AffineAccessesStayInside) {
    Build good = conv(0), bad = conv(1);
    EXPECT_TRUE(check_requirements(good.done(), {{"h", 7}, {"k", 3}}).ok());
    EXPECT_TRUE(check_requirements(good.p, {{"h", 3}, {"k", 3}}).ok());
    EXPECT_EQ(render(check_requirements(bad.done(), {{"h", 7}, {"k", 3}}).error()),
              "error: operator conv reaches outside x: in x[p + i - 1] the index of dim 0 runs from -1 to 5, and the "
              "extent is 7\n"
              "  = note: p runs over 5 values (h - k + 1)\n"
              "  = note: i runs over 3 values (k)\n"
              "  = next: Say what lies outside, as in 'outside zero', or keep the index inside.");
    // No window position at all: nothing is read, so nothing is outside.
    EXPECT_TRUE(check_requirements(bad.p, {{"h", 2}, {"k", 3}}).ok());
    EXPECT_EQ(check_requirements(bad.p, {{"h", 1}, {"k", 3}}).error().message,
              "the index p of operator conv would run over h - k + 1 = -1 values");
    EXPECT_EQ(output_shapes(bad.p, {{"h", 1}, {"k", 3}}).error().message,
              "dim 0 of y, which operator conv delivers, would have the extent h - k + 1 = -1");
}

TEST(DeriveShape, QuotientsByANumberStayInside) {
    const auto halves = [](int64_t shift) {  // y[i] = x[(i + shift) // 2], i in 0..2*n
        Build b("halves");
        const Sym n = sym("n");
        const auto x = b.in("x", DType::F32, {n});
        const auto y = b.out("y", DType::F32, {2 * n});
        const auto i = b.var("i", 2 * n);
        const auto sum = b(Fn::Add, b.at(i), b.p.integer(shift));
        b.set(y, {i}, b.p.load(x, {b(Fn::FloorDiv, sum, b.p.integer(2))}));
        return b;
    };
    Build good = halves(0), past = halves(1), before = halves(-1);
    EXPECT_TRUE(check_requirements(good.done(), {{"n", 4}}).ok());
    EXPECT_TRUE(check_requirements(past.done(), {{"n", 0}}).ok());
    EXPECT_EQ(check_requirements(past.p, {{"n", 4}}).error().message,
              "operator halves reaches outside x: in x[(i + 1) // 2] the index of dim 0 runs from 0 to 4, and the "
              "extent is 4");
    EXPECT_EQ(check_requirements(before.done(), {{"n", 4}}).error().message,
              "operator halves reaches outside x: in x[(i + -1) // 2] the index of dim 0 runs from -1 to 3, and the "
              "extent is 4");
}

TEST(DeriveShape, RequirementsSpeakForThemselves) {
    Build b = matmul();
    b.p.requirements.push_back({less(Sym(0), sym("k")), "matmul needs at least one column"});
    b.p.requirements.push_back({equal(mod(sym("n"), sym("groups")), Sym(0)), "n must be a multiple of groups"});
    const SymValues v{{"m", 1}, {"n", 4}, {"k", 0}, {"groups", 2}};
    EXPECT_EQ(render(check_requirements(b.p, v).error()),
              "error: matmul needs at least one column\n  = note: of operator matmul, with k = 0");
    SymValues w = v;
    w["k"] = 1;
    EXPECT_TRUE(check_requirements(b.p, w).ok());
    w["groups"] = 0;
    EXPECT_FALSE(check_requirements(b.p, w).ok());
    w.erase("groups");
    EXPECT_NE(check_requirements(b.p, w).error().message.find("groups is not known"), std::string::npos);
    EXPECT_NE(print_shape_rule(b.p).find("   where "), std::string::npos);
}

TEST(DeriveShape, RefusesShapesThatNoMemoryHolds) {
    Build b = matmul();
    const SymValues v{{"m", int64_t{1} << 40}, {"n", int64_t{1} << 40}, {"k", 1}};
    EXPECT_FALSE(output_shapes(b.p, v).ok());
}

}  // namespace
}  // namespace opwright::derive
