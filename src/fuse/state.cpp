#include "fuse/state.h"

#include <fmt/format.h>

#include <algorithm>

#include "math/inline.h"
#include "math/merge.h"
#include "math/unit_dims.h"

namespace opwright::fuse {
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::Value;
using graph::ValueId;

namespace {
// Sizes at which candidates are weighed. One of an image or a sequence is as typical as any for what the model leaves open.
constexpr int64_t kBatch = 1, kExtent = 256;

math::SymValues representative(const graph::Graph& g, const math::SymValues& given, std::vector<std::string>& assumed) {
    math::SymValues r;
    const auto settle = [&](const std::string& symbol, int64_t otherwise) {
        if (r.count(symbol)) return;
        const auto it = given.find(symbol);
        if (it == given.end()) assumed.push_back(symbol);
        r[symbol] = it == given.end() ? otherwise : it->second;
    };
    for (ValueId v : g.inputs)
        for (size_t d = 0; d < g.values[v].shape.size(); ++d) {
            std::vector<std::string> symbols;
            math::collect_symbols(g.values[v].shape[d], symbols);
            for (const std::string& s : symbols) settle(s, d == 0 && g.values[v].shape.size() > 1 ? kBatch : kExtent);
        }
    for (const Node& n : g.nodes)
        for (const std::string& s : n.program.symbols()) settle(s, kExtent);
    for (const Value& v : g.values)
        for (const math::Sym& d : v.shape) {
            std::vector<std::string> symbols;
            math::collect_symbols(d, symbols);
            for (const std::string& s : symbols) settle(s, kExtent);
        }
    return r;
}
}  // namespace

State::State(graph::Graph graph, const Options& options)
    : g(std::move(graph)), o(options), machine(options.machine ? *options.machine : typical_cpu(1, 32, 16)), uses(g),
      view(g.nodes.size()), facts(g.nodes.size()), works(g.nodes.size()), homes(g.nodes.size()), lone(g.nodes.size()) {
    sizes = representative(g, o.sizes, assumed);
    for (NodeId id = 0; id < g.nodes.size(); ++id) {
        const Node& n = g.nodes[id];
        if (n.kind == graph::NodeKind::View) {
            const Value &in = g.values[n.inputs[0]], &out = g.values[n.outputs[0]];
            const auto p = view_program(in.shape, out.shape, in.dtype);
            if (!p) continue;
            view[id] = math::drop_unit_variables(*p);
        }
        facts[id] = summarise(program(id));
        works[id] = work(program(id));
    }
}

int State::operations(NodeId n) const {
    const math::Work& w = facts[n].work;
    return w.simple + w.divide + w.special + w.loads;
}

std::string State::label(NodeId n) const {
    const Node& x = g.nodes[n];
    if (!x.sources.empty()) return x.sources.back().name;
    return g.values[x.outputs[0]].name;
}

std::vector<GroupId> State::reading(ValueId v) const {
    std::vector<GroupId> r;
    for (NodeId n : uses.readers[v]) r.insert(r.end(), homes[n].begin(), homes[n].end());
    std::sort(r.begin(), r.end(), [&](GroupId a, GroupId b) { return std::pair(groups[a].last, a) < std::pair(groups[b].last, b); });
    r.erase(std::unique(r.begin(), r.end()), r.end());
    return r;
}

bool State::leaves(ValueId v, const Group& of) const {
    if (lone[g.values[v].producer] && of.last != g.values[v].producer) return false;
    if (uses.output[v]) return true;
    for (NodeId r : uses.readers[v])
        for (GroupId h : homes[r])
            if (&groups[h] != &of) {
                // A node that is repeated in that group is at hand there.
                const auto& nodes = groups[h].nodes;
                if (!std::binary_search(nodes.begin(), nodes.end(), g.values[v].producer)) return true;
            }
    return false;
}

math::Program State::merged(const std::vector<NodeId>& nodes, std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs) const {
    std::vector<math::Part> parts;
    std::vector<ValueId> inner;
    std::string name;
    inputs.clear();
    for (NodeId n : nodes) {
        const Node& node = g.nodes[n];
        parts.push_back({&program(n), node.inputs, node.outputs});
        for (ValueId v : node.inputs)
            if (std::find(inner.begin(), inner.end(), v) == inner.end() && std::find(inputs.begin(), inputs.end(), v) == inputs.end())
                inputs.push_back(v);
        inner.insert(inner.end(), node.outputs.begin(), node.outputs.end());
        if (!is_view(n)) name += (name.empty() ? "" : "+") + node.program.name;
    }
    if (name.size() > 80) name = name.substr(0, 77) + "...";
    return math::inline_temporaries(math::merge(name, parts, inputs, outputs)).program;
}

const math::Program& State::form(Group& group) const {
    if (group.program) return *group.program;
    group.outputs.clear();
    for (NodeId n : group.nodes)
        for (ValueId v : g.nodes[n].outputs)
            if (v != kNone && leaves(v, group)) group.outputs.push_back(v);
    if (group.nodes.size() == 1) {
        const Node& n = g.nodes[group.nodes[0]];
        group.inputs = n.inputs;
        group.outputs = n.outputs;
        group.program = program(group.nodes[0]);
    } else {
        group.program = merged(group.nodes, group.inputs, group.outputs);
    }
    return *group.program;
}

const ProgramWork& State::work(const math::Program& p) const {
    std::string key = p.canonical();
    for (const std::string& symbol : p.symbols()) {
        const auto size = sizes.find(symbol);
        key += size == sizes.end() ? ";?" : fmt::format(";{}", size->second);
    }
    const auto [at, first] = counted.try_emplace(std::move(key));
    if (first) at->second = program_work(p, sizes, machine.together);
    return at->second;
}

const Estimate& State::time(Group& group) const {
    if (group.alone) return *group.alone;
    if (group.nodes.size() == 1) {
        const NodeId n = group.nodes[0];
        group.alone = is_view(n) ? Estimate{} : estimate(machine, fuse::alone(works[n]));
    } else {
        group.alone = estimate(machine, fuse::alone(work(form(group))));
    }
    return *group.alone;
}

Work State::combined(const Group& group) const {
    Work w;
    w.live = 1;
    std::unordered_map<ValueId, Operand> external;
    double tasks = 0, anchor = 0;
    for (NodeId n : group.nodes) {
        const ProgramWork& p = works[n];
        const Member& m = group.members.at(n);
        const double times = m.recompute;
        for (size_t i = 0; i < p.inputs.size(); ++i) {
            const ValueId v = g.nodes[n].inputs[i];
            const NodeId q = g.values[v].producer;
            if (q != kNone && group.members.count(q)) continue;
            Operand& e = external[v];
            const ProgramWork::Input& in = p.inputs[i];
            e.bytes = std::max(e.bytes, in.bytes);
            e.touched = std::max(e.touched, in.touched * std::max(1.0, times));
            e.useful = std::min(e.useful, in.useful);
        }
        w.simple += p.simple * times, w.divide += p.divide * times, w.special += p.special * times;
        w.multiply_add += p.multiply_add * times;
        w.inner += p.inner;
        w.live += p.live - 1;
        w.body = std::max(w.body, p.points * times);
        w.launches = std::max(w.launches, p.nests);
        if (facts[n].work.reduces || p.nests > 1) anchor = anchor > 0 ? std::min(anchor, p.tasks) : p.tasks;
        if (n == group.last) tasks = p.tasks;
    }
    w.tasks = anchor > 0 ? std::min(anchor, std::max(1.0, tasks)) : tasks;
    if (anchor > 0 && tasks < anchor) w.tasks = anchor;  // rows by themselves are tasks enough
    for (const auto& [v, e] : external) w.operands.push_back(e);
    for (NodeId n : group.nodes)
        for (size_t k = 0; k < g.nodes[n].outputs.size(); ++k) {
            const ValueId v = g.nodes[n].outputs[k];
            const bool out = n == group.last || (v != kNone && leaves(v, group));
            if (out && k < works[n].outputs.size()) w.operands.push_back({works[n].outputs[k].bytes, works[n].outputs[k].bytes, works[n].outputs[k].useful});
        }
    return w;
}

std::string predicted_slower(const Machine& m, double producer_tasks, double fused_tasks) {
    const auto busy = [&](double tasks) { return std::clamp(static_cast<int>(tasks), 1, m.units); };
    if (busy(fused_tasks) < busy(producer_tasks))
        return fmt::format("predicted slower: as one {} of {} units have work, and {} for the producer alone", busy(fused_tasks), m.units, busy(producer_tasks));
    return "predicted slower";
}

void State::record(NodeId producer, Decision d) {
    if (is_view(producer)) return;  // costs nothing either way
    d.registers = machine.registers;
    if (const auto it = decided.find(producer); it != decided.end()) {
        decisions[it->second] = std::move(d);
        return;
    }
    decided[producer] = decisions.size();
    decisions.push_back(std::move(d));
}

}  // namespace opwright::fuse
