// Data movement: DataCopy and DataCopyPad between global memory and the unified buffer.
#pragma once
#include "pipe.h"

namespace AscendC {
namespace sim {
using ascend_sim::At;
using ascend_sim::Instruction;
using ascend_sim::kBlock;

template <typename T>
T* gm(const GlobalTensor<T>& g) {
    return g.GetPhyAddr();
}
template <typename T>
void check_global(const Instruction& in, const GlobalTensor<T>& g, uint64_t elements, const char* role) {
    in.require(elements <= g.GetSize(), "gm_bounds", [&] {
        return std::string(role) + " has " + std::to_string(g.GetSize()) + " elements, not " + std::to_string(elements);
    });
}
inline void field(const Instruction& in, const char* name, int64_t value, int64_t limit) {
    in.require(value >= 0 && value <= limit, "field", [&] {
        return std::string(name) + " is " + std::to_string(value) + ", its field holds 0 to " + std::to_string(limit);
    });
}
// What atomic accumulation does to one element of global memory.
template <typename T>
T added(T a, T b) {
    if constexpr (std::is_same_v<T, bfloat16_t>) {
        return ToBfloat16(ToFloat(a) + ToFloat(b));
    } else if constexpr (std::is_same_v<T, half>) {
        return half(static_cast<float>(a) + static_cast<float>(b));
    } else if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
        return a + b;
    }
}
template <typename T>
void to_global(const Instruction& in, T* to, const uint8_t* from, uint64_t bytes) {
    if (!in.core().atomic) {
        std::memcpy(to, from, bytes);
        return;
    }
    for (uint64_t i = 0; i < bytes / sizeof(T); ++i) {
        T a, b;
        std::memcpy(&a, to + i, sizeof(T));
        std::memcpy(&b, from + i * sizeof(T), sizeof(T));
        a = added(a, b);
        std::memcpy(to + i, &a, sizeof(T));
    }
}
}  // namespace sim

