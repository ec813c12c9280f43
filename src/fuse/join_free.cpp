// Fusions that cost nothing but a check: maps into their readers, epilogues onto reductions.
#include <fmt/format.h>

#include <algorithm>

#include "fuse/state.h"

namespace opwright::fuse {
namespace {
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::Value;
using graph::ValueId;

constexpr double kSlower = 1.02;      // what is predicted to take more than this, of apart, is refused
constexpr size_t kRepeats = 4;        // groups in which one map is repeated at most

class Pass {
public:
    explicit Pass(State& s) : s_(s) {}

    void run() {
        for (auto n = static_cast<NodeId>(s_.g.nodes.size()); n-- > 0;)
            if (!join(n)) open(n);
        settle();
    }

private:
    void open(NodeId n) {
        Group g;
        g.nodes = {n};
        g.last = n;
        g.members[n] = {.aligned = s_.facts[n].map};
        // A view alone needs no kernel, and nothing joins a node that is no program.
        g.reduces = s_.facts[n].work.reduces, g.contracts = s_.facts[n].contraction;
        g.operations = s_.operations(n);
        s_.homes[n] = {static_cast<GroupId>(s_.groups.size())};
        s_.groups.push_back(std::move(g));
    }

    bool join(NodeId p) {
        const Node& n = s_.g.nodes[p];
        std::vector<GroupId> readers;
        for (ValueId v : n.outputs)
            if (v != kNone)
                for (GroupId g : s_.reading(v))
                    if (std::find(readers.begin(), readers.end(), g) == readers.end()) readers.push_back(g);
        std::erase_if(readers, [&](GroupId g) { return s_.is_view(s_.groups[g].last); });
        if (readers.empty()) return false;
        const ValueId v = n.outputs[0];
        if (n.outputs.size() == 1 && s_.reading(v).size() > 1) return repeat(p, s_.reading(v));

        Group& g = s_.groups[readers[0]];
        Member m;
        std::string why_not = refusal(p, g, m);
        Decision d = weigh(p, {&g}, {m});
        if (why_not.empty() && d.predicted_after > kSlower * d.predicted_before && !s_.is_view(p)) why_not = predicted_slower(s_.machine, s_.works[p].tasks, s_.combined(g).tasks);
        d.taken = why_not.empty();
        if (d.taken) {
            d.how = s_.facts[p].reduces ? How::Epilogue : How::Substituted;
            d.reason = name(d.how);
            take(p, readers[0], m);
        } else {
            d.reason = why_not;
        }
        s_.record(p, std::move(d));
        return why_not.empty();
    }

    // Into each of several groups that read it, where that is less work than to write it and to read it.
    bool repeat(NodeId p, const std::vector<GroupId>& readers) {
        const ValueId v = s_.g.nodes[p].outputs[0];
        const Summary& f = s_.facts[p];
        Decision d;
        std::vector<Group*> groups;
        std::vector<Member> members;
        std::string why_not;
        for (GroupId r : readers) {
            Group& g = s_.groups[r];
            Member m;
            if (s_.is_view(g.last)) why_not = fmt::format("{} reads it too", s_.label(g.last));
            if (why_not.empty()) why_not = refusal(p, g, m);
            groups.push_back(&g);
            members.push_back(m);
        }
        if (s_.uses.output[v]) why_not = "the model delivers it";
        else if (!f.map || !(f.movement || f.work.cheap()) || readers.size() > kRepeats)
            why_not = fmt::format("{} reads it too", s_.label(reader(v, s_.groups[readers.back()])));
        if (why_not.empty() || (f.map && readers.size() <= kRepeats)) d = weigh(p, groups, members);
        else describe(d, p, s_.groups[readers[0]]);
        if (why_not.empty() && d.predicted_after > d.predicted_before) why_not = predicted_slower(s_.machine, s_.works[p].tasks, s_.works[p].tasks);
        d.taken = why_not.empty();
        if (d.taken) {
            d.how = How::Repeated;
            d.reason = fmt::format("repeated in {} kernels", readers.size());
            for (size_t i = 0; i < readers.size(); ++i) take(p, readers[i], members[i]);
        } else {
            d.reason = why_not;
        }
        s_.record(p, std::move(d));
        return why_not.empty();
    }

