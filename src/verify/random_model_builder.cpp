#include "verify/random_model_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/onnx/tensor_proto.h"

namespace opwright::verify::models {
namespace onnx = graph::onnx;
namespace {

void set_shape(opwright::onnx::ValueInfoProto& v, const Value& value, bool shape = false) {
    v.set_name(value.name);
    auto& type = *v.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::dtype_to_onnx(value.type));
    if (!shape) return;
    type.mutable_shape();
    for (const Extent& e : value.shape) {
        auto& dim = *type.mutable_shape()->add_dim();
        e.open() ? dim.set_dim_param(e.symbol) : dim.set_dim_value(e.n);
    }
}
void set_attribute(opwright::onnx::AttributeProto& a, const std::string& name, const AttributeValue& v) {
    a.set_name(name);
    if (const auto* i = std::get_if<int64_t>(&v)) {
        a.set_type(2);
        a.set_i(*i);
    } else if (const auto* f = std::get_if<double>(&v)) {
        a.set_type(1);
        a.set_f(static_cast<float>(*f));
    } else if (const auto* s = std::get_if<std::string>(&v)) {
        a.set_type(3);
        a.set_s(*s);
    } else {
        a.set_type(7);
        for (int64_t i : std::get<std::vector<int64_t>>(v)) a.add_ints(i);
    }
}
}  // namespace

Builder::Builder(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 2) {
    model_.set_ir_version(10);
    model_.add_opset_import()->set_version(23);
    model_.mutable_graph()->set_name(fmt::format("random_model_{}", seed));
}

int64_t Builder::count(const Extents& s) {
    int64_t n = 1;
    for (const Extent& e : s) n *= e.n;
    return n;
}
bool Builder::closed(const Extents& s) {
    return std::none_of(s.begin(), s.end(), [](const Extent& e) { return e.open(); });
}
Shape Builder::numbers(const Extents& s) {
    Shape r;
    for (const Extent& e : s) r.push_back(e.n);
    return r;
}

Tensor Builder::random_tensor(DType t, const Shape& s, int64_t limit, double scale, double offset) {
    Tensor r(t, s);
    for (int64_t i = 0; i < r.size(); ++i) {
        if (!is_float(t)) {
            r.set_int(i, static_cast<int64_t>(pick(static_cast<uint64_t>(t == DType::Bool ? 2 : std::max<int64_t>(limit, 1)))));
            continue;
        }
        double sum = 0;  // nearly normal, and the same on every machine
        for (int k = 0; k < 6; ++k) sum += static_cast<double>(pick(1 << 20)) / (1 << 20) - 0.5;
        r.set(i, offset + scale * sum * std::sqrt(2.0));
    }
    return r;
}

V Builder::input(DType t, Extents shape, int64_t limit) {
    values_.push_back({fmt::format("x{}", inputs_.size()), t, std::move(shape)});
    inputs_.push_back({values_.size() - 1, limit});
    set_shape(*model_.mutable_graph()->add_input(), values_.back(), true);
    return values_.size() - 1;
}
V Builder::constant(const Tensor& t) {
    Value v{fmt::format("c{}", values_.size()), t.dtype(), {}, true};
    for (int64_t n : t.shape()) v.shape.push_back({n, ""});
    model_.mutable_graph()->add_initializer()->ParseFromString(onnx::tensor_to_proto(t, v.name));
    values_.push_back(std::move(v));
    return values_.size() - 1;
}
V Builder::ints(const std::vector<int64_t>& v) {
    Tensor t(DType::I64, {static_cast<int64_t>(v.size())});
    for (size_t i = 0; i < v.size(); ++i) t.set_int(static_cast<int64_t>(i), v[i]);
    return constant(t);
}
V Builder::number(double v, std::optional<DType> t) {
    Tensor r(t.value_or(stored_), {});
    is_float(r.dtype()) ? r.set(0, v) : r.set_int(0, static_cast<int64_t>(v));
    return constant(r);
}
V Builder::weight(const Shape& s, double scale, double offset, std::optional<DType> t) {
    return constant(random_tensor(t.value_or(stored_), s, 0, scale, offset));
}

V Builder::op(const std::string& type, const std::vector<V>& in, Extents shape, const Attributes& a, Kind kind,
              std::optional<DType> t) {
    return ops(type, in, {std::move(shape)}, a, kind, {t.value_or(values_[in[0]].type)})[0];
}
std::vector<V> Builder::ops(const std::string& type, const std::vector<V>& in, const std::vector<Extents>& shapes,
                            const Attributes& a, Kind kind, const std::vector<DType>& types) {
    auto& n = *model_.mutable_graph()->add_node();
    n.set_op_type(type);
    bool rounded = false, chosen = false;
    for (V v : in) {
        n.add_input(v == kNoValue ? "" : values_[v].name);
        if (v == kNoValue) continue;
        rounded |= values_[v].rounded;
        chosen |= values_[v].chosen;
        ++values_[v].readers;
    }
    chosen |= rounded && kind == Kind::Chooses;
    rounded |= kind == Kind::Rounds;
    std::vector<V> r;
    for (size_t i = 0; i < shapes.size(); ++i) {
        const DType t = i < types.size() ? types[i] : values_[in[0]].type;
        values_.push_back({fmt::format("v{}", values_.size()), t, shapes[i], false, rounded && is_float(t), chosen});
        n.add_output(values_.back().name);
        r.push_back(values_.size() - 1);
    }
    n.set_name(values_[r[0]].name);
    for (const auto& [name, v] : a) set_attribute(*n.add_attribute(), name, v);
    return r;
}

std::optional<V> Builder::some(const std::function<bool(V)>& ok) {
    std::vector<V> all;
    for (V v = 0; v < values_.size(); ++v)
        if (!values_[v].constant && count(values_[v].shape) <= kMostElements && ok(v)) all.push_back(v);
    if (all.empty()) return std::nullopt;
    const size_t recent = std::min<size_t>(all.size(), 3);
    return chance(4) ? any(all) : all[all.size() - 1 - pick(recent)];
}
std::optional<V> Builder::some_float(size_t least_rank) {
    return some([&](V v) { return floats(v) && rank(v) >= least_rank; });
}

std::optional<Extents> Builder::broadcast(const Extents& a, const Extents& b) {
    Extents r = a.size() >= b.size() ? a : b;
    const Extents& less = a.size() >= b.size() ? b : a;
    for (size_t i = 0; i < less.size(); ++i) {
        Extent& x = r[r.size() - less.size() + i];
        if (x == less[i] || less[i].one()) continue;
        if (!x.one()) return std::nullopt;
        x = less[i];
    }
    return r;
}

RandomModel Builder::finish() {
    RandomModel r;
    for (size_t set = 0; set < (sizes_.empty() ? 1 : 2); ++set) {
        NamedInputs in;
        for (const Given& g : inputs_) {
            Shape s;
            for (const Extent& e : values_[g.value].shape)
                s.push_back(!e.open() ? e.n : (set ? other_sizes_ : sizes_).at(e.symbol));
            in[values_[g.value].name] = random_tensor(values_[g.value].type, s, g.limit);
        }
        r.inputs.push_back(std::move(in));
    }
    for (const Value& v : values_) {
        if (v.chosen) r.chosen.insert(v.name);
        if (v.constant || v.name[0] == 'x' || (v.readers > 0 && !chance(8))) continue;
        set_shape(*model_.mutable_graph()->add_output(), v);
    }
    r.bytes = model_.SerializeAsString();
    return r;
}

}  // namespace opwright::verify::models
