// Comparisons to bit masks, selection by them, gathering and broadcasting of blocks.
#pragma once
#include "cast.h"

namespace AscendC {
namespace sim {

inline bool holds(float a, float b, CMPMODE m) {
    switch (m) {
        case CMPMODE::LT: return a < b;
        case CMPMODE::GT: return a > b;
        case CMPMODE::EQ: return a == b;
        case CMPMODE::LE: return a <= b;
        case CMPMODE::GE: return a >= b;
        default: return a != b;
    }
}
// Count, sizes and order of a comparison; the mask has one bit an element.
template <typename U, typename T>
void check_compare(const Instruction& in, const LocalTensor<U>& dst, int64_t count) {
    check_count(in, count);
    in.require(count * sizeof(T) % ascend_sim::kRepeat == 0, "compare_count", [&] {
        return std::to_string(count) + " elements are no multiple of 256 bytes: the tail would not be computed";
    });
    const auto d = dst.first(count / 8 / sizeof(U), "destination");
    in.require(d.bytes <= dst.bytes(), "bounds", [&] { return in.text(d) + " leaves its tensor"; });
    in.check(d);
}
template <typename U>
void set_bits(const Instruction& in, const LocalTensor<U>& dst, int64_t count,
              const std::function<bool(int64_t)>& bit) {
    auto* bytes = reinterpret_cast<uint8_t*>(dst.data(in.core()));
    std::memset(bytes, 0, count / 8);
    for (int64_t i = 0; i < count; ++i) bytes[i / 8] |= static_cast<uint8_t>(bit(i) << (i % 8));
}
template <typename T>
void read_operand(const Instruction& in, const LocalTensor<T>& t, int64_t count) {
    const auto r = t.first(count, "source");
    in.check(r);
    in.require(r.bytes <= t.bytes(), "bounds", [&] { return in.text(r) + " leaves its tensor"; });
    in.read(r);
}
}  // namespace sim

template <typename U, typename T>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
             int64_t count, ascend_sim::At at = ascend_sim::At()) {
    static_assert(std::is_same_v<U, uint8_t>, "Compare writes a mask of uint8_t");
    static_assert(sim::kFloat<T> || std::is_same_v<T, int32_t>, "Compare does not support this type on 2201");
    const sim::Instruction in(PIPE_V, "Compare", at);
    in.require(sim::kFloat<T> || mode == CMPMODE::EQ, "dtype", "int32 is compared for equality only");
    sim::check_compare<U, T>(in, dst, count);
    sim::read_operand(in, src0, count), sim::read_operand(in, src1, count);
    in.apart(dst.first(count / 8, "destination"), src0.first(count, "source"));
    in.apart(dst.first(count / 8, "destination"), src1.first(count, "source"));
    in.write(dst.first(count / 8, "destination"));
    const T *a = src0.data(in.core()), *b = src1.data(in.core());
    sim::set_bits(in, dst, count, [&](int64_t i) {
        if constexpr (sim::kFloat<T>)
            return sim::holds(static_cast<float>(a[i]), static_cast<float>(b[i]), mode);
        else
            return a[i] == b[i];
    });
}
template <typename U, typename T>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src, T scalar, CMPMODE mode, int64_t count,
                   ascend_sim::At at = ascend_sim::At()) {
    static_assert(std::is_same_v<U, uint8_t>, "CompareScalar writes a mask of uint8_t");
    static_assert(sim::kFloat<T> || std::is_same_v<T, int32_t>, "CompareScalar does not support this type on 2201");
    const sim::Instruction in(PIPE_V, "CompareScalar", at);
    in.require(sim::kFloat<T> || mode == CMPMODE::EQ, "dtype", "int32 is compared for equality only");
    sim::check_compare<U, T>(in, dst, count);
    sim::read_operand(in, src, count);
    in.apart(dst.first(count / 8, "destination"), src.first(count, "source"));
    in.write(dst.first(count / 8, "destination"));
    const T* a = src.data(in.core());
    sim::set_bits(in, dst, count, [&](int64_t i) {
        if constexpr (sim::kFloat<T>)
            return sim::holds(static_cast<float>(a[i]), static_cast<float>(scalar), mode);
        else
            return a[i] == scalar;
    });
}

