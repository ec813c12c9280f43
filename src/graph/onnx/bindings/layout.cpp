// Operators that only move elements, those that make them from nothing, and views, which cost nothing.
#include <algorithm>
#include <cmath>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

Out identity(NodeContext& c) { return Values{c.input(0)}; }

// In inference nothing is dropped and the mask is all true.
Out dropout(NodeContext& c) {
    if (input_or_none(c, 2) != kNone) {
        OPW_TRY(double training, constant_number(c, 2));
        bool drops = training != 0;
        if (drops && input_or_none(c, 1) != kNone) {
            OPW_TRY(double ratio, constant_number(c, 1));
            drops = ratio != 0;
        }
        if (drops) return c.unsupported("training_mode = true would need random numbers");
    }
    Values out = {c.input(0)};
    if (c.output_count() > 1) {
        out.push_back(kNone);
        if (c.output_wanted(1)) {
            const DType mask = c.opset() < 10 ? type_of(c, c.input(0)) : DType::Bool;
            OPW_TRY(out[1], emit1(c, "full", {scalar(c, 1, mask)}, {{"shape", shape_of(c, c.input(0))}}));
        }
    }
    return out;
}

Out transpose(NodeContext& c) {
    const int rank = rank_of(c, c.input(0));
    Ints perm = c.ints("perm").value_or(Ints{});
    if (perm.empty()) {
        perm = count_up(rank);
        std::reverse(perm.begin(), perm.end());
    }
    Ints sorted = perm;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != count_up(rank)) return c.unsupported("perm must list each dim once");
    OPW_TRY(ValueId y, transposed(c, c.input(0), perm));
    return Values{y};
}

// The extent that a -1 stands for. Extents that occur on both sides cancel, so that open ones divide exactly.
Sym remaining(Dims from, Dims to) {
    for (auto t = to.begin(); t != to.end();) {
        const auto f = std::find_if(from.begin(), from.end(), [&](const Sym& s) { return s.known_equal(*t); });
        if (f == from.end()) {
            ++t;
            continue;
        }
        from.erase(f);
        t = to.erase(t);
    }
    return math::floor_div(math::product(from), math::product(to));
}

Out reshape(NodeContext& c) {
    const ValueId x = c.input(0);
    const Dims from = shape_of(c, x);
    OPW_TRY(Dims to, c.content(1));
    const bool zero_is_zero = c.int_attribute("allowzero", 0) != 0;
    std::optional<size_t> open;
    for (size_t i = 0; i < to.size(); ++i) {
        if (to[i].is(0) && !zero_is_zero) {
            if (i >= from.size())
                return c.unsupported("the 0 at position " + std::to_string(i) +
                                     " of the shape names no dim of the input");
            to[i] = from[i];
        } else if (to[i].is(-1)) {
            if (open) return c.unsupported("the shape holds more than one -1");
            open = i;
        }
    }
    if (open) {
        Dims others = to;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(*open));
        to[*open] = remaining(from, others);
    }
    const Sym before = math::product(from), after = math::product(to);
    if (before.known_different(after))
        return c.unsupported("a shape of " + after.str() + " elements does not fit the " + before.str() +
                             " of the input");
    return Values{c.view(x, to)};
}

Out flatten(NodeContext& c) {
    const Dims s = shape_of(c, c.input(0));
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", 1), static_cast<int>(s.size()), true));
    // A negative axis counts from the number of dims, not from one past it.
    const size_t a = c.int_attribute("axis", 1) < 0 ? static_cast<size_t>(axis) - 1 : static_cast<size_t>(axis);
    return Values{c.view(c.input(0), {math::product(slice_of(s, 0, a)), math::product(slice_of(s, a, s.size()))})};
}

Out squeeze(NodeContext& c) {
    const Dims s = shape_of(c, c.input(0));
    Ints all;
    for (size_t i = 0; i < s.size(); ++i)
        if (s[i].is(1)) all.push_back(static_cast<int64_t>(i));
    OPW_TRY(Ints axes, axes_of(c, 1, all));
    OPW_TRY(axes, plain_axes(c, axes, static_cast<int>(s.size())));
    for (int64_t a : axes)
        if (s[static_cast<size_t>(a)].known_different(1))
            return c.unsupported("the dim " + std::to_string(a) + " has the extent " + s[static_cast<size_t>(a)].str() +
                                 ", and only dims of 1 can be removed");
    return Values{without_axes(c, c.input(0), axes)};
}

