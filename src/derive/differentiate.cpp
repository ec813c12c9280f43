#include "derive/differentiate.h"

#include <fmt/format.h>

#include <algorithm>

#include "math/extract.h"
#include "math/facts.h"
#include "math/inline.h"

namespace opwright::derive {
using namespace math;
namespace {
// Positions of the inputs that p reads, or that give an extent which nothing else gives.
std::vector<size_t> needed_inputs(const Program& p, size_t originals) {
    const std::vector<bool> read = mentioned(p);
    std::vector<std::string> wanted = p.symbols(), bound;
    std::vector<bool> keep(originals);
    const auto bind = [&](TensorId t) {
        for (const Sym& s : p.tensors[t].shape)
            if (s.kind() == SymKind::Symbol) bound.push_back(s.symbol_name());
    };
    for (size_t i = 0; i < p.inputs.size(); ++i) {
        if (!read[p.inputs[i]]) continue;
        if (i < originals) keep[i] = true;
        bind(p.inputs[i]);
    }
    // Symbols of inputs that go are not wanted because of them.
    std::vector<TensorId> gone;
    for (size_t i = 0; i < originals; ++i)
        if (!keep[i]) gone.push_back(p.inputs[i]);
    Program rest = p;
    for (TensorId t : gone) rest.tensors[t].shape.clear();
    wanted = rest.symbols();
    for (size_t i = 0; i < originals; ++i) {
        if (keep[i]) continue;
        for (const Sym& s : p.tensors[p.inputs[i]].shape)
            if (s.kind() == SymKind::Symbol && std::find(bound.begin(), bound.end(), s.symbol_name()) == bound.end() &&
                std::find(wanted.begin(), wanted.end(), s.symbol_name()) != wanted.end())
                keep[i] = true;
        if (keep[i]) bind(p.inputs[i]);
    }
    std::vector<size_t> r;
    for (size_t i = 0; i < originals; ++i)
        if (keep[i]) r.push_back(i);
    return r;
}
}  // namespace

Result<std::vector<size_t>> differentiated(const Program& p, std::vector<size_t> wrt) {
    for (size_t i : wrt) {
        if (i >= p.inputs.size())
            return Diagnostic(fmt::format("operator {} has {} inputs, and a derivative by input {} is asked for",
                                          p.name, p.inputs.size(), i))
                .with_next("Count inputs from 0.");
        const TensorInfo& t = p.tensors[p.inputs[i]];
        if (!is_float(t.dtype))
            return Diagnostic(
                       fmt::format("{} of operator {} is {}, which has no derivative", t.name, p.name, name(t.dtype)))
                .with_next("Ask for a derivative by inputs of a float type.");
    }
    if (wrt.empty())
        for (size_t i = 0; i < p.inputs.size(); ++i)
            if (is_float(p.tensors[p.inputs[i]].dtype)) wrt.push_back(i);
    const bool any =
        std::any_of(p.outputs.begin(), p.outputs.end(), [&](TensorId t) { return is_float(p.tensors[t].dtype); });
    if (wrt.empty() || !any)
        return Diagnostic(fmt::format("operator {} has no {} of a float type, hence no derivative", p.name,
                                      wrt.empty() ? "input" : "output"))
            .with_next("Derivatives exist of float outputs by float inputs.");
    return wrt;
}

Derived finish(const Program& all, const std::string& name, const std::string& doc, const std::vector<TensorId>& inputs,
               const std::vector<TensorId>& given, const std::vector<TensorId>& others,
               const std::vector<TensorId>& results) {
    std::vector<TensorId> every = inputs, used;
    every.insert(every.end(), given.begin(), given.end());
    for (TensorId t : others)
        if (t != kNone) every.push_back(t);
    const Program whole = inline_temporaries(extract(all, name, every, results)).program;
    Derived r;
    r.inputs = needed_inputs(whole, inputs.size());
    const std::vector<bool> read = mentioned(whole);
    for (size_t i : r.inputs) used.push_back(whole.inputs[i]);
    for (size_t i = 0; i < given.size(); ++i) used.push_back(whole.inputs[inputs.size() + i]);
    for (size_t i = 0, k = inputs.size() + given.size(); i < others.size(); ++i) {
        if (others[i] == kNone) continue;
        if (const TensorId t = whole.inputs[k++]; read[t]) {
            used.push_back(t);
            r.others.push_back(i);
        }
    }
    r.program = extract(whole, name, used, whole.outputs);
    r.program.doc = doc;
    return r;
}

}  // namespace opwright::derive
