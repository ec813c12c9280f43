// What the commands share: flags, output, tensors in and out.
#pragma once
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "compile.h"
#include "io/npz.h"

namespace opwright::runtime {
class ThreadPool;
}

namespace opwright::cli {

// ---- flags

struct ExecutionFlags {
    int threads = 0;
    std::string engine = "cpu", vector = "auto";
    bool no_cache = false, no_fuse = false, no_layouts = false, winograd = false, untuned = false;
    double measure_fusion = 0;  // seconds
    void add(CLI::App& command);
    CompileOptions options() const;
    std::shared_ptr<runtime::ThreadPool> pool() const;
};

// What runs the kernels: the cpu, or a target that emits source.
struct TargetFlags {
    std::string target = "cpu";
    bool fallback = false;
    void add(CLI::App& command);
    // Puts the choice into the options. Errors: no such target; "not run: ..." for one that can't run here.
    Status apply(CompileOptions& o) const;
    // One line on where `c` runs and one for each kernel that fell back to the cpu; nothing for target cpu.
    std::vector<std::string> placement(const Compiled& c) const;
};

// Which kernels run a schedule that tuning found, and from where it is: a line, or none. A line too where the tuning database
// could not be read.
std::vector<std::string> tuning_notes(const Compiled& c, const std::vector<Tensor>& inputs);

// ---- output

void print(const std::string& text);               // to standard output
bool colour();                                     // standard error is a terminal that shows colours, and nobody forbids it
void print_json(const nlohmann::json& j);          // two spaces of indentation, and a newline
// Prints the error, as {"error": ...} on standard output when `json`, and sets the exit code.
void fail(Context& c, const Diagnostic& d, bool json, int exit = kFinding);

// ---- tensors

// "n=3,w=224" or a list of such.
Result<std::map<std::string, int64_t>> parse_sizes(const std::vector<std::string>& items);

// Items are NAME=PATH, PATH of an .npz (its members by name), or, for the only name in `names`, PATH alone.
Result<std::map<std::string, Tensor>> read_inputs(const std::vector<std::string>& items, const std::vector<std::string>& names);
// PATH.npz takes all tensors; other formats one tensor: NAME=PATH, or PATH where there is only one.
Status write_outputs(const std::vector<std::string>& items, const std::vector<io::NamedTensor>& tensors);

// Floats in [-1, 1), integers in 0..7 (0..1 for bool), the same on every machine.
Tensor random_tensor(DType t, Shape s, uint64_t seed);

// "y: f32[2, 3]  min -1.2  max 3.4  mean 0.1".
std::string describe(const std::string& name, const Tensor& t);
nlohmann::json describe_json(const std::string& name, const Tensor& t);

}  // namespace opwright::cli
