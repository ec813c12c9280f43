// A compiled graph against the reference, kernel by kernel, each on the very inputs that it met: the first kernel that is
// wrong is the one at fault.
#pragma once
#include <string>
#include <vector>

#include "compile.h"
#include "verify/compare.h"

namespace opwright::verify {

struct KernelCheck {
    std::string name, type;         // of the operators behind the kernel
    bool compared = false;          // false: more work than the reference is given, see `message`
    Verdict verdict = Verdict::Equal;
    double max_share = 0, max_ulp = 0;
    std::string message;
};
struct GraphReport {
    std::vector<KernelCheck> kernels;
    size_t compared = 0, wrong = 0;
    // Largest difference between the float outputs and those of the same graph without fusion, relative to the largest value of
    // the output: what fusion and folding changed.
    double fusion_difference = 0;
    bool passed() const { return wrong == 0 && fusion_difference < 1e-3; }
};
struct GraphOptions {
    int64_t max_operations = int64_t{1} << 30;  // of one kernel in the reference
};
// `plain` is the same graph compiled without fusion; null to leave that comparison out.
Result<GraphReport> check_graph(const opwright::Compiled& fused, const opwright::Compiled* plain, std::span<const Tensor> inputs, runtime::ThreadPool& pool,
                                const GraphOptions& o = {});

}  // namespace opwright::verify
