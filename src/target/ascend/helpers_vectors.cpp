// Functions without an instruction as sequences of vector instructions over a tile. Errors stated are bounds in units
// of the last place against exact values, measured over random floats of all exponents (target_ascend_test.cpp) with
// Exp and Ln that err by less than one. Tiles are whole 256 bytes, since comparisons are. The coefficients of erf are
// those of the scalar unit's (helpers_circular.cpp); the others are minimax fits of their own.
#include "target/ascend/helper_tables.h"

namespace opwright::target::ascend {

const std::vector<Helper>& vectors_helpers() {
    static const std::vector<Helper> all = {
        {"VectorStep", {}, R"(
// A step of Horner's rule: dst = dst * x + c.
__aicore__ inline void VectorStep(const LocalTensor<float> &dst, const LocalTensor<float> &x, float c, int32_t count)
{
    Mul(dst, dst, x, count);
    Adds(dst, dst, c, count);
}
)"},
        {"VectorSign", {}, R"(
// Gives dst, which is not negative, the signs of x.
__aicore__ inline void VectorSign(const LocalTensor<float> &dst, const LocalTensor<float> &x,
                                  const LocalTensor<float> &scratch, int32_t count)
{
    const LocalTensor<uint16_t> signs = scratch.ReinterpretCast<uint16_t>();
    const LocalTensor<uint16_t> bits = dst.ReinterpretCast<uint16_t>();
    Duplicate(scratch, -0.0f, count);
    And(signs, signs, x.ReinterpretCast<uint16_t>(), 2 * count);
    Or(bits, bits, signs, 2 * count);
}
)"},
        {"VectorTanh", {"VectorStep", "VectorSign"}, R"(
// At most 3 units in the last place: below 0.55 an odd polynomial, from there on 1 - 2 / (e ** 2a + 1).
__aicore__ inline void VectorTanh(const LocalTensor<float> &dst, const LocalTensor<float> &x,
                                  const LocalTensor<float> &a, const LocalTensor<float> &t,
                                  const LocalTensor<uint8_t> &small, int32_t count)
{
    Abs(a, x, count);
    Mins(a, a, 10.0f, count);  // from 9.02 on the result is 1
    CompareScalar(small, a, 0.55f, CMPMODE::LT, count);
    Mul(t, a, a, count);
    Muls(dst, t, -0x1.9b302ap-8f, count);
    Adds(dst, dst, 0x1.593d02p-6f, count);
    VectorStep(dst, t, -0x1.b9287ap-5f, count);
    VectorStep(dst, t, 0x1.110d26p-3f, count);
    VectorStep(dst, t, -0x1.55554ap-2f, count);
    Mul(dst, dst, t, count);
    Mul(dst, dst, a, count);
    Add(dst, dst, a, count);
    Add(t, a, a, count);
    Exp(t, t, count);
    Adds(t, t, 1.0f, count);
    Duplicate(a, -2.0f, count);
    Div(t, a, t, count);
    Adds(t, t, 1.0f, count);
    Select(dst, small, dst, t, SELMODE::VSEL_TENSOR_TENSOR_MODE, count);
    VectorSign(dst, x, a, count);
}
)"},
        {"VectorErf", {"VectorStep", "VectorSign"}, R"(
// At most 3 units in the last place: below 1 an odd polynomial, from there on 1 - e ** g with a polynomial g for
// log(erfc).
__aicore__ inline void VectorErf(const LocalTensor<float> &dst, const LocalTensor<float> &x,
                                 const LocalTensor<float> &a, const LocalTensor<float> &t,
                                 const LocalTensor<uint8_t> &small, int32_t count)
{
    Abs(a, x, count);
    Mins(a, a, 4.0f, count);  // from 3.92 on the result is 1
    CompareScalar(small, a, 1.0f, CMPMODE::LT, count);
    Mul(t, a, a, count);
    Muls(dst, t, 0x1.496a32p-14f, count);
    Adds(dst, dst, -0x1.a3f7p-11f, count);
    VectorStep(dst, t, 0x1.5405b2p-8f, count);
    VectorStep(dst, t, -0x1.b7f90ep-6f, count);
    VectorStep(dst, t, 0x1.ce2cf8p-4f, count);
    VectorStep(dst, t, -0x1.81273ep-2f, count);
    VectorStep(dst, t, 0x1.06eba2p-3f, count);
    Mul(dst, dst, a, count);
    Add(dst, dst, a, count);
    Muls(t, a, 0x1.86dd6ep-13f, count);
    Adds(t, t, -0x1.825aeap-9f, count);
    VectorStep(t, a, 0x1.65cb7p-6f, count);
    VectorStep(t, a, -0x1.a6533ep-4f, count);
    VectorStep(t, a, -0x1.46baecp-1f, count);
    VectorStep(t, a, -0x1.2088eap+0f, count);
    VectorStep(t, a, -0x1.661de4p-12f, count);
    Exp(t, t, count);
    Muls(t, t, -1.0f, count);
    Adds(t, t, 1.0f, count);
    Select(dst, small, dst, t, SELMODE::VSEL_TENSOR_TENSOR_MODE, count);
    VectorSign(dst, x, a, count);
}
)"},
        {"VectorExpm1", {"VectorStep"}, R"(
// At most 3 units in the last place: below 0.7 a polynomial, from there on nothing cancels in e ** x - 1.
__aicore__ inline void VectorExpm1(const LocalTensor<float> &dst, const LocalTensor<float> &x,
                                   const LocalTensor<float> &a, const LocalTensor<float> &t,
                                   const LocalTensor<uint8_t> &small, int32_t count)
{
    Abs(a, x, count);
    CompareScalar(small, a, 0.7f, CMPMODE::LT, count);
    Muls(dst, x, 0x1.9fc098p-16f, count);
    Adds(dst, dst, 0x1.a58a18p-13f, count);
    VectorStep(dst, x, 0x1.6c2178p-10f, count);
    VectorStep(dst, x, 0x1.110aeep-7f, count);
    VectorStep(dst, x, 0x1.55553cp-5f, count);
    VectorStep(dst, x, 0x1.55555ep-3f, count);
    VectorStep(dst, x, 0.5f, count);
    VectorStep(dst, x, 1.0f, count);
    Mul(dst, dst, x, count);
    Exp(t, x, count);
    Adds(t, t, -1.0f, count);
    Select(dst, small, dst, t, SELMODE::VSEL_TENSOR_TENSOR_MODE, count);
}
)"},
        {"VectorLog1p", {}, R"(
// At most 3 units in the last place: Ln(u) x / (u - 1) with u = 1 + x rounded, where what the rounding of u does to its
// logarithm is taken back; x itself where u is 1.
__aicore__ inline void VectorLog1p(const LocalTensor<float> &dst, const LocalTensor<float> &x,
                                   const LocalTensor<float> &a, const LocalTensor<float> &t,
                                   const LocalTensor<uint8_t> &apart, int32_t count)
{
    Mins(t, x, 0x1.fffffep127f, count);  // not inf / inf
    Adds(a, t, 1.0f, count);
    Adds(a, a, -1.0f, count);
    CompareScalar(apart, a, 0.0f, CMPMODE::NE, count);
    Div(t, t, a, count);
    Adds(a, x, 1.0f, count);
    Ln(a, a, count);
    Mul(dst, a, t, count);
    Select(dst, apart, dst, x, SELMODE::VSEL_TENSOR_TENSOR_MODE, count);
}
)"},
        {"Best", {}, R"(
// An element of a tile, and where in the tile it lies.
struct Best {
    float value;
    int64_t place;
};
)"},
        {"FirstNan", {"Best", "Await"}, R"(
// The first NaN of a tile: where no bit of `numbers` is set. `otherwise` where there is none.
__aicore__ inline Best FirstNan(const Best &otherwise, const LocalTensor<float> &scratch,
                                const LocalTensor<uint8_t> &numbers, const LocalTensor<float> &folded,
                                const LocalTensor<float> &work, uint32_t count)
{
    Duplicate(scratch, 0.0f, count);
    Select(scratch, numbers, scratch, 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
    ReduceMax(folded, scratch, work, count, true);
    Await<HardEvent::V_S>();
    if (folded.GetValue(0) == 0.0f) {
        return otherwise;
    }
    return {__builtin_nanf(""), folded.ReinterpretCast<uint32_t>().GetValue(1)};
}
)"},
        {"FindLargest", {"FirstNan"}, R"(
// The first of the largest of `count` elements; a NaN is beyond every number. The manuals do not say what ReduceMax makes of
// NaN and of -0: it is given neither.
__aicore__ inline Best FindLargest(const LocalTensor<float> &x, const LocalTensor<float> &scratch,
                                   const LocalTensor<uint8_t> &numbers, const LocalTensor<float> &folded,
                                   const LocalTensor<float> &work, uint32_t count, uint32_t lanes)
{
    Compare(numbers, x, x, CMPMODE::EQ, lanes);
    Adds(scratch, x, 0.0f, count);  // -0 becomes 0
    Select(scratch, numbers, scratch, __builtin_inff(), SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
    ReduceMax(folded, scratch, work, count, true);
    Await<HardEvent::V_S>();
    const Best best{folded.GetValue(0), folded.ReinterpretCast<uint32_t>().GetValue(1)};
    return best.value == __builtin_inff() ? FirstNan(best, scratch, numbers, folded, work, count) : best;
}
)"},
        {"FindSmallest", {"FirstNan"}, R"(
// The first of the smallest of `count` elements; a NaN is beyond every number. The manuals do not say what ReduceMin makes of
// NaN and of -0: it is given neither.
__aicore__ inline Best FindSmallest(const LocalTensor<float> &x, const LocalTensor<float> &scratch,
                                   const LocalTensor<uint8_t> &numbers, const LocalTensor<float> &folded,
                                   const LocalTensor<float> &work, uint32_t count, uint32_t lanes)
{
    Compare(numbers, x, x, CMPMODE::EQ, lanes);
    Adds(scratch, x, 0.0f, count);  // -0 becomes 0
    Select(scratch, numbers, scratch, -__builtin_inff(), SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
    ReduceMin(folded, scratch, work, count, true);
    Await<HardEvent::V_S>();
    const Best best{folded.GetValue(0), folded.ReinterpretCast<uint32_t>().GetValue(1)};
    return best.value == -__builtin_inff() ? FirstNan(best, scratch, numbers, folded, work, count) : best;
}
)"},
    };
    return all;
}

}  // namespace opwright::target::ascend
