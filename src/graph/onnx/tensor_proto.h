// Tensors as ONNX writes them: the data files of its tests (input_0.pb, output_0.pb), in and out.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/tensor.h"

namespace opwright::graph::onnx {

struct NamedTensorProto {
    std::string name;
    Tensor tensor;
};

// A TensorProto. Refused: what is no such message, element types that Opwright has not (named), data that do not fill
// the shape, and external data.
Result<NamedTensorProto> tensor_from_proto(std::string_view bytes);
// Every element type of Opwright is written, as raw data.
std::string tensor_to_proto(const Tensor& t, const std::string& name);

// How ONNX numbers the element types. nullopt: a type that Opwright has not.
std::optional<DType> dtype_from_onnx(int32_t type);
int32_t dtype_to_onnx(DType t);
// "float8e4m3fn", "string", ...; "number 99" where the number is unknown.
std::string onnx_type_name(int32_t type);

}  // namespace opwright::graph::onnx
