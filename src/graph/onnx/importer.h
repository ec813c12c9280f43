// The state of one import, shared by the importer's parts. For src/graph/onnx alone: includes the protobuf messages.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "graph/onnx/binding.h"
#include "graph/onnx/content.h"
#include "graph/onnx/model.h"

namespace opwright::graph::onnx {

using NodeList = google::protobuf::RepeatedPtrField<pb::NodeProto>;
using AttributeMap = std::map<std::string, const pb::AttributeProto*>;
using OpsetMap = std::map<std::string, int64_t>;

// Names visible to the nodes of one graph or function body.
struct Scope {
    const Scope* parent = nullptr;  // the enclosing graph of a branch; none for a function
    std::unordered_map<std::string, ValueId> names;
    std::unordered_map<std::string, const pb::TensorProto*> initializers;  // decoded when first used
    const OpsetMap* opsets = nullptr;
    const AttributeMap* attributes = nullptr;  // of the call, in a function's body
    std::string prefix;                        // of node names, in a function's body
};

// A node of the model with its inputs and attributes resolved.
struct ResolvedNode {
    const pb::NodeProto* proto = nullptr;
    SourceOp source;
    std::vector<ValueId> inputs;  // trailing absent ones cut off
    AttributeMap attributes;
    int64_t opset = 0;
};

class Context;

class Importer {
public:
    Importer(const Model& m, const ImportOptions& o);
    std::variant<Graph, ImportFailure> run();

private:
    friend class Context;

    // ---- the model's structure (import.cpp). These return false once the file is found to be malformed.
    bool bind_options();
    bool add_inputs(Scope& scope);
    bool import_graph(const pb::GraphProto& g, Scope& scope);
    bool import_nodes(const NodeList& nodes, Scope& scope);
    bool import_node(const pb::NodeProto& n, Scope& scope);
    bool import_function(const pb::FunctionProto& f, const ResolvedNode& node, Scope& scope);
    bool resolve(const pb::NodeProto& n, Scope& scope, ResolvedNode& out);
    std::optional<ValueId> lookup(const std::string& name, const Scope& scope);
    bool define(const std::string& name, ValueId v, Scope& scope);
    bool define_outputs(const ResolvedNode& node, const std::vector<ValueId>& outputs, Scope& scope);
    bool fail_outputs(const ResolvedNode& node, Scope& scope);
    bool malformed(std::string message);
    const pb::FunctionProto* find_function(const pb::NodeProto& n) const;

    // ---- control flow that is settled at import: branches chosen or both computed, loops unrolled (control.cpp)
    bool import_control(const ResolvedNode& node, Scope& scope);
    bool import_branch(const ResolvedNode& node, Scope& scope);
    bool import_loop(const ResolvedNode& node, Scope& scope);
    bool import_scan(const ResolvedNode& node, Scope& scope);
    // Imports a branch or body in a scope of its own; its outputs.
    bool import_body(const pb::GraphProto& g, const std::string& prefix, const std::vector<ValueId>& inputs,
                     Scope& scope, std::vector<ValueId>& outputs);
    bool refuse(const ResolvedNode& node, const Context& c, const Diagnostic& why, Scope& scope);

    // ---- sequences of tensors, which exist at import only: lists of values (sequence.cpp)
    bool is_sequence(ValueId v) const { return v != kNone && sequences_.count(v) > 0; }
    // nullopt: no operator on sequences.
    std::optional<Result<std::vector<ValueId>>> sequence_node(const ResolvedNode& node, Context& c);
    ValueId add_sequence(std::vector<ValueId> elements);
    Result<ValueId> concat(const std::vector<ValueId>& parts, int64_t axis, bool new_axis, const SourceOp& source);
    Result<ValueId> slice(ValueId v, size_t axis, int64_t start, int64_t count, const SourceOp& source);

    // ---- what a node becomes (evaluate.cpp)
    // Outputs of operators that the importer answers itself: constants, aliases, known content. nullopt: ask the
    // binding.
    std::optional<Result<std::vector<ValueId>>> evaluate(const ResolvedNode& node);
    std::optional<Result<std::vector<ValueId>>> constant_node(const ResolvedNode& node);
    void align_old_broadcast(ResolvedNode& node);

