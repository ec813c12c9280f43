#include "model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "runtime/thread_pool.h"

namespace opwright {
namespace {
constexpr size_t kVersions = 16;

bool equal(const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape() && (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}
}  // namespace

// What a version was made from; it serves inputs that agree with this.
struct Model::Version {
    std::map<std::string, Tensor> values;       // of inputs whose values matter
    std::map<std::string, Shape> shapes;        // of inputs whose extents were fixed
    std::map<std::string, size_t> ranks;        // of inputs whose rank the model leaves open
    std::shared_ptr<const Compiled> compiled;

    bool serves(const NamedInputs& inputs) const {
        const auto all = [&](const auto& wanted, auto&& agrees) {
            return std::all_of(wanted.begin(), wanted.end(), [&](auto& w) {
                const auto it = inputs.find(w.first);
                return it != inputs.end() && agrees(it->second, w.second);
            });
        };
        return all(values, equal) && all(shapes, [](auto& t, auto& s) { return t.shape() == s; }) &&
               all(ranks, [](auto& t, size_t r) { return t.shape().size() == r; });
    }
};

Model::Model(graph::onnx::ModelRef source, std::string folder, const CompileOptions& o, std::shared_ptr<runtime::ThreadPool> pool)
    : source_(std::move(source)), folder_(std::move(folder)), options_(o), pool_(std::move(pool)),
      inputs_(model_inputs(*source_)), outputs_(model_outputs(*source_)) {}

Result<std::shared_ptr<Model>> Model::load(const std::string& path, const CompileOptions& o, std::shared_ptr<runtime::ThreadPool> pool) {
    Stage stage("parse model");
    auto source = graph::onnx::parse_file(path);
    if (!source.ok()) return source.error();
    std::string folder = std::filesystem::path(path).parent_path().string();
    return std::shared_ptr<Model>(new Model(*source, folder.empty() ? "." : folder, o, std::move(pool)));
}

Result<std::shared_ptr<Model>> Model::parse(std::string_view bytes, const CompileOptions& o, std::shared_ptr<runtime::ThreadPool> pool) {
    auto source = graph::onnx::parse_bytes(bytes);
    if (!source.ok()) return source.error();
    return std::shared_ptr<Model>(new Model(*source, "", o, std::move(pool)));
}

Result<std::shared_ptr<const Compiled>> Model::version(const NamedInputs& inputs) {
    const std::lock_guard lock(mutex_);
    refusal_ = Refusal::None;
    for (auto it = versions_.begin(); it != versions_.end(); ++it)
        if ((*it)->serves(inputs)) {
            std::rotate(versions_.begin(), it, it + 1);
            return versions_.front()->compiled;
        }
    return make_version(inputs, true);
}

Result<bool> Model::prepare() {
    const std::lock_guard lock(mutex_);
    if (!versions_.empty()) return true;
    const bool ranks = std::all_of(inputs_.begin(), inputs_.end(), [](auto& v) { return v.has_rank; });
    if (!ranks) return false;
    auto v = make_version({}, false);
    if (!v.ok()) return v.error();
    return *v != nullptr;
}

// With `complete`, `inputs` holds every input. Otherwise returns null where inputs are needed to go on.
Result<std::shared_ptr<const Compiled>> Model::make_version(const NamedInputs& inputs, bool complete) {
    unsupported_.clear();
    graph::onnx::ImportOptions o;
    o.folder = folder_;
    auto version = std::make_shared<Version>();
    for (const auto& v : inputs_)
        if (!v.has_rank && complete) {
            o.input_shapes[v.name] = inputs.at(v.name).shape();
            version->ranks[v.name] = inputs.at(v.name).shape().size();
            version->shapes[v.name] = inputs.at(v.name).shape();
        }

    // Symbolic first; then with the values that the structure depends on; then for these very sizes.
    enum { Symbolic, Sizes } attempt = Symbolic;
    for (;;) {
        Stage stage("import");
        auto imported = graph::onnx::import(*source_, o);
        if (auto* g = std::get_if<graph::Graph>(&imported)) {
            stage.detail(fmt::format("{} nodes{}", g->nodes.size(), attempt == Sizes ? ", for these sizes only" : ""));
            for (const std::string& name : g->fixed_inputs)
                if (auto it = o.known_inputs.find(name); it != o.known_inputs.end()) version->values[name] = it->second.clone();
            auto compiled = compile(std::move(*g), options_, *pool_);
            if (!compiled.ok()) {
                refusal_ = Refusal::Unsupported;
                return compiled.error();
            }
            version->compiled = std::make_shared<const Compiled>(std::move(compiled).value());
            versions_.insert(versions_.begin(), version);
            if (versions_.size() > kVersions) versions_.pop_back();
            return version->compiled;
        }
        auto& failure = std::get<graph::onnx::ImportFailure>(imported);
        bool again = false;
        if (!complete && !failure.needs_shape.empty()) return std::shared_ptr<const Compiled>();
        for (const std::string& name : failure.needs_value) {
            if (!complete) return std::shared_ptr<const Compiled>();
            const auto it = inputs.find(name);
            if (it != inputs.end() && o.known_inputs.emplace(name, it->second).second) again = true;
        }
        if (!again && attempt == Symbolic && complete && !failure.malformed) {
            attempt = Sizes;
            for (const auto& v : inputs_) version->shapes[v.name] = o.input_shapes[v.name] = inputs.at(v.name).shape();
            again = true;
        }
        if (!again) {
            // What only a symbolic size forbids may still work once the sizes are known.
            const auto open = [](const math::Sym& s) { return !s.is_const(); };
            const bool sizes_missing = std::any_of(inputs_.begin(), inputs_.end(), [&](auto& v) {
                return !v.has_rank || std::any_of(v.shape.begin(), v.shape.end(), open);
            });
            if (!complete && !failure.malformed && sizes_missing) return std::shared_ptr<const Compiled>();
            unsupported_ = std::move(failure.unsupported);
            refusal_ = failure.malformed ? Refusal::Malformed : Refusal::Unsupported;
            return std::move(failure.diagnostic);
        }
    }
}

Result<std::vector<Tensor>> Model::arguments(const Compiled& c, const NamedInputs& inputs) const {
    std::vector<Tensor> r;
    const graph::Graph& g = c.executable->graph();
    for (graph::ValueId v : g.inputs) {
        const auto it = inputs.find(g.values[v].name);
        if (it == inputs.end()) return Diagnostic(fmt::format("Input '{}' was not given.", g.values[v].name));
        r.push_back(it->second);
    }
    return r;
}

Result<std::vector<Tensor>> Model::run(const NamedInputs& inputs) {
    std::vector<std::string> names;
    for (const auto& v : inputs_) {
        names.push_back(v.name);
        const auto it = inputs.find(v.name);
        if (it == inputs.end())
            return Diagnostic(fmt::format("Input '{}' ({}) was not given.", v.name, name(v.dtype))).with_next("Give every input of the model.");
        if (it->second.dtype() != v.dtype)
            return Diagnostic(fmt::format("Input '{}' takes {}, and the tensor given is {}.", v.name, name(v.dtype), name(it->second.dtype())))
                .with_next("Convert the tensor first.");
    }
    for (const auto& [n, t] : inputs)
        if (std::find(names.begin(), names.end(), n) == names.end()) {
            Diagnostic d(fmt::format("The model has no input named '{}'.", n));
            if (const std::string near = did_you_mean(n, names); !near.empty()) d.with_next(fmt::format("Did you mean '{}'?", near));
            else d.with_next(fmt::format("Its inputs are: {}.", fmt::join(names, ", ")));
            return d;
        }
    OPW_TRY(const auto v, version(inputs));
    OPW_TRY(const auto args, arguments(*v, inputs));
    return v->executable->run(args, *pool_);
}

}  // namespace opwright
