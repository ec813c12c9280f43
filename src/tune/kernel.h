// Tunes one kernel: candidates, their ranking, their measurement, the check of their results.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "explain/machine.h"
#include "target/cpu/cpu.h"
#include "target/target.h"
#include "tune/record.h"

namespace opwright::tune {

// A kernel at one size, with tensors to run on.
struct Subject {
    std::string name;                     // of its operator
    const math::Program* program = nullptr;  // localised
    std::vector<bool> constant_inputs;
    std::vector<int64_t> symbols;         // values of program->symbols()
    std::vector<Tensor> inputs;           // of its program; see usable_inputs()
    std::vector<Shape> outputs;
};

struct KernelOptions {
    target::cpu::Options cpu;             // of target null: of the code; `tuned` and `schedule` are not looked at
    const target::Target* target = nullptr;
    int candidates = 8;                   // that are measured, the untuned one among them
    double seconds = 2;                   // for this kernel
    std::function<void(const std::string&)> progress;  // what is being done; may be empty
};

// Tensors to be timed on: values that are all zero, or hold anything that is no finite number, would make some candidates
// quicker than they are, and are replaced by random ones (floats alone; indices stay).
std::vector<Tensor> usable_inputs(std::vector<Tensor> inputs);

// The key, the candidates with their times, the winner. `machine` is what the model reckons with. Errors: the untuned
// kernel does not run; "not run: ..." for a target whose times would say nothing.
Result<Record> tune_kernel(const Subject& s, const KernelOptions& o, const explain::Machine& machine, runtime::ThreadPool& pool);

// The key of a kernel's timings.
Result<Key> key_of(const Subject& s, const KernelOptions& o, int threads);
// Key::machine. `unit`: cpu::Features::key(), or the device's name.
std::string machine_text(std::string_view target, std::string_view unit, int threads);
std::string emitter_text(std::string_view target);  // Key::emitter

}  // namespace opwright::tune
