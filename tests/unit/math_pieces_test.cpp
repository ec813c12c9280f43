// Equations over small tables, written out (math/pieces.h): what becomes of them, what stays, and that values are the same.
#include "math/pieces.h"

#include <gmock/gmock.h>

#include <cmath>

#include "declared.h"
#include "derive/reference.h"
#include "schedule/kernel.h"

namespace opwright::math {
namespace {
using testing::HasSubstr;
using testing::Not;

Tensor counted(Shape s) {
    Tensor r(DType::F32, std::move(s));
    for (int64_t i = 0; i < r.size(); ++i) r.set(i, std::sin(static_cast<double>(i) * 1.7) * 3);
    return r;
}

void expect_same(const Program& p, const std::vector<Tensor>& inputs) {
    const auto w = write_out_tables(p);
    ASSERT_TRUE(w);
    ASSERT_TRUE(verify(*w).empty()) << verify(*w).front() << "\n" << w->print();
    const auto x = derive::reference(p, inputs), y = derive::reference(*w, inputs);
    ASSERT_TRUE(x.ok() && y.ok()) << w->print();
    const Tensor &a = (*x)[0].value, &b = (*y)[0].value;
    ASSERT_EQ(a.shape(), b.shape());
    for (int64_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a.get(i), b.get(i), 1e-12 * (1 + std::fabs(a.get(i)))) << i << "\n" << w->print();
}

// Differences and sums of neighbours, taken along both dims.
const char* const kTransform =
    "op f(x[m,n]) -> y[i,j,p,q]:\n"
    "    const d[2,3] = [[1, 0, -1], [0.5, 2, 0]]\n"
    "    p in 0..m - 2\n"
    "    q in 0..n - 2\n"
    "    i in 0..2\n"
    "    j in 0..2\n"
    "    l in 0..3\n"
    "    r[i,l,p,q] = sum[k in 0..3 where d[i,k] != 0](d[i,k] * x[p + k, q + l])\n"
    "    y[i,j,p,q] = sum[k in 0..3 where d[j,k] != 0](d[j,k] * r[i,k,p,q])\n";

TEST(MathPieces, ATransformIsOnePieceForEachRowAndColumn) {
    const Program p = declared(kTransform, "7 9");
    const auto w = write_out_tables(p);
    ASSERT_TRUE(w);
    ASSERT_EQ(w->equations.size(), 4u);
    const std::string text = w->print();
    // Terms of 0 are gone, factors of 1 and -1 too; nothing is read from the table or the temporary.
    EXPECT_THAT(text, HasSubstr("x[p,q] - x[p + 2,q]"));
    EXPECT_THAT(text, Not(HasSubstr("d[")));
    EXPECT_THAT(text, Not(HasSubstr("r[")));
    for (size_t a = 0; a < 4; ++a) {
        EXPECT_EQ(w->equations[a].update, Update::Overwrite);
        for (size_t b = 0; b < 4; ++b) EXPECT_EQ(disjoint(*w, w->equations[a], w->equations[b]), a != b);
    }
    expect_same(p, {counted({7, 9})});
    // The scheduler runs all pieces in one nest, over the places alone.
    const schedule::Kernel k = schedule::form_kernel(*w);
    ASSERT_EQ(k.nests.size(), 1u);
    EXPECT_TRUE(schedule::made_of_pieces(k.program, k.nests[0]));
    EXPECT_EQ(k.nests[0].grid.size(), 2u);
}

TEST(MathPieces, AReaderOfQuotientAndRemainderIsCutIntoTheRemainders) {
    const std::string op =
        "op f(m[j,p], z[h]) -> y[h]:\n"
        "    const a[3,2] = [[1, 1], [1, -1], [0, 3]]\n"
        "    d in 0..3\n"
        "    s[d,p] = sum[j where a[d,j] != 0](a[d,j] * m[j,p])\n"
        "    y[h] = max(s[h % 3, h // 3] + 2 * z[h], 0)\n";
    // 6 results are two tiles of 3; of 7 and 8 the last tile is cut off, and what lies beside it is neither read nor written.
    for (const int64_t h : {6, 7, 8}) {
        const Program p = declared(op, "2 " + std::to_string((h + 2) / 3) + ";" + std::to_string(h));
        const auto w = write_out_tables(p);
        ASSERT_TRUE(w);
        ASSERT_EQ(w->equations.size(), 3u);
        for (const Equation& q : w->equations) EXPECT_EQ(q.outside, h == 6 ? Outside::Error : Outside::Value);
        expect_same(p, {counted({2, (h + 2) / 3}), counted({h})});
    }
}

TEST(MathPieces, OthersStayAsTheyAre) {
    // A stencil reads its table at the positions of its sum alone.
    EXPECT_FALSE(write_out_tables(declared("op f(x[m]) -> y[m]:\n    const w[3] = [1, 2, 1]\n    y[m] = sum[k](w[k] * x[m + k - 1] outside zero)\n", "9")));
    // The table's rows are as many as the tensor's.
    EXPECT_FALSE(write_out_tables(declared("op f(x[m,n], w[i,n]) -> y[m,i]:\n    y[m,i] = sum[n](w[i,n] * x[m,n])\n", "9 3;2 3")));
    // The temporary is read at places of other points.
    EXPECT_FALSE(write_out_tables(declared("op f(x[m,n]) -> y[i,n]:\n    const w[2,2] = [[1, 2], [3, 4]]\n    i in 0..2\n"
                                           "    t[i,n] = sum[k in 0..2](w[i,k] * x[k,n])\n    y[i,n] = t[i,size(n) - 1 - n] + t[i,n]\n", "2 9")));
}

}  // namespace
}  // namespace opwright::math
