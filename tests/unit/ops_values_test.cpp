// Declarations against values computed here by other means: loops as textbooks write them, the standard library's sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "derive/reference.h"
#include "lang/library.h"

namespace opwright {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

Tensor tensor(DType t, Shape s, const std::vector<double>& v) {
    Tensor out(t, std::move(s));
    EXPECT_EQ(out.size(), static_cast<int64_t>(v.size()));
    for (size_t i = 0; i < v.size(); ++i) out.set(static_cast<int64_t>(i), v[i]);
    return out;
}
Tensor f64(Shape s, const std::vector<double>& v) { return tensor(DType::F64, std::move(s), v); }
Tensor random_tensor(Shape s, unsigned seed) {
    Tensor t(DType::F64, std::move(s));
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> value(-1, 1);
    for (int64_t i = 0; i < t.size(); ++i) t.set(i, value(random));
    return t;
}
const Tensor kAbsent;

std::vector<Tensor> run(const std::string& op, const std::vector<Tensor>& arguments, const lang::Attributes& attributes = {}) {
    std::vector<lang::Argument> given;
    std::vector<Tensor> inputs;
    for (const Tensor& t : arguments) {
        if (!t.defined()) {
            given.push_back({DType::F32, {}, false});
            continue;
        }
        given.push_back({t.dtype(), std::vector<math::Sym>(t.shape().begin(), t.shape().end()), true});
        inputs.push_back(t);
    }
    const auto program = lang::Library::standard().elaborate(op, given, attributes);
    if (!program.ok()) {
        ADD_FAILURE() << render(program.error());
        return {};
    }
    const auto outputs = derive::reference(*program, inputs);
    if (!outputs.ok()) {
        ADD_FAILURE() << render(outputs.error());
        return {};
    }
    std::vector<Tensor> out;
    for (const auto& o : *outputs) out.push_back(o.value);
    return out;
}
std::vector<double> values(const Tensor& t) {
    std::vector<double> out;
    for (int64_t i = 0; i < t.size(); ++i) out.push_back(t.get(i));
    return out;
}
// One output's values.
std::vector<double> of(const std::string& op, const std::vector<Tensor>& arguments, const lang::Attributes& attributes = {}) {
    const auto out = run(op, arguments, attributes);
    return out.empty() ? std::vector<double>() : values(out[0]);
}
using math::Sym;
using Dims = std::vector<Sym>;

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance = 1e-12) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(want[i])) EXPECT_TRUE(std::isnan(got[i])) << "element " << i;
        else if (std::isinf(want[i])) EXPECT_EQ(got[i], want[i]) << "element " << i;
        else EXPECT_NEAR(got[i], want[i], tolerance) << "element " << i;
    }
}

TEST(OpsValues, SpecialValuesOfElementwiseFunctions) {
    expect_near(of("relu", {f64({4}, {-1, 2, kNaN, kInf})}), {0, 2, kNaN, kInf});
    expect_near(of("maximum", {f64({3}, {kNaN, 1, -kInf}), f64({3}, {1, kNaN, 0})}), {kNaN, kNaN, 0});
    expect_near(of("clip", {f64({4}, {-5, 0.5, 5, kNaN}), f64({}, {0}), f64({}, {1})}), {0, 0.5, 1, kNaN});
    expect_near(of("clip", {f64({1}, {3}), f64({}, {2}), f64({}, {1})}), {1});  // the upper bound wins
    expect_near(of("softplus", {f64({3}, {-1000, 0, 1000})}), {0, std::log(2.0), 1000});
    expect_near(of("log_sigmoid", {f64({2}, {-1000, 1000})}), {-1000, 0});
    expect_near(of("sigmoid", {f64({3}, {-1000, 0, 1000})}), {0, 0.5, 1});
    expect_near(of("sign", {f64({4}, {-3, 0, 5, kNaN})}), {-1, 0, 1, kNaN});
    expect_near(of("round", {f64({4}, {0.5, 1.5, 2.5, -0.5})}), {0, 2, 2, 0});
    EXPECT_TRUE(std::signbit(of("neg", {f64({1}, {0})})[0]));
    EXPECT_TRUE(std::signbit(of("copy", {f64({1}, {-0.0})})[0]));
}

