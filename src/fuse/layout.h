// Layouts: values that pass between kernels have their channels last where that makes the kernels around them faster.
#pragma once
#include <string>
#include <vector>

#include "fuse/time_model.h"
#include "graph/graph.h"

namespace opwright::fuse {

// Values that kernels hand to each other, directly or over others of the region: [n, c, h, w] with windows on h and w.
struct LayoutRegion {
    std::vector<std::string> values;   // all of them, by name
    std::vector<std::string> changed;  // those that are [n, h, w, c] now
    double before = 0, after = 0;      // predicted seconds of the kernels that read or write them; after: as changed
    // Kernels that read one layout and write the other, and what that adds to their time.
    struct Conversion {
        std::string node;
        double seconds = 0;
    };
    std::vector<Conversion> conversions;
    std::string reason;  // what was chosen, and why
};

struct Laid {
    graph::Graph graph;
    std::vector<LayoutRegion> regions;
};

// Chooses the layout of every value of four dims that only kernels read and that lies in a region with windows; inputs,
// outputs, and what views read keep the model's. A kernel is its equations over whatever layout its tensors have, so that
// none is needed to convert: where layouts meet, the kernel there reads one and writes the other. `machine` and `sizes` are those that fusion was weighed with.
Laid choose_layouts(graph::Graph g, const Machine& machine, const math::SymValues& sizes);

// Seconds of a kernel by itself as layouts are weighed: the time model's, with what lanes and tiles compute in vain.
double kernel_seconds(const math::Program& p, const Machine& machine, const math::SymValues& sizes);

}  // namespace opwright::fuse
