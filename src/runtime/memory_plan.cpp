#include "runtime/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace opwright::runtime {

MemoryPlan plan_memory(std::span<const Lifetime> buffers, int64_t alignment) {
    const auto rounded = [alignment](int64_t b) { return (b + alignment - 1) / alignment * alignment; };
    MemoryPlan r;
    r.offsets.assign(buffers.size(), 0);
    std::vector<size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });

    std::vector<size_t> placed;  // by offset
    for (size_t i : order) {
        const Lifetime& b = buffers[i];
        int64_t at = 0;
        for (size_t j : placed) {
            const Lifetime& o = buffers[j];
            if (o.last < b.first || b.last < o.first) continue;
            if (r.offsets[j] >= at + rounded(b.bytes)) break;  // the gap before j is wide enough
            at = std::max(at, r.offsets[j] + rounded(o.bytes));
        }
        r.offsets[i] = at;
        r.bytes = std::max(r.bytes, at + rounded(b.bytes));
        placed.insert(std::upper_bound(placed.begin(), placed.end(), at, [&](int64_t v, size_t j) { return v < r.offsets[j]; }), i);
    }

    std::vector<std::pair<int, int64_t>> changes;
    for (const Lifetime& b : buffers) {
        changes.emplace_back(b.first, rounded(b.bytes));
        changes.emplace_back(b.last + 1, -rounded(b.bytes));
    }
    std::sort(changes.begin(), changes.end());
    int64_t alive = 0;
    for (auto& [step, delta] : changes) r.lower_bound = std::max(r.lower_bound, alive += delta);
    return r;
}

}  // namespace opwright::runtime