TEST(OpsValues, IntegersWrapTruncateAndSaturate) {
    const auto i8 = [](const std::vector<double>& v) { return tensor(DType::I8, {static_cast<int64_t>(v.size())}, v); };
    const auto i32 = [](const std::vector<double>& v) { return tensor(DType::I32, {static_cast<int64_t>(v.size())}, v); };
    expect_near(of("add", {i8({100, -100}), i8({100, -100})}), {-56, 56});
    expect_near(of("div", {i32({7, -7, 7}), i32({2, 2, 0})}), {3, -3, 0});
    expect_near(of("floor_div", {i32({7, -7}), i32({2, 2})}), {3, -4});
    expect_near(of("mod", {i32({7, -7, 7}), i32({3, 3, -3})}), {1, 2, -2});
    expect_near(of("fmod", {i32({7, -7, 7}), i32({3, 3, -3})}), {1, -1, 1});
    expect_near(of("cast", {i32({300, -1}),}, {{"to", DType::U8}}), {44, 255});
    expect_near(of("cast_saturate", {i32({300, -1})}, {{"to", DType::U8}}), {255, 0});
    expect_near(of("cast", {f64({3}, {3.9, -3.9, kNaN})}, {{"to", DType::I32}}), {3, -3, 0});
    expect_near(of("pow", {i32({2, 3}), tensor(DType::F32, {2}, {0.5, 2})}), {1, 9});
    expect_near(of("shift_left", {tensor(DType::U8, {2}, {1, 255}), tensor(DType::U8, {2}, {9, 1})}), {0, 254});
}

TEST(OpsValues, ReductionsOfNothingAndOfInfinities) {
    const Tensor none(DType::F64, {2, 0});
    const lang::Attributes last = {{"axes", Dims{1}}};
    expect_near(of("reduce_sum", {none}, last), {0, 0});
    expect_near(of("reduce_prod", {none}, last), {1, 1});
    expect_near(of("reduce_max", {none}, last), {-kInf, -kInf});
    expect_near(of("reduce_log_sum_exp", {none}, last), {-kInf, -kInf});
    expect_near(of("reduce_log_sum_exp", {f64({2, 2}, {-kInf, -kInf, 1000, 1000})}, last), {-kInf, 1000 + std::log(2.0)});
    expect_near(of("reduce_mean", {tensor(DType::I32, {1, 2}, {-3, -4})}, last), {-3});
    expect_near(of("softmax", {f64({1, 3}, {1000, 1000, -kInf})}, last), {0.5, 0.5, 0});
    expect_near(of("log_softmax", {f64({1, 2}, {-1000, 0})}, last), {-1000, 0});
    expect_near(of("arg_max", {f64({4}, {1, 3, 3, 2})}), {1});
    expect_near(of("arg_max", {f64({4}, {1, 3, 3, 2})}, {{"last", true}}), {2});
    expect_near(of("running_sum", {f64({3}, {1, 2, 3})}, {{"exclusive", true}, {"reverse", true}}), {5, 3, 0});
}

// ---- convolutions against loops over every output, channel and tap
struct Geometry {
    int64_t size, kernel, stride, dilation, begin, end;
    int64_t out() const { return (size + begin + end - dilation * (kernel - 1) - 1) / stride + 1; }
};

