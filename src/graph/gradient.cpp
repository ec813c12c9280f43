#include "graph/gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "derive/gradient.h"
#include "math/extract.h"
#include "math/facts.h"

namespace opwright::graph {
using namespace math;
using graph::kNone;
namespace {

std::vector<ExprId> all_of(Program& p, const std::vector<Sym>& shape) {
    std::vector<ExprId> r;
    for (size_t d = 0; d < shape.size(); ++d) r.push_back(p.index(p.add_var("i" + std::to_string(d), shape[d])));
    return r;
}
Program sum_of_two(DType t, const std::vector<Sym>& shape) {
    Program p;
    p.name = "sum";
    const TensorId a = p.add_tensor("a", t, shape, Role::Input), b = p.add_tensor("b", t, shape, Role::Input);
    const TensorId y = p.add_tensor("y", t, shape, Role::Output);
    const auto at = all_of(p, shape);
    const DType wide = compute_type(t);
    p.add_equation(y, at, p.cast(p.call(Fn::Add, {p.cast(p.load(a, at), wide), p.cast(p.load(b, at), wide)}), t));
    return p;
}
Program zeros(DType t, const std::vector<Sym>& shape) {
    Program p;
    p.name = "zeros";
    const TensorId y = p.add_tensor("y", t, shape, Role::Output);
    const auto at = all_of(p, shape);
    p.add_equation(y, at, p.literal(0, t));
    return p;
}

class Backward {
public:
    Backward(const Graph& g, const std::vector<ValueId>& wrt)
        : g_(g), all_(g), active_(g.values.size()), cotangent_(g.values.size(), kNone), wrt_(wrt) {
        all_.nodes.clear();
    }

    Result<GraphGradient> run() {
        for (ValueId v : wrt_) active_[v] = true;
        for (const Node& n : g_.nodes)
            for (ValueId o : n.outputs)
                if (o != kNone && is_float(g_.values[o].dtype))
                    active_[o] = active_[o] || std::any_of(n.inputs.begin(), n.inputs.end(),
                                                           [&](ValueId i) { return i != kNone && active_[i]; });
        for (ValueId o : g_.outputs) {
            if (!active_[o]) continue;
            const ValueId d = derivative(o);
            seeds_.push_back(d);
            OPW_CHECK(accumulate(o, d));
        }
        if (seeds_.empty())
            return Diagnostic(fmt::format("no float output of {} depends on what is differentiated by", g_.name))
                .with_next("Ask for other inputs with --wrt.");
        for (size_t i = g_.nodes.size(); i-- > 0;) OPW_CHECK(node(i));
        std::vector<ValueId> results;
        for (ValueId v : wrt_) {
            if (cotangent_[v] == kNone) {
                cotangent_[v] = derivative(v);
                add({NodeKind::Compute, {}, {cotangent_[v]}, zeros(g_.values[v].dtype, g_.values[v].shape), {}});
            }
            results.push_back(cotangent_[v]);
        }
        return split(results);
    }

private:
    ValueId derivative(ValueId of) {
        const Value& v = g_.values[of];
        return all_.add_value({"d" + v.name, v.dtype, v.shape, {}, {}, kNone});
    }
    void add(Node n) {
        for (ValueId o : n.outputs) all_.values[o].producer = kNone;
        made_.push_back(std::move(n));
    }
    Status accumulate(ValueId v, ValueId d) {
        if (cotangent_[v] == kNone) {
            cotangent_[v] = d;
            return ok_status();
        }
        const ValueId sum = derivative(v);
        add({NodeKind::Compute,
             {cotangent_[v], d},
             {sum},
             sum_of_two(g_.values[v].dtype, g_.values[v].shape),
             {{"d" + g_.values[v].name, "Sum"}}});
        cotangent_[v] = sum;
        return ok_status();
    }

    // The values of node i's outputs, and behind them those that it saves for its gradient: from now on outputs too.
    std::vector<ValueId> saved(size_t i, const derive::Gradient& d) {
        Node more = g_.nodes[i];
        if (d.forward.outputs.size() == more.outputs.size()) return more.outputs;
        const auto named = std::find_if(more.outputs.begin(), more.outputs.end(), [](ValueId v) { return v != kNone; });
        const std::string base = g_.values[*named].name + ".";
        for (size_t o = more.outputs.size(); o < d.forward.outputs.size(); ++o) {
            const TensorInfo& t = d.forward.tensors[d.forward.outputs[o]];
            more.outputs.push_back(all_.add_value({base + t.name, t.dtype, t.shape, {}, {}, kNone}));
        }
        for (const derive::Kept& k : d.kept)
            if (k.given && !k.output) extra_.push_back({base + k.name, k.bytes, true, k.reason});
        more.program = d.forward;
        const std::vector<ValueId> r = more.outputs;
        extended_.emplace(i, std::move(more));
        return r;
    }

