// Control flow that is settled at import. A loop whose number of turns is known is unrolled; a branch whose condition is
// known is taken, and otherwise both are computed and the results chosen from, since operators have no side effects.
#include <algorithm>

#include "graph/onnx/importer.h"

namespace opwright::graph::onnx {

using math::Sym;

namespace {
constexpr int64_t kMostTurns = 1024;

const pb::GraphProto* body_of(const ResolvedNode& node, const char* name) {
    const auto it = node.attributes.find(name);
    return it != node.attributes.end() && it->second->has_g() ? &it->second->g() : nullptr;
}
std::string label(const ResolvedNode& n) { return "the node '" + n.source.name + "' (" + n.source.type + ")"; }
}  // namespace

bool is_control(const std::string& op_type) { return op_type == "If" || op_type == "Loop" || op_type == "Scan"; }

bool Importer::import_control(const ResolvedNode& node, Scope& scope) {
    if (node.source.type == "If") return import_branch(node, scope);
    return node.source.type == "Loop" ? import_loop(node, scope) : import_scan(node, scope);
}

bool Importer::import_body(const pb::GraphProto& g, const std::string& prefix, const std::vector<ValueId>& inputs,
                           Scope& scope, std::vector<ValueId>& outputs) {
    Scope inner;
    inner.parent = &scope;
    inner.opsets = scope.opsets;
    inner.attributes = scope.attributes;
    inner.prefix = prefix;
    for (size_t i = 0; i < inputs.size(); ++i)
        if (!define(g.input(static_cast<int>(i)).name(), inputs[i], inner)) return false;
    if (!import_graph(g, inner)) return false;
    for (const auto& o : g.output()) {
        const auto v = lookup(o.name(), inner);
        if (malformed_) return false;
        if (!v || *v == kNone) return malformed("the output '" + o.name() + "' of a sub-graph is computed by no node");
        outputs.push_back(*v);
    }
    return true;
}

bool Importer::refuse(const ResolvedNode& node, const Context& c, const Diagnostic& why, Scope& scope) {
    if (c.needed().empty())
        report(node, why);
    else
        needs_value_.insert(c.needed().begin(), c.needed().end());
    return fail_outputs(node, scope);
}

bool Importer::import_branch(const ResolvedNode& node, Scope& scope) {
    const pb::GraphProto* branches[2] = {body_of(node, "else_branch"), body_of(node, "then_branch")};
    const auto outputs = static_cast<size_t>(node.proto->output_size());
    if (!branches[0] || !branches[1] || node.inputs.size() != 1 || node.inputs[0] == kNone)
        return malformed(label(node) + " lacks a branch or its condition");
    for (const auto* b : branches)
        if (static_cast<size_t>(b->output_size()) < outputs)
            return malformed("a branch of " + label(node) + " has too few outputs");
    Context context(*this, node);
    const auto condition = context.content(0);
    if (condition.ok() && condition->size() == 1 && (*condition)[0].is_const()) {
        std::vector<ValueId> taken;
        return import_body(*branches[(*condition)[0].is(0) ? 0 : 1], scope.prefix, {}, scope, taken) &&
               define_outputs(node, taken, scope);
    }
    if (graph_.values[node.inputs[0]].dtype != DType::Bool)
        return malformed("the condition of " + label(node) + " is no bool");
    std::vector<ValueId> no, yes, chosen;
    if (!import_body(*branches[0], scope.prefix, {}, scope, no) ||
        !import_body(*branches[1], scope.prefix, {}, scope, yes))
        return false;
    const ValueId flag = view(node.inputs[0], {}, node.source);
    for (size_t i = 0; i < outputs; ++i) {
        if (failed_[no[i]] || failed_[yes[i]]) return fail_outputs(node, scope);
        const Value &a = graph_.values[yes[i]], &b = graph_.values[no[i]];
        const bool alike = !is_sequence(yes[i]) && !is_sequence(no[i]) && a.dtype == b.dtype &&
                           a.shape.size() == b.shape.size() &&
                           std::equal(a.shape.begin(), a.shape.end(), b.shape.begin());
        if (!alike)
            return refuse(
                node, context,
                context.unsupported(
                    "its condition is not known at import, and its branches differ in the type or shape of output " +
                    std::to_string(i + 1)),
                scope);
        auto r = emit("where_select", {flag, yes[i], no[i]}, {}, node.source);
        if (!r.ok()) return refuse(node, context, r.error(), scope);
        chosen.push_back((*r)[0]);
    }
    return define_outputs(node, chosen, scope);
}

bool Importer::import_loop(const ResolvedNode& node, Scope& scope) {
    const pb::GraphProto* body = body_of(node, "body");
    const size_t states = node.inputs.size() > 2 ? node.inputs.size() - 2 : 0;
    if (!body || static_cast<size_t>(body->input_size()) != states + 2 ||
        static_cast<size_t>(body->output_size()) < states + 1 || node.proto->output_size() > body->output_size() - 1)
        return malformed(label(node) + " and its body do not agree in their inputs and outputs");
    Context context(*this, node);
    const auto given = [&](size_t i) { return i < node.inputs.size() && node.inputs[i] != kNone; };
    int64_t turns = kMostTurns + 1;
    if (given(0)) {
        const auto n = context.constant_ints(0);
        if (!n.ok()) return refuse(node, context, n.error(), scope);
        if (n->size() != 1) return malformed("the number of turns of " + label(node) + " is no scalar");
        turns = (*n)[0];
    }
    ValueId condition = given(1) ? node.inputs[1] : kNone;
    std::vector<ValueId> state(node.inputs.begin() + std::min<long>(2, static_cast<long>(node.inputs.size())),
                               node.inputs.end());
    if (std::count(state.begin(), state.end(), kNone))
        return malformed(label(node) + " leaves out a value that it carries");
    std::vector<std::vector<ValueId>> collected(static_cast<size_t>(body->output_size()) - states - 1);
    for (int64_t turn = 0; turn < turns; ++turn) {
        if (condition != kNone) {
            fold(condition);
            const auto& c = graph_.values[condition].content;
            if (!c || c->size() != 1 || !(*c)[0].is_const()) {
                const auto inputs = deciding_inputs(condition);
                needs_value_.insert(inputs.begin(), inputs.end());
                if (inputs.empty()) report(node, context.unsupported("when it ends is decided by data"));
                return fail_outputs(node, scope);
            }
            if ((*c)[0].is(0)) break;
        }
        if (turn == kMostTurns) {
            report(node, context.unsupported("it makes more than " + std::to_string(kMostTurns) +
                                             " turns, the most that are unrolled"));
            return fail_outputs(node, scope);
        }
        std::vector<ValueId> in = {add_scalar(DType::I64, turn),
                                   condition == kNone ? add_scalar(DType::Bool, 1) : condition},
                             out;
        in.insert(in.end(), state.begin(), state.end());
        if (!import_body(*body, node.source.name + "/" + std::to_string(turn) + "/", in, scope, out)) return false;
        for (ValueId v : out)
            if (failed_[v]) return fail_outputs(node, scope);
        condition = out[0];
        state.assign(out.begin() + 1, out.begin() + 1 + static_cast<long>(states));
        for (size_t k = 0; k < collected.size(); ++k) collected[k].push_back(out[1 + states + k]);
    }
    for (const auto& parts : collected) {
        auto all = concat(parts, 0, true, node.source);
        if (!all.ok()) return refuse(node, context, all.error(), scope);
        state.push_back(*all);
    }
    return define_outputs(node, state, scope);
}

bool Importer::import_scan(const ResolvedNode& node, Scope& scope) {
    Context context(*this, node);
    const pb::GraphProto* body = body_of(node, "body");
    const int64_t scans = context.int_attribute("num_scan_inputs", 0);
    if (node.opset < 9)
        return refuse(node, context, context.unsupported("Scan before opset 9 has a batch; export at 9 or newer"),
                      scope);
    if (!body || scans < 1 || scans > static_cast<int64_t>(node.inputs.size()) ||
        static_cast<size_t>(body->input_size()) != node.inputs.size() ||
        static_cast<size_t>(body->output_size()) + static_cast<size_t>(scans) < node.inputs.size() ||
        node.proto->output_size() > body->output_size() || std::count(node.inputs.begin(), node.inputs.end(), kNone))
        return malformed(label(node) + " and its body do not agree in their inputs and outputs");
    const size_t states = node.inputs.size() - static_cast<size_t>(scans);
    const size_t results = static_cast<size_t>(body->output_size()) - states;
    const auto list = [&](const char* name, size_t n) {
        auto v = context.ints(name).value_or(std::vector<int64_t>(n, 0));
        v.resize(n, 0);
        return v;
    };
    const auto axes = list("scan_input_axes", static_cast<size_t>(scans)),
               backward = list("scan_input_directions", static_cast<size_t>(scans));
    const auto out_axes = list("scan_output_axes", results), out_backward = list("scan_output_directions", results);
    if (context.attribute_error()) return refuse(node, context, *context.attribute_error(), scope);

    std::vector<size_t> axis;
    std::optional<int64_t> turns;
    for (size_t k = 0; k < static_cast<size_t>(scans); ++k) {
        if (is_sequence(node.inputs[states + k]))
            return refuse(node, context, context.unsupported("it scans a sequence"), scope);
        const auto& shape = graph_.values[node.inputs[states + k]].shape;
        const auto rank = static_cast<int64_t>(shape.size());
        if (axes[k] < -rank || axes[k] >= rank) return malformed(label(node) + " scans an axis that its input has not");
        axis.push_back(static_cast<size_t>(axes[k] < 0 ? axes[k] + rank : axes[k]));
        const auto n = shape[axis[k]].constant();
        if (!n)
            return refuse(
                node, context,
                context.unsupported("it scans the open extent " + shape[axis[k]].str() + "; give the input's shape"),
                scope);
        if (turns && *turns != *n) return malformed(label(node) + " scans inputs of different lengths");
        turns = n;
    }
    if (*turns > kMostTurns)
        return refuse(node, context,
                      context.unsupported("it makes " + std::to_string(*turns) + " turns, and at most " +
                                          std::to_string(kMostTurns) + " are unrolled"),
                      scope);

    std::vector<ValueId> state(node.inputs.begin(), node.inputs.begin() + static_cast<long>(states));
    std::vector<std::vector<ValueId>> collected(results);
    for (int64_t turn = 0; turn < *turns; ++turn) {
        std::vector<ValueId> in = state, out;
        for (size_t k = 0; k < static_cast<size_t>(scans); ++k) {
            auto part = slice(node.inputs[states + k], axis[k], backward[k] ? *turns - 1 - turn : turn, 1, node.source);
            if (!part.ok()) return refuse(node, context, part.error(), scope);
            std::vector<Sym> shape = graph_.values[*part].shape;
            shape.erase(shape.begin() + static_cast<long>(axis[k]));
            in.push_back(view(*part, std::move(shape), node.source));
        }
        if (!import_body(*body, node.source.name + "/" + std::to_string(turn) + "/", in, scope, out)) return false;
        for (ValueId v : out)
            if (failed_[v]) return fail_outputs(node, scope);
        state.assign(out.begin(), out.begin() + static_cast<long>(states));
        for (size_t k = 0; k < results; ++k) collected[k].push_back(out[states + k]);
    }
    for (size_t k = 0; k < results; ++k) {
        if (out_backward[k]) std::reverse(collected[k].begin(), collected[k].end());
        auto all = concat(collected[k], out_axes[k], true, node.source);
        if (!all.ok()) return refuse(node, context, all.error(), scope);
        state.push_back(*all);
    }
    return define_outputs(node, state, scope);
}

}  // namespace opwright::graph::onnx
