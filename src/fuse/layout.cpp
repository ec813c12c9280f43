#include "fuse/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "fuse/uses.h"
#include "math/facts.h"
#include "math/permute_dims.h"
#include "schedule/window.h"

namespace opwright::fuse {
namespace {
using namespace math;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;
using graph::ValueId;

const std::vector<size_t> kChannelsLast = {0, 2, 3, 1};
constexpr double kLeastGain = 0.01;  // of a region's time: less is no reason to change anything
constexpr int kPasses = 3;           // over a region's values, changing single ones

template <class T>
std::vector<T> permuted(const std::vector<T>& dims) {
    std::vector<T> r;
    for (size_t d : kChannelsLast) r.push_back(dims[d]);
    return r;
}

std::string duration(double seconds) {
    return seconds < 1e-3 ? fmt::format("{:.3g} µs", seconds * 1e6) : fmt::format("{:.3g} ms", seconds * 1e3);
}

// ---- what a program is like

bool reads_windows(const Program& p) {
    std::vector<bool> reduced(p.vars.size(), false);
    for (ExprId e = 0; e < p.expr_count(); ++e)
        if (p.expr(e).kind == ExprKind::Reduce)
            for (VarId v : p.expr(e).vars) reduced[v] = true;
    for (ExprId e = 0; e < p.expr_count(); ++e) {
        const Expr& x = p.expr(e);
        if (x.kind != ExprKind::Load) continue;
        for (size_t d = 0; d < p.tensors[x.ref].shape.size(); ++d) {
            const auto f = affine(p, x.args[d]);
            if (!f || f->terms.size() < 2) continue;
            const auto is_reduced = [&](const auto& term) { return static_cast<bool>(reduced[term.first]); };
            if (std::any_of(f->terms.begin(), f->terms.end(), is_reduced) &&
                !std::all_of(f->terms.begin(), f->terms.end(), is_reduced))
                return true;
        }
    }
    return false;
}

// y[i, j] = x[i, j] of the same type: nothing but another name.
bool is_copy(const Program& p) {
    if (p.inputs.size() != 1 || p.outputs.size() != 1 || p.equations.size() != 1) return false;
    const Equation& q = p.equations[0];
    const Expr& x = p.expr(q.rhs);
    const TensorInfo &from = p.tensors[p.inputs[0]], &to = p.tensors[p.outputs[0]];
    return q.update == Update::Set && q.lhs == p.outputs[0] && x.kind == ExprKind::Load && x.ref == p.inputs[0] &&
           x.outside == Outside::Error && x.args == q.at && from.dtype == to.dtype && from.shape == to.shape;
}

// How much longer a kernel takes than the time model says, which knows no lanes that are computed in vain: points of
// register tiles and vectors over those that are kept.
class Lanes {
public:
    Lanes(const Program& p, const Machine& m, const SymValues& sizes) : p_(p), lanes_(m.lanes), sizes_(sizes) {}