Out unsqueeze(NodeContext& c) {
    OPW_TRY(Ints axes, axes_of(c, 1, {}));
    OPW_TRY(axes, plain_axes(c, axes, rank_of(c, c.input(0)) + static_cast<int>(axes.size())));
    return Values{with_axes(c, c.input(0), axes)};
}

// The larger of two extents that ONNX broadcasts against each other.
Sym broadcast_extent(const Sym& a, const Sym& b) {
    if (a.is(1)) return b;
    if (b.is(1) || a.known_equal(b)) return a;
    return a.is_const() ? a : b;
}

Out expand(NodeContext& c) {
    const Dims from = shape_of(c, c.input(0));
    OPW_TRY(Dims target, c.content(1));
    Dims to = target.size() < from.size() ? from : target;
    const size_t n = std::min(target.size(), from.size());
    for (size_t i = 1; i <= n; ++i)
        to[to.size() - i] = broadcast_extent(from[from.size() - i], target[target.size() - i]);
    OPW_TRY(ValueId y, broadcast_to(c, c.input(0), to));
    return Values{y};
}

Out tile(NodeContext& c) {
    const ValueId x = c.input(0);
    const Dims from = shape_of(c, x);
    OPW_TRY(Dims repeats, c.content(1));
    if (repeats.size() != from.size()) return c.unsupported("there must be one repeat for each dim");
    Dims to, axes, extents;
    for (size_t i = 0; i < from.size(); ++i) {
        to.push_back(from[i] * repeats[i]);
        if (repeats[i].is(1)) continue;
        axes.push_back(static_cast<int64_t>(i + axes.size()));
        extents.push_back(repeats[i]);
    }
    if (axes.empty()) return Values{x};
    OPW_TRY(ValueId y, emit1(c, "repeat_along", {x}, {{"axes", axes}, {"extents", extents}}));
    return Values{c.view(y, to)};
}

Out concat(NodeContext& c) {
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", 1), rank_of(c, c.input(0))));
    Values in;
    for (size_t i = 0; i < c.input_count(); ++i) {
        // A part without elements adds nothing (some exporters start a cache with one).
        if (shape_of(c, c.input(i)).size() == static_cast<size_t>(rank_of(c, c.input(0))) &&
            shape_of(c, c.input(i))[static_cast<size_t>(axis)].is(0))
            continue;
        in.push_back(c.input(i));
    }
    if (in.empty()) return Values{c.input(0)};
    if (in.size() == 1) return Values{in[0]};
    return c.emit("concat", in, {{"axis", axis}});
}

Out split(NodeContext& c) {
    const ValueId x = c.input(0);
    const Dims s = shape_of(c, x);
    OPW_TRY(int axis, plain_axis(c, c.int_attribute("axis", 0), static_cast<int>(s.size())));
    const Sym n = s[static_cast<size_t>(axis)];
    Dims parts;
    if (auto given = c.ints("split"))
        parts = to_dims(*given);
    else if (input_or_none(c, 1) != kNone) { OPW_TRY(parts, c.content(1)); }
    if (parts.empty()) {
        const int64_t count = c.int_attribute("num_outputs", static_cast<int64_t>(c.output_count()));
        if (count < 1 || count > 4096) return c.unsupported("num_outputs must be positive and at most 4096");
        const Sym each = math::ceil_div(n, count);
        for (int64_t i = 0; i + 1 < count; ++i) parts.push_back(each);
        parts.push_back(n - each * Sym(count - 1));
    }
    if (parts.size() != c.output_count()) return c.unsupported("there must be one extent for each output");
    Values out;
    Sym begin = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
        out.push_back(kNone);
        if (c.output_wanted(i)) { OPW_TRY(out[i], part(c, x, axis, begin, parts[i])); }
        begin = begin + parts[i];
    }
    return out;
}