    void take(NodeId p, GroupId into, const Member& m) {
        Group& g = s_.groups[into];
        g.members.emplace(p, m);
        g.nodes.insert(std::lower_bound(g.nodes.begin(), g.nodes.end(), p), p);
        g.reduces |= s_.facts[p].work.reduces;
        g.contracts |= s_.facts[p].contraction;
        g.operations += s_.operations(p);
        g.alone.reset();
        if (!s_.homes[p].empty() && s_.homes[p].front() == into) return;
        s_.homes[p].push_back(into);
    }

    // The first node of g that reads v, or a view of it.
    NodeId reader(ValueId v, const Group& g) const {
        for (NodeId r : s_.uses.readers[v])
            if (g.members.count(r)) return s_.is_view(r) && r != g.last ? reader(s_.g.nodes[r].outputs[0], g) : r;
        return g.last;
    }

    void describe(Decision& d, NodeId p, const Group& g) const {
        const Node& n = s_.g.nodes[p];
        const Value& x = s_.g.values[n.outputs[0]];
        int64_t readers = 0;
        for (NodeId r : s_.uses.readers[n.outputs[0]]) readers += g.members.count(r) > 0;
        d.producer = s_.label(p), d.consumer = s_.label(reader(n.outputs[0], g)), d.value = x.name;
        d.bytes = math::product(x.shape) * static_cast<int64_t>(size_of(x.dtype)) * (1 + readers);
    }

    Decision weigh(NodeId p, const std::vector<Group*>& groups, const std::vector<Member>& members) {
        Decision d;
        describe(d, p, *groups[0]);
        if (groups.size() > 1) {
            const Value& x = s_.g.values[s_.g.nodes[p].outputs[0]];
            d.bytes = math::product(x.shape) * static_cast<int64_t>(size_of(x.dtype)) * static_cast<int64_t>(1 + groups.size());
        }
        const auto add = [&](double& to, const Work& w, const char* what) {
            const Estimate e = estimate(s_.machine, w);
            to += e.seconds;
            d.account += fmt::format("{}{}: {}", d.account.empty() ? "" : "; ", what, print(e, w));
        };
        if (s_.is_view(p)) return d;
        add(d.predicted_before, alone(s_.works[p]), "producer alone");
        d.recompute = 0;
        for (size_t i = 0; i < groups.size(); ++i) {
            Group& g = *groups[i];
            add(d.predicted_before, s_.combined(g), groups.size() == 1 ? "reader alone" : "a reader alone");
            g.members.emplace(p, members[i]);
            g.nodes.insert(std::lower_bound(g.nodes.begin(), g.nodes.end(), p), p);
            const Work both = s_.combined(g);
            d.live = std::max(d.live, both.live);
            d.recompute += members[i].recompute;
            add(d.predicted_after, both, "as one");
            g.nodes.erase(std::lower_bound(g.nodes.begin(), g.nodes.end(), p));
            g.members.erase(p);
        }
        return d;
    }

