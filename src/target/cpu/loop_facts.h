// How the innermost loops of a scheduled kernel run over memory, at given sizes: evidence for profiles.
#pragma once
#include <vector>

#include "schedule/schedule.h"
#include "target/cpu/cpu.h"

namespace opwright::target::cpu {

// One entry an equation of each nest that is no contraction; those bring their factors into panels first.
std::vector<LoopFacts> loop_facts(const schedule::Kernel& k, const schedule::Schedule& s, const target::Machine& m,
                                  const math::SymValues& sizes);

}  // namespace opwright::target::cpu
