#include "fuse/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "fuse/cleanup.h"
#include "fuse/summary.h"
#include "fuse/uses.h"
#include "math/inline.h"
#include "math/merge.h"
#include "math/unit_dims.h"

namespace opwright::fuse {
namespace {
using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;
using graph::SourceOp;
using graph::Value;
using graph::ValueId;

// A node of a group, and how the group's output is reached from it.
struct Member {
    bool aligned = false;    // element by element, in the order of the group's output
    bool repeats = false;    // what it computes is wanted more than once
    int sites = 1;           // distinct places where its result is wanted
};

class Planner {
public:
    Planner(Graph g, const Limits& limits)
        : g_(std::move(g)), limits_(limits), uses_(g_), facts_(g_.nodes.size()), view_(g_.nodes.size()),
          exit_of_(g_.nodes.size(), kNone), queued_for_(g_.nodes.size(), kNone) {}

    Fused run() {
        for (NodeId n = 0; n < g_.nodes.size(); ++n) summarise_node(n);
        std::vector<std::vector<NodeId>> groups(g_.nodes.size());
        for (NodeId n = static_cast<NodeId>(g_.nodes.size()); n-- > 0;)
            if (exit_of_[n] == kNone) groups[n] = grow(n);
        std::vector<bool> keep(g_.nodes.size());
        for (NodeId n = 0; n < g_.nodes.size(); ++n) {
            if (exit_of_[n] != n) continue;
            keep[n] = true;
            if (groups[n].size() > 1) rewrite(n, groups[n]);
        }
        keep_nodes(g_, keep);
        std::reverse(decisions_.begin(), decisions_.end());
        return {remove_dead(std::move(g_)), std::move(decisions_)};
    }

private:
    const math::Program& program(NodeId n) const { return view_[n] ? *view_[n] : g_.nodes[n].program; }

    void summarise_node(NodeId id) {
        const Node& n = g_.nodes[id];
        if (n.kind == NodeKind::View) {
            const Value &in = g_.values[n.inputs[0]], &out = g_.values[n.outputs[0]];
            if (auto p = view_program(in.shape, out.shape, in.dtype)) view_[id] = math::drop_unit_variables(*p);
            else return;
        }
        facts_[id] = summarise(program(id));
    }

    int operations(NodeId n) const {
        const math::Work& w = facts_[n].work;
        return w.simple + w.divide + w.special + w.loads;
    }

    // The group whose last node is `exit`, ascending.
    std::vector<NodeId> grow(NodeId exit) {
        exit_of_[exit] = exit;
        std::unordered_map<NodeId, Member> members{{exit, {.aligned = facts_[exit].map}}};
        // A view alone needs no kernel, and nothing joins a node that is no program.
        if (g_.nodes[exit].kind == NodeKind::View) return {exit};
        bool reduces = facts_[exit].work.reduces, contracts = facts_[exit].contraction;
        int total = operations(exit);
        std::priority_queue<NodeId> candidates;
        const auto offer_producers = [&](NodeId n) {
            for (ValueId v : g_.nodes[n].inputs) {
                const NodeId p = v == kNone ? kNone : g_.values[v].producer;
                if (p == kNone || queued_for_[p] == exit || exit_of_[p] != kNone) continue;
                queued_for_[p] = exit;
                candidates.push(p);
            }
        };
        offer_producers(exit);
        while (!candidates.empty()) {  // the latest first: all its readers in the group have joined before it is met
            const NodeId p = candidates.top();
            candidates.pop();
            Member m;
            const std::string why_not = refusal(p, exit, members, reduces, contracts, total, m);
            record(p, exit, members, why_not);
            if (!why_not.empty()) continue;
            members.emplace(p, m);
            exit_of_[p] = exit;
            total += operations(p);
            reduces = reduces || facts_[p].work.reduces;
            contracts = contracts || facts_[p].contraction;
            offer_producers(p);
        }
        return settle(exit, members);
    }

    // Empty where p may join; else the reason against it. Fills m.
    std::string refusal(NodeId p, NodeId exit, const std::unordered_map<NodeId, Member>& members, bool reduces, bool contracts,
                        int total, Member& m) {
        const Node& n = g_.nodes[p];
        if (n.kind == NodeKind::View && !view_[p]) return "a view that merges dims lies between";
        if (n.outputs.size() != 1) return "it has several outputs";
        const ValueId v = n.outputs[0];
        if (uses_.output[v]) return "the model delivers it";
        for (NodeId r : uses_.readers[v])
            if (!members.count(r)) return fmt::format("{} reads it too", label(r));
        const Summary& f = facts_[p];
        if (!f.map && !f.reduces) return f.work.scans ? "it holds a scan" : "it is assembled piece by piece";

        m = {.aligned = true, .repeats = false, .sites = 0};
        bool edges = false;
        for (NodeId r : uses_.readers[v]) {
            const Member& to = members.at(r);
            const Summary& rf = facts_[r];
            for (size_t i = 0; i < g_.nodes[r].inputs.size(); ++i) {
                if (g_.nodes[r].inputs[i] != v) continue;
                const InputUse& u = rf.inputs[i];
                m.repeats |= to.repeats || u.repeats;
                m.aligned &= to.aligned && u.identity;
                m.sites += u.sites * to.sites;
                edges |= u.edges;
            }
        }
        if (m.aligned) m.sites = 1;

        if (static_cast<int>(members.size()) >= limits_.nodes) return fmt::format("the group has {} nodes already", members.size());
        if (total + operations(p) > limits_.operations) return fmt::format("the group has {} operations an element already", total);
        if (inputs_with(p, members) > limits_.inputs) return fmt::format("the group would read more than {} tensors", limits_.inputs);
        if (f.reduces) {
            if (!m.aligned) return "it reduces, and its reader walks another index space";
            if (reduces) return fmt::format("{} reduces already", label(exit));
            return "";
        }
        if (edges && !f.movement) return "its reader goes past its edges";
        const math::Work& w = f.work;
        if (m.sites == 1 && !m.repeats) return "";
        if (f.movement && m.sites <= 8) return "";
        if (w.free() && w.all_affine && m.sites <= 8 && !contracts) return "";
        if (!m.repeats && w.cheap() && w.loads * m.sites <= m.sites + 1 + w.loads && m.sites <= 3) return "";
        return m.repeats ? "its elements would be computed more than once" : fmt::format("it is read at {} places", m.sites);
    }

