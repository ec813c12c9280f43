// Groups join their first reader in order of the predicted gain, where both together are one nest of loops.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <queue>

#include "fuse/state.h"

namespace opwright::fuse {
namespace {
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::Value;
using graph::ValueId;

constexpr double kLeast = 0.01;   // gains below this share of the time apart are none
constexpr double kClose = 0.15;   // within this share of it, a measurement decides where one is allowed

// Producer group and its first reader as one, worked out.
struct Trial {
    GroupId producer = 0, reader = 0;
    uint32_t grown = 0;                   // how often the two had grown when it was worked out
    std::vector<NodeId> nodes;            // of both, and of a view that lies between
    std::vector<ValueId> inputs, outputs;
    std::optional<math::Program> program;
    Estimate after;
    Decision decision;
    double gain() const { return decision.predicted_before - decision.predicted_after; }
};

class Pass {
public:
    explicit Pass(State& s) : s_(s), version_(s.groups.size()), grown_(s.groups.size()), trials_(s.groups.size()) {}

    void run() {
        for (GroupId g = 0; g < s_.groups.size(); ++g) consider(g);
        while (!queue_.empty()) {
            const Entry e = queue_.top();
            queue_.pop();
            if (s_.groups[e.producer].gone || e.version != version_[e.producer] || !trials_[e.producer]) continue;
            const Trial& t = *trials_[e.producer];
            if (s_.groups[t.reader].gone || t.grown != grown_[t.producer] + grown_[t.reader])
                consider(e.producer);  // one of the two is another group by now
            else
                accept(std::move(*trials_[e.producer]));
        }
    }

private:
    struct Entry {
        double gain;
        GroupId producer;
        uint32_t version;
        bool operator<(const Entry& o) const { return std::pair(gain, o.producer) < std::pair(o.gain, producer); }
    };

    // Whether group r computes n itself, as nodes that are repeated are.
    bool at_hand(NodeId n, GroupId r) const { return std::binary_search(s_.groups[r].nodes.begin(), s_.groups[r].nodes.end(), n); }
    bool only_view(const Group& g) const { return g.nodes.size() == 1 && s_.is_view(g.nodes[0]); }

    // The group that reads a result of g before all others do; kNone where none does. Passes a view that nothing else
    // reads, which is then part of both.
    GroupId first_reader(GroupId id, std::vector<NodeId>& between) const {
        const Group& g = s_.groups[id];
        // Groups that repeat a node of g want nothing of g: they come into question where no other does, for what both read.
        GroupId first = kNone;
        for (const bool repeated : {false, true}) {
            for (NodeId n : g.nodes)
                for (ValueId v : s_.g.nodes[n].outputs) {
                    if (v == kNone) continue;
                    for (GroupId r : s_.reading(v)) {
                        if (r == id || at_hand(n, r) != repeated) continue;
                        if (first == kNone || s_.groups[r].last < s_.groups[first].last) first = r;
                    }
                }
            if (first != kNone) break;
        }
        if (first == kNone || !only_view(s_.groups[first])) return first;
        const NodeId view = s_.groups[first].nodes[0];
        const ValueId seen = s_.g.nodes[view].outputs[0];
        const auto readers = s_.reading(seen);
        if (!s_.view[view] || s_.uses.output[seen] || readers.size() != 1) return kNone;
        // Another reader of g may stand before the one behind the view.
        for (NodeId n : g.nodes)
            for (ValueId v : s_.g.nodes[n].outputs)
                if (v != kNone)
                    for (GroupId r : s_.reading(v))
                        if (r != id && r != first && !at_hand(n, r) && s_.groups[r].last < s_.groups[readers[0]].last) return kNone;
        between.push_back(view);
        return readers[0];
    }

    // Why a product stays apart where its rows are not shared; empty where neither is one.
    static std::string of_products(const Group& p, const Group& c) {
        if (p.contracts) return "a product is computed in tiles, which hold no whole rows for its reader";
        if (c.contracts) return "a product packs its factors once, and its reader would compute them again";
        return "";
    }

    // Why the two are not worth a trial; empty where they are.
    std::string hopeless(const Group& p, const Group& c, size_t count) const {
        if (!s_.machine.together)
            if (const std::string why = of_products(p, c); !why.empty()) return why;
        for (const Group* g : {&p, &c})
            for (NodeId n : g->nodes) {
                const Summary& f = s_.facts[n];
                if (!f.map && !f.reduces && !one_nest(n)) return f.work.scans ? "it holds a scan" : "it is assembled piece by piece";
            }
        const Limits& l = s_.o.limits;
        if (static_cast<int>(count) > l.nodes) return fmt::format("both together have {} nodes", count);
        if (p.operations + c.operations > l.operations) return fmt::format("both together have {} operations an element", p.operations + c.operations);
        return "";
    }
    // Several outputs, all set as a whole at the points of one grid.
    bool one_nest(NodeId n) const { return s_.works[n].nests == 1 && !s_.facts[n].work.scans && s_.facts[n].whole; }

