// How long a nest takes, for the decision whether threads share it.
#pragma once
#include "schedule/schedule.h"

namespace opwright::target::cpu {

// Picoseconds on one thread, roughly, where the nest's data are in the caches: operations and bytes of its equations at
// all their points, those of reductions included.
math::Sym work_of(const math::Program& p, const schedule::Nest& nest, const schedule::NestPlan& plan);

}  // namespace opwright::target::cpu
