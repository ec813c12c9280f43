#include "target/cpu/lower/point.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using loop::BinaryFn;
using loop::UnaryFn;

int64_t Faults::code(std::string message) {
    auto it = std::find(messages.begin(), messages.end(), message);
    if (it != messages.end()) return it - messages.begin() + 1;
    messages.push_back(std::move(message));
    return static_cast<int64_t>(messages.size());
}

LExpr joint(LExpr a, LExpr b) {
    if (!a) return b;
    if (!b) return a;
    return loop::both(a, b);
}

void Point::bind(VarId v, LExpr value) { vars_[v] = value; }
void Point::set_lanes(VarId lane, int lanes, int positions, LExpr mask) {
    lane_ = lane;
    lanes_ = lanes;
    positions_ = positions;
    mask_ = mask;
}
void Point::restore(const Scope& s) {
    vars_ = s.vars;
    values_ = s.values;
    lane_ = s.lane;
    lanes_ = s.lanes;
    positions_ = s.positions;
    mask_ = s.mask;
}

namespace {
uint64_t key(ExprId e, int position) { return static_cast<uint64_t>(e) << 8 | static_cast<uint64_t>(position); }
constexpr int kUniform = 255;  // position under which values equal on all lanes are kept

UnaryFn unary_of(Fn f) {
    switch (f) {
        case Fn::Neg: return UnaryFn::Neg;
        case Fn::Abs: return UnaryFn::Abs;
        case Fn::Sign: return UnaryFn::Sign;
        case Fn::Floor: return UnaryFn::Floor;
        case Fn::Ceil: return UnaryFn::Ceil;
        case Fn::Round: return UnaryFn::Round;
        case Fn::Trunc: return UnaryFn::Trunc;
        case Fn::Sqrt: return UnaryFn::Sqrt;
        case Fn::Rsqrt: return UnaryFn::Rsqrt;
        case Fn::Exp: return UnaryFn::Exp;
        case Fn::Exp2: return UnaryFn::Exp2;
        case Fn::Expm1: return UnaryFn::Expm1;
        case Fn::Log: return UnaryFn::Log;
        case Fn::Log2: return UnaryFn::Log2;
        case Fn::Log1p: return UnaryFn::Log1p;
        case Fn::Sin: return UnaryFn::Sin;
        case Fn::Cos: return UnaryFn::Cos;
        case Fn::Tan: return UnaryFn::Tan;
        case Fn::Asin: return UnaryFn::Asin;
        case Fn::Acos: return UnaryFn::Acos;
        case Fn::Atan: return UnaryFn::Atan;
        case Fn::Sinh: return UnaryFn::Sinh;
        case Fn::Cosh: return UnaryFn::Cosh;
        case Fn::Tanh: return UnaryFn::Tanh;
        case Fn::Asinh: return UnaryFn::Asinh;
        case Fn::Acosh: return UnaryFn::Acosh;
        case Fn::Atanh: return UnaryFn::Atanh;
        case Fn::Erf: return UnaryFn::Erf;
        case Fn::Not:
        case Fn::BitNot: return UnaryFn::Not;
        case Fn::IsNan: return UnaryFn::IsNan;
        case Fn::IsInf: return UnaryFn::IsInf;
        default: throw std::logic_error("not a function of one argument");
    }
}
BinaryFn binary_of(Fn f) {
    switch (f) {
        case Fn::Add: return BinaryFn::Add;
        case Fn::Sub: return BinaryFn::Sub;
        case Fn::Mul: return BinaryFn::Mul;
        case Fn::Div: return BinaryFn::Div;
        case Fn::FloorDiv: return BinaryFn::FloorDiv;
        case Fn::Mod: return BinaryFn::Mod;
        case Fn::Fmod: return BinaryFn::FMod;
        case Fn::Pow: return BinaryFn::Pow;
        case Fn::Atan2: return BinaryFn::Atan2;
        case Fn::Min: return BinaryFn::Min;
        case Fn::Max: return BinaryFn::Max;
        case Fn::And:
        case Fn::BitAnd: return BinaryFn::And;
        case Fn::Or:
        case Fn::BitOr: return BinaryFn::Or;
        case Fn::Xor:
        case Fn::BitXor: return BinaryFn::Xor;
        case Fn::Shl: return BinaryFn::Shl;
        case Fn::Shr: return BinaryFn::Shr;
        case Fn::Eq: return BinaryFn::Eq;
        case Fn::Ne: return BinaryFn::Ne;
        case Fn::Lt: return BinaryFn::Lt;
        case Fn::Le: return BinaryFn::Le;
        case Fn::Gt: return BinaryFn::Gt;
        case Fn::Ge: return BinaryFn::Ge;
        default: throw std::logic_error("not a function of two arguments");
    }
}
}  // namespace

