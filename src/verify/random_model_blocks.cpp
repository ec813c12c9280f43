// Random models: products, windows, norms, and groups of operators as exporters write them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "verify/random_model_maker.h"

namespace opwright::verify::models {

// ---- products of matrices

V Maker::linear_of(V x, int64_t width) {
    const int64_t k = shape(x).back().n;
    Extents s = shape(x);
    s.back() = {width, ""};
    const double scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(k, 1)));
    V y;
    if (rank(x) == 2 && chance(2)) {
        const bool turned = chance(2), bias = chance(2);
        const V w = weight(turned ? Shape{width, k} : Shape{k, width}, scale);
        std::vector<V> in = {x, w};
        if (bias) in.push_back(weight({width}));
        Attributes a = {{"transB", static_cast<int64_t>(turned)}};
        if (chance(4)) a.push_back({"alpha", 0.5});
        return op("Gemm", in, s, a);
    }
    if (chance(4)) {
        const V w = weight({width, k}, scale);
        y = op("MatMul", {x, permuted(w, {1, 0})}, s);
    } else {
        y = op("MatMul", {x, weight({k, width}, scale)}, s);
    }
    if (chance(2)) return y;
    const V bias = weight({width});
    return chance(2) ? add("Add", y, bias) : add("Add", bias, y);
}
bool Maker::linear() {
    const auto x = some([&](V v) { return type(v) == stored_ && rank(v) >= 2 && !shape(v).back().open() && shape(v).back().n > 0; });
    if (!x) return false;
    const int64_t width = chance(2) ? shape(*x).back().n : any_of({1, 3, 4, 8, 15, 16, 17, 32, 33});
    if (count(shape(*x)) * width > kMostWork) return false;
    const V y = linear_of(*x, width);
    if (shape(y) == shape(*x) && chance(3)) add("Add", *x, y);
    return true;
}
// Of two values of the model.
bool Maker::product() {
    const auto x = some_float(2);
    if (!x) return false;
    std::vector<int64_t> order(rank(*x));
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    const Extents s = shape(*x);
    std::vector<V> others;  // that have as many rows as x has columns
    for (V v = 0; v < values_.size(); ++v)
        if (!values_[v].constant && type(v) == type(*x) && rank(v) >= 2 && shape(v)[rank(v) - 2] == s.back()) others.push_back(v);
    const bool itself = others.empty() || chance(2);
    const V y = itself ? permuted(*x, order) : any(others);
    const auto batch = broadcast({s.begin(), s.end() - 2}, {shape(y).begin(), shape(y).end() - 2});
    if (!batch) return false;
    Extents r = *batch;
    r.push_back(s[s.size() - 2]);
    r.push_back(shape(y).back());
    if (count(r) > kMostElements || count(r) * s.back().n > kMostWork) return false;
    op("MatMul", {*x, y}, r);
    return true;
}

// Letters for the dims of two values, some of them shared, and any of the letters in any order for the result.
bool Maker::einsum() {
    const auto x = some([&](V v) { return floats(v) && rank(v) >= 1 && rank(v) <= 4; });
    if (!x) return false;
    const auto y = some([&](V v) { return type(v) == type(*x) && rank(v) >= 1 && rank(v) <= 4; });
    std::string letters, first, second, result;
    std::vector<Extent> extents;
    const auto fresh_letter = [&](const Extent& e) {
        letters += static_cast<char>('a' + letters.size());
        extents.push_back(e);
        return letters.back();
    };
    for (const Extent& e : shape(*x)) first += fresh_letter(e);
    for (const Extent& e : shape(*y)) {
        std::string alike;  // that have this extent, and are not in the second term yet
        for (size_t i = 0; i < first.size(); ++i)
            if (extents[i] == e && second.find(first[i]) == std::string::npos) alike += first[i];
        second += alike.empty() || chance(4) ? fresh_letter(e) : alike[pick(alike.size())];
    }
    int64_t work = 1;
    for (const Extent& e : extents) work *= e.n;
    if (work > kMostWork) return false;
    for (char c : letters)
        if (!chance(3)) result.insert(result.begin() + static_cast<std::ptrdiff_t>(pick(result.size() + 1)), c);
    Extents s;
    for (char c : result) s.push_back(extents[static_cast<size_t>(c - 'a')]);
    if (s.size() > 5 || count(s) > kMostElements) return false;
    const double depth = static_cast<double>(work) / static_cast<double>(std::max<int64_t>(count(s), 1));
    scaled(op("Einsum", {*x, *y}, s, {{"equation", first + "," + second + "->" + result}}), 1 / std::sqrt(std::max(depth, 1.0)));
    return true;
}

