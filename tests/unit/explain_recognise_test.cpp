// Kernels are known by their mathematics: the same names for other spellings, and none for what only looks alike.
#include "explain/recognise.h"

#include <gtest/gtest.h>

#include "fuse_draft.h"
#include "math/normal_form.h"

namespace opwright::explain {
namespace {
using fuse::Draft;
using math::Fn;
using graph::ValueId;

std::string kernel_is(Draft& d, ValueId y) {
    d.g.outputs = {y};
    const fuse::Fused f = fuse::fuse(fuse::normalise(fuse::remove_dead(d.g)));
    std::string decisions;
    for (const fuse::Decision& q : f.decisions) decisions += q.producer + " -> " + q.consumer + ": " + q.reason + " (" + q.account + ")\n";
    EXPECT_EQ(f.graph.nodes.size(), 1u) << decisions;
    return recognised_text(f.graph, f.graph.nodes.back());
}

TEST(Recognise, NormsAndSoftmaxByParts) {
    Draft s;
    EXPECT_EQ(kernel_is(s, s.softmax_by_parts("s", s.in("x", {64, 512}))), "softmax (from 5 operators)");
    Draft l;
    EXPECT_EQ(kernel_is(l, l.layer_norm_by_parts("l", l.in("x", {64, 512}), 512)), "layer_norm (from 9 operators)");
    // The variance as the mean of squares less the square of the mean; the reciprocal of a root.
    Draft v;
    const ValueId x = v.in("x", {64, 512});
    const ValueId m = v.with_number("m", Fn::Mul, v.row_sum("sum", x), 1.0 / 512);
    const ValueId q = v.with_number("q", Fn::Div, v.row_sum("squares", v.binary("xx", Fn::Mul, x, x)), 512);
    const ValueId var = v.binary("var", Fn::Sub, q, v.binary("mm", Fn::Mul, m, m));
    const ValueId r = v.unary("r", Fn::Rsqrt, v.with_number("eps", Fn::Add, var, 1e-6));
    EXPECT_EQ(kernel_is(v, v.with_rows("y", Fn::Mul, v.with_rows("d", Fn::Sub, x, m), r)), "layer_norm (from 11 operators)");
    // Without the shift by the mean it is another norm.
    Draft w;
    const ValueId u = w.in("x", {64, 512});
    const ValueId mean = w.with_number("q", Fn::Div, w.row_sum("squares", w.binary("xx", Fn::Mul, u, u)), 512);
    EXPECT_EQ(kernel_is(w, w.with_rows("y", Fn::Div, u, w.unary("r", Fn::Sqrt, w.with_number("eps", Fn::Add, mean, 1e-6)))), "rms_norm (from 6 operators)");
    // A divisor that is not the number of columns is no norm.
    Draft n;
    EXPECT_EQ(kernel_is(n, n.layer_norm_by_parts("l", n.in("x", {64, 512}), 511)), "");
}

TEST(Recognise, APartOfAKernelIsNotTakenForTheWhole) {
    Draft d;
    const ValueId s = d.softmax_by_parts("s", d.in("x", {64, 512})), c = d.row_sum("c", d.unary("tanh", Fn::Tanh, s));
    d.g.outputs = {s, c};
    const fuse::Fused f = fuse::fuse(fuse::normalise(fuse::remove_dead(d.g)));
    ASSERT_EQ(f.graph.nodes.size(), 1u);
    EXPECT_EQ(recognised_text(f.graph, f.graph.nodes[0]), "softmax (a part of 7 operators)");
    EXPECT_EQ(recognised_text(f.graph, f.graph.nodes[0], false), "");
}

TEST(Recognise, ActivationsInOtherSpellings) {
    Draft g;  // x * (0.5 * (1 + erf(x / 1.41421354)))
    const ValueId x = g.in("x", {64, 512});
    const ValueId e = g.with_number("one", Fn::Add, g.unary("erf", Fn::Erf, g.with_number("root", Fn::Div, x, 1.41421354)), 1);
    EXPECT_EQ(kernel_is(g, g.binary("y", Fn::Mul, x, g.with_number("half", Fn::Mul, e, 0.5))), "gelu (from 5 operators)");
    Draft t;  // tanh, with the cube as a power
    const ValueId v = t.in("x", {64, 512});
    const ValueId cube = t.with_number("scale", Fn::Mul, t.with_number("cube", Fn::Pow, v, 3), 0.044715);
    const ValueId in = t.with_number("c", Fn::Mul, t.binary("inner", Fn::Add, v, cube), 0.7978845608);
    const ValueId one = t.with_number("one", Fn::Add, t.unary("tanh", Fn::Tanh, in), 1);
    EXPECT_EQ(kernel_is(t, t.with_number("half", Fn::Mul, t.binary("y", Fn::Mul, one, v), 0.5)), "gelu_tanh (from 8 operators)");
    Draft s;  // x * (1 / (1 + exp(-x)))
    const ValueId z = s.in("x", {64, 512});
    const ValueId d = s.with_number("d", Fn::Add, s.unary("exp", Fn::Exp, s.unary("neg", Fn::Neg, z)), 1);
    EXPECT_EQ(kernel_is(s, s.binary("y", Fn::Div, z, d)), "silu (from 4 operators)");
    Draft o;  // another constant is another function
    const ValueId w = o.in("x", {64, 512});
    const ValueId f = o.with_number("one", Fn::Add, o.unary("erf", Fn::Erf, o.with_number("root", Fn::Div, w, 1.5)), 1);
    EXPECT_EQ(kernel_is(o, o.binary("y", Fn::Mul, w, o.with_number("half", Fn::Mul, f, 0.5))), "");
}

}  // namespace
}  // namespace opwright::explain
