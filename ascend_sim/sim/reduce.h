// Reductions over a tensor. The count form adds each repeat of 256 bytes as a binary tree and the results in order.
#pragma once
#include "select.h"

namespace AscendC {
namespace sim {

template <typename T>
T tree_sum(const T* x, int64_t n) {
    if (n == 1) return x[0];
    int64_t half_n = 1;
    while (half_n * 2 < n) half_n *= 2;
    return T(static_cast<float>(tree_sum(x, half_n)) + static_cast<float>(tree_sum(x + half_n, n - half_n)));
}
// Bytes of a reduction's work area by the documentation: what each repeat delivers, rounded to 32 bytes. An extreme
// always comes with its index, two elements; where the index is wanted, the results of all levels are kept.
template <typename T>
int64_t work_bytes(int64_t count, int64_t delivered, bool all_levels) {
    constexpr int64_t lanes = ascend_sim::kRepeat / sizeof(T);
    int64_t bytes = 0;
    for (int64_t n = count;;) {
        const int64_t repeats = (n + lanes - 1) / lanes;
        n = repeats * delivered;
        bytes += (n * int64_t{sizeof(T)} + kBlock - 1) / kBlock * kBlock;
        if (!all_levels || repeats == 1) return bytes;
    }
}
template <typename T>
void check_shared(const Instruction& in, const LocalTensor<T>& shared, int64_t bytes) {
    const auto r = shared.first(bytes / int64_t{sizeof(T)}, "work area");
    in.check(r);
    in.require(r.bytes <= shared.bytes(), "bounds", [&] {
        return in.text(r) + ": the work area has " + std::to_string(shared.bytes()) + " bytes, " +
               std::to_string(bytes) + " are needed";
    });
    in.write(r);
    in.undefine(r.address, r.bytes);
}
template <typename T>
void reduce_extreme(const char* name, At at, const LocalTensor<T>& dst, const LocalTensor<T>& src,
                    const LocalTensor<T>& shared, int64_t count, bool index, bool largest) {
    static_assert(kFloat<T>, "reductions do not support this type on 2201");
    const Instruction in(PIPE_V, name, at);
    check_count(in, count);
    read_operand(in, src, count);
    const auto d = dst.first(index ? 2 : 1, "destination");
    in.check(d);
    const T* x = src.data(in.core());
    int64_t best = 0;
    for (int64_t i = 1; i < count; ++i) {
        const auto a = static_cast<float>(x[best]), b = static_cast<float>(x[i]);
        if (std::isnan(a)) break;
        if (std::isnan(b) || (largest ? b > a || (b == a && !std::signbit(b) && std::signbit(a))
                                      : b < a || (b == a && std::signbit(b) && !std::signbit(a))))
            best = i;
    }
    const T value = x[best];
    check_shared(in, shared, work_bytes<T>(count, 2, index));
    in.write(d);
    dst.data(in.core())[0] = value;
    if (index) {  // the index as bits in the element's type
        if constexpr (sizeof(T) == 2) {
            const auto i = static_cast<uint16_t>(best);
            std::memcpy(dst.data(in.core()) + 1, &i, 2);
        } else {
            const auto i = static_cast<uint32_t>(best);
            std::memcpy(dst.data(in.core()) + 1, &i, 4);
        }
    }
}
}  // namespace sim

template <typename T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmp, int64_t count,
               ascend_sim::At at = ascend_sim::At()) {
    static_assert(sim::kFloat<T>, "ReduceSum does not support this type on 2201");
    const sim::Instruction in(PIPE_V, "ReduceSum", at);
    sim::check_count(in, count);
    sim::read_operand(in, src, count);
    const auto d = dst.first(1, "destination");
    in.check(d);
    constexpr int64_t lanes = ascend_sim::kRepeat / sizeof(T);
    const T* x = src.data(in.core());
    T sum = sim::tree_sum(x, std::min(count, lanes));
    for (int64_t i = lanes; i < count; i += lanes)
        sum = T(static_cast<float>(sum) + static_cast<float>(sim::tree_sum(x + i, std::min(count - i, lanes))));
    sim::check_shared(in, sharedTmp, sim::work_bytes<T>(count, 1, false));
    in.write(d);
    dst.data(in.core())[0] = sum;
}
template <typename T>
void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmp, int64_t count,
               bool calIndex = false, ascend_sim::At at = ascend_sim::At()) {
    sim::reduce_extreme("ReduceMax", at, dst, src, sharedTmp, count, calIndex, true);
}
template <typename T>
void ReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmp, int64_t count,
               bool calIndex = false, ascend_sim::At at = ascend_sim::At()) {
    sim::reduce_extreme("ReduceMin", at, dst, src, sharedTmp, count, calIndex, false);
}
// One sum for each repeat of `mask` elements.
template <typename T>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, int64_t mask, int64_t repeatTime,
                    int64_t dstRepStride, int64_t srcBlkStride, int64_t srcRepStride,
                    ascend_sim::At at = ascend_sim::At()) {
    static_assert(sim::kFloat<T>, "WholeReduceSum does not support this type on 2201");
    const sim::Instruction in(PIPE_V, "WholeReduceSum", at);
    sim::check_mask<T>(in, mask, repeatTime);
    sim::touch_repeats(in, src, mask, repeatTime, srcBlkStride, srcRepStride, false);
    constexpr int64_t lanes = ascend_sim::kRepeat / sizeof(T);
    for (int64_t r = 0; r < repeatTime; ++r) {
        T x[lanes];
        sim::each_lane<T>(mask, r, srcBlkStride, srcRepStride,
                          [&](int64_t i, int64_t e) { x[i] = src.data(in.core())[e]; });
        const auto d = dst.range(r * dstRepStride, 1, "destination");
        in.check(d, sizeof(T));
        in.write(d);
        dst.data(in.core())[r * dstRepStride] = sim::tree_sum(x, mask);
    }
}

}  // namespace AscendC
