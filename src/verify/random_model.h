// ONNX models made from a seed: chains that no exporter wrote, for what fusion, layouts and schedules make of them.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model.h"

namespace opwright::verify {

struct RandomModel {
    std::string bytes;  // an ONNX model
    // What to run it on: at the sizes that it was made at, and, where extents are open, at others, which it may refuse.
    std::vector<NamedInputs> inputs;
    // Values that depend on which way a choice (ArgMax, a comparison, Floor) between rounded values went: only their kernels
    // can be judged, and not how far they are from another run's.
    std::set<std::string> chosen;
};

// One model a seed, the same on every machine: a few inputs, up to about 16 operators or groups of operators as exporters
// write them, small extents on both sides of vector widths, 0 and 1 among them, equal ones on purpose; f32, f16 or bf16.
// Values stay finite for the most part, and outputs stand in the middle of chains too.
RandomModel random_model(uint64_t seed);

// A line for each node, "v3 = Softmax(v2) axis=-1", after the inputs and constants.
std::string described(const std::string& bytes);

}  // namespace opwright::verify