namespace {
// Of a quotient or a remainder by a positive number; 0 of anything else.
int64_t divisor(const Program& p, const math::Expr& e) {
    if (e.kind != ExprKind::Call || (e.fn != Fn::FloorDiv && e.fn != Fn::Mod)) return 0;
    const math::Expr& by = p.expr(e.args[1]);
    return by.kind == ExprKind::Literal && !is_float(by.dtype) ? std::max<int64_t>(by.integer, 0) : 0;
}
}  // namespace

LExpr Point::widen(LExpr v) {
    const DType t = v.type().dtype;
    return compute_type(t) == t ? v : loop::cast(v, compute_type(t));
}
LExpr Point::to_memory(LExpr v, DType memory) { return v.type().dtype == memory ? v : loop::cast(v, memory); }
LExpr Point::broadcast(LExpr v) { return v.type().is_vector() || lanes_ == 1 ? v : loop::broadcast(v, lanes_); }

LExpr Point::sym(const Sym& s) {
    if (auto c = s.constant()) return b_.i64(*c);
    if (s.kind() == SymKind::Symbol) return b_.symbol(s.symbol_name());
    const auto& o = s.operands();
    if (s.kind() == SymKind::Select) return loop::select(loop::ne(sym(o[0]), b_.i64(0)), sym(o[1]), sym(o[2]));
    LExpr r = sym(o[0]);
    for (size_t i = 1; i < o.size(); ++i) {
        const LExpr x = sym(o[i]);
        const LExpr one = b_.i64(1), zero = b_.i64(0);
        switch (s.kind()) {
            case SymKind::Add: r = r + x; break;
            case SymKind::Mul: r = r * x; break;
            case SymKind::FloorDiv: r = loop::floordiv(r, x); break;
            case SymKind::Mod: r = loop::mod(r, x); break;
            case SymKind::Min: r = loop::min(r, x); break;
            case SymKind::Max: r = loop::max(r, x); break;
            case SymKind::Less: r = loop::select(loop::lt(r, x), one, zero); break;
            case SymKind::Equal: r = loop::select(loop::eq(r, x), one, zero); break;
            case SymKind::Const:
            case SymKind::Symbol:
            case SymKind::Select: break;
        }
    }
    return r;
}

void Point::set_value(ExprId e, int position, LExpr v) {
    values_[key(e, v.type().is_vector() || lanes_ == 1 ? position : kUniform)] = v;
}

void Point::set_uniform(ExprId e, LExpr v) { values_[key(e, kUniform)] = v; }

LExpr Point::eval(ExprId e, int position) {
    if (auto it = values_.find(key(e, position)); it != values_.end()) return it->second;
    if (auto it = values_.find(key(e, kUniform)); it != values_.end()) return it->second;
    const Expr& x = p_.expr(e);
    LExpr r;
    switch (x.kind) {
        case ExprKind::Literal:
            return is_float(x.dtype) ? b_.literal(compute_type(x.dtype), x.number)
                                     : loop::literal_int(b_.program(), x.dtype, x.integer);
        case ExprKind::Size: return sym(x.sym);
        case ExprKind::Index: {
            const LExpr base = vars_.at(x.ref);
            if (x.ref != lane_ || lanes_ == 1)
                r = base;
            else
                r = loop::ramp(base + static_cast<int64_t>(position) * lanes_, 1, lanes_);
            break;
        }
        case ExprKind::Load: r = load(e, position); break;
        case ExprKind::Inside: r = inside(e, position); break;
        case ExprKind::Call: r = call(x, position); break;
        case ExprKind::Cast:
        case ExprKind::Wrap:
        case ExprKind::Bitcast: r = convert(x, position); break;
        case ExprKind::Reduce: throw std::logic_error("a reduction is used before it is computed");
        case ExprKind::Scan: throw std::logic_error("a scan inside an expression");
    }
    set_value(e, position, r);
    return r;
}

