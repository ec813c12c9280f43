#include "math/program.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace opwright::math {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdull;
    return h ^ (h >> 33);
}
uint64_t hash_of(const Expr& e) {
    uint64_t h = mix(static_cast<uint64_t>(e.kind), static_cast<uint64_t>(e.dtype));
    h = mix(h, static_cast<uint64_t>(e.fn) | static_cast<uint64_t>(e.reduce) << 8 |
                   static_cast<uint64_t>(e.outside) << 16 | static_cast<uint64_t>(e.exclusive) << 24 |
                   static_cast<uint64_t>(e.backward) << 25);
    h = mix(h, e.ref);
    h = mix(h, std::bit_cast<uint64_t>(e.number));
    h = mix(h, static_cast<uint64_t>(e.integer));
    h = mix(h, e.sym.hash());
    for (ExprId a : e.args) h = mix(h, a);
    for (VarId v : e.vars) h = mix(h, v + 0x1000000u);
    return h;
}
bool same(const Expr& a, const Expr& b) {
    return a.kind == b.kind && a.dtype == b.dtype && a.fn == b.fn && a.reduce == b.reduce && a.outside == b.outside &&
           a.exclusive == b.exclusive && a.backward == b.backward && a.ref == b.ref &&
           std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number) && a.integer == b.integer &&
           a.sym == b.sym && a.args == b.args && a.vars == b.vars;
}
double round_to(double v, DType t) {
    switch (t) {
        case DType::F32: return static_cast<float>(v);
        case DType::F16: return f16_to_f32(f64_to_f16(v));
        case DType::BF16: return bf16_to_f32(f64_to_bf16(v));
        default: return v;
    }
}
}  // namespace

TensorId Program::add_tensor(std::string n, DType t, std::vector<Sym> shape, Role role) {
    const auto id = static_cast<TensorId>(tensors.size());
    tensors.push_back({std::move(n), t, std::move(shape), role, {}});
    if (role == Role::Input) inputs.push_back(id);
    if (role == Role::Output) outputs.push_back(id);
    return id;
}
TensorId Program::add_constant(std::string n, Tensor data) {
    std::vector<Sym> shape(data.shape().begin(), data.shape().end());
    const TensorId id = add_tensor(std::move(n), data.dtype(), std::move(shape), Role::Constant);
    tensors[id].data = std::move(data);
    return id;
}
VarId Program::add_var(std::string n, Sym extent) {
    vars.push_back({std::move(n), std::move(extent)});
    return static_cast<VarId>(vars.size() - 1);
}

ExprId Program::intern(Expr e) {
    const uint64_t h = hash_of(e);
    for (auto [it, end] = interned_.equal_range(h); it != end; ++it)
        if (same(pool_[it->second], e)) return it->second;
    const auto id = static_cast<ExprId>(pool_.size());
    pool_.push_back(std::move(e));
    interned_.emplace(h, id);
    return id;
}

ExprId Program::literal(double v, DType t) {
    if (!is_float(t)) return integer(saturate_to(v, t), t);
    return intern({.kind = ExprKind::Literal, .dtype = t, .number = round_to(v, t)});
}
ExprId Program::integer(int64_t v, DType t) {
    if (is_float(t)) return literal(static_cast<double>(v), t);
    return intern({.kind = ExprKind::Literal, .dtype = t, .integer = wrap_to(v, t)});
}
ExprId Program::index(VarId v) { return intern({.kind = ExprKind::Index, .dtype = DType::I64, .ref = v}); }
ExprId Program::size(const Sym& s) {
    if (auto c = s.constant()) return integer(*c);
    return intern({.kind = ExprKind::Size, .dtype = DType::I64, .sym = s});
}
ExprId Program::load(TensorId t, std::vector<ExprId> at, Outside outside, ExprId fill) {
    assert(at.size() == tensors[t].shape.size());
    Expr e{.kind = ExprKind::Load, .dtype = tensors[t].dtype, .outside = outside, .ref = t, .args = std::move(at)};
    if (outside == Outside::Value) e.args.push_back(fill);
    return intern(std::move(e));
}
ExprId Program::inside(TensorId t, std::vector<ExprId> at) {
    return intern({.kind = ExprKind::Inside, .dtype = DType::Bool, .ref = t, .args = std::move(at)});
}
bool Program::is_integer_literal(ExprId e, int64_t v) const {
    const Expr& x = pool_[e];
    return x.kind == ExprKind::Literal && !is_float(x.dtype) && x.integer == v;
}

