// Places of buffers in one arena.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace opwright::runtime {

// A buffer that is alive from step `first` to step `last`, both included.
struct Lifetime {
    int64_t bytes = 0;
    int first = 0, last = 0;
};
struct MemoryPlan {
    std::vector<int64_t> offsets;  // multiples of the alignment, in the order of the lifetimes
    int64_t bytes = 0;             // of the whole arena
    int64_t lower_bound = 0;       // the most that is alive at any one step: no plan is smaller
};
// Greedy by size, largest first, each at the lowest place that is free throughout its life (Pisarchyk and Lee,
// "Efficient memory management for deep neural net inference", 2020).
MemoryPlan plan_memory(std::span<const Lifetime> buffers, int64_t alignment = 64);

}  // namespace opwright::runtime
