// GlobalTensor and LocalTensor.
#pragma once
#include "instruction.h"

namespace AscendC {

template <typename T>
class GlobalTensor {
public:
    using PrimType = T;
    void SetGlobalBuffer(__gm__ T* p, uint64_t size = ~uint64_t{0}) {
        data_ = p;
        size_ = size;
    }
    GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor r = *this;
        r.data_ += offset;
        r.size_ = size_ == ~uint64_t{0} ? size_ : size_ - std::min(size_, offset);
        return r;
    }
    T GetValue(uint64_t offset, ascend_sim::At at = ascend_sim::At()) const {
        const ascend_sim::Instruction in(PIPE_S, "GetValue", at);
        in.require(offset < size_, "gm_bounds", [&] {
            return "element " + std::to_string(offset) + " of a GlobalTensor of " + std::to_string(size_) + " elements";
        });
        in.read_global(data_ + offset, sizeof(T), "source");
        in.global(data_ + offset, sizeof(T), "source");
        return load(data_ + offset);
    }
    // Through the data cache: kernels must write it back with DataCacheCleanAndInvalid.
    void SetValue(uint64_t offset, T value, ascend_sim::At at = ascend_sim::At()) const {
        const ascend_sim::Instruction in(PIPE_S, "SetValue", at);
        in.require(offset < size_, "gm_bounds", [&] {
            return "element " + std::to_string(offset) + " of a GlobalTensor of " + std::to_string(size_) + " elements";
        });
        in.write_global(data_ + offset, sizeof(T), "destination");
        in.core().dirty_cache = true;
        std::memcpy(data_ + offset, &value, sizeof(T));
    }
    __gm__ T* GetPhyAddr(uint64_t offset = 0) const { return data_ + offset; }
    uint64_t GetSize() const { return size_; }
    static T load(const T* p) {  // tensors are aligned to their element at best
        T v;
        std::memcpy(&v, p, sizeof(T));
        return v;
    }

private:
    T* data_ = nullptr;
    uint64_t size_ = 0;
};

template <typename T>
class LocalTensor {
public:
    using PrimType = T;
    LocalTensor() = default;
    LocalTensor(const ascend_sim::Buffer* b, uint32_t address, uint32_t bytes)
        : buffer_(b), address_(address), bytes_(bytes), generation_(b->generation) {}

    LocalTensor operator[](uint32_t offset) const {
        LocalTensor r = *this;
        const uint64_t skip = uint64_t{offset} * sizeof(T);
        r.address_ += static_cast<uint32_t>(skip);
        r.bytes_ = skip < bytes_ ? bytes_ - static_cast<uint32_t>(skip) : 0;
        return r;
    }
    template <typename U>
    LocalTensor<U> ReinterpretCast() const {
        LocalTensor<U> r;
        r.buffer_ = buffer_;
        r.address_ = address_;
        r.bytes_ = bytes_;
        r.generation_ = generation_;
        return r;
    }
    uint32_t GetSize() const { return bytes_ / sizeof(T); }
    T* GetPhyAddr(uint32_t offset = 0) const { return data(*ascend_sim::g_core) + offset; }

    T GetValue(uint32_t index, ascend_sim::At at = ascend_sim::At()) const {
        const ascend_sim::Instruction in(PIPE_S, "GetValue", at);
        const auto r = range(index, "source");
        in.check(r, sizeof(T));
        in.require(uint64_t{index} * sizeof(T) + sizeof(T) <= bytes_, "bounds",
                   [&] { return in.text(r) + " leaves its tensor"; });
        in.read(r);
        return element(in.core(), index);
    }
    void SetValue(uint32_t index, T value, ascend_sim::At at = ascend_sim::At()) const {
        const ascend_sim::Instruction in(PIPE_S, "SetValue", at);
        const auto r = range(index, "destination");
        in.check(r, sizeof(T));
        in.require(uint64_t{index} * sizeof(T) + sizeof(T) <= bytes_, "bounds",
                   [&] { return in.text(r) + " leaves its tensor"; });
        in.write(r);
        std::memcpy(in.core().ub.data() + r.address, &value, sizeof(T));
    }

    // ---- for the instructions of the simulator
    ascend_sim::UbRange range(uint64_t from, uint64_t count, const char* role) const {
        return {address_ + static_cast<uint32_t>(from * sizeof(T)), static_cast<uint32_t>(count * sizeof(T)), buffer_,
                generation_, role};
    }
    ascend_sim::UbRange first(uint64_t count, const char* role) const { return range(0, count, role); }
    T* data(ascend_sim::Core& c) const { return reinterpret_cast<T*>(c.ub.data() + address_); }
    uint32_t bytes() const { return bytes_; }
    const ascend_sim::Buffer* buffer() const { return buffer_; }
    uint32_t generation() const { return generation_; }

private:
    template <typename U>
    friend class LocalTensor;
    ascend_sim::UbRange range(uint32_t index, const char* role) const { return range(index, 1, role); }
    T element(ascend_sim::Core& c, uint32_t index) const {
        T v;
        std::memcpy(&v, c.ub.data() + address_ + uint64_t{index} * sizeof(T), sizeof(T));
        return v;
    }

    const ascend_sim::Buffer* buffer_ = nullptr;
    uint32_t address_ = 0, bytes_ = 0, generation_ = 0;
};

}  // namespace AscendC