    Status node(size_t i) {
        const Node& n = g_.nodes[i];
        std::vector<size_t> asked, given;
        for (size_t i = 0; i < n.inputs.size(); ++i)
            if (n.inputs[i] != kNone && active_[n.inputs[i]] && is_float(g_.values[n.inputs[i]].dtype))
                asked.push_back(i);
        for (size_t o = 0; o < n.outputs.size(); ++o)
            if (n.outputs[o] != kNone && cotangent_[n.outputs[o]] != kNone) given.push_back(o);
        if (asked.empty() || given.empty()) return ok_status();
        std::vector<SourceOp> sources = n.sources;
        for (SourceOp& s : sources) s.type = "gradient of " + s.type;
        if (n.kind == NodeKind::View) {
            const ValueId d = derivative(n.inputs[0]);
            add({NodeKind::View, {cotangent_[n.outputs[0]]}, {d}, {}, std::move(sources)});
            return accumulate(n.inputs[0], d);
        }
        // Outputs that nothing depends on have no cotangent.
        OPW_TRY(derive::Gradient d, derive::gradient(n.program, asked, {.save = true, .cotangents = given}));
        Node back;
        back.sources = std::move(sources);
        // Extents are the graph's symbols: no input is needed for them alone.
        const std::vector<bool> read = mentioned(d.program);
        std::vector<TensorId> inputs;
        const std::vector<ValueId> kept = saved(i, d);
        for (size_t i = 0; i < d.program.inputs.size(); ++i) {
            if (!read[d.program.inputs[i]]) continue;
            inputs.push_back(d.program.inputs[i]);
            const size_t values = d.inputs.size(), cotangents = values + d.saved.size();
            back.inputs.push_back(i < values       ? n.inputs[d.inputs[i]]
                                  : i < cotangents ? kept[d.saved[i - values]]
                                                   : cotangent_[n.outputs[d.cotangents[i - cotangents]]]);
        }
        for (size_t i : d.wrt) back.outputs.push_back(derivative(n.inputs[i]));
        back.program = extract(d.program, d.program.name, inputs, d.program.outputs);
        const std::vector<ValueId> out = back.outputs;
        add(std::move(back));
        for (size_t k = 0; k < out.size(); ++k) OPW_CHECK(accumulate(n.inputs[d.wrt[k]], out[k]));
        return ok_status();
    }

    bool given(ValueId v) const { return g_.values[v].constant || g_.values[v].producer == kNone; }

    // What of the forward pass is kept, and the two graphs.
    GraphGradient split(const std::vector<ValueId>& results) {
        std::set<ValueId> needed, again;
        for (const Node& n : made_)
            for (ValueId v : n.inputs)
                if (v != kNone && v < g_.values.size() && !given(v)) needed.insert(v);
        GraphGradient r;
        std::vector<const Node*> repeated;
        for (size_t i = g_.nodes.size(); i-- > 0;) {
            const Node& n = g_.nodes[i];
            for (ValueId v : n.outputs) {
                if (v == kNone || !needed.count(v)) continue;
                std::string reason;
                const bool recompute = cheap(n, needed, reason);
                r.kept.push_back({g_.values[v].name,
                                  product(g_.values[v].shape) * Sym(static_cast<int64_t>(size_of(g_.values[v].dtype))),
                                  !recompute, reason});
                if (!recompute) continue;
                again.insert(v);
                if (repeated.empty() || repeated.back() != &n) repeated.push_back(&n);
                for (ValueId in : n.inputs)
                    if (in != kNone && !given(in)) needed.insert(in);
            }
        }
        std::reverse(r.kept.begin(), r.kept.end());
        r.forward = g_;
        for (const auto& [i, more] : extended_) {
            const std::vector<ValueId> had = g_.nodes[i].outputs;
            r.forward.nodes[i] = more;
            for (size_t o = had.size(); o < more.outputs.size(); ++o) {
                Value v = all_.values[more.outputs[o]];
                v.producer = static_cast<NodeId>(i);
                const ValueId made = r.forward.add_value(std::move(v));
                r.forward.nodes[i].outputs[o] = made;
                r.forward.outputs.push_back(made);
                new_.push_back(more.outputs[o]);
            }
        }
        r.kept.insert(r.kept.end(), extra_.begin(), extra_.end());
        r.backward.name = g_.name + "_gradient";
        r.backward.requirements = g_.requirements;
        r.backward.fixed_inputs = g_.fixed_inputs;
        std::map<ValueId, ValueId> to;
        const auto value = [&](ValueId v) {
            if (v == kNone) return kNone;
            const auto it = to.find(v);
            if (it != to.end()) return it->second;
            Value copy = all_.values[v];
            copy.producer = kNone;
            return to[v] = r.backward.add_value(std::move(copy));
        };
        for (ValueId v : g_.inputs) r.backward.inputs.push_back(value(v));
        for (ValueId v : needed) {
            if (again.count(v)) continue;
            r.backward.inputs.push_back(value(v));
            if (std::find(r.forward.outputs.begin(), r.forward.outputs.end(), v) == r.forward.outputs.end())
                r.forward.outputs.push_back(v);
        }
        for (ValueId v : new_) r.backward.inputs.push_back(value(v));
        for (ValueId v : seeds_) r.backward.inputs.push_back(value(v));
        const auto place = [&](const Node& n) {
            Node copy = n;
            for (ValueId& v : copy.inputs) v = value(v);
            for (ValueId& v : copy.outputs) v = value(v);
            r.backward.add_node(std::move(copy));
        };
        for (size_t i = repeated.size(); i-- > 0;) place(*repeated[i]);
        for (const Node& n : made_) place(n);
        for (ValueId v : results) r.backward.outputs.push_back(value(v));
        return r;
    }