namespace {
std::optional<Sym> as_sym(const Expr& e) {
    if (e.dtype != DType::I64) return std::nullopt;
    if (e.kind == ExprKind::Size) return e.sym;
    if (e.kind == ExprKind::Literal) return Sym(e.integer);
    return std::nullopt;
}
// Integer functions of symbolic integers that stay symbolic integers.
std::optional<Sym> fold_sym(Fn f, const std::vector<Sym>& a) {
    switch (f) {
        case Fn::Neg: return -a[0];
        case Fn::Add: return a[0] + a[1];
        case Fn::Sub: return a[0] - a[1];
        case Fn::Mul: return a[0] * a[1];
        case Fn::FloorDiv: return a[1].lower() > 0 ? std::optional(floor_div(a[0], a[1])) : std::nullopt;
        case Fn::Div:  // truncation is floor where both are known not to be negative
            return a[1].lower() > 0 && a[0].lower() >= 0 ? std::optional(floor_div(a[0], a[1])) : std::nullopt;
        case Fn::Mod: return a[1].lower() > 0 ? std::optional(mod(a[0], a[1])) : std::nullopt;
        case Fn::Min: return min(a[0], a[1]);
        case Fn::Max: return max(a[0], a[1]);
        default: return std::nullopt;
    }
}
// Comparisons of symbolic integers that are decided already.
std::optional<bool> decide(Fn f, const Sym& a, const Sym& b) {
    const auto known = [](const Sym& s) -> std::optional<bool> {
        if (auto c = s.constant()) return *c != 0;
        return std::nullopt;
    };
    const auto negate = [](std::optional<bool> v) { return v ? std::optional(!*v) : v; };
    switch (f) {
        case Fn::Eq: return known(equal(a, b));
        case Fn::Ne: return negate(known(equal(a, b)));
        case Fn::Lt: return known(less(a, b));
        case Fn::Gt: return known(less(b, a));
        case Fn::Ge: return negate(known(less(a, b)));
        case Fn::Le: return negate(known(less(b, a)));
        default: return std::nullopt;
    }
}
}  // namespace

