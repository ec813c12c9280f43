// What declarations mean: each is elaborated with constant and with symbolic extents, and both are evaluated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "derive/reference.h"
#include "lang/library.h"
#include "lang/parser.h"

namespace opwright::lang {
namespace {
using math::Sym;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor tensor(DType t, Shape s, std::vector<double> v) {
    Tensor r(t, std::move(s));
    EXPECT_EQ(r.size(), static_cast<int64_t>(v.size()));
    for (size_t i = 0; i < v.size(); ++i) r.set(static_cast<int64_t>(i), v[i]);
    return r;
}
Tensor f32(Shape s, std::vector<double> v) { return tensor(DType::F32, std::move(s), std::move(v)); }
Tensor i64(Shape s, std::vector<double> v) { return tensor(DType::I64, std::move(s), std::move(v)); }
std::vector<double> values(const Tensor& t) {
    std::vector<double> v;
    for (int64_t i = 0; i < t.size(); ++i) v.push_back(t.get(i));
    return v;
}

struct Operator {
    Library library;
    explicit Operator(const std::string& text) {
        const Status s = library.add(std::make_shared<const Source>(Source{"test.op", text}));
        EXPECT_TRUE(s.ok()) << (s.ok() ? "" : render(s.error()));
    }
    Result<math::Program> program(const std::vector<Tensor>& inputs, const Attributes& attributes = {},
                                  bool symbolic = false) const {
        std::vector<Argument> args;
        int n = 0;
        for (const Tensor& t : inputs) {
            Argument a;
            a.present = t.defined();
            if (a.present) a.dtype = t.dtype();
            for (int64_t e : t.shape()) a.shape.push_back(symbolic ? Sym::symbol("s" + std::to_string(n++)) : Sym(e));
            args.push_back(a);
        }
        return library.elaborate("f", args, attributes);
    }
    // The outputs; those of the program with symbolic extents must be the same.
    std::vector<Tensor> run(const std::vector<Tensor>& inputs, const Attributes& attributes = {},
                            const math::SymValues& given = {}) const {
        std::vector<Tensor> present, out;
        for (const Tensor& t : inputs)
            if (t.defined()) present.push_back(t);
        for (bool symbolic : {false, true}) {
            auto p = program(inputs, attributes, symbolic);
            if (!p.ok()) {
                ADD_FAILURE() << render(p.error());
                return {};
            }
            EXPECT_THAT(math::verify(*p), ::testing::IsEmpty()) << p->print();
            auto r = derive::reference(*p, present, given);
            if (!r.ok()) {
                ADD_FAILURE() << render(r.error()) << "\n" << p->print();
                return {};
            }
            for (size_t i = 0; i < r->size(); ++i) {
                if (!symbolic) {
                    out.push_back((*r)[i].value);
                    continue;
                }
                EXPECT_EQ((*r)[i].value.shape(), out[i].shape());
                EXPECT_THAT(values((*r)[i].value),
                            ::testing::Pointwise(::testing::NanSensitiveDoubleEq(), values(out[i])))
                    << p->print();
            }
        }
        return out;
    }
    std::vector<double> operator()(const std::vector<Tensor>& inputs, const Attributes& attributes = {},
                                   const math::SymValues& given = {}) const {
        const auto r = run(inputs, attributes, given);
        return r.empty() ? std::vector<double>{} : values(r[0]);
    }
    std::string error(const std::vector<Tensor>& inputs, const Attributes& attributes = {}) const {
        auto p = program(inputs, attributes);
        return p.ok() ? "" : p.error().message;
    }
};

Attribute ints(std::vector<int64_t> v) { return std::vector<Sym>(v.begin(), v.end()); }

TEST(LangElaborate, IntermediateAndReduction) {
    Operator f(
        "op f(x[m,k], w[n,k], a[n]) -> y[m,n]:\n"
        "    z[m,n] = sum[k](x[m,k] * w[n,k])\n"
        "    y[m,n] = select(z[m,n] >= 0, z[m,n], a[n] * z[m,n])\n");
    EXPECT_THAT(f({f32({1, 2}, {1, 2}), f32({2, 2}, {3, 4, -5, -6}), f32({2}, {2, 10})}), ElementsAre(11, -170));
}

TEST(LangElaborate, BroadcastingAlignsAtTheRightAndHoldsAtRunTime) {
    Operator f("op f(x[~i...], w[~i...]) -> y[i...]:\n    y[i...] = 10 * x[i...] + w[i...]\n");
    EXPECT_THAT(f({f32({2, 3}, {1, 2, 3, 4, 5, 6}), f32({3}, {1, 2, 3})}), ElementsAre(11, 22, 33, 41, 52, 63));
    EXPECT_THAT(f({f32({2, 1}, {1, 2}), f32({1, 3}, {1, 2, 3})}), ElementsAre(11, 12, 13, 21, 22, 23));
    EXPECT_THAT(f({f32({}, {1}), f32({2}, {1, 2})}), ElementsAre(11, 12));
    EXPECT_THAT(f({f32({1}, {1}), f32({0}, {})}), ElementsAre());
    // Symbolic extents that do not fit are refused when they are known.
    auto p = f.program({f32({2}, {1, 2}), f32({3}, {1, 2, 3})}, {}, true);
    ASSERT_TRUE(p.ok());
    const auto bad = derive::reference(*p, {f32({2}, {1, 2}), f32({3}, {1, 2, 3})});
    ASSERT_FALSE(bad.ok());
    EXPECT_THAT(render(bad.error()), HasSubstr("must be equal, or one of them 1"));
}

TEST(LangElaborate, SymbolsKnownNotToBeOneBroadcastNothing) {
    Operator f("op f(x[~m], w[~m]) -> y[m]:\n    y[m] = x[m] + w[m]\n");
    Argument a{DType::F32, {Sym::symbol("a", 2)}}, b{DType::F32, {Sym::symbol("b", 2)}};
    auto p = f.library.elaborate("f", {a, b}, {});
    ASSERT_TRUE(p.ok());
    EXPECT_THAT(p->print(), HasSubstr("y[m] = x[m] + w[m]"));
    ASSERT_EQ(p->requirements.size(), 1u);
    EXPECT_EQ(p->requirements[0].message, "In `f`, dim 0 of `x` (extent a) and dim 0 of `w` (extent b) must be equal.");
}

TEST(LangElaborate, OnlyKnownOnesBroadcastWhereAskedFor) {
    Operator f("op f(x[~i...], w[~i...]) -> y[i...]:\n    y[i...] = x[i...] + w[i...]\n");
    Argument a{DType::F32, {Sym::symbol("a"), Sym::symbol("b")}}, b{DType::F32, {Sym(1), Sym::symbol("c")}};
    auto p = f.library.elaborate("f", {a, b}, {}, Broadcasting::Known);
    ASSERT_TRUE(p.ok());
    EXPECT_THAT(p->print(), HasSubstr("y[i0,i1] = x[i0,i1] + w[0,i1]"));
    EXPECT_EQ(p->tensors[p->outputs[0]].shape[1].str(), "b");
    ASSERT_EQ(p->requirements.size(), 1u);
    EXPECT_EQ(p->requirements[0].message,
              "In `f`, dim 1 of `x` (extent b) and dim 1 of `w` (extent c) must be equal; an extent of 1 is broadcast "
              "only where it is known before: state the shapes of the inputs.");
}

TEST(LangElaborate, MissingLeadingDimsOfABroadcastParameter) {
    Operator f("op f(x[m,n], c[~m,~n]) -> y[m,n]:\n    y[m,n] = x[m,n] + c[m,n]\n");
    const Tensor x = f32({2, 2}, {1, 2, 3, 4});
    EXPECT_THAT(f({x, f32({2}, {10, 20})}), ElementsAre(11, 22, 13, 24));
    EXPECT_THAT(f({x, f32({}, {10})}), ElementsAre(11, 12, 13, 14));
    EXPECT_THAT(f({x, f32({2, 1}, {10, 20})}), ElementsAre(11, 12, 23, 24));
}

TEST(LangElaborate, PacksOfAConvolution) {
    Operator f(
        "op f(x[i...], w[k...]; stride: ints = 1, pad: ints = 0) -> y[p...]:\n"
        "    p... in 0..((i + 2*pad - k) // stride + 1)\n"
        "    y[p...] = sum[k...](x[(p*stride + k - pad)...] outside zero * w[k...])\n");
    EXPECT_THAT(f({f32({4}, {1, 2, 3, 4}), f32({2}, {1, 10})}), ElementsAre(21, 32, 43));
    EXPECT_THAT(f({f32({4}, {1, 2, 3, 4}), f32({2}, {1, 10})}, {{"stride", ints({2})}, {"pad", ints({1})}}),
                ElementsAre(10, 32, 4));
    EXPECT_THAT(f({f32({2, 2}, {1, 2, 3, 4}), f32({2, 1}, {1, 10})}, {{"stride", Sym(1)}}), ElementsAre(31, 42));
    EXPECT_EQ(f.error({f32({2}, {1, 2}), f32({4}, {1, 2, 3, 4})}),
              "The range of `p` is 0..-1, which ends before it starts.");
}

TEST(LangElaborate, PackFunctions) {
    Operator reduce(
        "op f(x[merge(o, r, axes)...]; axes: ints) -> y[o...]:\n    y[o...] = sum[r...](x[merge(o, r, axes)...])\n");
    const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_THAT(reduce({x}, {{"axes", ints({0})}}), ElementsAre(5, 7, 9));
    EXPECT_THAT(reduce({x}, {{"axes", ints({1})}}), ElementsAre(6, 15));
    EXPECT_THAT(reduce({x}, {{"axes", ints({1, 0})}}), ElementsAre(21));
    EXPECT_THAT(reduce({x}, {{"axes", ints({})}}), ElementsAre(1, 2, 3, 4, 5, 6));
    Operator transpose("op f(x[i...]; perm: ints) -> y[permute(i, perm)...]:\n    y[permute(i, perm)...] = x[i...]\n");
    EXPECT_THAT(transpose({x}, {{"perm", ints({1, 0})}}), ElementsAre(1, 4, 2, 5, 3, 6));
    Operator turn("op f(x[i...]) -> y[i...]:\n    y[i...] = x[(size(i) - 1 - i)...]\n");
    EXPECT_THAT(turn({x}), ElementsAre(6, 5, 4, 3, 2, 1));
    Operator flat(
        "op f(x[i...]) -> y[p]:\n"
        "    let step... = (product(drop(i, position(i) + 1)))...\n"
        "    p in 0..size(i...)\n"
        "    y[p] = x[(p // step % size(i))...]\n");
    EXPECT_THAT(flat({x}), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(LangElaborate, FoldsAndPositions) {
    Operator f(
        "op f(x[i...]; k: ints) -> y[i...]:\n"
        "    let later... = (product(drop(k, position(k) + 1)))...\n"
        "    let n = total(k) + product(k) * 100 + len(k) * 1000\n"
        "    y[i...] = x[i...] + cast(n + later[0] * 10000, T)\n");
    EXPECT_THAT(f({f32({1, 1}, {0})}, {{"k", ints({2, 3})}}), ElementsAre(32605));
    Operator inside("op f(x[i...]) -> y[i...]:\n    y[i...] = select(and((i >= 1)...), x[i...], -x[i...])\n");
    EXPECT_THAT(inside({f32({2, 2}, {1, 2, 3, 4})}), ElementsAre(-1, -2, -3, 4));
    EXPECT_THAT(inside({f32({}, {5})}), ElementsAre(5));
}

TEST(LangElaborate, StaticChoices) {
    Operator f(
        "op f(x[m], b?[m]; mode = \"add\", n: int = 2, to: dtype = f32) -> y: to[m]:\n"
        "    let twice = n * 2\n"
        "    if mode == \"add\" and present(b):\n"
        "        z[m] = x[m] + b[m]\n"
        "    elif mode in [\"scale\", \"times\"]:\n"
        "        z[m] = x[m] * cast(twice, T)\n"
        "    else:\n"
        "        z[m] = x[m]\n"
        "    y[m] = cast(z[m], to)\n");
    const Tensor x = f32({2}, {1.5, 2.5});
    EXPECT_THAT(f({x, f32({2}, {1, 1})}), ElementsAre(2.5, 3.5));
    EXPECT_THAT(f({x}), ElementsAre(1.5, 2.5));
    EXPECT_THAT(f({x, Tensor()}, {{"mode", std::string("times")}, {"n", Sym(3)}}), ElementsAre(9, 15));
    EXPECT_EQ(f.run({x}, {{"to", DType::I32}})[0].dtype(), DType::I32);
}

TEST(LangElaborate, TablesRangesAndRequirements) {
    Operator f(
        "op f(x[m]) -> y[p]:\n"
        "    require m >= 3, \"The signal has {m} samples and needs 3.\"\n"
        "    const w[3] = [1, 2, 1.5]\n"
        "    p in 0..m - 2\n"
        "    y[p] = sum[k](w[k] * x[p + k])\n");
    EXPECT_THAT(f({f32({4}, {1, 2, 3, 4})}), ElementsAre(9.5, 14));
    EXPECT_EQ(f.error({f32({2}, {1, 2})}), "The signal has 2 samples and needs 3.");
    auto p = f.program({f32({2}, {1, 2})}, {}, true);
    ASSERT_TRUE(p.ok());
    EXPECT_EQ(p->requirements[0].message, "The signal has s0 samples and needs 3.");
    Operator shifted("op f(x[m]) -> y[]:\n    j in 1..m - 1\n    y[] = sum[j](x[j] * x[j]) + sum[k in 2..4](x[k])\n");
    EXPECT_THAT(shifted({f32({4}, {1, 2, 3, 4})}), ElementsAre(4 + 9 + 3 + 4));
}

TEST(LangElaborate, HalfPrecisionComputesInSingle) {
    Operator f("op f(x[m]) -> y[m]:\n    y[m] = x[m] * 0.1 + 0.044715\n");
    const auto y = f.run({tensor(DType::F16, {1}, {2048})});
    auto p = f.program({tensor(DType::F16, {1}, {2048})});
    EXPECT_EQ(y[0].get(0),
              static_cast<double>(0.1f) * 2048 + static_cast<double>(0.044715f));  // unrounded, from f32 constants
    EXPECT_EQ(p->tensors[p->outputs[0]].dtype, DType::F16);
    // Data that only moves is never converted.
    Operator move("op f(x[m]) -> y[m]:\n    y[m] = select(m > 0, x[m], x[0])\n");
    auto q = move.program({tensor(DType::BF16, {3}, {1, 2, 3})});
    EXPECT_THAT(q->print(), ::testing::Not(HasSubstr("cast")));
}

TEST(LangElaborate, IntegersWrapAndSumsAccumulateWide) {
    Operator f(
        "op f(x[m]) -> (y[], z: i32[], w: acc(T)[]):\n"
        "    y[] = sum[m](x[m])\n"
        "    z[] = sum[m; i32](cast(x[m], i32))\n"
        "    w[] = sum[m; i32](x[m])\n");
    const auto r = f.run({tensor(DType::I8, {3}, {100, 100, 100})});
    ASSERT_EQ(r.size(), 3u);
    EXPECT_EQ(r[0].get(0), 300 - 256);
    EXPECT_EQ(r[1].get(0), 300);
    EXPECT_EQ(r[2].get(0), 300);
}

TEST(LangElaborate, DivisionOfIndicesFloorsAndOfDataTruncates) {
    Operator f("op f(x[m]) -> (y[m], z[m]):\n    y[m] = x[m] / 2\n    z[m] = (m - 2) / 2\n");
    const auto r = f.run({i64({3}, {-3, -2, 3})});
    EXPECT_THAT(values(r[0]), ElementsAre(-1, -1, 1));
    EXPECT_THAT(values(r[1]), ElementsAre(-1, -1, 0));
}

TEST(LangElaborate, Scans) {
    const Tensor x = f32({4}, {1, 2, 3, 4});
    EXPECT_THAT(Operator("op f(x[m]) -> y[m]:\n    y[m] = cumsum[m](x[m])\n")({x}), ElementsAre(1, 3, 6, 10));
    EXPECT_THAT(
        Operator("op f(x[m]; e = true) -> y[m]:\n    y[m] = 2 * cumsum[m; exclusive = e, reverse = true](x[m])\n")({x}),
        ElementsAre(18, 14, 8, 0));
    EXPECT_THAT(Operator("op f(x[m]) -> y[]:\n    y[] = sum[m](cumprod[m](x[m]))\n")({x}), ElementsAre(1 + 2 + 6 + 24));
    EXPECT_THAT(Operator("op f(x[m]) -> y[m]:\n    y[m] = cummax[m](-x[m])\n")({tensor(DType::F16, {2}, {1, 2})}),
                ElementsAre(-1, -1));
}

TEST(LangElaborate, ArgumentsOfTheMaximum) {
    Operator f(
        "op f(x[m,n]) -> (a: i64[], b: i64[m], c: i64[m]):\n"
        "    a[] = argmax[m,n](x[m,n])\n    b[m] = argmax[n](x[m,n])\n    c[m] = argmax_last[n](x[m,n])\n");
    const auto r = f.run({f32({2, 3}, {1, 5, 5, 7, 0, 7})});
    EXPECT_THAT(values(r[0]), ElementsAre(3));
    EXPECT_THAT(values(r[1]), ElementsAre(1, 0));
    EXPECT_THAT(values(r[2]), ElementsAre(2, 2));
}

TEST(LangElaborate, LogSumExpIsStableAtInfinity) {
    Operator f("op f(x[m,k]) -> y[m]:\n    y[m] = logsumexp[k](x[m,k])\n");
    const auto y = f({f32({4, 2}, {1000, 1000, -kInf, -kInf, kInf, 1, std::nan(""), 1})});
    EXPECT_NEAR(y[0], 1000 + std::log(2.0), 1e-9);
    EXPECT_EQ(y[1], -kInf);
    EXPECT_EQ(y[2], kInf);
    EXPECT_TRUE(std::isnan(y[3]));
    // Inside another reduction the maximum is a tensor over the outer index.
    Operator g("op f(x[m,k]) -> y[]:\n    y[] = sum[m](logsumexp[k](x[m,k]))\n");
    EXPECT_NEAR(g({f32({2, 2}, {0, 0, 1, 1})})[0], 1 + 2 * std::log(2.0), 1e-9);
}

TEST(LangElaborate, ReductionsWhereAConditionHolds) {
    Operator f(
        "op f(x[m]) -> (y[m], z[m], w[m]):\n"
        "    y[m] = max[k in 0..3 where inside(x[m + k - 1])](x[m + k - 1] outside zero)\n"
        "    z[m] = mean[k in 0..3 where inside(x[m + k - 1])](x[m + k - 1] outside clamp)\n"
        "    w[m] = x[m - 1] outside (7) + x[m + 1] outside reflect\n");
    const auto r = f.run({f32({3}, {-1, -2, -6})});
    EXPECT_THAT(values(r[0]), ElementsAre(-1, -1, -2));
    EXPECT_THAT(values(r[1]), ElementsAre(-1.5, -3, -4));
    EXPECT_THAT(values(r[2]), ElementsAre(5, -7, -4));
}

TEST(LangElaborate, GatherAndScatter) {
    Operator f(
        "op f(t[n,k], at: I[m]) -> (y[m,k], z[n,k], w[n]):\n"
        "    y[m,k] = t[at[m], k]\n"
        "    z[n,k] = 0\n"
        "    z[at[m], k] += y[m,k]\n"
        "    w[n] = -1\n"
        "    w[m] := cast(at[m], T)\n"
        "    w[m + 2] outside drop max= 9\n");
    const auto r = f.run({f32({3, 1}, {1, 2, 3}), tensor(DType::I32, {3}, {2, 0, 2})});
    EXPECT_THAT(values(r[0]), ElementsAre(3, 1, 3));
    EXPECT_THAT(values(r[1]), ElementsAre(1, 0, 6));
    EXPECT_THAT(values(r[2]), ElementsAre(2, 0, 9));
}

TEST(LangElaborate, CallsOfOtherOperators) {
    Operator f(
        "op soft(x[a...(axis), c, b...]; axis: int) -> y[a..., c, b...]:\n"
        "    z[a..., b...] = max[c](x[a..., c, b...])\n"
        "    e[a..., c, b...] = exp(x[a..., c, b...] - z[a..., b...])\n"
        "    s[a..., b...] = sum[c](e[a..., c, b...])\n"
        "    y[a..., c, b...] = e[a..., c, b...] / s[a..., b...]\n"
        "op gate(x[i...]) -> y[i...] where T in float:\n    t[i...] = 1 / (1 + exp(-x[i...]))\n    y[i...] = t[i...] * "
        "x[i...]\n"
        "op pair(x[m]) -> (a[m], b[m]):\n    a[m] = x[m] + 1\n    b[m] = a[m] * 2\n"
        "op f(x[m,n]) -> (y[m,n], w[m]):\n"
        "    z = soft(x; axis = rank(x) - 1)\n"
        "    y[m,n] = gate(z[m,n] * 0) + z[m,n]\n"
        "    v[m] = sum[n](x[m,n])\n"
        "    (_, w) = pair(v)\n");
    const auto r = f.run({f32({1, 2}, {3, 3})});
    ASSERT_EQ(r.size(), 2u);
    EXPECT_THAT(values(r[0]), ElementsAre(0.5, 0.5));
    EXPECT_THAT(values(r[1]), ElementsAre(14));
}

TEST(LangElaborate, OutputsStandInTheOrderOfTheDeclarationAndUnreadTemporariesVanish) {
    Operator f(
        "op pair(x[m]) -> (a[m], b[m]):\n    a[m] = x[m] + 1\n    b[m] = x[m] * 2\n"
        "op f(x[m]) -> (y[m], z[m]):\n    (z, _) = pair(x)\n    unread[m] = x[m] * 7\n    y[m] = -x[m]\n");
    auto p = f.program({f32({2}, {1, 2})});
    ASSERT_TRUE(p.ok());
    EXPECT_EQ(p->tensors[p->outputs[0]].name, "y");
    EXPECT_EQ(p->tensors[p->outputs[1]].name, "z");
    EXPECT_EQ(p->equations.size(), 2u) << p->print();
}

TEST(LangElaborate, VariadicParameters) {
    Operator concat(
        "op f(xs*[a...(axis), c*, b...]; axis: int) -> y[a..., n, b...]:\n"
        "    let n = total(c)\n"
        "    for x in xs:\n"
        "        y[a..., c + before(c), b...] := x[a..., c, b...]\n");
    EXPECT_THAT(concat({f32({2, 1}, {1, 2}), f32({2, 2}, {3, 4, 5, 6})}, {{"axis", Sym(1)}}),
                ElementsAre(1, 3, 4, 2, 5, 6));
    EXPECT_THAT(concat({f32({1, 2}, {1, 2}), f32({0, 2}, {}), f32({2, 2}, {3, 4, 5, 6})}, {{"axis", Sym(0)}}),
                ElementsAre(1, 2, 3, 4, 5, 6));
    Operator mean(
        "op f(xs*[~i...]) -> y[i...]:\n"
        "    y[i...] = 0\n"
        "    for x in xs:\n"
        "        let k = len(xs)\n"
        "        y[i...] += x[i...] / cast(k, T)\n");
    EXPECT_THAT(mean({f32({2}, {2, 4}), f32({}, {6})}), ElementsAre(4, 5));
}

TEST(LangElaborate, SymbolicAttributes) {
    Operator f(
        "op f(x[m]; start: int, n: int) -> y[p]:\n"
        "    p in 0..n\n"
        "    y[p] = x[p + start]\n");
    const Tensor x = f32({4}, {1, 2, 3, 4});
    EXPECT_THAT(f({x}, {{"start", Sym::symbol("s")}, {"n", Sym::symbol("n")}}, {{"s", 1}, {"n", 2}}),
                ElementsAre(2, 3));
    auto p = f.program({x}, {{"start", Sym::symbol("s")}, {"n", Sym::symbol("n")}}, true);
    ASSERT_TRUE(p.ok());
    EXPECT_FALSE(derive::reference(*p, {x}, {{"s", 3}, {"n", 2}}).ok());
}

TEST(LangElaborate, DimsThatAreMultiplesAndListsToBroadcastAgainst) {
    Operator glu("op f(x[2*c]) -> y[c]:\n    y[c] = x[c] * x[c + size(c)]\n");
    EXPECT_THAT(glu({f32({4}, {1, 2, 3, 4})}), ElementsAre(3, 8));
    Operator expand("op f(x[~shape...]; shape: ints) -> y[p...]:\n    p... in 0..shape\n    y[p...] = x[p...]\n");
    EXPECT_THAT(expand({f32({2, 1}, {1, 2})}, {{"shape", ints({1, 2, 2})}}), ElementsAre(1, 1, 2, 2));
}

TEST(LangElaborate, ComputedLetsAndExtremes) {
    Operator f("op f(x[m]) -> y[m]:\n    let s = 1.0 / cast(size(m), f32)\n    y[m] = max(x[m] * s, lowest(T))\n");
    EXPECT_THAT(f({f32({2}, {1, 3})}), ElementsAre(0.5, 1.5));
    Operator g("op f(x[m]) -> y[m]:\n    y[m] = max[k in 0..2](x[m + k] outside (-inf))\n");
    EXPECT_THAT(g({tensor(DType::I8, {2}, {-100, -120})}), ElementsAre(-100, -120));
    Operator h("op f(x[m]) -> y[m]:\n    y[m] = min(x[m], bottom(T))\n");
    EXPECT_THAT(h({f32({1}, {0})}), ElementsAre(-kInf));
}

TEST(LangElaborate, AttributesAsText) {
    Library l;
    ASSERT_TRUE(
        l.add(std::make_shared<const Source>(Source{"t.op",
                                                    "op f(x[m]; stride: ints = 1, mode = \"a\", to: dtype = f32, alpha "
                                                    "= 1.0, on = false) -> y[m]:\n    y[m] = x[m]\n"}))
            .ok());
    const OpDecl& f = *l.find("f");
    const auto parse = [&](const std::string& text) {
        return l.parse_attributes(f, std::make_shared<const Source>(Source{"<attributes>", text}));
    };
    auto a = parse("stride = [2, 1], mode = \"edge\", to = f16, alpha = 2, on = true");
    ASSERT_TRUE(a.ok()) << render(a.error());
    EXPECT_TRUE(std::get<std::vector<Sym>>(a->at("stride"))[0].is(2));
    EXPECT_EQ(std::get<std::string>(a->at("mode")), "edge");
    EXPECT_EQ(std::get<DType>(a->at("to")), DType::F16);
    EXPECT_EQ(std::get<double>(a->at("alpha")), 2.0);
    EXPECT_EQ(std::get<bool>(a->at("on")), true);
    EXPECT_TRUE(parse("")->empty());
    EXPECT_EQ(parse("strid = 2").error().next,
              "Did you mean `stride`? Its attributes are stride, mode, to, alpha, on.");
    EXPECT_EQ(parse("stride = \"a\"").error().message,
              "The attribute `stride` of `f` is \"a\", but a list of integers is needed.");
    EXPECT_FALSE(parse("stride = 2 mode = 3").ok());
}

TEST(LangElaborate, ExamplesAndFacts) {
    Library l;
    ASSERT_TRUE(l.add(std::make_shared<const Source>(Source{
                          "t.op",
                          "# A remark.\n\nop f(at: I[m], x?[n], ws*[k]; axes: ints = []) -> y[m]:\n    \"Says\"\n    "
                          "\"what.\"\n    y[m] = cast(at[m], f32)\n"
                          "    example at = i64[5] in 0..3, ws = f32[2], ws = f32[2]; axes = [1, 2]\n\n# End.\n"}))
                    .ok());
    const OpDecl& f = *l.find("f");
    EXPECT_EQ(l.doc(f), "Says\nwhat.");
    EXPECT_EQ(l.file(f), "t.op");
    EXPECT_THAT(l.source_text(f), ::testing::AllOf(::testing::StartsWith("op f("), ::testing::EndsWith("[1, 2]")));
    const auto ps = l.parameters(f);
    EXPECT_TRUE(ps[1].optional);
    EXPECT_TRUE(ps[2].variadic);
    auto x = l.examples(f);
    ASSERT_TRUE(x.ok());
    ASSERT_EQ((*x)[0].arguments.size(), 4u);
    EXPECT_FALSE((*x)[0].arguments[1].present);
    EXPECT_EQ((*x)[0].values[0]->high, 3);
    EXPECT_EQ(std::get<std::vector<Sym>>((*x)[0].attributes.at("axes")).size(), 2u);
    EXPECT_TRUE(l.elaborate("f", (*x)[0].arguments, (*x)[0].attributes).ok());
}

TEST(LangElaborate, AUsersOperatorHidesOneOfTheLibraryOnlyFromUsers) {
    Library l;
    ASSERT_TRUE(
        l.add(std::make_shared<const Source>(Source{"t.op", "op relu(x[i...]) -> y[i...]:\n    y[i...] = -x[i...]\n"}))
            .ok());
    EXPECT_EQ(l.file(*l.find("relu")), "t.op");
    EXPECT_NE(Library::standard().file(*Library::standard().find("relu")), "t.op");
}

TEST(LangElaborate, SourceThatRunsAwayIsGivenUp) {
    // Every level doubles the equations: 2^20 without a limit.
    std::string text = "op g0(x[m]) -> y[m]:\n    y[m] = x[m]\n";
    for (int i = 1; i < 21; ++i)
        text += "op g" + std::to_string(i) + "(x[m]) -> y[m]:\n    a = g" + std::to_string(i - 1) + "(x)\n    y = g" +
                std::to_string(i - 1) + "(a)\n";
    text += "op f(x[m]) -> y[m]:\n    y = g20(x)\n";
    EXPECT_THAT(Operator(text).error({f32({1}, {1})}), HasSubstr("elaborates to more than 4096 equations"));
}

TEST(LangLibrary, EveryExampleOfTheLibraryElaborates) {
    const Library& l = Library::standard();
    for (const std::string& n : l.names()) {
        const OpDecl& d = *l.find(n);
        auto examples = l.examples(d);
        ASSERT_TRUE(examples.ok()) << render(examples.error());
        EXPECT_FALSE(examples->empty()) << n << " has no example";
        EXPECT_FALSE(l.doc(d).empty()) << n << " has no description";
        auto p = l.elaborate_symbolic(n);
        EXPECT_TRUE(p.ok()) << render(p.error());
        for (const Example& x : *examples) {
            auto q = l.elaborate(n, x.arguments, x.attributes);
            ASSERT_TRUE(q.ok()) << render(q.error());
            EXPECT_THAT(math::verify(*q), ::testing::IsEmpty());
        }
    }
}

}  // namespace
}  // namespace opwright::lang