    // Empty where p may join; else the reason against it. Fills m.
    std::string refusal(NodeId p, const Group& g, Member& m) {
        const Node& n = s_.g.nodes[p];
        if (n.kind == graph::NodeKind::View && !s_.view[p]) return "a view that merges dims lies between";
        if (n.outputs.size() != 1) return "it has several outputs";
        const ValueId v = n.outputs[0];
        const Summary& f = s_.facts[p];
        if (!f.map && !f.reduces) return f.work.scans ? "it holds a scan" : "it is assembled piece by piece";

        m = {.aligned = true, .repeats = false, .sites = 0, .recompute = 0};
        bool edges = false, factor = false;
        for (NodeId r : s_.uses.readers[v]) {
            const auto it = g.members.find(r);
            if (it == g.members.end()) continue;
            const Member& to = it->second;
            const Summary& rf = s_.facts[r];
            for (size_t i = 0; i < s_.g.nodes[r].inputs.size(); ++i) {
                if (s_.g.nodes[r].inputs[i] != v) continue;
                const InputUse& u = rf.inputs[i];
                m.repeats |= to.repeats || u.repeats;
                m.aligned &= to.aligned && u.identity;
                m.sites += u.sites * to.sites;
                edges |= u.edges;
                factor |= rf.contraction && u.repeats && !to.repeats;
                double times = s_.works[r].inputs[i].wanted / std::max(1.0, s_.works[r].inputs[i].elements);
                // A product evaluates a factor once for so many results, when it packs it.
                if (rf.contraction) times = std::max(std::min(times, 1.0), times / s_.machine.reuse);
                m.recompute += to.recompute * times;
            }
        }
        if (m.aligned) m.sites = 1, m.recompute = std::min(m.recompute, 1.0);
        if (f.reduces) m.recompute = std::min(m.recompute, 1.0);

        const Limits& limits = s_.o.limits;
        if (static_cast<int>(g.nodes.size()) >= limits.nodes) return fmt::format("the group has {} nodes already", g.nodes.size());
        if (g.operations + s_.operations(p) > limits.operations) return fmt::format("the group has {} operations an element already", g.operations);
        if (s_.uses.output[v]) return "the model delivers it";
        if (inputs_with(p, g) > limits.inputs) return fmt::format("the group would read more than {} tensors", limits.inputs);
        if (f.reduces) {
            if (!m.aligned) return "it reduces, and its reader walks another index space";
            if (g.reduces) return fmt::format("{} reduces already", s_.label(g.last));
            return "";
        }
        if (edges && !f.movement) return "its reader goes past its edges";
        const math::Work& w = f.work;
        if (m.sites == 1 && !m.repeats) return "";
        if (f.movement && m.sites <= 8) return "";
        if (w.free() && w.all_affine && m.sites <= 8 && !g.contracts) return "";
        if (!m.repeats && w.cheap() && w.loads * m.sites <= m.sites + 1 + w.loads && m.sites <= 3) return "";
        if (m.repeats && factor && m.recompute <= 1.001) return "it is a product's factor, and only what moves elements is computed while those are packed";
        return m.repeats ? "its elements would be computed more than once" : fmt::format("it is read at {} places", m.sites);
    }

    int inputs_with(NodeId p, const Group& g) {
        std::vector<ValueId> seen;
        const auto add = [&](NodeId n) {
            for (ValueId v : s_.g.nodes[n].inputs) {
                const NodeId q = s_.g.values[v].producer;
                if (q != kNone && (q == p || g.members.count(q))) continue;
                if (std::find(seen.begin(), seen.end(), v) == seen.end()) seen.push_back(v);
            }
        };
        for (NodeId n : g.nodes) add(n);
        add(p);
        return static_cast<int>(seen.size());
    }

    // Gives back views at a group's edge: behind them nothing joined, and a view by itself costs nothing.
    void settle() {
        const size_t count = s_.groups.size();
        std::vector<bool> loose(s_.g.nodes.size());
        for (size_t i = 0; i < count; ++i) {
            Group& g = s_.groups[i];
            std::erase_if(g.nodes, [&](NodeId n) {
                if (n == g.last || !s_.is_view(n)) return false;
                const NodeId behind = s_.g.values[s_.g.nodes[n].inputs[0]].producer;
                if (behind != kNone && g.members.count(behind)) return false;
                g.members.erase(n);
                loose[n] = true;
                std::erase(s_.homes[n], static_cast<GroupId>(i));
                return true;
            });
        }
        for (NodeId n = 0; n < loose.size(); ++n)
            if (loose[n]) open_view(n);
    }
    void open_view(NodeId n) {
        // In groups that keep it, it stays repeated.
        s_.lone[n] = true;
        const auto kept = s_.homes[n];
        open(n);
        for (GroupId k : kept) s_.homes[n].push_back(k);
    }

    State& s_;
};
}  // namespace

void join_free(State& s) { Pass(s).run(); }

}  // namespace opwright::fuse