LExpr Point::call(const Expr& x, int position) {
    if (const auto digits = x.fn == Fn::Mod && lanes_ > 1 && aligned_ ? lane_digits(x) : std::nullopt)
        return loop::permute_lanes(loop::ramp(b_.i64(0), 1, lanes_), *digits);
    std::vector<LExpr> a;
    for (ExprId y : x.args) a.push_back(eval(y, position));
    if (a.size() == 1) return loop::unary(unary_of(x.fn), a[0]);
    if (a.size() == 2) return loop::binary(binary_of(x.fn), a[0], a[1]);
    if (a[0].type().is_vector() || a[1].type().is_vector() || a[2].type().is_vector())
        for (LExpr& v : a) v = broadcast(v);
    return loop::select(a[0], a[1], a[2]);
}

LExpr Point::convert(const Expr& x, int position) {
    const LExpr v = eval(x.args[0], position);
    const DType from = p_.expr(x.args[0]).dtype;
    if (x.kind == ExprKind::Wrap) return loop::wrap(v, x.dtype);
    if (x.kind == ExprKind::Bitcast) return widen(loop::bitcast(to_memory(v, from), x.dtype));
    return widen(loop::cast(v, x.dtype));  // an explicit conversion to a 16-bit float rounds
}

// ---- addresses
// -------------------------------------------------------------------------------------------------------

Point::Index Point::index(ExprId e, const Sym& extent, int position) {
    Index r;
    if (const auto f = affine(p_, e)) {
        r.base = sym(f->offset);
        Sym low = f->offset, high = f->offset;
        for (const auto& [v, c] : f->terms) {
            r.base = r.base + vars_.at(v) * sym(c);
            if (int64_t at = 0; v != lane_ && loop::is_literal(vars_.at(v), &at)) {  // a loop that is written out
                low = low + c * Sym(at);
                high = high + c * Sym(at);
                continue;
            }
            const Sym last = c * (p_.vars[v].extent - Sym(1));
            if (c.lower() >= 0)
                high = high + last;
            else if (c.upper() <= 0)
                low = low + last;
            else
                low = Sym::symbol("?", INT64_MIN), high = low;
            if (v == lane_ && lanes_ > 1) {
                r.step = c;
                r.base = r.base + sym(c) * (static_cast<int64_t>(position) * lanes_);
            }
        }
        r.not_before = low.lower() >= 0;
        r.not_past = (extent - Sym(1) - high).lower() >= 0;
        r.known_inside = r.not_before && r.not_past;
        return r;
    }
    r.from_data = true;
    r.reads = !p_.reads(e).empty();
    const Expr& x = p_.expr(e);
    if (const int64_t by = divisor(p_, x); by > 0 && !r.reads) {
        r.at_launch = x.fn == Fn::FloorDiv && affine(p_, x.args[0]).has_value();
        r.known_inside = r.not_before = r.not_past = x.fn == Fn::Mod && (extent - Sym(by)).lower() >= 0;
    }
    const LExpr v = eval(e, position);
    if (v.type().is_vector())
        r.vector = v;
    else
        r.base = v;
    return r;
}

LExpr Point::as_value(const Index& i) {
    if (i.vector) return i.vector;
    if (i.step.is(0)) return i.base;
    if (auto c = i.step.constant()) return loop::ramp(i.base, *c, lanes_);
    return loop::broadcast(i.base, lanes_) + loop::ramp(b_.i64(0), 1, lanes_) * loop::broadcast(sym(i.step), lanes_);
}

// Lanes of a linear index that lie inside, as scalar counts: cheaper than comparing vectors of 64-bit indices.
void Point::lane_range(const Index& i, const Sym& extent, Address& a) {
    const auto c = i.step.constant();
    if (!c || *c <= 0) {
        const LExpr v = as_value(i), zero = loop::broadcast(b_.i64(0), lanes_);
        a.lane_condition =
            joint(a.lane_condition, loop::both(loop::ge(v, zero), loop::lt(v, loop::broadcast(sym(extent), lanes_))));
        return;
    }
    if (!i.not_past)  // up to the first lane past the end
        a.lane_condition =
            joint(a.lane_condition, loop::first_lanes(loop::ceildiv(sym(extent) - i.base, *c), lanes_));
    if (!i.not_before)  // from the first lane inside
        a.lane_condition =
            joint(a.lane_condition, loop::negate(loop::first_lanes(loop::ceildiv(-i.base, *c), lanes_)));
}

