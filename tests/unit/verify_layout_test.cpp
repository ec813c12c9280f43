// Layouts of memory: what a view shows, and what is noticed around it.
#include <gtest/gtest.h>

#include "verify/guarded.h"

namespace opwright::verify {
namespace {

Tensor counting(const Shape& s) {
    Tensor t(DType::I32, s);
    for (int64_t i = 0; i < t.size(); ++i) t.set_int(i, i + 1);
    return t;
}
// Elements that a view shows, row-major.
std::vector<int32_t> shown(const View& v) {
    std::vector<int32_t> r;
    for (int64_t i = 0; i < v.size(); ++i) {
        int64_t rest = i, offset = 0;
        for (size_t d = v.shape.size(); d-- > 0; rest /= v.shape[d]) offset += rest % v.shape[d] * v.strides[d];
        r.push_back(*reinterpret_cast<const int32_t*>(v.data + 4 * offset));
    }
    return r;
}

TEST(VerifyLayout, EveryLayoutShowsTheSameElements) {
    for (const Shape& s : {Shape{}, Shape{1}, Shape{7}, Shape{3, 4}, Shape{2, 1, 5}, Shape{0, 3}, Shape{3, 0}})
        for (Layout l : all_layouts()) {
            const Tensor t = l == Layout::Expanded ? expanded(counting(s)) : counting(s);
            const Guarded g(t, l);
            const std::vector<int32_t> want(t.as<int32_t>(), t.as<int32_t>() + t.size());
            EXPECT_EQ(shown(g.view()), want) << name(l) << to_string(s);
            EXPECT_FALSE(g.changed());
            EXPECT_EQ(g.damage(), "");
        }
}

TEST(VerifyLayout, StridesAreThoseOfTheLayout) {
    const auto strides = [](Layout l, const Shape& s) { return Guarded(DType::F32, s, l).view().strides; };
    using S = std::vector<int64_t>;
    EXPECT_EQ(strides(Layout::Contiguous, {2, 3, 4}), (S{12, 4, 1}));
    EXPECT_EQ(strides(Layout::Transposed, {2, 3, 4}), (S{12, 1, 3}));
    EXPECT_EQ(strides(Layout::Sliced, {3, 4}), (S{7, 1}));
    EXPECT_EQ(strides(Layout::Sliced, {5}), (S{2}));
    EXPECT_EQ(strides(Layout::Expanded, {3, 4}), (S{0, 1}));
    EXPECT_EQ(strides(Layout::Reversed, {3, 4}), (S{4, -1}));
    EXPECT_EQ(strides(Layout::Transposed, {5}), (S{1}));  // has none
    EXPECT_TRUE(Guarded(DType::F32, {3, 4}, Layout::Misaligned).view().dense());
    EXPECT_FALSE(Guarded(DType::F32, {3, 4}, Layout::Transposed).view().dense());
    EXPECT_TRUE(Guarded(DType::F32, {1, 4}, Layout::Transposed).view().dense());
}

TEST(VerifyLayout, DamageIsLocated) {
    const auto damaged = [](Layout l, int64_t element) {
        Guarded g(counting({3, 4}), l);
        g.view().data[4 * element] ^= 1;
        EXPECT_TRUE(g.changed());
        return g.damage();
    };
    EXPECT_EQ(damaged(Layout::Contiguous, -1), "1 bytes in front");
    EXPECT_EQ(damaged(Layout::Contiguous, 12), "1 bytes behind");
    EXPECT_EQ(damaged(Layout::Contiguous, 5), "");  // an element
    EXPECT_EQ(damaged(Layout::Sliced, 5), "1 bytes between its rows");
    EXPECT_EQ(damaged(Layout::Reversed, -5), "1 bytes in front");
    Guarded empty(DType::F32, {0}, Layout::Misaligned);
    empty.view().data[0] = 1;
    EXPECT_EQ(empty.damage(), "1 bytes behind");
}

}  // namespace
}  // namespace opwright::verify
