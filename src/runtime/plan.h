// What an executable needs for one tuple of input shapes: extents, places in memory, arguments of kernels.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/memory_plan.h"
#include "runtime/sym_table.h"
#include "target/cpu/cpu.h"

namespace opwright::runtime {

// A node that runs at run time.
struct Step {
    graph::NodeId node = graph::kNone;
    target::cpu::Kernel* kernel = nullptr;
    std::vector<uint32_t> symbols;       // slots of the symbol table, in the kernel's order
};

// Where a value's elements are.
struct Place {
    enum Kind : uint8_t { Nowhere, Input, Constant, Arena, Output } kind = Nowhere;
    int64_t index = 0;                   // of the input or output, or the offset in the arena
};

// Pointers of one run at a time; taken from the plan and given back.
struct Context {
    std::shared_ptr<void> arena;
    std::vector<void*> operands;         // of all steps, one after the other
};

struct Plan {
    math::SymValues symbols;             // of the graph
    std::vector<Shape> shapes;           // by value; empty for values without a place
    std::vector<Place> places;           // by value; of a view: of the value it looks at
    std::vector<Tensor> made;            // by value: constants that depend on the shapes (contents of shape arithmetic)
    struct Launch {
        target::cpu::Kernel* kernel;
        uint32_t inputs, input_count, outputs, output_count;  // positions in Context::operands
        uint32_t symbols, symbol_count;
        int64_t workspace;               // offset in the arena
        graph::NodeId node;
    };
    std::vector<Launch> launches;
    std::vector<int64_t> arguments;      // symbol values of all launches
    struct Patch { uint32_t operand; uint32_t index; bool output; };
    std::vector<Patch> patches;          // operands that are the run's own inputs and outputs
    struct Copy { uint32_t output; graph::ValueId from; };
    std::vector<Copy> copies;            // outputs that are inputs, constants or listed twice
    MemoryPlan memory;

    // Contexts not in use.
    std::mutex mutex;
    std::vector<std::unique_ptr<Context>> contexts;
};

// `slots[v]` are the symbol table's slots of value v's extents.
struct PlanInput {
    const graph::Graph& graph;
    const std::vector<Step>& steps;
    const SymTable& table;
    const std::vector<std::vector<uint32_t>>& slots;
    int64_t alignment = 64;              // of places in the arena
};
// Errors: an extent that is negative or overflows, a requirement of the graph or of an operator that does not hold, a
// view of another number of elements (operator, tensor, sizes named).
Result<std::shared_ptr<Plan>> make_plan(const PlanInput& in, const math::SymValues& symbols);

// The message with a note that names the operator behind the node.
Diagnostic in_operator(Diagnostic d, const graph::Node& n);

}  // namespace opwright::runtime