// ---- softmax and norms

bool Maker::softmax() {
    const auto x = some_float(1);
    if (!x) return false;
    const size_t axis = chance(2) ? rank(*x) - 1 : pick(rank(*x));
    const std::string t = chance(5) ? "LogSoftmax" : "Softmax";
    op(t, {*x}, shape(*x), {{"axis", maybe_negative(axis, rank(*x))}});
    return true;
}
// Down the columns and along the rows, as in a normalised attention.
bool Maker::softmax_twice() {
    const auto x = some_float(2);
    if (!x) return false;
    size_t first = rank(*x) - 1, second = pick(rank(*x) - 1);
    if (chance(2)) std::swap(first, second);
    V y = op("Softmax", {*x}, shape(*x), {{"axis", static_cast<int64_t>(first)}});
    if (chance(2)) y = scaled(y, 2);
    if (chance(3)) reduced("ReduceMax", y, {static_cast<int64_t>(second)}, chance(2), Kind::Exact);
    else op("Softmax", {y}, shape(y), {{"axis", static_cast<int64_t>(second)}});
    return true;
}
bool Maker::norm() {
    const auto x = some([&](V v) { return type(v) == stored_ && rank(v) >= 1 && !shape(v).back().open(); });
    if (!x) return false;
    const Extents s = shape(*x);
    const int64_t n = s.back().n;
    const uint64_t kind = pick(6);
    if (kind < 3) {
        const size_t axis = s.size() >= 2 && closed({s.end()[-2]}) && chance(4) ? s.size() - 2 : s.size() - 1;
        const Shape w = numbers({s.begin() + static_cast<std::ptrdiff_t>(axis), s.end()});
        const V scale = weight(w, 0.3, 1);
        const V bias = chance(2) ? weight(w) : kNoValue;
        op("LayerNormalization", {*x, scale, bias}, s, {{"axis", maybe_negative(axis, s.size())}});
    } else if (kind == 3) {
        op("RMSNormalization", {*x, weight({n}, 0.3, 1)}, s, {{"axis", int64_t{-1}}});
    } else if (kind == 4) {
        const auto axis = static_cast<int64_t>(pick(s.size()));
        op("LpNormalization", {shifted(*x, 0.1)}, s, {{"axis", axis}, {"p", int64_t{2}}});
    } else {
        if (s.size() < 3 || s[1].open() || s[1].n == 0) return false;
        const int64_t c = s[1].n;
        const V scale = weight({c}, 0.3, 1), bias = weight({c});
        if (chance(2)) op("InstanceNormalization", {*x, scale, bias}, s);
        else op("GroupNormalization", {*x, scale, bias}, s, {{"num_groups", c % 2 == 0 ? c / 2 : 1}});
    }
    return true;
}
bool Maker::norm_by_parts() {
    const auto x = some_float(1);
    if (!x) return false;
    const auto axes = some_axes(rank(*x));
    const Extents s = shape(*x);
    const V mean = reduced("ReduceMean", *x, axes, true);
    const V d = add("Sub", *x, mean);
    const V again = chance(3) ? add("Sub", *x, mean) : d;  // some exporters write it twice
    const V square = chance(2) ? op("Mul", {again, again}, s) : op("Pow", {again, number(2, type(*x))}, s);
    const V variance = reduced("ReduceMean", square, axes, true);
    const V deviation = op("Sqrt", {shifted(variance, 1e-2)}, shape(variance));
    V y = chance(2) ? add("Div", d, deviation) : add("Mul", d, op("Reciprocal", {deviation}, shape(deviation)));
    if (type(*x) != stored_ || s.back().open() || chance(2)) return true;
    const V scale = weight({s.back().n}, 0.3, 1), bias = weight({s.back().n});
    y = add("Mul", y, scale);
    add("Add", y, bias);
    return true;
}
bool Maker::activation_by_parts() {
    const auto x = some_float();
    if (!x) return false;
    const Extents s = shape(*x);
    switch (pick(4)) {
        case 0: {  // swish
            const V gate = op("Sigmoid", {*x}, s);
            add("Mul", *x, gate);
            break;
        }
        case 1: {  // gelu by erf
            const V inner = shifted(op("Erf", {scaled(*x, std::sqrt(0.5))}, s), 1);
            scaled(add("Mul", *x, inner), 0.5);
            break;
        }
        case 2: {  // gelu by tanh
            const V cube = op("Pow", {*x, number(3, type(*x))}, s);
            const V inner = scaled(add("Add", *x, scaled(cube, 0.044715)), 0.7978845608);
            const V outer = shifted(op("Tanh", {inner}, s), 1);
            add("Mul", scaled(*x, 0.5), outer);
            break;
        }
        default: {  // hard swish
            const V gate = op("Clip", {shifted(*x, 3), number(0, type(*x)), number(6, type(*x))}, s, {}, Kind::Exact);
            scaled(add("Mul", *x, gate), 1.0 / 6);
        }
    }
    return true;
}
bool Maker::softmax_by_parts() {
    const auto x = some_float(1);
    if (!x) return false;
    const std::vector<int64_t> axis = {static_cast<int64_t>(chance(2) ? rank(*x) - 1 : pick(rank(*x)))};
    const V e = op("Exp", {add("Sub", *x, reduced("ReduceMax", *x, axis, true, Kind::Exact))}, shape(*x));
    add("Div", e, reduced("ReduceSum", e, axis, true));
    return true;
}
bool Maker::attention() {
    const auto x = some([&](V v) {
        return type(v) == stored_ && rank(v) == 3 && !shape(v)[2].open() && shape(v)[2].n >= 4 && shape(v)[2].n % 2 == 0 && count(shape(v)) > 0;
    });
    if (!x) return false;
    const Extents s = shape(*x);
    const int64_t d = s[2].n, heads = d % 4 == 0 && chance(2) ? 4 : 2, e = d / heads;
    if (count(s) * s[1].n * heads > kMostWork) return false;
    V part[3];
    const bool one = chance(3);  // product for the three
    V all = kNoValue;
    std::vector<V> three;
    if (one) {
        all = linear_of(*x, 3 * d);
        three = ops("Split", {all, ints({d, d, d})}, {s, s, s}, {{"axis", int64_t{-1}}}, Kind::Exact);
    }
    for (size_t i = 0; i < 3; ++i) {
        part[i] = one ? three[i] : linear_of(*x, d);
        part[i] = op("Reshape", {part[i], ints({0, 0, heads, e})}, {s[0], s[1], {heads, ""}, {e, ""}}, {}, Kind::Exact);
        part[i] = permuted(part[i], i == 1 ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3});
    }
    const bool before = chance(2);
    const double scale = 1 / std::sqrt(static_cast<double>(e));
    if (before) part[0] = scaled(part[0], scale);
    V scores = op("MatMul", {part[0], part[1]}, {s[0], {heads, ""}, s[1], s[1]});
    if (!before) scores = scaled(scores, scale);
    if (!s[1].open() && chance(2)) {
        const V mask = weight({s[1].n, s[1].n});
        scores = add("Add", scores, mask);
    }
    scores = op("Softmax", {scores}, shape(scores), {{"axis", int64_t{-1}}});
    V y = op("MatMul", {scores, part[2]}, {s[0], {heads, ""}, s[1], {e, ""}});
    y = op("Reshape", {permuted(y, {0, 2, 1, 3}), ints({0, 0, d})}, s, {}, Kind::Exact);
    if (chance(2)) add("Add", *x, linear_of(y, d));
    return true;
}

