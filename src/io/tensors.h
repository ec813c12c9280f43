// Tensors in and out of files of any kind we know, told by the name's ending: what commands take and write.
#pragma once
#include <string>
#include <vector>

#include "io/npz.h"

namespace opwright::io {

// .npz: all its tensors. .npy, .png, .jpg, .jpeg: one, without a name. .pb (an ONNX TensorProto): one, with the name
// that it carries, which may be empty.
Result<std::vector<NamedTensor>> read_tensors(const std::string& path);

// .npz takes any number; the other kinds take one tensor.
Status write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace opwright::io
