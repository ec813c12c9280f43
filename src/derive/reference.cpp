#include "derive/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "derive/nest.h"

namespace opwright::derive {
using namespace math;
namespace {

// A tensor larger than this is not what a reference run is for: three doubles an element.
constexpr int64_t kMaxElements = int64_t{1} << 28;

Diagnostic too_much(const Program& p, const std::string& what, double count, double limit) {
    return Diagnostic(
               fmt::format(
                   "the reference of operator {} would need {:.3g} {} at these sizes, more than the limit of {:.3g}",
                   p.name, count, what, limit))
        .with_next("Use smaller sizes for a comparison with the reference.");
}

void fill_from(Store& s, const Tensor& x) {
    if (is_float(s.dtype)) {
        s.v.resize(s.size);
        if (s.dtype == DType::F32)
            std::copy_n(x.as<float>(), s.size, s.v.begin());
        else
            for (int64_t i = 0; i < s.size; ++i) s.v[i] = x.get(i);
        s.wild = !std::all_of(s.v.begin(), s.v.end(), [](double v) { return std::isfinite(v); });
    } else {
        s.i.resize(s.size);
        for (int64_t i = 0; i < s.size; ++i) s.i[i] = s.dtype == DType::Bool ? x.as<uint8_t>()[i] != 0 : x.get_int(i);
    }
}

// Not yet written: marked by a negative bound.
void fill_unset(Store& s) {
    if (is_float(s.dtype))
        s.v.assign(s.size, std::numeric_limits<double>::quiet_NaN());
    else
        s.i.assign(s.size, 0);
    s.e.assign(s.size, -1);
    s.wild = s.size > 0;
}

double work(const Nest& n) {
    return static_cast<double>(n.point_count()) * static_cast<double>(std::max<int64_t>(n.over_count(), 1)) *
           static_cast<double>(n.code.size() + 1);
}

ReferenceOutput output_of(const Store& s) {
    ReferenceOutput r{Tensor(is_float(s.dtype) ? DType::F64 : s.dtype, s.shape), Tensor(DType::F64, s.shape),
                      Tensor(DType::F64, s.shape)};
    for (int64_t k = 0; k < s.size; ++k) {
        double magnitude = 0;
        if (is_float(s.dtype)) {
            r.value.as<double>()[k] = s.v[k];
            magnitude = s.t.empty() ? std::fabs(s.v[k]) : s.t[k];
        } else {
            r.value.set_int(k, s.i[k]);
            magnitude = std::fabs(int_value(s.i[k], s.dtype));
        }
        r.bound.as<double>()[k] = s.bound(k);
        r.terms.as<double>()[k] = magnitude;
    }
    return r;
}
}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Program& p, const std::vector<Tensor>& inputs,
                                               const SymValues& given, const ReferenceOptions& o) {
    std::vector<Shape> shapes;
    for (const Tensor& t : inputs) shapes.push_back(t.shape());
    OPW_TRY(const SymValues values, bind_symbols(p, shapes, given));
    for (size_t i = 0; i < inputs.size(); ++i) {
        const TensorInfo& t = p.tensors[p.inputs[i]];
        if (t.dtype != inputs[i].dtype())
            return Diagnostic(fmt::format("{} of operator {} is {}, the given tensor is {}", t.name, p.name,
                                          name(t.dtype), name(inputs[i].dtype())))
                .with_next(fmt::format("Convert the tensor to {}.", name(t.dtype)));
    }
    OPW_CHECK(check_requirements(p, values));

    std::vector<Store> stores;
    for (TensorId t = 0; t < p.tensors.size(); ++t) {
        OPW_TRY(Shape shape, concrete_shape(p, t, values));
        const int64_t n = element_count(shape);
        if (n > kMaxElements)
            return too_much(p, "elements of " + p.tensors[t].name, static_cast<double>(n), kMaxElements);
        stores.emplace_back(p.tensors[t].name, p.tensors[t].dtype, std::move(shape));
        stores.back().output = p.tensors[t].role == Role::Output;
        if (p.tensors[t].role == Role::Constant)
            fill_from(stores.back(), p.tensors[t].data);
        else if (p.tensors[t].role != Role::Input)
            fill_unset(stores.back());
    }
    for (size_t i = 0; i < inputs.size(); ++i) fill_from(stores[p.inputs[i]], inputs[i]);

    double done = 0;
    for (const Equation& q : p.equations) {
        // Planned one at a time: what is exact in a tensor is known once its equation has run.
        std::vector<Nest> nests;
        plan_equation(p, q, values, o.flush_factors, stores, nests);
        for (const Nest& n : nests) {
            done += work(n);
            if (done > static_cast<double>(o.max_operations))
                return too_much(p, "operations", done, static_cast<double>(o.max_operations));
            if (n.kind == NestKind::Reduce && n.point_count() > kMaxElements)
                return too_much(p, "results of a reduction", static_cast<double>(n.point_count()), kMaxElements);
        }
        for (Nest& n : nests) OPW_CHECK(run_nest(p, n, o.scale, stores));
        stores.erase(stores.begin() + static_cast<int64_t>(p.tensors.size()), stores.end());  // the tables
    }

    std::vector<ReferenceOutput> r;
    for (TensorId t : p.outputs) {
        const Store& s = stores[t];
        const auto unset = std::find_if(s.e.begin(), s.e.end(), [](double e) { return e < 0; });
        if (unset != s.e.end())
            return Diagnostic(
                       fmt::format("operator {} leaves elements of {} undefined, the first at row-major position {}",
                                   p.name, s.name, unset - s.e.begin()))
                .with_next("Set the whole tensor first, or let the pieces written cover it.");
        r.push_back(output_of(s));
    }
    return r;
}

}  // namespace opwright::derive