// A bound of a slice as a position between `low` and `high`, counted from the end where negative. A number that no dim
// is thought to reach is what exporters write for "to the end": held by min(n, at), an open dim would be equal to no
// other, so the graph requires n not to go beyond it instead.
Sym place(NodeContext& c, const Sym& at, const Sym& n, const Sym& low, const Sym& high) {
    constexpr int64_t kFar = 1'000'000'000;
    const auto v = at.constant();
    if (v && !n.is_const() && (*v >= kFar || *v <= -kFar)) {
        const int64_t most = *v > 0 ? *v : -(*v + 1);
        if (n.upper() > most)
            c.require(Sym(1) - math::less(most, n), "takes " + std::to_string(*v) + " for the " +
                                                        (*v > 0 ? "end" : "start") +
                                                        " of a dim, which must not have more elements");
        return *v > 0 ? high : low;
    }
    const Sym plain = at.lower() >= 0 ? at : at.upper() < 0 ? at + n : math::select(math::less(at, 0), at + n, at);
    return math::max(low, math::min(plain, high));
}

Out slice(NodeContext& c) {
    const ValueId x = c.input(0);
    const Dims s = shape_of(c, x);
    Dims starts, ends;
    Ints axes, steps;
    if (c.opset() < 10) {
        starts = to_dims(c.ints("starts").value_or(Ints{}));
        ends = to_dims(c.ints("ends").value_or(Ints{}));
        axes = c.ints("axes").value_or(count_up(static_cast<int>(starts.size())));
    } else {
        OPW_TRY(starts, c.content(1));
        OPW_TRY(ends, c.content(2));
        axes = count_up(static_cast<int>(starts.size()));
        if (input_or_none(c, 3) != kNone) { OPW_TRY(axes, c.constant_ints(3)); }
        if (input_or_none(c, 4) != kNone) { OPW_TRY(steps, c.constant_ints(4)); }
    }
    if (steps.empty()) steps = Ints(starts.size(), 1);
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
        return c.unsupported("starts, ends, axes and steps must have one length");
    Dims start(s.size(), Sym(0)), count = s, step(s.size(), Sym(1));
    bool whole = true;
    constexpr int64_t kLongest = int64_t{1} << 46;  // beyond every tensor: longer steps take one element like this one
    for (size_t i = 0; i < axes.size(); ++i) {
        OPW_TRY(int axis, plain_axis(c, axes[i], static_cast<int>(s.size())));
        const size_t a = static_cast<size_t>(axis);
        const Sym n = s[a];
        if (steps[i] == 0) return c.unsupported("a step must not be 0");
        step[a] = std::clamp(steps[i], -kLongest, kLongest);
        if (steps[i] > 0) {
            start[a] = place(c, starts[i], n, 0, n);
            count[a] = math::max(Sym(0), math::ceil_div(place(c, ends[i], n, 0, n) - start[a], step[a]));
        } else {
            // From the last element on; it is at -1 in an empty dim, of which nothing is taken.
            start[a] = starts[i].is(-1) ? n - 1 : place(c, starts[i], n, 0, n - 1);
            count[a] = math::max(Sym(0), math::ceil_div(start[a] - place(c, ends[i], n, -1, n - 1), -step[a]));
            if (n.lower() < 1 && !(start[a] - n).is(-1)) count[a] = math::min(count[a], n);
        }
        whole = whole && steps[i] == 1 && start[a].is(0) && count[a].known_equal(n);
    }
    if (whole) return Values{x};
    return c.emit("slice", {x}, {{"start", start}, {"count", count}, {"step", step}});
}

Out depth_to_space(NodeContext& c) {
    const Dims s = shape_of(c, c.input(0));
    const int64_t block = c.int_attribute("blocksize", 0);
    if (block < 1 || block > 4096 || s.size() != 4)
        return c.unsupported("a positive blocksize and an input of four dims are needed");
    const Sym b(block);
    OPW_TRY(const Sym channels, divided(c, s[1], b * b, "pixels of a block"));
    const bool by_column = c.string_attribute("mode", "DCR") == "CRD";
    const ValueId v =
        c.view(c.input(0), by_column ? Dims{s[0], channels, b, b, s[2], s[3]} : Dims{s[0], b, b, channels, s[2], s[3]});
    OPW_TRY(ValueId t, transposed(c, v, by_column ? Ints{0, 1, 4, 2, 5, 3} : Ints{0, 3, 4, 1, 5, 2}));
    return Values{c.view(t, {s[0], channels, s[2] * b, s[3] * b})};
}

Out space_to_depth(NodeContext& c) {
    const Dims s = shape_of(c, c.input(0));
    const int64_t block = c.int_attribute("blocksize", 0);
    if (block < 1 || block > 4096 || s.size() != 4)
        return c.unsupported("a positive blocksize and an input of four dims are needed");
    const Sym b(block);
    OPW_TRY(const Sym h, divided(c, s[2], b, "rows of a block"));
    OPW_TRY(const Sym w, divided(c, s[3], b, "columns of a block"));
    OPW_TRY(ValueId t, transposed(c, c.view(c.input(0), {s[0], s[1], h, b, w, b}), {0, 3, 5, 1, 2, 4}));
    return Values{c.view(t, {s[0], s[1] * b * b, h, w})};
}

