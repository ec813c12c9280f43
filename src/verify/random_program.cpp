#include "verify/random_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <random>

namespace opwright::verify {
using namespace math;
namespace {

class Generator {
public:
    explicit Generator(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 1) {
        p_.name = fmt::format("random_{}", seed);
        constexpr DType types[] = {DType::F32,  DType::F32, DType::F32, DType::F32, DType::F64, DType::F16,
                                   DType::BF16, DType::I32, DType::I64, DType::I8,  DType::U8};
        stored_ = types[pick(std::size(types))];
        type_ = size_of(stored_) == 2 && is_float(stored_) ? DType::F32 : stored_;
    }

    Program make() {
        sources_.push_back(p_.add_tensor("x", stored_, shape(1 + pick(3)), Role::Input));
        sources_.push_back(p_.add_tensor("w", stored_, shape(1 + pick(2)), Role::Input));
        if (pick(3) == 0) at_ = p_.add_tensor("at", pick(2) ? DType::I64 : DType::I32, {extent()}, Role::Input);
        if (pick(3) == 0) sources_.push_back(define("t", Role::Temp));
        const TensorId y = define("y", Role::Output);
        for (int i = 0; i < 2; ++i)
            if (pick(4) == 0) update(y);
        sources_.push_back(y);
        if (pick(4) == 0) define("z", Role::Output);
        return std::move(p_);
    }

private:
    uint64_t pick(uint64_t n) { return random_() % n; }
    ExprId call(Fn f, ExprId a) { return p_.call(f, {a}); }
    ExprId call(Fn f, ExprId a, ExprId b) { return p_.call(f, {a, b}); }
    ExprId number(double v) { return p_.literal(is_float(type_) ? v : std::round(v), type_); }

    Sym extent() {
        switch (pick(8)) {
            case 0:
            case 1:
            case 2: return Sym::symbol("m");
            case 3:
            case 4: return Sym::symbol("n");
            case 5: return Sym(static_cast<int64_t>(1 + pick(2)));
            default: return Sym(static_cast<int64_t>(2 + pick(7)));
        }
    }
    std::vector<Sym> shape(uint64_t rank) {
        std::vector<Sym> r;
        for (uint64_t i = 0; i < rank; ++i) r.push_back(extent());
        return r;
    }
    VarId variable(const char* letters, const Sym& extent) {
        return p_.add_var(fmt::format("{}{}", letters, p_.vars.size()), extent);
    }

    // A tensor and the equation that sets it.
    TensorId define(const std::string& name, Role role) {
        const DType t = pick(8) == 0 ? DType::I32 : pick(12) == 0 ? DType::Bool : stored_;
        const TensorId r = p_.add_tensor(name, role == Role::Temp ? stored_ : t, shape(pick(4)), role);
        vars_.clear();
        std::vector<ExprId> lhs;
        for (const Sym& s : std::vector<Sym>(p_.tensors[r].shape)) {
            vars_.push_back(variable("i", s));
            lhs.push_back(p_.index(vars_.back()));
        }
        const uint64_t kind = pick(6);
        if (kind == 0 && !vars_.empty() && p_.tensors[r].dtype == stored_ && stored_ == type_) {
            constexpr ReduceOp ops[] = {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min};
            const ExprId body = expression(2);
            p_.add_equation(r, lhs, p_.scan(ops[pick(4)], vars_[pick(vars_.size())], body, pick(2), pick(2)));
        } else {
            p_.add_equation(r, lhs, stored(kind < 4 ? reduction() : expression(3), p_.tensors[r].dtype));
        }
        return r;
    }
    ExprId stored(ExprId e, DType t) {
        if (p_.expr(e).dtype == t) return e;
        if (t == DType::Bool) return call(Fn::Gt, e, number(0));
        return p_.cast(e, t);
    }

