// The project that goes with an emitted kernel: a launcher with the geometry that Opwright uses, a build file, and a
// test that checks itself against a plain reference.
#pragma once
#include <vector>

#include "target/cuda/program.h"
#include "target/target.h"

namespace opwright::target::cuda {

// `source` is what `lowered` was made of; its name names the files. Without the kernel's own file.
Result<std::vector<SourceFile>> project(const math::Program& source, const CudaProgram& lowered, const EmitOptions& o);

// Expressions that have a variable of their own.
using NamedSyms = std::vector<std::pair<math::Sym, std::string>>;
// C++ text of a symbolic integer, `names` by symbol; floor_div and floor_mod are functions of the surrounding source.
std::string host_text(const math::Sym& s, const std::map<std::string, std::string>& names, const NamedSyms& known = {});
// Its CUDA C++ type for people: "float", "__nv_bfloat16", "int8_t".
std::string host_type(DType t);

// Extents of index variables, and those of the dims that they must stay inside of, where that depends on the sizes.
std::vector<std::pair<math::Sym, math::Sym>> plain_bounds(const math::Program& p);

// What the files of a project have in common.
struct ProjectNames {
    std::string name;                               // of the operator, as an identifier
    std::map<std::string, std::string> sizes;       // by symbol
    std::vector<std::string> symbols;               // in the order of parameters
    std::map<math::TensorId, std::string> tensors;  // inputs and outputs
    bool workspace = false, faults = false;
};
// The test's main file: `reference` is the name of the C function that computes in double, `its_symbols` the sizes it
// takes.
std::string test_file(const math::Program& source, const ProjectNames& n, const std::string& reference,
                      const std::vector<std::string>& its_symbols, const EmitOptions& o);

}  // namespace opwright::target::cuda
