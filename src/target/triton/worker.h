// The Python process that runs emitted files.
#pragma once
#include <memory>
#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "target/triton/module.h"

namespace opwright::target::triton {

// Whether there is one: the Python named by OPWRIGHT_PYTHON, else python3, with torch and triton.
struct WorkerState {
    std::string problem;  // a sentence; empty: it runs
    std::string device;   // "cuda" or "cpu" (Triton's interpreter)
    std::string about;    // "torch 2.13.0, triton 3.6.0"
};
const WorkerState& worker_state();

// The module written to a file of the worker's folder.
Result<std::unique_ptr<Runnable>> run_module(const math::Program& p, Module m);

}  // namespace opwright::target::triton
