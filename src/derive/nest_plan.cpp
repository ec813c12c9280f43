#include <algorithm>
#include <cassert>
#include <limits>
#include <unordered_map>

#include "derive/nest.h"

namespace opwright::derive {
using namespace math;
namespace {

bool is_sum(const Expr& e) { return e.kind == ExprKind::Reduce && e.reduce == ReduceOp::Sum && is_float(e.dtype); }

class EquationPlan {
public:
    EquationPlan(const Program& p, const SymValues& v, FlushFactors flush, std::vector<Store>& stores,
                 std::vector<Nest>& nests)
        : p_(p), values_(v), flush_(flush), stores_(stores), nests_(nests) {}

    void run(const Equation& q) {
        Nest n;
        n.target = static_cast<int>(q.lhs);
        n.update = q.update;
        n.span = q.span;
        n.vars = q.vars;
        const Expr& rhs = p_.expr(q.rhs);
        if (rhs.kind == ExprKind::Scan) {
            n.kind = NestKind::Scan;
            n.reduce = rhs.reduce;
            n.dtype = rhs.dtype;
            n.exclusive = rhs.exclusive;
            n.backward = rhs.backward;
            std::erase(n.vars, rhs.vars[0]);
            n.points = n.vars.size();
            n.vars.push_back(rhs.vars[0]);
        } else {
            n.points = n.vars.size();
        }
        if (!set_extents(n)) return;
        Builder b{*this, n, {}, {}, {}};
        if (n.kind == NestKind::Scan) {
            n.body = b.reg(rhs.args[0]);
        } else {
            // The store rounds to a 16-bit type by itself: a conversion at the root would count twice.
            const bool stored = rhs.kind == ExprKind::Cast && is_float(rhs.dtype) && size_of(rhs.dtype) == 2;
            n.body = stored ? b.convert(rhs.args[0], compute_type(rhs.dtype)) : b.reg(q.rhs);
            if (b.has_sum(q.rhs)) n.terms = b.terms(q.rhs);
        }
        n.at = b.access(static_cast<int>(q.lhs), q.at, q.outside);
        nests_.push_back(std::move(n));
    }

private:
    struct Builder {
        EquationPlan& plan;
        Nest& nest;
        std::unordered_map<ExprId, int> memo;
        std::unordered_map<ExprId, int> terms_memo;
        std::unordered_map<ExprId, bool> sums;

        const Program& p() const { return plan.p_; }

        int new_register(bool floating, bool exact) {
            Register r;
            r.is_float = floating;
            r.exact = exact;
            if (floating)
                r.v.resize(kLanes);
            else
                r.i.resize(kLanes);
            r.e.resize(kLanes);
            nest.registers.push_back(std::move(r));
            return static_cast<int>(nest.registers.size()) - 1;
        }
        int constant(double v) {
            const int r = new_register(true, true);
            std::fill(nest.registers[r].v.begin(), nest.registers[r].v.end(), v);
            nest.registers[r].wild = !std::isfinite(v);
            return r;
        }
        int constant(int64_t v) {
            const int r = new_register(false, true);
            std::fill(nest.registers[r].i.begin(), nest.registers[r].i.end(), v);
            return r;
        }
        int emit(Step s, bool floating, bool exact) {
            s.to = new_register(floating, exact);
            nest.code.push_back(s);
            return s.to;
        }
        bool exact(int r) const { return r < 0 || nest.registers[r].exact; }
        int place(VarId v) const {
            const auto it = std::find(nest.vars.begin(), nest.vars.end(), v);
            assert(it != nest.vars.end() && "a variable outside its scope");
            return static_cast<int>(it - nest.vars.begin());
        }

        int reg(ExprId id) {
            if (auto it = memo.find(id); it != memo.end()) return it->second;
            const int r = build(id);
            memo.emplace(id, r);
            return r;
        }