    void correct(ProgramWork& w) const {
        constexpr double kBorder = 1.2;  // vectors at the edges of a row, where places are tested, over those within
        constexpr double kApart = 16;    // simple operations of an element that a lane fetches from a place of its own
        constexpr int64_t kShort = 4;    // steps that loads of whole vectors and shuffles serve ...
        constexpr double kStrided = 2;   // ... and what that costs for windows
        double products = 0, computed = 0, simple = 1, apart = 0;
        for (const Equation& q : p_.equations) {
            const auto c = schedule::match_contraction_or_row(p_, q);
            if (!c) {
                if (q.vars.empty()) continue;
                const VarId lane = q.vars.back();
                bool windows = false, strided = false;
                for (const Read& r : reads_with_context(p_, q.rhs)) {
                    const auto free = p_.free_vars(r.expr);
                    if (std::find(free.begin(), free.end(), lane) == free.end()) continue;
                    const Expr& x = p_.expr(r.expr);
                    const auto last = affine(p_, x.args[p_.tensors[x.ref].shape.size() - 1]);
                    const Sym step = last ? last->coefficient(lane) : Sym(0);
                    const bool along = step.lower() >= 1 && step.upper() <= kShort;
                    windows |= along && last->terms.size() > 1;
                    strided |= windows && step.upper() > 1;
                    if (!along) apart += product(q.vars) * product(r.reduced);
                }
                if (!math::work(p_, q.rhs).reduces) continue;
                const double row = extent(lane);
                simple = std::max(simple, over(row, lanes_) * (windows ? 1 + kBorder * lanes_ / row : 1) * (strided ? kStrided : 1));
                continue;
            }
            // A slab whose lanes run along another index than the tensor's.
            if (const auto w = schedule::useful_window(p_, q, *c); w && !side_by_side_in_window(c->b, *w)) {
                double n = product(w->batch) * product(w->channels);
                for (const auto* a : {&w->row, &w->column})
                    if (a->out != kNone) n *= extent(a->out) * static_cast<double>(std::min(a->stride, a->taps));
                apart += n;
            }
            double n = 1;
            for (const auto* vars : {&q.vars, &c->k}) n *= product(*vars);
            products += n;
            computed += n * waste(q, *c);
        }
        if (products > 0) w.multiply_add *= computed / products;
        w.simple = w.simple * simple + kApart * apart;
    }

private:
    double extent(VarId v) const {
        const auto n = evaluate(p_.vars[v].extent, sizes_);
        return n ? std::max<double>(1, static_cast<double>(*n)) : 1;
    }
    double product(const std::vector<VarId>& vars) const {
        double n = 1;
        for (VarId v : vars) n *= extent(v);
        return n;
    }
    static double over(double n, double unit) { return std::ceil(n / unit) * unit / n; }
    // Whether neighbours along the window's column lie next to each other, or a stride apart.
    bool side_by_side_in_window(ExprId factor, const schedule::Window& w) const {
        for (const Read& r : reads_with_context(p_, factor)) {
            const Expr& x = p_.expr(r.expr);
            const size_t rank = p_.tensors[x.ref].shape.size();
            for (size_t d = 0; d + 1 < rank; ++d) {
                const auto f = affine(p_, x.args[d]);
                if (!f || !f->coefficient(w.column.out).is(0)) return false;
            }
        }
        return true;
    }
    double waste(const Equation& q, const schedule::Contraction& c) const {
        constexpr double kRows = 4;        // a rest of fewer rows than a tile has runs in a smaller one
        constexpr double kPlanes = 1.4;     // of filling the planes of a strided slab, lanes along its columns
        constexpr double kOuter = 1.2;     // of windows whose channels lie apart: each comes from lines of its own
        constexpr double kPanels = 1.35;   // of bringing windows into panels, each element once for each tap
        if (const auto w = schedule::useful_window(p_, q, c)) {
            const double column = extent(w->column.out), row = w->row.out == kNone ? 1 : extent(w->row.out);
            const double run = row * (column + static_cast<double>(w->column.reach()));
            const bool strided = w->column.stride > 1;
            return over(run, 2.0 * lanes_) * run / (row * column) * over(product(c.m), kRows) * (strided ? kPlanes : 1);
        }
        if (const auto w = schedule::useful_points(p_, q, c)) {
            const double column = extent(w->column.out), row = w->row.out == kNone ? 1 : extent(w->row.out);
            const bool inner = c.lanewise || (w->channels.size() == 1 && schedule::side_by_side(p_, c.a, w->channels[0]));
            return over(row * column, kRows) * over(product(c.n), lanes_) * (inner ? 1 : kOuter);
        }
        const bool window = schedule::match_window(p_, q, c) || schedule::match_points(p_, q, c);
        return over(product(c.m), kRows) * over(product(c.n), lanes_) * (window && reads_windows(p_) ? kPanels : 1);
    }

    const Program& p_;
    const int lanes_;
    const SymValues& sizes_;
};

// ---- the choice

class Chooser {
public:
    Chooser(Graph g, const Machine& machine, const SymValues& sizes)
        : g_(std::move(g)), machine_(machine), sizes_(sizes), uses_(g_) {}

    Laid run() {
        find_candidates();
        for (auto& [root, values] : regions()) weigh(values);
        rewrite();
        return {std::move(g_), std::move(report_)};
    }

private:
    using Labels = std::vector<bool>;  // by value: channels last

