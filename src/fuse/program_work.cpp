// How much a program computes and moves at given sizes, for the time model.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "derive/cost.h"
#include "fuse/summary.h"
#include "fuse/time_model.h"
#include "math/facts.h"
#include "schedule/together.h"
#include "schedule/kernel.h"

namespace opwright::fuse {
using namespace math;
namespace {

constexpr double kMapTask = 4096;       // points of a map that one task takes, about
constexpr double kProductTask = 4096;   // results of a product: tiles get smaller where units would stand idle
constexpr double kGather = 6;           // loads of neighbours that one of lanes apart costs
constexpr double kLine = 64, kElementsAhead = 16;
constexpr double kTaskBytes = 1 << 20;  // of a row that stays at hand between two readings

class Counter {
public:
    Counter(const Program& p, const SymValues& sizes, bool together)
        : given_(p), kernel_(p.equations.size() > 1 ? std::optional(schedule::form_kernel(p)) : std::nullopt),
          p_(kernel_ ? kernel_->program : p), sizes_(sizes), together_(together) {}

    ProgramWork run() {
        for (TensorId t : p_.inputs) {
            ProgramWork::Input i;
            i.elements = elements(t);
            r_.inputs.push_back(i);
        }
        for (TensorId t : p_.outputs) r_.outputs.push_back({elements(t) * bytes(t), 1});
        const derive::Cost c = derive::cost(given_);
        r_.simple = value(c.simple), r_.divide = value(c.divide), r_.special = value(c.special);
        nests();
        for (const Equation& q : p_.equations) equation(q);
        finish_inputs();
        r_.outputs.insert(r_.outputs.end(), through_.begin(), through_.end());
        r_.simple = std::max(0.0, r_.simple - r_.multiply_add);
        // What a vector loads from the first cache, or stores there, costs about as much as half a simple operation.
        r_.simple += 0.5 * loads_;
        return std::move(r_);
    }

private:
    double value(const Sym& s) const {
        const auto v = evaluate(s, sizes_);
        return v ? static_cast<double>(*v) : 1;
    }
    double extent(VarId v) const {
        if (extents_.size() <= v) extents_.resize(p_.vars.size(), -1);
        double& e = extents_[v];
        if (e < 0) e = std::max(0.0, value(p_.vars[v].extent));
        return e;
    }
    double elements(TensorId t) const {
        double n = 1;
        for (const Sym& s : p_.tensors[t].shape) n *= std::max(0.0, value(s));
        return n;
    }
    double bytes(TensorId t) const { return static_cast<double>(size_of(p_.tensors[t].dtype)); }

    // Equations that follow each other at the points of one grid are one pass over memory. The scheduler says which.
    void nests() {
        nest_of_.assign(p_.equations.size(), 0);
        if (!kernel_) {
            grid_ = {points(p_.equations[0])};
            rows_ = {{}};
            return;
        }
        r_.nests = static_cast<int>(kernel_->nests.size());
        for (const schedule::Nest& nest : kernel_->nests) {
            double g = 1;
            for (VarId v : nest.grid) g *= std::max(1.0, extent(v));
            // Where equations run further than the grid, each of its points is a row by itself: lanes lie within it.
            const bool rows = std::any_of(nest.equations.begin(), nest.equations.end(),
                                          [&](uint32_t e) { return p_.equations[e].vars.size() != nest.grid.size(); });
            for (uint32_t e : nest.equations) nest_of_[e] = grid_.size();
            grid_.push_back(g);
            rows_.push_back(rows ? std::set<VarId>(nest.grid.begin(), nest.grid.end()) : std::set<VarId>());
        }
        std::set<TensorId> held;  // that need room for some rows only
        for (size_t i = 0; together_ && i < kernel_->nests.size(); ++i)
            if (const auto t = schedule::match_together(*kernel_, i)) {
                r_.nests -= static_cast<int>(t->last - i);
                r_.together = true;
                held.insert(t->held.begin(), t->held.end());
                i = t->last;
            }
        // A temporary that another nest reads goes through memory.
        for (TensorId t : kernel_->workspace) {
            if (held.count(t)) {  // stays in the second cache: its loads are counted with the arithmetic
                held_.insert(t);
                continue;
            }
            through_.push_back({2 * elements(t) * bytes(t), 1});
            workspace_.insert(t);
        }
    }

    double points(const Equation& q) const {
        double n = 1;
        for (VarId v : q.vars) n *= extent(v);
        return n;
    }