ExprId Program::call(Fn f, std::vector<ExprId> args) {
    const FnInfo& fi = info(f);
    assert(args.size() == fi.arity);
    const DType operand = pool_[args[f == Fn::Select ? 1 : 0]].dtype;
    const DType result = fi.bool_result ? DType::Bool : operand;
    const auto literal_at = [&](size_t i) { return pool_[args[i]].kind == ExprKind::Literal; };

    if (f == Fn::Select) {
        if (literal_at(0)) return args[pool_[args[0]].integer ? 1 : 2];
        if (args[1] == args[2]) return args[1];
    } else if (std::all_of(args.begin(), args.end(), [&](ExprId a) { return pool_[a].kind == ExprKind::Literal; })) {
        if (is_float(operand)) {
            std::vector<double> v;
            for (ExprId a : args) v.push_back(pool_[a].number);
            const double r = math::apply(f, v);
            return result == DType::Bool ? integer(r != 0, DType::Bool) : literal(r, result);
        }
        std::vector<int64_t> v;
        for (ExprId a : args) v.push_back(pool_[a].integer);
        return integer(apply_int(f, v, operand), result);
    }

    if (!is_float(operand) && f != Fn::Select) {
        std::vector<Sym> syms;
        for (ExprId a : args)
            if (auto s = as_sym(pool_[a])) syms.push_back(*s);
        if (syms.size() == args.size()) {
            if (auto s = fold_sym(f, syms)) return size(*s);
            if (syms.size() == 2)
                if (auto d = decide(f, syms[0], syms[1])) return integer(*d, DType::Bool);
        }
        switch (f) {  // identities that are exact on integers
            case Fn::Add:
                if (is_integer_literal(args[0], 0)) return args[1];
                if (is_integer_literal(args[1], 0)) return args[0];
                break;
            case Fn::Sub:
                if (is_integer_literal(args[1], 0)) return args[0];
                if (args[0] == args[1]) return integer(0, operand);
                break;
            case Fn::Mul:
                if (is_integer_literal(args[0], 1)) return args[1];
                if (is_integer_literal(args[1], 1)) return args[0];
                if (is_integer_literal(args[0], 0)) return args[0];
                if (is_integer_literal(args[1], 0)) return args[1];
                break;
            case Fn::Div: case Fn::FloorDiv:
                if (is_integer_literal(args[1], 1)) return args[0];
                break;
            case Fn::And:
                if (literal_at(0)) return pool_[args[0]].integer ? args[1] : args[0];
                if (literal_at(1)) return pool_[args[1]].integer ? args[0] : args[1];
                break;
            case Fn::Or:
                if (literal_at(0)) return pool_[args[0]].integer ? args[0] : args[1];
                if (literal_at(1)) return pool_[args[1]].integer ? args[1] : args[0];
                break;
            default: break;
        }
    }
    if ((f == Fn::Neg || f == Fn::Not || f == Fn::BitNot) && pool_[args[0]].kind == ExprKind::Call && pool_[args[0]].fn == f)
        return pool_[args[0]].args[0];
    return intern({.kind = ExprKind::Call, .dtype = result, .fn = f, .args = std::move(args)});
}

ExprId Program::cast(ExprId e, DType t) {
    const Expr& x = pool_[e];
    if (x.dtype == t) return e;
    if (x.kind == ExprKind::Literal) {
        if (is_float(x.dtype)) return literal(x.number, t);
        if (is_float(t)) {
            return literal(x.dtype == DType::U64 ? static_cast<double>(static_cast<uint64_t>(x.integer))
                                                 : static_cast<double>(x.integer), t);
        }
        if (x.dtype != DType::U64 && t != DType::U64 && t != DType::Bool) {
            const double v = static_cast<double>(x.integer);
            if (std::fabs(v) < 0x1p52) return literal(v, t);
        }
    }
    return intern({.kind = ExprKind::Cast, .dtype = t, .args = {e}});
}
ExprId Program::wrap(ExprId e, DType t) {
    const Expr& x = pool_[e];
    if (x.dtype == t) return e;
    if (x.kind == ExprKind::Literal) return integer(x.integer, t);
    return intern({.kind = ExprKind::Wrap, .dtype = t, .args = {e}});
}
ExprId Program::bitcast(ExprId e, DType t) {
    if (pool_[e].dtype == t) return e;
    return intern({.kind = ExprKind::Bitcast, .dtype = t, .args = {e}});
}
ExprId Program::reduce(ReduceOp op, std::vector<VarId> over, ExprId body, DType accumulate, ExprId condition) {
    Expr e{.kind = ExprKind::Reduce, .dtype = accumulate, .reduce = op, .args = {body}, .vars = std::move(over)};
    if (condition != kNone && !is_integer_literal(condition, 1)) e.args.push_back(condition);
    return intern(std::move(e));
}
ExprId Program::scan(ReduceOp op, VarId along, ExprId body, bool exclusive, bool backward) {
    return intern({.kind = ExprKind::Scan, .dtype = pool_[body].dtype, .reduce = op, .exclusive = exclusive,
                   .backward = backward, .args = {body}, .vars = {along}});
}

