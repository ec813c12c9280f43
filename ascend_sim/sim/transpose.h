// Blocks of elements turned: rows become columns.
#pragma once
#include "select.h"

namespace AscendC {

inline constexpr int NCHW_CONV_ADDR_LIST_SIZE = 16;

namespace sim {

// The 32 bytes of the unified buffer at an address that LocalTensor::GetPhyAddr gave out.
inline ascend_sim::UbRange block_at(const Instruction& in, uint64_t address, const char* role) {
    ascend_sim::Core& c = in.core();
    const uint64_t first = reinterpret_cast<uint64_t>(c.ub.data());
    for (const ascend_sim::Buffer& b : c.buffers) {
        if (address < first + b.address || address >= first + b.address + b.bytes) continue;
        ascend_sim::UbRange r{static_cast<uint32_t>(address - first), kBlock, &b, b.generation, role};
        in.require(b.state != ascend_sim::BufferState::Free && b.state != ascend_sim::BufferState::Enqueued, "stale",
                   [&] { return in.text(r) + " was given back by FreeTensor or EnQue before"; });
        return r;
    }
    in.fail("bounds", std::string(role) + " lies in no buffer of the unified buffer");
}
inline ascend_sim::UbRange shifted(ascend_sim::UbRange r, int64_t blocks) {
    r.address += static_cast<uint32_t>(blocks * kBlock);
    return r;
}
// Takes the first elements of all source blocks, then the second ones, ... and writes them one behind the other to the
// destination blocks: of 16 bits 16 x 16, of 32 bits 16 x 8. A single repeat begins a stride behind the addresses.
template <typename T>
void turn(const Instruction& in, const std::vector<ascend_sim::UbRange>& dst,
          const std::vector<ascend_sim::UbRange>& src, const TransDataTo5HDParams& p) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "the simulator turns elements of 16 and 32 bits");
    static_assert(!std::is_same_v<T, bfloat16_t>, "TransDataTo5HD does not support this type on 2201");
    in.require(!p.dstHighHalf && !p.srcHighHalf, "field", "high halves are those of 8-bit elements");
    field(in, "repeatTimes", p.repeatTimes, 255);
    field(in, "dstRepStride", p.dstRepStride, 65535), field(in, "srcRepStride", p.srcRepStride, 65535);
    constexpr size_t list = NCHW_CONV_ADDR_LIST_SIZE, each = kBlock / sizeof(T);
    for (int64_t repeat = 0; repeat < p.repeatTimes; ++repeat) {
        const int64_t step = p.repeatTimes == 1 ? 1 : repeat;
        T values[list * each];
        for (size_t i = 0; i < list; ++i) {
            const auto s = shifted(src[i], step * p.srcRepStride);
            in.check(s), in.read(s);
            for (size_t j = 0; j < list; ++j) {
                const auto d = shifted(dst[j], step * p.dstRepStride);
                in.require(d.address + kBlock <= s.address || s.address + kBlock <= d.address, "overlap",
                           [&] { return in.text(d) + " and " + in.text(s) + " overlap"; });
            }
            T block[each];
            std::memcpy(block, in.core().ub.data() + s.address, kBlock);
            for (size_t e = 0; e < each; ++e) values[e * list + i] = block[e];
        }
        for (size_t i = 0; i < list; ++i) {
            const auto d = shifted(dst[i], step * p.dstRepStride);
            in.check(d), in.write(d);
            std::memcpy(in.core().ub.data() + d.address, values + i * each, kBlock);
        }
    }
}
}  // namespace sim

// 16 x 16 elements of 16 bits.
template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, ascend_sim::At at = ascend_sim::At()) {
    static_assert(sizeof(T) == 2, "Transpose moves elements of 16 bits");
    const sim::Instruction in(PIPE_V, "Transpose", at);
    sim::check_operands(in, 256, dst, src);
    T t[256];
    std::memcpy(t, src.data(in.core()), sizeof t);
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) dst.data(in.core())[j * 16 + i] = t[i * 16 + j];
}

// 16 blocks of 32 bytes a repeat, each block at an address of its own.
template <typename T>
void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE], const TransDataTo5HDParams& p,
                    ascend_sim::At at = ascend_sim::At()) {
    const sim::Instruction in(PIPE_V, "TransDataTo5HD", at);
    std::vector<ascend_sim::UbRange> dst, src;
    for (const auto& t : dstList) dst.push_back(t.first(sim::kBlock / sizeof(T), "destination"));
    for (const auto& t : srcList) src.push_back(t.first(sim::kBlock / sizeof(T), "source"));
    sim::turn<T>(in, dst, src, p);
}
template <typename T>
void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE], uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& p, ascend_sim::At at = ascend_sim::At()) {
    const sim::Instruction in(PIPE_V, "TransDataTo5HD", at);
    std::vector<ascend_sim::UbRange> dst, src;
    for (int i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
        dst.push_back(sim::block_at(in, dstList[i], "destination"));
        src.push_back(sim::block_at(in, srcList[i], "source"));
    }
    sim::turn<T>(in, dst, src, p);
}

}  // namespace AscendC
