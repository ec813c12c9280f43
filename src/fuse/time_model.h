// What a kernel takes, predicted: launch, bytes by memory level, arithmetic by class, live registers. The planner weighs
// fusions by it, for every target.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "math/program.h"

namespace opwright::fuse {

// A processor as the model sees it. Rates are of all units together.
struct Machine {
    std::string name;               // "NVIDIA H200", "2 threads with AVX-512"
    std::string origin;             // where the figures are from: "measured 2026-01-31 12:00:00 UTC", "typical figures: ..."
    int units = 1;                  // that run tasks side by side: threads, multiprocessors
    double launch = 2e-6;           // seconds to start a kernel
    struct Level {
        double bytes = 0;           // operands up to here ...
        double bandwidth = 0;       // ... come and go at so many bytes a second
    };
    std::vector<Level> levels;      // in rising order; the last one is memory
    double line = 64;               // bytes that move where one is wanted
    double simple = 0;              // additions, comparisons, ... a second
    double multiply_add = 0;        // operations (two each) a second of a sum of products in register tiles
    double divide = 0, special = 0; // divisions and roots; exp, tanh, ... a second
    int registers = 32;             // values of a task's body that are at hand at once
    int lanes = 1;                  // points that one register holds
    double task_bytes = 1 << 20;    // of fast memory that one task has to itself
    bool together = false;          // nests that share their rows run together (schedule/together.h)
    double reuse = 256;             // results of a product that one evaluation of a factor serves

    double bandwidth(double bytes) const;   // of an operand of that size
};
// Typical figures for a processor with `units` threads and vector registers of that kind, where nothing was measured.
Machine typical_cpu(int units, int vector_bytes, int vector_registers);

// One tensor in memory that a kernel reads or writes.
struct Operand {
    double bytes = 0;               // its distinct elements that are touched
    double touched = 0;             // with every re-reading, as far as it reaches beyond the fast memory of a task
    double useful = 1;              // of each line that moves: 1 where neighbours in memory are wanted together
};
struct Work {
    std::vector<Operand> operands;
    double simple = 0, multiply_add = 0, divide = 0, special = 0;  // evaluations, each as often as it is repeated
    double tasks = 1;               // points that can be worked on side by side
    double body = 0;                // evaluations of the largest body, for what spilled registers cost
    int live = 1;                   // values of it that are alive at once
    double inner = 0;               // bytes to and from temporaries that stay in a task's fast memory
    int launches = 1;               // passes over all units, one after the other
};

// Seconds, and where they come from. Memory and arithmetic overlap but for a fifth of the lesser.
struct Estimate {
    double seconds = 0;
    double launch = 0, memory = 0, arithmetic = 0, spills = 0;
};
Estimate estimate(const Machine& m, const Work& w);
// "launch 2 us + memory 310 us (12.3 MB) | arithmetic 80 us (2.1 M exp-like, ...)": how the figure comes about.
std::string print(const Estimate& e, const Work& w);

// ---- from programs, at sizes

// How a program, a node of a graph, uses its machine at certain sizes, input by input, so that the work of a group can
// be put together from that of its members.
struct ProgramWork {
    struct Input {
        double bytes = 0, touched = 0, useful = 1;
        double wanted = 0;          // evaluations of its elements: points of the loops around each place of reading
        double elements = 0;        // of the whole tensor
    };
    std::vector<Input> inputs;
    struct Output {
        double bytes = 0, useful = 1;
    };
    std::vector<Output> outputs;    // and temporaries that pass through memory, last
    double simple = 0, multiply_add = 0, divide = 0, special = 0;
    double tasks = 1, points = 1;
    int live = 1;
    double inner = 0;
    int nests = 1;                  // loop nests that follow each other, each a pass over all units
    bool contracts = false;         // multiply_add is of a contraction in register tiles
    bool together = false;          // some of its nests run together; `nests` counts them as one
};
// `together`: see Machine.
ProgramWork program_work(const math::Program& p, const math::SymValues& sizes, bool together = false);
// A kernel of this program alone.
Work alone(const ProgramWork& p);

// Values of an expression's evaluation that are alive at once, when each part is evaluated the largest first.
int live_values(const math::Program& p, math::ExprId root);

}  // namespace opwright::fuse