void Program::add_equation(TensorId lhs, std::vector<ExprId> at, ExprId rhs, Update u, Outside outside, Span span) {
    Equation q{lhs, std::move(at), outside, u, rhs, {}, std::move(span)};
    const auto add = [&q](const std::vector<VarId>& vs) {
        for (VarId v : vs)
            if (std::find(q.vars.begin(), q.vars.end(), v) == q.vars.end()) q.vars.push_back(v);
    };
    for (ExprId a : q.at) add(free_vars(a));
    if (u != Update::Set) add(free_vars(rhs));
    equations.push_back(std::move(q));
}

namespace {
// Visits every node reachable from e once, children first.
template <class F>
void walk(const Program& p, ExprId root, std::vector<bool>& seen, F&& f) {
    std::vector<std::pair<ExprId, size_t>> stack{{root, 0}};
    if (seen[root]) return;
    seen[root] = true;
    while (!stack.empty()) {
        auto& [e, next] = stack.back();
        const Expr& x = p.expr(e);
        if (next < x.args.size()) {
            const ExprId child = x.args[next++];
            if (!seen[child]) {
                seen[child] = true;
                stack.push_back({child, 0});
            }
        } else {
            f(e, x);
            stack.pop_back();
        }
    }
}
}  // namespace

std::vector<VarId> Program::free_vars(ExprId e) const {
    std::vector<bool> seen(pool_.size());
    std::vector<VarId> all, bound, r;
    walk(*this, e, seen, [&](ExprId, const Expr& x) {
        if (x.kind == ExprKind::Index) all.push_back(x.ref);
        if (x.kind == ExprKind::Reduce) bound.insert(bound.end(), x.vars.begin(), x.vars.end());
    });
    for (VarId v : all)  // a variable is either bound or free in a well-formed program, never both (see verify)
        if (std::find(bound.begin(), bound.end(), v) == bound.end()) r.push_back(v);
    return r;
}
std::vector<TensorId> Program::reads(ExprId e) const {
    std::vector<bool> seen(pool_.size());
    std::vector<TensorId> r;
    walk(*this, e, seen, [&](ExprId, const Expr& x) {
        if (x.kind == ExprKind::Load && std::find(r.begin(), r.end(), x.ref) == r.end()) r.push_back(x.ref);
    });
    return r;
}

std::vector<std::string> Program::symbols() const {
    std::vector<std::string> r;
    for (const TensorInfo& t : tensors)
        for (const Sym& s : t.shape) collect_symbols(s, r);
    for (const Var& v : vars) collect_symbols(v.extent, r);
    std::vector<bool> seen(pool_.size());
    for (const Equation& q : equations) {
        const auto add = [&](ExprId, const Expr& x) {
            if (x.kind == ExprKind::Size) collect_symbols(x.sym, r);
        };
        for (ExprId a : q.at) walk(*this, a, seen, add);
        walk(*this, q.rhs, seen, add);
    }
    for (const Requirement& q : requirements) collect_symbols(q.value, r);
    return r;
}

Sym Affine::coefficient(VarId v) const {
    for (auto& [w, c] : terms)
        if (w == v) return c;
    return 0;
}

