// L5, the loop level: loops over scalars and explicit vectors of lanes, read by the LLVM emitter and printed for people.
//
// Expressions are an interned, immutable DAG in the Program's arena. An expression means its value *at the statement
// that uses it*: loads and reads of locals see memory as it is when that statement starts. `Let` fixes a value at its
// point, which is how one load serves several statements. Everything but loads and locals is pure, and an emitter may
// compute it once, as far out as its operands allow.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "loop/functions.h"

namespace opwright::loop {

// Element type and number of lanes (1 is a scalar, otherwise a power of two up to 256). Bool vectors are masks. f16 and
// bf16 values can be loaded, stored, converted, selected and moved between lanes; arithmetic is on f32 and f64.
struct Type {
    DType dtype = DType::I64;
    uint16_t lanes = 1;
    bool operator==(const Type&) const = default;
    Type with_lanes(int n) const { return {dtype, static_cast<uint16_t>(n)}; }
    Type with(DType t) const { return {t, lanes}; }
    bool is_vector() const { return lanes > 1; }
};
std::string to_string(Type t);  // "f32", "f32x16"

enum class ExprId : uint32_t { none = 0xffffffff };
enum class StmtId : uint32_t {};
enum class BufferId : uint32_t { none = 0xffffffff };
enum class SymbolId : uint32_t {};
enum class VarId : uint32_t {};
enum class LetId : uint32_t {};
enum class LocalId : uint32_t {};

enum class Op : uint8_t {
    Literal,     // payload: integers as their bits, floats as the bits of the value as a double; always scalar
    Symbol,      // run-time i64 given by the caller; payload SymbolId
    TaskBegin,   // i64: first task of this call
    TaskEnd,     // i64: one past the last task of this call
    Var,         // i64 loop variable; payload VarId
    Let,         // value bound by a Let statement; payload LetId
    Local,       // present value of a mutable local; payload LocalId
    Broadcast,   // scalar arg 0 on every lane
    Ramp,        // scalar integer arg 0 + lane * payload
    FirstLanes,  // mask: lane < arg 0 (scalar i64, any value)
    Unary,       // function in `fn`
    Binary,      // function in `fn`; payload 1, of Min and Max of floats: anything may come of a NaN
    Select,      // arg 0 ? arg 1 : arg 2, lane by lane (condition bool of equal lanes)
    Fma,         // arg 0 * arg 1 + arg 2 with one rounding
    MulAdd,      // the same, contracted only where the processor has the instruction: use this in sums of products
    Dot,         // arg 0 plus the products of the parts of arg 1 and arg 2, words (i32) of as many lanes; which in `fn`
    Scale,       // arg 0 * 2 ** arg 1 with one rounding; arg 1 is in [-250, 250] and integral, or with AVX-512 its floor counts
    Cast,        // value-preserving where possible: to an integer saturates and takes NaN to 0; to bool is x != 0; payload
                 // 1, from f32 to bf16: of a value that is no subnormal number
    Wrap,        // integer or bool to integer, keeping the low bits
    Bitcast,     // the same bits in all; neighbours become one wider element, the lower lane its lower bits, or the reverse
    Load,        // args: element offset (scalar i64) [, mask, pass-through]; payload: element stride between lanes (not 0)
    Gather,      // args: element offsets (i32 or i64, one a lane) [, mask, pass-through]
    ReduceLanes, // fold of all lanes with `fn` (Add Mul Min Max And Or), halves onto each other; scalar; payload as Binary
    Extract,     // lane `payload` of arg 0
    Insert,      // arg 0 with lane `payload` replaced by scalar arg 1
    Shuffle,     // lanes of arg 0 and (where given) arg 1 placed by shuffle table `payload`
    Lookup,      // f32: entry (arg 0 mod 16) of lookup table `payload`; arg 0 is i32
};

// Up to three operands; those that are absent are none.
struct Operands {
    ExprId ids[3];
    constexpr Operands(ExprId a = ExprId::none, ExprId b = ExprId::none, ExprId c = ExprId::none) : ids{a, b, c} {}
    constexpr ExprId operator[](int i) const { return ids[i]; }
    constexpr const ExprId* begin() const { return ids; }
    constexpr const ExprId* end() const { return ids + 3; }
    bool operator==(const Operands&) const = default;
};

// What Op::Lookup chooses from.
using LookupTable = std::array<float, 16>;

// One interned expression.
struct Node {
    Op op = Op::Literal;
    uint8_t fn = 0;  // UnaryFn, BinaryFn or DotFn of Unary, Binary, ReduceLanes, Dot
    Type type;
    BufferId buffer = BufferId::none;  // Load, Gather
    Operands args;
    int64_t payload = 0;
    bool operator==(const Node&) const = default;

