#include "graph/onnx/import.h"

#include <algorithm>

#include "graph/onnx/importer.h"
#include "graph/onnx/tensor_proto.h"

namespace opwright::graph::onnx {

using math::Sym;

namespace {
constexpr int64_t kNewestOpset = 27;  // of ai.onnx: a newer one may mean other things by the same names
std::string domain_of(const std::string& d) { return d == "ai.onnx" ? "" : d; }

std::string key(const ResolvedNode& n) { return "the node '" + n.source.name + "' (" + n.source.type + ")"; }
}  // namespace

Importer::Importer(const Model& m, const ImportOptions& o)
    : model_(m),
      options_(o),
      owner_(m.shared_from_this()),
      symbols_(m.proto.graph()),
      files_(o.folder.empty() ? m.folder : o.folder),
      nodes_left_(o.max_nodes) {}

bool Importer::malformed(std::string message) {
    if (!malformed_)
        malformed_ = Diagnostic("The model is not well formed: " + std::move(message) + ".", {},
                                "Check the model with the tool that wrote it.");
    return false;
}

std::variant<Graph, ImportFailure> import(const Model& m, const ImportOptions& o) { return Importer(m, o).run(); }

std::variant<Graph, ImportFailure> Importer::run() {
    const pb::ModelProto& m = model_.proto;
    graph_.name = m.graph().name();
    graph_.metadata = model_metadata(model_);
    for (const auto& o : m.opset_import()) opsets_[domain_of(o.domain())] = o.version();
    if (m.ir_version() < 3) opsets_.emplace("", 1);
    for (const auto& f : m.functions()) {
        functions_.emplace(std::tuple(domain_of(f.domain()), f.name(), f.overload()), &f);
        OpsetMap& opsets = function_opsets_[&f];
        for (const auto& o : f.opset_import()) opsets[domain_of(o.domain())] = o.version();
    }
    Scope scope;
    scope.opsets = &opsets_;
    const bool ok = bind_options() && add_inputs(scope) && import_graph(m.graph(), scope);
    if (ok) {
        for (const auto& o : m.graph().output()) {
            const auto v = lookup(o.name(), scope);
            if (malformed_) break;
            if (!v) {
                malformed("its output '" + o.name() + "' is computed by no node");
                break;
            }
            if (failed_[*v]) continue;
            if (is_sequence(*v)) {
                unsupported_.push_back({o.name(), "output", "its type is sequence; tensors are supported"});
                continue;
            }
            const std::string odd = unsupported_type(o.type());
            if (o.type().value_case() == pb::TypeProto::kTensorType && odd.empty() &&
                *dtype_from_onnx(o.type().tensor_type().elem_type()) != graph_.values[*v].dtype) {
                malformed("its output '" + o.name() + "' is declared as " +
                          std::string(name(*dtype_from_onnx(o.type().tensor_type().elem_type()))) +
                          " and computed as " + std::string(name(graph_.values[*v].dtype)));
                break;
            }
            materialise(*v, {o.name(), "Shape"});
            graph_.outputs.push_back(*v);
        }
        if (!malformed_ && m.graph().output().empty()) malformed("it has no outputs");
    }
    if (malformed_ || !unsupported_.empty() || !needs_value_.empty() || !needs_shape_.empty()) return failure();
    drop_dead_nodes();
    return std::move(graph_);
}

// Symbols that the given shapes and values settle, so that every input with the same open extent agrees.
bool Importer::bind_options() {
    for (const auto* v : open_inputs(model_.proto.graph())) {
        const auto value = options_.known_inputs.find(v->name());
        const auto shape = options_.input_shapes.find(v->name());
        const Shape* given = value != options_.known_inputs.end()   ? &value->second.shape()
                             : shape != options_.input_shapes.end() ? &shape->second
                                                                    : nullptr;
        const auto* declared = shape_of(*v);
        if (!given || !declared || declared->dim_size() > kMaxRank) continue;
        const auto refuse = [&](const std::string& why) {
            malformed_ = Diagnostic("The shape " + to_string(*given) + " given for the input '" + v->name() +
                                        "' does not fit: " + why + ".",
                                    {}, "Give extents only where the model leaves them open.");
            return false;
        };
        if (given->size() != static_cast<size_t>(declared->dim_size()))
            return refuse("the model declares " + std::to_string(declared->dim_size()) + " dims");
        for (int d = 0; d < declared->dim_size(); ++d) {
            const int64_t n = (*given)[static_cast<size_t>(d)];
            if (n < 0) continue;
            const Sym s = symbols_.dim(*v, d);
            if (const auto c = s.constant()) {
                if (*c != n) return refuse("the model fixes dim " + std::to_string(d) + " at " + std::to_string(*c));
                continue;
            }
            const auto [it, added] = bound_symbols_.emplace(s.symbol_name(), Sym(n));
            if (!added && !it->second.is(n))
                return refuse("the extent '" + s.symbol_name() + "' is " + it->second.str() + " elsewhere");
        }
    }
    return true;
}

bool Importer::add_inputs(Scope& scope) {
    for (const auto* v : open_inputs(model_.proto.graph())) {
        if (v->name().empty()) return malformed("an input has no name");
        if (const std::string odd = unsupported_type(v->type()); !odd.empty()) {
            unsupported_.push_back(
                {v->name(), "input", "its type is " + odd + "; tensors of bool, integers and floats are supported"});
            if (!define(v->name(), add_failed(), scope)) return false;
            continue;
        }
        Value in{v->name(), *dtype_from_onnx(v->type().tensor_type().elem_type()), {}, {}, {}};
        const auto value = options_.known_inputs.find(v->name());
        const auto shape = options_.input_shapes.find(v->name());
        if (const auto* declared = shape_of(*v)) {
            if (declared->dim_size() > kMaxRank)
                return malformed("its input '" + v->name() + "' has " + std::to_string(declared->dim_size()) + " dims");
            for (int d = 0; d < declared->dim_size(); ++d) {
                const Sym s = symbols_.dim(*v, d);
                if (s.is_const() && *s.constant() < 0)
                    return malformed("dim " + std::to_string(d) + " of its input '" + v->name() + "' is " + s.str());
                in.shape.push_back(math::substitute(s, bound_symbols_));
            }
        } else if (value != options_.known_inputs.end() || shape != options_.input_shapes.end()) {
            const Shape& s = value != options_.known_inputs.end() ? value->second.shape() : shape->second;
            for (size_t d = 0; d < s.size(); ++d)
                in.shape.push_back(s[d] >= 0 ? Sym(s[d]) : Sym::symbol(v->name() + "_" + std::to_string(d)));
        } else {
            needs_shape_.insert(v->name());
            if (!define(v->name(), add_failed(), scope)) return false;
            continue;
        }
        ValueId id;
        if (value != options_.known_inputs.end()) {
            if (value->second.dtype() != in.dtype) {
                malformed_ = Diagnostic("The value given for the input '" + v->name() + "' is " +
                                        std::string(name(value->second.dtype())) + ", and the model declares " +
                                        std::string(name(in.dtype)) + ".");
                return false;
            }
            id = add_constant(value->second, v->name());
            graph_.fixed_inputs.push_back(v->name());
        } else {
            id = graph_.add_value(std::move(in));
        }
        graph_.inputs.push_back(id);
        if (!define(v->name(), id, scope)) return false;
    }
    return true;
}

bool Importer::import_graph(const pb::GraphProto& g, Scope& scope) {
    for (const auto& t : g.initializer()) {
        if (scope.names.count(t.name()) || !scope.initializers.emplace(t.name(), &t).second)
            return malformed("the name '" + t.name() + "' is given to two values");
    }
    for (const auto& t : g.sparse_initializer()) {
        unsupported_.push_back({t.values().name(), "initializer", "it is a sparse tensor"});
        if (!define(t.values().name(), add_failed(), scope)) return false;
    }
    return import_nodes(g.node(), scope);
}

bool Importer::import_nodes(const NodeList& nodes, Scope& scope) {
    std::vector<int> order;
    int bad = 0;
    if (!run_order(nodes, order, bad))
        return malformed("its nodes form a cycle through '" +
                         (nodes[bad].name().empty() ? nodes[bad].op_type() : nodes[bad].name()) + "'");
    for (int i : order)
        if (!import_node(nodes[i], scope)) return false;
    return true;
}

std::optional<ValueId> Importer::lookup(const std::string& name, const Scope& scope) {
    for (const Scope* s = &scope; s; s = s->parent) {
        if (auto it = s->names.find(name); it != s->names.end()) return it->second;
        if (auto it = s->initializers.find(name); it != s->initializers.end()) {
            auto t = decode_tensor(*it->second, owner_, &files_);
            ValueId v;
            if (t.ok()) {
                v = add_constant(std::move(*t), name);
            } else if (!dtype_from_onnx(it->second->data_type())) {
                unsupported_.push_back(
                    {name, "initializer", "its element type is " + onnx_type_name(it->second->data_type())});
                v = add_failed();
            } else {
                malformed_ = t.error();
                return std::nullopt;
            }
            failed_.resize(graph_.values.size(), false);
            const_cast<Scope*>(s)->names[name] = v;
            return v;
        }
    }
    return std::nullopt;
}

bool Importer::define(const std::string& name, ValueId v, Scope& scope) {
    failed_.resize(graph_.values.size(), false);
    if (scope.initializers.count(name) || !scope.names.emplace(name, v).second)
        return malformed("the name '" + name + "' is given to two values");
    return true;
}

bool Importer::define_outputs(const ResolvedNode& node, const std::vector<ValueId>& outputs, Scope& scope) {
    for (int i = 0; i < node.proto->output_size(); ++i) {
        const std::string& name = node.proto->output(i);
        if (name.empty()) continue;
        if (static_cast<size_t>(i) >= outputs.size() || outputs[static_cast<size_t>(i)] == kNone) {
            unsupported_.push_back({node.source.name, node.source.type,
                                    "its output " + std::to_string(i + 1) + " ('" + name + "') is not computed"});
            if (!define(name, add_failed(), scope)) return false;
            continue;
        }
        const ValueId v = outputs[static_cast<size_t>(i)];
        if (graph_.values.at(v).name.empty()) graph_.values[v].name = scope.prefix + name;
        if (!define(name, v, scope)) return false;
    }
    return true;
}

bool Importer::fail_outputs(const ResolvedNode& node, Scope& scope) {
    for (const std::string& name : node.proto->output())
        if (!name.empty() && !define(name, add_failed(), scope)) return false;
    return true;
}

const pb::FunctionProto* Importer::find_function(const pb::NodeProto& n) const {
    const auto it = functions_.find(std::tuple(domain_of(n.domain()), n.op_type(), n.overload()));
    return it == functions_.end() ? nullptr : it->second;
}

bool Importer::resolve(const pb::NodeProto& n, Scope& scope, ResolvedNode& out) {
    out.proto = &n;
    out.source.type = n.op_type();
    out.source.name = n.name();
    for (const std::string& o : n.output())
        if (out.source.name.empty()) out.source.name = o;
    if (out.source.name.empty()) out.source.name = n.op_type();
    out.source.name = scope.prefix + out.source.name;
    const auto opset = scope.opsets->find(domain_of(n.domain()));
    out.opset = opset == scope.opsets->end() ? 0 : opset->second;
    for (const std::string& name : n.input()) {
        if (name.empty()) {
            out.inputs.push_back(kNone);
            continue;
        }
        const auto v = lookup(name, scope);
        if (malformed_) return false;
        if (!v) return malformed(key(out) + " reads '" + name + "', which nothing computes");
        out.inputs.push_back(*v);
    }
    while (!out.inputs.empty() && out.inputs.back() == kNone) out.inputs.pop_back();
    for (const auto& a : n.attribute()) {
        const pb::AttributeProto* value = &a;
        if (!a.ref_attr_name().empty()) {
            if (!scope.attributes) return malformed(key(out) + " refers to an attribute of a function, and is in none");
            const auto it = scope.attributes->find(a.ref_attr_name());
            if (it == scope.attributes->end()) continue;  // the call leaves it out: so does the node
            value = it->second;
        }
        if (!out.attributes.emplace(a.name(), value).second)
            return malformed(key(out) + " has two attributes '" + a.name() + "'");
    }
    return true;
}

bool Importer::import_node(const pb::NodeProto& n, Scope& scope) {
    if (--nodes_left_ < 0) {
        malformed_ = Diagnostic("The model has more than " + std::to_string(options_.max_nodes) +
                                " nodes once its functions are inlined.");
        return false;
    }
    if (n.output().empty()) return malformed("its node '" + n.name() + "' (" + n.op_type() + ") has no outputs");
    ResolvedNode node;
    if (!resolve(n, scope, node)) return false;
    const bool failed_input =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return v != kNone && failed_[v]; });
    const std::string domain = domain_of(n.domain());
    const pb::FunctionProto* function = find_function(n);
    const std::string& op = n.op_type();
    const bool own = domain.empty() && (is_control(op) || sequence_operators().count(op) || own_operators().count(op));
    const Binding binding = function || own ? nullptr : find_binding(domain, n.op_type());
    if (!function && domain.empty() && node.opset > kNewestOpset) {
        unsupported_.push_back({node.source.name, n.op_type(),
                                "its opset is " + std::to_string(node.opset) + ", and the newest one known is " +
                                    std::to_string(kNewestOpset)});
        return fail_outputs(node, scope);
    }
    if (!function && domain.empty() && node.opset < 1) return malformed("it imports no version of the domain ai.onnx");
    if (failed_input) {
        // What its inputs are is not known; that the operator itself is missing is.
        if (!function && !own && !binding) report(node, Diagnostic());
        return fail_outputs(node, scope);
    }
    if (function) return import_function(*function, node, scope);
    if (domain.empty() && is_control(op)) return import_control(node, scope);
    Context context(*this, node);
    std::optional<Result<std::vector<ValueId>>> known;
    if (domain.empty()) known = sequence_node(node, context);
    const bool sequence_input =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return is_sequence(v); });
    if (!known && sequence_input && op != "Identity") {
        report(node, Diagnostic("its input is a sequence of tensors"));
        return fail_outputs(node, scope);
    }
    if (!known) {
        align_old_broadcast(node);
        known = evaluate(node);
    }
    if (known) {
        if (known->ok()) return define_outputs(node, known->value(), scope);
        return refuse(node, context, known->error(), scope);
    }
    const Binding bound = binding ? binding : find_binding(domain, n.op_type());
    if (!bound) {
        report(node, Diagnostic());
        return fail_outputs(node, scope);
    }
    for (size_t i = 0; i < required_inputs(domain, n.op_type()); ++i) {
        if (i < node.inputs.size() && node.inputs[i] != kNone) continue;
        report(node, Diagnostic("its input " + std::to_string(i + 1) + " is missing"));
        return fail_outputs(node, scope);
    }
    auto outputs = bound(context);
    failed_.resize(graph_.values.size(), false);
    if (context.attribute_error()) return refuse(node, context, *context.attribute_error(), scope);
    if (outputs.ok()) return define_outputs(node, *outputs, scope);
    return refuse(node, context, outputs.error(), scope);
}

