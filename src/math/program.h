// L1: an operator as equations over index variables. No order of evaluation within an equation, no memory.
//
// A Program owns its expressions (interned, immutable, addressed by 32-bit ids), tensors, index variables and equations.
// All ranks, types and attributes are settled here; extents stay symbolic (Sym). lang/ elaborates declarations into
// Programs; the graph's importers bind them; everything else (shape, reference, cost, kernels) is derived from them.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/diagnostic.h"
#include "base/tensor.h"
#include "math/functions.h"
#include "math/sym.h"

namespace opwright::math {

using ExprId = uint32_t;
using VarId = uint32_t;
using TensorId = uint32_t;
inline constexpr uint32_t kNone = 0xffffffffu;

enum class Role : uint8_t { Input, Output, Temp, Constant };

struct TensorInfo {
    std::string name;
    DType dtype = DType::F32;
    std::vector<Sym> shape;
    Role role = Role::Temp;
    Tensor data;  // of a Constant
};

// An index variable running over 0 .. extent-1.
struct Var {
    std::string name;
    Sym extent;
};

// What an access means where an index leaves its dimension. Value: the fill expression of the access. Error: it must
// not leave (affine: checked at launch; data: the kernel reports it, and reads element 0 in its place).
enum class Outside : uint8_t { Error, Value, Clamp, Wrap, Reflect, Mirror };

enum class ExprKind : uint8_t {
    Literal,  // `number` (floats) or `integer` (integers, bool) of `dtype`
    Index,    // the index variable `ref`, I64
    Size,     // the symbolic integer `sym`, I64
    Load,     // tensor `ref`; args = one index per dim (I64), then the fill value if outside == Value
    Inside,   // Bool: whether tensor `ref` has an element at args
    Call,     // fn(args...)
    Cast,     // args[0] converted to dtype: saturating, NaN to 0
    Wrap,     // args[0] (an integer or bool) converted to an integer dtype keeping the low bits
    Bitcast,  // same bits, another dtype of the same size
    Reduce,   // `reduce` over vars of args[0], where args[1] (Bool, optional) holds; dtype is the accumulator's
    Scan,     // running `reduce` along vars[0] of args[0]; `exclusive`, `backward`. Only as a whole right-hand side.
};

struct Expr {
    ExprKind kind = ExprKind::Literal;
    DType dtype = DType::F32;
    Fn fn = Fn::Neg;
    ReduceOp reduce = ReduceOp::Sum;
    Outside outside = Outside::Error;
    bool exclusive = false, backward = false;
    uint32_t ref = kNone;      // Index: VarId; Load, Inside: TensorId
    double number = 0;         // Literal of a float type (compared by bits: NaN and -0 are themselves)
    int64_t integer = 0;       // Literal of an integer type or Bool
    Sym sym;                   // Size
    std::vector<ExprId> args;
    std::vector<VarId> vars;   // Reduce, Scan
};

// How an equation's value meets what the place held before. The Set of a whole tensor comes first; others update it.
// Overwrites alone may define a tensor where together they cover it (concat).
enum class Update : uint8_t { Set, Add, Mul, Max, Min, Overwrite };

struct Equation {
    TensorId lhs = kNone;
    std::vector<ExprId> at;            // one index per dim of lhs; plain distinct variables (or literal 0 where the
                                       // extent is 1) for Set, anything for the others
    Outside outside = Outside::Error;  // for `at` of an update: Error reports, Value drops the write
    Update update = Update::Set;
    ExprId rhs = kNone;
    std::vector<VarId> vars;           // the variables it runs over, outermost first
    Span span;
};

// A condition on extents that must hold at launch: `value` must be nonzero. The message is a full sentence.
struct Requirement {
    Sym value;
    std::string message;
};

class Program {
public:
    std::string name;         // of the operator, for people
    std::string doc;
    std::vector<TensorInfo> tensors;
    std::vector<Var> vars;
    std::vector<Equation> equations;        // in order of evaluation
    std::vector<Requirement> requirements;
    std::vector<TensorId> inputs, outputs;  // in the order of the declaration

    // ---- tensors and variables
    TensorId add_tensor(std::string name, DType t, std::vector<Sym> shape, Role role);  // also appends to inputs/outputs
    TensorId add_constant(std::string name, Tensor data);
    VarId add_var(std::string name, Sym extent);

