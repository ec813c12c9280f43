// The expression functions of builder.h: type rules, constant folding, simplification of index arithmetic.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "loop/builder.h"
#include "loop/fold.h"

namespace opwright::loop {
namespace {

[[noreturn]] void misuse(const std::string& what) { throw std::logic_error("loop IR: " + what); }

Node node_of(Expr x) { return x.program->node(x.id); }
Expr arg(Expr x, int i) { return {x.program, node_of(x).args[i]}; }

bool is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

// v rounded to float type t.
double round_to(DType t, double v) {
    switch (t) {
        case DType::F16: return f16_to_f32(f64_to_f16(v));
        case DType::BF16: return bf16_to_f32(f64_to_bf16(v));
        case DType::F32: return static_cast<float>(v);
        default: return v;
    }
}

// Toward zero, within 64 bits; NaN is 0.
int64_t truncated(DType t, double v) {
    if (t == DType::U64 && v >= 0x1p63) return v < 0x1p64 ? static_cast<int64_t>(static_cast<uint64_t>(v)) : -1;
    if (std::isnan(v)) return 0;
    return v >= 0x1p63 ? std::numeric_limits<int64_t>::max()
                       : v < -0x1p63 ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(v);
}

Expr intern_literal(Program& p, DType t, int64_t payload) {
    return p.intern({.op = Op::Literal, .type = {t, 1}, .payload = payload});
}

bool is_float_literal(Expr x, double* value) {
    Node n = node_of(x);
    if (n.op == Op::Broadcast) n = x.program->node(n.args[0]);
    if (n.op != Op::Literal || !is_float(n.type.dtype)) return false;
    *value = std::bit_cast<double>(n.payload);
    return true;
}

bool is_broadcast(Expr x) { return !x || node_of(x).op == Op::Broadcast; }
Expr scalar_of(Expr x) { return x && node_of(x).op == Op::Broadcast ? arg(x, 0) : x; }

// x, widened from a float type narrower than its own to which it had been rounded: the narrow value. None otherwise.
std::optional<Expr> before_widening(Expr x, DType narrow) {
    const Node n = node_of(x);
    if (n.op != Op::Cast || !is_float(n.type.dtype) || !is_float(narrow) || size_of(narrow) >= size_of(n.type.dtype)) return std::nullopt;
    const Expr inner = arg(x, 0);
    return inner.type().dtype == narrow && node_of(inner).op == Op::Cast ? std::optional(inner) : std::nullopt;
}

// Broadcasts the scalar among a and b to the lanes of the other.
void unify(Expr& a, Expr& b, const char* what) {
    if (a.type().dtype != b.type().dtype)
        misuse(fmt::format("{} of {} and {}", what, to_string(a.type()), to_string(b.type())));
    if (a.type().lanes == 1) a = broadcast(a, b.type().lanes);
    if (b.type().lanes == 1) b = broadcast(b, a.type().lanes);
    if (a.type() != b.type()) misuse(fmt::format("{} of {} and {}", what, to_string(a.type()), to_string(b.type())));
}

// a op b with literal b, a not literal: index arithmetic in a normal form "x * c + c".
Expr simplify_with_literal(BinaryFn f, Expr a, Expr b, int64_t c) {
    Program& p = *a.program;
    const DType t = a.type().dtype;
    const Node n = node_of(a);
    int64_t inner = 0;
    const bool chained = n.op == Op::Binary && is_literal(arg(a, 1), &inner);
    auto lit = [&](int64_t v) { return broadcast(literal_int(p, t, v), a.type().lanes); };
    const int64_t ones = t == DType::Bool ? 1 : wrap_to(t, -1);
    switch (f) {
        case BinaryFn::Add:
            if (c == 0) return a;
            if (chained && n.binary() == BinaryFn::Add) return arg(a, 0) + lit(*fold_int(f, t, inner, c));
            return {};
        case BinaryFn::Sub: return c == 0 ? a : a + lit(*fold_int(UnaryFn::Neg, t, c));
        case BinaryFn::Mul:
            if (c == 0) return b;
            if (c == 1) return a;
            if (chained && n.binary() == BinaryFn::Mul) return arg(a, 0) * lit(*fold_int(f, t, inner, c));
            if (chained && n.binary() == BinaryFn::Add)
                return arg(a, 0) * b + lit(*fold_int(BinaryFn::Mul, t, inner, c));
            return {};
        case BinaryFn::Div:
        case BinaryFn::FloorDiv: return c == 0 ? b : c == 1 ? a : Expr{};
        case BinaryFn::Mod:
        case BinaryFn::FMod: return c == 0 || c == 1 ? lit(0) : Expr{};
        case BinaryFn::And: return c == 0 ? b : c == ones ? a : Expr{};
        case BinaryFn::Or: return c == 0 ? a : c == ones ? b : Expr{};
        case BinaryFn::Xor: return c == 0 ? a : Expr{};
        case BinaryFn::Shl:
        case BinaryFn::Shr: return c == 0 ? a : Expr{};
        case BinaryFn::Eq: return t == DType::Bool ? (c ? a : negate(a)) : Expr{};
        case BinaryFn::Ne: return t == DType::Bool ? (c ? negate(a) : a) : Expr{};
        case BinaryFn::Min:
        case BinaryFn::Max:
            if (chained && n.binary() == f) return binary(f, arg(a, 0), lit(*fold_int(f, t, inner, c)));
            return {};
        case BinaryFn::Pow:
        case BinaryFn::Atan2:
        case BinaryFn::Lt:
        case BinaryFn::Le:
        case BinaryFn::Gt:
        case BinaryFn::Ge: return {};
    }
    return {};
}

Expr simplify_equal_operands(BinaryFn f, Expr a) {
    Program& p = *a.program;
    auto truth = [&](bool v) { return broadcast(literal_int(p, DType::Bool, v), a.type().lanes); };
    switch (f) {
        case BinaryFn::Sub:
        case BinaryFn::Xor: return broadcast(literal_int(p, a.type().dtype, 0), a.type().lanes);
        case BinaryFn::Min:
        case BinaryFn::Max:
        case BinaryFn::And:
        case BinaryFn::Or: return a;
        case BinaryFn::Le:
        case BinaryFn::Ge:
        case BinaryFn::Eq: return truth(true);
        case BinaryFn::Lt:
        case BinaryFn::Gt:
        case BinaryFn::Ne: return truth(false);
        default: return {};
    }
}

bool applies(UnaryFn f, DType t) {
    switch (f) {
        case UnaryFn::Neg:
        case UnaryFn::Abs:
        case UnaryFn::Sign: return is_int(t) || t == DType::F32 || t == DType::F64;
        case UnaryFn::Not: return is_int(t) || t == DType::Bool;
        default: return t == DType::F32 || t == DType::F64;
    }
}

bool applies(BinaryFn f, DType t) {
    switch (f) {
        case BinaryFn::Atan2: return t == DType::F32 || t == DType::F64;
        case BinaryFn::And:
        case BinaryFn::Or:
        case BinaryFn::Xor: return is_int(t) || t == DType::Bool;
        case BinaryFn::Shl:
        case BinaryFn::Shr: return is_int(t);
        case BinaryFn::Eq:
        case BinaryFn::Ne: return t != DType::F16 && t != DType::BF16;
        default: return is_int(t) || t == DType::F32 || t == DType::F64;
    }
}

}  // namespace

Expr literal(Program& p, DType t, double value) {
    if (t == DType::Bool) return literal_int(p, t, value != 0);
    if (!is_float(t)) return literal_int(p, t, truncated(t, value));
    const double v = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : round_to(t, value);
    return intern_literal(p, t, std::bit_cast<int64_t>(v));
}

Expr literal_int(Program& p, DType t, int64_t value) {
    if (is_float(t)) return literal(p, t, static_cast<double>(value));
    return intern_literal(p, t, wrap_to(t, value));
}

Expr like(Expr x, double value) { return literal(*x.program, x.type().dtype, value); }
Expr like_int(Expr x, int64_t value) { return literal_int(*x.program, x.type().dtype, value); }

bool is_literal(Expr x, int64_t* value) {
    Node n = node_of(x);
    if (n.op == Op::Broadcast) n = x.program->node(n.args[0]);
    if (n.op != Op::Literal || is_float(n.type.dtype)) return false;
    if (value) *value = n.payload;
    return true;
}

Expr unary(UnaryFn f, Expr x) {
    const DType t = x.type().dtype;
    if (!is_float(t) && f >= UnaryFn::Floor && f <= UnaryFn::Trunc) return x;
    if (!applies(f, t)) misuse(fmt::format("{} of {}", name(f), to_string(x.type())));
    if (is_broadcast(x)) return broadcast(unary(f, arg(x, 0)), x.type().lanes);
    Program& p = *x.program;
    if (int64_t v; is_literal(x, &v))
        if (auto r = fold_int(f, t, v)) return intern_literal(p, t, *r);
    if (double v; is_float_literal(x, &v)) {
        if (f == UnaryFn::Neg) return literal(p, t, -v);
        if (f == UnaryFn::Abs) return literal(p, t, std::fabs(v));
    }
    const Node n = node_of(x);
    if ((f == UnaryFn::Neg || f == UnaryFn::Not) && n.op == Op::Unary && n.unary() == f) return arg(x, 0);
    const DType result = f == UnaryFn::IsNan || f == UnaryFn::IsInf ? DType::Bool : t;
    return p.intern({.op = Op::Unary, .fn = static_cast<uint8_t>(f), .type = x.type().with(result), .args = {x}});
}

Expr binary(BinaryFn f, Expr a, Expr b) {
    unify(a, b, std::string(name(f)).c_str());
    const DType t = a.type().dtype;
    if (!applies(f, t)) misuse(fmt::format("{} of {}", name(f), to_string(a.type())));
    if (a.type().is_vector() && is_broadcast(a) && is_broadcast(b))
        return broadcast(binary(f, arg(a, 0), arg(b, 0)), a.type().lanes);
    Program& p = *a.program;
    const DType result = is_comparison(f) ? DType::Bool : t;
    int64_t x = 0, y = 0;
    const bool lx = is_literal(a, &x), ly = is_literal(b, &y);
    if (lx && ly)
        if (auto r = fold_int(f, t, x, y)) return intern_literal(p, result, *r);
    if (lx && is_commutative(f)) return binary(f, b, a);
    if (ly)
        if (Expr e = simplify_with_literal(f, a, b, y)) return e;
    if (!is_float(t) && a.id == b.id)
        if (Expr e = simplify_equal_operands(f, a)) return e;
    if (double v; is_float_literal(b, &v)) {
        if (v == 1 && (f == BinaryFn::Mul || f == BinaryFn::Div)) return a;
        if (v == 0 && !std::signbit(v) && f == BinaryFn::Sub) return a;
    }
    if (t == DType::I64 || t == DType::I32) {
        // Literals move outward, so that equal addresses with other constants share their variable part.
        const Node na = node_of(a), nb = node_of(b);
        int64_t c = 0;
        if ((f == BinaryFn::Add || f == BinaryFn::Sub) && na.op == Op::Binary && na.binary() == BinaryFn::Add &&
            is_literal(arg(a, 1), &c))
            return binary(f, arg(a, 0), b) + arg(a, 1);
        if ((f == BinaryFn::Add || f == BinaryFn::Sub) && nb.op == Op::Binary && nb.binary() == BinaryFn::Add &&
            is_literal(arg(b, 1), &c))
            return binary(f, a, arg(b, 0)) + broadcast(like_int(b, f == BinaryFn::Add ? c : *fold_int(UnaryFn::Neg, t, c)), b.type().lanes);
        // Ramps absorb what is the same on every lane.
        if (f == BinaryFn::Add && nb.op == Op::Ramp && na.op != Op::Ramp) return binary(f, b, a);
        if (na.op == Op::Ramp && is_broadcast(b)) {
            if (f == BinaryFn::Add || f == BinaryFn::Sub)
                return ramp(binary(f, arg(a, 0), arg(b, 0)), na.payload, a.type().lanes);
            if (f == BinaryFn::Mul && ly)
                return ramp(arg(a, 0) * arg(b, 0), wrap_to(t, na.payload * y), a.type().lanes);
        }
    }
    if (is_commutative(f) && a.id > b.id && !ly) std::swap(a, b);
    return p.intern({.op = Op::Binary, .fn = static_cast<uint8_t>(f), .type = a.type().with(result), .args = {a, b}});
}

Expr ceildiv(Expr a, int64_t b) { return floordiv(a + (b - 1), b); }

Expr select(Expr c, Expr a, Expr b) {
    unify(a, b, "select");
    if (c.type().dtype != DType::Bool) misuse(fmt::format("select on a condition of {}", to_string(c.type())));
    if (int64_t v; is_literal(c, &v) && (c.type().lanes == 1 || c.type().lanes == a.type().lanes)) return v ? a : b;
    if (a.id == b.id && (c.type().lanes == 1 || c.type().lanes == a.type().lanes)) return a;
    const int lanes = std::max(c.type().lanes, a.type().lanes);
    c = broadcast(c, lanes), a = broadcast(a, lanes), b = broadcast(b, lanes);
    if (lanes > 1 && is_broadcast(a) && is_broadcast(b) && is_broadcast(c))
        return broadcast(select(arg(c, 0), arg(a, 0), arg(b, 0)), lanes);
    return c.program->intern({.op = Op::Select, .type = a.type(), .args = {c, a, b}});
}

namespace {
Expr fused(Op op, Expr a, Expr b, Expr c) {
    unify(a, b, "fma"), unify(a, c, "fma"), unify(b, c, "fma");
    const DType t = a.type().dtype;
    if (!is_float(t) && op == Op::MulAdd) return a * b + c;
    if (t != DType::F32 && t != DType::F64) misuse(fmt::format("fma of {}", to_string(a.type())));
    if (a.type().is_vector() && is_broadcast(a) && is_broadcast(b) && is_broadcast(c))
        return broadcast(fused(op, arg(a, 0), arg(b, 0), arg(c, 0)), a.type().lanes);
    return a.program->intern({.op = op, .type = a.type(), .args = {a, b, c}});
}
}  // namespace

Expr fma(Expr a, Expr b, Expr c) { return fused(Op::Fma, a, b, c); }
Expr mul_add(Expr a, Expr b, Expr c) { return fused(Op::MulAdd, a, b, c); }

Expr dot(DotFn f, Expr a, Expr b, Expr sum) {
    unify(a, b, "dot");
    const int lanes = std::max(a.type().lanes, sum.type().lanes);
    a = broadcast(a, lanes), b = broadcast(b, lanes), sum = broadcast(sum, lanes);
    if (a.type().dtype != DType::I32 || sum.type().dtype != sum_type(f))
        misuse(fmt::format("{} of {} and {}", name(f), to_string(a.type()), to_string(sum.type())));
    if (a.type().is_vector() && is_broadcast(a) && is_broadcast(b) && is_broadcast(sum))
        return broadcast(dot(f, arg(a, 0), arg(b, 0), arg(sum, 0)), lanes);
    if (f == DotFn::U8S8x4) {
        int64_t x = 0, y = 0, s = 0;
        const bool lx = is_literal(a, &x), ly = is_literal(b, &y);
        if ((lx && x == 0) || (ly && y == 0)) return sum;
        if (lx && ly && is_literal(sum, &s)) return intern_literal(*a.program, DType::I32, fold_dot(x, y, s));
    }
    return a.program->intern({.op = Op::Dot, .fn = static_cast<uint8_t>(f), .type = sum.type(), .args = {sum, a, b}});
}

Expr scale(Expr x, Expr exponent) {
    unify(x, exponent, "scale");
    const DType t = x.type().dtype;
    if (t != DType::F32 && t != DType::F64) misuse(fmt::format("scale of {}", to_string(x.type())));
    if (x.type().is_vector() && is_broadcast(x) && is_broadcast(exponent))
        return broadcast(scale(arg(x, 0), arg(exponent, 0)), x.type().lanes);
    return x.program->intern({.op = Op::Scale, .type = x.type(), .args = {x, exponent}});
}

Expr cast(Expr x, DType t) {
    const DType from = x.type().dtype;
    if (from == t) return x;
    if (const auto narrow = before_widening(x, t)) return *narrow;
    if (is_broadcast(x)) return broadcast(cast(arg(x, 0), t), x.type().lanes);
    Program& p = *x.program;
    if (int64_t v; is_literal(x, &v)) {
        // Small integers are exact everywhere; larger ones are left to the emitter, which rounds once.
        const bool negative = v < 0 && !is_unsigned_int(from);
        if (t == DType::Bool) return literal_int(p, t, v != 0);
        if (is_float(t) && v <= (int64_t{1} << 53) && v >= -(int64_t{1} << 53) && (v >= 0 || negative))
            return literal(p, t, static_cast<double>(v));
        if (is_int(t) && wrap_to(t, v) == v && (!negative || is_signed_int(t)) &&
            (v >= 0 || !is_unsigned_int(from)))
            return literal_int(p, t, v);
    }
    if (double v; is_float_literal(x, &v)) {
        if (is_float(t)) return literal(p, t, v);
        if (t == DType::Bool) return literal_int(p, t, v != 0);
        if (std::fabs(v) < 9e15 && v >= lowest(t) && v <= highest(t)) return literal(p, t, v);
    }
    return p.intern({.op = Op::Cast, .type = x.type().with(t), .args = {x}});
}

Expr cast_normal(Expr x) {
    if (x.type().dtype != DType::F32) misuse(fmt::format("cast_normal of {}", to_string(x.type())));
    double v = 0;
    if (is_broadcast(x) || is_float_literal(x, &v) || before_widening(x, DType::BF16)) return cast(x, DType::BF16);
    return x.program->intern({.op = Op::Cast, .type = x.type().with(DType::BF16), .args = {x}, .payload = 1});
}

Expr wrap(Expr x, DType t) {
    const DType from = x.type().dtype;
    if (from == t) return x;
    if (is_float(from) || is_float(t)) misuse(fmt::format("wrap of {} to {}", to_string(x.type()), name(t)));
    if (is_broadcast(x)) return broadcast(wrap(arg(x, 0), t), x.type().lanes);
    if (int64_t v; is_literal(x, &v)) return literal_int(*x.program, t, t == DType::Bool ? v & 1 : v);
    return x.program->intern({.op = Op::Wrap, .type = x.type().with(t), .args = {x}});
}

Expr bitcast(Expr x, DType t) {
    const DType from = x.type().dtype;
    if (from == t) return x;
    if (size_of(from) != size_of(t) || from == DType::Bool || t == DType::Bool)
        misuse(fmt::format("bitcast of {} to {}", to_string(x.type()), name(t)));
    if (is_broadcast(x)) return broadcast(bitcast(arg(x, 0), t), x.type().lanes);
    if (node_of(x).op == Op::Bitcast) return bitcast(arg(x, 0), x.type().with(t));
    return x.program->intern({.op = Op::Bitcast, .type = x.type().with(t), .args = {x}});
}

Expr bitcast(Expr x, Type t) {
    const Type from = x.type();
    if (from.lanes == t.lanes) return bitcast(x, t.dtype);
    if (size_of(from.dtype) * from.lanes != size_of(t.dtype) * t.lanes || from.dtype == DType::Bool || t.dtype == DType::Bool)
        misuse(fmt::format("bitcast of {} to {}", to_string(from), to_string(t)));
    if (node_of(x).op == Op::Bitcast) return bitcast(arg(x, 0), t);
    return x.program->intern({.op = Op::Bitcast, .type = t, .args = {x}});
}

Expr broadcast(Expr x, int lanes) {
    if (x.type().lanes == lanes) return x;
    if (x.type().is_vector() || !is_power_of_two(lanes))
        misuse(fmt::format("broadcast of {} to {} lanes", to_string(x.type()), lanes));
    return x.program->intern({.op = Op::Broadcast, .type = x.type().with_lanes(lanes), .args = {x}});
}

Expr ramp(Expr base, int64_t stride, int lanes) {
    const Type t = base.type();
    if (t.is_vector() || !is_int(t.dtype)) misuse(fmt::format("ramp from {}", to_string(t)));
    if (lanes == 1) return base;
    if (stride == 0) return broadcast(base, lanes);
    return base.program->intern({.op = Op::Ramp, .type = t.with_lanes(lanes), .args = {base}, .payload = stride});
}

Expr first_lanes(Expr count, int lanes) {
    Program& p = *count.program;
    if (count.type() != Type{DType::I64, 1}) misuse(fmt::format("first_lanes of {}", to_string(count.type())));
    if (lanes == 1) return gt(count, like_int(count, 0));
    if (int64_t v; is_literal(count, &v) && (v <= 0 || v >= lanes))
        return broadcast(literal_int(p, DType::Bool, v > 0), lanes);
    return p.intern({.op = Op::FirstLanes, .type = Type{DType::Bool, 1}.with_lanes(lanes), .args = {count}});
}

Expr reduce_lanes(BinaryFn f, Expr x) {
    if (!x.type().is_vector()) return x;
    const bool idempotent = f == BinaryFn::Min || f == BinaryFn::Max || f == BinaryFn::And || f == BinaryFn::Or;
    if (!idempotent && f != BinaryFn::Add && f != BinaryFn::Mul) misuse(fmt::format("reduce_lanes by {}", name(f)));
    if (!applies(f, x.type().dtype)) misuse(fmt::format("reduce_lanes by {} of {}", name(f), to_string(x.type())));
    if (idempotent && is_broadcast(x)) return arg(x, 0);
    return x.program->intern(
        {.op = Op::ReduceLanes, .fn = static_cast<uint8_t>(f), .type = x.type().with_lanes(1), .args = {x}});
}

Expr extreme_of_numbers(BinaryFn f, Expr a, Expr b) {
    if ((f != BinaryFn::Min && f != BinaryFn::Max) || a.type() != b.type() || !is_float(a.type().dtype))
        misuse(fmt::format("{} of numbers that are {} and {}", name(f), to_string(a.type()), to_string(b.type())));
    return a.program->intern({.op = Op::Binary, .fn = static_cast<uint8_t>(f), .type = a.type(), .args = {a, b}, .payload = 1});
}
Expr reduce_lanes_of_numbers(BinaryFn f, Expr x) {
    if (f != BinaryFn::Min && f != BinaryFn::Max) misuse(fmt::format("reduce_lanes of numbers by {}", name(f)));
    const Expr r = reduce_lanes(f, x);
    Node n = x.program->node(r);
    if (n.op != Op::ReduceLanes) return r;
    n.payload = 1;
    return x.program->intern(n);
}

Expr extract(Expr x, int lane) {
    if (lane < 0 || lane >= x.type().lanes) misuse(fmt::format("lane {} of {}", lane, to_string(x.type())));
    if (!x.type().is_vector()) return x;
    if (is_broadcast(x)) return arg(x, 0);
    const Node n = node_of(x);
    if (n.op == Op::Ramp) return arg(x, 0) + n.payload * lane;
    return x.program->intern({.op = Op::Extract, .type = x.type().with_lanes(1), .args = {x}, .payload = lane});
}

Expr insert(Expr x, int lane, Expr scalar) {
    if (lane < 0 || lane >= x.type().lanes || scalar.type() != x.type().with_lanes(1))
        misuse(fmt::format("insert of {} as lane {} of {}", to_string(scalar.type()), lane, to_string(x.type())));
    if (!x.type().is_vector()) return scalar;
    return x.program->intern({.op = Op::Insert, .type = x.type(), .args = {x, scalar}, .payload = lane});
}

Expr lookup(Expr index, const LookupTable& table) {
    if (index.type().dtype != DType::I32) misuse(fmt::format("lookup by {}", to_string(index.type())));
    return index.program->intern({.op = Op::Lookup, .type = index.type().with(DType::F32), .args = {index},
                                  .payload = index.program->lookup_table(table)});
}

Expr permute_lanes(Expr x, const std::vector<int>& lanes) { return permute_lanes(x, {}, lanes); }

Expr permute_lanes(Expr x, Expr y, const std::vector<int>& lanes) {
    const int total = x.type().lanes + (y ? y.type().lanes : 0);
    if (y && y.type() != x.type()) misuse(fmt::format("shuffle of {} and {}", to_string(x.type()), to_string(y.type())));
    for (int l : lanes)
        if (l < 0 || l >= total) misuse(fmt::format("shuffle takes lane {} of {}", l, total));
    const int n = static_cast<int>(lanes.size());
    if (!is_power_of_two(n)) misuse(fmt::format("shuffle to {} lanes", n));
    if (n == 1) return lanes[0] < x.type().lanes ? extract(x, lanes[0]) : extract(y, lanes[0] - x.type().lanes);
    if (!y && is_broadcast(x)) return broadcast(scalar_of(x), n);
    if (!x.type().is_vector()) {  // scalars put together
        Expr r = broadcast(lanes[0] == 0 ? x : y, n);
        for (int i = 1; i < n; ++i) r = insert(r, i, lanes[static_cast<size_t>(i)] == 0 ? x : y);
        return r;
    }
    std::vector<int> identity(lanes.size());
    std::iota(identity.begin(), identity.end(), 0);
    if (lanes == identity && n == x.type().lanes) return x;
    return x.program->intern({.op = Op::Shuffle, .type = x.type().with_lanes(n), .args = {x, y},
                              .payload = x.program->shuffle_table(lanes)});
}

Expr reverse(Expr x) {
    std::vector<int> lanes(x.type().lanes);
    std::iota(lanes.rbegin(), lanes.rend(), 0);
    return permute_lanes(x, lanes);
}

Expr concat(Expr x, Expr y) {
    std::vector<int> lanes(2 * x.type().lanes);
    std::iota(lanes.begin(), lanes.end(), 0);
    return permute_lanes(x, y, lanes);
}

Expr slice(Expr x, int first, int lanes) {
    std::vector<int> taken(lanes);
    std::iota(taken.begin(), taken.end(), first);
    return permute_lanes(x, taken);
}

}  // namespace opwright::loop
