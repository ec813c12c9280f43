// A Program as CUDA C++: the text of its kernels, and how each is launched. The launches are data, so that the run time
// and the launcher of a stand-alone project follow one description.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "math/program.h"
#include "schedule/schedule.h"

namespace opwright::target::cuda {

// A parameter of a kernel, in the order of its signature.
struct Parameter {
    enum class Kind : uint8_t { Tensor, Size, Fault } kind = Kind::Tensor;
    math::TensorId tensor = math::kNone;
    math::Sym size;    // Size: of type Index
    std::string name;  // in the source
    bool written = false;
};

// What must hold for a variant.
struct Condition {
    enum class Kind : uint8_t { Multiple, AtMost, AtLeast, Aligned, Clusters } kind = Kind::AtMost;
    math::Sym value;                      // Multiple, AtMost, AtLeast: of `number`
    int64_t number = 0;                   // Aligned: bytes; Clusters: the device has them (compute capability 9.0)
    math::TensorId tensor = math::kNone;  // Aligned
};

// One way to run a stage: a kernel, compiled with these macros.
struct Variant {
    std::vector<Condition> when;  // all of them
    std::string kernel;
    std::vector<Parameter> parameters;
    std::vector<std::pair<std::string, int64_t>> macros;
    int threads = 256;
    math::Sym blocks;            // as many as there is work for
    int64_t dynamic_shared = 0;  // bytes
    int cluster = 1;             // blocks of a cluster; the number of blocks is a multiple of it
    bool awaits = false;         // waits itself for the kernel ahead of it, which then need not have ended at its launch
    bool cooperates = false;     // its threads meet in barriers or shuffles
};

struct Stage {
    std::vector<Condition> when;    // all of them, else the stage is left out: others do its work
    std::vector<Variant> variants;  // the first whose conditions hold; the last has none
    math::Sym points;               // 0: there is nothing to do
    std::string about;              // for people: "one warp or block a row, ..."
    math::VarId lane = math::kNone,
                read = math::kNone;  // along which neighbouring threads write, and read where it differs
    int64_t pack = 1;                // elements that a thread moves at once
    bool tensor_cores = false;
    std::vector<std::string> accesses;  // for people: how memory is met
};

struct CudaProgram {
    math::Program program;                  // in kernel form; inputs and outputs are those of the source program
    std::string comment, helpers, kernels;  // parts of the source
    std::string emulated_helpers;           // for tests without a GPU
    std::vector<Stage> stages;              // in order
    schedule::Kernel kernel;                // what the schedule is about
    schedule::Schedule schedule;            // a person's, or the one that the source's macros have by default
    std::vector<math::TensorId> workspace;  // temporaries in device memory, of their compute type
    std::vector<math::TensorId> tables;     // constants that are passed as pointers
    std::vector<std::string> faults;        // message of fault code i + 1
    std::map<std::string, int64_t> macros;  // that the kernels use, with their defaults
    std::vector<math::Sym> spans;           // what Index counts: with all of them below kNarrow, it is an int
    std::vector<std::pair<math::Sym, math::Sym>> folded;  // elements of a tensor read with folded indices; points
    std::string source() const { return comment + helpers + kernels; }
};
inline constexpr int64_t kNarrow = (int64_t{1} << 31) - (int64_t{1} << 26);  // room for the stride of the grid

struct TileShape;
// What is chosen where there is a choice; unset: by the sizes at launch.
struct LowerOptions {
    const TileShape* tiles = nullptr;  // of contractions on tensor cores
    std::string schedule;              // of a person, as JSON; sizes that it does not serve get what they get without
    bool portable = false;             // it is one that tuning kept (schedule/portable.h)
    int64_t split_from = 16384;        // terms from which on blocks share a result; a multiple of 256
};
// Errors: a program that this target has no form for; a schedule that does not fit, with equation, index and limit.
Result<CudaProgram> lower(const math::Program& p, const LowerOptions& options = {});

}  // namespace opwright::target::cuda
