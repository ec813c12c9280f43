// One program under several schedules: the untuned one, and those that won at some sizes.
#pragma once
#include <string>
#include <vector>

#include "target/cpu/cpu.h"
#include "target/tuned.h"

namespace opwright::target::cpu {

struct Variant {
    std::vector<int64_t> sizes;  // at which it was measured; of the first, the untuned one: empty
    KernelRef kernel;
    double gain = 1;
    std::string measured_at;
};
// A kernel that runs, at each size, the variant that was measured nearest to it, within `reach`; otherwise the first.
// Several variants may be the same kernel. Where all extents are numbers there may be one variant alone.
KernelRef with_variants(std::vector<Variant> variants, double reach);

}  // namespace opwright::target::cpu