    int inputs_with(NodeId p, const std::unordered_map<NodeId, Member>& members) {
        std::vector<ValueId> seen;
        const auto add = [&](NodeId n) {
            for (ValueId v : g_.nodes[n].inputs) {
                const NodeId q = g_.values[v].producer;
                if (q != kNone && (q == p || members.count(q))) continue;
                if (std::find(seen.begin(), seen.end(), v) == seen.end()) seen.push_back(v);
            }
        };
        for (auto& [n, m] : members) add(n);
        add(p);
        return static_cast<int>(seen.size());
    }

    // Gives back views at the group's edge: behind them nothing joined, and a view by itself costs nothing.
    std::vector<NodeId> settle(NodeId exit, std::unordered_map<NodeId, Member>& members) {
        std::vector<NodeId> group;
        for (auto& [n, m] : members) group.push_back(n);
        std::sort(group.begin(), group.end());
        std::vector<NodeId> kept;
        for (NodeId n : group) {
            const NodeId behind = g_.nodes[n].kind == NodeKind::View ? g_.values[g_.nodes[n].inputs[0]].producer : n;
            if (n != exit && g_.nodes[n].kind == NodeKind::View && (behind == kNone || !members.count(behind))) {
                members.erase(n);
                exit_of_[n] = n;
            } else {
                kept.push_back(n);
            }
        }
        return kept;
    }

    void rewrite(NodeId exit, const std::vector<NodeId>& group) {
        std::vector<math::Part> parts;
        std::vector<ValueId> inputs, inner;
        std::vector<SourceOp> sources;
        std::string name;
        for (NodeId n : group) {
            const Node& node = g_.nodes[n];
            parts.push_back({&program(n), node.inputs, node.outputs});
            for (ValueId v : node.inputs)
                if (std::find(inner.begin(), inner.end(), v) == inner.end() &&
                    std::find(inputs.begin(), inputs.end(), v) == inputs.end())
                    inputs.push_back(v);
            inner.insert(inner.end(), node.outputs.begin(), node.outputs.end());
            for (const SourceOp& s : node.sources) sources.push_back(s);
            if (node.kind == NodeKind::Compute) name += (name.empty() ? "" : "+") + node.program.name;
        }
        if (name.size() > 80) name = name.substr(0, 77) + "...";
        Node& last = g_.nodes[exit];
        const math::Program merged = math::merge(name, parts, inputs, last.outputs);
        last.program = math::inline_temporaries(merged).program;
        last.inputs = std::move(inputs);
        last.sources = std::move(sources);
        last.kind = NodeKind::Compute;
    }

    std::string label(NodeId n) const {
        const Node& x = g_.nodes[n];
        if (!x.sources.empty()) return x.sources.back().name;
        return g_.values[x.outputs[0]].name;
    }

    void record(NodeId p, NodeId exit, const std::unordered_map<NodeId, Member>& members, const std::string& why_not) {
        if (g_.nodes[p].kind == NodeKind::View) return;  // costs nothing either way
        const ValueId v = g_.nodes[p].outputs[0];
        const Value& x = g_.values[v];
        NodeId reader = exit;
        int64_t readers = 0;
        for (NodeId r : uses_.readers[v])
            if (members.count(r)) reader = r, ++readers;
        const math::Sym size = math::product(x.shape) * static_cast<int64_t>(size_of(x.dtype));
        decisions_.push_back({label(p), label(reader), x.name, why_not.empty(), size * (1 + readers),
                              why_not.empty() ? (facts_[p].reduces ? "epilogue" : "substituted") : why_not});
    }

    Graph g_;
    Limits limits_;
    Uses uses_;
    std::vector<Summary> facts_;
    std::vector<std::optional<math::Program>> view_;   // of views that can be written as a program
    std::vector<NodeId> exit_of_;                      // the group of a node, named by its last node
    std::vector<NodeId> queued_for_;                   // the exit whose group last considered the node
    std::vector<Decision> decisions_;
};
}  // namespace

Fused fuse(Graph g, const Limits& limits) { return Planner(std::move(g), limits).run(); }

}  // namespace opwright::fuse
