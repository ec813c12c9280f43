// Convolutions with any stride, dilation, padding and groups: the derived gradients against a plain scatter.
#include "gradient_test_util.h"

namespace opwright {
namespace {
using namespace test;

struct Convolution {
    int64_t n, g, c, m, h, k, stride, dilation, begin, end, p;
};
Convolution draw(std::mt19937_64& random) {
    const auto pick = [&](int64_t low, int64_t high) {
        return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    for (;;) {
        Convolution v{pick(1, 2), pick(1, 2), pick(1, 2), pick(1, 2), pick(1, 14), pick(1, 5), pick(1, 5),
                      pick(1, 4), pick(0, 5), pick(0, 5), 0};
        const int64_t span = v.h + v.begin + v.end - v.dilation * (v.k - 1) - 1;
        if (span < 0) continue;
        v.p = span / v.stride + 1;
        return v;
    }
}
std::string str(const Convolution& v) {
    return testing::PrintToString(
        std::vector<int64_t>{v.n, v.g, v.c, v.m, v.h, v.k, v.stride, v.dilation, v.begin, v.end});
}

double worst(const Tensor& a, const std::vector<double>& b) {
    double r = a.size() == static_cast<int64_t>(b.size()) ? 0 : INFINITY;
    for (int64_t i = 0; i < a.size(); ++i) r = std::max(r, std::fabs(a.get(i) - b[static_cast<size_t>(i)]));
    return r;
}

TEST(DeriveGradientConvolution, EqualsPlainScatter) {
    std::mt19937_64 random(5);
    const lang::Library& library = lang::Library::standard();
    for (int trial = 0; trial < 2500; ++trial) {
        const Convolution v = draw(random);
        const std::vector<lang::Argument> arguments{
            {DType::F64, {v.n, v.g, v.c, v.h}}, {DType::F64, {v.g, v.m, v.c, v.k}}, {DType::F64, {}, false}};
        const auto list = [](int64_t x) { return lang::Attribute(std::vector<math::Sym>{math::Sym(x)}); };
        const auto p = library.elaborate("conv_grouped", arguments,
                                         {{"stride", list(v.stride)},
                                          {"dilation", list(v.dilation)},
                                          {"pad_begin", list(v.begin)},
                                          {"pad_end", list(v.end)}});
        ASSERT_TRUE(p.ok()) << render(p.error());
        const auto g = derive::gradient(*p);
        ASSERT_TRUE(g.ok()) << render(g.error());
        ASSERT_EQ(math::verify(g->program), std::vector<std::string>()) << str(v);
        const Tensor x = random_values(DType::F64, {v.n, v.g, v.c, v.h}, random, -1, 1);
        const Tensor w = random_values(DType::F64, {v.g, v.m, v.c, v.k}, random, -1, 1);
        const Tensor dy = random_values(DType::F64, {v.n, v.g, v.m, v.p}, random, -1, 1);
        std::vector<double> dx(static_cast<size_t>(x.size())), dw(static_cast<size_t>(w.size()));
        for (int64_t n = 0; n < v.n; ++n)
            for (int64_t gr = 0; gr < v.g; ++gr)
                for (int64_t m = 0; m < v.m; ++m)
                    for (int64_t q = 0; q < v.p; ++q)
                        for (int64_t c = 0; c < v.c; ++c)
                            for (int64_t k = 0; k < v.k; ++k) {
                                const int64_t at = v.stride * q + v.dilation * k - v.begin;
                                if (at < 0 || at >= v.h) continue;
                                const int64_t xi = ((n * v.g + gr) * v.c + c) * v.h + at,
                                              wi = ((gr * v.m + m) * v.c + c) * v.k + k;
                                const double d = dy.get(((n * v.g + gr) * v.m + m) * v.p + q);
                                dx[static_cast<size_t>(xi)] += d * w.get(wi);
                                dw[static_cast<size_t>(wi)] += d * x.get(xi);
                            }
        const auto r = derive::reference(g->program, gradient_inputs(*g, {x, w}, {dy}));
        ASSERT_TRUE(r.ok()) << render(r.error()) << str(v) << "\n" << g->program.print();
        ASSERT_LT(worst((*r)[0].value, dx), 1e-12) << str(v) << "\n" << g->program.print();
        ASSERT_LT(worst((*r)[1].value, dw), 1e-12) << str(v) << "\n" << g->program.print();
        for (const math::Equation& q : g->program.equations)
            ASSERT_EQ(q.update, math::Update::Set) << "not in gather form";
    }
}

}  // namespace
}  // namespace opwright
