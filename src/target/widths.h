// The widths of kernels: of their vectors, tiles and blocks. Sizes to check them at lie around these.
#pragma once
#include <cstdint>
#include <vector>

#include "target/cpu/cpu.h"
#include "target/target.h"

namespace opwright::target {

// Of what target cpu compiles `p` to, which is localised; empty for options that it would refuse.
std::vector<int64_t> cpu_widths(const math::Program& p, const cpu::Options& o);
// Of what `t` builds: from its schedule, or from the launch parameters of its kernels. Empty where neither names any.
std::vector<int64_t> widths(const Target& t, const math::Program& p, const EmitOptions& o);

}  // namespace opwright::target