        int build(ExprId id) {
            const Expr& e = p().expr(id);
            const bool floating = is_float(e.dtype);
            switch (e.kind) {
                case ExprKind::Literal: return floating ? constant(e.number) : constant(e.integer);
                case ExprKind::Index:
                    return emit({.what = Do::Index, .type = DType::I64, .a = place(e.ref)}, false, true);
                case ExprKind::Size: return constant(plan.value(e.sym));
                case ExprKind::Load: return load(e);
                case ExprKind::Inside: {
                    nest.accesses.push_back(access(static_cast<int>(e.ref), e.args, Outside::Value));
                    const int a = static_cast<int>(nest.accesses.size()) - 1;
                    bool ex = true;
                    for (const Dim& d : nest.accesses[a].dims) ex &= exact(d.reg);
                    return emit({.what = Do::Inside, .type = DType::Bool, .access = a}, false, ex);
                }
                case ExprKind::Call: return call(e);
                case ExprKind::Cast: return convert(e.args[0], e.dtype);
                case ExprKind::Wrap: {
                    const int a = reg(e.args[0]);
                    return emit({.what = Do::Wrap, .type = e.dtype, .a = a}, false, exact(a));
                }
                case ExprKind::Bitcast: {
                    const DType from = p().expr(e.args[0]).dtype;
                    const int a = reg(e.args[0]);
                    const Do what = is_float(from) ? Do::FloatBits : floating ? Do::BitsToFloat : Do::Wrap;
                    const int bits = emit({.what = what, .type = e.dtype, .from = from, .a = a},
                                          floating && what != Do::FloatBits, false);
                    if (!(floating && is_float(from))) return bits;
                    return emit({.what = Do::BitsToFloat, .type = e.dtype, .from = from, .a = bits}, true, false);
                }
                case ExprKind::Reduce: return table_load(id, Do::Load);
                case ExprKind::Scan: break;
            }
            assert(false && "a scan inside an expression");
            return -1;
        }

        int call(const Expr& e) {
            const DType t = p().expr(e.args[e.fn == Fn::Select ? 1 : 0]).dtype;
            int a[3] = {-1, -1, -1};
            bool ex = true;
            for (size_t i = 0; i < e.args.size(); ++i) {
                a[i] = reg(e.args[i]);
                ex &= exact(a[i]);
            }
            const FnInfo& f = info(e.fn);
            const Do what = e.fn == Fn::Select ? Do::Select
                            : !is_float(t)     ? Do::Int
                            : f.bool_result    ? Do::Test
                                               : Do::Float;
            if (what == Do::Float) ex &= f.ulps == 0;
            return emit({.what = what, .fn = e.fn, .type = t, .a = a[0], .b = a[1], .c = a[2]}, is_float(e.dtype), ex);
        }

        int convert(ExprId operand, DType to) {
            const DType from = p().expr(operand).dtype;
            const int a = reg(operand);
            if (from == to) return a;
            const bool f = is_float(from), g = is_float(to);
            const Do what = f ? (g ? Do::FloatToFloat : Do::FloatToInt) : (g ? Do::IntToFloat : Do::IntToInt);
            const bool widens = f && g && unit_roundoff(to) <= unit_roundoff(compute_type(from));
            bool ex = exact(a);
            if (what == Do::FloatToFloat) ex &= widens || to == DType::F32;  // the other narrowings may be left out
            if (what == Do::IntToFloat) ex &= size_of(from) == 1 || (size_of(from) < size_of(to) && size_of(to) > 2);
            return emit({.what = what, .type = to, .from = from, .a = a}, g, ex);
        }

        int load(const Expr& e) {
            std::vector<ExprId> at = e.args;
            int fill = -1;
            if (e.outside == Outside::Value) {
                fill = reg(at.back());
                at.pop_back();
            }
            nest.accesses.push_back(access(static_cast<int>(e.ref), at, e.outside));
            const int a = static_cast<int>(nest.accesses.size()) - 1;
            bool ex = plan.stores_[e.ref].e.empty() && exact(fill) && static_cast<int>(e.ref) != nest.target;
            for (const Dim& d : nest.accesses[a].dims) ex &= exact(d.reg);
            return emit({.what = Do::Load, .type = e.dtype, .c = fill, .access = a}, is_float(e.dtype), ex);
        }

