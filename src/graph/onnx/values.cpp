#include <algorithm>

#include "derive/reference.h"
#include "graph/onnx/importer.h"

namespace opwright::graph::onnx {
namespace {

// Content of a small integer constant. u64 values past int64 have none.
std::optional<std::vector<math::Sym>> content_of(const Tensor& t) {
    if (is_float(t.dtype()) || t.size() > kContentLimit) return std::nullopt;
    std::vector<math::Sym> r;
    for (int64_t i = 0; i < t.size(); ++i) {
        const int64_t v = t.get_int(i);
        if (t.dtype() == DType::U64 && v < 0) return std::nullopt;
        r.emplace_back(v);
    }
    return r;
}

// An extent computed in many steps would fill pages.
std::string dims_text(const std::vector<math::Sym>& shape) {
    std::string r;
    for (const math::Sym& s : shape) r += (r.empty() ? "" : ", ") + (s.size() < 64 ? s.str() : "...");
    return "[" + r + "]";
}

Tensor rounded(const Tensor& t, DType type) {
    if (t.dtype() == type) return t;
    Tensor r(type, t.shape());
    for (int64_t i = 0; i < t.size(); ++i) r.set(i, t.get(i));
    return r;
}
}  // namespace

ValueId Importer::add_failed() {
    const ValueId v = graph_.add_value({});
    failed_.resize(graph_.values.size(), false);
    failed_[v] = true;
    return v;
}

ValueId Importer::add_constant(Tensor t, const std::string& name) {
    Value v{name, t.dtype(), {}, {}, content_of(t)};
    for (int64_t d : t.shape()) v.shape.emplace_back(d);
    v.constant = std::move(t);
    return graph_.add_value(std::move(v));
}

ValueId Importer::add_scalar(DType type, int64_t v) {
    Tensor t(type, {});
    t.set_int(0, v);
    return add_constant(std::move(t), "");
}

ValueId Importer::add_known(const Known& k, const std::string& name) {
    if (std::all_of(k.elements.begin(), k.elements.end(), [](const math::Sym& s) { return s.is_const(); })) {
        Tensor t(k.dtype, k.shape);
        for (size_t i = 0; i < k.elements.size(); ++i) t.set_int(static_cast<int64_t>(i), *k.elements[i].constant());
        return add_constant(std::move(t), name);
    }
    Value v{name, k.dtype, {}, {}, k.elements};
    for (int64_t d : k.shape) v.shape.emplace_back(d);
    return graph_.add_value(std::move(v));
}

ValueId Importer::view(ValueId v, std::vector<math::Sym> shape, const SourceOp& source) {
    const Value& from = graph_.values.at(v);
    if (from.shape.size() == shape.size() && std::equal(shape.begin(), shape.end(), from.shape.begin())) return v;
    const bool fixed = std::all_of(shape.begin(), shape.end(), [](const math::Sym& s) { return s.is_const(); });
    if (fixed && (from.constant || from.content)) {
        Shape s;
        for (const math::Sym& d : shape) s.push_back(*d.constant());
        const int64_t n = element_count(s);
        if (from.constant && n == from.constant->size()) return add_constant(from.constant->reshaped(s), "");
        if (from.content && from.producer == kNone && n == static_cast<int64_t>(from.content->size()))
            return add_known({from.dtype, s, *from.content}, "");
    }
    require(math::equal(math::product(from.shape), math::product(shape)), source,
            "sees " + dims_text(from.shape) + " as " + dims_text(shape) + ", which must hold as many elements");
    materialise(v, source);
    Value to{"", graph_.values[v].dtype, std::move(shape), {}, {}};
    to.content = graph_.values[v].content;
    Node n;
    n.kind = NodeKind::View;
    n.inputs = {v};
    n.outputs = {graph_.add_value(std::move(to))};
    n.sources = {source};
    const ValueId result = n.outputs[0];
    graph_.add_node(std::move(n));
    return result;
}

void Importer::require(math::Sym condition, const SourceOp& source, const std::string& what) {
    if (condition.is(1)) return;
    graph_.requirements.push_back(
        {std::move(condition), "The node '" + source.name + "' (" + source.type + ") " + what + "."});
}

void Importer::materialise(ValueId v, const SourceOp& source) {
    const Value& value = graph_.values.at(v);
    if (!value.content || value.constant || value.producer != kNone) return;
    if (std::find(graph_.inputs.begin(), graph_.inputs.end(), v) != graph_.inputs.end()) return;
    math::Program p;
    p.name = "shape_value";
    p.doc = "Integers that follow from extents, as a tensor.";
    const math::TensorId y = p.add_tensor("y", value.dtype, value.shape, math::Role::Output);
    const auto known = known_content(value);
    for (size_t i = 0; i < value.content->size(); ++i) {
        std::vector<math::ExprId> at(known->shape.size());
        int64_t rest = static_cast<int64_t>(i);
        for (size_t d = at.size(); d-- > 0;) {
            at[d] = p.integer(rest % known->shape[d]);
            rest /= known->shape[d];
        }
        const math::ExprId e = p.size((*value.content)[i]);
        p.add_equation(y, std::move(at), value.dtype == DType::I64 ? e : p.cast(e, value.dtype),
                       value.content->size() == 1 ? math::Update::Set : math::Update::Overwrite);
    }
    Node n;
    n.outputs = {v};
    n.program = std::move(p);
    n.sources = {source};
    graph_.add_node(std::move(n));
}

Result<std::string> Importer::declare(const std::string& source) {
    // "op NAME(": the name is wanted before the library has parsed it, to find a declaration made before.
    const size_t begin = source.find("op ");
    const size_t end = begin == std::string::npos ? begin : source.find('(', begin);
    if (end == std::string::npos) return Diagnostic("A declaration made while importing has no name: " + source);
    std::string op = source.substr(begin + 3, end - begin - 3);
    while (!op.empty() && op.back() == ' ') op.pop_back();
    if (auto it = declared_.find(op); it != declared_.end() && it->second.first == source) return op;
    auto library = std::make_unique<lang::Library>();
    OPW_CHECK(library->add(std::make_shared<const Source>(Source{"<" + op + ">", source})));
    declared_[op] = {source, std::move(library)};
    return op;
}

Result<std::vector<ValueId>> Importer::emit(const std::string& op, const std::vector<ValueId>& inputs,
                                            const lang::Attributes& attributes, const SourceOp& source) {
    std::vector<lang::Argument> arguments;
    for (ValueId v : inputs) {
        if (v == kNone) {
            arguments.push_back({DType::F32, {}, false});
        } else {
            materialise(v, source);
            arguments.push_back({graph_.values.at(v).dtype, graph_.values[v].shape, true});
        }
    }
    const auto it = declared_.find(op);
    const lang::Library& library = it != declared_.end() ? *it->second.second : lang::Library::standard();
    OPW_TRY(math::Program p, library.elaborate(op, arguments, attributes, lang::Broadcasting::Known));
    Node n;
    // A Program lists the arguments that are there.
    for (ValueId v : inputs)
        if (v != kNone) n.inputs.push_back(v);
    for (math::TensorId t : p.outputs) {
        for (const math::Sym& s : p.tensors[t].shape) {
            if (s.is_const() ? *s.constant() < 0 : !measure_.small(s))
                return Diagnostic("The node '" + source.name + "' (" + source.type +
                                  ") would have an output whose extent is " + s.str() + ".");
        }
        n.outputs.push_back(graph_.add_value({"", p.tensors[t].dtype, p.tensors[t].shape, {}, {}}));
    }
    std::vector<ValueId> outputs = n.outputs;
    n.program = std::move(p);
    n.sources = {source};
    graph_.add_node(std::move(n));
    return outputs;
}

bool Importer::fold(ValueId target) {
    constexpr int64_t kFoldElements = 1 << 20;
    std::vector<Value>& values = graph_.values;
    if (values.at(target).constant) return true;
    // The nodes that the value depends on; all that they read must end in constants.
    std::set<NodeId> nodes;
    std::vector<ValueId> open = {target};
    while (!open.empty()) {
        const ValueId v = open.back();
        open.pop_back();
        if (values[v].constant) continue;
        if (values[v].producer == kNone) return false;
        if (nodes.insert(values[v].producer).second)
            for (ValueId i : graph_.nodes[values[v].producer].inputs) open.push_back(i);
    }
    for (NodeId id : nodes) {  // ascending: in an order in which they can run
        const Node& n = graph_.nodes[id];
        std::vector<Tensor> results;
        if (n.kind == NodeKind::View) {
            Shape s;
            for (const math::Sym& d : values[n.outputs[0]].shape) s.push_back(d.constant().value_or(-1));
            if (element_count(s) != values[n.inputs[0]].constant->size()) return false;
            results.push_back(values[n.inputs[0]].constant->reshaped(s));
        } else {
            if (!n.program.symbols().empty()) return false;
            for (ValueId v : n.outputs) {
                Shape s;
                for (const math::Sym& d : values[v].shape) s.push_back(d.constant().value_or(-1));
                if (element_count(s) < 0 || element_count(s) > kFoldElements) return false;
            }
            std::vector<Tensor> in;
            for (ValueId v : n.inputs) in.push_back(*values[v].constant);
            derive::ReferenceOptions limit;
            limit.max_operations = std::min<int64_t>(fold_budget_, 1 << 24);
            if (limit.max_operations <= 0) return false;
            auto r = derive::reference(n.program, in, {}, limit);
            fold_budget_ -= r.ok() ? 1 << 12 : 1 << 20;  // a refusal may come late
            if (!r.ok()) return false;
            for (size_t i = 0; i < r->size(); ++i)
                results.push_back(rounded((*r)[i].value, values[n.outputs[i]].dtype));
        }
        for (size_t i = 0; i < results.size(); ++i) {
            Value& v = values[n.outputs[i]];
            v.content = content_of(results[i]);
            v.constant = std::move(results[i]);
            v.producer = kNone;
        }
    }
    return true;
}

std::set<std::string> Importer::deciding_inputs(ValueId target) const {
    std::set<std::string> names;
    std::set<ValueId> seen;
    std::vector<ValueId> open = {target};
    while (!open.empty()) {
        const ValueId v = open.back();
        open.pop_back();
        if (!seen.insert(v).second || graph_.values[v].constant) continue;
        if (std::find(graph_.inputs.begin(), graph_.inputs.end(), v) != graph_.inputs.end())
            names.insert(graph_.values[v].name);
        else if (graph_.values[v].producer != kNone)
            for (ValueId i : graph_.nodes[graph_.values[v].producer].inputs) open.push_back(i);
    }
    return names;
}

}  // namespace opwright::graph::onnx