// `count` elements in one burst; count * sizeof(T) is a multiple of 32 bytes, since the device rounds it down.
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, int64_t count,
              ascend_sim::At at = ascend_sim::At()) {
    const sim::Instruction in(PIPE_MTE2, "DataCopy", at);
    in.require(count >= 0 && count * sizeof(T) % sim::kBlock == 0, "copy_length", [&] {
        return std::to_string(count) + " elements are no multiple of 32 bytes: the device would drop the tail";
    });
    const auto d = dst.first(count, "destination");
    in.check(d);
    sim::check_global(in, src, count, "source");
    in.read_global(sim::gm(src), count * sizeof(T), "source");
    in.global(sim::gm(src), count * sizeof(T), "source");
    in.write(d);
    std::memcpy(dst.data(in.core()), sim::gm(src), count * sizeof(T));
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, int64_t count,
              ascend_sim::At at = ascend_sim::At()) {
    const sim::Instruction in(PIPE_MTE3, "DataCopy", at);
    in.require(count >= 0 && count * sizeof(T) % sim::kBlock == 0, "copy_length", [&] {
        return std::to_string(count) + " elements are no multiple of 32 bytes: the device would drop the tail";
    });
    const auto s = src.first(count, "source");
    in.check(s);
    in.read(s);
    sim::check_global(in, dst, count, "destination");
    in.write_global(sim::gm(dst), count * sizeof(T), "destination");
    sim::to_global(in, sim::gm(dst), in.core().ub.data() + s.address, count * sizeof(T));
}
// Within the unified buffer, on the vector pipe.
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, int64_t count,
              ascend_sim::At at = ascend_sim::At()) {
    const sim::Instruction in(PIPE_V, "DataCopy", at);
    in.require(count >= 0 && count * sizeof(T) % sim::kBlock == 0, "copy_length", [&] {
        return std::to_string(count) + " elements are no multiple of 32 bytes: the device would drop the tail";
    });
    const auto d = dst.first(count, "destination"), s = src.first(count, "source");
    in.check(d), in.check(s), in.apart(d, s), in.read(s), in.write(d);
    std::memmove(dst.data(in.core()), src.data(in.core()), count * sizeof(T));
}
// Blocks with gaps, all in units of 32 bytes.
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p,
              ascend_sim::At at = ascend_sim::At()) {
    const sim::Instruction in(PIPE_MTE2, "DataCopy", at);
    sim::field(in, "blockCount", p.blockCount, 4095), sim::field(in, "blockLen", p.blockLen, 65535);
    sim::field(in, "srcStride", p.srcStride, 65535), sim::field(in, "dstStride", p.dstStride, 65535);
    const uint64_t bytes = static_cast<uint64_t>(p.blockLen) * sim::kBlock;
    for (int64_t i = 0; i < p.blockCount; ++i) {
        const uint64_t from = static_cast<uint64_t>(i * (p.blockLen + p.srcStride)) * sim::kBlock / sizeof(T);
        const auto d = dst.range(static_cast<uint64_t>(i * (p.blockLen + p.dstStride)) * sim::kBlock / sizeof(T),
                                 bytes / sizeof(T), "destination");
        in.check(d);
        sim::check_global(in, src, from + bytes / sizeof(T), "source");
        in.read_global(sim::gm(src) + from, bytes, "source");
        in.global(sim::gm(src) + from, bytes, "source");
        in.write(d);
        std::memcpy(in.core().ub.data() + d.address, sim::gm(src) + from, bytes);
    }
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p,
              ascend_sim::At at = ascend_sim::At()) {
    const sim::Instruction in(PIPE_MTE3, "DataCopy", at);
    sim::field(in, "blockCount", p.blockCount, 4095), sim::field(in, "blockLen", p.blockLen, 65535);
    sim::field(in, "srcStride", p.srcStride, 65535), sim::field(in, "dstStride", p.dstStride, 65535);
    const uint64_t bytes = static_cast<uint64_t>(p.blockLen) * sim::kBlock;
    for (int64_t i = 0; i < p.blockCount; ++i) {
        const uint64_t to = static_cast<uint64_t>(i * (p.blockLen + p.dstStride)) * sim::kBlock / sizeof(T);
        const auto s = src.range(static_cast<uint64_t>(i * (p.blockLen + p.srcStride)) * sim::kBlock / sizeof(T),
                                 bytes / sizeof(T), "source");
        in.check(s), in.read(s);
        sim::check_global(in, dst, to + bytes / sizeof(T), "destination");
        in.write_global(sim::gm(dst) + to, bytes, "destination");
        sim::to_global(in, sim::gm(dst) + to, in.core().ub.data() + s.address, bytes);
    }
}

