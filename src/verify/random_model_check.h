// Random models, fused and not, against the reference and against each other.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "verify/random_model.h"

namespace opwright::verify {

// How the models run: the target or the vector unit. Fusion is on in one of the two compilations, and off in the other.
using ModelOptionsOf = std::function<CompileOptions(uint64_t seed)>;

struct ModelVerdict {
    std::string wrong;    // what is, in words; empty: nothing
    std::string refused;  // why it could not be run at all
    int64_t runs = 0;     // on one set of sizes and values
    int64_t kernels = 0, outputs = 0, ill = 0;  // compared with the reference; outputs compared, and those that say nothing
    int64_t launched = 0, unfused = 0;          // kernels of the model with fusion and without
};
// The kernels of both compilations on what they met, within the bound of each element (graph_check.h); for two seeds of
// three the unfused model is interpreted by the reference. Every output against the reference and fused against unfused,
// within what rounding may move (model_noise.h); two threads and one to the bit; both refuse the same inputs.
ModelVerdict check_model(const RandomModel& m, const CompileOptions& o, uint64_t seed);

struct RandomModelFailure {
    uint64_t seed = 0;
    std::string wrong;
    RandomModel smallest;         // of what still fails
    std::string smallest_wrong;
};
struct RandomModelReport {
    uint64_t models = 0, refused = 0;
    ModelVerdict all;  // the sums
    std::map<std::string, uint64_t> reasons;  // of refusals
    std::vector<RandomModelFailure> failures;
    std::string str() const;
};
// The models of `count` seeds from `first` on. Stops after `most` failing ones, each of which is made smaller for about
// `shrink_seconds`.
RandomModelReport check_random_models(const ModelOptionsOf& options, uint64_t first, uint64_t count, size_t most = 10,
                                      double shrink_seconds = 20);

// `m` with as few operators as still fail: one value for the outputs, values as inputs, without what nothing depends on.
RandomModel smaller(const RandomModel& m, const std::function<bool(const RandomModel&)>& fails, double seconds);

// `o` for each seed: on the CPU, each vector unit that this processor has, unless `o` names one, and machines of all sorts
// for the fusion planner in turn. Neither the cache of objects nor what was tuned.
ModelOptionsOf model_options(CompileOptions o = {});

}  // namespace opwright::verify
