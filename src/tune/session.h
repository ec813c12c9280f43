// Tunes the kernels of a model or an operator within a budget, those that take most of the time first.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "compile.h"
#include "tune/kernel.h"

namespace opwright::tune {

struct Progress {
    size_t kernel = 0, kernels = 0;  // this one, counted from 1, of so many
    std::string name, what;
    double elapsed = 0, budget = 0;  // seconds
};

struct SessionOptions {
    KernelOptions kernel;            // `seconds` and `progress` are set by the session
    double budget = 60;              // seconds in all
    std::function<void(const Progress&)> progress;
    std::function<Status(const Record&)> keep;  // each record as soon as it is made; may be empty
};

struct Session {
    struct Tuned {
        Record record;
        double share = 0;  // of the time of a run, all kernels of that kind together
        int places = 1;    // kernels of that kind in the model
    };
    struct Left {
        std::string name, reason;
        double share = 0;
    };
    std::vector<Tuned> tuned;  // by share, the largest first
    std::vector<Left> left;    // kernels that were not tuned
    double seconds = 0;        // it took
};

// `c` is compiled for the cpu, untuned; the inputs are in its graph's order. With o.kernel.target, its kernels are tuned
// for that target, on the tensors that they have here. Errors: the model does not run on these inputs; what `keep`
// returns. A kernel that cannot be tuned is left, with the reason.
Result<Session> tune(const Compiled& c, std::span<const Tensor> inputs, const SessionOptions& o, const explain::Machine& machine,
                     runtime::ThreadPool& pool);

}  // namespace opwright::tune