TEST(OpsValues, ConvolutionsOfOneDimension) {
    for (const Geometry g : {Geometry{7, 3, 1, 1, 1, 1}, {8, 3, 2, 1, 0, 1}, {9, 2, 3, 2, 2, 0}, {5, 5, 1, 1, 0, 0}, {4, 1, 2, 1, 0, 0}}) {
        const Tensor x = random_tensor({2, 3, g.size}, 1), w = random_tensor({4, 3, g.kernel}, 2), b = random_tensor({4}, 3);
        std::vector<double> want;
        for (int64_t n = 0; n < 2; ++n)
            for (int64_t m = 0; m < 4; ++m)
                for (int64_t p = 0; p < g.out(); ++p) {
                    double s = b.get(m);
                    for (int64_t c = 0; c < 3; ++c)
                        for (int64_t k = 0; k < g.kernel; ++k) {
                            const int64_t at = p * g.stride + k * g.dilation - g.begin;
                            if (at >= 0 && at < g.size) s += x.get((n * 3 + c) * g.size + at) * w.get((m * 3 + c) * g.kernel + k);
                        }
                    want.push_back(s);
                }
        const lang::Attributes lists = {{"stride", Dims{g.stride}}, {"dilation", Dims{g.dilation}}, {"pad_begin", Dims{g.begin}}, {"pad_end", Dims{g.end}}};
        expect_near(of("conv", {x, w, b}, lists), want);
        // One group of the grouped form is the same.
        expect_near(of("conv_grouped", {x.reshaped({2, 1, 3, g.size}), w.reshaped({1, 4, 3, g.kernel}), b.reshaped({1, 4})}, lists), want);
        // A kernel for each channel: groups of one channel.
        const Tensor own = random_tensor({3, g.kernel}, 4);
        expect_near(of("conv_depthwise", {x, own, kAbsent}, lists),
                    of("conv_grouped", {x.reshaped({2, 3, 1, g.size}), own.reshaped({3, 1, 1, g.kernel}), kAbsent}, lists));
    }
}

// On real numbers, as the reference all but computes, Winograd's form is the convolution.
TEST(OpsValues, WinogradsFormIsTheConvolution) {
    for (const int64_t tile : {2, 4})
        for (const Shape& size : {Shape{7, 9}, Shape{4, 4}, Shape{1, 6}})
            for (const int64_t pad : {0, 1, 2}) {
                const int64_t height = size[0] + 2 * pad - 2, width = size[1] + 2 * pad - 2;
                if (height < 1 || width < 1) continue;
                const Tensor x = random_tensor({2, 3, size[0], size[1]}, 1), w = random_tensor({4, 3, 3, 3}, 2);
                const lang::Attribute t = Sym(tile);
                const Tensor u = run("winograd_filter", {w}, {{"tile", t}})[0];
                const Tensor v = run("winograd_input", {x}, {{"tile", t}, {"pad_begin", Dims{pad, pad}}, {"pad_end", Dims{pad, pad}}})[0];
                const Tensor m = run("winograd_product", {v, u})[0];
                const Tensor y = run("winograd_output", {m}, {{"tile", t}, {"height", Sym(height)}, {"width", Sym(width)}})[0];
                const Tensor direct = run("conv", {x, w, kAbsent}, {{"pad_begin", Dims{pad, pad}}, {"pad_end", Dims{pad, pad}}})[0];
                ASSERT_EQ(y.shape(), direct.shape());
                expect_near(values(y), values(direct));
            }
}

// Adds each input's multiple of the kernel to the output, as the definition says.
std::vector<double> scattered(const Tensor& x, const Tensor& w, int64_t stride, int64_t dilation, int64_t begin, int64_t end, int64_t extra) {
    const int64_t c = x.shape()[2], n = x.shape()[3], m = w.shape()[2], taps = w.shape()[3];
    const int64_t out = stride * (n - 1) + extra + dilation * (taps - 1) + 1 - begin - end;
    std::vector<double> y(static_cast<size_t>(m * out), 0.0);
    for (int64_t i = 0; i < c; ++i)
        for (int64_t q = 0; q < n; ++q)
            for (int64_t o = 0; o < m; ++o)
                for (int64_t k = 0; k < taps; ++k) {
                    const int64_t at = stride * q + dilation * k - begin;
                    if (at >= 0 && at < out) y[static_cast<size_t>(o * out + at)] += x.get(i * n + q) * w.get((i * m + o) * taps + k);
                }
    return y;
}

