// Element-wise arithmetic, comparisons, casts and reductions on known content; see content.h.
#pragma once
#include <optional>
#include <vector>

#include "graph/onnx/content.h"

namespace opwright::graph::onnx {

// nullopt for other operators, and where the result cannot be stated.
std::optional<Known> evaluate_math(const NodeContext& c, SymMeasure& measure);
// One element as arithmetic of type t would give it; nullopt where wrapping, or a divisor that may be 0, would matter.
std::optional<math::Sym> add(const math::Sym& a, const math::Sym& b, DType t, SymMeasure& m);
std::optional<math::Sym> multiply(const math::Sym& a, const math::Sym& b, DType t, SymMeasure& m);
std::optional<math::Sym> minimum(const math::Sym& a, const math::Sym& b, DType t, SymMeasure& m);
std::optional<math::Sym> maximum(const math::Sym& a, const math::Sym& b, DType t, SymMeasure& m);

}  // namespace opwright::graph::onnx
