// Fusion: nodes become one kernel where that takes less time. Every candidate, taken or not, leaves a record.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fuse/time_model.h"
#include "graph/graph.h"

namespace opwright::fuse {

struct Limits {
    int nodes = 48;          // of the graph in one fused program
    int operations = 400;    // scalar operations and loads of one element
    int inputs = 24;
};

struct Options {
    Limits limits;
    std::optional<Machine> machine;    // absent: typical_cpu of one thread
    math::SymValues sizes;             // at which candidates are weighed, as far as they are given; see Fused::sizes
    // Seconds that a program takes at these sizes; nullopt where it cannot be run. Absent: nothing is measured.
    std::function<std::optional<double>(const math::Program&, const math::SymValues&)> measure;
    double measure_seconds = 0;        // budget for close calls
    // Empty where the target has a kernel for the program, else why not. Absent: it has one for every program.
    std::function<std::string(const math::Program&)> refuses;
};

enum class How : uint8_t {
    Apart,        // not taken
    Substituted,  // evaluated where it is wanted
    Repeated,     // evaluated in each of its readers, which are several kernels
    Epilogue,     // the producer reduces; its reader follows it element by element
    Rows,         // equations follow each other at each row, which is read from memory once
};
std::string_view name(How h);  // "apart", "substituted", "repeated", "epilogue", "rows"

// The value `value` of `producer` and its reader `consumer` (names of the model's operators).
struct Decision {
    std::string producer, consumer, value;
    bool taken = false;
    How how = How::Apart;
    math::Sym bytes;         // memory traffic saved, or that taking it would have saved
    std::string reason;      // how it was taken, or why not
    double recompute = 1;    // evaluations of the producer's elements in the fused kernel, over how many there are
    int live = 0;            // values alive at once in the fused body; above `registers` they spill
    int registers = 0;
    // Of the kernels that the candidate concerns, apart and as one; 0 where the candidate was not weighed.
    double predicted_before = 0, predicted_after = 0;
    double measured_before = 0, measured_after = 0;   // seconds; 0: not measured
    std::string account;     // where the two predictions come from, in words
    bool still_delivered = false;  // taken, and the value is written all the same, for other readers
};

struct Fused {
    graph::Graph graph;
    std::vector<Decision> decisions;
    Machine machine;                   // that they were weighed for
    // At which they were weighed: those given, and for others 1 (first dim of an input) or 256.
    math::SymValues sizes;
    std::vector<std::string> assumed;  // symbols of `sizes` that nobody gave
    double measured_seconds = 0;
};

// Expects a normalised graph (cleanup.h). The sources of a fused node are those of its members.
//
// First what is free: backwards from the last node, a producer joins the group of its readers when it is (a) a map that is
// evaluated at most once an element, costs nothing, or is cheap and read at few places: it is substituted; or (b) the group's
// only member with reductions, with every way from it to the group's output element by element: the others become its
// epilogue. A map that costs next to nothing is repeated in each of several groups that read it. Views that only insert,
// remove or split dims count as maps. Then, by a queue in order of predicted gain, a group joins its first reader where
// both together are one nest of loops: rows that are reduced and used again, values that are also delivered. Near-linear in
// nodes and edges; no two groups wait for each other, because a group never moves past another reader of its results.
Fused fuse(graph::Graph g, const Options& options = {});

}  // namespace opwright::fuse
