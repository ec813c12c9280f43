// How one ONNX node becomes operators of the library: it normalises attributes (negative axes, auto_pad, defaults by
// opset) and names the declarations; the mathematics is theirs alone.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "lang/library.h"

namespace opwright::graph::onnx {

// The node being imported, as its binding sees it. Implemented by the importer.
class NodeContext {
public:
    virtual ~NodeContext() = default;
    virtual const std::string& op_type() const = 0;
    virtual int opset() const = 0;                          // of the node's domain

    // ---- attributes; the getters with a default give it where the attribute is absent
    virtual bool has(const std::string& name) const = 0;
    virtual int64_t int_attribute(const std::string& name, int64_t otherwise) const = 0;
    virtual double float_attribute(const std::string& name, double otherwise) const = 0;
    virtual std::string string_attribute(const std::string& name, const std::string& otherwise) const = 0;
    virtual std::optional<std::vector<int64_t>> ints(const std::string& name) const = 0;
    virtual std::optional<std::vector<double>> floats(const std::string& name) const = 0;
    virtual std::optional<std::vector<std::string>> strings(const std::string& name) const = 0;
    virtual std::optional<Tensor> tensor(const std::string& name) const = 0;

    // ---- inputs and outputs
    virtual size_t input_count() const = 0;                 // trailing absent ones not counted
    virtual ValueId input(size_t i) const = 0;              // kNone where absent
    virtual size_t output_count() const = 0;
    virtual bool output_wanted(size_t i) const = 0;
    virtual const Value& value(ValueId v) const = 0;        // invalidated by the next emit
    // Elements of input i as symbolic integers; records that its value is needed where they are not known, and then the
    // binding should return the error given.
    virtual Result<std::vector<math::Sym>> content(size_t i) = 0;
    virtual Result<std::vector<int64_t>> constant_ints(size_t i) = 0;   // as above, and all must be numbers
    virtual Result<Tensor> constant(size_t i) = 0;                      // the whole constant, any type

    // ---- emission
    virtual Result<std::vector<ValueId>> emit(const std::string& op, const std::vector<ValueId>& inputs,
                                              const lang::Attributes& attributes = {}) = 0;
    virtual ValueId view(ValueId v, std::vector<math::Sym> shape) = 0;  // same elements, other shape
    // What must hold of extents for the outputs to be right; checked before a run. `what` ends the sentence "The node
    // 'n' (Type) ...".
    virtual void require(math::Sym condition, const std::string& what) = 0;
    virtual ValueId add_constant(Tensor t) = 0;
    virtual ValueId add_content(std::vector<math::Sym> elements, std::vector<math::Sym> shape, DType t) = 0;
    // The library extended by a declaration made here (einsum from its equation); returns its operator's name.
    virtual Result<std::string> declare(const std::string& source) = 0;
    virtual Diagnostic unsupported(std::string reason) const = 0;       // names the node; reason says what would be needed
};

// Returns the outputs in order. Outputs that are not wanted may be kNone.
using Binding = Result<std::vector<ValueId>> (*)(NodeContext& c);
// nullptr for an operator without a binding. `domain` "" is ai.onnx.
Binding find_binding(const std::string& domain, const std::string& op_type);
// How many leading inputs every node of a bound type must have; the importer checks them before it calls the binding.
size_t required_inputs(const std::string& domain, const std::string& op_type);
// Operator types with a binding, sorted: for the table in docs/onnx.md.
std::vector<std::string> bound_operators();

}  // namespace opwright::graph::onnx
