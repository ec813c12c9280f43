#include "derive/keep.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>
#include <set>

#include "derive/cost.h"
#include "math/extract.h"
#include "math/facts.h"

namespace opwright::derive {
using namespace math;
namespace {

// Nanoseconds of one core with 8 lanes: a byte from or to memory, and operations by class.
constexpr double kByte = 0.1, kSimple = 0.06, kDivide = 0.4, kSpecial = 1.0;
// Of loading an element from a cache: with its neighbours, and on its own (strides, places that are data).
constexpr double kLoad = 0.03, kLoadAlone = 0.3;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The least cut between two nodes by shortest augmenting paths (Edmonds and Karp).
class Flow {
public:
    explicit Flow(size_t nodes) : out_(nodes) {}
    void edge(size_t from, size_t to, double capacity) {
        out_[from].push_back(edges_.size());
        edges_.push_back({to, capacity});
        out_[to].push_back(edges_.size());
        edges_.push_back({from, 0});
    }
    // Nodes on the source's side.
    std::vector<bool> cut(size_t source, size_t sink) {
        for (;;) {
            std::vector<size_t> by(out_.size(), SIZE_MAX);
            std::vector<bool> seen(out_.size());
            std::queue<size_t> open;
            seen[source] = true;
            open.push(source);
            while (!open.empty() && !seen[sink]) {
                const size_t n = open.front();
                open.pop();
                for (size_t e : out_[n])
                    if (edges_[e].left > 0 && !seen[edges_[e].to]) {
                        seen[edges_[e].to] = true;
                        by[edges_[e].to] = e;
                        open.push(edges_[e].to);
                    }
            }
            if (!seen[sink]) return seen;
            double least = kInfinite;
            for (size_t n = sink; n != source; n = edges_[by[n] ^ 1].to) least = std::min(least, edges_[by[n]].left);
            for (size_t n = sink; n != source; n = edges_[by[n] ^ 1].to) {
                edges_[by[n]].left -= least;
                edges_[by[n] ^ 1].left += least;
            }
        }
    }

private:
    struct Edge {
        size_t to;
        double left;
    };
    std::vector<Edge> edges_;
    std::vector<std::vector<size_t>> out_;
};

// Tensors that an equation mentions.
std::set<TensorId> mentioned_by(const Program& p, const Equation& q) {
    std::set<TensorId> r;
    std::vector<ExprId> roots = q.at;
    roots.push_back(q.rhs);
    for (ExprId e : roots)
        for (const Read& x : reads_with_context(p, e)) r.insert(p.expr(x.expr).ref);
    return r;
}

class Chooser {
public:
    Chooser(const Program& p, const std::vector<TensorId>& outputs) : p_(p) {
        for (const std::string& s : p.symbols()) nominal_[s] = kNominalExtent;
        for (TensorId t : outputs) output_.insert(t);
    }