    void equation(const Equation& q) {
        const size_t number = static_cast<size_t>(&q - p_.equations.data());
        const size_t nest = nest_of_[number];
        const double own = points(q);
        const math::Work w = math::work(p_, q.rhs);
        r_.points = std::max(r_.points, own);
        r_.live = std::max(r_.live, live_values(p_, q.rhs));
        const auto contraction = w.reduces ? schedule::match_contraction(p_, q) : std::nullopt;
        double tasks = p_.equations.size() == 1 || grid_[nest] == own ? own / kMapTask : grid_[nest];
        double terms = 1;
        if (w.reduces) {
            for (const Read& r : reads_with_context(p_, q.rhs)) {
                double n = 1;
                for (VarId v : r.reduced) n *= extent(v);
                terms = std::max(terms, n);
            }
            if (contraction && is_product(contraction->reduce)) {
                r_.contracts = true;
                r_.multiply_add += 2 * own * terms;
                tasks = own / kProductTask;
            } else {
                tasks = std::max(tasks, own * terms / (8 * kMapTask));  // rows of a long sum are tasks of few points
                tasks = std::min(tasks, own);
            }
        }
        tasks_ = std::max(tasks_, tasks);
        r_.tasks = std::max(1.0, tasks_);
        const TensorInfo& out = p_.tensors[q.lhs];
        loads_ += own;  // to store is as much as to load
        if (const auto o = std::find(p_.outputs.begin(), p_.outputs.end(), q.lhs); o != p_.outputs.end()) {
            double& u = r_.outputs[static_cast<size_t>(o - p_.outputs.begin())].useful;
            u = std::min(u, useful(q.at.data(), out, q.vars, rows_[nest]));
        } else if (!workspace_.count(q.lhs) && !held_.count(q.lhs)) {
            // A row that is longer than fast memory goes through the slower ones.
            if (own * bytes(q.lhs) / std::max(1.0, grid_[nest]) > kTaskBytes) through_.push_back({2 * own * bytes(q.lhs), 1});
        }
        const auto look = [&](ExprId root) {
            for (const Read& r : reads_with_context(p_, root)) read(q, nest, r, contraction.has_value());
        };
        for (ExprId a : q.at) look(a);
        look(q.rhs);
    }

    bool is_product(ExprId reduce) const {
        const Expr& e = p_.expr(reduce);
        return e.kind == ExprKind::Reduce && e.reduce == ReduceOp::Sum;
    }

    void read(const Equation& q, size_t nest, const Read& r, bool contraction) {
        const Expr& x = p_.expr(r.expr);
        if (x.kind != ExprKind::Load) return;
        std::vector<VarId> domain = q.vars;
        domain.insert(domain.end(), r.reduced.begin(), r.reduced.end());
        double times = 1;
        for (VarId v : domain) times *= extent(v);
        const TensorInfo& t = p_.tensors[x.ref];
        if (!contraction) loads_ += times * (useful(x.args.data(), t, domain, rows_[nest]) < 0.3 ? kGather : 1);
        const auto in = std::find(p_.inputs.begin(), p_.inputs.end(), x.ref);
        if (in == p_.inputs.end()) {
            return;
        }
        const auto i = static_cast<size_t>(in - p_.inputs.begin());
        r_.inputs[i].wanted += times;
        // Distinct elements: each dim's positions at most once.
        double box = 1, all = 1;
        std::set<VarId> used;
        for (size_t d = 0; d < t.shape.size(); ++d) {
            double n = 1;
            for (VarId v : p_.free_vars(x.args[d])) {
                n *= extent(v);
                used.insert(v);
            }
            box *= std::min(n, std::max(0.0, value(t.shape[d])));
        }
        for (VarId v : used) all *= extent(v);
        Place place{r.expr, nest, std::min({box, all, r_.inputs[i].elements}), useful(x.args.data(), t, domain, rows_[nest])};
        for (const Place& other : places_[i])
            if (other.expr == place.expr && other.nest == place.nest) return;
        places_[i].push_back(place);
    }

    struct Place {
        ExprId expr;
        size_t nest;
        double elements, useful;
    };

    // Of a line that moves, the share that is wanted: 1 where some variable walks side by side through it.
    double useful(const ExprId* at, const TensorInfo& t, const std::vector<VarId>& domain, const std::set<VarId>& apart) const {
        const double size = static_cast<double>(size_of(t.dtype));
        std::unordered_map<VarId, double> stride;
        double step = 1;
        bool data = false;
        for (size_t d = t.shape.size(); d-- > 0;) {
            if (const auto f = affine(p_, at[d])) {
                for (const auto& [v, c] : f->terms)
                    if (!apart.count(v)) stride[v] += value(c) * step;
            } else if (!p_.reads(at[d]).empty()) {
                data = true;
            } else {
                // Quotients and remainders (a resize) walk about as their variables do.
                for (VarId v : p_.free_vars(at[d]))
                    if (!apart.count(v)) stride[v] += step;
            }
            step *= std::max(1.0, value(t.shape[d]));
        }
        // Variables whose steps lie side by side make one run, as those of a split dim do.
        double run = 1, least = 1e30;
        std::vector<std::pair<double, double>> steps;
        for (const auto& [v, s] : stride) {
            if (extent(v) <= 1 || s == 0) continue;
            steps.push_back({std::abs(s), extent(v)});
            least = std::min(least, std::abs(s));
        }
        std::sort(steps.begin(), steps.end());
        for (const auto& [s, n] : steps)
            if (s <= run) run = std::max(run, s * n);
        const double line = kLine / size;
        if (run > 1) {
            double u = std::min(1.0, run / line);
            // Lanes that walk another variable than the one side by side in memory gather it.
            const VarId inner = innermost(domain);
            if (inner != kNone && extent(inner) > 1) {
                const auto it = stride.find(inner);
                if (it != stride.end() && it->second != 0 && std::abs(it->second) >= kElementsAhead) u *= 0.5;
            }
            return u;
        }
        if (least < 1e30) return std::max(1 / line, 1 / least);
        return data ? 1 / line : 1;
    }
    VarId innermost(const std::vector<VarId>& domain) const { return domain.empty() ? kNone : domain.back(); }