        // The access of a tensor at index expressions; registers hold what is not affine.
        Access access(int store, const std::vector<ExprId>& at, Outside outside) {
            Access r;
            r.store = store;
            r.outside = outside;
            r.proved = true;
            const Shape shape = plan.stores_[store].shape;  // a copy: reg() may append stores
            int64_t stride = 1;
            for (size_t d = shape.size(); d-- > 0;) {
                Dim dim;
                dim.extent = shape[d];
                dim.stride = stride;
                stride *= shape[d];
                if (const auto a = affine(p(), at[d])) {
                    int64_t low = plan.value(a->offset), high = low;
                    dim.constant = low;
                    for (auto& [v, c] : a->terms) {
                        const int64_t k = plan.value(c);
                        if (k == 0) continue;
                        dim.terms.emplace_back(place(v), k);
                        (k < 0 ? low : high) += k * (nest.extents[place(v)] - 1);
                    }
                    r.proved &= low >= 0 && high < dim.extent;
                } else {
                    dim.reg = reg(at[d]);
                    r.proved = false;
                }
                r.dims.insert(r.dims.begin(), std::move(dim));
            }
            if (r.proved) flatten(r);
            return r;
        }
        static void flatten(Access& a) {
            for (const Dim& d : a.dims) {
                a.flat.constant += d.constant * d.stride;
                for (auto& [v, c] : d.terms) {
                    auto it = std::find_if(a.flat.terms.begin(), a.flat.terms.end(),
                                           [v = v](auto& t) { return t.first == v; });
                    if (it == a.flat.terms.end())
                        a.flat.terms.emplace_back(v, c * d.stride);
                    else
                        it->second += c * d.stride;
                }
            }
        }

        int table_load(ExprId reduce, Do what) {
            const Expr& e = p().expr(reduce);
            if (plan.is_empty(e)) {
                if (what == Do::TermsLoad) return constant(0.0);
                if (is_float(e.dtype)) return constant(identity(e.reduce, e.dtype));
                return constant(is_arg(e.reduce) ? int64_t{0} : int_identity(e));
            }
            const int store = plan.table(reduce);
            Access a;
            a.store = store;
            a.proved = true;
            int64_t stride = 1;
            const std::vector<VarId> free = p().free_vars(reduce);
            for (size_t i = free.size(); i-- > 0;) {
                const int v = place(free[i]);
                a.flat.terms.emplace_back(v, stride);
                stride *= nest.extents[v];
            }
            nest.accesses.push_back(std::move(a));
            const bool ex = what == Do::Load && plan.stores_[store].e.empty();
            return emit({.what = what, .type = e.dtype, .access = static_cast<int>(nest.accesses.size()) - 1},
                        is_float(e.dtype), ex);
        }
        static int64_t int_identity(const Expr& e) {
            switch (e.reduce) {
                case ReduceOp::Max: return lowest_int(e.dtype);
                case ReduceOp::Min: return highest_int(e.dtype);
                default: return static_cast<int64_t>(identity(e.reduce, e.dtype));
            }
        }

        // Whether a sum feeds e through operations that pass its terms on.
        bool has_sum(ExprId id) {
            if (auto it = sums.find(id); it != sums.end()) return it->second;
            const Expr& e = p().expr(id);
            bool r = false;
            if (is_sum(e))
                r = true;
            else if (e.kind == ExprKind::Load)
                r = !plan.stores_[e.ref].t.empty();
            else if (is_float(e.dtype) && (e.kind == ExprKind::Cast || (e.kind == ExprKind::Call && passes(e.fn))))
                for (size_t i = e.fn == Fn::Select && e.kind == ExprKind::Call ? 1 : 0; i < e.args.size(); ++i)
                    r |= is_float(p().expr(e.args[i]).dtype) && has_sum(e.args[i]);
            sums.emplace(id, r);
            return r;
        }
        static bool passes(Fn f) {
            return f == Fn::Neg || f == Fn::Abs || f == Fn::Add || f == Fn::Sub || f == Fn::Mul || f == Fn::Div ||
                   f == Fn::Max || f == Fn::Min || f == Fn::Select;
        }
        int terms(ExprId id) {
            if (auto it = terms_memo.find(id); it != terms_memo.end()) return it->second;
            const Expr& e = p().expr(id);
            int r = -1;
            const auto two = [&](Do what, size_t i, size_t j) {
                const int a = terms(e.args[i]), b = terms(e.args[j]);
                return emit({.what = what, .a = a, .b = b}, true, false);
            };
            if (!has_sum(id))
                r = emit({.what = Do::TermsAbs, .a = reg(id)}, true, false);
            else if (is_sum(e))
                r = table_load(id, Do::TermsLoad);
            else if (e.kind == ExprKind::Load) {
                const int v = reg(id);  // makes the access
                const auto s =
                    std::find_if(nest.code.begin(), nest.code.end(), [v](const Step& x) { return x.to == v; });
                r = emit({.what = Do::TermsLoad, .c = s->c, .access = s->access}, true, false);
            } else if (e.kind == ExprKind::Cast || e.args.size() == 1)
                r = terms(e.args[0]);
            else if (e.fn == Fn::Add || e.fn == Fn::Sub)
                r = two(Do::TermsAdd, 0, 1);
            else if (e.fn == Fn::Mul)
                r = two(Do::TermsMul, 0, 1);
            else if (e.fn == Fn::Div) {
                const int a = terms(e.args[0]), b = reg(e.args[1]);
                r = emit({.what = Do::TermsDiv, .a = a, .b = b}, true, false);
            } else if (e.fn == Fn::Select) {
                const int a = terms(e.args[1]), b = terms(e.args[2]);
                r = emit({.what = Do::TermsSelect, .a = reg(e.args[0]), .b = a, .c = b}, true, false);
            } else
                r = two(Do::TermsMax, 0, 1);
            terms_memo.emplace(id, r);
            return r;
        }
    };