    bool can_change(ValueId v) const {
        const graph::Value& x = g_.values[v];
        if (x.shape.size() != 4 || x.producer == graph::kNone || uses_.output[v] || uses_.readers[v].empty()) return false;
        if (g_.nodes[x.producer].kind != NodeKind::Compute) return false;
        for (NodeId n : uses_.readers[v])
            if (g_.nodes[n].kind != NodeKind::Compute) return false;
        // Where one of the two is a single point, the layouts are the same.
        return !x.shape[1].is(1) && !(x.shape[2] * x.shape[3]).is(1);
    }
    void find_candidates() {
        candidate_.assign(g_.values.size(), false);
        for (ValueId v = 0; v < g_.values.size(); ++v) candidate_[v] = can_change(v);
        windows_.assign(g_.nodes.size(), false);
        for (NodeId n = 0; n < g_.nodes.size(); ++n)
            windows_[n] = g_.nodes[n].kind == NodeKind::Compute && reads_windows(g_.nodes[n].program);
        labels_.assign(g_.values.size(), false);
    }
    // The candidates that a node touches, each once.
    std::vector<ValueId> touched(NodeId n) const {
        std::vector<ValueId> r;
        for (const auto* list : {&g_.nodes[n].inputs, &g_.nodes[n].outputs})
            for (ValueId v : *list)
                if (v != graph::kNone && candidate_[v] && std::find(r.begin(), r.end(), v) == r.end()) r.push_back(v);
        return r;
    }
    std::vector<NodeId> around(ValueId v) const {
        std::vector<NodeId> r = uses_.readers[v];
        r.push_back(g_.values[v].producer);
        return r;
    }
    // Candidates that share a kernel, by one of them; only where some kernel of theirs reads windows.
    std::map<ValueId, std::vector<ValueId>> regions() const {
        std::vector<ValueId> parent(g_.values.size());
        std::iota(parent.begin(), parent.end(), 0);
        const auto find = [&](ValueId v) {
            while (parent[v] != v) v = parent[v] = parent[parent[v]];
            return v;
        };
        for (NodeId n = 0; n < g_.nodes.size(); ++n) {
            const auto t = touched(n);
            for (size_t i = 1; i < t.size(); ++i) parent[find(t[i])] = find(t[0]);
        }
        std::map<ValueId, std::vector<ValueId>> all, r;
        std::vector<bool> windows(g_.values.size(), false);
        for (ValueId v = 0; v < g_.values.size(); ++v)
            if (candidate_[v]) all[find(v)].push_back(v);
        for (NodeId n = 0; n < g_.nodes.size(); ++n)
            if (windows_[n])
                for (ValueId v : touched(n)) windows[find(v)] = true;
        for (auto& [root, values] : all)
            if (windows[root]) r.emplace(root, std::move(values));
        return r;
    }

    std::vector<std::vector<size_t>> orders(NodeId n, const Labels& labels) const {
        const Node& node = g_.nodes[n];
        const Program& p = node.program;
        std::vector<std::vector<size_t>> r(p.tensors.size());
        for (size_t i = 0; i < node.inputs.size(); ++i)
            if (node.inputs[i] != graph::kNone && labels[node.inputs[i]]) r[p.inputs[i]] = kChannelsLast;
        bool any = false;
        for (size_t i = 0; i < node.outputs.size(); ++i)
            if (node.outputs[i] != graph::kNone && labels[node.outputs[i]]) r[p.outputs[i]] = kChannelsLast, any = true;
        // What passes between its equations goes with what it writes, so that they share their loops.
        for (TensorId t = 0; any && t < p.tensors.size(); ++t)
            if (p.tensors[t].role == Role::Temp && p.tensors[t].shape.size() == 4) r[t] = kChannelsLast;
        return r;
    }
    double seconds(NodeId n, const Labels& labels) {
        std::string key;
        for (ValueId v : touched(n)) key += labels[v] ? '1' : '0';
        const auto [at, fresh] = known_.try_emplace({n, key}, 0.0);
        if (fresh) {
            const Node& node = g_.nodes[n];
            const bool as_it_is = key.find('1') == std::string::npos;
            const Program changed = as_it_is ? Program() : math::without_copies(permute_dims(node.program, orders(n, labels)));
            const Program& p = as_it_is ? node.program : changed;
            if (is_copy(p)) return at->second = 0;
            at->second = kernel_seconds(p, machine_, sizes_);
        }
        return at->second;
    }
    double total(const std::vector<NodeId>& nodes, const Labels& labels) {
        double t = 0;
        for (NodeId n : nodes) t += seconds(n, labels);
        return t;
    }

