// One declared operator that runs. Dtypes, ranks and extents of 0 and 1 come from the tensors that it meets; other extents
// stay symbolic, so that one compiled version serves every size.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "compile.h"
#include "lang/library.h"

namespace opwright {

class Operator {
public:
    // `library` must outlive the operator. Error: an unknown operator, with "did you mean".
    static Result<std::shared_ptr<Operator>> make(const lang::Library& library, const std::string& name, lang::Attributes attributes,
                                                  const CompileOptions& o, std::shared_ptr<runtime::ThreadPool> pool);

    const std::string& name() const { return name_; }
    const std::vector<lang::Parameter>& parameters() const { return parameters_; }

    // Tensors in the order of the parameters; an undefined Tensor leaves an optional one out, and so do missing last ones.
    Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs);
    // As run(), with the outputs' names.
    struct Named {
        std::vector<std::string> names;
        std::vector<Tensor> tensors;
    };
    Result<Named> run_named(const std::vector<Tensor>& inputs);

    struct Version {
        std::shared_ptr<const Compiled> compiled;
        std::vector<Tensor> arguments;  // in the order of its graph
        math::Program program;          // as elaborated
    };
    Result<Version> version(const std::vector<Tensor>& inputs);
    runtime::ThreadPool& pool() { return *pool_; }

private:
    Operator(const lang::Library& l, std::string n, lang::Attributes a, const CompileOptions& o, std::shared_ptr<runtime::ThreadPool> pool);
    // One compiled version, and what inputs it serves: those of the same dtypes and ranks whose extents of 0 and 1 are at
    // the same places, or, where `sized`, of the same shapes.
    struct Entry {
        bool sized = false;
        std::vector<std::optional<DType>> dtypes;  // none: left out
        std::vector<Shape> shapes;
        math::Program program;
        std::shared_ptr<const Compiled> compiled;
        std::vector<std::string> outputs;
        bool serves(const std::vector<Tensor>& inputs) const;
    };
    Result<std::shared_ptr<const Entry>> entry_for(const std::vector<Tensor>& inputs);
    Result<std::vector<Tensor>> run(const Entry& e, const std::vector<Tensor>& inputs);

    const lang::Library& library_;
    std::string name_;
    lang::Attributes attributes_;
    CompileOptions options_;
    std::shared_ptr<runtime::ThreadPool> pool_;
    std::vector<lang::Parameter> parameters_;
    std::mutex mutex_;
    std::vector<std::shared_ptr<const Entry>> entries_;  // latest first
};

// Arguments for elaboration from tensors: extents of 0 and 1 are numbers, all others symbols "x_0", "x_1", ... of the
// parameter x, which are at least 2; with `sizes` all are numbers.
std::vector<lang::Argument> arguments_like(const std::vector<lang::Parameter>& parameters, const std::vector<Tensor>& inputs, bool sizes);

}  // namespace opwright
