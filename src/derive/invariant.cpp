// Every tensor is followed as a function of u, an expression of the maximum m alone: it does not depend on u (None),
// moves with it (Shift: v + b*u), or is multiplied (Scale: v * exp(a*u)). What is none of these is Unknown. If every
// output is None, its derivative by m is 0.
#include "derive/invariant.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace opwright::derive {
using namespace math;
namespace {

struct Dependence {
    enum class Kind : uint8_t { None, Shift, Scale, Unknown } kind = Kind::None;
    double by = 0;
    bool operator==(const Dependence&) const = default;
};
using Kind = Dependence::Kind;
Dependence make(Kind k, double by) { return by == 0 && k != Kind::Unknown ? Dependence{} : Dependence{k, by}; }
const Dependence kUnknown{Kind::Unknown, 0};

class Follower {
public:
    Follower(const Program& p, TensorId m) : p_(p), m_(m), tensors_(p.tensors.size()), rows_(p.tensors.size()) {}

    bool cancels() {
        bool met = false;
        for (const Equation& q : p_.equations) {
            if (q.lhs == m_) {
                met = true;
                continue;
            }
            if (!met) continue;
            row_.reset();
            memo_.clear();
            Dependence d = value(q.rhs);
            for (ExprId a : q.at)
                if (value(a).kind != Kind::None) d = kUnknown;
            if (d.kind == Kind::None) continue;
            if (d.kind == Kind::Unknown || q.update != Update::Set || !row_ || !place_row(q)) return false;
            tensors_[q.lhs] = d;
        }
        return met && std::all_of(p_.outputs.begin(), p_.outputs.end(),
                                  [&](TensorId t) { return t != m_ && tensors_[t].kind == Kind::None; });
    }

private:
    // Which element of m an expression depends on: its indices, which must be the same wherever m enters an equation.
    bool at_row(std::vector<ExprId> row) {
        if (row_) return *row_ == row;
        row_ = std::move(row);
        return true;
    }
    // For each dim of m, the dim of q's tensor that stands for it.
    bool place_row(const Equation& q) {
        std::vector<size_t> dims;
        for (ExprId r : *row_) {
            if (p_.is_integer_literal(r, 0)) {
                dims.push_back(SIZE_MAX);
                continue;
            }
            const auto d = std::find(q.at.begin(), q.at.end(), r);
            if (d == q.at.end()) return false;
            dims.push_back(static_cast<size_t>(d - q.at.begin()));
        }
        rows_[q.lhs] = std::move(dims);
        return true;
    }
    bool only_m(ExprId id) const {  // a value of one element of m and of nothing else
        const Expr& e = p_.expr(id);
        if (e.kind == ExprKind::Load) return e.ref == m_ && e.outside == Outside::Error;
        if (e.kind == ExprKind::Literal) return true;
        if (e.kind != ExprKind::Call && e.kind != ExprKind::Cast) return false;
        return std::all_of(e.args.begin(), e.args.end(), [&](ExprId a) { return only_m(a); });
    }
    bool reads_m(ExprId id) const {
        const auto r = p_.reads(id);
        return std::find(r.begin(), r.end(), m_) != r.end();
    }
    // u itself, in a form that does not depend on the names of indices.
    std::optional<std::string> form(ExprId id) {
        const Expr& e = p_.expr(id);
        if (e.kind == ExprKind::Load) return at_row(e.args) ? std::optional<std::string>("m") : std::nullopt;
        if (e.kind == ExprKind::Literal) return p_.print(id);
        std::string r = std::to_string(static_cast<int>(e.kind)) + ":" + std::to_string(static_cast<int>(e.fn)) + ":" +
                        std::string(opwright::name(e.dtype)) + "(";
        for (ExprId a : e.args) {
            const auto f = form(a);
            if (!f) return f;
            r += *f + ",";
        }
        return r + ")";
    }
    Dependence value(ExprId id) {
        if (const auto it = memo_.find(id); it != memo_.end()) return it->second;
        const Dependence d = find(id);
        memo_.emplace(id, d);
        return d;
    }
    Dependence find(ExprId id) {
        const Expr& e = p_.expr(id);
        if (is_float(e.dtype) && only_m(id) && reads_m(id)) {
            const auto f = form(id);
            if (!f || (u_ && *u_ != *f)) return kUnknown;
            u_ = f;
            return make(Kind::Shift, 1);
        }
        if (e.kind == ExprKind::Load) {
            for (ExprId a : e.args)
                if (value(a).kind != Kind::None) return kUnknown;
            const Dependence d = tensors_[e.ref];
            if (d.kind == Kind::None) return e.ref == m_ ? kUnknown : d;
            if (e.outside != Outside::Error) return kUnknown;
            std::vector<ExprId> row;
            for (size_t dim : rows_[e.ref]) {
                if (dim == SIZE_MAX) return kUnknown;
                row.push_back(e.args[dim]);
            }
            return at_row(std::move(row)) ? d : kUnknown;
        }
        std::vector<Dependence> a;
        for (ExprId x : e.args) a.push_back(value(x));
        if (std::all_of(a.begin(), a.end(), [](const Dependence& d) { return d.kind == Kind::None; })) return {};
        if (std::any_of(a.begin(), a.end(), [](const Dependence& d) { return d.kind == Kind::Unknown; }))
            return kUnknown;
        if (e.kind == ExprKind::Cast) return is_float(e.dtype) ? a[0] : kUnknown;
        if (e.kind == ExprKind::Reduce) return reduced(e, a);
        return e.kind == ExprKind::Call ? called(e, a) : kUnknown;
    }
    Dependence reduced(const Expr& e, const std::vector<Dependence>& a) {
        if (e.reduce != ReduceOp::Sum || a[0].kind != Kind::Scale || (a.size() > 1 && a[1].kind != Kind::None))
            return kUnknown;
        for (ExprId r : *row_)  // the row must be the same for all terms
            for (VarId v : p_.free_vars(r))
                if (std::find(e.vars.begin(), e.vars.end(), v) != e.vars.end()) return kUnknown;
        return a[0];
    }
    static Dependence called(const Expr& e, const std::vector<Dependence>& a) {
        const auto either = [&](Kind k) {
            return std::all_of(a.begin(), a.end(),
                               [&](const Dependence& d) { return d.kind == k || d.kind == Kind::None; });
        };
        switch (e.fn) {
            case Fn::Add:
                if (either(Kind::Shift)) return make(Kind::Shift, a[0].by + a[1].by);
                break;
            case Fn::Sub:
                if (either(Kind::Shift)) return make(Kind::Shift, a[0].by - a[1].by);
                break;
            case Fn::Mul:
                if (either(Kind::Scale)) return make(Kind::Scale, a[0].by + a[1].by);
                break;
            case Fn::Div:
                if (either(Kind::Scale)) return make(Kind::Scale, a[0].by - a[1].by);
                break;
            case Fn::Neg:
                if (a[0].kind == Kind::Shift) return make(Kind::Shift, -a[0].by);
                return a[0];
            case Fn::Exp:
                if (a[0].kind == Kind::Shift) return make(Kind::Scale, a[0].by);
                break;
            case Fn::Log:
                if (a[0].kind == Kind::Scale) return make(Kind::Shift, a[0].by);
                break;
            case Fn::Select:
                if (a[0].kind == Kind::None && a[1] == a[2]) return a[1];
                break;
            default: break;
        }
        return kUnknown;
    }

    const Program& p_;
    TensorId m_;
    std::vector<Dependence> tensors_;
    std::vector<std::vector<size_t>> rows_;
    std::optional<std::vector<ExprId>> row_;  // of the equation at hand
    std::optional<std::string> u_;
    std::unordered_map<ExprId, Dependence> memo_;
};
}  // namespace

std::vector<bool> invariants(const Program& p) {
    std::vector<bool> r(p.tensors.size());
    for (const Equation& q : p.equations) {
        const Expr& e = p.expr(q.rhs);
        const bool extreme = q.update == Update::Set && e.kind == ExprKind::Reduce &&
                             (e.reduce == ReduceOp::Max || e.reduce == ReduceOp::Min);
        if (extreme && is_float(e.dtype)) r[q.lhs] = Follower(p, q.lhs).cancels();
    }
    return r;
}

}  // namespace opwright::derive
