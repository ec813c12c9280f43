// The reference's own program: loop nests over strips of lanes. An equation becomes one nest, preceded by one for each
// reduction inside it, whose results are kept in a table over the variables it depends on and so are computed once.
// Private to the reference.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "derive/bounded.h"
#include "math/program.h"

namespace opwright::derive {

inline constexpr int64_t kLanes = 128;

// A tensor, or the table of a reduction, while the reference runs. Floats in `v`, all else in `i`.
struct Store {
    std::string name;
    DType dtype = DType::F32;
    Shape shape;
    int64_t size = 1;
    bool output = false;
    std::vector<double> v, e, t;  // value, bound (empty: exact), sum of |terms| (empty: |v|)
    std::vector<int64_t> i;
    bool wild = false;  // some value is not finite, beyond the type's range, or without a bound

    Store(std::string name, DType t, Shape s);
    double bound(int64_t k) const { return e.empty() ? 0 : e[k]; }
};

// One dim of an access: constant + sum of coefficient * variable, or a register where it is not affine.
struct Dim {
    int64_t constant = 0, extent = 0, stride = 0;
    std::vector<std::pair<int, int64_t>> terms;  // variable's place in the nest, coefficient
    int reg = -1;
};
struct Access {
    int store = -1;
    std::vector<Dim> dims;
    math::Outside outside = math::Outside::Error;
    bool proved = false;  // every dim affine and inside for all values of the variables
    Dim flat;             // of a proved access: the offset
};

enum class Do : uint8_t {
    Index,
    Load,
    Inside,
    Float,
    Test,
    Int,
    Select,
    FloatToFloat,
    FloatToInt,
    IntToFloat,
    IntToInt,
    Wrap,
    FloatBits,
    BitsToFloat,
    // sums of |terms| along the way from the outermost sum to the result: plain doubles
    TermsLoad,
    TermsAbs,
    TermsAdd,
    TermsMul,
    TermsDiv,
    TermsMax,
    TermsSelect,
};
struct Step {
    Do what = Do::Index;
    math::Fn fn = math::Fn::Neg;
    DType type = DType::F32, from = DType::F32;
    int to = -1, a = -1, b = -1, c = -1;  // registers; Index: a is the variable's place; Load: c is the fill
    int access = -1;
    FlushFactors flush = FlushFactors::None;  // Float: of a product, the operands that count as zero where subnormal
    bool flush_sum = false;  // ... and the product of bf16 factors is a term of a sum whose subnormal partial sums may, too
};

struct Register {
    bool is_float = false, exact = false, wild = false;  // exact: the bound is 0 in every lane, always
    std::vector<double> v, e;
    std::vector<int64_t> i;
};

enum class NestKind : uint8_t { Map, Reduce, Scan };
struct Nest {
    NestKind kind = NestKind::Map;
    std::vector<math::VarId> vars;  // the points' variables, then those reduced or scanned over
    std::vector<int64_t> extents;
    size_t points = 0;  // how many of vars are the points'
    std::vector<Register> registers;
    std::vector<Step> code;
    std::vector<Access> accesses;
    int body = -1, condition = -1, terms = -1;  // registers
    int target = -1;                            // store
    math::ReduceOp reduce = math::ReduceOp::Sum;
    DType dtype = DType::F32;  // of the accumulator
    DType body_type = DType::F32;
    bool exclusive = false, backward = false;
    Access at;  // where Map and Scan write
    math::Update update = math::Update::Set;
    Span span;

    int64_t point_count() const;
    int64_t over_count() const;
};

// Appends the nests of one equation, tables first; new tables are appended to `stores`, whose first entries are the
// program's tensors. Nothing where the equation has no points. `flush` as in ReferenceOptions.
void plan_equation(const math::Program& p, const math::Equation& q, const math::SymValues& values, FlushFactors flush,
                   std::vector<Store>& stores, std::vector<Nest>& nests);
// Runs one. Errors: an index that leaves its tensor.
Status run_nest(const math::Program& p, Nest& n, double scale, std::vector<Store>& stores);

}  // namespace opwright::derive
