#include "runtime/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace opwright::runtime {
namespace {
constexpr size_t kPooled = size_t{1} << 14;  // smaller blocks come in powers of two, and a few of each are kept
constexpr size_t kSmallest = 64, kFew = 16;

size_t small_class(size_t bytes) { return static_cast<size_t>(std::countr_zero(bytes / kSmallest)); }
}  // namespace

struct BufferPool::Free {
    explicit Free(size_t k) : keep(k) {}
    ~Free() {
        for (auto& [bytes, p] : blocks) std::free(p);
        for (const auto& same : small)
            for (void* p : same) std::free(p);
    }
    std::mutex mutex;
    std::vector<void*> small[8];  // of 64 bytes, 128, ... 8192
    std::multimap<size_t, void*> blocks;
    size_t held = 0, keep;
};

BufferPool::BufferPool(size_t keep) : free_(std::make_shared<Free>(keep)) {}

std::shared_ptr<void> BufferPool::take(size_t wanted) {
    size_t bytes = std::max(kSmallest, (wanted + 63) / 64 * 64);
    const bool pooled = std::bit_ceil(bytes) >= kPooled;
    void* p = nullptr;
    if (!pooled) {
        bytes = std::bit_ceil(bytes);
        const std::lock_guard lock(free_->mutex);
        if (auto& same = free_->small[small_class(bytes)]; !same.empty()) {
            p = same.back();
            same.pop_back();
        }
    } else {
        // A block up to a quarter larger will do.
        const std::lock_guard lock(free_->mutex);
        if (auto it = free_->blocks.lower_bound(bytes); it != free_->blocks.end() && it->first <= bytes + bytes / 4) {
            bytes = it->first;
            p = it->second;
            free_->held -= bytes;
            free_->blocks.erase(it);
        }
    }
    if (!p) p = std::aligned_alloc(64, bytes);
    if (!p) throw std::bad_alloc();
    if (!pooled)
        return {p, [bytes, pool = free_](void* q) {
                    const std::lock_guard lock(pool->mutex);
                    auto& same = pool->small[small_class(bytes)];
                    if (same.size() >= kFew) return std::free(q);
                    same.push_back(q);
                }};
    return {p, [bytes, pool = free_](void* q) {
                const std::lock_guard lock(pool->mutex);
                if (pool->held + bytes > pool->keep) return std::free(q);
                pool->blocks.emplace(bytes, q);
                pool->held += bytes;
            }};
}

}  // namespace opwright::runtime