TEST(OpsValues, TransposedConvolutionsScatter) {
    struct Case { int64_t kernel, stride, begin, end, extra; };
    for (const Case k : {Case{2, 2, 0, 0, 0}, {3, 2, 1, 1, 1}, {2, 3, 0, 0, 0}, {5, 2, 2, 1, 0}, {1, 2, 0, 0, 1}, {3, 1, 1, 1, 0}, {4, 4, 1, 2, 3}, {3, 2, 3, 0, 0}}) {
        const Tensor x = random_tensor({1, 1, 2, 5}, 5), w = random_tensor({1, 2, 3, k.kernel}, 6);
        lang::Attributes a = {{"stride", Dims{k.stride}}, {"pad_begin", Dims{k.begin}}, {"pad_end", Dims{k.end}}, {"extra", Dims{k.extra}}};
        expect_near(of("conv_transpose", {x, w, kAbsent}, a), scattered(x, w, k.stride, 1, k.begin, k.end, k.extra));
        for (int64_t dilation : {1, 2}) {
            a["dilation"] = Dims{dilation};
            expect_near(of("conv_transpose_dilated", {x, w, kAbsent}, a), scattered(x, w, k.stride, dilation, k.begin, k.end, k.extra));
        }
    }
}

TEST(OpsValues, PoolingAtTheEdges) {
    const Tensor x = f64({1, 1, 6}, {1, 5, -2, 4, 3, -7});
    const lang::Attributes ceil = {{"kernel", Dims{3}}, {"stride", Dims{2}}, {"ceil_mode", true}};
    expect_near(of("max_pool", {x}, ceil), {5, 4, 3});               // the last window has two elements
    expect_near(of("average_pool", {x}, ceil), {4.0 / 3, 5.0 / 3, -2});
    const lang::Attributes padded = {{"kernel", Dims{3}}, {"stride", Dims{3}}, {"pad_begin", Dims{1}}, {"pad_end", Dims{1}}};
    expect_near(of("average_pool", {x}, padded), {3, 5.0 / 3});
    lang::Attributes counted = padded;
    counted["include_pad"] = true;
    expect_near(of("average_pool", {x}, counted), {2, 5.0 / 3});
    expect_near(of("max_pool", {tensor(DType::U8, {1, 1, 2}, {0, 0})}, {{"kernel", Dims{2}}, {"pad_begin", Dims{1}}}), {0, 0});
    // A window that would start in the right padding does not count.
    expect_near(of("max_pool", {f64({1, 1, 4}, {1, 2, 3, 4})}, {{"kernel", Dims{2}}, {"stride", Dims{3}}, {"pad_end", Dims{1}}, {"ceil_mode", true}}), {2, 4});
    const auto with_places = run("max_pool_indices", {f64({1, 2, 2, 2}, {1, 2, 4, 3, 9, 8, 7, 6})},
                                 {{"kernel", Dims{2, 2}}, {"weights", Dims{2, 1}}, {"image", 4}, {"later", Dims{2, 1}}});
    ASSERT_EQ(with_places.size(), 2u);
    expect_near(values(with_places[1]), {2, 4});
}

TEST(OpsValues, SortingIsStableAndMedianIsTheMiddle) {
    std::mt19937 random(3);
    for (int64_t n : {1, 2, 7, 16}) {
        std::vector<double> v(static_cast<size_t>(n));
        for (double& e : v) e = static_cast<double>(random() % 5);
        std::vector<size_t> order(v.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return v[a] > v[b]; });
        const auto got = run("sort", {f64({n}, v)}, {{"descending", true}});
        ASSERT_EQ(got.size(), 2u);
        std::vector<double> places(order.begin(), order.end());
        expect_near(values(got[1]), places);
        std::vector<double> sorted = v;
        std::sort(sorted.begin(), sorted.end());
        expect_near(of("median", {f64({n}, v)}), {sorted[(v.size() - 1) / 2]});
    }
}