Out trilu(NodeContext& c) {
    Sym k = 0;
    if (input_or_none(c, 1) != kNone) {
        OPW_TRY(Dims given, c.content(1));
        if (given.size() != 1) return c.unsupported("k must be one number");
        k = given[0];
    }
    return c.emit("triangle", {c.input(0)}, {{"k", k}, {"upper", c.int_attribute("upper", 1) != 0}});
}

Out eye_like(NodeContext& c) {
    const Dims s = shape_of(c, c.input(0));
    if (s.size() != 2) return c.unsupported("the input must be a matrix");
    DType t = type_of(c, c.input(0));
    if (c.has("dtype")) { OPW_TRY(t, element_type(c, c.int_attribute("dtype", 1))); }
    return c.emit("eye", {}, {{"rows", s[0]}, {"columns", s[1]}, {"k", c.int_attribute("k", 0)}, {"to", t}});
}

Out constant_of_shape(NodeContext& c) {
    OPW_TRY(Dims shape, c.content(0));
    const std::optional<Tensor> value = c.tensor("value");
    const ValueId v = value ? as_scalar(c, c.add_constant(*value)) : scalar(c, 0, DType::F32);
    if (shape.empty()) return Values{v};
    return c.emit("full", {v}, {{"shape", shape}});
}

Out range(NodeContext& c) {
    const DType t = type_of(c, c.input(0));
    Sym count;
    if (is_float(t)) {
        OPW_TRY(double start, constant_number(c, 0));
        OPW_TRY(double limit, constant_number(c, 1));
        OPW_TRY(double step, constant_number(c, 2));
        const double n = std::ceil((limit - start) / step);
        if (!(n < 1e12)) return c.unsupported("start, limit and delta give no finite number of elements");
        count = static_cast<int64_t>(std::max(n, 0.0));
    } else {
        OPW_TRY(Dims start, c.content(0));
        OPW_TRY(Dims limit, c.content(1));
        OPW_TRY(Ints step, c.constant_ints(2));
        if (start.size() != 1 || limit.size() != 1 || step.size() != 1 || step[0] == 0)
            return c.unsupported("start, limit and delta must be single numbers, and delta not 0");
        const Sym length = step[0] > 0 ? limit[0] - start[0] : start[0] - limit[0];
        count = math::max(Sym(0), math::ceil_div(length, step[0] > 0 ? step[0] : -step[0]));
    }
    return c.emit("arange", {as_scalar(c, c.input(0)), as_scalar(c, c.input(2))}, {{"count", count}});
}

Out shape(NodeContext& c) {
    const Dims s = shape_of(c, c.input(0));
    const int64_t n = static_cast<int64_t>(s.size());
    const auto at = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
    const int64_t begin = at(c.int_attribute("start", 0)), end = std::max(begin, at(c.int_attribute("end", n)));
    const Dims part = slice_of(s, static_cast<size_t>(begin), static_cast<size_t>(end));
    return Values{c.add_content(part, {static_cast<int64_t>(part.size())}, DType::I64)};
}
Out size(NodeContext& c) { return Values{c.add_content({math::product(shape_of(c, c.input(0)))}, {}, DType::I64)}; }

}  // namespace

std::span<const Entry> layouts() {
    static const Entry entries[] = {{"Identity", identity},
                                    {"Dropout", dropout},
                                    {"Transpose", transpose},
                                    {"Reshape", reshape},
                                    {"Flatten", flatten},
                                    {"Squeeze", squeeze},
                                    {"Unsqueeze", unsqueeze},
                                    {"Expand", expand},
                                    {"Tile", tile},
                                    {"Concat", concat},
                                    {"Split", split},
                                    {"Slice", slice},
                                    {"DepthToSpace", depth_to_space},
                                    {"SpaceToDepth", space_to_depth},
                                    {"Trilu", trilu},
                                    {"EyeLike", eye_like},
                                    {"ConstantOfShape", constant_of_shape},
                                    {"Range", range},
                                    {"Shape", shape},
                                    {"Size", size}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
