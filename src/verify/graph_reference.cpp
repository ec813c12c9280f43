#include "verify/graph_reference.h"

#include "graph/bind.h"

namespace opwright::verify {

Result<std::vector<Tensor>> run_reference(const graph::Graph& g, const std::vector<Tensor>& inputs,
                                          const ReferenceObserver& seen) {
    OPW_TRY(const math::SymValues symbols, graph::bind_symbols(g, inputs));
    OPW_CHECK(graph::check_requirements(g, symbols));
    std::vector<Tensor> tensors(g.values.size());
    std::vector<size_t> uses(g.values.size(), 0);
    for (const graph::Node& n : g.nodes)
        for (graph::ValueId v : n.inputs) ++uses[v];
    for (graph::ValueId v : g.outputs) ++uses[v];
    for (size_t v = 0; v < g.values.size(); ++v)
        if (g.values[v].constant) tensors[v] = *g.values[v].constant;
    for (size_t i = 0; i < inputs.size(); ++i) tensors[g.inputs[i]] = inputs[i];

    for (graph::NodeId id = 0; id < g.nodes.size(); ++id) {
        const graph::Node& n = g.nodes[id];
        const std::string who =
            n.sources.empty() ? n.program.name : n.sources[0].name + "' (" + n.sources[0].type + ")";
        if (n.kind == graph::NodeKind::View) {
            Shape shape;
            for (const math::Sym& s : g.values[n.outputs[0]].shape)
                shape.push_back(math::evaluate(s, symbols).value_or(-1));
            const Tensor& from = tensors[n.inputs[0]];
            if (element_count(shape) != from.size())
                return Diagnostic("The node '" + who + " cannot see " + to_string(from.shape()) + " as " +
                                  to_string(shape) + ".");
            tensors[n.outputs[0]] = from.reshaped(shape);
        } else {
            std::vector<Tensor> in;
            for (graph::ValueId v : n.inputs) in.push_back(tensors[v]);
            auto r = derive::reference(n.program, in, symbols);
            if (!r.ok()) {
                Diagnostic d = r.error();
                return d.with_note("In the node '" + who + ".");
            }
            if (seen) seen(id, *r);
            for (size_t i = 0; i < n.outputs.size(); ++i) {
                const Tensor& value = (*r)[i].value;
                const DType type = g.values[n.outputs[i]].dtype;
                if (value.dtype() == type) {
                    tensors[n.outputs[i]] = value;
                    continue;
                }
                Tensor rounded(type, value.shape());
                for (int64_t k = 0; k < value.size(); ++k) rounded.set(k, value.get(k));
                tensors[n.outputs[i]] = rounded;
            }
        }
        for (graph::ValueId v : n.inputs)
            if (--uses[v] == 0 && !g.values[v].constant) tensors[v] = Tensor();
    }
    std::vector<Tensor> out;
    for (graph::ValueId v : g.outputs) out.push_back(tensors[v]);
    return out;
}

}  // namespace opwright::verify
