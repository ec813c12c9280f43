// A tensor laid out in memory of its own, between guard bytes.
#pragma once
#include <string>

#include "verify/subject.h"

namespace opwright::verify {

inline constexpr unsigned char kGuardByte = 0x5a, kPoison = 0xa5;

// Whether a tensor of this shape has the layout; else it lies misaligned.
bool has_layout(Layout l, const Shape& s);
// `t` as a view with stride 0 along the first dim shows it: each element is that at position 0 there.
Tensor expanded(const Tensor& t);

class Guarded {
public:
    // Memory for a tensor; its elements are poison, all around them is `fill`.
    Guarded(DType t, const Shape& s, Layout l, unsigned char fill = kGuardByte);
    // With the elements of `t`, which is as expanded() says where `l` is Expanded.
    Guarded(const Tensor& t, Layout l, unsigned char fill = kGuardByte);

    Guarded(Guarded&&) = default;
    Guarded& operator=(Guarded&&) = default;

    const View& view() const { return view_; }
    Tensor tensor() const;  // of a dense view: borrows the memory
    // Bytes that are no element and have changed: "3 bytes in front", "... behind", "... between its rows"; or empty.
    std::string damage() const;
    bool changed() const;  // any byte, since the construction
    // Refills all that is no element.
    void refill(unsigned char fill);

private:
    void place(Layout l, unsigned char fill);
    template <class F>
    void each(F f) const;  // f(address) of all elements, row-major
    std::vector<unsigned char> memory_, before_;
    std::vector<bool> element_;  // by byte
    unsigned char* aligned_ = nullptr;
    View view_;
};

}  // namespace opwright::verify
