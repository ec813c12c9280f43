// A model against another run of it: another file, another engine.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model.h"
#include "verify/model_noise.h"

namespace opwright::verify {

// Outputs in the order of the model's.
using ModelRun = std::function<Result<std::vector<Tensor>>(const NamedInputs&)>;
using ModelNoiseOf = std::function<Result<ModelNoise>(const NamedInputs&)>;

// model_noise() of a model that was loaded without fusion.
ModelNoiseOf noise_of(std::shared_ptr<Model> unfused, uint64_t seed = 1);

struct ValueSet {
    std::string name;  // "random", "ties"
    NamedInputs inputs;
};
// `given` itself under the name `first`; its floats in another order; few distinct values (ties, values half way between
// two); all of them 0. Integers stay as they are: they may be positions.
std::vector<ValueSet> value_sets(const NamedInputs& given, const std::string& first, uint64_t seed);

struct OutputComparison {
    std::string name;
    std::string verdict;  // "equal", "within tolerance", "ill-conditioned", "wrong"
    bool passed = true;
    // Of the element that takes most of what it is allowed, over all value sets:
    double difference = 0, allowed = 0, share = 0;
    Shape where;
    std::string set;
    // Over all elements and value sets:
    double error = 0, other_error = 0;  // of each side against the fp64 reference, node by node
    double largest = 0;                 // magnitude of the output
    std::string note;                   // types or shapes that differ; kernels without a bound
};
struct ModelComparison {
    std::vector<OutputComparison> outputs;
    std::vector<std::string> sets;  // value sets that were run
    bool passed() const;
};

// Each side may err by as much as the model's outputs move when each of its kernels errs by its bound (`noise`), so two
// sides may differ by twice that. The move of an element is the largest seen, but not less than the root mean square over
// its output: a few runs may leave one element nearly where it was. No new value set is begun after `seconds`.
// Errors: those of the runs; another number of outputs.
Result<ModelComparison> compare_runs(const std::vector<std::string>& names, const std::vector<ValueSet>& sets,
                                     const ModelRun& mine, const ModelRun& other, const ModelNoiseOf& noise,
                                     double seconds = 60);

// The model on ONNX Runtime, in the interpreter that OPWRIGHT_PYTHON names, else python3. Errors: what is missing
// there.
ModelRun onnx_runtime(const std::string& path, double seconds = 120);

}  // namespace opwright::verify