// dst = bit ? src0 : src1.
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE mode, int64_t count, ascend_sim::At at = ascend_sim::At()) {
    static_assert(sim::kFloat<T>, "Select does not support this type on 2201");
    const sim::Instruction in(PIPE_V, "Select", at);
    in.require(mode == SELMODE::VSEL_TENSOR_TENSOR_MODE, "select_mode", "two tensors need VSEL_TENSOR_TENSOR_MODE");
    sim::read_operand(in, mask, (count + 8 * int64_t{sizeof(U)} - 1) / (8 * int64_t{sizeof(U)}));
    sim::check_operands(in, count, dst, src0, src1);
    const auto* bits = reinterpret_cast<const uint8_t*>(mask.data(in.core()));
    T* d = dst.data(in.core());
    const T *a = src0.data(in.core()), *b = src1.data(in.core());
    for (int64_t i = 0; i < count; ++i) d[i] = bits[i / 8] >> (i % 8) & 1 ? a[i] : b[i];
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src0, T src1, SELMODE mode,
            int64_t count, ascend_sim::At at = ascend_sim::At()) {
    static_assert(sim::kFloat<T>, "Select does not support this type on 2201");
    const sim::Instruction in(PIPE_V, "Select", at);
    in.require(mode == SELMODE::VSEL_TENSOR_SCALAR_MODE, "select_mode", "a scalar needs VSEL_TENSOR_SCALAR_MODE");
    sim::read_operand(in, mask, (count + 8 * int64_t{sizeof(U)} - 1) / (8 * int64_t{sizeof(U)}));
    sim::check_operands(in, count, dst, src0);
    const auto* bits = reinterpret_cast<const uint8_t*>(mask.data(in.core()));
    T* d = dst.data(in.core());
    const T* a = src0.data(in.core());
    for (int64_t i = 0; i < count; ++i) d[i] = bits[i / 8] >> (i % 8) & 1 ? a[i] : src1;
}

// dst[i] = the element of src at byte base + offset[i].
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset, uint32_t base,
            int64_t count, ascend_sim::At at = ascend_sim::At()) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gather does not support this type on 2201");
    const sim::Instruction in(PIPE_V, "Gather", at);
    sim::read_operand(in, offset, count);
    const auto d = dst.first(count, "destination");
    in.check(d);
    in.require(d.bytes <= dst.bytes(), "bounds", [&] { return in.text(d) + " leaves its tensor"; });
    const uint32_t* o = offset.data(in.core());
    std::vector<T> values(count);
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t from = uint64_t{base} + o[i];
        in.require(from % sizeof(T) == 0, "alignment",
                   [&] { return "offset " + std::to_string(from) + " is within an element"; });
        in.require(from + sizeof(T) <= src.bytes(), "bounds", [&] {
            return "offset " + std::to_string(from) + " leaves the source of " + std::to_string(src.bytes()) + " bytes";
        });
        const auto r = src.range(from / sizeof(T), 1, "source");
        in.check(r, sizeof(T));
        in.read(r);
        values[i] = src.data(in.core())[from / sizeof(T)];
    }
    in.write(d);
    std::copy(values.begin(), values.end(), dst.data(in.core()));
}

// Each of 8 elements a repeat becomes one block of 32 bytes.
template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, int64_t repeatTime, const BrcbRepeatParams& p,
          ascend_sim::At at = ascend_sim::At()) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Brcb does not support this type on 2201");
    const sim::Instruction in(PIPE_V, "Brcb", at);
    sim::field(in, "repeatTime", repeatTime, 255);
    sim::read_operand(in, src, repeatTime * 8);
    constexpr int64_t per_block = sim::kBlock / sizeof(T);
    for (int64_t r = 0; r < repeatTime; ++r)
        for (int64_t i = 0; i < 8; ++i) {
            const auto d = dst.range((r * p.dstRepStride + i * p.dstBlkStride) * per_block, per_block, "destination");
            in.check(d);
            in.write(d);
            std::fill_n(reinterpret_cast<T*>(in.core().ub.data() + d.address), per_block,
                        src.data(in.core())[r * 8 + i]);
        }
}

}  // namespace AscendC
