#include "runtime/buffer_pool.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

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

constexpr size_t kHugePage = size_t{2} << 20;

size_t small_class(size_t bytes) { return static_cast<size_t>(std::countr_zero(bytes / kSmallest)); }

// Large blocks ask the system for pages of 2 MB: where it gives them only on request, a map that streamed past the caches spent a
// third of its time looking up pages of 4 KB.
void* fresh(size_t bytes) {
    void* p = nullptr;
    if (posix_memalign(&p, bytes < kHugePage ? 64 : kHugePage, bytes) != 0) return nullptr;
#if defined(__linux__)
    if (bytes >= kHugePage) madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish: what it answers does not matter
#endif
    return p;
}
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
    if (!p) p = fresh(bytes);
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
