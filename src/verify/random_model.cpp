#include "verify/random_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/onnx/import.h"
#include "graph/onnx/tensor_proto.h"
#include "verify/random_model_maker.h"

namespace opwright::verify {
namespace models {

// On both sides of vector widths; equal ones are frequent.
Extent Maker::extent() { return {any_of({1, 2, 3, 4, 4, 5, 6, 8, 8, 12, 15, 16, 16, 17, 24, 31, 33}), ""}; }

void Maker::inputs() {
    constexpr DType types[] = {DType::F32, DType::F32, DType::F32, DType::F32, DType::F16, DType::BF16};
    stored_ = types[pick(std::size(types))];
    dynamic_ = chance(2);
    Extent b{any_of({1, 1, 2, 3}), ""}, l{extent()}, d{any_of({4, 6, 8, 16, 17, 32}), ""};
    if (chance(3)) l.n = d.n;  // a square
    if (chance(30)) (chance(2) ? b : l).n = 0;
    // Every extent is the same: dims that are taken for one another show in the values alone.
    const int64_t all_alike = chance(5) ? any_of({3, 4, 5, 8}) : 0;
    if (all_alike) b.n = l.n = d.n = all_alike;
    if (dynamic_) {
        const auto open = [&](Extent& e, const std::string& name) {
            e.symbol = name;
            sizes_[name] = e.n;
            other_sizes_[name] = any_of({0, 1, 2, 3, 5, 7, 18, 20});
        };
        const uint64_t which = 1 + pick(3);
        if (which & 1) open(b, "b");
        if (which & 2) open(l, "l");
    }
    const uint64_t kind = pick(8);
    if (kind >= 2) {  // rows
        std::vector<Extents> shapes = {{b, l, d}, {b, l, d}, {l, d}, {b, d}, {d, l}, {b, {1, ""}, d}};
        input(stored_, shapes[pick(3)]);
        if (chance(2)) input(stored_, any(shapes));
    }
    if (kind < 4) {  // a picture
        Extent h{any_of({1, 4, 5, 7, 8}), ""}, c{any_of({1, 2, 4, 6, 8, 16, 16, 17, 32}), ""};
        Extent w{any_of({1, 4, 5, 7, 8, 16, 17}), ""};
        if (all_alike) h.n = c.n = w.n = all_alike;
        if (dynamic_ && chance(2)) {
            w.symbol = "w";
            sizes_["w"] = w.n;
            other_sizes_["w"] = any_of({1, 6, 9, 19});
        }
        input(stored_, {b, c, h, w});
        if (chance(3)) input(stored_, {b, c, {1, ""}, {1, ""}});
    }
}

void Maker::make() {
    inputs();
    using Step = bool (Maker::*)();
    struct Weighted {
        int weight;
        Step step;
    };
    static constexpr Weighted steps[] = {
        {6, &Maker::unary},     {2, &Maker::guarded_unary}, {9, &Maker::binary},         {5, &Maker::with_constant},
        {2, &Maker::where},     {1, &Maker::cast},          {1, &Maker::integer},        {6, &Maker::reduce},
        {1, &Maker::arg},       {1, &Maker::running},       {6, &Maker::transpose},      {5, &Maker::reshape},
        {2, &Maker::unit_dims}, {1, &Maker::expand},        {3, &Maker::concat},         {2, &Maker::split},
        {3, &Maker::slice},     {2, &Maker::pad},           {2, &Maker::gather},         {1, &Maker::rearrange},
        {6, &Maker::linear},    {4, &Maker::product},   {2, &Maker::einsum},       {5, &Maker::softmax},        {4, &Maker::norm},
        {2, &Maker::norm_by_parts}, {2, &Maker::activation_by_parts}, {2, &Maker::softmax_by_parts},
        {1, &Maker::attention}, {9, &Maker::conv},          {1, &Maker::conv_of_rows},   {4, &Maker::pool},
        {3, &Maker::batch_norm}, {1, &Maker::resize},     {4, &Maker::bottleneck},    {2, &Maker::softmax_twice},
    };
    int total = 0;
    for (const Weighted& s : steps) total += s.weight;
    const uint64_t wanted = chance(16) ? 25 + pick(20) : 3 + pick(12);
    uint64_t made = 0;
    for (int attempt = 0; made < wanted && attempt < 150; ++attempt) {
        int at = static_cast<int>(pick(static_cast<uint64_t>(total)));
        const Weighted* s = steps;
        while (at >= s->weight) at -= s++->weight;
        made += (this->*s->step)();
    }
    if (made == 0) op("Neg", {0}, shape(0), {}, Kind::Exact);
}
}  // namespace models

RandomModel random_model(uint64_t seed) {
    models::Maker m(seed);
    m.make();
    return m.finish();
}

std::string described(const std::string& bytes) {
    opwright::onnx::ModelProto model;
    if (!model.ParseFromString(bytes)) return "not a model\n";
    const auto& g = model.graph();
    std::string r;
    for (const auto& v : g.input()) {
        std::vector<std::string> dims;
        for (const auto& d : v.type().tensor_type().shape().dim())
            dims.push_back(d.has_dim_param() ? d.dim_param() : std::to_string(d.dim_value()));
        const auto t = graph::onnx::dtype_from_onnx(v.type().tensor_type().elem_type());
        r += fmt::format("{}: {}[{}]\n", v.name(), t ? name(*t) : "?", fmt::join(dims, ","));
    }
    for (const auto& c : g.initializer()) {
        const auto t = graph::onnx::tensor_from_proto(c.SerializeAsString());
        if (!t.ok()) continue;
        std::string values;
        for (int64_t i = 0; t->tensor.size() <= 8 && i < t->tensor.size(); ++i)
            values += is_float(t->tensor.dtype()) ? fmt::format(" {:g}", t->tensor.get(i)) : fmt::format(" {}", t->tensor.get_int(i));
        r += fmt::format("{}: {}{}{}{}\n", c.name(), name(t->tensor.dtype()), to_string(t->tensor.shape()), values.empty() ? "" : " =", values);
    }
    for (const auto& n : g.node()) {
        r += fmt::format("{} = {}({})", fmt::join(n.output().begin(), n.output().end(), ", "), n.op_type(),
                         fmt::join(n.input().begin(), n.input().end(), ", "));
        for (const auto& a : n.attribute()) {
            r += fmt::format(" {}=", a.name());
            if (a.type() == 1) r += fmt::format("{:g}", a.f());
            if (a.type() == 2) r += fmt::format("{}", a.i());
            if (a.type() == 3) r += a.s();
            if (a.type() == 7) r += fmt::format("[{}]", fmt::join(a.ints().begin(), a.ints().end(), ","));
        }
        r += "\n";
    }
    std::vector<std::string> outputs;
    for (const auto& o : g.output()) outputs.push_back(o.name());
    return r + fmt::format("outputs: {}\n", fmt::join(outputs, ", "));
}

}  // namespace opwright::verify
