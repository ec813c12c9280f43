// NumPy's .npy files (format versions 1 to 3; source: NEP 1 and numpy.lib.format).
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/tensor.h"

namespace opwright::io {

// Every dtype of ours, little or big endian, C or Fortran order; the tensor is row-major in the machine's order.
// NumPy has no bfloat16: a two-byte void ("V2", what ml_dtypes writes) is read as bf16. Complex numbers, strings,
// records and pickled objects are refused. Never allocates more than the input's own length and a little. `name` is
// what messages call the data.
Result<Tensor> parse_npy(std::string_view bytes, const std::string& name);
Result<Tensor> read_npy(const std::string& path);

// Version 1.0 where the header fits; little endian, C order, data aligned to 64 bytes; bf16 as "<V2".
std::string npy_bytes(const Tensor& t);
Status write_npy(const std::string& path, const Tensor& t);

}  // namespace opwright::io
