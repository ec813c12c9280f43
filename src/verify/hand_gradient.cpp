#include "verify/hand_gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "derive/reference.h"

namespace opwright::verify {
using namespace math;
namespace {

Tensor filled(const TensorInfo& t, const SymValues& sizes, std::mt19937_64& random,
              const std::optional<lang::ValueRange>& range) {
    Shape s;
    for (const Sym& d : t.shape) s.push_back(evaluate(d, sizes).value_or(0));
    Tensor r(t.dtype, s);
    std::uniform_real_distribution<double> value(range ? range->low : -1, range               ? range->high
                                                                          : is_float(t.dtype) ? 1
                                                                                              : 2);
    for (int64_t i = 0; i < r.size(); ++i) {
        const double v = value(random);
        if (is_float(t.dtype))
            r.set(i, v);
        else
            r.set_int(i, static_cast<int64_t>(std::max(0.0, std::floor(v))));
    }
    return r;
}
std::string place(const Shape& s, int64_t i) {
    std::string r;
    for (size_t d = s.size(); d-- > 0; i /= s[d]) r = std::to_string(i % s[d]) + (r.empty() ? "" : ",") + r;
    return r;
}
}  // namespace

Status same_gradient(const lang::GivenGradient& given, const derive::Gradient& derived, const Program& p,
                     const SymValues& sizes, const std::vector<std::optional<lang::ValueRange>>& ranges) {
    std::mt19937_64 random(7);
    std::vector<Tensor> inputs, cotangents, mine, theirs;
    for (size_t i = 0; i < p.inputs.size(); ++i)
        inputs.push_back(filled(p.tensors[p.inputs[i]], sizes, random, i < ranges.size() ? ranges[i] : std::nullopt));
    for (TensorId t : p.outputs) cotangents.push_back(filled(p.tensors[t], sizes, random, {}));
    for (const auto& s : given.inputs) mine.push_back(s.cotangent ? cotangents[s.position] : inputs[s.position]);
    for (size_t i : derived.inputs) theirs.push_back(inputs[i]);
    for (size_t i : derived.cotangents) theirs.push_back(cotangents[i]);
    OPW_TRY(const auto a, derive::reference(given.program, mine));
    OPW_TRY(const auto b, derive::reference(derived.program, theirs));
    for (size_t o = 0; o < given.wrt.size(); ++o) {
        const auto at = std::find(derived.wrt.begin(), derived.wrt.end(), given.wrt[o]);
        if (at == derived.wrt.end()) continue;
        const auto &x = a[o], &y = b[static_cast<size_t>(at - derived.wrt.begin())];
        const std::string& name = given.program.tensors[given.program.outputs[o]].name;
        const std::string next = fmt::format("Correct `{}`, or leave its line out of `{}`.", given.name, p.name);
        if (x.value.shape() != y.value.shape())
            return Diagnostic(fmt::format("The gradient of `{}` by hand has another shape of `{}` than the derived one",
                                          p.name, name))
                .with_next(next);
        for (int64_t i = 0; i < x.value.size(); ++i) {
            const double mine_at = x.value.get(i), derived_at = y.value.get(i);
            const double bound = x.bound.get(i) + y.bound.get(i);
            if (mine_at == derived_at || (std::isnan(mine_at) && std::isnan(derived_at)) || std::isinf(bound) ||
                std::fabs(mine_at - derived_at) <= bound)
                continue;
            return Diagnostic(
                       fmt::format("The gradient of `{}` by hand is not the derived one: `{}` says {}[{}] = {:.6g}, "
                                   "derived is {:.6g}, and rounding explains a difference of {:.2g}",
                                   p.name, given.name, name, place(x.value.shape(), i), mine_at, derived_at, bound))
                .with_next(next);
        }
    }
    return ok_status();
}

}  // namespace opwright::verify
