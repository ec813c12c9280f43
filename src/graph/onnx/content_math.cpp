#include "graph/onnx/content_math.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <unordered_map>

#include "graph/onnx/tensor_proto.h"

namespace opwright::graph::onnx {

using math::Fn;
using math::Sym;
using MaybeSym = std::optional<Sym>;

struct SymMeasure::Impl {
    struct Facts {
        int depth;
        double magnitude;
    };
    std::unordered_map<const Sym::Node*, Facts> memo;
    std::vector<Sym> kept;  // the addresses in memo stay taken

    Facts facts(const Sym& s, int level) {
        if (auto c = s.constant()) return {1, std::abs(static_cast<double>(*c))};
        if (auto it = memo.find(s.id()); it != memo.end()) return it->second;
        Facts f{1, s.kind() == math::SymKind::Symbol || s.kind() == math::SymKind::Mul ? 1.0 : 0.0};
        if (level > 200 || s.operands().size() > 64) {
            f.depth = 1000;
        } else {
            for (const Sym& o : s.operands()) {
                const Facts g = facts(o, level + 1);
                f.depth = std::max(f.depth, g.depth + 1);
                f.magnitude = s.kind() == math::SymKind::Mul ? f.magnitude * std::max(1.0, g.magnitude)
                                                             : f.magnitude + g.magnitude;
            }
        }
        memo.emplace(s.id(), f);
        kept.push_back(s);
        return f;
    }
};
SymMeasure::SymMeasure() : impl_(std::make_unique<Impl>()) {}
SymMeasure::~SymMeasure() = default;
bool SymMeasure::small(const Sym& s) {
    const auto f = impl_->facts(s, 0);
    return f.depth <= 64 && (s.is_const() || f.magnitude <= 0x1p53);
}
double SymMeasure::magnitude(const Sym& s) { return impl_->facts(s, 0).magnitude; }

namespace {

// Symbolic integers have no width, so only the types that extents fit are computed symbolically.
bool symbolic_type(DType t) { return t == DType::I64 || t == DType::I32 || t == DType::Bool; }

std::optional<int64_t> constant_result(Fn f, const std::vector<Sym>& a, DType t) {
    std::array<int64_t, 3> v{};
    for (size_t i = 0; i < a.size(); ++i) {
        const auto c = a[i].constant();
        if (!c) return std::nullopt;
        v[i] = *c;
    }
    if ((f == Fn::Div || f == Fn::Mod || f == Fn::Fmod) && v[1] == 0) return std::nullopt;
    return math::apply_int(f, std::span(v.data(), a.size()), t);
}

MaybeSym checked(Sym s, SymMeasure& m) {
    if (!m.small(s)) return std::nullopt;
    return s;
}

Sym truth(const Sym& s) { return Sym(1) - math::equal(s, 0); }

// f on elements of type t. Comparisons and logic deliver 0 or 1.
MaybeSym apply(Fn f, const std::vector<Sym>& a, DType t, SymMeasure& m) {
    if (const auto c = constant_result(f, a, t)) return Sym(*c);
    if (!symbolic_type(t)) return std::nullopt;
    for (const Sym& s : a)
        if (m.magnitude(s) > 0x1p53) return std::nullopt;
    const Sym& x = a[0];
    const Sym& y = a.size() > 1 ? a[1] : a[0];
    switch (f) {
        case Fn::Neg: return checked(-x, m);
        case Fn::Abs: return checked(math::max(x, -x), m);
        case Fn::Sign: return checked(math::select(math::less(x, 0), -1, math::select(math::equal(x, 0), 0, 1)), m);
        case Fn::Not: return checked(math::equal(x, 0), m);
        case Fn::Add: return checked(x + y, m);
        case Fn::Sub: return checked(x - y, m);
        case Fn::Mul:
            if (m.magnitude(x) * m.magnitude(y) > 0x1p53) return std::nullopt;
            return checked(x * y, m);
        case Fn::Div: {  // toward zero
            if (y.lower() < 1) return std::nullopt;
            if (x.lower() >= 0) return checked(math::floor_div(x, y), m);
            return checked(math::select(math::less(x, 0), -math::floor_div(-x, y), math::floor_div(x, y)), m);
        }
        case Fn::Mod:
            if (y.lower() < 1) return std::nullopt;
            return checked(math::mod(x, y), m);
        case Fn::Fmod:
            if (y.lower() < 1 || x.lower() < 0) return std::nullopt;
            return checked(math::mod(x, y), m);
        case Fn::Min: return checked(math::min(x, y), m);
        case Fn::Max: return checked(math::max(x, y), m);
        case Fn::And: return checked(math::select(x, truth(y), 0), m);
        case Fn::Or: return checked(math::select(x, 1, truth(y)), m);
        case Fn::Xor: return checked(Sym(1) - math::equal(truth(x), truth(y)), m);
        case Fn::Eq: return checked(math::equal(x, y), m);
        case Fn::Lt: return checked(math::less(x, y), m);
        case Fn::Gt: return checked(math::less(y, x), m);
        case Fn::Le: return checked(Sym(1) - math::less(y, x), m);
        case Fn::Ge: return checked(Sym(1) - math::less(x, y), m);
        case Fn::Select: return checked(math::select(x, a[1], a[2]), m);
        default: return std::nullopt;  // not among the functions of kFunctions below
    }
}

// The element-wise operators; `fold` takes any number of inputs.
struct Function {
    Fn fn;
    int arity;
    bool to_bool = false;
    bool fold = false;
};
const std::map<std::string, Function>& functions() {
    static const std::map<std::string, Function> table = {{"Neg", {Fn::Neg, 1}},
                                                          {"Abs", {Fn::Abs, 1}},
                                                          {"Sign", {Fn::Sign, 1}},
                                                          {"Not", {Fn::Not, 1}},
                                                          {"Add", {Fn::Add, 2}},
                                                          {"Sub", {Fn::Sub, 2}},
                                                          {"Mul", {Fn::Mul, 2}},
                                                          {"Div", {Fn::Div, 2}},
                                                          {"And", {Fn::And, 2}},
                                                          {"Or", {Fn::Or, 2}},
                                                          {"Xor", {Fn::Xor, 2}},
                                                          {"Equal", {Fn::Eq, 2, true}},
                                                          {"Less", {Fn::Lt, 2, true}},
                                                          {"Greater", {Fn::Gt, 2, true}},
                                                          {"LessOrEqual", {Fn::Le, 2, true}},
                                                          {"GreaterOrEqual", {Fn::Ge, 2, true}},
                                                          {"Min", {Fn::Min, 2, false, true}},
                                                          {"Max", {Fn::Max, 2, false, true}},
                                                          {"Sum", {Fn::Add, 2, false, true}}};
    return table;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
    Shape r(std::max(a.size(), b.size()));
    for (size_t i = 0; i < r.size(); ++i) {
        const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) return std::nullopt;
        r[r.size() - 1 - i] = x == 1 ? y : x;
    }
    return r;
}

// f over the broadcast of all inputs.
std::optional<Known> map(const std::vector<Known>& in, DType result,
                         const std::function<MaybeSym(const std::vector<Sym>&)>& f) {
    Known r{result, {}, {}};
    for (const Known& k : in) {
        const auto s = broadcast(r.shape, k.shape);
        if (!s) return std::nullopt;
        r.shape = *s;
    }
    const int64_t n = element_count(r.shape);
    if (n < 0 || n > kContentLimit) return std::nullopt;
    std::vector<Sym> args(in.size());
    for (int64_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < in.size(); ++j) {
            int64_t at = 0, stride = 1, rest = i;
            for (size_t d = 0; d < r.shape.size(); ++d) {
                const int64_t index = rest % r.shape[r.shape.size() - 1 - d];
                rest /= r.shape[r.shape.size() - 1 - d];
                if (d >= in[j].shape.size()) continue;
                const int64_t extent = in[j].shape[in[j].shape.size() - 1 - d];
                at += extent == 1 ? 0 : index * stride;
                stride *= extent;
            }
            args[j] = in[j].elements[static_cast<size_t>(at)];
        }
        const MaybeSym e = f(args);
        if (!e) return std::nullopt;
        r.elements.push_back(*e);
    }
    return r;
}

