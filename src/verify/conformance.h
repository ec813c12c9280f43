// Folders of ONNX test data: model.onnx beside test_data_set_K/{input,output}_N.pb.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "compile.h"

namespace opwright::verify {

enum class CaseVerdict : uint8_t { Pass, Wrong, Crash, Unsupported, Timeout };
std::string_view name(CaseVerdict v);  // "pass", "wrong", "crash", "unsupported", "timeout"

struct CaseResult {
    std::string name;         // the folder's
    CaseVerdict verdict = CaseVerdict::Crash;
    std::string reason;       // empty for a pass
    double seconds = 0;
};

struct CaseOptions {
    CompileOptions compile;
    int threads = 1;          // of one case
    int jobs = 0;             // cases at a time, each in a process of its own; 0 = as many as processors
    double timeout = 60;      // seconds for one case
    double rtol = 1e-3, atol = 1e-7;  // floats: |got - expected| <= atol + rtol*|expected|, as ONNX's own runner has it
};

// Folders that hold a model.onnx: those given, or else all below them; sorted, each once.
std::vector<std::string> find_cases(const std::vector<std::string>& folders);

// In this process. Pass: every output of every data set has the expected type, shape and values (integers and bools
// exactly). Unsupported: the import or the compiler refuses. Wrong: anything else that is not as the files say, an error
// at run time included. A folder without data sets is unsupported: nothing was compared.
CaseResult run_case(const std::string& folder, const CaseOptions& o);

// Each case in a child process, so that a crash or an endless loop is a verdict. Results in the order of the cases;
// `done` is told of each as it ends. Call it before the process has made threads: it forks.
std::vector<CaseResult> run_cases(const std::vector<std::string>& cases, const CaseOptions& o,
                                  const std::function<void(const CaseResult&)>& done);

}  // namespace opwright::verify
