#include <queue>
#include <unordered_map>

#include "graph/onnx/importer.h"

namespace opwright::graph::onnx {
namespace {

// Names that a node reads, also from inside its branches (where names made there do not count).
void read_names(const pb::NodeProto& n, std::set<std::string>& out) {
    out.insert(n.input().begin(), n.input().end());
    const auto branch = [&out](const pb::GraphProto& g) {
        std::set<std::string> inside, made;
        for (const auto& m : g.node()) {
            read_names(m, inside);
            made.insert(m.output().begin(), m.output().end());
        }
        for (const auto& o : g.output()) inside.insert(o.name());
        for (const auto& i : g.input()) made.insert(i.name());
        for (const auto& t : g.initializer()) made.insert(t.name());
        for (const std::string& s : inside)
            if (!made.count(s)) out.insert(s);
    };
    for (const auto& a : n.attribute()) {
        if (a.has_g()) branch(a.g());
        for (const auto& g : a.graphs()) branch(g);
    }
}
}  // namespace

bool run_order(const NodeList& nodes, std::vector<int>& order, int& bad) {
    const int n = nodes.size();
    std::unordered_map<std::string, int> producer;
    for (int i = 0; i < n; ++i)
        for (const auto& o : nodes[i].output())
            if (!o.empty()) producer.emplace(o, i);
    std::vector<std::vector<int>> readers(static_cast<size_t>(n));
    std::vector<int> waits(static_cast<size_t>(n), 0);
    for (int i = 0; i < n; ++i) {
        std::set<std::string> names;
        read_names(nodes[i], names);
        for (const std::string& s : names)
            if (auto it = producer.find(s); it != producer.end()) {
                readers[static_cast<size_t>(it->second)].push_back(i);
                ++waits[static_cast<size_t>(i)];
            }
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;  // the model's own order where it is one
    for (int i = 0; i < n; ++i)
        if (waits[static_cast<size_t>(i)] == 0) ready.push(i);
    while (!ready.empty()) {
        const int i = ready.top();
        ready.pop();
        order.push_back(i);
        for (int r : readers[static_cast<size_t>(i)])
            if (--waits[static_cast<size_t>(r)] == 0) ready.push(r);
    }
    for (int i = 0; i < n; ++i)
        if (waits[static_cast<size_t>(i)] > 0) {
            bad = i;
            return false;
        }
    return true;
}

}  // namespace opwright::graph::onnx
