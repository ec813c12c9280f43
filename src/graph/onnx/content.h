// Evaluates nodes on small integer tensors whose elements are known as symbolic integers: the arithmetic on shapes that
// models carry along. What it cannot evaluate stays a node of the graph.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "graph/onnx/binding.h"

namespace opwright::graph::onnx {

// A small integer or bool tensor whose every element is known, row-major.
struct Known {
    DType dtype = DType::I64;
    Shape shape;
    std::vector<math::Sym> elements;
};

// Tells expressions that stay small from those that a hostile model makes grow; remembers what it has measured.
class SymMeasure {
public:
    SymMeasure();
    ~SymMeasure();
    // Depth and width of the expression are ordinary and its coefficients leave room for more arithmetic.
    bool small(const math::Sym& s);
    // An upper bound of the sum of its coefficients' magnitudes.
    double magnitude(const math::Sym& s);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// The content of a value as known now: its static shape and elements; nullopt where either is open.
std::optional<Known> known_content(const Value& v);
// Outputs of the node `c`, where every input that matters is known; nullopt otherwise (also for wrong models: the
// node's binding says what is wrong). Never more than kContentLimit elements.
std::optional<std::vector<Known>> evaluate_content(const NodeContext& c, SymMeasure& measure);

}  // namespace opwright::graph::onnx