TEST(OpsValues, GatherAndScatterAreEachOthersOpposite) {
    const Tensor x = random_tensor({4, 3}, 8);
    const Tensor at = tensor(DType::I64, {2, 3}, {-1, 0, 2, 1, -2, 0});
    const Tensor picked = run("gather_elements", {x, at}).at(0);
    expect_near(values(picked), {x.get(9), x.get(1), x.get(8), x.get(3), x.get(7), x.get(2)});
    expect_near(of("scatter_elements", {x, at, picked}), values(x));
    expect_near(of("scatter_elements", {f64({3}, {1, 1, 1}), tensor(DType::I64, {3}, {1, 1, 0}), f64({3}, {2, 3, 4})}, {{"reduction", std::string("add")}}), {5, 6, 1});
    expect_near(of("scatter_elements", {f64({2}, {0, 0}), tensor(DType::I64, {2}, {1, 1}), f64({2}, {2, 3})}), {0, 3});  // the last wins
    expect_near(of("gather_nd", {f64({2, 2}, {0, 1, 2, 3}), tensor(DType::I64, {2, 2}, {0, 0, 1, -1})}, {{"depth", 2}}), {0, 3});
    expect_near(of("one_hot", {tensor(DType::I64, {3}, {1, -1, 7}), f64({}, {0}), f64({}, {1})}, {{"axis", 1}, {"depth", 3}}), {0, 1, 0, 0, 0, 1, 0, 0, 0});
}

TEST(OpsValues, PaddingModes) {
    const Tensor x = f64({4}, {1, 2, 3, 4});
    const auto around = [&](const char* mode) { return of("pad_from_inside", {x}, {{"begin", Dims{3}}, {"end", Dims{2}}, {"mode", std::string(mode)}}); };
    expect_near(around("clamp"), {1, 1, 1, 1, 2, 3, 4, 4, 4});
    expect_near(around("reflect"), {4, 3, 2, 1, 2, 3, 4, 3, 2});
    expect_near(around("mirror"), {3, 2, 1, 1, 2, 3, 4, 4, 3});
    expect_near(around("wrap"), {2, 3, 4, 1, 2, 3, 4, 1, 2});
    expect_near(of("pad", {x, f64({}, {9})}, {{"begin", Dims{-1}}, {"end", Dims{1}}}), {2, 3, 4, 9});
}

TEST(OpsValues, ResamplingALine) {
    const Tensor x = f64({4}, {0, 1, 2, 3});
    const auto with = [&](const char* op, lang::Attributes a) {
        a["axis"] = 0;
        return of(op, {x}, a);
    };
    expect_near(with("resize_nearest", {{"count", 8}, {"map", std::string("asymmetric")}, {"nearest", std::string("floor")}}), {0, 0, 1, 1, 2, 2, 3, 3});
    expect_near(with("resize_interpolate", {{"count", 7}, {"map", std::string("align_corners")}}), {0, 0.5, 1, 1.5, 2, 2.5, 3});
    expect_near(with("resize_interpolate", {{"count", 8}}), {0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3});
    // A cubic kernel reproduces the samples themselves.
    expect_near(with("resize_interpolate", {{"count", 4}, {"kernel", std::string("cubic")}, {"taps", 4}}), {0, 1, 2, 3});
    // Antialiasing by 2 weighs four neighbours 1 3 3 1; at the ends the edge repeats.
    expect_near(with("resize_interpolate", {{"count", 2}, {"taps", 4}, {"shrink", 0.5}, {"renormalise", true}}), {(0 + 0 + 3 * 1 + 2) / 8.0, (1 + 3 * 2 + 3 * 3 + 3) / 8.0});
}

TEST(OpsValues, LossesWeighAndIgnore) {
    const Tensor x = f64({2, 3}, {0, 0, 0, 0, std::log(2.0), 0});
    const Tensor t = tensor(DType::I64, {2}, {0, 1});
    const double a = std::log(3.0), b = std::log(2.0);  // -log(1/3) and -log(2/4)
    expect_near(of("cross_entropy", {x, t, kAbsent}), {a, b});
    const Tensor log_p = run("log_softmax", {x}, {{"axes", Dims{1}}}).at(0);
    const Tensor w = f64({3}, {1, 3, 1});
    expect_near(of("nll_loss_total", {log_p, t, w}), {(a + 3 * b) / 4});
    expect_near(of("nll_loss_total", {log_p, t, kAbsent}, {{"ignore", 0}}), {b});
    expect_near(of("nll_loss", {log_p, tensor(DType::I64, {2}, {-100, 1}), kAbsent}, {{"ignore", -100}}), {0, b});  // ignored targets may name no class
}

