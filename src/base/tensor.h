// A host tensor: element type, shape, contiguous row-major elements in shared storage.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace opwright {

using Shape = std::vector<int64_t>;

// Product of the extents; 1 for a scalar. Returns -1 on overflow of int64 or a negative extent.
int64_t element_count(const Shape& s);
std::string to_string(const Shape& s);  // "[2, 3]"

class Tensor {
public:
    Tensor() = default;
    // Allocates, 64-byte aligned, uninitialised. The caller has checked that the size is sane (see element_count).
    Tensor(DType t, Shape s);
    // Wraps memory owned elsewhere; `owner` keeps it alive (may be null for borrowed memory).
    static Tensor wrap(DType t, Shape s, void* data, std::shared_ptr<void> owner = nullptr);

    DType dtype() const { return dtype_; }
    const Shape& shape() const { return shape_; }
    int rank() const { return static_cast<int>(shape_.size()); }
    int64_t size() const { return count_; }
    size_t bytes() const { return static_cast<size_t>(count_) * size_of(dtype_); }
    bool defined() const { return owner_ != nullptr || data_ != nullptr || defined_; }

    void* data() { return data_; }
    const void* data() const { return data_; }
    template <class T> T* as() { return static_cast<T*>(data_); }
    template <class T> const T* as() const { return static_cast<const T*>(data_); }

    // Element i (row-major) converted to double / to int64 (floats truncate); stores round and saturate.
    double get(int64_t i) const;
    int64_t get_int(int64_t i) const;
    void set(int64_t i, double v);
    void set_int(int64_t i, int64_t v);

    // Same storage under another shape of equal element count.
    Tensor reshaped(Shape s) const;
    Tensor clone() const;

private:
    DType dtype_ = DType::F32;
    Shape shape_;
    int64_t count_ = 0;
    bool defined_ = false;
    void* data_ = nullptr;
    std::shared_ptr<void> owner_;
};

}  // namespace opwright
