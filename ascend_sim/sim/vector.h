// Arithmetic of the vector unit, in the form with a count of elements and in the form with mask and repeats. Results
// are rounded once, to nearest even; what the manuals leave open is listed in README.md.
#pragma once
#include "copy.h"

namespace AscendC {
namespace sim {

template <typename T, typename... U>
inline constexpr bool kOneOf = (std::is_same_v<T, U> || ...);
template <typename T>
inline constexpr bool kFloat = kOneOf<T, half, float>;
template <typename T>
inline constexpr bool kArithmetic = kOneOf<T, half, float, int16_t, int32_t>;

template <typename T>
using Wide = std::conditional_t<kFloat<T>, float, int64_t>;
template <typename T>
T narrow(Wide<T> v) {
    if constexpr (kFloat<T>) {
        return T(v);
    } else {
        return static_cast<T>(static_cast<uint64_t>(v));  // integers wrap
    }
}
// The larger of two: NaN where either is, +0 above -0.
inline float larger(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
}
inline float smaller(float a, float b) { return -larger(-a, -b); }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

inline void check_count(const Instruction& in, int64_t count) {
    in.require(count > 0, "count", [&] { return "a count of " + std::to_string(count); });
}
template <typename D, typename... S>
void check_operands(const Instruction& in, int64_t count, const LocalTensor<D>& dst, const LocalTensor<S>&... src) {
    check_count(in, count);
    const auto d = dst.first(count, "destination");
    in.check(d);
    const auto fits = [&](const auto& t, const char* role) {
        const auto r = t.first(count, role);
        in.require(r.bytes <= t.bytes(), "bounds",
                   [&] { return in.text(r) + ": the tensor has " + std::to_string(t.bytes()) + " bytes"; });
        in.check(r);
        return r;
    };
    fits(dst, "destination");
    (in.apart(d, fits(src, "source")), ...);
    (in.read(src.first(count, "source")), ...);
    in.write(d);
}
template <typename D, typename A, typename F>
void unary(const char* name, At at, const LocalTensor<D>& dst, const LocalTensor<A>& a, int64_t count, F f) {
    const Instruction in(PIPE_V, name, at);
    check_operands(in, count, dst, a);
    D* d = dst.data(in.core());
    const A* x = a.data(in.core());
    for (int64_t i = 0; i < count; ++i) d[i] = narrow<D>(f(static_cast<Wide<A>>(x[i])));
}
template <typename D, typename A, typename F>
void binary(const char* name, At at, const LocalTensor<D>& dst, const LocalTensor<A>& a, const LocalTensor<A>& b,
            int64_t count, F f) {
    const Instruction in(PIPE_V, name, at);
    check_operands(in, count, dst, a, b);
    D* d = dst.data(in.core());
    const A *x = a.data(in.core()), *y = b.data(in.core());
    for (int64_t i = 0; i < count; ++i) d[i] = narrow<D>(f(static_cast<Wide<A>>(x[i]), static_cast<Wide<A>>(y[i])));
}

// The elements of repeat r under a mask of the first `mask` elements, each block `stride` blocks from the one before.
template <typename T, typename F>
void each_lane(int64_t mask, int64_t repeat, int64_t block_stride, int64_t repeat_stride, F f) {
    constexpr int64_t per_block = kBlock / sizeof(T);
    for (int64_t i = 0; i < mask; ++i)
        f(i, (repeat * repeat_stride + i / per_block * block_stride) * per_block + i % per_block);
}
template <typename T>
void check_mask(const Instruction& in, int64_t mask, int64_t repeats) {
    constexpr int64_t lanes = ascend_sim::kRepeat / sizeof(T);
    in.require(mask >= 1 && mask <= lanes, "mask", [&] {
        return "a mask of " + std::to_string(mask) + ", 1 to " + std::to_string(lanes) + " are allowed";
    });
    field(in, "repeatTime", repeats, 255);
}
template <typename T>
void touch_repeats(const Instruction& in, const LocalTensor<T>& t, int64_t mask, int64_t repeats, int64_t block_stride,
                   int64_t repeat_stride, bool write) {
    field(in, "a block stride", block_stride, 255), field(in, "a repeat stride", repeat_stride, 255);
    constexpr int64_t per_block = kBlock / sizeof(T);
    for (int64_t r = 0; r < repeats; ++r)
        for (int64_t b = 0; b * per_block < mask; ++b) {
            const auto range = t.range((r * repeat_stride + b * block_stride) * per_block,
                                       std::min(per_block, mask - b * per_block), write ? "destination" : "source");
            in.check(range);
            write ? in.write(range) : in.read(range);
        }
}
template <typename T, typename F>
void binary_masked(const char* name, At at, const LocalTensor<T>& dst, const LocalTensor<T>& a, const LocalTensor<T>& b,
                   int64_t mask, int64_t repeats, const BinaryRepeatParams& p, F f) {
    const Instruction in(PIPE_V, name, at);
    check_mask<T>(in, mask, repeats);
    touch_repeats(in, a, mask, repeats, p.src0BlkStride, p.src0RepStride, false);
    touch_repeats(in, b, mask, repeats, p.src1BlkStride, p.src1RepStride, false);
    touch_repeats(in, dst, mask, repeats, p.dstBlkStride, p.dstRepStride, true);
    constexpr int64_t lanes = ascend_sim::kRepeat / sizeof(T);
    for (int64_t r = 0; r < repeats; ++r) {
        T x[lanes], y[lanes];
        each_lane<T>(mask, r, p.src0BlkStride, p.src0RepStride,
                     [&](int64_t i, int64_t e) { x[i] = a.data(in.core())[e]; });
        each_lane<T>(mask, r, p.src1BlkStride, p.src1RepStride,
                     [&](int64_t i, int64_t e) { y[i] = b.data(in.core())[e]; });
        each_lane<T>(mask, r, p.dstBlkStride, p.dstRepStride, [&](int64_t i, int64_t e) {
            dst.data(in.core())[e] = narrow<T>(f(static_cast<Wide<T>>(x[i]), static_cast<Wide<T>>(y[i])));
        });
    }
}
template <typename T, typename F>
void unary_masked(const char* name, At at, const LocalTensor<T>& dst, const LocalTensor<T>& a, int64_t mask,
                  int64_t repeats, const UnaryRepeatParams& p, F f) {
    const Instruction in(PIPE_V, name, at);
    check_mask<T>(in, mask, repeats);
    touch_repeats(in, a, mask, repeats, p.srcBlkStride, p.srcRepStride, false);
    touch_repeats(in, dst, mask, repeats, p.dstBlkStride, p.dstRepStride, true);
    constexpr int64_t lanes = ascend_sim::kRepeat / sizeof(T);
    for (int64_t r = 0; r < repeats; ++r) {
        T x[lanes];
        each_lane<T>(mask, r, p.srcBlkStride, p.srcRepStride,
                     [&](int64_t i, int64_t e) { x[i] = a.data(in.core())[e]; });
        each_lane<T>(mask, r, p.dstBlkStride, p.dstRepStride,
                     [&](int64_t i, int64_t e) { dst.data(in.core())[e] = narrow<T>(f(static_cast<Wide<T>>(x[i]))); });
    }
}
}  // namespace sim

#define ASCEND_SIM_BINARY(Name, allowed, expression)                                                            \
    template <typename T>                                                                                       \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, int64_t count, \
              ascend_sim::At at = ascend_sim::At()) {                                                           \
        static_assert(allowed, #Name " does not support this type on 2201");                                    \
        sim::binary(#Name, at, dst, src0, src1, count, [](auto a, auto b) { return expression; });              \
    }                                                                                                           \
    template <typename T>                                                                                       \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask, \
              int64_t repeatTime, const BinaryRepeatParams& p, ascend_sim::At at = ascend_sim::At()) {          \
        static_assert(allowed, #Name " does not support this type on 2201");                                    \
        sim::binary_masked(#Name, at, dst, src0, src1, static_cast<int64_t>(mask), repeatTime, p,               \
                           [](auto a, auto b) { return expression; });                                          \
    }
ASCEND_SIM_BINARY(Add, sim::kArithmetic<T>, a + b)
ASCEND_SIM_BINARY(Sub, sim::kArithmetic<T>, a - b)
ASCEND_SIM_BINARY(Mul, sim::kArithmetic<T>, a* b)
ASCEND_SIM_BINARY(Max, sim::kArithmetic<T>, sim::larger(a, b))
ASCEND_SIM_BINARY(Min, sim::kArithmetic<T>, sim::smaller(a, b))
ASCEND_SIM_BINARY(Div, sim::kFloat<T>, a / b)
ASCEND_SIM_BINARY(AddRelu, (sim::kOneOf<T, half, float, int16_t>), sim::larger(a + b, decltype(a + b)(0)))
#define ASCEND_SIM_BITS (sim::kOneOf<T, int16_t, uint16_t>)
ASCEND_SIM_BINARY(And, ASCEND_SIM_BITS, a& b)
ASCEND_SIM_BINARY(Or, ASCEND_SIM_BITS, a | b)
#undef ASCEND_SIM_BINARY

#define ASCEND_SIM_UNARY(Name, allowed, expression)                                                    \
    template <typename T>                                                                              \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, int64_t count,                     \
              ascend_sim::At at = ascend_sim::At()) {                                                  \
        static_assert(allowed, #Name " does not support this type on 2201");                           \
        sim::unary(#Name, at, dst, src, count, [](auto a) { return expression; });                     \
    }                                                                                                  \
    template <typename T>                                                                              \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, int64_t repeatTime, \
              const UnaryRepeatParams& p, ascend_sim::At at = ascend_sim::At()) {                      \
        static_assert(allowed, #Name " does not support this type on 2201");                           \
        sim::unary_masked(#Name, at, dst, src, static_cast<int64_t>(mask), repeatTime, p,              \
                          [](auto a) { return expression; });                                          \
    }
ASCEND_SIM_UNARY(Abs, sim::kFloat<T>, std::fabs(a))
ASCEND_SIM_UNARY(Exp, sim::kFloat<T>, static_cast<float>(std::exp(static_cast<double>(a))))
ASCEND_SIM_UNARY(Ln, sim::kFloat<T>, static_cast<float>(std::log(static_cast<double>(a))))
ASCEND_SIM_UNARY(Sqrt, sim::kFloat<T>, std::sqrt(a))
ASCEND_SIM_UNARY(Rsqrt, sim::kFloat<T>, static_cast<float>(1 / std::sqrt(static_cast<double>(a))))
ASCEND_SIM_UNARY(Reciprocal, sim::kFloat<T>, 1 / a)
ASCEND_SIM_UNARY(Relu, (sim::kOneOf<T, half, float, int32_t>), sim::larger(a, decltype(a)(0)))
ASCEND_SIM_UNARY(Not, ASCEND_SIM_BITS, ~a)
#undef ASCEND_SIM_UNARY
#undef ASCEND_SIM_BITS

#define ASCEND_SIM_SCALAR(Name, allowed, expression)                                                             \
    template <typename T, typename U>                                                                            \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, U scalar, int64_t count,                     \
              ascend_sim::At at = ascend_sim::At()) {                                                            \
        static_assert(allowed, #Name " does not support this type on 2201");                                     \
        const auto b = static_cast<sim::Wide<T>>(static_cast<T>(scalar));                                        \
        sim::unary(#Name, at, dst, src, count, [b](auto a) { return expression; });                              \
    }                                                                                                            \
    template <typename T, typename U>                                                                            \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, U scalar, uint64_t mask, int64_t repeatTime, \
              const UnaryRepeatParams& p, ascend_sim::At at = ascend_sim::At()) {                                \
        static_assert(allowed, #Name " does not support this type on 2201");                                     \
        const auto b = static_cast<sim::Wide<T>>(static_cast<T>(scalar));                                        \
        sim::unary_masked(#Name, at, dst, src, static_cast<int64_t>(mask), repeatTime, p,                        \
                          [b](auto a) { return expression; });                                                   \
    }
ASCEND_SIM_SCALAR(Adds, sim::kArithmetic<T>, a + b)
ASCEND_SIM_SCALAR(Muls, sim::kArithmetic<T>, a* b)
ASCEND_SIM_SCALAR(Maxs, sim::kArithmetic<T>, sim::larger(a, b))
ASCEND_SIM_SCALAR(Mins, sim::kArithmetic<T>, sim::smaller(a, b))
ASCEND_SIM_SCALAR(LeakyRelu, sim::kFloat<T>, (a >= 0 ? a : a * b))
#define ASCEND_SIM_SHIFT (sim::kOneOf<T, int16_t, uint16_t, int32_t, uint32_t>)
ASCEND_SIM_SCALAR(ShiftLeft, ASCEND_SIM_SHIFT, (b < int64_t(8 * sizeof(T)) ? int64_t(uint64_t(a) << b) : 0))
ASCEND_SIM_SCALAR(ShiftRight, ASCEND_SIM_SHIFT, a >> (b < 63 ? b : 63))
#undef ASCEND_SIM_SHIFT
#undef ASCEND_SIM_SCALAR

// dst += src * scalar, with a rounding after each step.
template <typename T, typename U>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, U scalar, int64_t count,
          ascend_sim::At at = ascend_sim::At()) {
    static_assert((sim::kFloat<T> && std::is_same_v<T, U>) || (std::is_same_v<T, float> && std::is_same_v<U, half>),
                  "Axpy does not support these types on 2201");
    const sim::Instruction in(PIPE_V, "Axpy", at);
    in.read(dst.first(count, "destination"));
    sim::check_operands(in, count, dst, src);
    T* d = dst.data(in.core());
    const U* s = src.data(in.core());
    for (int64_t i = 0; i < count; ++i)
        d[i] =
            T(static_cast<float>(d[i]) + static_cast<float>(T(static_cast<float>(s[i]) * static_cast<float>(scalar))));
}
// dst += src0 * src1.
template <typename T, typename U>
void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, int64_t count,
               ascend_sim::At at = ascend_sim::At()) {
    static_assert((sim::kFloat<T> && std::is_same_v<T, U>) || (std::is_same_v<T, float> && std::is_same_v<U, half>),
                  "MulAddDst does not support these types on 2201");
    const sim::Instruction in(PIPE_V, "MulAddDst", at);
    in.read(dst.first(count, "destination"));
    sim::check_operands(in, count, dst, src0, src1);
    T* d = dst.data(in.core());
    const U *x = src0.data(in.core()), *y = src1.data(in.core());
    for (int64_t i = 0; i < count; ++i)
        d[i] = T(static_cast<float>(d[i]) + static_cast<float>(T(static_cast<float>(x[i]) * static_cast<float>(y[i]))));
}
// dst = dst * src0 + src1.
template <typename T>
void FusedMulAdd(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, int64_t count,
                 ascend_sim::At at = ascend_sim::At()) {
    static_assert(sim::kFloat<T>, "FusedMulAdd does not support this type on 2201");
    const sim::Instruction in(PIPE_V, "FusedMulAdd", at);
    in.read(dst.first(count, "destination"));
    sim::check_operands(in, count, dst, src0, src1);
    T* d = dst.data(in.core());
    const T *x = src0.data(in.core()), *y = src1.data(in.core());
    for (int64_t i = 0; i < count; ++i)
        d[i] = T(static_cast<float>(T(static_cast<float>(d[i]) * static_cast<float>(x[i]))) + static_cast<float>(y[i]));
}

template <typename T>
void Duplicate(const LocalTensor<T>& dst, T scalar, int64_t count, ascend_sim::At at = ascend_sim::At()) {
    static_assert(sim::kOneOf<T, half, bfloat16_t, int16_t, uint16_t, int32_t, uint32_t, float>,
                  "Duplicate does not support this type on 2201");
    const sim::Instruction in(PIPE_V, "Duplicate", at);
    sim::check_operands(in, count, dst);
    std::fill_n(dst.data(in.core()), count, scalar);
}
// first, first + 1, ...
template <typename T>
void CreateVecIndex(const LocalTensor<T>& dst, T first, int64_t count, ascend_sim::At at = ascend_sim::At()) {
    static_assert(sim::kArithmetic<T>, "CreateVecIndex does not support this type on 2201");
    const sim::Instruction in(PIPE_V, "CreateVecIndex", at);
    sim::check_operands(in, count, dst);
    for (int64_t i = 0; i < count; ++i)
        dst.data(in.core())[i] = sim::narrow<T>(static_cast<sim::Wide<T>>(first) + static_cast<sim::Wide<T>>(i));
}

}  // namespace AscendC