    // ---- values (values.cpp)
    ValueId add_failed();
    ValueId add_constant(Tensor t, const std::string& name);
    ValueId add_scalar(DType t, int64_t v);
    ValueId add_known(const Known& k, const std::string& name);
    ValueId view(ValueId v, std::vector<math::Sym> shape, const SourceOp& source);
    void require(math::Sym condition, const SourceOp& source, const std::string& what);
    // Makes the value of known content a tensor that a node computes, where no node does yet.
    void materialise(ValueId v, const SourceOp& source);
    Result<std::vector<ValueId>> emit(const std::string& op, const std::vector<ValueId>& inputs,
                                      const lang::Attributes& attributes, const SourceOp& source);
    // Computes a value all of whose sources are constants with the fp64 reference, if that is little work.
    bool fold(ValueId v);
    // Graph inputs whose values decide v, by name.
    std::set<std::string> deciding_inputs(ValueId v) const;
    Result<std::string> declare(const std::string& source);

    // ---- the result (result.cpp)
    void report(const ResolvedNode& node, const Diagnostic& why);
    ImportFailure failure();
    void drop_dead_nodes();

    const Model& model_;
    const ImportOptions& options_;
    std::shared_ptr<const void> owner_;  // keeps the messages alive for tensors that lie in them
    Graph graph_;
    std::vector<bool> failed_;  // by value: comes from a node that could not be imported
    std::map<ValueId, std::vector<ValueId>> sequences_;
    SymbolTable symbols_;
    std::map<std::string, math::Sym> bound_symbols_;  // symbols that the options settle
    ExternalFiles files_;
    SymMeasure measure_;
    std::map<std::tuple<std::string, std::string, std::string>, const pb::FunctionProto*> functions_;
    std::vector<const pb::FunctionProto*> calls_;  // being inlined
    std::map<const pb::FunctionProto*, OpsetMap> function_opsets_;
    OpsetMap opsets_;
    std::map<std::string, std::pair<std::string, std::unique_ptr<lang::Library>>> declared_;  // op -> source, library
    int64_t nodes_left_ = 0;
    int64_t fold_budget_ = int64_t{1} << 28;  // what folding may cost in one import, roughly in operations
    std::optional<Diagnostic> malformed_;
    std::vector<UnsupportedNode> unsupported_;
    std::set<std::string> needs_value_, needs_shape_;
};

// The binding's view of a node; see binding.h.
class Context final : public NodeContext {
public:
    Context(Importer& importer, const ResolvedNode& node) : importer_(importer), node_(node) {}

    const std::string& op_type() const override;
    int opset() const override;
    bool has(const std::string& name) const override;
    int64_t int_attribute(const std::string& name, int64_t otherwise) const override;
    double float_attribute(const std::string& name, double otherwise) const override;
    std::string string_attribute(const std::string& name, const std::string& otherwise) const override;
    std::optional<std::vector<int64_t>> ints(const std::string& name) const override;
    std::optional<std::vector<double>> floats(const std::string& name) const override;
    std::optional<std::vector<std::string>> strings(const std::string& name) const override;
    std::optional<Tensor> tensor(const std::string& name) const override;
    size_t input_count() const override;
    ValueId input(size_t i) const override;
    size_t output_count() const override;
    bool output_wanted(size_t i) const override;
    const Value& value(ValueId v) const override;
    Result<std::vector<math::Sym>> content(size_t i) override;
    Result<std::vector<int64_t>> constant_ints(size_t i) override;
    Result<Tensor> constant(size_t i) override;
    Result<std::vector<ValueId>> emit(const std::string& op, const std::vector<ValueId>& inputs,
                                      const lang::Attributes& attributes) override;
    ValueId view(ValueId v, std::vector<math::Sym> shape) override;
    void require(math::Sym condition, const std::string& what) override;
    ValueId add_constant(Tensor t) override;
    ValueId add_content(std::vector<math::Sym> elements, std::vector<math::Sym> shape, DType t) override;
    Result<std::string> declare(const std::string& source) override;
    Diagnostic unsupported(std::string reason) const override;

    // The first attribute that was read as what it is not.
    const std::optional<Diagnostic>& attribute_error() const { return attribute_error_; }
    // Inputs of the graph whose values were asked for and are not known.
    const std::set<std::string>& needed() const { return needed_; }

private:
    // The attribute if it is there and one of two types (the second for lists); records an error where it is another.
    const pb::AttributeProto* find(const std::string& name, int type) const;
    Diagnostic not_known(size_t i);

    Importer& importer_;
    const ResolvedNode& node_;
    mutable std::optional<Diagnostic> attribute_error_;
    std::set<std::string> needed_;
};

// Operators of ai.onnx that the importer itself knows, without a binding: If, Loop and Scan; those on sequences; the few
// that are constants or aliases.
bool is_control(const std::string& op_type);
const std::set<std::string>& sequence_operators();
const std::set<std::string>& own_operators();

// An order in which the nodes can run, stable; false where they form a cycle: `bad` is then a node of it.
bool run_order(const NodeList& nodes, std::vector<int>& order, int& bad);

}  // namespace opwright::graph::onnx
