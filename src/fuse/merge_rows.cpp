// What follows a product element by element goes over the product's rows, where a model says them by several dims.
#include <algorithm>

#include "fuse/cleanup.h"
#include "fuse/summary.h"
#include "math/merge_dims.h"

namespace opwright::fuse {
namespace {
using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;
using graph::Value;
using graph::ValueId;
using math::Sym;

class Pass {
public:
    explicit Pass(Graph g) : g_(std::move(g)), rows_(g_.values.size(), kNone), by_product_(g_.values.size()) {}

    Graph run() {
        std::vector<Node> before = std::move(g_.nodes);
        g_.nodes.clear();
        for (Node& n : before) {
            if (n.kind == NodeKind::View)
                note(n);
            else if (!merge(n))
                by_product_[n.outputs[0]] = n.outputs.size() == 1 && summarise(n.program).contraction;
            g_.add_node(std::move(n));
            for (Node& v : behind_) g_.add_node(std::move(v));
            behind_.clear();
        }
        return std::move(g_);
    }

private:
    // A view that splits the rows of a product, or of what has followed one.
    void note(const Node& view) {
        const ValueId x = view.inputs[0], v = view.outputs[0];
        if (!by_product_[x]) return;
        const auto &from = g_.values[x].shape, &to = g_.values[v].shape;
        if (from.empty() || to.size() <= from.size()) return;
        const size_t lead = to.size() - from.size() + 1;
        if (!std::equal(from.begin() + 1, from.end(), to.begin() + static_cast<std::ptrdiff_t>(lead)) || !(math::product(dims(v, lead)) == from[0])) return;
        // Where but one of them has more than one element, the view is no hindrance.
        if (std::count_if(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(lead), [](const Sym& d) { return !d.is(1); }) > 1) rows_[v] = x;
    }
    std::vector<Sym> dims(ValueId v, size_t count) const {
        const auto& s = g_.values[v].shape;
        return {s.begin(), s.begin() + static_cast<std::ptrdiff_t>(count)};
    }

    bool merge(Node& n) {
        const auto split = std::find_if(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return v != kNone && rows_[v] != kNone; });
        if (split == n.inputs.end() || std::count(n.outputs.begin(), n.outputs.end(), kNone)) return false;
        const size_t lead = g_.values[*split].shape.size() - g_.values[rows_[*split]].shape.size() + 1;
        const std::vector<Sym> leading = dims(*split, lead);
        if (summarise(n.program).contraction) return false;
        auto merged = math::merge_leading_dims(n.program, leading);
        if (!merged || !merged->tensors[n.program.inputs[static_cast<size_t>(split - n.inputs.begin())]]) return false;
        for (size_t i = 0; i < n.inputs.size(); ++i)
            if (merged->tensors[n.program.inputs[i]]) n.inputs[i] = as_rows(n.inputs[i], lead, n);
        for (ValueId& v : n.outputs) {
            const ValueId whole = v;
            v = add_value(whole, lead);
            by_product_[v] = true;
            rows_[whole] = v;
            behind_.push_back(view(v, whole, n));
        }
        n.program = std::move(merged->program);
        return true;
    }

    // A value of v's elements with its first dims as one.
    ValueId add_value(ValueId v, size_t lead) {
        Value x{.name = g_.values[v].name + " (rows)", .dtype = g_.values[v].dtype, .shape = {math::product(dims(v, lead))}};
        const auto& s = g_.values[v].shape;
        x.shape.insert(x.shape.end(), s.begin() + static_cast<std::ptrdiff_t>(lead), s.end());
        rows_.push_back(kNone);
        by_product_.push_back(false);
        return g_.add_value(std::move(x));
    }
    // The one that is there already may have more or fewer of the dims as one.
    ValueId as_rows(ValueId v, size_t lead, const Node& of) {
        if (rows_[v] != kNone && g_.values[rows_[v]].shape.size() == g_.values[v].shape.size() - lead + 1) return rows_[v];
        const ValueId r = add_value(v, lead);
        if (g_.values[v].constant) {
            Shape shape;
            for (const Sym& d : g_.values[r].shape) shape.push_back(*d.constant());
            g_.values[r].constant = g_.values[v].constant->reshaped(std::move(shape));
            return rows_[v] = r;
        }
        g_.add_node(view(v, r, of));
        return rows_[v] = r;
    }
    static Node view(ValueId from, ValueId to, const Node& of) {
        Node n;
        n.kind = NodeKind::View;
        n.inputs = {from}, n.outputs = {to};
        n.sources = {of.sources.back()};
        return n;
    }

    Graph g_;
    std::vector<ValueId> rows_;       // by value: the one with the same elements and its first dims as one
    std::vector<bool> by_product_;    // by value: a product computes it, or what followed one row by row
    std::vector<Node> behind_;        // views that come after the node at hand
};
}  // namespace

Graph merge_rows(Graph g) { return remove_dead(fold_views(Pass(std::move(g)).run())); }

}  // namespace opwright::fuse
