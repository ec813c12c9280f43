#include "graph/onnx/bindings/common.h"

#include <algorithm>
#include <cmath>

namespace opwright::graph::onnx::bindings {

Result<ValueId> emit1(NodeContext& c, const std::string& op, const Values& inputs, const Attributes& a) {
    OPW_TRY(Values out, c.emit(op, inputs, a));
    return out[0];
}

Result<int> plain_axis(const NodeContext& c, int64_t axis, int rank, bool end) {
    const int64_t last = end ? rank : rank - 1;
    const int64_t plain = axis < 0 ? axis + last + 1 : axis;
    if (plain < 0 || plain > last)
        return c.unsupported("the axis " + std::to_string(axis) + " does not exist in a tensor of rank " +
                             std::to_string(rank));
    return static_cast<int>(plain);
}

Result<Ints> plain_axes(const NodeContext& c, const Ints& axes, int rank) {
    Ints out;
    for (int64_t a : axes) {
        OPW_TRY(int p, plain_axis(c, a, rank));
        out.push_back(p);
    }
    std::sort(out.begin(), out.end());
    if (std::adjacent_find(out.begin(), out.end()) != out.end()) return c.unsupported("an axis is listed twice");
    return out;
}

Result<Ints> axes_of(NodeContext& c, size_t input, const Ints& otherwise) {
    if (auto a = c.ints("axes")) return *a;
    if (input_or_none(c, input) == kNone) return otherwise;
    return c.constant_ints(input);
}

Ints count_up(int n) {
    Ints out(static_cast<size_t>(std::max(n, 0)));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(i);
    return out;
}

Dims to_dims(const Ints& v) { return Dims(v.begin(), v.end()); }

Dims slice_of(const Dims& d, size_t begin, size_t end) {
    return Dims(d.begin() + static_cast<std::ptrdiff_t>(begin), d.begin() + static_cast<std::ptrdiff_t>(end));
}

Dims joined(std::initializer_list<Dims> parts) {
    Dims out;
    for (const Dims& p : parts) out.insert(out.end(), p.begin(), p.end());
    return out;
}

ValueId without_axes(NodeContext& c, ValueId v, const Ints& axes) {
    if (axes.empty()) return v;
    const Dims from = shape_of(c, v);
    Dims to;
    for (size_t i = 0; i < from.size(); ++i)
        if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) to.push_back(from[i]);
    return c.view(v, to);
}

ValueId with_axes(NodeContext& c, ValueId v, const Ints& axes) {
    if (axes.empty()) return v;
    Dims to = shape_of(c, v);
    for (int64_t a : axes) to.insert(to.begin() + a, Sym(1));
    return c.view(v, to);
}

ValueId as_scalar(NodeContext& c, ValueId v) {
    // A tensor of more elements keeps its rank: the operator then refuses it.
    return rank_of(c, v) == 0 || !math::product(shape_of(c, v)).is(1) ? v : c.view(v, {});
}

ValueId with_rank(NodeContext& c, ValueId v, int rank) { return with_axes(c, v, count_up(rank - rank_of(c, v))); }

Result<ValueId> converted(NodeContext& c, ValueId v, DType t) {
    if (v == kNone || type_of(c, v) == t) return v;
    return emit1(c, "cast", {v}, {{"to", t}});
}

ValueId scalar(NodeContext& c, double x, DType t) {
    Tensor one(t, {});
    one.set(0, x);
    return c.add_constant(std::move(one));
}

Result<DType> element_type(const NodeContext& c, int64_t number) {
    switch (number) {
        case 1: return DType::F32;
        case 2: return DType::U8;
        case 3: return DType::I8;
        case 4: return DType::U16;
        case 5: return DType::I16;
        case 6: return DType::I32;
        case 7: return DType::I64;
        case 9: return DType::Bool;
        case 10: return DType::F16;
        case 11: return DType::F64;
        case 12: return DType::U32;
        case 13: return DType::U64;
        case 16: return DType::BF16;
        case 8: return c.unsupported("strings are no numbers that a kernel could compute with");
        case 14:
        case 15: return c.unsupported("complex element types would be needed");
        case 17:
        case 18:
        case 19:
        case 20:
        case 24: return c.unsupported("8-bit floating-point element types would be needed");
        case 21:
        case 22:
        case 23:
        case 25:
        case 26: return c.unsupported("element types of less than 8 bits would be needed");
        default: break;
    }
    return c.unsupported("the element type " + std::to_string(number) + " is unknown");
}

Result<double> constant_number(NodeContext& c, size_t i) {
    OPW_TRY(Tensor t, c.constant(i));
    if (t.size() != 1) return c.unsupported("input " + std::to_string(i) + " must be one number");
    return t.get(0);
}

Result<int64_t> count_of(const NodeContext& c, double v, const std::string& what) {
    constexpr double kMost = 1e12;
    if (!(std::abs(v) < kMost)) return c.unsupported(what + " is " + std::to_string(v));
    return static_cast<int64_t>(std::floor(v));
}