void Point::require_inside(Index& i, const Sym& extent, Address& a, bool report, const std::string& what) {
    if (!i.vector && !i.step.is(0)) {
        if (!interior_) lane_range(i, extent, a);
        return;
    }
    if (whole_inside_ && !i.vector && !i.from_data) return;
    if (whole_inside_ && !i.vector && !report && !i.reads) return;
    const LExpr v = i.vector ? i.vector : i.base;
    LExpr ok;
    if (!i.not_before) ok = loop::ge(v, v.type().is_vector() ? broadcast(b_.i64(0)) : b_.i64(0));
    if (!i.not_past) ok = joint(ok, loop::lt(v, v.type().is_vector() ? broadcast(sym(extent)) : sym(extent)));
    if (report) {
        LExpr bad = loop::negate(ok);
        if (bad.type().is_vector()) {
            if (mask_) bad = loop::both(bad, mask_);
            bad = loop::reduce_lanes(BinaryFn::Or, bad);
        }
        const int64_t code = faults_.code(what);
        b_.if_(bad, [&] { b_.set_error(code); });
    }
    if (v.type().is_vector())
        a.lane_condition = joint(a.lane_condition, ok);
    else
        a.scalar_condition = joint(a.scalar_condition, ok);
}

void Point::fold_back(Index& i, const Sym& extent, Outside outside) {
    LExpr v = as_value(i);
    const auto lift = [&](LExpr s) { return v.type().is_vector() ? broadcast(s) : s; };
    const LExpr n = lift(sym(extent)), zero = lift(b_.i64(0)), one = lift(b_.i64(1)), two = lift(b_.i64(2));
    switch (outside) {
        case Outside::Clamp: v = loop::max(loop::min(v, n - one), zero); break;
        case Outside::Wrap: v = loop::mod(v, n); break;
        case Outside::Reflect: {  // ... 2 1 [0 1 2 3] 2 1 ...: period 2(n-1); n == 1 gives 0, since x % 0 is 0
            const LExpr period = two * (n - one), m = loop::mod(v, period);
            v = loop::min(m, period - m);
            break;
        }
        case Outside::Mirror: {  // ... 1 0 [0 1 2 3] 3 2 ...: period 2n
            const LExpr period = two * n, m = loop::mod(v, period);
            v = loop::min(m, period - one - m);
            break;
        }
        case Outside::Error:
        case Outside::Value: break;
    }
    i = Index{};
    if (v.type().is_vector())
        i.vector = v;
    else
        i.base = v;
}

Point::Address Point::address(TensorId t, const ExprId* at, Outside outside, int position, const std::string& what) {
    const Storage& s = storage_[t];
    const auto& shape = p_.tensors[t].shape;
    Address a;
    a.offset = b_.i64(0);
    Sym step = 0;
    LExpr vector;  // sum of the vector parts
    for (size_t d = 0; d < shape.size(); ++d) {
        if (s.strides[d].is(0)) continue;  // the nest holds one point of this dim: the index is that point
        Index i = index(at[d], shape[d], position);
        if (!i.known_inside) {
            switch (outside) {
                case Outside::Error:  // affine indices are checked at launch
                    if (i.from_data && !i.at_launch) require_inside(i, shape[d], a, true, what);
                    break;
                case Outside::Value: require_inside(i, shape[d], a, false, what); break;
                case Outside::Clamp:
                case Outside::Wrap:
                case Outside::Reflect:
                case Outside::Mirror: fold_back(i, shape[d], outside); break;
            }
        }
        const LExpr stride = sym(s.strides[d]);
        if (i.vector) {
            if (!s.origin.empty() && s.origin[d]) i.vector = i.vector - broadcast(s.origin[d]);
            const LExpr part = s.strides[d].is(1) ? i.vector : i.vector * broadcast(stride);
            vector = vector ? vector + part : part;
        } else {
            LExpr base = i.base;
            if (!s.origin.empty() && s.origin[d]) base = base - s.origin[d];
            a.offset = a.offset + base * stride;
            step = step + i.step * s.strides[d];
        }
    }
    if (vector) {
        LExpr linear = broadcast(a.offset);
        if (!step.is(0)) linear = as_value(Index{.base = a.offset, .step = step});
        a.offsets = vector + linear;
    } else if (auto c = step.constant()) {
        a.step = c;
    } else {
        a.offsets = as_value(Index{.base = a.offset, .step = step});
    }
    return a;
}

