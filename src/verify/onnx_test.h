// Runs folders of ONNX test data and counts what happens. A case is a folder with model.onnx and test_data_set_*/
// {input,output}_K.pb, or a file NAME.onnx with NAME_output_K.pb beside it (the light models; their inputs are i / n).
// Every case runs in a process of its own, so that a crash or an endless loop is counted and the rest goes on.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace opwright::verify {

enum class CaseVerdict : uint8_t { Pass, Wrong, Crash, Unsupported, Timeout };
inline constexpr int kVerdictCount = 5;
std::string name(CaseVerdict v);  // "pass", ...

struct CaseResult {
    std::string name;  // the folder's path below the one given: "test_relu" below data/node
    CaseVerdict verdict = CaseVerdict::Crash;
    std::string reason;  // empty for a pass
    double seconds = 0;
};

// Runs a graph; called in the case's process. Sets *refused where the graph cannot be compiled, which is unsupported and
// not wrong.
using GraphRunner =
    std::function<Result<std::vector<Tensor>>(const graph::Graph&, const std::vector<Tensor>&, bool* refused)>;

struct OnnxTestOptions {
    GraphRunner run;            // null: the fp64 reference (run_reference)
    int processes = 2;          // cases at a time
    double timeout_s = 60;      // of a case, wall clock
    int64_t memory_mib = 6144;  // address space of a case; 0: no limit
    // The ONNX suite's own; an absolute error of 2^-23 of the output's largest magnitude passes too. Element types,
    // shapes, integers and bools must match exactly.
    double rtol = 1e-3, atol = 1e-7;
    std::function<void(const CaseResult&, size_t done, size_t total)> progress;
};

struct OnnxTestReport {
    std::vector<CaseResult> cases;  // in the order of their names
    int count(CaseVerdict v) const;
    // {"pass": n, "wrong": n, "crash": n, "unsupported": n, "timeout": n, "cases": [{"name", "verdict", "reason"}]}
    std::string json() const;
};

// Every case at or below one of `folders`. Errors: a folder that is none, or holds no case.
Result<OnnxTestReport> run_onnx_tests(const std::vector<std::string>& folders, const OnnxTestOptions& o);

// One case, in this process: its folder, or its file NAME.onnx.
CaseResult run_onnx_case(const std::string& path, const OnnxTestOptions& o);

}  // namespace opwright::verify
