#include "derive/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "math/unroll.h"

namespace opwright::derive {
using namespace math;
namespace {

using Vars = std::set<VarId>;

class Counter {
public:
    explicit Counter(const Program& p) : p_(p), accesses_(p.tensors.size()) {}

    Cost run() {
        for (const Equation& q : p_.equations) equation(q);
        for (TensorId t = 0; t < p_.tensors.size(); ++t) {
            const TensorInfo& info = p_.tensors[t];
            const Sym element(static_cast<int64_t>(size_of(info.dtype)));
            if (info.role == Role::Output) cost_.write_bytes = cost_.write_bytes + product(info.shape) * element;
            if (info.role == Role::Input || info.role == Role::Constant)
                cost_.read_bytes = cost_.read_bytes + distinct(t) * element;
        }
        return cost_;
    }

private:
    void equation(const Equation& q) {
        counted_.clear();
        const Vars points(q.vars.begin(), q.vars.end());
        for (ExprId a : q.at) index(a);
        value(q.rhs, {points});
        if (p_.expr(q.rhs).kind == ExprKind::Scan) cost_.simple = cost_.simple + size(points);
        if (q.update != Update::Set && q.update != Update::Overwrite) cost_.simple = cost_.simple + size(points);
    }

    Sym size(const Vars& vs) const {
        Sym r = 1;
        for (VarId v : vs) r = r * p_.vars[v].extent;
        return r;
    }
    const std::vector<VarId>& free(ExprId e) {
        auto it = free_.find(e);
        if (it == free_.end()) it = free_.emplace(e, p_.free_vars(e)).first;
        return it->second;
    }
    bool depends(ExprId e, const Vars& on) {
        return std::any_of(free(e).begin(), free(e).end(), [&](VarId v) { return on.count(v) > 0; });
    }

    // Loop scopes from the equation's inwards. An expression belongs to the innermost one whose own variables it uses.
    struct Scope {
        Vars points;  // all variables that its expressions are evaluated for
        Vars own;     // of a reduction: those it runs over
        int64_t kept = 1, of = 1;  // share of the points at which a condition on tables holds
    };
    Sym size(const Scope& s) const { return s.kept == s.of ? size(s.points) : floor_div(size(s.points) * s.kept, s.of); }
    using Scopes = std::vector<Scope>;
    void value(ExprId e, Vars points) { value(e, Scopes{{std::move(points), {}}}); }

    void value(ExprId id, Scopes scopes) {
        while (scopes.size() > 1 && !depends(id, scopes.back().own)) scopes.pop_back();
        const Expr& e = p_.expr(id);
        // In one equation a scope is told by its points: the same expression at the same points is the same value. A
        // reduction has points of its own.
        if (!counted_.insert({id, e.kind == ExprKind::Reduce ? Vars{} : scopes.back().points}).second) return;
        switch (e.kind) {
            case ExprKind::Literal:
            case ExprKind::Index:
            case ExprKind::Size: return;
            case ExprKind::Load: {
                const size_t rank = p_.tensors[e.ref].shape.size();
                for (size_t d = 0; d < rank; ++d) index(e.args[d]);
                accesses_[e.ref].insert(id);
                if (e.args.size() > rank) value(e.args[rank], scopes);
                return;
            }
            case ExprKind::Inside:
                for (ExprId a : e.args) index(a);
                return;
            case ExprKind::Call:
                if (is_position(id)) return;
                if (const CostClass c = info(e.fn).cost; c != CostClass::Free) {
                    const Sym n = size(scopes.back());
                    Sym& sum = c == CostClass::Simple ? cost_.simple : c == CostClass::Divide ? cost_.divide : cost_.special;
                    sum = sum + n;
                    if (c != CostClass::Simple) {
                        Sym& own = cost_.by_function.emplace(e.fn, Sym(0)).first->second;
                        own = own + n;
                    }
                }
                for (ExprId a : e.args) value(a, scopes);
                return;
            case ExprKind::Cast:
            case ExprKind::Wrap:
            case ExprKind::Bitcast:
            case ExprKind::Scan:
                for (ExprId a : e.args) value(a, scopes);
                return;
            case ExprKind::Reduce: {
                const Vars outer(free(id).begin(), free(id).end());
                Scope inner{outer, Vars(e.vars.begin(), e.vars.end())};
                inner.points.insert(e.vars.begin(), e.vars.end());
                const bool known = e.args.size() > 1 && holds(e.args[1], inner.kept, inner.of);
                cost_.simple = cost_.simple + size(inner);
                scopes.push_back({outer, outer});
                scopes.push_back(std::move(inner));
                value(e.args[0], scopes);
                if (!known && e.args.size() > 1) value(e.args[1], scopes);
                return;
            }
        }
    }

