// L4: a grid of tile programs. A buffer is the value of one L1 expression over a box of index variables, held in
// registers or in fast memory; statements load, compute, combine and store buffers. Masks are implied: a For over a
// variable, and a grid axis, never leave the variable's extent, and a load or store knows the extents of its tensor and
// its `outside`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "math/rescale.h"
#include "schedule/kernel.h"
#include "schedule/schedule.h"

namespace opwright::tile {

using BufferId = uint32_t;
inline constexpr BufferId kNoBuffer = 0xffffffffu;

enum class Memory : uint8_t { Register, Scratch };

struct Extent {
    math::VarId var;
    int64_t size;  // elements of the box along var, padding included; 0: the variable's whole extent
};
struct Buffer {
    std::string name;
    math::ExprId value = math::kNone;  // what it holds
    DType dtype = DType::F32;
    Memory memory = Memory::Register;
    std::vector<Extent> box;
    bool packed = false;  // laid out in panels for a contraction
};

enum class StmtKind : uint8_t {
    For,         // var by `tile`, over its extent (within the task's range where var is a grid axis): body
    Load,        // dst = a tensor's elements (affine access)
    Gather,      // dst = a tensor's elements at places that are data
    Map,         // dst = expression of buffers, point by point
    Fill,        // dst = the identity of `op`
    Accumulate,  // dst = dst op a, point by point
    Reduce,      // dst = fold along `var` of a (block targets: a row held whole), where b; without a, of dst's partial
                 // results (kNone: dst already is the result)
    AccumulatePair,  // takes a, the term of pairs[pair], into its folds: b and dst hold those of each lane
    ReducePair,      // dst = the second fold of pairs[pair] along `var`, of the lanes' pairs b and a; its shift is known
    Contract,    // dst += a * b
    Scan,   // the equation's scan, in order along `var`; block targets: of the block a into dst, carrying on from b
    Store,  // the equation's lhs = a
    ScatterReduce,  // the equation's lhs op= a
};
struct Stmt {
    StmtKind kind;
    BufferId dst = kNoBuffer, a = kNoBuffer, b = kNoBuffer;
    math::ReduceOp op = math::ReduceOp::Sum;
    math::VarId var = math::kNone;
    int64_t tile = 1;
    bool lane = false;       // For: this variable runs along the vector lanes (or the block of a block language)
    int lanes = 1;           // For on lanes, Fill of partial results: elements of one vector; tile is a multiple
    uint32_t equation = 0;   // Store, ScatterReduce, Scan, Contract
    uint32_t pair = 0;       // AccumulatePair, ReducePair
    std::vector<Stmt> body;  // For
};

struct GridAxis {
    math::VarId var;
    int64_t tile;  // points of the variable in one task; block targets take fewer of a short variable
};
struct Nest {
    std::vector<GridAxis> grid;
    std::vector<Stmt> body;
    std::optional<schedule::ContractPlan> contract;
};
struct Program {
    schedule::Kernel kernel;
    schedule::Schedule schedule;
    std::vector<Buffer> buffers;
    std::vector<Nest> nests;           // as in the kernel
    std::vector<math::Rescale> pairs;  // of folds that take one walk
};

std::string print(const Program& p);
// Level verifier; one sentence per violation.
std::vector<std::string> verify(const Program& p);

}  // namespace opwright::tile
