#include "target/triton/check_inputs.h"

#include <algorithm>
#include <functional>
#include <set>

#include "target/triton/range.h"

namespace opwright::target::triton {
using namespace math;

namespace {

constexpr int64_t kWork = 20'000;  // points of an equation that NumPy holds at once

// The range of an index computed from `data`, if all elements of `data` were `value`.
std::optional<Range> range_given(const Program& p, ExprId e, TensorId data, int64_t value) {
    const std::function<std::optional<Range>(ExprId)> leaf = [&](ExprId id) -> std::optional<Range> {
        const Expr& x = p.expr(id);
        if (x.kind == ExprKind::Cast && is_int(p.expr(x.args[0]).dtype)) return leaf(x.args[0]);
        if (x.kind != ExprKind::Load) return index_range(p, id, leaf);
        if (x.ref == data) return Range{value, value};
        const Equation* definition = nullptr;
        for (const Equation& q : p.equations)
            if (q.lhs == x.ref) {
                if (definition || q.update != Update::Set) return std::nullopt;
                definition = &q;
            }
        if (!definition) return std::nullopt;
        return index_range(p, definition->rhs, leaf);
    };
    return index_range(p, e, leaf);
}

// Where the position is the element of `data` and something beside it, that something is left room for.
Limits limits_of(const Program& p, ExprId at, TensorId data, const Sym& extent) {
    const auto rest = range_given(p, at, data, 0), next = range_given(p, at, data, 1);
    if (!rest || !next || !(next->low == rest->low + 1) || !(next->high == rest->high + 1)) return {0, extent};
    return {max(0, -rest->low), extent - rest->high};
}
}  // namespace

std::map<TensorId, std::vector<Limits>> position_limits(const Program& p) {
    std::map<TensorId, std::set<TensorId>> from;  // tensor -> inputs that it depends on
    for (TensorId t : p.inputs) from[t] = {t};
    for (const Equation& q : p.equations) {
        std::set<TensorId> all = from[q.lhs];
        for (TensorId t : p.reads(q.rhs)) all.insert(from[t].begin(), from[t].end());
        from[q.lhs] = all;
    }
    std::map<TensorId, std::vector<Limits>> r;
    const auto access = [&](TensorId t, const std::vector<ExprId>& at) {
        for (size_t d = 0; d < p.tensors[t].shape.size(); ++d)
            for (TensorId read : p.reads(at[d]))
                for (TensorId input : from[read])
                    if (!is_float(p.tensors[input].dtype))
                        r[input].push_back(limits_of(p, at[d], input, p.tensors[t].shape[d]));
    };
    for (const Equation& q : p.equations) {
        if (q.update != Update::Set && q.outside == Outside::Error) access(q.lhs, q.at);
        std::vector<ExprId> stack = q.at;
        stack.push_back(q.rhs);
        std::set<ExprId> seen;
        while (!stack.empty()) {
            const ExprId e = stack.back();
            stack.pop_back();
            if (!seen.insert(e).second) continue;
            const Expr& x = p.expr(e);
            if (x.kind == ExprKind::Load && x.outside == Outside::Error) access(x.ref, x.args);
            stack.insert(stack.end(), x.args.begin(), x.args.end());
        }
    }
    return r;
}

namespace {
class Sizes {
public:
    Sizes(const Program& p, const std::map<TensorId, std::vector<Limits>>& limits) : p_(p), limits_(limits) {}

    bool admissible(const SymValues& v) {
        for (const Requirement& r : p_.requirements)
            if (evaluate(r.value, v).value_or(0) == 0) return false;
        for (const TensorInfo& t : p_.tensors)
            for (const Sym& s : t.shape)
                if (evaluate(s, v).value_or(-1) < 0) return false;
        for (const auto& [t, all] : limits_)
            for (const Limits& l : all)
                if (evaluate(l.end, v).value_or(0) <= evaluate(l.low, v).value_or(0)) return false;
        for (const Equation& q : p_.equations) {
            int64_t work = 1;
            std::set<VarId> vars(q.vars.begin(), q.vars.end());
            bool fits = true;
            std::set<ExprId> seen;
            const auto visit = [&](auto&& self, ExprId e) -> void {
                if (!seen.insert(e).second) return;
                const Expr& x = p_.expr(e);
                if (x.kind == ExprKind::Reduce) vars.insert(x.vars.begin(), x.vars.end());
                if (x.kind == ExprKind::Load && x.outside != Outside::Value)
                    fits = fits && stays(x.ref, x.args, x.outside, v);
                for (ExprId a : x.args) self(self, a);
            };
            for (ExprId a : q.at) visit(visit, a);
            visit(visit, q.rhs);
            if (q.update != Update::Set && q.outside == Outside::Error) fits = fits && stays(q.lhs, q.at, q.outside, v);
            if (!fits) return false;
            for (VarId x : vars) {
                const int64_t n = evaluate(p_.vars[x].extent, v).value_or(-1);
                if (n < 0) return false;
                work *= std::max<int64_t>(n, 1);
                if (work > kWork) return false;
            }
        }
        return true;
    }

    std::vector<SymValues> choose(const std::vector<std::string>& symbols, const SymValues& asked) {
        std::vector<SymValues> r;
        const auto offer = [&](SymValues v) {
            if (r.size() < 8 && admissible(v) && std::find(r.begin(), r.end(), v) == r.end()) r.push_back(std::move(v));
        };
        if (!asked.empty()) offer(asked);
        const auto all = [&](auto value) {
            SymValues v;
            for (size_t i = 0; i < symbols.size(); ++i) v[symbols[i]] = value(i);
            offer(std::move(v));
        };
        constexpr int64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19};
        all([](size_t) { return 1; });
        all([&](size_t i) { return primes[i % 8]; });
        all([&](size_t i) { return primes[7 - i % 8]; });
        all([](size_t) { return 3; });
        for (size_t k = 0; k < symbols.size(); ++k)
            for (int64_t n : {33, 129}) all([&](size_t i) { return i == k ? n : primes[i % 4]; });
        all([](size_t) { return 16; });
        all([](size_t) { return 65; });
        if (limits_.empty())
            for (size_t k = 0; k < symbols.size(); ++k) all([&](size_t i) { return i == k ? 0 : 4; });
        for (int64_t n = 2; r.empty() && n < 40; ++n) all([&](size_t) { return n; });
        // Extents that must fit each other, as a state of one element less than the kernel: small ones by chance.
        uint32_t drawn = 1;
        for (int tries = 0; r.size() < 3 && tries < 20000; ++tries)
            all([&](size_t) {
                drawn = drawn * 1664525 + 1013904223;
                return 1 + static_cast<int64_t>(drawn >> 16) % 12;
            });
        return r;
    }

private:
    bool stays(TensorId t, const std::vector<ExprId>& at, Outside outside, const SymValues& v) {
        for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d) {
            const int64_t n = evaluate(p_.tensors[t].shape[d], v).value_or(-1);
            const auto range = index_range(p_, at[d]);
            if (outside != Outside::Error || !range) {
                if (n < 1) return false;
                continue;
            }
            const auto low = evaluate(range->low, v), high = evaluate(range->high, v);
            if (!low || !high || (*high >= *low && (*low < 0 || *high >= n))) return false;
        }
        return true;
    }
    const Program& p_;
    const std::map<TensorId, std::vector<Limits>>& limits_;
};
}  // namespace

std::vector<SymValues> check_sizes(const Program& p, const SymValues& asked,
                                   const std::map<TensorId, std::vector<Limits>>& limits) {
    return Sizes(p, limits).choose(p.symbols(), asked);
}

}  // namespace opwright::target::triton
