#include <gtest/gtest.h>

#include <cmath>

#include "loop/builder.h"
#include "loop/fold.h"
#include "loop/print.h"
#include "loop/verify.h"

namespace opwright::loop {
namespace {

struct LoopBuilder : testing::Test {
    Program p;
    Builder b{p};
    Expr n = b.symbol("n"), m = b.symbol("m");
    std::string text(Expr e) { return print(p, e); }
};

TEST_F(LoopBuilder, InternsEqualExpressions) {
    EXPECT_EQ((n + m).id, (m + n).id);
    EXPECT_EQ((n * 3 + 1).id, (n * 3 + 1).id);
    EXPECT_NE((n - m).id, (m - n).id);
    EXPECT_EQ(b.symbol("n").id, n.id);
}

TEST_F(LoopBuilder, SimplifiesIndexArithmetic) {
    EXPECT_EQ((n + 0).id, n.id);
    EXPECT_EQ((n * 1).id, n.id);
    EXPECT_EQ(text(n * 0), "0");
    EXPECT_EQ(text(n - n), "0");
    EXPECT_EQ(text((n + 3) - 3), "n");
    EXPECT_EQ(text((n + 3) * 4 + m), "m + n * 4 + 12");
    EXPECT_EQ(text(m + (n - 2)), "n + m + -2");
    EXPECT_EQ(text(m - (n - 2)), "m - n + 2");
    EXPECT_EQ(text(floordiv(n, 1)), "n");
    EXPECT_EQ(text(mod(n, 1)), "0");
    EXPECT_EQ(text(min(min(n, b.i64(8)), b.i64(4))), "min(n, 4)");
    EXPECT_EQ(text(lt(n, n)), "false");
    EXPECT_EQ(text(select(b.boolean(true), n, m)), "n");
    EXPECT_EQ(text(ceildiv(n, 16)), "(n + 15) // 16");
}

TEST_F(LoopBuilder, KeepsFloatsAsWritten) {
    Expr x = cast(n, DType::F32);
    EXPECT_EQ(text(x + b.f32(0)), "f32(n) + 0.0");  // -0 + 0 is +0
    EXPECT_EQ(text(x * b.f32(0)), "f32(n) * 0.0");
    EXPECT_EQ((x * b.f32(1)).id, x.id);
    EXPECT_EQ((x - b.f32(0)).id, x.id);
    EXPECT_EQ(text(x - x), "f32(n) - f32(n)");
    EXPECT_NE(b.f32(0.0).id, b.f32(-0.0).id);
    EXPECT_EQ(b.f32(0.1).id, b.f32(0.1f).id);
    EXPECT_EQ(b.f32(NAN).id, b.f32(-NAN).id);
}

TEST_F(LoopBuilder, KeepsScalarWorkScalar) {
    Expr v = broadcast(n, 8) * broadcast(m, 8);
    EXPECT_EQ(v.id, broadcast(n * m, 8).id);
    EXPECT_EQ(text(ramp(n, 1, 8) + broadcast(m, 8)), "ramp(n + m, 1, 8)");
    EXPECT_EQ(text((ramp(n, 1, 8) + 4) * 3), "ramp(n * 3 + 12, 3, 8)");
    EXPECT_EQ(extract(ramp(n, 2, 8), 3).id, (n + 6).id);
    EXPECT_EQ(text(first_lanes(b.i64(8), 8)), "true");
}

TEST_F(LoopBuilder, RoundsOnce) {
    Expr x = cast(n, DType::F32), half = cast(x, DType::BF16);
    EXPECT_EQ(cast(cast(half, DType::F32), DType::BF16).id, half.id);
    EXPECT_EQ(cast(cast(half, DType::F64), DType::BF16).id, half.id);
    EXPECT_EQ(cast_normal(cast(half, DType::F32)).id, half.id);
    EXPECT_EQ(text(cast(cast(half, DType::F32), DType::F16)), "f16(f32(bf16(f32(n))))");
    EXPECT_EQ(text(cast(cast(cast(n, DType::I32), DType::F32), DType::I32)), "i32(f32(i32(n)))");  // loses bits
}

TEST_F(LoopBuilder, FoldsLiterals) {
    EXPECT_EQ(text(b.i64(7) + 5), "12");
    EXPECT_EQ(text(cast(b.f32(2.75), DType::I32)), "2");
    EXPECT_EQ(text(cast(b.i64(3), DType::F32)), "3.0");
    EXPECT_EQ(text(cast(b.i64(300), DType::U8)), "u8(300)");  // saturates at run time
    EXPECT_EQ(text(wrap(b.i64(300), DType::U8)), "44");
    EXPECT_EQ(text(binary(BinaryFn::Div, b.i64(7), b.i64(0))), "0");
}

TEST(LoopFold, DefinesTheUndefined) {
    EXPECT_EQ(fold_int(BinaryFn::Div, DType::I32, INT32_MIN, -1), INT32_MIN);
    EXPECT_EQ(fold_int(BinaryFn::Div, DType::I64, INT64_MIN, -1), INT64_MIN);
    EXPECT_EQ(fold_int(BinaryFn::Mod, DType::I64, INT64_MIN, -1), 0);
    EXPECT_EQ(fold_int(BinaryFn::FloorDiv, DType::I8, -7, 2), -4);
    EXPECT_EQ(fold_int(BinaryFn::Div, DType::I8, -7, 2), -3);
    EXPECT_EQ(fold_int(BinaryFn::Mod, DType::I8, -7, 3), 2);
    EXPECT_EQ(fold_int(BinaryFn::Mod, DType::I8, 7, -3), -2);
    EXPECT_EQ(fold_int(BinaryFn::FMod, DType::I8, -7, 3), -1);
    EXPECT_EQ(fold_int(BinaryFn::Shl, DType::U8, 1, 8), 0);
    EXPECT_EQ(fold_int(BinaryFn::Shr, DType::I32, -5, 40), -1);
    EXPECT_EQ(fold_int(BinaryFn::Shr, DType::U32, 5, -1), 0);
    EXPECT_EQ(fold_int(BinaryFn::Lt, DType::U64, -1, 1), 0);
    EXPECT_EQ(fold_int(UnaryFn::Neg, DType::U8, 1), 255);
    EXPECT_EQ(fold_int(UnaryFn::Abs, DType::I8, -128), -128);
}

TEST_F(LoopBuilder, PrintsAProgram) {
    auto x = b.param("x", DType::F32, 0, Access::Read);
    auto y = b.param("y", DType::F32, 1, Access::Write);
    b.function("scale_sum", [&] {
        LocalRef acc = b.local("acc", broadcast(b.f32(0), 16));
        b.loop("i", b.task_begin(), min(b.task_end(), n), 16, [&](Expr i) {
            Expr mask = first_lanes(n - i, 16);
            Expr v = b.let("v", b.load(x, i, 16, mask));
            b.set(acc, mul_add(v, v, b.get(acc)));
            b.if_(gt(m, b.i64(0)), [&] { b.store(y, i, exp2f(1) == 2 ? v + v * v : v, mask); });
        });
        b.store(y, n, reduce_lanes(BinaryFn::Add, b.get(acc)));
    });
    EXPECT_EQ(print(p), R"(symbol 0: n
symbol 1: m
param 0: x f32 read-only
param 1: y f32
function scale_sum:
  var acc: f32x16 = 0.0
  for i in task_begin .. min(n, task_end) step 16:
    let v: f32x16 = (x[i : 16] where first_lanes(n - i, 16) else 0.0)
    acc = mul_add(v, v, acc)
    if m > 0:
      y[i : 16] = v + v * v where first_lanes(n - i, 16)
  y[n] = lanes_add(acc)
)");
    EXPECT_TRUE(verify(p).empty());
}

TEST_F(LoopBuilder, PrintsEqualNamesApart) {
    auto y = b.param("y", DType::I64, 0);
    b.function("f", [&] {
        LocalRef one = b.local("acc", n * n), two = b.local("acc", m * m);
        b.loop("i", 0, n, 1, [&](Expr i) {
            b.loop("i", 0, m, 1, [&](Expr j) {
                const Expr product = i * j;  // made first: sums print their older operand first
                b.set(two, b.get(one) + product);
            });
        });
        b.loop("i", 0, n, 1, [&](Expr i) { b.store(y, i, b.get(two)); });
    });
    EXPECT_EQ(print(p, p.functions[0]), R"(function f:
  var acc: i64 = n * n
  var acc_2: i64 = m * m
  for i in 0 .. n:
    for i_2 in 0 .. m:
      acc_2 = i * i_2 + acc
  for i in 0 .. n:
    y[i] = acc_2
)");
}

TEST_F(LoopBuilder, PrintsSharedExpressionsOnce) {
    Expr x = cast(n, DType::F32);
    for (int i = 0; i < 40; ++i) x = x * x + x;  // a tree of 3^40 leaves
    auto y = b.param("y", DType::F32, 0);
    b.function("f", [&] { b.store(y, n, x); });
    EXPECT_LT(print(p).size(), 4000u);
    EXPECT_TRUE(verify(p).empty());
}

TEST_F(LoopBuilder, RefusesMisuse) {
    EXPECT_THROW(n + b.i32(1), std::logic_error);
    EXPECT_THROW(b.literal(DType::F16, 1) + b.literal(DType::F16, 1), std::logic_error);
    EXPECT_THROW(ramp(n, 1, 8) + ramp(n, 1, 4), std::logic_error);
    EXPECT_THROW(unary(UnaryFn::Exp, n), std::logic_error);
    EXPECT_THROW(broadcast(n, 12), std::logic_error);
    EXPECT_THROW(bitcast(n, DType::F32), std::logic_error);
    EXPECT_THROW(b.set_error(1), std::logic_error);
}

TEST_F(LoopBuilder, VerifyNamesWhatIsOutOfScope) {
    auto y = b.param("y", DType::F32, 0);
    Expr escaped;
    b.function("f", [&] {
        b.loop("i", 0, n, 1, [&](Expr i) { escaped = i; });
        b.store(y, escaped, b.f32(1));
    });
    ASSERT_EQ(verify(p).size(), 1u);
    EXPECT_EQ(verify(p)[0], "function 'f': the offset of a store uses loop variable 'i' outside of its loop.");
}

TEST_F(LoopBuilder, VerifyFindsFaults) {
    auto x = b.param("x", DType::F32, 0, Access::Read);
    Expr escaped;
    b.function("f", [&] {
        b.store(x, n, b.f32(1));
        b.store(x, n, b.f64(1));
        b.loop("i", b.i64(0), n, b.i64(0), [&](Expr) {});
        b.if_(gt(n, m), [&] { escaped = b.get(b.local("a", n * m)); });
        b.set_error(escaped);
    });
    b.function("f", [&] {});
    p.stmts.push_back(For{VarId{0}, n, n, n, ForKind::Unrolled, {}});
    p.functions[1].body.push_back(static_cast<StmtId>(p.stmts.size() - 1));
    std::string all;
    for (const std::string& s : verify(p)) all += s + "\n";
    EXPECT_EQ(all,
              "function 'f': stores to 'x', which is read-only.\n"
              "function 'f': stores to 'x', which is read-only.\n"
              "function 'f': stores f64 to 'x' of f32.\n"
              "function 'f': the step of loop 'i' is not positive.\n"
              "function 'f': an error code uses local 'a' where it is not declared.\n"
              "function 'f': is defined twice.\n"
              "function 'f': unrolled loop 'i' needs literal bounds and step.\n");
}

TEST_F(LoopBuilder, VerifyChecksRawNodes) {
    p.intern({.op = Op::Binary, .fn = static_cast<uint8_t>(BinaryFn::Add), .type = {DType::F32, 1}, .args = {n, m}});
    ASSERT_EQ(verify(p).size(), 1u);
    EXPECT_NE(verify(p)[0].find("operands whose types do not fit"), std::string::npos);
}

TEST_F(LoopBuilder, ScratchExtentsAreSymbolic) {
    b.scratch("ok", DType::F32, n * 4 + 3);
    EXPECT_TRUE(verify(p).empty());
    b.scratch("bad", DType::F32, b.task_begin());
    ASSERT_EQ(verify(p).size(), 1u);
    EXPECT_EQ(verify(p)[0], "the buffers: the extent of scratch 'bad' may use only symbols and literals.");
}

}  // namespace
}  // namespace opwright::loop
