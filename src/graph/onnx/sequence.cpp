// Sequences of tensors and optional values. They exist at import only, as lists of values: what an operator takes out of
// them is one of these values. A sequence that is an input or output of the model is not supported.
#include <algorithm>
#include <set>

#include "graph/onnx/importer.h"

namespace opwright::graph::onnx {

using math::Sym;
using Outputs = std::vector<ValueId>;

const std::set<std::string>& sequence_operators() {
    static const std::set<std::string> kOperators = {"SequenceEmpty",      "SequenceConstruct",  "SequenceInsert",
                                                     "SequenceErase",      "SequenceAt",         "SequenceLength",
                                                     "SplitToSequence",    "ConcatFromSequence", "Optional",
                                                     "OptionalGetElement", "OptionalHasElement"};
    return kOperators;
}

ValueId Importer::add_sequence(std::vector<ValueId> elements) {
    const ValueId v = graph_.add_value({});
    failed_.resize(graph_.values.size(), false);
    sequences_[v] = std::move(elements);
    return v;
}

Result<ValueId> Importer::slice(ValueId v, size_t axis, int64_t start, int64_t count, const SourceOp& source) {
    const std::vector<Sym> shape = graph_.values[v].shape;
    std::vector<Sym> begin(shape.size(), Sym(0)), counts = shape, step(shape.size(), Sym(1));
    begin[axis] = start;
    counts[axis] = count;
    if (const auto known = known_content(graph_.values[v]); known && graph_.values[v].producer == kNone) {
        Known k{known->dtype, known->shape, {}};
        k.shape[axis] = count;
        const int64_t inner =
            element_count(Shape(known->shape.begin() + static_cast<long>(axis) + 1, known->shape.end()));
        for (size_t i = 0; i < known->elements.size(); ++i) {
            const int64_t at = static_cast<int64_t>(i) / inner % known->shape[axis];
            if (at >= start && at < start + count) k.elements.push_back(known->elements[i]);
        }
        return add_known(k, "");
    }
    OPW_TRY(const Outputs r, emit("slice", {v}, {{"start", begin}, {"count", counts}, {"step", step}}, source));
    return r[0];
}

Result<ValueId> Importer::concat(const std::vector<ValueId>& parts, int64_t axis, bool new_axis,
                                 const SourceOp& source) {
    const auto error = [&](const std::string& why) {
        return Diagnostic("The node '" + source.name + "' (" + source.type + ") is not supported: " + why + ".");
    };
    if (parts.empty()) return error("it joins no tensors, and what the result would be is not known");
    std::vector<ValueId> in;
    for (ValueId v : parts) {
        if (is_sequence(v)) return error("it joins sequences");
        std::vector<Sym> shape = graph_.values[v].shape;
        const auto rank = static_cast<int64_t>(shape.size()) + (new_axis ? 1 : 0);
        if (axis < -rank || axis >= rank)
            return error("its axis " + std::to_string(axis) + " is none of its " + std::to_string(rank));
        const int64_t at = axis < 0 ? axis + rank : axis;
        if (new_axis) shape.insert(shape.begin() + at, Sym(1));
        in.push_back(view(v, std::move(shape), source));
    }
    if (in.size() == 1) return in[0];
    const auto rank = static_cast<int64_t>(graph_.values[in[0]].shape.size());
    OPW_TRY(const Outputs r, emit("concat", in, {{"axis", Sym(axis < 0 ? axis + rank : axis)}}, source));
    return r[0];
}

std::optional<Result<Outputs>> Importer::sequence_node(const ResolvedNode& node, Context& c) {
    using Answer = Result<Outputs>;
    const std::string& op = node.source.type;
    if (!sequence_operators().count(op)) return std::nullopt;
    const auto given = [&](size_t i) { return i < node.inputs.size() && node.inputs[i] != kNone; };
    if (op == "OptionalHasElement") return Answer(Outputs{add_scalar(DType::Bool, given(0))});
    if (op == "Optional" || op == "OptionalGetElement") {
        if (given(0)) return Answer(Outputs{node.inputs[0]});
        return Answer(c.unsupported("an optional value that is empty is no tensor"));
    }
    if (op == "SequenceEmpty") return Answer(Outputs{add_sequence({})});
    if (op == "SequenceConstruct") {
        if (std::any_of(node.inputs.begin(), node.inputs.end(),
                        [&](ValueId v) { return v == kNone || is_sequence(v); }))
            return Answer(c.unsupported("its inputs must be tensors"));
        return Answer(Outputs{add_sequence(node.inputs)});
    }
    if (op == "SplitToSequence") {
        if (!given(0) || is_sequence(node.inputs[0])) return Answer(c.unsupported("its input must be a tensor"));
        const std::vector<Sym> shape = graph_.values[node.inputs[0]].shape;
        const auto rank = static_cast<int64_t>(shape.size());
        const int64_t a = c.int_attribute("axis", 0);
        if (a < -rank || a >= rank) return Answer(c.unsupported("its axis is none of its input's"));
        const auto axis = static_cast<size_t>(a < 0 ? a + rank : a);
        const auto extent = shape[axis].constant();
        if (!extent)
            return Answer(c.unsupported("it splits the open extent " + shape[axis].str() + "; give the input's shape"));
        std::vector<int64_t> sizes;
        if (given(1)) {
            auto split = c.constant_ints(1);
            if (!split.ok()) return Answer(split.error());
            sizes = *split;
            if (graph_.values[node.inputs[1]].shape.empty()) {
                const int64_t each = sizes[0];
                if (each < 1) return Answer(c.unsupported("its parts would have no elements"));
                sizes.clear();
                for (int64_t at = 0; at < *extent && sizes.size() <= 1024; at += each)
                    sizes.push_back(std::min(each, *extent - at));
            }
        } else {
            sizes.assign(static_cast<size_t>(std::min<int64_t>(*extent, 1025)), 1);
        }
        if (sizes.size() > 1024) return Answer(c.unsupported("it splits into more than 1024 parts"));
        std::vector<ValueId> parts;
        int64_t at = 0;
        for (int64_t n : sizes) {
            if (n < 0 || n > *extent - at) return Answer(c.unsupported("its parts are not those of its input"));
            auto part = slice(node.inputs[0], axis, at, n, node.source);
            if (!part.ok()) return Answer(part.error());
            if (!given(1) && c.int_attribute("keepdims", 1) == 0) {
                std::vector<Sym> s = graph_.values[*part].shape;
                s.erase(s.begin() + static_cast<long>(axis));
                *part = view(*part, std::move(s), node.source);
            }
            parts.push_back(*part);
            at += n;
        }
        if (at != *extent) return Answer(c.unsupported("its parts are not those of its input"));
        return Answer(Outputs{add_sequence(std::move(parts))});
    }
    if (!given(0) || !is_sequence(node.inputs[0])) return Answer(c.unsupported("its first input must be a sequence"));
    std::vector<ValueId> s = sequences_.at(node.inputs[0]);
    if (op == "SequenceLength") return Answer(Outputs{add_scalar(DType::I64, static_cast<int64_t>(s.size()))});
    if (op == "ConcatFromSequence") {
        if (!c.has("axis")) return Answer(c.unsupported("it needs the attribute axis"));
        auto r = concat(s, c.int_attribute("axis", 0), c.int_attribute("new_axis", 0) != 0, node.source);
        if (!r.ok()) return Answer(r.error());
        return Answer(Outputs{*r});
    }
    // SequenceAt, SequenceInsert, SequenceErase: at a position, by default the end.
    const bool insert = op == "SequenceInsert";
    const size_t where = insert ? 2 : 1;
    const auto n = static_cast<int64_t>(s.size());
    if (insert && (!given(1) || is_sequence(node.inputs[1])))
        return Answer(c.unsupported("its second input must be a tensor"));
    int64_t at = insert ? n : n - 1;
    if (given(where)) {
        auto position = c.constant_ints(where);
        if (!position.ok()) return Answer(position.error());
        if (position->size() != 1) return Answer(c.unsupported("its position must be a scalar"));
        at = (*position)[0] < 0 ? (*position)[0] + n : (*position)[0];
    }
    if (at < 0 || at > (insert ? n : n - 1))
        return Answer(c.unsupported("its position lies outside the sequence of " + std::to_string(n)));
    if (op == "SequenceAt") return Answer(Outputs{s[static_cast<size_t>(at)]});
    if (s.size() >= 4096) return Answer(c.unsupported("the sequence has 4096 tensors, the most that are kept"));
    if (insert)
        s.insert(s.begin() + at, node.inputs[1]);
    else
        s.erase(s.begin() + at);
    return Answer(Outputs{add_sequence(std::move(s))});
}

}  // namespace opwright::graph::onnx
