// What every target offers, and the list of them. A target turns one Program into source text that people can read and
// use without Opwright; where this machine allows, it also builds and runs it.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "math/program.h"
#include "target/device.h"

namespace opwright::target {

struct SourceFile {
    std::string path;  // relative to the folder that the sources go to
    std::string text;
};

struct Emission {
    std::vector<SourceFile> files;   // the kernel's file first
    std::vector<std::string> facts;  // lines for people: schedule, registers, bytes of shared or unified buffer
};

struct EmitOptions {
    std::string schedule;   // of a person, as JSON (schedule::from_json); empty: the target's default
    bool portable = false;  // `schedule` names indices by position, as tuning keeps it (schedule::from_portable)
    std::string arch;       // of the target's compiler, "sm_90a"; empty: the target's default
    math::SymValues sizes;  // at which the test that goes with the source runs
    std::function<void(std::string& source)> edit;  // of the kernel's source before build(): a fault planted by a test
};

// One built kernel. Tensors lie in the host's memory; outputs have their types and shapes already.
class Runnable {
public:
    virtual ~Runnable() = default;
    virtual Status run(const math::SymValues& sizes, const std::vector<Tensor>& inputs,
                       std::vector<Tensor>& outputs) = 0;
    // Seconds of one run of the kernel alone, the least of several, without copies between host and device. Error: why
    // a time would say nothing (a simulator, an interpreter).
    virtual Result<double> seconds(const math::SymValues& sizes, const std::vector<Tensor>& inputs,
                                   std::vector<Tensor>& outputs) = 0;
};
// seconds() of a kernel whose run() does nothing else: by the clock, within about `budget` seconds.
Result<double> clocked(Runnable& kernel, const math::SymValues& sizes, const std::vector<Tensor>& inputs,
                       std::vector<Tensor>& outputs, double budget = 0.5);

class Target {
public:
    virtual ~Target() = default;
    virtual std::string_view name() const = 0;   // "cuda"
    virtual std::string_view about() const = 0;  // one line for people
    // Extents of `p` are expressions over p.symbols(). Errors: what of p this target has no form for, and why.
    virtual Result<Emission> emit(const math::Program& p, const EmitOptions& o) const = 0;
    // For `explain`: "schedule", "schedule-json" or "tile", as emit() has them. A target whose tuned schedules serve
    // compilation knows "schedule-portable" too.
    virtual Result<std::string> level(const math::Program& p, const std::string& level, const EmitOptions& o) const = 0;
    // Why kernels can't run here, as a sentence; empty where they can.
    virtual std::string cannot_run() const = 0;
    // Bytes and 32-bit operations per second that the chip can do at most, measured; zeros: those of this processor.
    struct Ceilings {
        double bandwidth = 0, flops = 0;
    };
    virtual Ceilings ceilings() const { return {}; }
    // The processor that kernels run on, where it has memory of its own and the run time drives it; null: kernels work
    // on the host's memory, see build(). Error: as cannot_run().
    virtual Result<device::Device*> device() const { return nullptr; }
    // Where kernels run when they do: "this processor", "the functional simulator", "NVIDIA H200".
    virtual std::string runs_on() const = 0;
    // Errors: those of emit(); "not run: ..." for what this machine can't run although it can be emitted.
    virtual Result<std::unique_ptr<Runnable>> build(const math::Program& p, const EmitOptions& o) const = 0;
};

// All targets that emit source text, in the order in which they are listed to people.
std::span<const Target* const> targets();
// Error: no target of this name, with the names there are.
Result<const Target*> find_target(std::string_view name);

}  // namespace opwright::target