    void consider(GroupId id) {
        ++version_[id];
        trials_[id].reset();
        Group& p = s_.groups[id];
        if (p.gone || only_view(p)) return;
        std::vector<NodeId> between;
        const GroupId to = first_reader(id, between);
        if (to == kNone || s_.groups[to].last < p.last) return;
        Group& c = s_.groups[to];
        if (only_view(c)) return;
        Trial t;
        t.producer = id, t.reader = to;
        t.grown = grown_[id] + grown_[to];
        t.nodes = p.nodes;
        t.nodes.insert(t.nodes.end(), c.nodes.begin(), c.nodes.end());
        t.nodes.insert(t.nodes.end(), between.begin(), between.end());
        std::sort(t.nodes.begin(), t.nodes.end());
        t.nodes.erase(std::unique(t.nodes.begin(), t.nodes.end()), t.nodes.end());
        if (const std::string why = hopeless(p, c, t.nodes.size()); !why.empty()) return refuse(t, why, true);
        try_as_one(t);
    }

    void try_as_one(Trial& t) {
        Group &p = s_.groups[t.producer], &c = s_.groups[t.reader];
        Group both;
        both.nodes = t.nodes;
        for (NodeId n : t.nodes)
            for (ValueId v : s_.g.nodes[n].outputs)
                if (v != kNone && leaves_both(v, t)) t.outputs.push_back(v);
        t.program = s_.merged(t.nodes, t.inputs, t.outputs);
        const ProgramWork& w = s_.work(*t.program);
        describe(t);
        const Estimate before_p = s_.time(p), before_c = s_.time(c);
        const Work one = alone(w);
        t.after = estimate(s_.machine, one);
        Decision& d = t.decision;
        d.predicted_before = before_p.seconds + before_c.seconds;
        d.predicted_after = t.after.seconds;
        d.live = w.live;
        d.account = fmt::format("producer alone: {}; reader alone: {}; as one: {}", print(before_p, alone_of(p)), print(before_c, alone_of(c)), print(t.after, one));
        const int inputs = static_cast<int>(t.inputs.size());
        if (inputs > s_.o.limits.inputs) return refuse(t, fmt::format("both together would read {} tensors", inputs), false);
        if (const std::string why = of_products(p, c); !why.empty() && !(w.together && w.nests == 1)) return refuse(t, why, true);
        if (w.nests > std::max(nests(p), nests(c)))
            return refuse(t, fmt::format("they share no loop: {} walks other points than {}", d.consumer, d.producer), false);
        measure_close_call(t, w.live > s_.machine.registers * 0.9);
        const double gain = d.measured_after > 0 ? d.measured_before - d.measured_after : t.gain();
        // Products that share rows spare memory, too, as much as all of the rows between them.
        const double share = w.together ? 0 : kLeast, least = share * (d.measured_after > 0 ? d.measured_before : d.predicted_before);
        if (gain <= least) return refuse(t, d.measured_after > 0 ? "measured slower" : predicted_slower(s_.machine, alone_of(p).tasks, w.tasks), false);
        if (s_.o.refuses)
            if (const std::string why = s_.o.refuses(*t.program); !why.empty()) return refuse(t, "the target has no kernel for both: " + why, false);
        queue_.push({gain, t.producer, version_[t.producer]});
        trials_[t.producer] = std::move(t);
    }

    Work alone_of(Group& g) { return alone(g.nodes.size() == 1 ? s_.works[g.nodes[0]] : s_.work(s_.form(g))); }
    int nests(Group& g) { return g.nodes.size() == 1 ? s_.works[g.nodes[0]].nests : s_.work(s_.form(g)).nests; }

    // Whether v is wanted outside both groups.
    bool leaves_both(ValueId v, const Trial& t) const {
        if (s_.uses.output[v]) return true;
        for (NodeId r : s_.uses.readers[v])
            for (GroupId h : s_.homes[r]) {
                if (h == t.producer || h == t.reader) continue;
                const bool between = std::binary_search(t.nodes.begin(), t.nodes.end(), r) && only_view(s_.groups[h]);
                const auto& nodes = s_.groups[h].nodes;
                if (!between && !std::binary_search(nodes.begin(), nodes.end(), s_.g.values[v].producer)) return true;
            }
        return false;
    }

