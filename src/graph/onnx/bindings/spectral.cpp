// Fourier transforms, windows and the mel filter bank.
#include <cmath>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

// x has a last dim of 1 (real) or 2 (complex); `axis` is another dim.
Result<ValueId> transform(NodeContext& c, ValueId x, int axis, Sym count, bool inverse, bool half) {
    const Dims s = shape_of(c, x);
    const bool complex = s.back().is(2);
    if (!complex && !s.back().is(1)) return c.unsupported("the last dim must be 1 (real) or 2 (complex)");
    const Sym bins = math::floor_div(count, 2) + 1;
    if (!complex && !inverse) {
        const ValueId real = without_axes(c, x, {static_cast<int64_t>(s.size()) - 1});
        return emit1(c, "dft_real", {real}, {{"axis", axis}, {"count", count}, {"bins", half ? bins : count}});
    }
    if (inverse && half) {
        if (!complex) return c.unsupported("the inverse of one side needs complex numbers");
        OPW_TRY(ValueId y, emit1(c, "idft_real", {x}, {{"axis", axis}, {"count", count}}));
        return with_axes(c, y, {static_cast<int64_t>(s.size()) - 1});
    }
    if (!complex) {
        Dims end(s.size(), Sym(0));
        end.back() = 1;
        OPW_TRY(x, emit1(c, "pad", {x, kNone}, {{"begin", Dims(s.size(), Sym(0))}, {"end", end}}));
    }
    OPW_TRY(ValueId y, emit1(c, "dft", {x}, {{"axis", axis}, {"count", count}, {"inverse", inverse}}));
    return half ? part(c, y, axis, 0, bins) : Result<ValueId>(y);
}

Out dft(NodeContext& c) {
    const ValueId x = c.input(0);
    const Dims s = shape_of(c, x);
    if (s.size() < 2) return c.unsupported("the input needs a last dim of 1 (real) or 2 (complex)");
    int64_t given = c.opset() < 20 ? c.int_attribute("axis", 1) : -2;
    if (c.opset() >= 20 && input_or_none(c, 2) != kNone) {
        OPW_TRY(Ints a, c.constant_ints(2));
        if (a.size() != 1) return c.unsupported("the axis must be one number");
        given = a[0];
    }
    OPW_TRY(int axis, plain_axis(c, given, static_cast<int>(s.size())));
    const bool inverse = c.int_attribute("inverse", 0) != 0, half = c.int_attribute("onesided", 0) != 0;
    const Sym n = s[static_cast<size_t>(axis)];
    Sym count = inverse && half ? (n - 1) * 2 : n;
    if (input_or_none(c, 1) != kNone) {
        OPW_TRY(Dims length, c.content(1));
        if (length.size() != 1) return c.unsupported("dft_length must be one number");
        count = length[0];
    }
    OPW_TRY(ValueId y, transform(c, x, axis, count, inverse, half));
    return Values{y};
}

Out stft(NodeContext& c) {
    ValueId x = c.input(0), window = input_or_none(c, 2);
    const Dims s = shape_of(c, x);
    if (s.size() < 2 || s.size() > 3 || (window != kNone && rank_of(c, window) != 1))
        return c.unsupported("the signal must have the dims [batch, length, 1], and the window one");
    if (s.size() == 3 && s[2].is(2)) return c.unsupported("short-time transforms of complex signals");
    x = c.view(x, {s[0], s[1]});
    OPW_TRY(Dims step, c.content(1));
    Sym frame = window != kNone ? shape_of(c, window)[0] : s[1];
    if (input_or_none(c, 3) != kNone) {
        OPW_TRY(Dims length, c.content(3));
        if (length.size() != 1) return c.unsupported("frame_length must be one number");
        frame = length[0];
    }
    if (step.size() != 1) return c.unsupported("frame_step must be one number");
    OPW_TRY(ValueId framed, emit1(c, "frames", {x, window}, {{"frame", frame}, {"step", step[0]}}));
    OPW_TRY(ValueId y, transform(c, with_axes(c, framed, {3}), 2, frame, false, c.int_attribute("onesided", 1) != 0));
    return Values{y};
}

Out window(NodeContext& c) {
    OPW_TRY(Dims size, c.content(0));
    if (size.size() != 1) return c.unsupported("the size must be one number");
    OPW_TRY(DType to, element_type(c, c.int_attribute("output_datatype", 1)));
    Attributes a = {{"count", size[0]}, {"periodic", c.int_attribute("periodic", 1) != 0}, {"to", to}};
    if (c.op_type() == "HannWindow") {
        a["a0"] = 0.5;
        a["a1"] = 0.5;
    } else if (c.op_type() == "HammingWindow") {
        a["a0"] = 25.0 / 46.0;
        a["a1"] = 21.0 / 46.0;
    } else {
        a["a0"] = 0.42;
        a["a1"] = 0.5;
        a["a2"] = 0.08;
    }
    return c.emit("cosine_window", {}, a);
}

// A table of constants: triangles between points that are equally far apart on the mel scale.
Out mel_weights(NodeContext& c) {
    double in[5];
    for (size_t i = 0; i < 5; ++i) (void)c.constant(i);  // so that all that are needed are asked for at once
    for (size_t i = 0; i < 5; ++i) { OPW_TRY(in[i], constant_number(c, i)); }
    OPW_TRY(DType to, element_type(c, c.int_attribute("output_datatype", 1)));
    OPW_TRY(const int64_t bands, count_of(c, in[0], "the number of bands"));
    OPW_TRY(const int64_t length, count_of(c, in[1], "the length"));
    if (bands < 1 || length < 1 || bands > 1 << 16 || length > 1 << 20 || !(in[2] > 0))
        return c.unsupported("bands, length and sample rate out of range");
    const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
    const double low = mel(in[3]), step = (mel(in[4]) - low) / static_cast<double>(bands + 2);
    std::vector<int64_t> at;
    for (int64_t i = 0; i < bands + 2; ++i) {
        const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
        OPW_TRY(int64_t bin, count_of(c, static_cast<double>(length + 1) * hertz / in[2], "the place of a frequency"));
        at.push_back(bin);
    }
    const int64_t bins = length / 2 + 1;
    Tensor out(to, {bins, bands});
    for (int64_t b = 0; b < bins; ++b) {
        for (int64_t m = 0; m < bands; ++m) {
            const int64_t left = at[static_cast<size_t>(m)], middle = at[static_cast<size_t>(m) + 1],
                          right = at[static_cast<size_t>(m) + 2];
            double v = 0;
            if (left == middle)
                v = b == middle ? 1 : 0;
            else if (b >= left && b <= middle)
                v = static_cast<double>(b - left) / static_cast<double>(middle - left);
            if (right > middle && b >= middle && b < right)
                v = static_cast<double>(right - b) / static_cast<double>(right - middle);
            out.set(b * bands + m, v);
        }
    }
    return Values{c.add_constant(std::move(out))};
}

}  // namespace

std::span<const Entry> spectra() {
    static const Entry entries[] = {{"DFT", dft},
                                    {"STFT", stft},
                                    {"HannWindow", window},
                                    {"HammingWindow", window},
                                    {"BlackmanWindow", window},
                                    {"MelWeightMatrix", mel_weights}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
