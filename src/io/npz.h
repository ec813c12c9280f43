// NumPy's .npz files: zip archives of .npy members. Read and written through libzip.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace opwright::io {

struct NamedTensor {
    std::string name;
    Tensor tensor;
};

// Members in the archive's order, without their ".npy". Stored or deflated, zip64 too. Checksums are verified;
// a member that claims more bytes than its compressed size can hold is refused before anything is allocated.
// `name` is what messages call the data.
Result<std::vector<NamedTensor>> parse_npz(const std::string& bytes, const std::string& name);
Result<std::vector<NamedTensor>> read_npz(const std::string& path);

// Stored, not compressed (what numpy.savez writes). Two equal names are refused.
Status write_npz(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace opwright::io
