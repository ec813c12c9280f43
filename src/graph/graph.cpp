#include "graph/graph.h"

#include <algorithm>

namespace opwright::graph {

NodeId Graph::add_node(Node n) {
    const auto id = static_cast<NodeId>(nodes.size());
    for (ValueId v : n.outputs) values.at(v).producer = id;
    nodes.push_back(std::move(n));
    return id;
}

namespace {

std::string shape_text(const std::vector<math::Sym>& shape) {
    std::string r;
    for (const math::Sym& s : shape) r += (r.empty() ? "" : ", ") + s.str();
    return "[" + r + "]";
}

class Verifier {
public:
    explicit Verifier(const Graph& g) : g_(g), made_(g.values.size(), false) {}

    std::vector<std::string> run() {
        for (ValueId v : g_.inputs) define(v, "the inputs");
        for (size_t v = 0; v < g_.values.size(); ++v) check_value(v);
        for (size_t i = 0; i < g_.nodes.size(); ++i) check_node(i);
        for (ValueId v : g_.outputs) read(v, "the outputs");
        return std::move(errors_);
    }

private:
    void error(std::string s) { errors_.push_back(std::move(s)); }

    bool valid(ValueId v, const std::string& where) {
        if (v < g_.values.size()) return true;
        error(where + " name value " + std::to_string(v) + " of " + std::to_string(g_.values.size()) + ".");
        return false;
    }
    void define(ValueId v, const std::string& where) {
        if (!valid(v, where)) return;
        if (made_[v]) error("Value '" + g_.values[v].name + "' is defined twice.");
        made_[v] = true;
    }
    void read(ValueId v, const std::string& where) {
        if (!valid(v, where)) return;
        if (!made_[v] && !g_.values[v].constant && !g_.values[v].content)
            error("Value '" + g_.values[v].name + "' is read by " + where + " before anything computes it.");
    }
    void check_value(size_t v) {
        const Value& value = g_.values[v];
        if (!value.constant) return;
        const Tensor& t = *value.constant;
        bool fits = t.dtype() == value.dtype && t.shape().size() == value.shape.size();
        for (size_t d = 0; fits && d < value.shape.size(); ++d) fits = value.shape[d].is(t.shape()[d]);
        if (!fits)
            error("Constant '" + value.name + "' is no " + std::string(name(value.dtype)) + shape_text(value.shape) +
                  ".");
        if (value.content && static_cast<int64_t>(value.content->size()) != t.size())
            error("Constant '" + value.name + "' has other content.");
    }
    void check_argument(const std::string& where, ValueId v, const math::TensorInfo& t) {
        const Value& value = g_.values[v];
        bool fits = value.dtype == t.dtype && value.shape.size() == t.shape.size();
        for (size_t d = 0; fits && d < t.shape.size(); ++d) fits = !value.shape[d].known_different(t.shape[d]);
        if (!fits)
            error(where + " gives " + std::string(name(value.dtype)) + shape_text(value.shape) +
                  " where its program has " + t.name + ": " + std::string(name(t.dtype)) + shape_text(t.shape) + ".");
    }
    void check_node(size_t i) {
        const Node& n = g_.nodes[i];
        const std::string where =
            "Node " + std::to_string(i) + (n.sources.empty() ? "" : " ('" + n.sources[0].name + "')");
        const size_t before = errors_.size();
        for (ValueId v : n.inputs) read(v, where);
        for (ValueId v : n.outputs)
            if (valid(v, where) && g_.values[v].producer != i)
                error(where + " is not the producer of its output '" + g_.values[v].name + "'.");
        if (errors_.size() == before) {
            if (n.kind == NodeKind::View)
                check_view(where, n);
            else
                check_program(where, n);
        }
        for (ValueId v : n.outputs) define(v, where);
    }
    void check_view(const std::string& where, const Node& n) {
        if (n.inputs.size() != 1 || n.outputs.size() != 1) return error(where + " is a view of other than one value.");
        const Value &a = g_.values[n.inputs[0]], &b = g_.values[n.outputs[0]];
        if (a.dtype != b.dtype) error(where + " is a view that changes the element type.");
        if (math::product(a.shape).known_different(math::product(b.shape)))
            error(where + " is a view of " + shape_text(a.shape) + " as " + shape_text(b.shape) + ".");
    }
    void check_program(const std::string& where, const Node& n) {
        const math::Program& p = n.program;
        if (n.inputs.size() != p.inputs.size() || n.outputs.size() != p.outputs.size())
            return error(where + " has " + std::to_string(n.inputs.size()) + " inputs and " +
                         std::to_string(n.outputs.size()) + " outputs, and its program " +
                         std::to_string(p.inputs.size()) + " and " + std::to_string(p.outputs.size()) + ".");
        for (size_t k = 0; k < n.inputs.size(); ++k) check_argument(where, n.inputs[k], p.tensors[p.inputs[k]]);
        for (size_t k = 0; k < n.outputs.size(); ++k) check_argument(where, n.outputs[k], p.tensors[p.outputs[k]]);
    }

    const Graph& g_;
    std::vector<bool> made_;
    std::vector<std::string> errors_;
};
}  // namespace

std::vector<std::string> verify(const Graph& g) { return Verifier(g).run(); }

std::string print(const Graph& g) {
    const auto show = [&](ValueId v) {
        const Value& value = g.values[v];
        return (value.name.empty() ? "%" + std::to_string(v) : value.name) + ": " + std::string(name(value.dtype)) +
               shape_text(value.shape);
    };
    const auto list = [&](const std::vector<ValueId>& ids) {
        std::string r;
        for (ValueId v : ids) r += (r.empty() ? "" : ", ") + show(v) + (g.values[v].constant ? " const" : "");
        return r;
    };
    std::string r = "graph " + g.name + "(" + list(g.inputs) + ")\n";
    for (const Node& n : g.nodes) {
        r += "    " + list(n.outputs) + " = " + (n.kind == NodeKind::View ? "view" : n.program.name) + "(" +
             list(n.inputs) + ")";
        for (size_t i = 0; i < n.sources.size(); ++i)
            r += (i ? ", " : "    # ") + n.sources[i].type + " " + n.sources[i].name;
        r += "\n";
    }
    return r + "    return " + list(g.outputs) + "\n";
}

}  // namespace opwright::graph
