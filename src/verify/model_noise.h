// What rounding may do to the outputs of a whole model: nobody has a bound for that, but each of its kernels has one.
#pragma once
#include <string>
#include <vector>

#include "compile.h"

namespace opwright::verify {

struct ModelNoise {
    std::vector<Tensor> exact;  // the outputs by the fp64 reference, node by node, in their declared types
    // F64, by output: the largest distance from `exact` over runs in which every element that a kernel delivers is
    // moved by its own error bound (docs/numerics.md): all up, all down, then each either way at random. Infinite
    // where a run gives a number and the reference none, or the other way round.
    std::vector<Tensor> move;
    int64_t unbounded = 0;     // elements between the kernels that have no bound and stay as they are
    std::string unbounded_at;  // the first kernel that has such
};
inline constexpr int kNoiseRuns = 6;

// `plain` is the model without fusion: a kernel for each operator, whose rounding any other way of running it may show.
// Errors: those of the reference and of the runs.
Result<ModelNoise> model_noise(const opwright::Compiled& plain, const std::vector<Tensor>& arguments,
                               runtime::ThreadPool& pool, uint64_t seed = 1);

}  // namespace opwright::verify
