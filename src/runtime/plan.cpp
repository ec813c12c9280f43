#include "runtime/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "derive/shape.h"
#include "graph/bind.h"

namespace opwright::runtime {
namespace {
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;
using graph::Value;
using graph::ValueId;

constexpr int64_t kLargest = int64_t{1} << 46;  // bytes: beyond any machine, and sums of thousands still fit an int64

class Planner {
public:
    Planner(const PlanInput& in, const math::SymValues& symbols) : in_(in), g_(in.graph), plan_(std::make_shared<Plan>()) {
        plan_->symbols = symbols;
        plan_->shapes.resize(g_.values.size());
        plan_->places.resize(g_.values.size());
        plan_->made.resize(g_.values.size());
        bytes_.assign(g_.values.size(), 0);
        root_.assign(g_.values.size(), kNone);
    }

    Result<std::shared_ptr<Plan>> run() {
        std::vector<int64_t> values;
        for (const std::string& s : in_.table.symbols()) values.push_back(plan_->symbols.at(s));
        slots_ = in_.table.evaluate(values);
        OPW_CHECK(graph::check_requirements(g_, plan_->symbols));
        for (const Step& s : in_.steps)
            OPW_CHECK(named(derive::check_requirements(g_.nodes[s.node].program, plan_->symbols), s.node));
        OPW_CHECK(extents());
        OPW_CHECK(views());
        OPW_CHECK(place_sources());
        place_outputs();
        OPW_CHECK(place_intermediates());
        arguments();
        return std::move(plan_);
    }

private:
    Status named(Status s, graph::NodeId n) const {
        if (s.ok() || g_.nodes[n].sources.empty()) return s;
        Diagnostic d = s.error();
        const graph::SourceOp& op = g_.nodes[n].sources.front();
        d.with_note(fmt::format("in the operator '{}' ({})", op.name, op.type));
        return d;
    }

    Status extents() {
        for (ValueId v = 0; v < g_.values.size(); ++v) {
            const Value& x = g_.values[v];
            if (x.constant) {
                plan_->shapes[v] = x.constant->shape();
                bytes_[v] = static_cast<int64_t>(x.constant->bytes());
                continue;
            }
            Shape s;
            for (size_t d = 0; d < in_.slots[v].size(); ++d) {
                const auto e = slots_[in_.slots[v][d]];
                if (!e || *e < 0)
                    return Diagnostic(fmt::format("Dimension {} of '{}', {}, {} at these input sizes.", d, x.name, x.shape[d].str(),
                                                  e ? fmt::format("is {}", *e) : "has no value"))
                        .with_next("Give inputs large enough for every operator of the model.");
                s.push_back(*e);
            }
            const int64_t n = element_count(s);
            if (n < 0 || n > kLargest / static_cast<int64_t>(size_of(x.dtype)))
                return Diagnostic(fmt::format("{} would have shape {}, which is more than any memory holds.", x.name, to_string(s)));
            bytes_[v] = n * static_cast<int64_t>(size_of(x.dtype));
            plan_->shapes[v] = std::move(s);
        }
        return ok_status();
    }

    // Kernels read a view's elements without looking: a view of more elements than there are would read beyond memory.
    Status views() const {
        for (NodeId n = 0; n < g_.nodes.size(); ++n) {
            if (g_.nodes[n].kind != NodeKind::View) continue;
            const ValueId from = g_.nodes[n].inputs[0], to = g_.nodes[n].outputs[0];
            if (bytes_[from] == bytes_[to]) continue;
            return named(Diagnostic(fmt::format("'{}' of shape {} cannot be seen as '{}' of shape {}: {} elements are not {}.",
                                                g_.values[from].name, to_string(plan_->shapes[from]), g_.values[to].name,
                                                to_string(plan_->shapes[to]), element_count(plan_->shapes[from]),
                                                element_count(plan_->shapes[to])))
                             .with_next("Give inputs of sizes that the model was made for."),
                         n);
        }
        return ok_status();
    }

    Status place_sources() {
        for (size_t i = 0; i < g_.inputs.size(); ++i) plan_->places[g_.inputs[i]] = {Place::Input, static_cast<int64_t>(i)};
        for (ValueId v = 0; v < g_.values.size(); ++v) {
            const Value& x = g_.values[v];
            root_[v] = v;
            if (plan_->places[v].kind == Place::Input) continue;
            if (x.constant) {
                plan_->places[v].kind = Place::Constant;
            } else if (x.producer == kNone && x.content) {
                Tensor t(x.dtype, plan_->shapes[v]);
                for (int64_t i = 0; i < t.size(); ++i) {
                    const math::Sym& element = x.content->at(static_cast<size_t>(i));
                    const auto e = math::evaluate(element, plan_->symbols);
                    if (!e) return Diagnostic(fmt::format("Element {} of {}, {}, has no value at these input sizes.", i, x.name, element.str()));
                    t.set_int(i, *e);
                }
                plan_->made[v] = std::move(t);
                plan_->places[v].kind = Place::Constant;
            }
        }
        for (const Node& n : g_.nodes)
            if (n.kind == NodeKind::View) root_[n.outputs[0]] = root_[n.inputs[0]];
        return ok_status();
    }

