// A model against another run of it: another file, another engine. Nobody knows a bound for a whole model, so what may
// differ is measured: by how much this model's outputs move under changes that do not matter.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model.h"

namespace opwright::verify {

// Outputs in the order of the model's.
using ModelRun = std::function<Result<std::vector<Tensor>>(const NamedInputs&)>;

struct OutputComparison {
    std::string name;
    std::string verdict;  // "equal", "within tolerance", "wrong"
    bool passed = true;
    double difference = 0;              // between the two: largest absolute
    double error = 0, other_error = 0;  // of each against the fp64 reference, node by node
    double noise = 0;    // what changes that do not matter move it by: the tolerance is kNoiseFactor times that
    double largest = 0;  // magnitude of the output
    Shape where;         // of `difference`
    std::string note;    // types or shapes that differ
};
struct ModelComparison {
    std::vector<OutputComparison> outputs;
    bool passed() const;
};
inline constexpr double kNoiseFactor = 8;

// `variants` are runs of the same model that may not matter: without fusion, on one thread. To them come the reference
// in 64-bit arithmetic and inputs moved by half an ulp. Errors: those of the runs; other outputs than this model's.
Result<ModelComparison> compare_runs(const std::vector<std::string>& names, const NamedInputs& inputs,
                                     const ModelRun& mine, const ModelRun& other, const ModelRun& reference,
                                     const std::vector<ModelRun>& variants);

// The model on ONNX Runtime, in the interpreter that OPWRIGHT_PYTHON names, else python3. Errors: what is missing
// there.
ModelRun onnx_runtime(const std::string& path, double seconds = 120);

}  // namespace opwright::verify
