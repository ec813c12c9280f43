// Building loop programs: expression functions that fold constants and simplify index arithmetic, and a Builder that
// places statements. Misuse (types that do not fit) is a bug in the caller and throws std::logic_error.
//
//     Program p;  Builder b(p);
//     auto n = b.symbol("n");
//     auto x = b.param("x", DType::F32, 0, Access::Read), y = b.param("y", DType::F32, 1, Access::Write);
//     b.function("relu", [&] {
//         b.loop("i", b.task_begin() * 1024, min(b.task_end() * 1024, n), 16, [&](Expr i) {
//             Expr mask = first_lanes(n - i, 16);
//             b.store(y, i, max(b.load(x, i, 16, mask), b.f32(0)), mask);
//         });
//     });
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "loop/program.h"

namespace opwright::loop {

// ---- expressions ----------------------------------------------------------------------------------------------------
// A scalar operand meets a vector by broadcasting it. Both sides have one element type; a C++ number takes the type of
// the other side.

Expr literal(Program& p, DType t, double value);       // any type; integers take the value truncated
Expr literal_int(Program& p, DType t, int64_t value);  // any type; integers keep the low bits, exactly

Expr unary(UnaryFn f, Expr x);
Expr binary(BinaryFn f, Expr x, Expr y);
Expr select(Expr condition, Expr if_true, Expr if_false);
Expr fma(Expr a, Expr b, Expr c);
Expr mul_add(Expr a, Expr b, Expr c);  // the one to use in sums of products (see Op::MulAdd)
Expr dot(DotFn f, Expr a, Expr b, Expr sum);  // see Op::Dot
Expr scale(Expr x, Expr exponent);     // x * 2 ** exponent (see Op::Scale)
Expr cast(Expr x, DType t);
Expr cast_normal(Expr x);  // from f32 to bf16, where x is sure to be no subnormal number
Expr wrap(Expr x, DType t);
Expr bitcast(Expr x, DType t);
Expr bitcast(Expr x, Type t);  // to another number of lanes: see Op::Bitcast

Expr broadcast(Expr scalar, int lanes);                    // a scalar for lanes == 1
Expr ramp(Expr base, int64_t stride, int lanes);           // base, base + stride, ...
Expr first_lanes(Expr count, int lanes);                   // mask of a tail: lane < count
Expr reduce_lanes(BinaryFn f, Expr x);                     // Add Mul Min Max And Or; x itself when scalar
Expr extract(Expr x, int lane);
Expr insert(Expr x, int lane, Expr scalar);
// Min and Max of floats that are no NaN; anything may come of one.
Expr extreme_of_numbers(BinaryFn f, Expr a, Expr b);
Expr reduce_lanes_of_numbers(BinaryFn f, Expr x);
Expr lookup(Expr index, const LookupTable& table);  // entry index mod 16; the index is i32
Expr permute_lanes(Expr x, const std::vector<int>& lanes);
Expr permute_lanes(Expr x, Expr y, const std::vector<int>& lanes);  // lanes of y count on from those of x
Expr reverse(Expr x);
Expr concat(Expr x, Expr y);                               // twice the lanes
Expr slice(Expr x, int first, int lanes);

inline Expr operator+(Expr a, Expr b) { return binary(BinaryFn::Add, a, b); }
inline Expr operator-(Expr a, Expr b) { return binary(BinaryFn::Sub, a, b); }
inline Expr operator*(Expr a, Expr b) { return binary(BinaryFn::Mul, a, b); }
inline Expr operator-(Expr a) { return unary(UnaryFn::Neg, a); }
Expr like(Expr x, double value);  // a literal of x's element type
Expr like_int(Expr x, int64_t value);
inline Expr operator+(Expr a, int64_t b) { return a + like_int(a, b); }
inline Expr operator-(Expr a, int64_t b) { return a - like_int(a, b); }
inline Expr operator*(Expr a, int64_t b) { return a * like_int(a, b); }

inline Expr min(Expr a, Expr b) { return binary(BinaryFn::Min, a, b); }
inline Expr max(Expr a, Expr b) { return binary(BinaryFn::Max, a, b); }
inline Expr div(Expr a, Expr b) { return binary(BinaryFn::Div, a, b); }
inline Expr floordiv(Expr a, Expr b) { return binary(BinaryFn::FloorDiv, a, b); }
inline Expr floordiv(Expr a, int64_t b) { return floordiv(a, like_int(a, b)); }
inline Expr mod(Expr a, Expr b) { return binary(BinaryFn::Mod, a, b); }
inline Expr mod(Expr a, int64_t b) { return mod(a, like_int(a, b)); }
Expr ceildiv(Expr a, int64_t b);  // rounds up; b > 0
inline Expr lt(Expr a, Expr b) { return binary(BinaryFn::Lt, a, b); }
inline Expr le(Expr a, Expr b) { return binary(BinaryFn::Le, a, b); }
inline Expr gt(Expr a, Expr b) { return binary(BinaryFn::Gt, a, b); }
inline Expr ge(Expr a, Expr b) { return binary(BinaryFn::Ge, a, b); }
inline Expr eq(Expr a, Expr b) { return binary(BinaryFn::Eq, a, b); }
inline Expr ne(Expr a, Expr b) { return binary(BinaryFn::Ne, a, b); }
inline Expr both(Expr a, Expr b) { return binary(BinaryFn::And, a, b); }    // And: masks and bits
inline Expr either(Expr a, Expr b) { return binary(BinaryFn::Or, a, b); }   // Or
inline Expr negate(Expr a) { return unary(UnaryFn::Not, a); }               // Not

// The integer value where x is an integer literal (or the broadcast of one).
bool is_literal(Expr x, int64_t* value = nullptr);

// ---- statements -----------------------------------------------------------------------------------------------------

enum class Access : uint8_t { Read, Write, ReadWrite };

// A mutable scalar or vector that lives in a register (an accumulator).
struct LocalRef { LocalId id; };

class Builder {
public:
    explicit Builder(Program& p) : program_(p) {}
    Program& program() { return program_; }