std::optional<Known> cast(const Value& v, DType to) {
    if (is_float(to)) return std::nullopt;
    if (v.constant && is_float(v.dtype) && v.constant->size() <= kContentLimit) {
        Known r{to, v.constant->shape(), {}};
        for (int64_t i = 0; i < v.constant->size(); ++i)
            r.elements.push_back(math::saturate_to(v.constant->get(i), to));
        return r;
    }
    auto k = known_content(v);
    if (!k) return std::nullopt;
    k->dtype = to;
    for (Sym& e : k->elements) {
        if (auto c = e.constant())
            e = math::wrap_to(*c, to);
        else if (to == DType::Bool)
            e = truth(e);
        else if (!symbolic_type(to))
            return std::nullopt;
    }
    return k;
}

std::optional<Known> reduce(const NodeContext& c, const Known& x, Fn f, SymMeasure& m) {
    const auto rank = static_cast<int64_t>(x.shape.size());
    std::vector<bool> reduced(x.shape.size(), false);
    std::optional<std::vector<int64_t>> axes = c.ints("axes");
    if (c.input_count() > 1 && c.input(1) != kNone) {
        const auto k = known_content(c.value(c.input(1)));
        if (!k) return std::nullopt;
        axes.emplace();
        for (const Sym& e : k->elements) {
            if (!e.is_const()) return std::nullopt;
            axes->push_back(*e.constant());
        }
    }
    if (!axes || axes->empty()) {
        if (c.int_attribute("noop_with_empty_axes", 0)) return x;
        reduced.assign(x.shape.size(), true);
    } else {
        for (int64_t a : *axes) {
            if (a < -rank || a >= rank) return std::nullopt;
            reduced[static_cast<size_t>(a < 0 ? a + rank : a)] = true;
        }
    }
    const bool keep = c.int_attribute("keepdims", 1) != 0;
    Known r{x.dtype, {}, {}};
    Shape full;  // with every reduced dim as 1
    for (size_t d = 0; d < x.shape.size(); ++d) {
        full.push_back(reduced[d] ? 1 : x.shape[d]);
        if (!reduced[d] || keep) r.shape.push_back(full.back());
    }
    std::vector<MaybeSym> sums(static_cast<size_t>(element_count(full)));
    for (size_t i = 0; i < x.elements.size(); ++i) {
        size_t at = 0, stride = 1, rest = i;
        for (size_t d = x.shape.size(); d-- > 0;) {
            const auto extent = static_cast<size_t>(x.shape[d]);
            if (!reduced[d]) {
                at += rest % extent * stride;
                stride *= extent;
            }
            rest /= extent;
        }
        sums[at] = sums[at] ? apply(f, {*sums[at], x.elements[i]}, x.dtype, m) : x.elements[i];
        if (!sums[at]) return std::nullopt;
    }
    for (const MaybeSym& s : sums) {
        if (s)
            r.elements.push_back(*s);
        else if (f == Fn::Add || f == Fn::Mul)
            r.elements.emplace_back(f == Fn::Mul ? 1 : 0);
        else
            return std::nullopt;  // the maximum of nothing
    }
    return r;
}
}  // namespace

