// What a command is about: a model, the operators of a file, or an operator of the library.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/common.h"
#include "lang/library.h"
#include "model.h"
#include "operator.h"

namespace opwright::cli {

bool is_model(const std::string& target);         // ends in .onnx
bool is_file(const std::string& target);          // a file of declarations, and not the name of an operator

// Operators: `operators` of `library`.
struct Operators {
    std::shared_ptr<const lang::Library> library;
    std::vector<std::string> names;
};
// TARGET is a file of declarations or the name of a library operator; `only`, where not empty, picks one of the file.
Result<Operators> load_operators(const std::string& target, const std::string& only);
// As above, for a command that takes exactly one.
Result<std::pair<std::shared_ptr<const lang::Library>, std::string>> load_operator(const std::string& target, const std::string& only);

// Where tensors come from: files, or seeded random values at sizes.
struct DataFlags {
    std::vector<std::string> input, size;
    std::string attributes, type;
    uint64_t seed = 1;
    std::optional<DType> floats() const { return type.empty() ? std::nullopt : dtype_from_name(type); }
    void add(CLI::App& command, bool with_attributes = true);
};

// Inputs for a model: those given, and random ones for the rest. `notes` tells how the latter were made.
Result<NamedInputs> model_inputs(const Model& m, const DataFlags& d, std::vector<std::string>& notes);

// One operator with tensors to run on.
struct Call {
    std::shared_ptr<Operator> op;
    std::vector<Tensor> inputs;            // in the order of its parameters
    std::vector<std::string> names;        // of the parameters
};
// From files; else from --size, for the sizes that its declaration names; else as in its first example.
Result<Call> operator_call(std::shared_ptr<const lang::Library> l, const std::string& name, const DataFlags& d, const CompileOptions& o,
                           std::shared_ptr<runtime::ThreadPool> pool);

// The operator as a Program for targets: for the types and ranks of its first example or of the tensors given, extents
// open; without temporaries that need not exist and variables that have one value.
Result<math::Program> operator_program(std::shared_ptr<const lang::Library> l, const std::string& name, const DataFlags& d);

}  // namespace opwright::cli
