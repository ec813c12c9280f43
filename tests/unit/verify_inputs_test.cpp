#include "verify/inputs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "derive_test_util.h"
#include "verify/compare.h"
#include "verify/sizes.h"

namespace opwright::verify {
namespace {
using namespace math;
using namespace test;

template <class F>
bool any(const Tensor& t, F f) {
    for (int64_t i = 0; i < t.size(); ++i)
        if (f(t.get(i))) return true;
    return false;
}

TEST(VerifyInputs, PatternsHoldWhatTheyNameAtTheEdges) {
    Build b("copy");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n}), y = b.out("y", DType::F32, {n});
    const auto v = b.var("n", n);
    b.set(y, {v}, b.load(x, {v}));
    const Program p = b.done();
    std::set<int64_t> nan_at;
    for (uint64_t seed = 0; seed < 30; ++seed) {
        const auto make = [&](Pattern q) { return make_inputs(p, {{"n", 100}}, q, seed)[0]; };
        const Tensor nan = make(Pattern::Nan);
        EXPECT_TRUE(any(nan, [](double d) { return std::isnan(d); }));
        EXPECT_TRUE(any(nan, [](double d) { return std::isfinite(d); }));
        for (int64_t i = 0; i < 100; ++i)
            if (std::isnan(nan.get(i))) nan_at.insert(i);
        EXPECT_TRUE(any(make(Pattern::Infinity), [](double d) { return std::isinf(d); }));
        EXPECT_TRUE(any(make(Pattern::Zeros), [](double d) { return d == 0; }));
        EXPECT_TRUE(any(make(Pattern::Subnormal), [](double d) { return d != 0 && std::fabs(d) <= 0x1p-126; }));
        EXPECT_TRUE(any(make(Pattern::Extremes), [](double d) { return std::fabs(d) > 1e38; }));
        EXPECT_FALSE(any(make(Pattern::Positive), [](double d) { return d < 0.5 || d > 4; }));
        EXPECT_FALSE(any(make(Pattern::Offset), [](double d) { return std::fabs(d - 4096) > 10; }));
        EXPECT_FALSE(any(make(Pattern::Ties), [](double d) { return 2 * d != std::round(2 * d); }));
        EXPECT_FALSE(any(make(Pattern::Random), [](double d) { return std::fabs(d) > 10; }));
        EXPECT_EQ(make(Pattern::Random).get(3), make(Pattern::Random).get(3));  // a function of the seed
    }
    for (int64_t i : {0, 15, 16, 84, 99}) EXPECT_TRUE(nan_at.count(i)) << i;
}

TEST(VerifyInputs, IndicesStayInside) {
    Build b("gather");
    const Sym n = sym("n"), k = sym("k");
    const auto t = b.in("t", DType::F32, {n}), i = b.in("i", DType::I32, {k}), free = b.in("free", DType::I32, {k});
    const auto place = b.temp("place", DType::I64, {k});
    const auto y = b.out("y", DType::F32, {k}), z = b.out("z", DType::I32, {k});
    const auto v = b.var("k", k), u = b.var("k", k), w = b.var("k", k);
    const auto at = b.load(i, {v});
    b.set(place, {v},
          b.p.cast(b.p.select(b(Fn::Lt, at, b.p.integer(0, DType::I32)),
                              b(Fn::Add, at, b.p.cast(b.p.size(n), DType::I32)), at),
                   DType::I64));
    b.set(y, {u}, b.p.load(t, {b.load(place, {u})}));
    b.set(z, {w}, b.load(free, {w}));
    const Program p = b.done();
    const SymValues s{{"n", 7}, {"k", 500}};
    EXPECT_EQ(index_extents(p, s), (std::vector<std::optional<int64_t>>{std::nullopt, 7, std::nullopt}));
    for (Pattern q : all_patterns()) {
        const auto in = make_inputs(p, s, q, 3);
        EXPECT_FALSE(any(in[1], [](double d) { return d < 0 || d > 6; }));
        EXPECT_TRUE(any(in[1], [](double d) { return d == 6; }));
        // A range that goes below zero says that negative positions count from the end.
        const auto wrapped = make_inputs(p, s, q, 3, {std::nullopt, Range{-4, 4}, std::nullopt});
        EXPECT_FALSE(any(wrapped[1], [](double d) { return d < -7 || d > 6; }));
        EXPECT_TRUE(any(wrapped[1], [](double d) { return d < 0; }));
        EXPECT_TRUE(derive::reference(p, in, {}).ok());
    }
    EXPECT_TRUE(any(make_inputs(p, s, Pattern::Extremes, 3)[2], [](double d) { return d == 2147483647; }));
}