    // ---- expressions: interned, so that equal ids mean equal expressions. Constructors fold constants and apply exact
    // identities (x+0 on integers, select of a literal, ...); none changes the result of float arithmetic.
    ExprId literal(double v, DType t);      // rounded to t (saturating for integers)
    ExprId integer(int64_t v, DType t = DType::I64);
    ExprId index(VarId v);
    ExprId size(const Sym& s);              // a literal when constant
    ExprId load(TensorId t, std::vector<ExprId> at, Outside outside = Outside::Error, ExprId fill = kNone);
    ExprId inside(TensorId t, std::vector<ExprId> at);
    ExprId call(Fn f, std::vector<ExprId> args);
    ExprId cast(ExprId e, DType t);
    ExprId wrap(ExprId e, DType t);
    ExprId bitcast(ExprId e, DType t);
    ExprId reduce(ReduceOp op, std::vector<VarId> over, ExprId body, DType accumulate, ExprId condition = kNone);
    ExprId scan(ReduceOp op, VarId along, ExprId body, bool exclusive, bool backward);
    ExprId select(ExprId c, ExprId a, ExprId b) { return call(Fn::Select, {c, a, b}); }

    const Expr& expr(ExprId e) const { return pool_[e]; }
    size_t expr_count() const { return pool_.size(); }
    bool is_integer_literal(ExprId e, int64_t v) const;

    // Appends an equation. For Set, `vars` are the variables of `at` in order; for updates, the free variables of `at`
    // and then of `rhs`.
    void add_equation(TensorId lhs, std::vector<ExprId> at, ExprId rhs, Update u = Update::Set,
                      Outside outside = Outside::Error, Span span = {});

    // Variables free in e (not bound by a Reduce inside it), in order of first occurrence. A Scan binds nothing.
    std::vector<VarId> free_vars(ExprId e) const;
    // Tensors read by e, each once, in order of first occurrence.
    std::vector<TensorId> reads(ExprId e) const;
    // Names of all symbols in extents, sizes, ranges and requirements, in a fixed order: the kernel's symbol arguments.
    std::vector<std::string> symbols() const;

    // Readable text, one line an equation: "z[m,n] = sum[k](x[m,k]*w[n,k])".
    std::string print() const;
    std::string print(ExprId e) const;
    // Canonical text, equal for programs equal up to names of tensors, variables and symbols: the content to key caches.
    std::string canonical() const;

private:
    ExprId intern(Expr e);
    std::vector<Expr> pool_;
    std::unordered_multimap<uint64_t, ExprId> interned_;
};

// Rebuilds expressions of `from` in `into`, memoised by id: one Rewriter a substitution.
struct Rewriter {
    const Program& from;
    Program& into;
    std::unordered_map<TensorId, TensorId> tensors;            // every tensor met, unless `replace` answers for its loads
    std::unordered_map<VarId, ExprId> vars;                    // variable -> index expression of `into`
    std::unordered_map<VarId, VarId> bound;                    // reduction variables; fresh ones are made on demand
    std::map<std::string, Sym> symbols;                        // symbol substitution, may be empty
    std::function<ExprId(Rewriter&, ExprId)> replace;          // asked first at every node; kNone means "as usual"
    std::unordered_map<ExprId, ExprId> memo;

    ExprId operator()(ExprId e);
    VarId bind(VarId v);                                       // the variable of `into` for a bound variable of `from`
};

// An affine view of an index expression: sum of coefficient * variable, plus offset; nullopt if it is not affine
// (contains a load, a division of a variable, a product of variables, ...).
struct Affine {
    std::vector<std::pair<VarId, Sym>> terms;  // each variable once, no zero coefficients
    Sym offset;
    bool is_plain_var() const { return terms.size() == 1 && terms[0].second.is(1) && offset.is(0); }
    Sym coefficient(VarId v) const;
};
std::optional<Affine> affine(const Program& p, ExprId e);

// Level verifier: types, ranks, scopes, plain and distinct lhs of Set, every tensor defined before it is read, outputs
// defined. One sentence per violation; empty means well formed. A violation is a bug in Opwright, not of a person.
std::vector<std::string> verify(const Program& p);

}  // namespace opwright::math
