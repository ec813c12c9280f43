// Random models: element by element, folds, and what only moves elements.
#include <algorithm>
#include <numeric>

#include "verify/random_model_maker.h"

namespace opwright::verify::models {

int64_t Maker::maybe_negative(size_t axis, size_t rank) {
    return static_cast<int64_t>(axis) - (chance(3) ? static_cast<int64_t>(rank) : 0);
}
std::vector<int64_t> Maker::some_axes(size_t rank) {
    std::vector<int64_t> r;
    if (chance(2)) r.push_back(static_cast<int64_t>(chance(2) ? rank - 1 : pick(rank)));
    else
        for (size_t i = 0; i < rank; ++i)
            if (chance(2)) r.push_back(static_cast<int64_t>(i));
    if (r.empty()) r.push_back(static_cast<int64_t>(pick(rank)));
    return r;
}

// ---- element by element

bool Maker::unary() {
    const auto x = some_float();
    if (!x) return false;
    static const std::vector<std::string> exact = {"Relu", "Abs", "Neg", "Identity"},
                                          chooses = {"Floor", "Sign", "Round", "Ceil"},
                                          rounds = {"Tanh", "Sigmoid",     "Gelu",      "Erf",  "Softplus", "Elu", "LeakyRelu", "Selu",
                                                    "Celu", "HardSigmoid", "HardSwish", "Mish", "Softsign", "Sin", "Cos"};
    const uint64_t which = pick(10);
    if (which < 4) op(any(exact), {*x}, shape(*x), {}, Kind::Exact);
    else if (which == 4 && chance(3)) op(any(chooses), {*x}, shape(*x), {}, Kind::Chooses);
    else if (which == 5) op("Clip", {*x, number(-0.5, type(*x)), chance(3) ? kNoValue : number(1.25, type(*x))}, shape(*x), {}, Kind::Exact);
    else op(any(rounds), {*x}, shape(*x));
    return true;
}
// Functions that are not defined everywhere, on operands where they are.
bool Maker::guarded_unary() {
    const auto x = some_float();
    if (!x) return false;
    const Extents s = shape(*x);
    switch (pick(6)) {
        case 0: op("Sqrt", {shifted(op("Abs", {*x}, s, {}, Kind::Exact), 0.01)}, s); break;
        case 1: op("Log", {shifted(op("Abs", {*x}, s, {}, Kind::Exact), 1)}, s); break;
        case 2: op("Exp", {op("Neg", {op("Abs", {*x}, s, {}, Kind::Exact)}, s, {}, Kind::Exact)}, s); break;
        case 3: op("Reciprocal", {shifted(op("Mul", {*x, *x}, s), 1)}, s); break;
        case 4: op("Pow", {*x, number(static_cast<double>(any_of({2, 3})), type(*x))}, s); break;
        default: op("Pow", {shifted(op("Abs", {*x}, s, {}, Kind::Exact), 0.5), number(0.5 * static_cast<double>(any_of({-1, 1})), type(*x))}, s);
    }
    return true;
}

V Maker::add(const std::string& type, V a, V b) {
    return op(type, {a, b}, *broadcast(shape(a), shape(b)), {}, type == "Max" || type == "Min" ? Kind::Exact : Kind::Rounds);
}
// The operands first: what a call's arguments do has no order.
V Maker::scaled(V x, double by) {
    const V n = number(by, type(x));
    return add("Mul", x, n);
}
V Maker::shifted(V x, double by) {
    const V n = number(by, type(x));
    return add("Add", x, n);
}

bool Maker::binary() {
    const auto x = some_float();
    if (!x) return false;
    const bool same = !chance(3);  // as in a residual; else with broadcast
    std::vector<V> others;
    for (V v = 0; v < values_.size(); ++v) {
        if (values_[v].constant || type(v) != type(*x)) continue;
        const auto s = broadcast(shape(*x), shape(v));
        if (s && count(*s) <= kMostElements && (same ? shape(v) == shape(*x) : shape(v) != shape(*x))) others.push_back(v);
    }
    if (others.empty()) return false;
    static const std::vector<std::string> types = {"Add", "Add", "Add", "Mul", "Mul", "Sub", "Max", "Min", "Div"};
    std::string t = any(types);
    V a = *x, b = any(others);
    if (chance(4)) std::swap(a, b);
    if (t == "Div") b = shifted(op("Abs", {b}, shape(b), {}, Kind::Exact), 1);
    add(t, a, b);
    return true;
}
bool Maker::with_constant() {
    const auto x = some([&](V v) { return floats(v) && type(v) == stored_; });
    if (!x) return false;
    Shape s;
    const size_t from = pick(rank(*x) + 1);
    for (size_t i = from; i < rank(*x); ++i) {
        const Extent& e = shape(*x)[i];
        s.push_back(e.open() || chance(3) ? 1 : e.n);
    }
    static const std::vector<std::string> types = {"Add", "Mul", "Sub", "Max", "Min", "PRelu"};
    const std::string t = any(types);
    if (t == "PRelu") op("PRelu", {*x, weight(s)}, shape(*x));
    else if (chance(4)) add(t, weight(s), *x);
    else add(t, *x, weight(s));
    return true;
}
bool Maker::where() {
    const auto x = some_float();
    if (!x) return false;
    const auto y = some([&](V v) { return type(v) == type(*x) && shape(v) == shape(*x); });
    V mask;
    const Extents s = shape(*x);
    if (chance(2)) {
        Extents m;
        for (size_t i = pick(rank(*x) + 1); i < rank(*x); ++i) m.push_back(chance(4) || (s[i].open() && !sizes_.count(s[i].symbol)) ? Extent{1, ""} : s[i]);
        mask = input(DType::Bool, m);
    } else {
        static const std::vector<std::string> types = {"Greater", "Less", "GreaterOrEqual", "LessOrEqual"};
        mask = op(any(types), {*x, number(0.1, type(*x))}, s, {}, Kind::Chooses, DType::Bool);
        if (chance(3)) mask = op("Not", {mask}, s, {}, Kind::Exact);
    }
    const V other = y && *y != *x && chance(2) ? *y : number(static_cast<double>(any_of({-3, 0, 1})), type(*x));
    chance(2) ? op("Where", {mask, *x, other}, s, {}, Kind::Exact, type(*x)) : op("Where", {mask, other, *x}, s, {}, Kind::Exact, type(*x));
    return true;
}
bool Maker::cast() {
    const auto x = some([&](V) { return true; });
    if (!x) return false;
    const bool from_float = floats(*x);
    const DType t = from_float && type(*x) != stored_ ? stored_ : !from_float ? stored_ : chance(2) ? DType::F32 : DType::BF16;
    const int64_t number = t == DType::F32 ? 1 : t == DType::F16 ? 10 : 16;  // as ONNX numbers them
    op("Cast", {*x}, shape(*x), {{"to", number}}, Kind::Rounds, t);
    return true;
}
bool Maker::integer() {
    const auto x = some([&](V v) { return is_int(type(v)); });
    if (!x) return false;
    static const std::vector<std::string> types = {"Add", "Mul", "Sub", "Max"};
    const std::string t = any(types);
    op(t, {*x, number(static_cast<double>(1 + pick(3)), type(*x))}, shape(*x), {}, Kind::Exact);
    return true;
}

// ---- folds

V Maker::reduced(const std::string& type, V x, std::vector<int64_t> axes, bool keep, Kind kind) {
    Extents s;
    for (size_t i = 0; i < rank(x); ++i) {
        const bool gone = std::any_of(axes.begin(), axes.end(), [&](int64_t a) {
            return (a < 0 ? a + static_cast<int64_t>(rank(x)) : a) == static_cast<int64_t>(i);
        });
        if (!gone) s.push_back(shape(x)[i]);
        else if (keep) s.push_back({1, ""});
    }
    return op(type, {x, ints(axes)}, s, {{"keepdims", static_cast<int64_t>(keep)}}, kind);
}
bool Maker::reduce() {
    const auto x = some_float(1);
    if (!x) return false;
    static const std::vector<std::string> types = {"ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"};
    const std::string t = any(types);
    auto axes = some_axes(rank(*x));
    if (chance(3)) axes.back() -= static_cast<int64_t>(rank(*x));
    const V y = reduced(t, *x, axes, !chance(3), t == "ReduceMax" || t == "ReduceMin" ? Kind::Exact : Kind::Rounds);
    // What follows is mostly beside what it was folded from.
    if (const auto s = broadcast(shape(*x), shape(y)); s && *s == shape(*x) && chance(2)) add(chance(2) ? "Sub" : "Mul", *x, y);
    return true;
}
bool Maker::arg() {
    const auto x = some_float(1);
    if (!x) return false;
    const size_t axis = pick(rank(*x));
    const bool keep = chance(2);
    Extents s = shape(*x);
    const int64_t n = s[axis].n;
    if (n == 0) return false;
    if (chance(4)) {  // the largest ones, in order, and where they are
        const int64_t k = 1 + static_cast<int64_t>(pick(static_cast<uint64_t>(std::min<int64_t>(n, 4))));
        if (s[axis].open()) return false;
        s[axis].n = k;
        const auto two = ops("TopK", {*x, ints({k})}, {s, s}, {{"axis", maybe_negative(axis, rank(*x))}}, Kind::Exact, {type(*x), DType::I64});
        values_[two[1]].chosen |= values_[*x].rounded;
        return true;
    }
    if (keep) s[axis] = {1, ""};
    else s.erase(s.begin() + static_cast<std::ptrdiff_t>(axis));
    const std::string t = chance(2) ? "ArgMax" : "ArgMin";
    const V at = op(t, {*x}, s,
                    {{"axis", maybe_negative(axis, rank(*x))}, {"keepdims", static_cast<int64_t>(keep)}, {"select_last_index", static_cast<int64_t>(pick(2))}},
                    Kind::Chooses, DType::I64);
    if (!chance(2)) return true;
    const auto width = static_cast<int64_t>(1 + pick(9));
    s.push_back({width, ""});
    op("Gather", {weight({n, width}), at}, s, {}, Kind::Exact);  // its row of a table
    return true;
}
bool Maker::running() {
    const auto x = some_float(1);
    if (!x) return false;
    const size_t axis = pick(rank(*x));
    const auto one = number(static_cast<double>(maybe_negative(axis, rank(*x))), DType::I64);
    const auto exclusive = static_cast<int64_t>(pick(2)), reverse = static_cast<int64_t>(pick(2));
    op("CumSum", {*x, one}, shape(*x), {{"exclusive", exclusive}, {"reverse", reverse}});
    return true;
}

// ---- what only moves elements

V Maker::permuted(V x, const std::vector<int64_t>& order) {
    Extents s;
    for (int64_t i : order) s.push_back(shape(x)[static_cast<size_t>(i)]);
    return op("Transpose", {x}, s, {{"perm", order}}, Kind::Exact);
}
bool Maker::transpose() {
    const auto x = some([&](V v) { return rank(v) >= 2; });
    if (!x) return false;
    std::vector<int64_t> order(rank(*x));
    std::iota(order.begin(), order.end(), 0);
    if (chance(2)) std::swap(order[order.size() - 1], order[order.size() - 2]);
    else
        for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[pick(i + 1)]);
    permuted(*x, order);
    return true;
}
bool Maker::reshape() {
    const auto x = some_float(1);
    if (!x) return false;
    const Extents s = shape(*x);
    const int64_t all = count(s);
    const auto last = s.back();
    switch (pick(6)) {
        case 0: {  // rows of one matrix
            if (s.size() < 2 || last.open() || all == 0) return false;
            const Extents lead(s.begin(), s.end() - 1);
            op("Reshape", {*x, ints({-1, last.n})}, {closed(lead) ? Extent{all / last.n, ""} : fresh(all / last.n), last}, {}, Kind::Exact);
            return true;
        }
        case 1: {  // the last dim in two, as heads
            std::vector<int64_t> parts;
            for (int64_t k : {2, 3, 4}) if (!last.open() && last.n % k == 0 && last.n) parts.push_back(k);
            if (parts.empty()) return false;
            const int64_t k = any(parts);
            Extents t(s.begin(), s.end() - 1);
            std::vector<int64_t> to(t.size(), 0);
            t.insert(t.end(), {{k, ""}, {last.n / k, ""}});
            to.insert(to.end(), {k, -1});
            if (all == 0) return false;
            op("Reshape", {*x, ints(to)}, t, {}, Kind::Exact);
            return true;
        }
        case 2: {  // the last two as one
            if (s.size() < 2 || all == 0) return false;
            Extents t(s.begin(), s.end() - 2);
            std::vector<int64_t> to(t.size(), 0);
            const Extent& other = s[s.size() - 2];
            t.push_back(last.open() || other.open() ? fresh(last.n * other.n) : Extent{last.n * other.n, ""});
            to.push_back(-1);
            op("Reshape", {*x, ints(to)}, t, {}, Kind::Exact);
            return true;
        }
        case 3: {  // as another value
            if (!closed(s)) return false;
            const auto y = some([&](V v) { return closed(shape(v)) && count(shape(v)) == all && shape(v) != s; });
            if (!y) return false;
            const Extents t = shape(*y);
            op("Reshape", {*x, ints(numbers(t))}, t, {{"allowzero", int64_t{1}}}, Kind::Exact);
            return true;
        }
        case 4: {  // the extents in another order
            if (!closed(s) || s.size() < 2) return false;
            Extents t(s.rbegin(), s.rend());
            op("Reshape", {*x, ints(numbers(t))}, t, {{"allowzero", int64_t{1}}}, Kind::Exact);
            return true;
        }
        default: {
            const size_t axis = pick(s.size() + 1);
            const Extents a(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(axis)), b(s.begin() + static_cast<std::ptrdiff_t>(axis), s.end());
            op("Flatten", {*x}, {closed(a) ? Extent{count(a), ""} : fresh(count(a)), closed(b) ? Extent{count(b), ""} : fresh(count(b))},
               {{"axis", static_cast<int64_t>(axis)}}, Kind::Exact);
            return true;
        }
    }
}
bool Maker::unit_dims() {
    const auto x = some([&](V v) { return rank(v) <= 4; });
    if (!x) return false;
    Extents s = shape(*x);
    std::vector<int64_t> ones;
    for (size_t i = 0; i < s.size(); ++i) if (s[i].one()) ones.push_back(static_cast<int64_t>(i));
    if (!ones.empty() && chance(2)) {
        const int64_t at = any(ones);
        s.erase(s.begin() + at);
        op("Squeeze", {*x, ints({at})}, s, {}, Kind::Exact);
    } else {
        const size_t at = pick(s.size() + 1);
        s.insert(s.begin() + static_cast<std::ptrdiff_t>(at), Extent{1, ""});
        op("Unsqueeze", {*x, ints({static_cast<int64_t>(at)})}, s, {}, Kind::Exact);
    }
    return true;
}
bool Maker::expand() {
    const auto x = some([&](V v) { return closed(shape(v)) && rank(v) >= 1 && count(shape(v)) <= 1000; });
    if (!x) return false;
    Extents s = shape(*x);
    if (chance(3)) {
        std::vector<int64_t> times;
        for (Extent& e : s) {
            times.push_back(1 + static_cast<int64_t>(chance(2)));
            e.n *= times.back();
        }
        op("Tile", {*x, ints(times)}, s, {}, Kind::Exact);
        return true;
    }
    if (chance(3)) s.insert(s.begin(), Extent{2, ""});
    for (Extent& e : s) if (e.n == 1) e.n = any_of({1, 2, 3, 5});
    op("Expand", {*x, ints(numbers(s))}, s, {}, Kind::Exact);
    return true;
}
bool Maker::concat() {
    const auto x = some_float(1);
    if (!x) return false;
    const size_t axis = pick(rank(*x));
    std::vector<V> all;
    for (V v = 0; v < values_.size(); ++v) {
        if (values_[v].constant || type(v) != type(*x) || rank(v) != rank(*x)) continue;
        Extents a = shape(v), b = shape(*x);
        a[axis] = b[axis] = {};
        if (a == b) all.push_back(v);
    }
    std::vector<V> parts = {*x};
    for (uint64_t i = 0; i < 1 + pick(2); ++i) parts.push_back(any(all));
    if (chance(2)) std::reverse(parts.begin(), parts.end());
    Extents s = shape(*x);
    s[axis] = {0, ""};
    bool open = false;
    for (V v : parts) s[axis].n += shape(v)[axis].n, open |= shape(v)[axis].open();
    if (open) s[axis] = fresh(s[axis].n);
    if (count(s) > kMostElements) return false;
    op("Concat", parts, s, {{"axis", maybe_negative(axis, rank(*x))}}, Kind::Exact);
    return true;
}
bool Maker::split() {
    const auto x = some([&](V v) { return rank(v) >= 1 && floats(v); });
    if (!x) return false;
    const size_t axis = chance(2) ? rank(*x) - 1 : pick(rank(*x));
    const Extent e = shape(*x)[axis];
    if (e.open() || e.n < 2) return false;
    Extents a = shape(*x), b = a;
    const int64_t at = chance(2) ? e.n / 2 : 1 + static_cast<int64_t>(pick(static_cast<uint64_t>(e.n - 1)));
    a[axis].n = at;
    b[axis].n = e.n - at;
    const auto two = ops("Split", {*x, ints({at, e.n - at})}, {a, b}, {{"axis", maybe_negative(axis, rank(*x))}}, Kind::Exact, {type(*x), type(*x)});
    if (a == b && chance(2)) add("Mul", two[0], op("Sigmoid", {two[1]}, b));  // a gate
    return true;
}
bool Maker::slice() {
    const auto x = some([&](V v) { return rank(v) >= 1; });
    if (!x) return false;
    const size_t axis = pick(rank(*x));
    Extents s = shape(*x);
    Extent& e = s[axis];
    int64_t start = 0, end = std::numeric_limits<int64_t>::max(), step = 1, n = e.n;
    switch (pick(4)) {
        case 0: start = 1; n = std::max<int64_t>(e.n - 1, 0); break;
        case 1: end = -1; n = std::max<int64_t>(e.n - 1, 0); break;
        case 2: step = 2; n = (e.n + 1) / 2; break;
        default: start = -1; end = std::numeric_limits<int64_t>::min(); step = -1;
    }
    if (n != e.n || e.open()) e = derived(e, n);
    op("Slice", {*x, ints({start}), ints({end}), ints({maybe_negative(axis, rank(*x))}), ints({step})}, s, {}, Kind::Exact);
    return true;
}
bool Maker::pad() {
    const auto x = some_float(1);
    if (!x) return false;
    Extents s = shape(*x);
    std::vector<int64_t> before(s.size(), 0), after(s.size(), 0);
    std::string mode = std::vector<std::string>{"constant", "constant", "edge", "reflect"}[pick(4)];
    for (size_t i = 0; i < s.size(); ++i) {
        if (!chance(2)) continue;
        before[i] = static_cast<int64_t>(pick(3));
        after[i] = static_cast<int64_t>(pick(3));
        if (mode == "reflect" && (s[i].open() || s[i].n < 3)) before[i] = after[i] = 0;
        if (mode == "edge" && (s[i].open() || s[i].n < 1)) before[i] = after[i] = 0;
        if (mode == "constant" && chance(4) && s[i].n > 1 && !s[i].open()) before[i] = -1;  // it crops
        if (before[i] || after[i]) s[i] = derived(s[i], s[i].n + before[i] + after[i]);
    }
    if (count(s) > kMostElements) return false;
    before.insert(before.end(), after.begin(), after.end());
    std::vector<V> in = {*x, ints(before)};
    if (mode == "constant" && chance(2)) in.push_back(number(1.5, type(*x)));
    op("Pad", in, s, {{"mode", mode}}, Kind::Exact);
    return true;
}
bool Maker::gather() {
    const auto x = some_float(1);
    if (!x) return false;
    const size_t axis = pick(rank(*x));
    const Extent e = shape(*x)[axis];
    if (e.open() || e.n < 1) return false;
    Extents at;
    for (uint64_t i = pick(3); i > 0; --i) at.push_back({any_of({1, 2, 3, 5}), ""});
    if (rank(*x) + at.size() > 5) return false;
    V index;
    if (chance(2)) {
        index = input(DType::I64, at, e.n);
    } else {
        Tensor t = random_tensor(DType::I64, numbers(at), e.n);
        for (int64_t i = 0; i < t.size(); ++i) if (chance(4)) t.set_int(i, t.get_int(i) - e.n);
        index = constant(t);
    }
    Extents s(shape(*x).begin(), shape(*x).begin() + static_cast<std::ptrdiff_t>(axis));
    s.insert(s.end(), at.begin(), at.end());
    s.insert(s.end(), shape(*x).begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape(*x).end());
    if (count(s) > kMostElements) return false;
    op("Gather", {*x, index}, s, {{"axis", maybe_negative(axis, rank(*x))}}, Kind::Exact);
    return true;
}
bool Maker::rearrange() {
    const auto x = some([&](V v) { return floats(v) && rank(v) >= 2; });
    if (!x) return false;
    Extents s = shape(*x);
    if (s.size() == 4 && !s[1].open() && s[1].n % 4 == 0) {
        s = {s[0], {s[1].n / 4, ""}, derived(s[2], s[2].n * 2), derived(s[3], s[3].n * 2)};
        op("DepthToSpace", {*x}, s, {{"blocksize", int64_t{2}}, {"mode", std::string(chance(2) ? "DCR" : "CRD")}}, Kind::Exact);
    } else if (s.size() == 4 && closed(s) && s[2].n % 2 == 0 && s[3].n % 2 == 0) {
        op("SpaceToDepth", {*x}, {s[0], {s[1].n * 4, ""}, {s[2].n / 2, ""}, {s[3].n / 2, ""}}, {{"blocksize", int64_t{2}}}, Kind::Exact);
    } else {
        const auto upper = static_cast<int64_t>(pick(2));
        op("Trilu", {*x, number(static_cast<double>(any_of({-1, 0, 1})), DType::I64)}, s, {{"upper", upper}}, Kind::Exact);
    }
    return true;
}

}  // namespace opwright::verify::models