// ---- pictures

bool Maker::conv() {
    const auto x = some([&](V v) { return type(v) == stored_ && rank(v) == 4 && !shape(v)[1].open() && shape(v)[1].n > 0; });
    if (!x) return false;
    Extents s = shape(*x);
    const int64_t c = s[1].n;
    const uint64_t kind = pick(4);
    int64_t groups = 1, out = chance(3) ? c : any_of({1, 3, 4, 8, 15, 16, 17});
    if (kind == 0) groups = c, out = c * any_of({1, 1, 2});  // depthwise
    if (kind == 1 && c % 2 == 0) groups = 2, out = 2 * any_of({1, 2, 4, 8});
    const int64_t k = any_of({1, 1, 2, 3, 3, 5}), stride = any_of({1, 1, 1, 2}), dilation = any_of({1, 1, 1, 2});
    const int64_t pad = k % 2 && chance(2) ? dilation * (k / 2) : static_cast<int64_t>(pick(2));
    for (size_t i : {size_t{2}, size_t{3}}) {
        const int64_t room = s[i].n + 2 * pad - dilation * (k - 1) - 1;
        if (room < 0) return false;
        if (room / stride + 1 != s[i].n || (s[i].open() && (stride != 1 || 2 * pad != dilation * (k - 1)))) s[i] = derived(s[i], room / stride + 1);
    }
    s[1] = {out, ""};
    if (count(s) > kMostElements || count(s) * (c / groups) * k * k > kMostWork) return false;
    std::vector<V> in = {*x, weight({out, c / groups, k, k}, 1 / std::sqrt(static_cast<double>(c / groups * k * k)))};
    if (chance(2)) in.push_back(weight({out}));
    const V y = op("Conv", in, s, {{"kernel_shape", std::vector<int64_t>{k, k}}, {"strides", std::vector<int64_t>{stride, stride}},
                                   {"dilations", std::vector<int64_t>{dilation, dilation}}, {"pads", std::vector<int64_t>{pad, pad, pad, pad}}, {"group", groups}});
    if (chance(3)) op("Relu", {y}, s, {}, Kind::Exact);
    if (shape(*x) == s && chance(3)) add("Add", y, *x);
    return true;
}
V Maker::conv_of(V x, int64_t out, int64_t k, int64_t groups) {
    Extents s = shape(x);
    const int64_t depth = s[1].n / groups * k * k;
    s[1] = {out, ""};
    std::vector<V> in = {x, weight({out, depth / (k * k), k, k}, 1 / std::sqrt(static_cast<double>(depth)))};
    if (chance(2)) in.push_back(weight({out}));
    return op("Conv", in, s, {{"kernel_shape", std::vector<int64_t>{k, k}}, {"pads", std::vector<int64_t>(4, k / 2)}, {"group", groups}});
}
// A block of a network for pictures: wider, each channel by itself, narrower, beside the way around it.
bool Maker::bottleneck() {
    const auto x = some([&](V v) { return type(v) == stored_ && rank(v) == 4 && !shape(v)[1].open() && shape(v)[1].n > 0 && count(shape(v)) > 0; });
    if (!x) return false;
    const Extents s = shape(*x);
    const int64_t c = s[1].n, wide = any_of({c, 2 * c, 16}), points = count(s) / c;
    if (points * wide * (2 * c + 9) > 2 * kMostWork || points * wide > kMostElements) return false;
    V y = chance(3) ? *x : conv_of(*x, wide, 1, 1);
    if (chance(2)) y = op("Clip", {y, number(0), number(6)}, shape(y), {}, Kind::Exact);
    const int64_t channels = shape(y)[1].n;
    y = conv_of(y, channels, any_of({3, 3, 5}), channels);
    if (chance(2)) y = op("Relu", {y}, shape(y), {}, Kind::Exact);
    if (chance(3)) {
        const V gate = op("Sigmoid", {op("GlobalAveragePool", {y}, {s[0], shape(y)[1], {1, ""}, {1, ""}})}, {s[0], shape(y)[1], {1, ""}, {1, ""}});
        y = add("Mul", y, gate);
    }
    y = conv_of(y, c, chance(3) ? 3 : 1, 1);
    if (chance(2)) add("Add", y, *x);
    return true;
}
// Along one axis; or the other way round, as decoders do.
bool Maker::conv_of_rows() {
    if (chance(2)) {
        const auto x = some([&](V v) { return type(v) == stored_ && rank(v) == 3 && !shape(v)[1].open() && shape(v)[1].n > 0 && shape(v)[2].n > 0; });
        if (!x) return false;
        Extents s = shape(*x);
        const int64_t c = s[1].n, out = any_of({1, 4, 16, 17});
        s[1] = {out, ""};
        if (count(s) * c * 3 > kMostWork) return false;
        op("Conv", {*x, weight({out, c, 3}, 1 / std::sqrt(static_cast<double>(c * 3)))}, s, {{"kernel_shape", std::vector<int64_t>{3}}, {"pads", std::vector<int64_t>{1, 1}}});
        return true;
    }
    const auto x = some([&](V v) { return type(v) == stored_ && rank(v) == 4 && !shape(v)[1].open() && count(shape(v)) > 0; });
    if (!x) return false;
    Extents s = shape(*x);
    const int64_t c = s[1].n, out = any_of({1, 3, 8}), k = any_of({2, 3, 4});
    s = {s[0], {out, ""}, derived(s[2], (s[2].n - 1) * 2 + k), derived(s[3], (s[3].n - 1) * 2 + k)};
    if (count(s) > kMostElements || count(s) * c * k * k > kMostWork) return false;
    op("ConvTranspose", {*x, weight({c, out, k, k}, 1 / std::sqrt(static_cast<double>(c * 4)))}, s,
       {{"kernel_shape", std::vector<int64_t>{k, k}}, {"strides", std::vector<int64_t>{2, 2}}});
    return true;
}
bool Maker::pool() {
    const auto x = some([&](V v) { return floats(v) && rank(v) == 4 && count(shape(v)) > 0; });
    if (!x) return false;
    Extents s = shape(*x);
    if (chance(3)) {
        static const std::vector<std::string> types = {"GlobalAveragePool", "GlobalMaxPool"};
        const std::string t = any(types);
        const V y = op(t, {*x}, {s[0], s[1], {1, ""}, {1, ""}}, {}, t == "GlobalMaxPool" ? Kind::Exact : Kind::Rounds);
        if (chance(2)) add("Mul", *x, op("Sigmoid", {y}, shape(y)));  // as squeeze and excitation
        return true;
    }
    const int64_t k = any_of({2, 3}), stride = any_of({1, 2}), pad = static_cast<int64_t>(pick(2));
    for (size_t i : {size_t{2}, size_t{3}}) {
        const int64_t room = s[i].n + 2 * pad - k;
        if (room < 0) return false;
        s[i] = derived(s[i], room / stride + 1);
    }
    Attributes a = {{"kernel_shape", std::vector<int64_t>{k, k}}, {"strides", std::vector<int64_t>{stride, stride}}, {"pads", std::vector<int64_t>{pad, pad, pad, pad}}};
    if (chance(2)) op("MaxPool", {*x}, s, a, Kind::Exact);
    else {
        a.push_back({"count_include_pad", static_cast<int64_t>(pick(2))});
        op("AveragePool", {*x}, s, a);
    }
    return true;
}
bool Maker::batch_norm() {
    const auto x = some([&](V v) { return type(v) == stored_ && rank(v) >= 2 && !shape(v)[1].open() && shape(v)[1].n > 0; });
    if (!x) return false;
    const int64_t c = shape(*x)[1].n;
    const V scale = weight({c}, 0.3, 1), bias = weight({c}), mean = weight({c}, 0.3);
    Tensor v = random_tensor(stored_, {c}, 0, 0.2, 1);
    for (int64_t i = 0; i < c; ++i) v.set(i, 0.1 + std::fabs(v.get(i)));
    const V y = op("BatchNormalization", {*x, scale, bias, mean, constant(v)}, shape(*x));
    if (chance(2)) op("Relu", {y}, shape(y), {}, Kind::Exact);
    return true;
}
bool Maker::resize() {
    const auto x = some([&](V v) { return type(v) == stored_ && rank(v) == 4 && count(shape(v)) > 0 && count(shape(v)) < 1500; });
    if (!x) return false;
    Extents s = shape(*x);
    s[2] = derived(s[2], 2 * s[2].n);
    s[3] = derived(s[3], 2 * s[3].n);
    Tensor scales(DType::F32, {4});
    for (int64_t i = 0; i < 4; ++i) scales.set(i, i < 2 ? 1 : 2);
    const bool linear = chance(2);
    op("Resize", {*x, kNoValue, constant(scales)}, s,
       {{"mode", std::string(linear ? "linear" : "nearest")}, {"coordinate_transformation_mode", std::string(linear ? "half_pixel" : "asymmetric")},
        {"nearest_mode", std::string("floor")}}, linear ? Kind::Rounds : Kind::Exact);
    return true;
}

}  // namespace opwright::verify::models