Result<ValueId> broadcast_to(NodeContext& c, ValueId v, const Dims& target) {
    v = with_rank(c, v, static_cast<int>(target.size()));
    const Dims from = shape_of(c, v);
    Ints repeated;
    Dims extents, kept;
    bool plain = true;
    for (size_t i = 0; i < target.size(); ++i) {
        if (from[i].known_equal(target[i])) {
            kept.push_back(from[i]);
        } else if (from[i].is(1)) {
            repeated.push_back(static_cast<int64_t>(i));
            extents.push_back(target[i]);
        } else {
            plain = false;
        }
    }
    if (!plain) return emit1(c, "expand", {v}, {{"shape", target}});
    if (repeated.empty()) return v;
    return emit1(c, "repeat_along", {c.view(v, kept)}, {{"axes", to_dims(repeated)}, {"extents", extents}});
}

Result<ValueId> transposed(NodeContext& c, ValueId v, const Ints& perm) {
    const Dims from = shape_of(c, v);
    Dims to;
    int64_t last = -1;
    bool moves = false;  // an element changes its place in memory: dims of extent 1 do not count
    for (int64_t p : perm) {
        to.push_back(from[static_cast<size_t>(p)]);
        if (to.back().is(1)) continue;
        moves = moves || p < last;
        last = p;
    }
    if (!moves) return perm == count_up(static_cast<int>(perm.size())) ? v : c.view(v, to);
    return emit1(c, "transpose", {v}, {{"perm", to_dims(perm)}});
}

Result<Sym> divided(const NodeContext& c, const Sym& a, const Sym& b, const std::string& what) {
    const auto n = a.constant(), d = b.constant();
    if (d && *d < 1) return c.unsupported("a number of " + what + " must be positive");
    if (n && d && *n % *d != 0) return c.unsupported(a.str() + " does not divide into " + b.str() + " " + what);
    return math::floor_div(a, b);
}

Result<ValueId> part(NodeContext& c, ValueId v, int axis, Sym begin, Sym count, int64_t step) {
    const Dims from = shape_of(c, v);
    if (static_cast<size_t>(axis) >= from.size())
        return c.unsupported("a tensor of rank " + std::to_string(from.size()) + " has no dim " + std::to_string(axis));
    if (begin.is(0) && step == 1 && count.known_equal(from[static_cast<size_t>(axis)])) return v;
    Dims start(from.size(), Sym(0)), counts = from;
    start[static_cast<size_t>(axis)] = begin;
    counts[static_cast<size_t>(axis)] = count;
    Dims steps(from.size(), Sym(1));
    steps[static_cast<size_t>(axis)] = step;
    return emit1(c, "slice", {v}, {{"start", start}, {"count", counts}, {"step", steps}});
}

Result<Windows> windows_of(const NodeContext& c, const Dims& spatial, const Dims& kernel) {
    const size_t n = spatial.size();
    Windows w;
    w.kernel = kernel;
    w.stride = to_dims(c.ints("strides").value_or(Ints(n, 1)));
    w.dilation = to_dims(c.ints("dilations").value_or(Ints(n, 1)));
    w.ceil = c.int_attribute("ceil_mode", 0) != 0;
    const Ints pads = c.ints("pads").value_or(Ints(2 * n, 0));
    if (kernel.size() != n || w.stride.size() != n || w.dilation.size() != n || pads.size() != 2 * n)
        return c.unsupported("kernel_shape, strides, dilations and pads must fit the " + std::to_string(n) +
                             " spatial dims of the input");
    for (const Dims* d : {&w.stride, &w.dilation})
        for (const Sym& s : *d)
            if (s.lower() < 1) return c.unsupported("strides and dilations must be positive");
    const std::string mode = c.string_attribute("auto_pad", "NOTSET");
    w.begin = to_dims(Ints(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n)));
    w.end = to_dims(Ints(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end()));
    if (mode == "NOTSET" || mode.empty()) return w;
    w.ceil = false;  // the rules of auto_pad leave nothing to round
    for (size_t i = 0; i < n; ++i) {
        if (mode == "VALID") {
            w.begin[i] = w.end[i] = Sym(0);
            continue;
        }
        if (mode != "SAME_UPPER" && mode != "SAME_LOWER") return c.unsupported("auto_pad '" + mode + "' is unknown");
        const Sym out = math::ceil_div(spatial[i], w.stride[i]);
        const Sym total = math::max(Sym(0), (out - 1) * w.stride[i] + (kernel[i] - 1) * w.dilation[i] + 1 - spatial[i]);
        const Sym less = math::floor_div(total, 2);
        w.begin[i] = mode == "SAME_UPPER" ? less : total - less;
        w.end[i] = total - w.begin[i];
    }
    return w;
}

}  // namespace opwright::graph::onnx::bindings