    UnaryFn unary() const { return static_cast<UnaryFn>(fn); }
    BinaryFn binary() const { return static_cast<BinaryFn>(fn); }
    DotFn dot() const { return static_cast<DotFn>(fn); }
    int arg_count() const { return (args[0] != ExprId::none) + (args[1] != ExprId::none) + (args[2] != ExprId::none); }
};

enum class Space : uint8_t {
    Param,    // pointer number `argument` of the caller's array, aligned to the element
    Scratch,  // part of the worker's scratch memory, 64-byte aligned; as an earlier call of the same job left it, else undefined,
              // but for the first 8 bytes of the first buffer of a function, which are 0 in a job's first call
    Local,    // on the stack of the call, 64-byte aligned; constant size, keep it under 64 KiB
};

struct Buffer {
    std::string name;
    DType dtype = DType::F32;
    Space space = Space::Param;
    uint32_t argument = 0;            // Param
    // Scratch: extent in elements, of symbols and literals only. Local: a literal. Param, where given: the buffer is scratch
    // memory of so many elements, and the caller's memory where they are none.
    ExprId elements = ExprId::none;
    bool read_only = false;           // Param: nothing writes it while the function runs
    bool no_alias = true;             // Param: overlaps no other buffer of the function
};

struct Symbol { std::string name; };
struct Variable { std::string name; };
struct LetBinding { std::string name; Type type; };
struct Local { std::string name; Type type; };

using Block = std::vector<StmtId>;

enum class ForKind : uint8_t { Serial, Unrolled };  // Unrolled: literal bounds and step, body repeated when emitted

// for (var = begin; var < end; var += step); step is positive, all three are evaluated once.
struct For { VarId var; ExprId begin, end, step; ForKind kind; Block body; };
struct If { ExprId condition; Block then_body, else_body; };
struct Let { LetId let; ExprId value; };
struct Declare { LocalId local; ExprId value; };  // visible from here to the end of the block
struct Assign { LocalId local; ExprId value; };
// Lane i goes to element offset + i * stride. Masked-off lanes are not touched, not even read. `streaming` (stride 1, no
// mask, address aligned to the vector) writes past the caches: for results too large to be read back from them.
struct Store { BufferId buffer; ExprId offset, value, mask; int64_t stride; bool streaming = false; };
// Lanes are written in order, so of equal offsets the last lane stays.
struct Scatter { BufferId buffer; ExprId offsets, value, mask; };
// Brings the line into the first-level cache, `far`: into the second. The offset may lie outside the buffer.
struct Prefetch { BufferId buffer; ExprId offset; bool for_write; bool far = false; };
// Registers of 16 rows of 64 bytes, numbered from 0 to kTiles - 1; what one holds is undefined when a call starts. Rows in
// memory are `stride` elements of 32 bits apart.
inline constexpr int kTiles = 8, kTileRows = 16, kTileWords = 16;
struct TileZero { int tile; };
struct TileLoad { int tile; BufferId buffer; ExprId offset, stride; };
struct TileStore { int tile; BufferId buffer; ExprId offset, stride; };
// sum[i, j] += the products of the parts of rows[i, k] and columns[k, j], words of 32 bits, for all k.
struct TileDot { TileFn fn; int sum, rows, columns; };
struct SetError { ExprId code; };  // i64, not 0: becomes the call's status (the first of a call stays); the call goes on
struct Comment { std::string text; };

using Stmt = std::variant<For, If, Let, Declare, Assign, Store, Scatter, Prefetch, TileZero, TileLoad, TileStore, TileDot,
                          SetError, Comment>;

// Emitted as  void NAME(void* const* buffers, const int64_t* symbols, int64_t task_begin, int64_t task_end,
//                       void* scratch, int64_t* status)
// together with  int64_t NAME.scratch(const int64_t* symbols), the bytes of scratch memory that a call needs.
// Tasks are independent: the caller may split [0, tasks) in any way over threads.
struct Function {
    std::string name;
    Block body;
};

// A handle on an expression: pointer and id, with the operators of builder.h.
class Program;
struct Expr {
    Program* program = nullptr;
    ExprId id = ExprId::none;
    Expr() = default;
    Expr(Program* p, ExprId i) : program(p), id(i) {}
    operator ExprId() const { return id; }
    explicit operator bool() const { return id != ExprId::none; }
    Type type() const;
};

class Program {
public:
    // Interns a node as it is, without simplifying it; builder.h has the functions to use.
    Expr intern(const Node& n);
    const Node& node(ExprId id) const { return nodes_[static_cast<uint32_t>(id)]; }
    Type type(ExprId id) const { return node(id).type; }
    size_t node_count() const { return nodes_.size(); }
    // True where the value depends on memory or locals, and so on the statement that uses it.
    bool impure(ExprId id) const { return impure_[static_cast<uint32_t>(id)]; }