bool Importer::import_function(const pb::FunctionProto& f, const ResolvedNode& node, Scope& scope) {
    if (std::find(calls_.begin(), calls_.end(), &f) != calls_.end())
        return malformed("its function '" + f.name() + "' calls itself");
    if (calls_.size() >= 64) return malformed("its functions are nested more than 64 deep");
    if (node.inputs.size() > static_cast<size_t>(f.input_size()))
        return malformed(key(node) + " gives " + std::to_string(node.inputs.size()) + " inputs to a function of " +
                         std::to_string(f.input_size()));
    if (node.proto->output_size() > f.output_size())
        return malformed(key(node) + " takes " + std::to_string(node.proto->output_size()) +
                         " outputs from a function of " + std::to_string(f.output_size()));
    AttributeMap attributes = node.attributes;
    for (const auto& a : f.attribute_proto()) attributes.emplace(a.name(), &a);
    Scope body;
    body.opsets = &function_opsets_.at(&f);
    body.attributes = &attributes;
    body.prefix = node.source.name + "/";
    for (int i = 0; i < f.input_size(); ++i) {
        const ValueId v = static_cast<size_t>(i) < node.inputs.size() ? node.inputs[static_cast<size_t>(i)] : kNone;
        if (!body.names.emplace(f.input(i), v).second)
            return malformed("its function '" + f.name() + "' has two inputs '" + f.input(i) + "'");
    }
    calls_.push_back(&f);
    const bool ok = import_nodes(f.node(), body);
    calls_.pop_back();
    if (!ok) return false;
    std::vector<ValueId> outputs;
    for (int i = 0; i < node.proto->output_size(); ++i) {
        const auto v = lookup(f.output(i), body);
        if (malformed_) return false;
        if (!v)
            return malformed("the output '" + f.output(i) + "' of its function '" + f.name() +
                             "' is computed by no node");
        outputs.push_back(*v);
    }
    return define_outputs(node, outputs, scope);
}

}  // namespace opwright::graph::onnx
