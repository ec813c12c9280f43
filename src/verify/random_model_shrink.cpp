// A failing model made smaller.
#include <algorithm>
#include <chrono>
#include <set>

#include "graph/onnx/tensor_proto.h"
#include "onnx_messages.pb.h"  // generated
#include "runtime/thread_pool.h"
#include "verify/random_model_check.h"

namespace opwright::verify {
namespace {
using Proto = opwright::onnx::ModelProto;

template <class List, class Keep>
void keep_if(List& list, Keep&& keep) {
    List r;
    for (auto& x : list)
        if (keep(x)) *r.Add() = std::move(x);
    list.Swap(&r);
}

// Without what no output depends on.
void prune(Proto& m, NamedInputs& in) {
    auto& g = *m.mutable_graph();
    std::set<std::string> wanted;
    for (const auto& o : g.output()) wanted.insert(o.name());
    std::vector<bool> alive(static_cast<size_t>(g.node_size()));
    for (int i = g.node_size() - 1; i >= 0; --i) {
        const auto& n = g.node(i);
        if (std::none_of(n.output().begin(), n.output().end(), [&](const auto& o) { return wanted.count(o); })) continue;
        alive[static_cast<size_t>(i)] = true;
        wanted.insert(n.input().begin(), n.input().end());
    }
    size_t at = 0;
    keep_if(*g.mutable_node(), [&](const auto&) { return alive[at++]; });
    const auto named = [&](const auto& x) { return wanted.count(x.name()) > 0; };
    keep_if(*g.mutable_initializer(), named);
    keep_if(*g.mutable_input(), named);
    std::erase_if(in, [&](const auto& x) { return !wanted.count(x.first); });
}

// What each node delivers on `in`, by the reference engine.
NamedInputs values_of(Proto m, const NamedInputs& in) {
    auto& g = *m.mutable_graph();
    g.clear_output();
    std::vector<std::string> names;
    for (const auto& n : g.node())
        for (const auto& o : n.output()) g.add_output()->set_name(o), names.push_back(o);
    CompileOptions o;
    o.fuse = false;
    o.execution.engine = runtime::Engine::Reference;
    auto model = Model::parse(m.SerializeAsString(), o, std::make_shared<runtime::ThreadPool>(1));
    NamedInputs r;
    if (!model.ok()) return r;
    const auto values = (*model)->run(in);
    for (size_t i = 0; values.ok() && i < names.size(); ++i) r[names[i]] = (*values)[i];
    return r;
}

// The outputs of node `i` become inputs with these values.
bool cut(Proto& m, int i, NamedInputs& in, const NamedInputs& values) {
    auto& g = *m.mutable_graph();
    const auto node = g.node(i);
    for (const auto& o : node.output()) {
        const auto v = values.find(o);
        if (v == values.end()) return false;
        for (const auto& out : g.output())
            if (out.name() == o) return false;
        auto& x = *g.add_input();
        x.set_name(o);
        auto& type = *x.mutable_type()->mutable_tensor_type();
        type.set_elem_type(graph::onnx::dtype_to_onnx(v->second.dtype()));
        type.mutable_shape();
        for (int64_t n : v->second.shape()) type.mutable_shape()->add_dim()->set_dim_value(n);
        in[o] = v->second;
    }
    int at = 0;
    keep_if(*g.mutable_node(), [&](const auto&) { return at++ != i; });
    return true;
}
}  // namespace

RandomModel smaller(const RandomModel& given, const std::function<bool(const RandomModel&)>& fails, double seconds) {
    const auto start = std::chrono::steady_clock::now();
    const auto late = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds;
    };
    RandomModel best = given;
    const auto take = [&](RandomModel m) {
        if (late() || !fails(m)) return false;
        best = std::move(m);
        return true;
    };
    // Sizes: one set of inputs.
    for (size_t i = 0; given.inputs.size() > 1 && i < given.inputs.size(); ++i)
        if (take({given.bytes, {given.inputs[i]}, given.chosen})) break;
    if (best.inputs.size() != 1) return best;
    // One output, the earliest value that will do.
    Proto m;
    m.ParseFromString(best.bytes);
    bool found = false;
    for (int i = 0; !found && !late() && i < m.graph().node_size(); ++i)
        for (const std::string& value : m.graph().node(i).output()) {
            Proto one = m;
            NamedInputs in = best.inputs[0];
            one.mutable_graph()->clear_output();
            one.mutable_graph()->add_output()->set_name(value);
            prune(one, in);
            if ((found = take({one.SerializeAsString(), {in}, best.chosen}))) break;
        }
    // Values become inputs, from the end: most goes at once.
    m.ParseFromString(best.bytes);
    const NamedInputs values = values_of(m, best.inputs[0]);
    for (int i = m.graph().node_size() - 1; i >= 0 && !late(); --i) {
        m.ParseFromString(best.bytes);
        if (i >= m.graph().node_size()) continue;
        NamedInputs in = best.inputs[0];
        if (!cut(m, i, in, values)) continue;
        prune(m, in);
        take({m.SerializeAsString(), {in}, best.chosen});
    }
    return best;
}

}  // namespace opwright::verify