    void place_outputs() {
        for (size_t i = 0; i < g_.outputs.size(); ++i) {
            Place& p = plan_->places[root_[g_.outputs[i]]];
            if (p.kind == Place::Nowhere) p = {Place::Output, static_cast<int64_t>(i)};
            else plan_->copies.push_back({static_cast<uint32_t>(i), root_[g_.outputs[i]]});
        }
    }

    Status place_intermediates() {
        std::vector<int> last(g_.values.size(), -1), first(g_.values.size(), -1);
        for (size_t s = 0; s < in_.steps.size(); ++s) {
            const Node& n = g_.nodes[in_.steps[s].node];
            for (ValueId v : n.outputs) first[root_[v]] = static_cast<int>(s), last[root_[v]] = std::max(last[root_[v]], static_cast<int>(s));
            for (ValueId v : n.inputs) last[root_[v]] = static_cast<int>(s);
        }
        std::vector<Lifetime> lives;
        std::vector<ValueId> owner;  // kNone: the workspace of a step
        for (ValueId v = 0; v < g_.values.size(); ++v) {
            if (root_[v] != v || first[v] < 0 || plan_->places[v].kind != Place::Nowhere) continue;
            lives.push_back({bytes_[v], first[v], last[v]});
            owner.push_back(v);
        }
        workspace_.assign(in_.steps.size(), 0);
        std::vector<size_t> workspace_at(in_.steps.size(), SIZE_MAX);
        for (size_t s = 0; s < in_.steps.size(); ++s) {
            OPW_CHECK(named(symbols_of(in_.steps[s], scratch_), in_.steps[s].node));
            const int64_t w = in_.steps[s].kernel->workspace_bytes(scratch_);
            if (w < 0 || w > kLargest) return named(Diagnostic("An operator would need more scratch memory than any machine has."), in_.steps[s].node);
            if (w == 0) continue;
            workspace_at[s] = lives.size();
            lives.push_back({w, static_cast<int>(s), static_cast<int>(s)});
            owner.push_back(kNone);
        }
        plan_->memory = plan_memory(lives, in_.alignment);
        for (size_t i = 0; i < lives.size(); ++i)
            if (owner[i] != kNone) plan_->places[owner[i]] = {Place::Arena, plan_->memory.offsets[i]};
        for (size_t s = 0; s < in_.steps.size(); ++s)
            if (workspace_at[s] != SIZE_MAX) workspace_[s] = plan_->memory.offsets[workspace_at[s]];
        for (ValueId v = 0; v < g_.values.size(); ++v) plan_->places[v] = plan_->places[root_[v]];
        return ok_status();
    }

    Status symbols_of(const Step& s, std::vector<int64_t>& out) const {
        out.clear();
        for (uint32_t slot : s.symbols) {
            if (!slots_[slot]) return Diagnostic("A size inside an operator has no value at these input sizes: a division by zero, or more than 64 bits.");
            out.push_back(*slots_[slot]);
        }
        return ok_status();
    }

    void arguments() {
        uint32_t operand = 0;
        for (size_t s = 0; s < in_.steps.size(); ++s) {
            const Step& step = in_.steps[s];
            const Node& n = g_.nodes[step.node];
            (void)symbols_of(step, scratch_);  // checked by place_intermediates
            Plan::Launch l{step.kernel, operand, static_cast<uint32_t>(n.inputs.size()), 0, static_cast<uint32_t>(n.outputs.size()),
                           static_cast<uint32_t>(plan_->arguments.size()), static_cast<uint32_t>(scratch_.size()), workspace_[s], step.node};
            plan_->arguments.insert(plan_->arguments.end(), scratch_.begin(), scratch_.end());
            const auto patch = [&](ValueId v) {
                const Place& p = plan_->places[v];
                if (p.kind == Place::Input || p.kind == Place::Output)
                    plan_->patches.push_back({operand, static_cast<uint32_t>(p.index), p.kind == Place::Output});
                ++operand;
            };
            for (ValueId v : n.inputs) patch(v);
            l.outputs = operand;
            for (ValueId v : n.outputs) patch(v);
            plan_->launches.push_back(l);
        }
    }

    const PlanInput& in_;
    const graph::Graph& g_;
    std::shared_ptr<Plan> plan_;
    std::vector<std::optional<int64_t>> slots_;
    std::vector<int64_t> bytes_, workspace_, scratch_;
    std::vector<ValueId> root_;
};
}  // namespace

Diagnostic in_operator(Diagnostic d, const Node& n) {
    if (!n.sources.empty()) {
        const graph::SourceOp& s = n.sources.back();
        d.with_note(fmt::format("in the operator '{}' ({})", s.name, s.type));
    }
    return d;
}

Result<std::shared_ptr<Plan>> make_plan(const PlanInput& in, const math::SymValues& symbols) { return Planner(in, symbols).run(); }

}  // namespace opwright::runtime
