// What the fusion planner is told of the processor that a graph is compiled for.
#pragma once
#include "compile.h"
#include "explain/machine.h"

namespace opwright {

// o.fusion with what it leaves open: the machine (this processor as it was measured last, else typical figures; all its
// processors, so that the number of threads of a run changes no result), what a target refuses, and, where a budget is
// given, how close calls are measured.
fuse::Options plan_fusion(const CompileOptions& o, runtime::ThreadPool& pool);

// The planner's view of a machine that was measured.
fuse::Machine planning_machine(const explain::Machine& m);

}  // namespace opwright