LExpr Point::load(ExprId e, int position) {
    const Expr& x = p_.expr(e);
    const TensorInfo& t = p_.tensors[x.ref];
    if (lanes_ > 1 && aligned_)
        if (const auto v = patterned(x, position)) return widen(b_.let(t.name, *v));
    const std::string what =
        fmt::format("{}: an index of {}[{}] lies outside the tensor", p_.name, t.name, p_.print(e));
    Address a = address(x.ref, x.args.data(), x.outside, position, what);
    const loop::BufferId buffer = storage_[x.ref].buffer;
    LExpr v, condition;
    if (a.step == 0 && !a.lane_condition) {
        condition = a.scalar_condition;
        v = b_.load(buffer, a.offset, 1, condition);
    } else if (lanes_ == 1) {
        condition = joint(a.scalar_condition, a.lane_condition);
        v = b_.load(buffer, a.offset, 1, condition);
    } else {
        condition = a.lane_condition;
        if (a.scalar_condition) condition = joint(condition, loop::broadcast(a.scalar_condition, lanes_));
        const LExpr guard = joint(condition, mask_);
        if (a.step == 1) {
            v = b_.load(buffer, a.offset, lanes_, guard);
            if (!guard && !shared_.count(v.id)) prefetch(x, a.offset, position);
        } else if (a.step && *a.step != 0)
            v = b_.load_strided(buffer, a.offset, *a.step, lanes_, guard);
        else
            v = b_.gather(buffer, a.offsets ? a.offsets : loop::broadcast(a.offset, lanes_), guard);
    }
    if (sharing_) {
        const auto [known, fresh] = shared_.emplace(v.id, v);
        if (fresh) known->second = b_.let(t.name, v);
        v = widen(known->second);
    } else {
        v = widen(b_.let(t.name, v));
    }
    if (condition && x.outside == Outside::Value) {
        const ExprId fill = x.args.back();
        const Expr& f = p_.expr(fill);
        const bool zero = f.kind == ExprKind::Literal && f.integer == 0 && f.number == 0 && !std::signbit(f.number);
        if (!zero) {  // lanes that are not read are zero already
            LExpr other = eval(fill, position);
            if (v.type().is_vector() || other.type().is_vector() || condition.type().is_vector()) {
                v = broadcast(v);
                other = broadcast(other);
                condition = broadcast(condition);
            }
            v = loop::select(condition, v, other);
        }
    }
    return v;
}

// Pages ahead: the processor's own prefetching ends with a page, and a kernel that computes much on each element would wait
// at the start of the next one. Of what is read once every second line is enough, since reading goes on to its neighbour:
// a sum of rows in memory got half as much again from it as with every line asked for. Rows that are read several times are
// there as a whole when their turn comes, unless two of them would crowd the second-level cache.
void Point::prefetch(const Expr& x, LExpr offset, int position) {
    constexpr int64_t kLine = 64, kPage = 4096, kLongRow = 512 << 10;
    if (!ahead_ || std::find(ahead_->tensors.begin(), ahead_->tensors.end(), x.ref) == ahead_->tensors.end()) return;
    const Storage& s = storage_[x.ref];
    const bool once = std::find(ahead_->once.begin(), ahead_->once.end(), x.ref) != ahead_->once.end();
    const int64_t step = once ? 2 * kLine : kLine;
    const auto element = static_cast<int64_t>(size_of(s.dtype)), vector = element * lanes_;
    if (vector < step && position * vector % step != 0) return;  // the line of an earlier position
    const LExpr least = b_.i64(ahead_->pages * kPage / element);
    LExpr distance = least;
    if (ahead_->row != kNone) {
        Sym next = 0;
        for (size_t d = 0; d < s.strides.size(); ++d) {
            const auto f = affine(p_, x.args[d]);
            if (!f) return;
            next = next + f->coefficient(ahead_->row) * s.strides[d];
        }
        if (next.upper() < 1) return;
        const LExpr n = sym(next);
        if (ahead_->side > 0 && next == p_.vars[lane_].extent) {
            if (ahead_->at == 0) side_[x.ref] = b_.let("side", offset + variable(lane_) * (ahead_->side - 1));
            if (ahead_->at * vector % step != 0) return;
            offset = side_.at(x.ref) + ahead_->at * lanes_;
        }
        if (ahead_->near)
            distance = least;
        else if (ahead_->first)
            distance = loop::select(loop::le(ahead_->first + 2 * ahead_->rows, sym(p_.vars[ahead_->row].extent)),
                                    n * ahead_->rows, b_.i64(ahead_->task) - ahead_->first * n);
        else if (ahead_->rows > 0)
            distance = n * ahead_->rows;
        else
            distance = loop::select(loop::gt(n, b_.i64(kLongRow / element)), least,
                                    loop::floordiv(least - 1 + n, n) * n);
    }
    // Where nothing is to be asked for, the vector before this one: it is at hand.
    distance = loop::select(loop::ne(b_.symbol(kAheadSymbol), b_.i64(0)), distance, b_.i64(-lanes_));
    for (int64_t at = 0; at < std::max(vector, step); at += step)
        b_.prefetch(s.buffer, offset + distance + at / element, false, !ahead_->near);
}