TEST(OpsValues, NormalisationsHaveMeanZeroAndVarianceOne) {
    const Tensor x = random_tensor({3, 8}, 9);
    const auto y = of("layer_norm", {x, kAbsent, kAbsent}, {{"stash", DType::F64}, {"epsilon", 0.0}});
    for (size_t r = 0; r < 3; ++r) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < 8; ++i) mean += y[r * 8 + i] / 8;
        for (size_t i = 0; i < 8; ++i) square += y[r * 8 + i] * y[r * 8 + i] / 8;
        EXPECT_NEAR(mean, 0, 1e-12);
        EXPECT_NEAR(square, 1, 1e-12);
    }
    // A large offset does not disturb the variance: two passes.
    Tensor far = x.clone();
    for (int64_t i = 0; i < far.size(); ++i) far.set(i, x.get(i) + 1e6);
    expect_near(of("layer_norm", {far, kAbsent, kAbsent}, {{"stash", DType::F64}, {"epsilon", 0.0}}), y, 1e-8);
}

TEST(OpsValues, FourierTransformAndBack) {
    const Tensor x = random_tensor({6, 2}, 10);
    const Tensor f = run("dft", {x}, {{"count", 6}}).at(0);
    expect_near(of("dft", {f}, {{"count", 6}, {"inverse", true}}), values(x));
    const Tensor real = random_tensor({7}, 11);
    const Tensor half = run("dft_real", {real}, {{"count", 7}, {"bins", 4}}).at(0);
    expect_near(of("idft_real", {half}, {{"count", 7}}), values(real));
}

TEST(OpsValues, AttentionServesGroupsAndMasks) {
    // One query that equals the first of two orthogonal keys, strongly scaled, reads the first value; causal, the second query reads both.
    const Tensor q = f64({1, 1, 1, 2, 2}, {1, 0, 0, 1}), k = f64({1, 1, 2, 2}, {1, 0, 0, 1}), v = f64({1, 1, 2, 1}, {10, 20});
    expect_near(of("attention", {q, k, v, kAbsent, kAbsent}, {{"scale", 1000.0}}), {10, 20});
    const auto causal = of("attention", {q, k, v, kAbsent, kAbsent}, {{"scale", 0.0}, {"causal", true}});
    expect_near(causal, {10, 15});
}

TEST(OpsValues, PicturesOfAStep) {
    Tensor x(DType::F64, {5, 6});
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, i % 6 < 3 ? 0 : 1);
    const auto edges = of("sobel", {x});
    for (int64_t i = 0; i < 30; ++i) EXPECT_NEAR(edges[static_cast<size_t>(i)], i % 6 == 2 || i % 6 == 3 ? 1 / std::sqrt(2.0) : 0, 1e-12);
    Tensor dot(DType::F64, {9, 9});
    for (int64_t i = 0; i < dot.size(); ++i) dot.set(i, i == 40 ? 1 : 0);
    const auto blurred = of("gaussian", {dot});
    EXPECT_NEAR(std::accumulate(blurred.begin(), blurred.end(), 0.0), 1, 1e-12);
    EXPECT_NEAR(blurred[40] / blurred[41], std::exp(0.5), 1e-12);
    expect_near(of("median_filter", {dot}), std::vector<double>(81, 0.0));  // a single dot is noise
    // Candidates of Canny: a vertical step is one thin line of strong edges away from the border.
    Tensor step(DType::F64, {12, 12});
    for (int64_t i = 0; i < step.size(); ++i) step.set(i, i % 12 < 6 ? 0 : 1);
    const auto candidates = of("canny_candidates", {step});
    for (int64_t r = 1; r < 11; ++r) {
        int strong = 0;
        for (int64_t c = 0; c < 12; ++c) strong += candidates[static_cast<size_t>(r * 12 + c)] == 2;
        EXPECT_GE(strong, 1);
        EXPECT_LE(strong, 2);
    }
    const auto grown = run("hysteresis_step", {tensor(DType::U8, {1, 4}, {2, 1, 1, 0})});
    ASSERT_EQ(grown.size(), 2u);
    expect_near(values(grown[0]), {2, 2, 1, 0});
    expect_near(values(grown[1]), {1});
}

}  // namespace
}  // namespace opwright