    // Whether a condition asks for numbers in tables alone, as that of a sum over what is not 0 in one; at how many of its
    // points it then holds, and of how many.
    bool holds(ExprId condition, int64_t& kept, int64_t& of) const {
        constexpr int64_t kMostPoints = 256;
        const std::vector<VarId> vars = p_.free_vars(condition);
        const std::vector<TensorId> reads = p_.reads(condition);
        if (reads.empty() || std::any_of(reads.begin(), reads.end(), [&](TensorId t) { return p_.tensors[t].role != Role::Constant; })) return false;
        int64_t points = 1, found = 0;
        for (VarId v : vars) {
            const auto n = p_.vars[v].extent.constant();
            if (!n || (points *= *n) > kMostPoints) return false;
        }
        for (int64_t i = 0; i < points; ++i) {
            Program at;
            bool known = true;
            Rewriter w{.from = p_, .into = at};
            int64_t rest = i;
            for (VarId v : vars) {
                w.vars[v] = at.integer(rest % *p_.vars[v].extent.constant());
                rest /= *p_.vars[v].extent.constant();
            }
            w.replace = [&](Rewriter& self, ExprId e) {
                const Expr& x = p_.expr(e);
                if (x.kind != ExprKind::Load) return kNone;
                const ExprId entry = table_entry(p_, x, self);
                known &= entry != kNone;
                return entry == kNone ? at.literal(0, x.dtype) : entry;
            };
            const ExprId truth = w(condition);
            if (!known || at.expr(truth).kind != ExprKind::Literal) return false;
            found += at.expr(truth).integer != 0;
        }
        kept = found, of = points;
        return true;
    }

    // Index arithmetic costs nothing, but the data in it is read.
    void index(ExprId id) {
        if (!index_seen_.insert(id).second) return;
        const Expr& e = p_.expr(id);
        if (e.kind == ExprKind::Load) accesses_[e.ref].insert(id);
        for (ExprId a : e.args) index(a);
    }
    // Whether e is arithmetic on positions and extents alone (a causal mask's i <= j).
    bool is_position(ExprId id) {
        if (auto it = position_.find(id); it != position_.end()) return it->second;
        const Expr& e = p_.expr(id);
        bool r =
            !is_float(e.dtype) && e.kind != ExprKind::Load && e.kind != ExprKind::Reduce && e.kind != ExprKind::Scan;
        if (e.kind != ExprKind::Inside)
            for (ExprId a : e.args) r = r && is_position(a);
        position_.emplace(id, r);
        return r;
    }

    // Distinct elements that the accesses of t read: each dim's positions at most once, and never more than there are.
    Sym distinct(TensorId t) {
        const TensorInfo& info = p_.tensors[t];
        const Sym whole = product(info.shape);
        Sym sum = 0;
        for (ExprId id : accesses_[t]) {
            const Expr& e = p_.expr(id);
            Sym box = 1;
            Vars all;
            for (size_t d = 0; d < info.shape.size(); ++d) {
                const Vars vs(free(e.args[d]).begin(), free(e.args[d]).end());
                all.insert(vs.begin(), vs.end());
                box = box * min(info.shape[d], size(vs));
            }
            const Sym count = min(box, size(all));  // a variable in two dims (a diagonal) reaches fewer
            if (count == whole) return whole;
            sum = sum + count;
        }
        return min(sum, whole);
    }

    const Program& p_;
    Cost cost_;
    std::vector<std::set<ExprId>> accesses_;
    std::set<std::pair<ExprId, Vars>> counted_;
    std::set<ExprId> index_seen_;
    std::unordered_map<ExprId, bool> position_;
    std::unordered_map<ExprId, std::vector<VarId>> free_;
};

// 1234567 as "1.23 M".
std::string short_number(double v) {
    constexpr const char* units[] = {"", " k", " M", " G", " T", " P"};
    int u = 0;
    while (v >= 1000 && u < 5) {
        v /= 1000;
        ++u;
    }
    return u == 0 ? fmt::format("{:.0f}", v) : fmt::format("{:.3g}{}", v, units[u]);
}
}  // namespace

Sym Cost::flops() const { return simple + divide + special; }
Sym Cost::bytes() const { return read_bytes + write_bytes; }

Cost cost(const Program& p) { return Counter(p).run(); }

std::string print_cost(const Program&, const Cost& c) {
    std::string r = fmt::format("{} FLOPs", c.flops().str());
    std::string classes;
    if (!c.divide.is(0)) classes += fmt::format(", {} divisions or roots", c.divide.str());
    if (!c.special.is(0)) classes += fmt::format(", {} exp-like", c.special.str());
    if (!classes.empty()) r += fmt::format(" ({} simple{})", c.simple.str(), classes);
    r += fmt::format("; at least {} bytes read, {} written", c.read_bytes.str(), c.write_bytes.str());
    const auto flops = c.flops().constant(), bytes = c.bytes().constant();
    if (flops && bytes) {
        r += fmt::format("; {}FLOP, {}B", short_number(static_cast<double>(*flops)) + (*flops < 1000 ? " " : ""),
                         short_number(static_cast<double>(*bytes)) + (*bytes < 1000 ? " " : ""));
        if (*bytes > 0) r += fmt::format(", {:.3g} FLOP/B", static_cast<double>(*flops) / static_cast<double>(*bytes));
    } else {
        r += fmt::format("; {} FLOPs over {} bytes", c.flops().str(), c.bytes().str());
    }
    return r;
}

}  // namespace opwright::derive
