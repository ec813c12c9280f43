// Where the time of a model or an operator goes, held against what this machine can do.
#pragma once
#include <algorithm>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compile.h"
#include "explain/machine.h"

namespace opwright::explain {

enum class Bound : uint8_t { Launch, Memory, Arithmetic };
std::string_view name(Bound b);  // "launch", "memory", "arithmetic"

// What is known of a row besides its floors: measured, counted or computed for its actual sizes.
struct Evidence {
    std::vector<target::cpu::StageFacts> stages;
    std::vector<target::cpu::LoopFacts> loops;
    bool conversion = false;                 // moves every element of one tensor to the place of another layout
    struct Function {
        std::string name;
        double count = 0, seconds = 0;       // seconds one evaluation takes on one thread, measured apart
    };
    std::vector<Function> functions;
    double read = 0, subnormal = 0;          // elements of float inputs read as they are (not packed), and how many are subnormal
    double one_thread = 0;                   // seconds on one thread (least of the measured runs); 0: not measured
    std::vector<target::device::LaunchFacts> launches;  // on a device
};

// A share of a row's time that has a cause, or has none that is known.
enum class Cause : uint8_t { Start, Memory, Arithmetic, Padding, Functions, Packing, Subnormals, Threads, Strides, Scalar, Conversion, Fusion, Unknown };
std::string_view name(Cause c);  // "start", "memory", ..., "strides", "no vectors", "layout conversion", "fusion", "not explained"
struct Part {
    Cause cause;
    double seconds = 0;
};
// What could be done about a row, and the seconds that it would gain at most.
struct Change {
    Cause cause;
    double seconds = 0;
    std::string what;                        // no sentence: "larger inputs (a batch), which use the start better"
};

// One kernel: an operator of the model, or several that were fused. Times in seconds, sizes in bytes.
struct Row {
    graph::NodeId node = graph::kNone;       // of the executable's graph
    std::string name;                        // of its last source operator
    std::string type;                        // "Conv+Add+Relu"
    std::vector<graph::SourceOp> sources;
    std::string shapes;                      // "f32[1, 16, 320, 320] -> f32[1, 16, 160, 160]"
    double seconds = 0, min_seconds = 0;     // median and minimum of the measured runs
    double share = 0;                        // of the sum over rows, by their least times
    double simple = 0, divide = 0, special = 0;
    double bytes = 0;                        // compulsory: each distinct element once
    double floor_launch = 0, floor_memory = 0, floor_arithmetic = 0;
    double peak = 0;                         // operations per second that its floor holds it against
    bool contraction = false;
    double terms = 0;                        // of the longest sum, where it reduces
    double results = 0;                      // elements of the outputs
    std::string schedule;                    // how the kernel is scheduled, in words
    Evidence evidence;
    std::vector<Part> parts;                 // of min_seconds, which they add up to
    std::vector<Change> changes;             // the one that gains most first
    std::string advice;                      // why it takes its time, and what to do next

    double flops() const { return simple + divide + special; }
    double intensity() const { return bytes > 0 ? flops() / bytes : 0; }
    double floor() const;
    Bound bound() const;                     // the largest of the three floors
    double loss() const { return std::max(0.0, min_seconds - floor()); }
    std::string_view mostly() const;         // the largest part that has a cause; without parts, what binds
    double of_floor() const { return min_seconds > 0 ? floor() / min_seconds : 0; }  // 1 = as fast as the floor allows
};

// A candidate for fusion at these sizes: what the planner knew (its times hold for the sizes that it was given), and
// the bytes for those of the run.
struct Candidate {
    std::string producer, consumer, value, reason;
    bool taken = false;
    double bytes = 0;                        // memory traffic saved, or that taking it would have saved
    fuse::Decision decision;
    // Of the two kernels that hold its operators, where there are two: the lesser time, which is all that one of them can go
    // without, and the lesser start. Infinite and 0: not known.
    double least = std::numeric_limits<double>::infinity(), start = 0;
};

struct Profile {
    std::string name;
    double seconds = 0, min_seconds = 0;     // of a whole warm run: median and minimum
    double interruptions = 0;                // times a whole run that the system took a processor away
    std::optional<runtime::DeviceTiming> device;  // where the kernels run on one; `seconds` is then its time alone
    double launch_gaps() const;              // of min_seconds, in which the device waits between kernels
    double replay_gaps() const;              // the same of a run replayed as one graph
    std::vector<Row> rows;                   // in order of execution
    Machine machine;
    double call_seconds = 0;                 // of calling the smallest kernel, which every kernel costs at least
    int threads = 1, warmup = 0, repeats = 0;
    int processors = 1;                      // that this process may use
    runtime::Executable::Memory memory;
    math::SymValues symbols;                 // of the graph, at the sizes of the inputs
    std::vector<Candidate> candidates;
    double fused_bytes = 0;                  // traffic that the fusions taken save, at these sizes
    size_t fused = 0, source_operators = 0;
};

struct ProfileOptions {
    int warmup = 3, repeats = 10;
    bool one_thread = true;                  // with several threads, also measures on one: tells what the others gain
};
// Runs the executable on these inputs (in its graph's order) and holds each kernel against the machine's ceilings.
Result<Profile> profile(const Compiled& c, std::span<const Tensor> inputs, const Machine& machine, runtime::ThreadPool& pool,
                        const ProfileOptions& o = {});

// Rows that are alike in operators, shapes and schedule, as the layers of a model are: the costliest of each first, and those that
// lose most, all together, first.
std::vector<std::vector<size_t>> alike(const Profile& p);

// Fits 100 columns; the rows in order of cost, at most `limit` of them (0 = all), and what can be done about those that lose most.
std::string to_text(const Profile& p, size_t limit = 25);
// {"total_ms", "min_ms", "threads", ..., "operators": [{"name", "type", "ms", "share", "flops", "bytes", "intensity", "bound",
//  "of_floor", ...}], "fusion": [...]}
nlohmann::json to_json(const Profile& p);

// Splits a row's least time by what its evidence accounts for; what is left is Cause::Unknown.
std::vector<Part> attribute(const Row& r, const Profile& p);

// What could be done about a row with parts: each part that could go away, and the fusion that was refused.
std::vector<Change> changes(const Row& r, const Profile& p);
// The same for a kernel on a device, from its launches.
std::vector<Change> changes_on_device(const Row& r, const Profile& p);

// Plain sentences: where this row's time goes, by its parts, what to do next, and what that would gain at most.
std::string advise(const Row& r, const Profile& p);
// The same for a kernel on a device: launch, waves, occupancy and spills in place of threads and tiles.
std::string advise_on_device(const Row& r, const Profile& p);
// The fusion that this row took part in, was refused though not predicted slower, and would have saved most; nullptr: none.
const Candidate* refused(const Row& r, const Profile& p);
// Seconds that its traffic costs, and the start of the kernel that would not be; no more than the lesser kernel takes.
double fusion_gain(const Candidate& c, const Profile& p);
// "fusing A into B would save 3 MB, about 20 us, but ..."; empty where nothing was refused that would save traffic.
std::string fusion_hint(const Row& r, const Profile& p);

}  // namespace opwright::explain