    std::vector<Kept> run(const std::vector<TensorId>& cotangents, const std::vector<TensorId>& results) {
        // Tensors of the gradient: those that depend on a cotangent.
        std::set<TensorId> back(cotangents.begin(), cotangents.end());
        std::vector<std::set<TensorId>> reads;
        for (const Equation& q : p_.equations) {
            reads.push_back(mentioned_by(p_, q));
            if (std::any_of(reads.back().begin(), reads.back().end(), [&](TensorId t) { return back.count(t) > 0; }))
                back.insert(q.lhs);
        }
        // Those that results need, from the last equation to the first; what is wanted of the operator by them.
        std::set<TensorId> needed(results.begin(), results.end()), wanted;
        for (TensorId t : results)
            if (!back.count(t)) wanted.insert(t);
        for (size_t i = p_.equations.size(); i-- > 0;) {
            const TensorId t = p_.equations[i].lhs;
            if (!needed.count(t)) continue;
            for (TensorId r : reads[i]) {
                needed.insert(r);
                if (back.count(t) && !back.count(r)) wanted.insert(r);
            }
        }
        // Node 2t: the value is at hand; 2t + 1: it is computed.
        const size_t n = p_.tensors.size(), source = 2 * n, sink = 2 * n + 1;
        Flow flow(2 * n + 2);
        for (TensorId t : wanted) flow.edge(source, 2 * t, kInfinite);
        for (TensorId t = 0; t < n; ++t) {
            if (!needed.count(t) || back.count(t)) continue;
            const Role role = p_.tensors[t].role;
            if (role == Role::Constant) continue;
            if (role == Role::Input) {
                flow.edge(2 * t, sink, load(t));
                continue;
            }
            const bool result = std::find(results.begin(), results.end(), t) != results.end();
            flow.edge(2 * t, 2 * t + 1, result ? kInfinite : load(t));
            flow.edge(2 * t + 1, sink, compute(t));
            for (size_t i = 0; i < p_.equations.size(); ++i)
                if (p_.equations[i].lhs == t)
                    for (TensorId r : reads[i])
                        if (r != t) flow.edge(2 * t + 1, 2 * r, kInfinite);
        }
        const std::vector<bool> near = flow.cut(source, sink);
        std::vector<Kept> kept;
        for (TensorId t = 0; t < n; ++t) {
            if (!needed.count(t) || back.count(t) || !near[2 * t]) continue;
            if (p_.tensors[t].role == Role::Input || p_.tensors[t].role == Role::Constant) continue;
            Kept k{.tensor = t, .name = p_.tensors[t].name, .output = output_.count(t) > 0};
            k.bytes = product(p_.tensors[t].shape) * Sym(static_cast<int64_t>(size_of(p_.tensors[t].dtype)));
            k.given = !near[2 * t + 1];
            const double elements = std::max(1.0, value(product(p_.tensors[t].shape)));
            k.reason =
                fmt::format("{} {:.2g} ns an element, computing {}{:.2g}", k.output ? "reading" : "keeping",
                            load(t) / elements, k.given ? "it from what it reads " : "", compute(t) / elements);
            kept.push_back(std::move(k));
        }
        return kept;
    }

private:
    double value(const Sym& s) const { return static_cast<double>(evaluate(s, nominal_).value_or(kNominalExtent)); }
    double load(TensorId t) const {
        const TensorInfo& i = p_.tensors[t];
        const double bytes = value(product(i.shape)) * static_cast<double>(size_of(i.dtype)) * kByte;
        return i.role == Role::Input || output_.count(t) ? bytes : 2 * bytes;
    }
    // Of the tensor's own equations, given all that they read.
    double compute(TensorId t) const {
        Program own = p_;
        std::erase_if(own.equations, [&](const Equation& q) { return q.lhs != t; });
        std::set<TensorId> reads;
        for (const Equation& q : own.equations)
            for (TensorId r : mentioned_by(p_, q))
                if (r != t && p_.tensors[r].role != Role::Constant) reads.insert(r);
        const Cost c = cost(extract(own, "", {reads.begin(), reads.end()}, {t}));
        double time = value(c.simple) * kSimple + value(c.divide) * kDivide + value(c.special) * kSpecial;
        for (const Equation& q : own.equations)
            for (const Read& r : reads_with_context(p_, q.rhs)) {
                const Expr& e = p_.expr(r.expr);
                if (e.kind != ExprKind::Load || e.args.empty()) continue;
                const auto last = affine(p_, e.args[p_.tensors[e.ref].shape.size() - 1]);
                const bool beside = last && std::all_of(last->terms.begin(), last->terms.end(),
                                                        [](const auto& term) { return term.second.is(1); });
                double points = 1;
                for (VarId v : q.vars) points *= value(p_.vars[v].extent);
                for (VarId v : r.reduced) points *= value(p_.vars[v].extent);
                time += points * (beside ? kLoad : kLoadAlone);
            }
        return time;
    }

    const Program& p_;
    SymValues nominal_;
    std::set<TensorId> output_;
};
}  // namespace

std::vector<Kept> choose_kept(const Program& forward, const std::vector<TensorId>& outputs,
                              const std::vector<TensorId>& cotangents, const std::vector<TensorId>& results) {
    std::vector<TensorId> given;
    for (TensorId t : cotangents)
        if (t != kNone) given.push_back(t);
    return Chooser(forward, outputs).run(given, results);
}

std::string print_kept(const std::vector<Kept>& kept) {
    std::string r;
    for (const Kept& k : kept)
        r += fmt::format("{}: {}{}, {} bytes ({})\n", k.name, k.given ? "given" : "computed again",
                         k.output ? ", an output" : "", k.bytes.str(), k.reason);
    return r;
}

}  // namespace opwright::derive