    bool is_empty(const Expr& e) const {
        return std::any_of(e.vars.begin(), e.vars.end(), [&](VarId v) { return value(p_.vars[v].extent) <= 0; });
    }
    int64_t value(const Sym& s) const {
        const auto v = evaluate(s, values_);
        assert(v && "symbols were bound and checked before");
        return v.value_or(0);
    }
    bool set_extents(Nest& n) const {
        bool any = true;
        for (VarId v : n.vars) {
            n.extents.push_back(value(p_.vars[v].extent));
            any &= n.extents.back() > 0;
        }
        return any;
    }
    // The store that holds a reduction's results over its free variables; its nest is planned before the caller's.
    int table(ExprId id) {
        if (auto it = tables_.find(id); it != tables_.end()) return it->second;
        const Expr& e = p_.expr(id);
        Nest n;
        n.kind = NestKind::Reduce;
        n.vars = p_.free_vars(id);
        n.points = n.vars.size();
        n.vars.insert(n.vars.end(), e.vars.begin(), e.vars.end());
        set_extents(n);
        n.reduce = e.reduce;
        n.dtype = e.dtype;
        n.body_type = p_.expr(e.args[0]).dtype;
        Builder b{*this, n, {}, {}, {}};
        n.body = b.reg(e.args[0]);
        if (flush_ != FlushFactors::None && is_sum(e))
            for (Step& s : n.code)
                if (s.to == n.body && s.what == Do::Float && s.fn == Fn::Mul) {
                    s.flush = flush_;
                    s.flush_sum = multiplies_bf16(e.args[0]);
                }
        if (e.args.size() > 1) n.condition = b.reg(e.args[1]);
        const bool exact =
            !is_float(e.dtype) && n.registers[n.body].exact && (n.condition < 0 || n.registers[n.condition].exact);
        Store s("", e.dtype, Shape(n.extents.begin(), n.extents.begin() + static_cast<int64_t>(n.points)));
        // Storage is allocated when the nest runs, but the shape of what it holds is known to its readers now.
        if (!exact) s.e.resize(1);
        if (is_sum(e)) s.t.resize(1);
        n.target = static_cast<int>(stores_.size());
        stores_.push_back(std::move(s));
        nests_.push_back(std::move(n));
        const int r = static_cast<int>(stores_.size()) - 1;
        tables_.emplace(id, r);
        return r;
    }

    // Factors that the dot products of some processors take, which flush what they add up.
    bool multiplies_bf16(ExprId product) const {
        const Expr& x = p_.expr(product);
        return x.args.size() == 2 && std::all_of(x.args.begin(), x.args.end(), [&](ExprId f) {
            while (p_.expr(f).kind == ExprKind::Cast && is_float(p_.expr(f).dtype) && p_.expr(f).dtype != DType::BF16)
                f = p_.expr(f).args[0];
            return p_.expr(f).dtype == DType::BF16;
        });
    }

    const Program& p_;
    const SymValues& values_;
    FlushFactors flush_;
    std::vector<Store>& stores_;
    std::vector<Nest>& nests_;
    std::unordered_map<ExprId, int> tables_;
};
}  // namespace

Store::Store(std::string n, DType t, Shape s) : name(std::move(n)), dtype(t), shape(std::move(s)) {
    size = std::max<int64_t>(0, element_count(shape));
}
int64_t Nest::point_count() const {
    return element_count(Shape(extents.begin(), extents.begin() + static_cast<int64_t>(points)));
}
int64_t Nest::over_count() const {
    return element_count(Shape(extents.begin() + static_cast<int64_t>(points), extents.end()));
}

void plan_equation(const Program& p, const Equation& q, const SymValues& values, FlushFactors flush,
                   std::vector<Store>& stores, std::vector<Nest>& nests) {
    EquationPlan(p, values, flush, stores, nests).run(q);
}

}  // namespace opwright::derive
