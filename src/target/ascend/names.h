// Names in the emitted source: from the declaration, in the style of Ascend C's own examples, unique in a kernel.
#pragma once
#include <map>
#include <set>
#include <string>

#include "math/program.h"

namespace opwright::target::ascend {

std::string upper_camel(const std::string& s);  // "layer_norm" -> "LayerNorm"
std::string lower_camel(const std::string& s);  // "layer_norm" -> "layerNorm"

// The C++ type of an element in memory, as Ascend C spells it; bool is one byte.
std::string memory_type(DType t);
// The type that the scalar unit computes in: float for the 16-bit floats, bool for bool.
std::string scalar_type(DType t);

class Names {
public:
    explicit Names(const math::Program& p);

    const std::string& tensor(math::TensorId t) const { return tensors_.at(t); }  // "x"
    const std::string& var(math::VarId v) const { return vars_.at(v); }           // "i"
    // The tiling field that holds a symbol: of the variable or dim whose extent it is ("sizeI").
    const std::string& field(const std::string& symbol) const { return fields_.at(symbol); }
    const std::map<std::string, std::string>& fields() const { return fields_; }

    std::string unique(const std::string& wish);
    bool taken(const std::string& name) const { return taken_.count(name) > 0; }

private:
    std::set<std::string> taken_;
    std::map<math::TensorId, std::string> tensors_;
    std::map<math::VarId, std::string> vars_;
    std::map<std::string, std::string> fields_;
};

}  // namespace opwright::target::ascend
