// An ONNX model that runs: imported and compiled when that becomes possible, and once for all sizes where it can be.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "compile.h"
#include "graph/onnx/import.h"

namespace opwright {

using NamedInputs = std::map<std::string, Tensor>;

class Model {
public:
    // Reads and parses; external data are looked for beside the file. Errors: a file that cannot be read or is malformed.
    static Result<std::shared_ptr<Model>> load(const std::string& path, const CompileOptions& o, std::shared_ptr<runtime::ThreadPool> pool);
    static Result<std::shared_ptr<Model>> parse(std::string_view bytes, const CompileOptions& o, std::shared_ptr<runtime::ThreadPool> pool);

    const std::vector<graph::onnx::ModelValue>& inputs() const { return inputs_; }
    const std::vector<graph::onnx::ModelValue>& outputs() const { return outputs_; }

    // The model compiled for inputs like these. Whether the values of some inputs matter, and not only their shapes,
    // shows at import: then there is one version for each of the values met. Versions are kept, the last few of them.
    // Errors: everything that the import or the compiler refuses.
    Result<std::shared_ptr<const Compiled>> version(const NamedInputs& inputs);
    // Compiles what can be compiled before any input is known. Returns whether that is all there is to compile.
    Result<bool> prepare();

    // Outputs in the model's order. Every input must be given. Errors as for version() and Executable::run.
    Result<std::vector<Tensor>> run(const NamedInputs& inputs);
    // The inputs in the order of a version's graph.
    Result<std::vector<Tensor>> arguments(const Compiled& c, const NamedInputs& inputs) const;

    runtime::ThreadPool& pool() { return *pool_; }
    const graph::onnx::ModelRef& source() const { return source_; }
    const std::string& folder() const { return folder_; }
    // Of the last version() that failed: whether the model is at fault, and every node that cannot be imported. None:
    // it did not fail, or for another reason (inputs that do not fit).
    enum class Refusal : uint8_t { None, Malformed, Unsupported };
    Refusal refusal() const { return refusal_; }
    const std::vector<graph::onnx::UnsupportedNode>& unsupported() const { return unsupported_; }

private:
    Model(graph::onnx::ModelRef source, std::string folder, const CompileOptions& o, std::shared_ptr<runtime::ThreadPool> pool);
    struct Version;
    Result<std::shared_ptr<const Compiled>> make_version(const NamedInputs& inputs, bool complete);

    graph::onnx::ModelRef source_;
    std::string folder_;
    CompileOptions options_;
    std::shared_ptr<runtime::ThreadPool> pool_;
    std::vector<graph::onnx::ModelValue> inputs_, outputs_;
    std::vector<graph::onnx::UnsupportedNode> unsupported_;
    Refusal refusal_ = Refusal::None;
    std::mutex mutex_;                                // of versions_, held while one is made
    std::vector<std::shared_ptr<Version>> versions_;  // latest first
};

}  // namespace opwright
