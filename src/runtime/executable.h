// A graph with its kernels: everything that can be done before the sizes are known is done here, once.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "target/cpu/cpu.h"
#include "target/device.h"

namespace opwright::target {
class Target;
}

namespace opwright::runtime {

enum class Engine : uint8_t { Cpu, Reference };

struct ExecutableOptions {
    Engine engine = Engine::Cpu;
    target::cpu::Options cpu;
    const target::Target* target = nullptr;  // runs the kernels in place of the engine
    bool fallback = false;          // kernels that `target` has no form for run on the cpu, see Executable::fallbacks()
    bool keep_text = false;         // of the levels below the graph, for text()
};

// Times of one node over the measured runs, in seconds.
struct StepTime {
    graph::NodeId node = graph::kNone;
    double min = 0, median = 0;
    std::vector<int64_t> symbols;   // values that its kernel is called with
    std::vector<target::device::LaunchFacts> launches;  // on a device
};
// Of an executable whose kernels run on a device. Its steps are timed by events around one and around several launches of
// each, queued before the first starts: the difference is free of the events and of the host.
struct DeviceTiming {
    double kernels = 0;             // the sum of the steps' least times
    double replay_min = 0, replay_median = 0;  // of all launches as one graph; 0: see no_replay
    std::string no_replay;
    double upload = 0, download = 0;  // of inputs and outputs, by the host's clock; the least
    // A few whole runs, step by step: seconds since the run's first event at which the step's kernels had ended on the
    // device, and, by the host's clock, at which the host had handed them over.
    struct Run {
        std::vector<double> ended, issued;
    };
    std::vector<Run> runs;
};
struct Timing {
    // Of whole runs, measured without looking at the nodes. On a device: from the start of the first kernel to the end of
    // the last one, by events.
    double min = 0, median = 0;
    double interruptions = 0;       // times a whole run that the system took a processor away, on average
    std::vector<StepTime> steps;    // in order of execution; nodes that need no work at run time are not listed
    std::optional<DeviceTiming> device;
};

class Executable {
public:
    // Compiles all nodes at once, runs those that depend on constants alone, and packs constants.
    // Errors: a kernel that cannot be compiled, naming the model's operator.
    static Result<std::shared_ptr<const Executable>> build(graph::Graph g, const ExecutableOptions& o, ThreadPool& pool);
    ~Executable();

    // Inputs in the graph's order. Any number of threads may call it. What depends on the shapes alone is worked out at
    // their first use and kept for the last few shapes. Errors: number, element type, rank or extents of inputs; a
    // requirement that does not hold; an index that is data and lies outside its tensor.
    Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, ThreadPool& pool) const;

    // As run(), and tells `seen` of each node after it ran, with its inputs and outputs where they lie: valid until it
    // returns. An error that `seen` returns ends the run.
    using Observer = std::function<Status(graph::NodeId, std::span<const Tensor> inputs, std::span<const Tensor> outputs)>;
    Result<std::vector<Tensor>> trace(std::span<const Tensor> inputs, ThreadPool& pool, const Observer& seen) const;

    // Runs warm-up and measured runs, the latter once as a whole and once node by node.
    Result<Timing> measure(std::span<const Tensor> inputs, ThreadPool& pool, int warmup, int repeats) const;

    const graph::Graph& graph() const;
    // Values of the graph's symbols for inputs of these shapes. Errors as for run().
    Result<math::SymValues> bind(std::span<const Shape> shapes) const;
    // Bytes of the arena for intermediate results at these shapes, and the least that any plan could do with.
    struct Memory { int64_t arena = 0, lower_bound = 0, constants = 0; };
    Result<Memory> memory(std::span<const Shape> shapes) const;

    // Kernels that run on the cpu because the target refused them: the target's reason.
    struct Fallback {
        graph::NodeId node = graph::kNone;
        std::string reason;
    };
    const std::vector<Fallback>& fallbacks() const;

    // Nodes that run at run time, in order, with the values that their kernels are called with at these shapes. Errors as
    // for run().
    struct StepSizes {
        graph::NodeId node = graph::kNone;
        std::vector<int64_t> symbols;
    };
    Result<std::vector<StepSizes>> sizes(std::span<const Shape> shapes) const;

    // Of a Compute node; nullptr for views and nodes evaluated beforehand.
    const target::cpu::Kernel* kernel(graph::NodeId n) const;

private:
    struct Impl;
    explicit Executable(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace opwright::runtime
