// L3: the schedule of a kernel. One value that says how each nest is tiled, vectorised and staged; tile/apply turns it
// into a tile program or says which limit it breaks.
#pragma once
#include <string>
#include <vector>

#include "schedule/kernel.h"
#include "target/machine.h"

namespace opwright::schedule {

// How one equation runs inside its nest.
struct EquationPlan {
    math::VarId lane = math::kNone;  // the variable along vector lanes; kNone: scalar code
    bool lane_reduces = false;       // lane is a reduction variable: lanes hold partial results, folded at the end
    int lanes = 1;
    int unroll = 1;           // vectors side by side along the lane variable
    bool lane_first = false;  // the lane loop runs outside the serial ones: for blocks of a transposed read
};

// Packed contraction: register tile mr x (nv * lanes), cache tile mt x nt, depth kc.
struct ContractPlan {
    int mr = 0, nv = 0, lanes = 1;
    int64_t kc = 0, mt = 0, nt = 0;
};

struct NestPlan {
    std::vector<int64_t> grid_tile;       // per grid variable: points of one task (1, or a chunk of the innermost)
    std::vector<EquationPlan> equations;  // per equation of the nest; unused for a contraction
    ContractPlan contract;
};

struct Schedule {
    std::vector<NestPlan> nests;  // per nest of the kernel
    std::string summary;          // one line for people
};

// The untuned schedule for a CPU: always legal.
Schedule default_cpu_schedule(const Kernel& k, const target::Machine& m);
std::string print(const Schedule& s, const Kernel& k);

}  // namespace opwright::schedule