    // Index of a lane table (values in [0, lanes of arg 0 + lanes of arg 1)), interned.
    int64_t shuffle_table(const std::vector<int>& lanes);
    const std::vector<int>& shuffle_lanes(int64_t table) const { return shuffles_[static_cast<size_t>(table)]; }

    int64_t lookup_table(const LookupTable& entries);
    const LookupTable& lookup_entries(int64_t table) const { return lookups_[static_cast<size_t>(table)]; }

    StmtId add(Stmt s) { stmts.push_back(std::move(s)); return static_cast<StmtId>(stmts.size() - 1); }
    const Stmt& stmt(StmtId id) const { return stmts[static_cast<uint32_t>(id)]; }
    const Buffer& buffer(BufferId id) const { return buffers[static_cast<uint32_t>(id)]; }
    const Local& local(LocalId id) const { return locals[static_cast<uint32_t>(id)]; }
    const LetBinding& let(LetId id) const { return lets[static_cast<uint32_t>(id)]; }
    const Symbol& symbol(SymbolId id) const { return symbols[static_cast<uint32_t>(id)]; }
    const Variable& variable(VarId id) const { return variables[static_cast<uint32_t>(id)]; }

    std::vector<Buffer> buffers;
    std::vector<Symbol> symbols;
    std::vector<Variable> variables;
    std::vector<LetBinding> lets;
    std::vector<Local> locals;
    std::vector<Stmt> stmts;
    std::vector<Function> functions;
    bool plain_addresses = false;  // of all loops: matrix products, whose code gains nothing from work on their indices
    bool plain_indices = false;    // every access is at indices as they are: nor does theirs

private:
    struct NodeHash { size_t operator()(const Node& n) const; };
    std::vector<Node> nodes_;
    std::vector<bool> impure_;
    std::unordered_map<Node, ExprId, NodeHash> index_;
    std::vector<std::vector<int>> shuffles_;
    std::vector<LookupTable> lookups_;
};

inline Type Expr::type() const { return program->type(id); }

}  // namespace opwright::loop