    // Turns single values, and all that a kernel with windows touches, while that is faster.
    void improve(const std::vector<ValueId>& values, const std::vector<NodeId>& nodes, Labels& labels) {
        const auto attempt = [&](const std::vector<ValueId>& some, bool last) {
            std::vector<NodeId> near;
            for (ValueId v : some)
                for (NodeId n : around(v)) near.push_back(n);
            std::sort(near.begin(), near.end());
            near.erase(std::unique(near.begin(), near.end()), near.end());
            const double now = total(near, labels);
            const Labels before = labels;
            for (ValueId v : some) labels[v] = last;
            if (total(near, labels) < now * (1 - 1e-6)) return true;
            labels = before;
            return false;
        };
        for (int pass = 0; pass < kPasses; ++pass) {
            bool better = false;
            for (NodeId n : nodes)
                if (windows_[n])
                    for (bool last : {true, false}) better |= attempt(touched(n), last);
            for (ValueId v : values) better |= attempt({v}, !labels[v]);
            if (!better) break;
        }
    }
    void weigh(const std::vector<ValueId>& values) {
        std::vector<NodeId> nodes;
        for (ValueId v : values)
            for (NodeId n : around(v)) nodes.push_back(n);
        std::sort(nodes.begin(), nodes.end());
        nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());

        LayoutRegion region;
        for (ValueId v : values) region.values.push_back(g_.values[v].name);
        region.before = total(nodes, labels_);
        // From either end: all of it turned, or none.
        Labels all = labels_, none = labels_;
        for (ValueId v : values) all[v] = true;
        improve(values, nodes, all);
        improve(values, nodes, none);
        const Labels next = total(nodes, none) < total(nodes, all) ? none : all;
        region.after = total(nodes, next);
        if (region.after > region.before * (1 - kLeastGain)) {
            region.reason = fmt::format("channels last would take {} in place of {}: the model's layout stays",
                                        duration(region.after), duration(region.before));
            region.after = region.before;
        } else {
            labels_ = next;
            for (ValueId v : values)
                if (labels_[v]) region.changed.push_back(g_.values[v].name);
            conversions(nodes, region);
            region.reason = fmt::format("channels last takes {} in place of {}, predicted", duration(region.after),
                                        duration(region.before));
        }
        report_.push_back(std::move(region));
    }
    // What it costs that a kernel reads one layout and writes the other: over the better of its two pure forms.
    void conversions(const std::vector<NodeId>& nodes, LayoutRegion& region) {
        for (NodeId n : nodes) {
            const Node& node = g_.nodes[n];
            bool reads[2] = {}, writes[2] = {};
            for (ValueId v : node.inputs)
                if (v != graph::kNone && g_.values[v].shape.size() == 4 && !g_.values[v].constant) reads[labels_[v]] = true;
            for (ValueId v : node.outputs)
                if (v != graph::kNone && g_.values[v].shape.size() == 4) writes[labels_[v]] = true;
            if (!((reads[0] && writes[1]) || (reads[1] && writes[0]))) continue;
            Labels pure[2] = {labels_, labels_};
            for (ValueId v : touched(n)) pure[0][v] = false, pure[1][v] = true;
            const double best = std::min(seconds(n, pure[0]), seconds(n, pure[1]));
            const std::string name = node.sources.empty() ? node.program.name : node.sources.front().name;
            region.conversions.push_back({name, std::max(0.0, seconds(n, labels_) - best)});
        }
    }

    // ---- the graph in its new layouts

    void rewrite() {
        for (NodeId n = 0; n < g_.nodes.size(); ++n) {
            if (g_.nodes[n].kind != NodeKind::Compute) continue;
            const auto order = orders(n, labels_);
            if (std::all_of(order.begin(), order.end(), [](const auto& o) { return o.empty(); })) continue;
            g_.nodes[n].program = math::without_copies(permute_dims(g_.nodes[n].program, order));
            // A transpose between the layouts, which is none now.
            if (is_copy(g_.nodes[n].program)) {
                g_.nodes[n].kind = NodeKind::View;
                g_.nodes[n].program = {};
            }
        }
        for (ValueId v = 0; v < labels_.size(); ++v)
            if (labels_[v]) g_.values[v].shape = permuted(g_.values[v].shape);
    }
    Graph g_;
    const Machine& machine_;
    const SymValues& sizes_;
    const Uses uses_;
    std::vector<bool> candidate_, windows_;
    Labels labels_;
    std::map<std::pair<NodeId, std::string>, double> known_;
    std::vector<LayoutRegion> report_;
};
}  // namespace

double kernel_seconds(const Program& p, const Machine& machine, const SymValues& sizes) {
    ProgramWork w = program_work(p, sizes);
    Lanes(p, machine, sizes).correct(w);
    return estimate(machine, alone(w)).seconds;
}

Laid choose_layouts(Graph g, const Machine& machine, const SymValues& sizes) {
    return Chooser(std::move(g), machine, sizes).run();
}

}  // namespace opwright::fuse