    void describe(Trial& t) {
        const Group &p = s_.groups[t.producer], &c = s_.groups[t.reader];
        Decision& d = t.decision;
        d.producer = s_.label(p.last), d.value = s_.g.values[s_.g.nodes[p.last].outputs[0]].name, d.consumer = s_.label(c.last);
        for (NodeId n : p.nodes)
            for (ValueId v : s_.g.nodes[n].outputs) {
                if (v == kNone) continue;
                int64_t readers = 0;
                for (NodeId r : s_.uses.readers[v])
                    if (std::binary_search(t.nodes.begin(), t.nodes.end(), r) && !std::binary_search(p.nodes.begin(), p.nodes.end(), r)) {
                        if (!readers) d.consumer = s_.label(r);
                        ++readers;
                    }
                if (!readers) continue;
                const bool stays = leaves_both(v, t);
                d.still_delivered |= stays;
                const Value& x = s_.g.values[v];
                d.value = x.name;
                d.bytes = d.bytes + math::product(x.shape) * static_cast<int64_t>(size_of(x.dtype)) * (readers + (stays ? 0 : 1));
            }
    }

    // A refusal that the first pass made stands, with its own reason, unless this one weighed the two.
    void refuse(Trial& t, const std::string& why, bool keep_earlier) {
        const NodeId n = s_.groups[t.producer].last;
        if (const auto it = s_.decided.find(n); keep_earlier && it != s_.decided.end() && !s_.decisions[it->second].reason.starts_with("predicted slower")) return;
        if (t.decision.producer.empty()) describe(t);
        t.decision.reason = why;
        s_.record(n, std::move(t.decision));
    }

    void measure_close_call(Trial& t, bool registers_full) {
        Decision& d = t.decision;
        const bool close = std::abs(t.gain()) < kClose * d.predicted_before || registers_full;
        if (!s_.o.measure || !close || s_.measured >= s_.o.measure_seconds) return;
        const auto begin = std::chrono::steady_clock::now();
        const auto apart_p = s_.o.measure(s_.form(s_.groups[t.producer]), s_.sizes);
        const auto apart_c = s_.o.measure(s_.form(s_.groups[t.reader]), s_.sizes);
        const auto as_one = s_.o.measure(*t.program, s_.sizes);
        s_.measured += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (!apart_p || !apart_c || !as_one) return;
        d.measured_before = *apart_p + *apart_c, d.measured_after = *as_one;
    }

    void accept(Trial t) {
        Group &p = s_.groups[t.producer], &c = s_.groups[t.reader];
        const NodeId last = p.last;
        t.decision.taken = true;
        t.decision.how = How::Rows;
        t.decision.reason = t.decision.still_delivered ? "rows, and the value is delivered too" : "rows";
        if (p.contracts || c.contracts) t.decision.reason = "rows of products, some at a time";
        for (NodeId n : t.nodes) {
            auto& homes = s_.homes[n];
            std::erase_if(homes, [&](GroupId h) {
                if (h != t.producer && h != t.reader && !(only_view(s_.groups[h]) && s_.groups[h].nodes[0] == n)) return false;
                if (h != t.reader && h != t.producer) s_.groups[h].gone = true;
                return true;
            });
            homes.push_back(t.reader);
        }
        p.gone = true;
        ++grown_[t.reader];
        c.nodes = std::move(t.nodes);
        c.reduces |= p.reduces, c.contracts |= p.contracts;
        c.operations += p.operations;
        c.program = std::move(t.program);
        c.inputs = std::move(t.inputs), c.outputs = std::move(t.outputs);
        c.alone = t.after;
        s_.record(last, std::move(t.decision));

        // What a group gains has changed for the new one and for those whose results it reads first.
        consider(t.reader);
        std::vector<GroupId> producers;
        for (ValueId v : c.inputs) producers_of(v, t.reader, producers);
        for (GroupId h : producers) consider(h);
    }
    // The groups that compute v, also behind a view that stands by itself.
    void producers_of(ValueId v, GroupId reader, std::vector<GroupId>& into) const {
        const NodeId q = s_.g.values[v].producer;
        if (q == kNone) return;
        for (GroupId h : s_.homes[q]) {
            const Group& g = s_.groups[h];
            if (h == reader || g.gone || std::find(into.begin(), into.end(), h) != into.end()) continue;
            if (only_view(g))
                producers_of(s_.g.nodes[q].inputs[0], reader, into);
            else
                into.push_back(h);
        }
    }

    State& s_;
    std::vector<uint32_t> version_;       // of the latest trial, by producer
    std::vector<uint32_t> grown_;         // by group: how often another joined it
    std::vector<std::optional<Trial>> trials_;
    std::priority_queue<Entry> queue_;
};
}  // namespace

void join_by_gain(State& s) { Pass(s).run(); }

}  // namespace opwright::fuse
