#include "verify/guarded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace opwright::verify {
namespace {
constexpr int64_t kGuard = 192;
}

bool has_layout(Layout l, const Shape& s) {
    switch (l) {
        case Layout::Contiguous:
        case Layout::Misaligned: return true;
        case Layout::Transposed: return s.size() >= 2;
        case Layout::Sliced:
        case Layout::Expanded:
        case Layout::Reversed: return !s.empty();
    }
    return false;
}

Tensor expanded(const Tensor& t) {
    if (!has_layout(Layout::Expanded, t.shape()) || t.size() == 0) return t;
    Tensor r = t.clone();
    const size_t row = t.bytes() / static_cast<size_t>(t.shape()[0]);
    for (int64_t i = 1; i < t.shape()[0]; ++i)
        std::memcpy(r.as<unsigned char>() + static_cast<size_t>(i) * row, t.data(), row);
    return r;
}

Guarded::Guarded(DType t, const Shape& s, Layout l, unsigned char fill) {
    view_.dtype = t;
    view_.shape = s;
    place(l, fill);
    each([&](unsigned char* e) { std::fill_n(e, size_of(t), kPoison); });
    before_ = memory_;
}
Guarded::Guarded(const Tensor& t, Layout l, unsigned char fill) {
    view_.dtype = t.dtype();
    view_.shape = t.shape();
    place(l, fill);
    const auto* from = t.as<const unsigned char>();
    const size_t n = size_of(t.dtype());
    each([&](unsigned char* e) {
        std::memcpy(e, from, n);
        from += n;
    });
    before_ = memory_;
}

void Guarded::place(Layout l, unsigned char fill) {
    const Shape& s = view_.shape;
    if (!has_layout(l, s)) l = Layout::Misaligned;
    const auto bytes = static_cast<int64_t>(size_of(view_.dtype));
    std::vector<int64_t> order(s.size()), pitch(s.begin(), s.end());  // order: dims from the outermost in memory
    for (size_t d = 0; d < s.size(); ++d) order[d] = static_cast<int64_t>(d);
    int64_t step = 1, first = l == Layout::Contiguous ? 0 : 1;
    if (l == Layout::Transposed) std::swap(order[s.size() - 1], order[s.size() - 2]);
    if (l == Layout::Sliced && s.size() == 1) step = 2;
    if (l == Layout::Sliced && s.size() > 1) pitch.back() += 3;
    std::vector<int64_t> strides(s.size());
    int64_t span = step;
    for (size_t i = s.size(); i-- > 0;) {
        const auto d = static_cast<size_t>(order[i]);
        strides[d] = l == Layout::Expanded && d == 0 ? 0 : span;
        if (strides[d] != 0) span *= std::max<int64_t>(pitch[d], 1);
    }
    if (element_count(s) == 0) span = 0;
    if (l == Layout::Reversed) {
        first += std::max<int64_t>(s.back() - 1, 0) * strides.back();
        strides.back() = -strides.back();
    }
    view_.strides = std::move(strides);
    memory_.assign(static_cast<size_t>(2 * kGuard + 64 + (span + 2) * bytes), fill);
    // Element 0 of the memory after the guard lies at a multiple of 64.
    const auto address = reinterpret_cast<uintptr_t>(memory_.data()) + kGuard;
    aligned_ = memory_.data() + kGuard + (64 - address % 64) % 64;
    view_.data = aligned_ + first * bytes;
    view_.storage = memory_;
    element_.assign(memory_.size(), false);
    each([&](unsigned char* e) { std::fill_n(element_.begin() + (e - memory_.data()), bytes, true); });
}

template <class F>
void Guarded::each(F f) const {
    const auto bytes = static_cast<int64_t>(size_of(view_.dtype));
    const int64_t n = element_count(view_.shape);
    std::vector<int64_t> at(view_.shape.size());
    int64_t offset = 0;
    for (int64_t i = 0; i < n; ++i) {
        f(view_.data + offset * bytes);
        for (size_t d = at.size(); d-- > 0;) {
            offset += view_.strides[d];
            if (++at[d] < view_.shape[d]) break;
            offset -= view_.strides[d] * view_.shape[d];
            at[d] = 0;
        }
    }
}

Tensor Guarded::tensor() const { return Tensor::wrap(view_.dtype, view_.shape, view_.data); }

std::string Guarded::damage() const {
    const auto first = static_cast<size_t>(std::find(element_.begin(), element_.end(), true) - element_.begin());
    size_t last = element_.size();
    while (last > 0 && !element_[last - 1]) --last;
    const auto data = static_cast<size_t>(view_.data - memory_.data());  // of a tensor without elements
    size_t front = 0, behind = 0, between = 0;
    for (size_t i = 0; i < memory_.size(); ++i) {
        if (element_[i] || memory_[i] == before_[i]) continue;
        const bool before = last == 0 ? i < data : i < first;
        ++(before ? front : last == 0 || i >= last ? behind : between);
    }
    if (front) return fmt::format("{} bytes in front", front);
    if (behind) return fmt::format("{} bytes behind", behind);
    if (between) return fmt::format("{} bytes between its rows", between);
    return "";
}

bool Guarded::changed() const { return memory_ != before_; }

void Guarded::refill(unsigned char fill) {
    for (size_t i = 0; i < memory_.size(); ++i)
        if (!element_[i]) memory_[i] = fill;
    before_ = memory_;
}

}  // namespace opwright::verify
