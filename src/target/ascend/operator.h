// An operator as Ascend C source: kernels, tilings, and what the host does.
#pragma once
#include "target/ascend/kernel.h"
#include "target/target.h"

namespace opwright::target::ascend {

// Kernels that run one after the other.
struct Plan {
    std::vector<KernelSource> kernels;
    std::vector<math::TensorId> workspace;
    math::Program program;                      // whose tensors the kernels name
    std::string schedule, schedule_json, tile;  // the levels above, for people
    bool whole = false;                         // rows are held whole: only where they fit
};

struct Operator {
    std::string name;                  // "layer_norm"
    std::vector<std::string> symbols;  // sizes that the host is given, in order
    std::vector<std::string> fields;   // and what the source calls them
    std::vector<Plan> plans;           // the first whose rows fit is taken; the last always fits
    std::string kernels;               // text of NAME_kernel.h
    std::vector<std::string> facts;
};
Result<Operator> write_operator(const math::Program& p, const EmitOptions& o);

// Lines of at most 120 columns: broken after a comma or operator, and continued eight columns further in.
std::string wrapped(const std::string& text);
// "int64_t sizeM, int64_t sizeN".
std::string size_parameters(const Operator& op);
// The host's condition that plan `i` is taken, over sizes; "" for the last.
std::string plan_condition(const Operator& op, size_t i);

}  // namespace opwright::target::ascend