MaybeSym add(const Sym& a, const Sym& b, DType t, SymMeasure& m) { return apply(Fn::Add, {a, b}, t, m); }
MaybeSym multiply(const Sym& a, const Sym& b, DType t, SymMeasure& m) { return apply(Fn::Mul, {a, b}, t, m); }
MaybeSym minimum(const Sym& a, const Sym& b, DType t, SymMeasure& m) { return apply(Fn::Min, {a, b}, t, m); }
MaybeSym maximum(const Sym& a, const Sym& b, DType t, SymMeasure& m) { return apply(Fn::Max, {a, b}, t, m); }

std::optional<Known> evaluate_math(const NodeContext& c, SymMeasure& m) {
    const std::string& op = c.op_type();
    const auto value = [&](size_t i) -> const Value* {
        return i < c.input_count() && c.input(i) != kNone ? &c.value(c.input(i)) : nullptr;
    };
    const Value* first = value(0);
    if (!first) return std::nullopt;
    if (op == "Cast") {
        const auto to = dtype_from_onnx(static_cast<int32_t>(c.int_attribute("to", 0)));
        return to ? cast(*first, *to) : std::nullopt;
    }
    if (op == "CastLike") return value(1) ? cast(*first, value(1)->dtype) : std::nullopt;

    const auto function = functions().find(op);
    const bool reduction = op == "ReduceSum" || op == "ReduceProd" || op == "ReduceMax" || op == "ReduceMin";
    if (function == functions().end() && op != "Mod" && op != "Where" && op != "Clip" && !reduction)
        return std::nullopt;
    if (c.has("broadcast") || c.has("axis")) return std::nullopt;  // the element-wise operators of opset 6 and before

    std::vector<Known> in;
    for (size_t i = 0; i < c.input_count(); ++i) {
        if (!value(i)) {
            if (op == "Clip" || reduction) {
                in.emplace_back();
                continue;
            }
            return std::nullopt;
        }
        auto k = known_content(*value(i));
        if (!k) return std::nullopt;
        in.push_back(std::move(*k));
    }
    const DType t = in[0].dtype;
    if (reduction)
        return reduce(c, in[0],
                      op == "ReduceSum"    ? Fn::Add
                      : op == "ReduceProd" ? Fn::Mul
                      : op == "ReduceMax"  ? Fn::Max
                                           : Fn::Min,
                      m);
    if (op == "Where") {
        if (in.size() != 3 || in[1].dtype != in[2].dtype) return std::nullopt;
        return map(in, in[1].dtype, [&](const std::vector<Sym>& a) { return apply(Fn::Select, a, in[1].dtype, m); });
    }
    for (size_t i = 1; i < in.size(); ++i)
        if (value(i) && in[i].dtype != t) return std::nullopt;
    if (op == "Clip") {
        std::optional<Known> r = in[0];
        if (in.size() > 1 && value(1))
            r = map({*r, in[1]}, t, [&](const std::vector<Sym>& a) { return apply(Fn::Max, a, t, m); });
        if (r && in.size() > 2 && value(2))
            r = map({*r, in[2]}, t, [&](const std::vector<Sym>& a) { return apply(Fn::Min, a, t, m); });
        return r;
    }
    const Function f = op == "Mod" ? Function{c.int_attribute("fmod", 0) ? Fn::Fmod : Fn::Mod, 2} : function->second;
    if (!f.fold && in.size() != static_cast<size_t>(f.arity)) return std::nullopt;
    return map(in, f.to_bool ? DType::Bool : t, [&](const std::vector<Sym>& a) -> MaybeSym {
        if (!f.fold) return apply(f.fn, a, t, m);
        MaybeSym r = a[0];
        for (size_t i = 1; i < a.size() && r; ++i) r = apply(f.fn, {*r, a[i]}, t, m);
        return r;
    });
}

}  // namespace opwright::graph::onnx
