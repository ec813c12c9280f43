#include "base/tensor.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

namespace opwright {
namespace {

template <class T>
T saturate(double v) {
    if (std::isnan(v)) return 0;
    if (v <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (v >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(v);
}

// Calls f with a null pointer of the element's storage type; the 16-bit floats arrive as uint16_t.
template <class F>
decltype(auto) visit_storage(DType t, F&& f) {
    switch (t) {
        case DType::Bool: case DType::U8: return f(static_cast<uint8_t*>(nullptr));
        case DType::I8: return f(static_cast<int8_t*>(nullptr));
        case DType::I16: return f(static_cast<int16_t*>(nullptr));
        case DType::I32: return f(static_cast<int32_t*>(nullptr));
        case DType::I64: return f(static_cast<int64_t*>(nullptr));
        case DType::U16: case DType::F16: case DType::BF16: return f(static_cast<uint16_t*>(nullptr));
        case DType::U32: return f(static_cast<uint32_t*>(nullptr));
        case DType::U64: return f(static_cast<uint64_t*>(nullptr));
        case DType::F32: return f(static_cast<float*>(nullptr));
        case DType::F64: return f(static_cast<double*>(nullptr));
    }
    std::abort();
}
}  // namespace

int64_t element_count(const Shape& s) {
    int64_t n = 1;
    bool zero = false;
    for (int64_t d : s) {
        if (d < 0) return -1;
        if (d == 0) { zero = true; continue; }
        if (__builtin_mul_overflow(n, d, &n)) n = -1;
        if (n < 0) break;
    }
    return zero ? 0 : n;
}

std::string to_string(const Shape& s) {
    std::string r = "[";
    for (size_t i = 0; i < s.size(); ++i) r += (i ? ", " : "") + std::to_string(s[i]);
    return r + "]";
}

Tensor::Tensor(DType t, Shape s) : dtype_(t), shape_(std::move(s)), count_(element_count(shape_)), defined_(true) {
    if (count_ < 0) throw std::bad_alloc();
    const size_t bytes = std::max<size_t>(64, (static_cast<size_t>(count_) * size_of(t) + 63) / 64 * 64);
    data_ = std::aligned_alloc(64, bytes);
    if (!data_) throw std::bad_alloc();
    owner_ = std::shared_ptr<void>(data_, std::free);
}

Tensor Tensor::wrap(DType t, Shape s, void* data, std::shared_ptr<void> owner) {
    Tensor r;
    r.dtype_ = t;
    r.shape_ = std::move(s);
    r.count_ = element_count(r.shape_);
    r.data_ = data;
    r.owner_ = std::move(owner);
    r.defined_ = true;
    return r;
}

double Tensor::get(int64_t i) const {
    if (dtype_ == DType::F16) return f16_to_f32(as<uint16_t>()[i]);
    if (dtype_ == DType::BF16) return bf16_to_f32(as<uint16_t>()[i]);
    return visit_storage(dtype_, [&](auto* p) { return static_cast<double>(as<std::remove_pointer_t<decltype(p)>>()[i]); });
}

int64_t Tensor::get_int(int64_t i) const {
    if (is_float(dtype_)) return saturate<int64_t>(get(i));
    return visit_storage(dtype_, [&](auto* p) { return static_cast<int64_t>(as<std::remove_pointer_t<decltype(p)>>()[i]); });
}

void Tensor::set(int64_t i, double v) {
    switch (dtype_) {
        case DType::Bool: as<uint8_t>()[i] = v != 0; return;
        case DType::F16: as<uint16_t>()[i] = f64_to_f16(v); return;
        case DType::BF16: as<uint16_t>()[i] = f64_to_bf16(v); return;
        case DType::F32: as<float>()[i] = static_cast<float>(v); return;
        case DType::F64: as<double>()[i] = v; return;
        case DType::I8: case DType::I16: case DType::I32: case DType::I64:
        case DType::U8: case DType::U16: case DType::U32: case DType::U64:
            visit_storage(dtype_, [&](auto* p) {
                using T = std::remove_pointer_t<decltype(p)>;
                if constexpr (std::is_integral_v<T>) as<T>()[i] = saturate<T>(v);
            });
            return;
    }
}

void Tensor::set_int(int64_t i, int64_t v) {
    if (is_float(dtype_)) return set(i, static_cast<double>(v));
    if (dtype_ == DType::Bool) { as<uint8_t>()[i] = v != 0; return; }
    visit_storage(dtype_, [&](auto* p) {
        using T = std::remove_pointer_t<decltype(p)>;
        as<T>()[i] = static_cast<T>(v);  // wraps, like integer arithmetic of that type
    });
}

Tensor Tensor::reshaped(Shape s) const {
    assert(element_count(s) == count_);
    Tensor r = *this;
    r.shape_ = std::move(s);
    return r;
}

Tensor Tensor::clone() const {
    Tensor r(dtype_, shape_);
    if (bytes()) std::memcpy(r.data(), data_, bytes());
    return r;
}

}  // namespace opwright
