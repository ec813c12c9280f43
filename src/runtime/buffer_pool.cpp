#include "runtime/buffer_pool.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace opwright::runtime {
namespace {
constexpr size_t kPooled = size_t{1} << 14;  // smaller blocks are the allocator's own business
}

struct BufferPool::Free {
    explicit Free(size_t k) : keep(k) {}
    ~Free() {
        for (auto& [bytes, p] : blocks) std::free(p);
    }
    std::mutex mutex;
    std::multimap<size_t, void*> blocks;
    size_t held = 0, keep;
};

BufferPool::BufferPool(size_t keep) : free_(std::make_shared<Free>(keep)) {}

std::shared_ptr<void> BufferPool::take(size_t wanted) {
    size_t bytes = (wanted + 63) / 64 * 64;
    if (bytes < 64) bytes = 64;
    const bool pooled = bytes >= kPooled;
    void* p = nullptr;
    if (pooled) {
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
    if (!pooled) return {p, [](void* q) { std::free(q); }};
    return {p, [bytes, pool = free_](void* q) {
                const std::lock_guard lock(pool->mutex);
                if (pool->held + bytes > pool->keep) return std::free(q);
                pool->blocks.emplace(bytes, q);
                pool->held += bytes;
            }};
}

}  // namespace opwright::runtime