TEST(VerifyInputs, StatedRangesHold) {
    Build b("two");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F16, {n}), k = b.in("k", DType::U8, {n}), m = b.in("m", DType::Bool, {n});
    const auto y = b.out("y", DType::F16, {n});
    const auto v = b.var("n", n);
    b.set(y, {v}, b.p.select(b.load(m, {v}), b.load(x, {v}), b.p.cast(b.load(k, {v}), DType::F16)));
    const Program p = b.done();
    for (Pattern q : {Pattern::Random, Pattern::Ties, Pattern::Offset, Pattern::Positive, Pattern::Extremes}) {
        const auto in = make_inputs(p, {{"n", 300}}, q, 1, {Range{0.1, 0.2}, Range{3, 5}, std::nullopt});
        if (q != Pattern::Extremes) {
            EXPECT_FALSE(any(in[0], [](double d) { return d < 0.0999 || d >= 0.2; }));
        }
        EXPECT_FALSE(any(in[1], [](double d) { return d < 3 || d > 4; }));
        EXPECT_FALSE(any(in[2], [](double d) { return d != 0 && d != 1; }));
    }
}

TEST(VerifySizes, EdgesOfTiles) {
    EXPECT_EQ(edge_extents({8, 16}), (std::vector<int64_t>{0, 1, 2, 3, 7, 8, 9, 11, 15, 16, 17, 19}));
    EXPECT_EQ(edge_extents({}), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(VerifySizes, CombinationsHoldTheRequirementsAndTheWork) {
    Build b("grouped");
    const Sym g = sym("g"), c = sym("c"), h = sym("h"), k = sym("k"), o = h - k + Sym(1);
    const auto x = b.in("x", DType::F32, {c, h}), w = b.in("w", DType::F32, {k}), y = b.out("y", DType::F32, {c, o});
    const auto vc = b.var("c", c), vo = b.var("o", o), vk = b.var("k", k);
    b.set(y, {vc, vo},
          b.sum({vk}, b(Fn::Mul, b.p.load(x, {b.at(vc), b(Fn::Add, b.at(vo), b.at(vk))}), b.load(w, {vk}))));
    b.p.requirements.push_back({equal(mod(c, g), Sym(0)), "c must be a multiple of g"});
    const Program p = b.done();
    const SizeOptions options{.tiles = {8, 16}, .max_work = 3000, .count = 20};
    const SymValues base{{"g", 2}, {"c", 4}, {"h", 9}, {"k", 3}};
    const auto sizes = edge_sizes(p, base, options);
    EXPECT_EQ(sizes.front(), base);
    EXPECT_GE(sizes.size(), 15u);
    EXPECT_LE(sizes.size(), 20u);
    std::set<SymValues> distinct(sizes.begin(), sizes.end());
    EXPECT_EQ(distinct.size(), sizes.size());
    std::set<int64_t> widths;
    for (const SymValues& s : sizes) {
        EXPECT_EQ(s.at("c") % s.at("g"), 0);
        EXPECT_GE(s.at("h") - s.at("k") + 1, 0);
        EXPECT_LE(work_of(p, s), 3000);
        widths.insert(s.at("h"));
    }
    EXPECT_GE(widths.size(), 5u);
    for (const SymValues& s : edge_sizes(p, base, options, {{"g", 1}})) EXPECT_EQ(s.at("g"), 1);
}

TEST(VerifyCompare, VerdictsAndTheFirstBadElement) {
    derive::ReferenceOutput r{tensor(DType::F64, {2, 3}, {1.0, 2.0, 0.1, 0.0, 5.0, 1e-40}),
                              tensor(DType::F64, {2, 3}, {0.0, 0.5, 1e-8, 0.0, 0.0, 0.0}),
                              tensor(DType::F64, {2, 3}, {1.0, 2.0, 0.1, 0.0, 5.0, 1e-40})};
    const Tensor exact = tensor(DType::F32, {2, 3}, {1.0, 2.0, 0.1, 0.0, 5.0, 1e-40});
    r.value.set(5, exact.get(5));
    EXPECT_EQ(compare(r, exact, DType::F32).verdict, Verdict::Equal);
    Tensor t = exact.clone();
    t.set(1, 2.25);
    auto c = compare(r, t, DType::F32);
    EXPECT_EQ(c.verdict, Verdict::WithinTolerance);
    EXPECT_DOUBLE_EQ(c.max_abs, 0.25);
    EXPECT_DOUBLE_EQ(c.max_rel, 0.125);
    EXPECT_DOUBLE_EQ(c.max_share, 0.5);
    EXPECT_DOUBLE_EQ(c.max_ulp, 0.25 / 0x1p-22);
    EXPECT_EQ(c.where, (Shape{0, 1}));
    t.set(5, 0.0);
    EXPECT_EQ(compare(r, t, DType::F32).verdict, Verdict::PolicyDifference);
    t.set(3, -0.0);
    c = compare(r, t, DType::F32);
    EXPECT_EQ(c.str(),
              "wrong: 1 of 6 elements, the first at [1, 0]: expected 0, got -0 (allowed 0); 1 subnormals flushed");
    t.set(2, 0.2);
    c = compare(r, t, DType::F32);
    EXPECT_EQ(c.wrong, 2);
    ASSERT_TRUE(c.first_bad);
    EXPECT_EQ(c.first_bad->index, (Shape{0, 2}));
    EXPECT_FALSE(c.passed());
    EXPECT_EQ(compare(r, Tensor(DType::F32, {3, 2}), DType::F32).str(), "wrong: expected f32[2, 3], got f32[3, 2]");
    EXPECT_EQ(compare(r, Tensor(DType::F64, {2, 3}), DType::F32).verdict, Verdict::Wrong);
}

TEST(VerifyCompare, SpecialValuesAndOverflow) {
    const auto judge = [](double value, double bound, double got, DType t = DType::F32) {
        derive::ReferenceOutput r{tensor(DType::F64, {1}, {value}), tensor(DType::F64, {1}, {bound}),
                                  tensor(DType::F64, {1}, {value})};
        return compare(r, tensor(t, {1}, {got}), t).verdict;
    };
    EXPECT_EQ(judge(NAN, 0, NAN), Verdict::Equal);
    EXPECT_EQ(judge(NAN, 0, 1), Verdict::Wrong);
    EXPECT_EQ(judge(1, 0.1, NAN), Verdict::Wrong);
    EXPECT_EQ(judge(INFINITY, 0, INFINITY), Verdict::Equal);
    EXPECT_EQ(judge(INFINITY, 0, -INFINITY), Verdict::Wrong);
    EXPECT_EQ(judge(INFINITY, 0, 3e38), Verdict::Wrong);
    EXPECT_EQ(judge(1e300, 1e280, INFINITY), Verdict::Equal);  // rounds to infinity
    EXPECT_EQ(judge(1e300, 1e280, highest(DType::F32)), Verdict::Wrong);
    EXPECT_EQ(judge(3.4028e38, 1e35, INFINITY), Verdict::WithinTolerance);  // may overflow
    EXPECT_EQ(judge(3.4028e38, 1e35, -INFINITY), Verdict::Wrong);
    EXPECT_EQ(judge(3.4028e38, 1e30, INFINITY), Verdict::Wrong);
    EXPECT_EQ(judge(65510, 40, INFINITY, DType::F16), Verdict::WithinTolerance);
    EXPECT_EQ(judge(1, INFINITY, 1e30), Verdict::IllConditioned);
    EXPECT_EQ(judge(0, 1e-46, -0.0), Verdict::Equal);  // a zero whose sign is open
    EXPECT_EQ(judge(-0.0, 0, -0.0), Verdict::Equal);
    EXPECT_EQ(judge(-0.0, 0, 0.0), Verdict::Wrong);
}

// y = sum[k](x[k] * w[k]), where a kernel may count subnormal factors as zero.
TEST(VerifyCompare, ASubnormalFactorBesideAnInfinityMayMakeNan) {
    Build b("dot");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n}), w = b.in("w", DType::F32, {n}), y = b.out("y", DType::F32, {});
    const auto k = b.var("k", n);
    b.set(y, {}, b.sum({k}, b(Fn::Mul, b.load(x, {k}), b.load(w, {k}))));
    const Program p = b.done();
    const auto judge = [&](std::initializer_list<double> xs, std::initializer_list<double> ws, double got) {
        const auto count = static_cast<int64_t>(xs.size());
        auto r = References::make(p, {tensor(DType::F32, {count}, xs), tensor(DType::F32, {count}, ws)}, {});
        EXPECT_TRUE(r.ok());
        return r->compare(0, tensor(DType::F32, {}, {got})).verdict;
    };
    const double inf = INFINITY, tiny = 1e-40;
    EXPECT_EQ(judge({tiny, 2}, {inf, 3}, inf), Verdict::Equal);
    EXPECT_EQ(judge({tiny, 2}, {inf, 3}, NAN), Verdict::PolicyDifference);
    EXPECT_EQ(judge({2, inf}, {3, -tiny}, NAN), Verdict::PolicyDifference);
    EXPECT_EQ(judge({tiny, inf}, {inf, 1}, NAN), Verdict::PolicyDifference);
    // What no flushed factor explains stays wrong.
    EXPECT_EQ(judge({tiny, 2}, {inf, 3}, 6), Verdict::Wrong);
    EXPECT_EQ(judge({tiny, 2}, {inf, 3}, -inf), Verdict::Wrong);
    EXPECT_EQ(judge({1, 2}, {inf, 3}, NAN), Verdict::Wrong);
    EXPECT_EQ(judge({1e-37, 2}, {inf, 3}, NAN), Verdict::Wrong);
    EXPECT_EQ(judge({tiny, 2}, {5, 3}, NAN), Verdict::Wrong);
    EXPECT_EQ(judge({tiny, inf}, {2, 1}, NAN), Verdict::Wrong);
    EXPECT_EQ(judge({tiny, 2}, {3e38, 3}, inf), Verdict::Wrong);
    EXPECT_EQ(judge({inf, tiny}, {-1, inf}, inf), Verdict::Wrong);  // -inf and inf: NaN by any policy
    EXPECT_EQ(judge({inf, tiny}, {-1, inf}, NAN), Verdict::Equal);
    EXPECT_EQ(judge({tiny}, {3e38}, 0), Verdict::PolicyDifference);  // the term itself is far from subnormal
    EXPECT_EQ(judge({1e-37}, {3e38}, 0), Verdict::Wrong);
}
// The factor that a kernel does not pack keeps its subnormal numbers.
TEST(VerifyCompare, EitherFactorAloneMayBeFlushed) {
    Build b("two");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n}), w = b.in("w", DType::F32, {n});
    const auto s = b.temp("s", DType::F32, {}), t = b.temp("t", DType::F32, {}), y = b.out("y", DType::F32, {});
    const auto k = b.var("k", n), l = b.var("l", n);
    b.set(s, {}, b.sum({k}, b(Fn::Mul, b.load(x, {k}), b.load(w, {k}))));
    b.set(t, {}, b.sum({l}, b(Fn::Mul, b.load(w, {l}), b.load(x, {l}))));
    const auto is_nan = b.p.call(Fn::IsNan, {b.load(s, {})});
    b.set(y, {}, b.p.call(Fn::Select, {is_nan, b.load(t, {}), b.f32(7)}));
    const Program p = b.done();
    auto r = References::make(p, {tensor(DType::F32, {1}, {1e-40}), tensor(DType::F32, {1}, {(double)INFINITY})}, {});
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->compare(0, tensor(DType::F32, {}, {7.0})).verdict, Verdict::Equal);
    EXPECT_EQ(r->compare(0, tensor(DType::F32, {}, {(double)NAN})).verdict, Verdict::PolicyDifference);
    EXPECT_EQ(r->compare(0, tensor(DType::F32, {}, {(double)INFINITY})).verdict, Verdict::PolicyDifference);
    EXPECT_EQ(r->compare(0, tensor(DType::F32, {}, {0.0})).verdict, Verdict::Wrong);
}

TEST(VerifyCompare, IntegersToTheLastBit) {
    const int64_t big = (int64_t{1} << 60) + 1;
    derive::ReferenceOutput r{tensor<int64_t>(DType::I64, {2}, {big, 5}), tensor(DType::F64, {2}, {0.0, 2.0}),
                              tensor(DType::F64, {2}, {1.0, 1.0})};
    EXPECT_EQ(compare(r, tensor<int64_t>(DType::I64, {2}, {big, 5}), DType::I64).verdict, Verdict::Equal);
    EXPECT_EQ(compare(r, tensor<int64_t>(DType::I64, {2}, {big, 7}), DType::I64).verdict, Verdict::WithinTolerance);
    const auto c = compare(r, tensor<int64_t>(DType::I64, {2}, {big - 1, 8}), DType::I64);
    EXPECT_EQ(c.wrong, 2);
    EXPECT_EQ(c.first_bad->expected_text, "1152921504606846977");
    EXPECT_EQ(c.first_bad->got_text, "1152921504606846976");
}

}  // namespace
}  // namespace opwright::verify
