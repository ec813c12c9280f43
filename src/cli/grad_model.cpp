#include "cli/grad_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/gradient.h"
#include "graph/onnx/import.h"

namespace opwright::cli {
namespace {

// The model as a graph: with symbolic sizes where that is possible, else for the sizes and values of these inputs.
Result<graph::Graph> imported(const Model& m, const NamedInputs& inputs) {
    graph::onnx::ImportOptions o;
    o.folder = m.folder();
    for (bool sized = false;;) {
        auto r = graph::onnx::import(*m.source(), o);
        if (auto* g = std::get_if<graph::Graph>(&r)) return std::move(*g);
        const auto& failure = std::get<graph::onnx::ImportFailure>(r);
        bool again = false;
        for (const std::string& n : failure.needs_value)
            if (const auto it = inputs.find(n); it != inputs.end())
                again = o.known_inputs.emplace(n, it->second).second || again;
        if (!again && !sized && !failure.malformed) {
            sized = again = true;
            for (const auto& [n, t] : inputs) o.input_shapes[n] = t.shape();
        }
        if (!again) return failure.diagnostic;
    }
}

Result<NamedInputs> run(const graph::Graph& g, const NamedInputs& values, const ModelGradientFlags& f) {
    auto pool = f.execution.pool();
    OPW_TRY(const Compiled c, compile(g, f.execution.options(), *pool));
    std::vector<Tensor> in;
    for (graph::ValueId v : g.inputs) in.push_back(values.at(g.values[v].name));
    OPW_TRY(std::vector<Tensor> out, c.executable->run(in, *pool));
    NamedInputs r;
    for (size_t i = 0; i < out.size(); ++i) r[g.values[g.outputs[i]].name] = std::move(out[i]);
    return r;
}

// The sizes that these inputs give.
math::SymValues sizes_of(const graph::Graph& g, const NamedInputs& values) {
    math::SymValues r;
    for (graph::ValueId v : g.inputs) {
        const auto it = values.find(g.values[v].name);
        const auto& shape = g.values[v].shape;
        for (size_t d = 0; it != values.end() && d < shape.size() && d < it->second.shape().size(); ++d)
            if (shape[d].kind() == math::SymKind::Symbol) r[shape[d].symbol_name()] = it->second.shape()[d];
    }
    return r;
}

std::string report(const graph::GraphGradient& d, const math::SymValues& sizes) {
    std::string text = "Of the forward pass, for the backward pass:\n";
    size_t width = 0;
    for (const graph::Kept& k : d.kept) width = std::max(width, k.value.size());
    math::Sym bytes = 0;
    for (const graph::Kept& k : d.kept) {
        text += fmt::format("  {:{}}  {}  {} bytes: {}\n", k.value, width, k.saved ? "saved     " : "recomputed",
                            k.bytes.str(), k.reason);
        if (k.saved) bytes = bytes + k.bytes;
    }
    if (d.kept.empty()) text += "  nothing\n";
    const auto number = math::evaluate(bytes, sizes);
    const std::string saved = bytes.is_const() || !number
                                  ? bytes.str() + " bytes"
                                  : fmt::format("{} bytes at these sizes ({})", *number, bytes.str());
    return text + wrapped(fmt::format("Saved: {}. Forward: {} nodes, backward: {}.", saved, d.forward.nodes.size(),
                                      d.backward.nodes.size()));
}
}  // namespace

Status model_gradient(const ModelGradientFlags& f) {
    OPW_TRY(auto model, Model::load(f.target, f.execution.options(), f.execution.pool()));
    // d<output>=FILE is a cotangent, the rest feeds the model.
    DataFlags data = f.data;
    std::vector<std::string> seeds;
    std::erase_if(data.input, [&](const std::string& item) {
        const bool seed = std::any_of(model->outputs().begin(), model->outputs().end(),
                                      [&](const auto& o) { return item.starts_with("d" + o.name + "="); });
        if (seed) seeds.push_back(item);
        return seed;
    });
    std::vector<std::string> notes, seed_names;
    for (const auto& o : model->outputs()) seed_names.push_back("d" + o.name);
    OPW_TRY(NamedInputs values, model_inputs(*model, data, notes));
    OPW_TRY(NamedInputs cotangents, read_inputs(seeds, seed_names));
    OPW_TRY(const graph::Graph g, imported(*model, values));
    OPW_TRY(const graph::GraphGradient d, graph::gradient(g, f.wrt));
    print(report(d, sizes_of(g, values)));
    if (f.output.empty()) return ok_status();

    OPW_TRY(NamedInputs forward, run(d.forward, values, f));
    for (graph::ValueId v : g.outputs) {
        const std::string name = "d" + g.values[v].name;
        const Tensor& y = forward.at(g.values[v].name);
        if (cotangents.count(name) || !is_float(y.dtype())) continue;
        Tensor one(y.dtype(), y.shape());
        for (int64_t i = 0; i < one.size(); ++i) one.set(i, 1);
        cotangents[name] = std::move(one);
    }
    values.merge(forward);
    values.merge(cotangents);
    OPW_TRY(const NamedInputs result, run(d.backward, values, f));
    std::vector<io::NamedTensor> out;
    for (graph::ValueId v : d.backward.outputs)
        out.push_back({d.backward.values[v].name, result.at(d.backward.values[v].name)});
    return write_outputs(f.output, out);
}

}  // namespace opwright::cli