    // Whether computing a value again from what is at hand costs less than keeping it: nothing to compute, or a few
    // operations an element that are hidden behind reading the inputs, which are kept anyway.
    bool cheap(const Node& n, const std::set<ValueId>& needed, std::string& reason) const {
        if (n.kind == NodeKind::View) return reason = "a view of another value", true;
        const bool at_hand = std::all_of(n.inputs.begin(), n.inputs.end(),
                                         [&](ValueId v) { return v == kNone || given(v) || needed.count(v); });
        Work sum;
        for (const Equation& q : n.program.equations) {
            const Work w = work(n.program, q.rhs);
            sum.simple += w.simple;
            sum.divide += w.divide;
            sum.special += w.special;
            sum.reduces = sum.reduces || w.reduces || q.update != Update::Set;
            sum.scans = sum.scans || w.scans;
        }
        if (sum.reduces || sum.scans) return reason = "its operator goes over many elements for each", false;
        if (!at_hand) return reason = "its operator's inputs would have to be kept instead", false;
        if (sum.special || sum.divide || sum.simple > 8)
            return reason = fmt::format("{} operations an element, {} of them costly",
                                        sum.simple + sum.divide + sum.special, sum.divide + sum.special),
                   false;
        reason = fmt::format("{} cheap operation{} an element on values kept anyway", sum.simple,
                             sum.simple == 1 ? "" : "s");
        return true;
    }

    const Graph& g_;
    Graph all_;  // the values of g, and those of the backward pass
    std::vector<Node> made_;
    std::vector<bool> active_;
    std::vector<ValueId> cotangent_, seeds_, wrt_;
    std::map<size_t, Node> extended_;  // nodes that deliver more than the graph asks of them, by position
    std::vector<Kept> extra_;          // what they do
    std::vector<ValueId> new_;
};
}  // namespace

Result<GraphGradient> gradient(const Graph& g, std::vector<std::string> names) {
    std::vector<ValueId> wrt;
    if (names.empty()) {
        for (ValueId v : g.inputs)
            if (is_float(g.values[v].dtype)) wrt.push_back(v);
        if (wrt.empty())
            return Diagnostic(fmt::format("{} has no input of a float type", g.name))
                .with_next("Name initialisers with --wrt.");
    }
    for (const std::string& n : names) {
        const auto it = std::find_if(g.values.begin(), g.values.end(),
                                     [&](const Value& v) { return v.name == n && v.producer == kNone; });
        if (it == g.values.end())
            return Diagnostic(fmt::format("{} has no input and no initialiser `{}`", g.name, n))
                .with_next("`opwright explain` lists them.");
        if (!is_float(it->dtype))
            return Diagnostic(fmt::format("`{}` is {}, which has no gradient", n, name(it->dtype)))
                .with_next("Ask for the gradient by values of a float type.");
        wrt.push_back(static_cast<ValueId>(it - g.values.begin()));
    }
    return Backward(g, wrt).run();
}

}  // namespace opwright::graph