    void finish_inputs() {
        for (auto& [i, places] : places_) {
            ProgramWork::Input& in = r_.inputs[i];
            const double size = bytes(p_.inputs[i]);
            double distinct = 0, touched = 0, useful = 1;
            std::map<size_t, double> nests;   // the most that one place of a nest touches
            for (const Place& p : places) {
                distinct += p.elements;
                useful = std::min(useful, p.useful);
                double& n = nests[p.nest];
                // Within a nest a row that stays at hand is read from memory once.
                const bool at_hand = p.elements * size / std::max(1.0, grid_[p.nest]) <= kTaskBytes;
                n = at_hand ? std::max(n, p.elements) : n + p.elements;
            }
            for (const auto& [nest, n] : nests) touched += n;
            in.bytes = std::min(distinct, in.elements) * size;
            in.touched = std::max(in.bytes, touched * size);
            in.useful = useful;
        }
    }

    const Program& given_;
    std::optional<schedule::Kernel> kernel_;  // of several equations
    const Program& p_;
    const SymValues& sizes_;
    ProgramWork r_;
    std::vector<size_t> nest_of_;
    std::vector<double> grid_;       // points of each nest's grid
    std::vector<std::set<VarId>> rows_;  // by nest: variables that no lane runs along
    const bool together_;
    std::set<TensorId> workspace_, held_;
    std::vector<ProgramWork::Output> through_;  // temporaries that pass through memory
    std::map<size_t, std::vector<Place>> places_;
    mutable std::vector<double> extents_;
    double loads_ = 0, tasks_ = 0;
};

// Values alive while e is evaluated, its own included; children the hungriest first. Shared parts are values that wait.
struct Liveness {
    const Program& p;
    std::unordered_map<ExprId, int> need, uses;

    void count(ExprId root) {
        std::vector<ExprId> stack{root};
        while (!stack.empty()) {
            const ExprId e = stack.back();
            stack.pop_back();
            if (uses[e]++) continue;
            for (ExprId a : arguments(e)) stack.push_back(a);
        }
    }
    std::vector<ExprId> arguments(ExprId id) const {
        const Expr& e = p.expr(id);
        const size_t rank = e.kind == ExprKind::Load || e.kind == ExprKind::Inside ? p.tensors[e.ref].shape.size() : 0;
        return {e.args.begin() + static_cast<std::ptrdiff_t>(rank), e.args.end()};
    }
    // Iterative post-order: expressions are deep.
    int run(ExprId root) {
        count(root);
        int shared = 0;
        std::vector<std::pair<ExprId, bool>> stack{{root, false}};
        while (!stack.empty()) {
            const auto [e, done] = stack.back();
            stack.pop_back();
            if (need.count(e)) continue;
            const auto args = arguments(e);
            if (!done) {
                stack.push_back({e, true});
                for (ExprId a : args)
                    if (!need.count(a)) stack.push_back({a, false});
                continue;
            }
            const ExprKind kind = p.expr(e).kind;
            if (kind == ExprKind::Literal || kind == ExprKind::Index || kind == ExprKind::Size) {
                need[e] = 1;
                continue;
            }
            std::vector<int> needs;
            for (ExprId a : args) needs.push_back(need[a]);
            std::sort(needs.rbegin(), needs.rend());
            int n = kind == ExprKind::Reduce ? 2 : 1;
            for (size_t i = 0; i < needs.size(); ++i) n = std::max(n, needs[i] + static_cast<int>(i));
            need[e] = n;
            if (uses[e] > 1 && kind != ExprKind::Cast) ++shared;
        }
        // A value that several parts want waits in a register for the last of them; not all wait at one time.
        return need[root] + (shared + 1) / 2;
    }
};
}  // namespace

int live_values(const Program& p, ExprId root) { return Liveness{p, {}, {}}.run(root); }

ProgramWork program_work(const Program& p, const SymValues& sizes, bool together) { return Counter(p, sizes, together).run(); }

}  // namespace opwright::fuse