// Blocks of any number of bytes. Each is padded to 32 bytes in the unified buffer: with leftPadding and rightPadding
// elements of paddingValue (isPad), which the model takes as written; what is left of the 32 bytes counts as undefined.
template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& p,
                 const DataCopyPadExtParams<T>& pad, ascend_sim::At at = ascend_sim::At()) {
    const sim::Instruction in(PIPE_MTE2, "DataCopyPad", at);
    sim::field(in, "blockCount", p.blockCount, 4095), sim::field(in, "blockLen", p.blockLen, 2097151);
    sim::field(in, "srcStride", p.srcStride, 0xffffffff), sim::field(in, "dstStride", p.dstStride, 0xffffffff);
    const int64_t width = sizeof(T);
    in.require(p.blockLen % width == 0 && p.srcStride % width == 0, "copy_length",
               "a length in bytes is no multiple of the element's size");
    in.require(pad.leftPadding >= 0 && pad.rightPadding >= 0 && pad.leftPadding * width <= sim::kBlock &&
                   pad.rightPadding * width <= sim::kBlock,
               "padding", "more than 32 bytes of padding on one side");
    if constexpr (sizeof(T) == 8) {
        T zero{};
        in.require(!pad.isPad || std::memcmp(&zero, &pad.paddingValue, 8) == 0, "padding",
                   "64-bit elements are padded with 0 only");
    }
    const int64_t left = pad.isPad ? pad.leftPadding * width : 0, right = pad.isPad ? pad.rightPadding * width : 0;
    const int64_t filled = left + p.blockLen + right;
    const int64_t pitch = (filled + sim::kBlock - 1) / sim::kBlock * sim::kBlock;
    for (int64_t i = 0; i < p.blockCount && p.blockLen > 0; ++i) {
        const uint64_t from = static_cast<uint64_t>(i * (p.blockLen + p.srcStride) / width);
        const auto whole = dst.range(static_cast<uint64_t>(i * (pitch + p.dstStride * sim::kBlock) / width),
                                     static_cast<uint64_t>(pitch / width), "destination");
        in.check(whole);
        sim::check_global(in, src, from + static_cast<uint64_t>(p.blockLen / width), "source");
        in.read_global(sim::gm(src) + from, p.blockLen, "source");
        in.global(sim::gm(src) + from, p.blockLen, "source");
        in.write(whole);
        uint8_t* to = in.core().ub.data() + whole.address;
        for (int64_t b = 0; b < left; b += width) std::memcpy(to + b, &pad.paddingValue, sizeof(T));
        std::memcpy(to + left, sim::gm(src) + from, p.blockLen);
        for (int64_t b = left + p.blockLen; b < filled; b += width) std::memcpy(to + b, &pad.paddingValue, sizeof(T));
        std::memset(to + filled, 0xff, pitch - filled);
        in.undefine(whole.address + static_cast<uint32_t>(filled), static_cast<uint32_t>(pitch - filled));
    }
}
template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& p,
                 ascend_sim::At at = ascend_sim::At()) {
    const sim::Instruction in(PIPE_MTE3, "DataCopyPad", at);
    sim::field(in, "blockCount", p.blockCount, 4095), sim::field(in, "blockLen", p.blockLen, 2097151);
    sim::field(in, "srcStride", p.srcStride, 0xffffffff), sim::field(in, "dstStride", p.dstStride, 0xffffffff);
    const int64_t width = sizeof(T);
    in.require(p.blockLen % width == 0 && p.dstStride % width == 0, "copy_length",
               "a length in bytes is no multiple of the element's size");
    const int64_t pitch = (p.blockLen + sim::kBlock - 1) / sim::kBlock * sim::kBlock;
    for (int64_t i = 0; i < p.blockCount && p.blockLen > 0; ++i) {
        const uint64_t to = static_cast<uint64_t>(i * (p.blockLen + p.dstStride) / width);
        const auto s = src.range(static_cast<uint64_t>(i * (pitch + p.srcStride * sim::kBlock) / width),
                                 static_cast<uint64_t>(p.blockLen / width), "source");
        in.check(s), in.read(s);
        sim::check_global(in, dst, to + static_cast<uint64_t>(p.blockLen / width), "destination");
        in.write_global(sim::gm(dst) + to, p.blockLen, "destination");
        sim::to_global(in, sim::gm(dst) + to, in.core().ub.data() + s.address, p.blockLen);
    }
}

// Fills global memory with one value, on the pipe that writes it.
template <typename T>
void InitGlobalMemory(const GlobalTensor<T>& dst, uint64_t size, T value, ascend_sim::At at = ascend_sim::At()) {
    const sim::Instruction in(PIPE_MTE3, "InitGlobalMemory", at);
    sim::check_global(in, dst, size, "destination");
    in.write_global(sim::gm(dst), size * sizeof(T), "destination");
    for (uint64_t i = 0; i < size; ++i) std::memcpy(sim::gm(dst) + i, &value, sizeof(T));
}

}  // namespace AscendC