std::optional<Affine> affine(const Program& p, ExprId id) {
    const Expr& e = p.expr(id);
    const auto combine = [](Affine a, const Affine& b, const Sym& scale) {
        for (auto& [v, c] : b.terms) {
            auto it = std::find_if(a.terms.begin(), a.terms.end(), [&](auto& t) { return t.first == v; });
            if (it == a.terms.end()) a.terms.emplace_back(v, c * scale);
            else it->second = it->second + c * scale;
        }
        std::erase_if(a.terms, [](auto& t) { return t.second.is(0); });
        a.offset = a.offset + b.offset * scale;
        return a;
    };
    if (e.dtype != DType::I64) return std::nullopt;
    switch (e.kind) {
        case ExprKind::Literal: return Affine{{}, Sym(e.integer)};
        case ExprKind::Size: return Affine{{}, e.sym};
        case ExprKind::Index: return Affine{{{e.ref, Sym(1)}}, Sym(0)};
        case ExprKind::Call: {
            if (e.fn != Fn::Add && e.fn != Fn::Sub && e.fn != Fn::Mul && e.fn != Fn::Neg) return std::nullopt;
            auto a = affine(p, e.args[0]);
            if (!a) return std::nullopt;
            if (e.fn == Fn::Neg) return combine({}, *a, -1);
            auto b = affine(p, e.args[1]);
            if (!b) return std::nullopt;
            if (e.fn == Fn::Add) return combine(*a, *b, 1);
            if (e.fn == Fn::Sub) return combine(*a, *b, -1);
            if (a->terms.empty()) return combine({}, *b, a->offset);
            if (b->terms.empty()) return combine({}, *a, b->offset);
            return std::nullopt;
        }
        case ExprKind::Load: case ExprKind::Inside: case ExprKind::Cast: case ExprKind::Wrap: case ExprKind::Bitcast:
        case ExprKind::Reduce: case ExprKind::Scan:
            return std::nullopt;
    }
    return std::nullopt;
}

VarId Rewriter::bind(VarId v) {
    auto it = bound.find(v);
    if (it != bound.end()) return it->second;
    const VarId n = into.add_var(from.vars[v].name, substitute(from.vars[v].extent, symbols));
    bound.emplace(v, n);
    return n;
}

ExprId Rewriter::operator()(ExprId id) {
    if (auto it = memo.find(id); it != memo.end()) return it->second;
    const auto rebuild = [&]() -> ExprId {
        if (replace)
            if (ExprId r = replace(*this, id); r != kNone) return r;
        const Expr e = from.expr(id);  // a copy: `into` may be `from`, whose pool grows below
        std::vector<VarId> vs;
        if (e.kind == ExprKind::Reduce)
            for (VarId v : e.vars) vs.push_back(bind(v));
        std::vector<ExprId> a;
        for (ExprId x : e.args) a.push_back((*this)(x));
        switch (e.kind) {
            case ExprKind::Literal:
                return is_float(e.dtype) ? into.literal(e.number, e.dtype) : into.integer(e.integer, e.dtype);
            case ExprKind::Index: {
                if (auto b = bound.find(e.ref); b != bound.end()) return into.index(b->second);
                auto v = vars.find(e.ref);
                assert(v != vars.end());
                return v->second;
            }
            case ExprKind::Size: return into.size(substitute(e.sym, symbols));
            case ExprKind::Load: {
                ExprId fill = kNone;
                if (e.outside == Outside::Value) {
                    fill = a.back();
                    a.pop_back();
                }
                return into.load(tensors.at(e.ref), std::move(a), e.outside, fill);
            }
            case ExprKind::Inside: return into.inside(tensors.at(e.ref), std::move(a));
            case ExprKind::Call: return into.call(e.fn, std::move(a));
            case ExprKind::Cast: return into.cast(a[0], e.dtype);
            case ExprKind::Wrap: return into.wrap(a[0], e.dtype);
            case ExprKind::Bitcast: return into.bitcast(a[0], e.dtype);
            case ExprKind::Reduce:
                return into.reduce(e.reduce, std::move(vs), a[0], e.dtype, a.size() > 1 ? a[1] : kNone);
            case ExprKind::Scan: {
                // A scan's variable is free: it is the lhs index it runs along.
                const ExprId along = vars.count(e.vars[0]) ? vars.at(e.vars[0]) : into.index(bound.at(e.vars[0]));
                assert(into.expr(along).kind == ExprKind::Index);
                return into.scan(e.reduce, into.expr(along).ref, a[0], e.exclusive, e.backward);
            }
        }
        return kNone;
    };
    const ExprId r = rebuild();
    memo.emplace(id, r);
    return r;
}

}  // namespace opwright::math
