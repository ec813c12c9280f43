// Long rows of which the beginning stays on the chip: what is cut, and that both parts together are the whole.
#include "schedule/hold_beginning.h"

#include <gtest/gtest.h>

#include "lang/library.h"
#include "math/localise.h"
#include "schedule/block_kernel.h"

namespace opwright::schedule {
namespace {

CutKernel cut(const std::string& declaration) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"test.op", "op f" + declaration})).ok());
    const auto p = library.elaborate_symbolic("f");
    EXPECT_TRUE(p.ok()) << declaration;
    return hold_beginning(form_block_kernel(math::localise(*p).program, true), 64);
}

TEST(HoldBeginning, FoldsAndMapsHaveTwoParts) {
    const CutKernel k = cut("(x[m,n], w[n]) -> y[m,n]:\n    s[m] = sum[n](x[m,n] * x[m,n])\n"
                            "    y[m,n] = x[m,n] * s[m] * w[n]\n");
    ASSERT_EQ(k.cuts.size(), 1u);
    EXPECT_EQ(k.kernel.program.print(),
              "s[m] = sum[n_held](x[m,n_held] * x[m,n_held]) + sum[n](x[m,n + 64] * x[m,n + 64])\n"
              "y[m,n_held] = x[m,n_held] * s[m] * w[n_held]\n"
              "y[m,n + 64] = x[m,n + 64] * s[m] * w[n + 64]\n");
    EXPECT_EQ(k.kernel.program.vars[k.cuts[0].beginning].extent.str(), "64");
    EXPECT_EQ(k.kernel.nests[0].equations.size(), 3u);
}

TEST(HoldBeginning, OnlyWhereOneTensorOfF32IsReadAgain) {
    EXPECT_TRUE(cut("(x[m,n]) -> y[m]:\n    y[m] = sum[n](x[m,n])\n").cuts.empty());
    EXPECT_TRUE(cut("(x: bf16[m,n]) -> y: f32[m,n]:\n    s[m] = sum[n; f32](x[m,n])\n"
                    "    y[m,n] = cast(x[m,n], f32) * s[m]\n")
                    .cuts.empty());
    EXPECT_TRUE(cut("(x[m,n], z[m,n]) -> y[m,n]:\n    s[m] = sum[n](x[m,n] * z[m,n])\n"
                    "    y[m,n] = (x[m,n] - s[m]) * z[m,n]\n")
                    .cuts.empty());
    EXPECT_TRUE(cut("(x[m,n]) -> y[m,n]:\n    h[m] = max[n](x[m,n])\n    s[m] = sum[n](exp(x[m,n] - h[m]))\n"
                    "    y[m,n] = exp(x[m,n] - h[m]) / s[m]\n")
                    .cuts.empty());
    EXPECT_TRUE(cut("(x[m,n]) -> y[m,n]:\n    p[m] = argmax[n](x[m,n])\n    y[m,n] = select(p[m] == n, x[m,n], 0)\n")
                    .cuts.empty());
}

}  // namespace
}  // namespace opwright::schedule