    void update(TensorId t) {
        const DType d = p_.tensors[t].dtype;
        vars_.clear();
        for (uint64_t i = 0; i <= pick(2); ++i)
            vars_.push_back(variable("u", pick(3) ? Sym(static_cast<int64_t>(1 + pick(5))) : extent()));
        std::vector<ExprId> lhs;
        for (size_t i = 0; i < p_.tensors[t].shape.size(); ++i) lhs.push_back(index());
        // A variable of the right alone would name an element several times.
        std::erase_if(vars_, [&](VarId v) {
            return std::none_of(lhs.begin(), lhs.end(), [&](ExprId a) {
                const auto free = p_.free_vars(a);
                return std::find(free.begin(), free.end(), v) != free.end();
            });
        });
        // 16-bit sums are rounded at each step and Bool has no sums: those are overwritten alone.
        constexpr Update ops[] = {Update::Overwrite, Update::Max, Update::Min, Update::Add, Update::Mul};
        p_.add_equation(t, lhs, stored(expression(2), d), ops[pick(d == DType::Bool || d != type_ ? 1 : 5)],
                        Outside::Value);
    }

    ExprId affine_index() {
        ExprId r = p_.integer(static_cast<int64_t>(pick(7)) - 3);
        for (VarId v : vars_) {
            if (pick(3) == 0) continue;
            constexpr int64_t steps[] = {1, 1, 1, 2, 3, 4, -1, -2};
            r = call(Fn::Add, r, call(Fn::Mul, p_.integer(steps[pick(8)]), p_.index(v)));
        }
        return r;
    }
    ExprId index() {
        if (vars_.empty()) return p_.integer(static_cast<int64_t>(pick(3)));
        const ExprId v = p_.index(vars_[pick(vars_.size())]);
        const ExprId by = p_.integer(static_cast<int64_t>(1 + pick(4)));
        switch (pick(9)) {
            case 0: return call(Fn::FloorDiv, v, by);
            case 1: return call(Fn::Mod, v, by);
            case 2: return call(Fn::FloorDiv, call(Fn::Add, v, p_.integer(static_cast<int64_t>(pick(5)))), by);
            case 3:
                return at_ != kNone ? p_.cast(p_.load(at_, {v}, Outside::Value, p_.integer(0, p_.tensors[at_].dtype)),
                                              DType::I64)
                                    : v;
            case 4:
            case 5: return v;
            default: return affine_index();
        }
    }
    // The variables as they stand where extents agree, which needs no care outside.
    std::optional<std::vector<ExprId>> plain(TensorId t) {
        std::vector<ExprId> r;
        for (const Sym& s : p_.tensors[t].shape) {
            std::vector<VarId> fitting;
            for (VarId v : vars_)
                if (p_.vars[v].extent == s) fitting.push_back(v);
            if (fitting.empty()) return std::nullopt;
            r.push_back(p_.index(fitting[pick(fitting.size())]));
        }
        return r;
    }
    ExprId load() {
        const TensorId t = sources_[pick(sources_.size())];
        ExprId fill = kNone;
        std::vector<ExprId> at;
        Outside mode = Outside::Error;
        auto here = pick(2) ? plain(t) : std::nullopt;
        if (here) {
            at = std::move(*here);
        } else {
            for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d) at.push_back(index());
            // Folding into a dim that may be empty means nothing.
            bool open = false;
            for (const Sym& s : p_.tensors[t].shape) open = open || !s.is_const();
            constexpr Outside modes[] = {Outside::Value, Outside::Clamp, Outside::Wrap, Outside::Reflect,
                                         Outside::Mirror};
            mode = open ? Outside::Value : modes[pick(5)];
            if (mode == Outside::Value) fill = p_.literal(pick(2) ? 0 : 2, p_.tensors[t].dtype);
        }
        const ExprId e = p_.load(t, std::move(at), mode, fill);
        return p_.expr(e).dtype == type_ ? e : p_.cast(e, type_);
    }
    ExprId condition() {
        constexpr Fn tests[] = {Fn::Lt, Fn::Le, Fn::Gt, Fn::Ge, Fn::Eq, Fn::Ne};
        if (!vars_.empty() && pick(2)) return call(tests[pick(6)], p_.index(vars_[pick(vars_.size())]), index());
        const ExprId c = call(tests[pick(4)], expression(1), expression(1));
        return pick(4) ? c : call(Fn::Not, c);
    }
    ExprId expression(int levels) {
        if (levels <= 0) return pick(6) ? load() : number(pick(2) ? 0.75 : -2);
        const auto next = [&] { return expression(levels - 1); };
        switch (pick(10)) {
            case 0:
            case 1: return call(Fn::Mul, next(), next());
            case 2: return call(Fn::Add, next(), next());
            case 3: return call(Fn::Sub, next(), next());
            case 4: return unary(next());
            case 5: {
                const ExprId c = condition(), a = next(), b = next();
                return p_.select(c, a, b);
            }
            case 6: return call(pick(2) ? Fn::Max : Fn::Min, next(), next());
            case 7: return quotient(next());
            case 8: return vars_.empty() ? load() : p_.cast(p_.index(vars_[pick(vars_.size())]), type_);
            default: return load();
        }
    }
    ExprId unary(ExprId e) {
        if (is_float(type_)) {
            constexpr Fn fns[] = {Fn::Exp,   Fn::Tanh, Fn::Sin,   Fn::Abs,  Fn::Neg,   Fn::Sqrt,
                                  Fn::Floor, Fn::Erf,  Fn::Round, Fn::Sign, Fn::Log1p, Fn::Rsqrt};
            const Fn f = fns[pick(std::size(fns))];
            const bool positive = f == Fn::Sqrt || f == Fn::Log1p || f == Fn::Rsqrt;
            return call(f, positive ? call(Fn::Abs, e) : e);
        }
        constexpr Fn fns[] = {Fn::Abs, Fn::Neg, Fn::BitNot, Fn::Sign};
        return call(fns[pick(is_unsigned_int(type_) ? 1 : std::size(fns))], e);
    }
    ExprId quotient(ExprId e) {
        if (is_float(type_)) return call(Fn::Div, e, call(Fn::Add, number(1.5), call(Fn::Mul, load(), number(0.25))));
        constexpr Fn fns[] = {Fn::Div, Fn::FloorDiv, Fn::Mod, Fn::BitAnd, Fn::BitOr, Fn::BitXor};
        return call(fns[pick(std::size(fns))], e, pick(2) ? number(static_cast<double>(1 + pick(5))) : load());
    }
    ExprId reduction() {
        std::vector<VarId> over;
        for (uint64_t i = 0; i <= pick(2); ++i)
            over.push_back(
                variable("k", pick(2) ? extent() : Sym(static_cast<int64_t>(pick(9) == 0 ? 0 : 1 + pick(5)))));
        const std::vector<VarId> outer = vars_;
        vars_.insert(vars_.end(), over.begin(), over.end());
        constexpr ReduceOp ops[] = {ReduceOp::Sum,  ReduceOp::Sum, ReduceOp::Sum,
                                    ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min};
        const ExprId body = expression(2), c = pick(3) ? kNone : condition();
        const ReduceOp op = ops[pick(6)];
        const ExprId r = p_.reduce(op, over, body, type_, c);
        vars_ = outer;
        if (pick(3)) return r;
        return call(pick(2) ? Fn::Add : Fn::Mul, r, expression(1));
    }

    std::mt19937_64 random_;
    Program p_;
    DType stored_, type_;  // of tensors, and of arithmetic on them
    TensorId at_ = kNone;
    std::vector<TensorId> sources_;
    std::vector<VarId> vars_;
};
}  // namespace

Program random_program(uint64_t seed) { return Generator(seed).make(); }

}  // namespace opwright::verify