LExpr Point::place(const Equation& q) { return address(q.lhs, q.at.data(), Outside::Error, 0, "").offset; }

LExpr Point::inside(ExprId e, int position) {
    const Expr& x = p_.expr(e);
    Address a;
    for (size_t d = 0; d < x.args.size(); ++d) {
        const Sym& extent = p_.tensors[x.ref].shape[d];
        Index i = index(x.args[d], extent, position);
        if (!i.known_inside) require_inside(i, extent, a, false, "");
    }
    if (!a.lane_condition && !a.scalar_condition) return b_.boolean(true);
    if (!a.lane_condition) return a.scalar_condition;
    if (!a.scalar_condition) return a.lane_condition;
    return joint(a.lane_condition, broadcast(a.scalar_condition));
}

void Point::store(const Equation& q, LExpr value, int position) {
    const Storage& s = storage_[q.lhs];
    const std::string what = fmt::format("{}: an index of {} lies outside the tensor", p_.name, p_.tensors[q.lhs].name);
    // What is known of reads says nothing about where an update goes.
    const bool interior = std::exchange(interior_, false), whole = std::exchange(whole_inside_, false);
    Address a = address(q.lhs, q.at.data(), q.outside, position, what);
    interior_ = interior;
    whole_inside_ = whole;
    const auto combine = [&](LExpr old) {
        switch (q.update) {
            case Update::Set:
            case Update::Overwrite: return value;
            case Update::Add: return widen(old) + value;
            case Update::Mul: return widen(old) * value;
            case Update::Max: return loop::max(widen(old), value);
            case Update::Min: return loop::min(widen(old), value);
        }
        return value;
    };
    const bool reads = q.update != Update::Set && q.update != Update::Overwrite;
    if (lanes_ == 1) {
        const auto write = [&] {
            const LExpr v = reads ? combine(b_.let("old", b_.load(s.buffer, a.offset))) : value;
            b_.store(s.buffer, a.offset, to_memory(v, s.dtype));
        };
        const LExpr condition = joint(a.scalar_condition, a.lane_condition);
        if (condition)
            b_.if_(condition, write);
        else
            write();
        return;
    }
    LExpr guard = a.lane_condition;
    if (a.scalar_condition) guard = joint(guard, loop::broadcast(a.scalar_condition, lanes_));
    guard = joint(guard, mask_);
    value = broadcast(value);
    const LExpr offsets = a.offsets ? a.offsets : a.step == 0 ? loop::broadcast(a.offset, lanes_) : LExpr{};
    if (reads) {
        LExpr old;
        if (offsets)
            old = b_.gather(s.buffer, offsets, guard);
        else if (a.step == 1)
            old = b_.load(s.buffer, a.offset, lanes_, guard);
        else
            old = b_.load_strided(s.buffer, a.offset, *a.step, lanes_, guard);
        value = combine(b_.let("old", old));
    }
    value = to_memory(value, s.dtype);
    if (offsets)
        b_.scatter(s.buffer, offsets, value, guard);
    else if (a.step == 1 && streaming_ && !guard)
        b_.store_streaming(s.buffer, a.offset, value);
    else if (a.step == 1)
        b_.store(s.buffer, a.offset, value, guard);
    else
        b_.store_strided(s.buffer, a.offset, *a.step, value, guard);
}

}  // namespace opwright::target::cpu
