#include <algorithm>

#include "graph/onnx/importer.h"

namespace opwright::graph::onnx {
namespace {

// The reason alone: the sentence of Context::unsupported names the node, which the report names already.
std::string reason_of(const ResolvedNode& n, const Diagnostic& d) {
    const std::string head = "The node '" + n.source.name + "' (" + n.source.type + ") is not supported: ";
    std::string m = d.message.rfind(head, 0) == 0 ? d.message.substr(head.size()) : d.message;
    if (!m.empty() && m.back() == '.') m.pop_back();
    for (const Note& note : d.notes) m += "; " + note.text;
    return m;
}

std::string list(const std::set<std::string>& names) {
    std::string r;
    for (const std::string& n : names) r += (r.empty() ? "'" : ", '") + n + "'";
    return r;
}
}  // namespace

void Importer::report(const ResolvedNode& node, const Diagnostic& why) {
    UnsupportedNode u{node.source.name, node.source.type, reason_of(node, why)};
    if (why.message.empty()) {
        const std::string& domain = node.proto->domain();
        u.reason = domain.empty() || domain == "ai.onnx"
                       ? "there is no declaration for this operator"
                       : "its domain '" + domain + "' is not known, and the model defines no such function";
    }
    unsupported_.push_back(std::move(u));
}

ImportFailure Importer::failure() {
    ImportFailure f;
    f.malformed = malformed_.has_value();
    f.unsupported = std::move(unsupported_);
    f.needs_value.assign(needs_value_.begin(), needs_value_.end());
    f.needs_shape.assign(needs_shape_.begin(), needs_shape_.end());
    if (malformed_) {
        f.diagnostic = *malformed_;
        f.unsupported.clear();
        f.needs_value.clear();
        f.needs_shape.clear();
        return f;
    }
    if (!f.unsupported.empty()) {
        const size_t n = f.unsupported.size();
        f.diagnostic = Diagnostic("The model cannot be imported: " + std::to_string(n) +
                                  (n == 1 ? " node is" : " nodes are") + " not supported.");
        // One note for nodes that are refused for the same reason.
        std::vector<std::pair<std::pair<std::string, std::string>, std::vector<std::string>>> groups;
        std::map<std::pair<std::string, std::string>, size_t> at;
        for (const UnsupportedNode& u : f.unsupported) {
            const auto [it, added] = at.emplace(std::pair(u.op_type, u.reason), groups.size());
            if (added) groups.push_back({it->first, {}});
            groups[it->second].second.push_back(u.node);
        }
        for (const auto& [what, nodes] : groups) {
            std::string names;
            for (const std::string& s : nodes) names += (names.empty() ? "'" : ", '") + s + "'";
            f.diagnostic.with_note(what.first + " (" + names + "): " + what.second + ".");
        }
        f.diagnostic.with_next(
            "Export the model without these operators, or add a declaration and a binding for them.");
    } else if (!f.needs_shape.empty()) {
        f.diagnostic = Diagnostic("The model does not say how many dims its input " + list(needs_shape_) + " has.", {},
                                  "Give the shape.");
    } else {
        f.diagnostic = Diagnostic("The model's form depends on the value of its input " + list(needs_value_) +
                                      ", which is not known when it is imported.",
                                  {}, "Give the value with the import; the graph is then made for that value.");
    }
    return f;
}

void Importer::drop_dead_nodes() {
    std::vector<bool> live(graph_.values.size(), false), keep(graph_.nodes.size(), false);
    for (ValueId v : graph_.outputs) live[v] = true;
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
        const Node& n = graph_.nodes[i];
        for (ValueId v : n.outputs) keep[i] = keep[i] || (live[v] && graph_.values[v].producer == i);
        if (!keep[i]) continue;
        for (ValueId v : n.inputs) live[v] = true;
        for (ValueId v : n.outputs) live[v] = true;
    }
    for (ValueId v : graph_.inputs) live[v] = true;
    std::vector<ValueId> moved(graph_.values.size(), kNone);
    Graph g;
    g.name = std::move(graph_.name);
    g.metadata = std::move(graph_.metadata);
    g.fixed_inputs = std::move(graph_.fixed_inputs);
    g.requirements = std::move(graph_.requirements);
    for (size_t v = 0; v < live.size(); ++v) {
        if (!live[v]) continue;
        Value& old = graph_.values[v];
        old.producer = kNone;
        moved[v] = g.add_value(std::move(old));
    }
    const auto move = [&](std::vector<ValueId>& ids) {
        for (ValueId& v : ids) v = moved[v];
    };
    for (size_t i = 0; i < keep.size(); ++i) {
        if (!keep[i]) continue;
        Node n = std::move(graph_.nodes[i]);
        move(n.inputs);
        move(n.outputs);
        g.add_node(std::move(n));
    }
    g.inputs = std::move(graph_.inputs);
    g.outputs = std::move(graph_.outputs);
    move(g.inputs);
    move(g.outputs);
    graph_ = std::move(g);
}

}  // namespace opwright::graph::onnx