    // Declared once for the Program; the same name gives the same symbol. Read in the order of declaration from the
    // caller's symbol array.
    Expr symbol(std::string_view name);
    // Buffers are declared once and used by any function; `argument` is the position in the caller's pointer array.
    BufferId param(std::string name, DType t, uint32_t argument, Access access = Access::ReadWrite, bool no_alias = true);
    BufferId scratch(std::string name, DType t, Expr elements);
    // Scratch memory where `elements` are more than none, else the caller's.
    BufferId param_or_scratch(std::string name, DType t, uint32_t argument, Expr elements);
    BufferId local_buffer(std::string name, DType t, int64_t elements);

    // Opens the function, runs `body`, closes it.
    void function(std::string name, const std::function<void()>& body);
    Expr task_begin();
    Expr task_end();

    Expr literal(DType t, double v) { return loop::literal(program_, t, v); }
    Expr i64(int64_t v) { return literal_int(program_, DType::I64, v); }
    Expr i32(int64_t v) { return literal_int(program_, DType::I32, v); }
    Expr f32(double v) { return loop::literal(program_, DType::F32, v); }
    Expr f64(double v) { return loop::literal(program_, DType::F64, v); }
    Expr boolean(bool v) { return literal_int(program_, DType::Bool, v); }

    // Contiguous load of `lanes` elements from an element offset; lanes whose mask is false are not read and have the
    // value `otherwise` (zero when not given). One lane is a scalar load.
    Expr load(BufferId buffer, Expr offset, int lanes = 1, Expr mask = {}, Expr otherwise = {});
    // Lane i from offset + i * stride (any constant stride; 0 broadcasts).
    Expr load_strided(BufferId buffer, Expr offset, int64_t stride, int lanes, Expr mask = {}, Expr otherwise = {});
    Expr gather(BufferId buffer, Expr offsets, Expr mask = {}, Expr otherwise = {});

    void store(BufferId buffer, Expr offset, Expr value, Expr mask = {});
    void store_streaming(BufferId buffer, Expr offset, Expr value);  // see Store::streaming
    void store_strided(BufferId buffer, Expr offset, int64_t stride, Expr value, Expr mask = {});
    void scatter(BufferId buffer, Expr offsets, Expr value, Expr mask = {});
    void prefetch(BufferId buffer, Expr offset, bool for_write = false, bool far = false);

    // See TileZero and the statements behind it. Offsets and strides in elements, of buffers of 32-bit types.
    void tile_zero(int tile);
    void tile_load(int tile, BufferId buffer, Expr offset, Expr stride);
    void tile_store(int tile, BufferId buffer, Expr offset, Expr stride);
    void tile_dot(TileFn f, int sum, int rows, int columns);

    Expr let(std::string name, Expr value);  // literals, variables and other lets are returned as they are
    LocalRef local(std::string name, Expr initial);
    Expr get(LocalRef l);
    void set(LocalRef l, Expr value);

    using Body = std::function<void(Expr)>;
    void loop(std::string name, Expr begin, Expr end, Expr step, const Body& body);
    void loop(std::string name, Expr begin, Expr end, int64_t step, const Body& body);
    void loop(std::string name, int64_t begin, Expr end, int64_t step, const Body& body);
    void unrolled(std::string name, int64_t begin, int64_t end, int64_t step, const Body& body);
    void if_(Expr condition, const std::function<void()>& then_body, const std::function<void()>& else_body = {});
    void set_error(Expr code);
    void set_error(int64_t code) { set_error(i64(code)); }
    void comment(std::string text);

private:
    void place(Stmt s);
    Block capture(const std::function<void()>& body);

    Program& program_;
    std::vector<Block*> open_;
};

}  // namespace opwright::loop
