#include "target/cuda/split.h"

#include <algorithm>
#include <map>

#include "math/extract.h"
#include "target/cuda/lower.h"

namespace opwright::target::cuda {
using namespace math;

namespace {
bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

constexpr int64_t kBlocks = 1056;         // eight of 256 threads on each of 132 multiprocessors
constexpr int64_t kFewRows = 128;         // results with which a block each leaves processors idle
constexpr int64_t kFewColumns = 1 << 17;  // and a thread each
constexpr int64_t kPassesFrom = 4;        // times as many terms where a kernel that keeps the row in registers competes

// The grid variable along which a load of the reduction is contiguous; kNone: there is none.
VarId column_lane(const Program& p, const Group& g, const Expr& reduce) {
    for (auto v = g.grid.rbegin(); v != g.grid.rend(); ++v)
        for (ExprId a : reduce.args)
            for (ExprId l : loads_in(p, a, true))
                if (contiguous(p, p.expr(l).ref, p.expr(l).args, *v)) return *v;
    return kNone;
}

// Whether the reduction slides a window: its terms lie where sums of variables point, and they are never many.
bool windowed(const Program& p, const Expr& reduce) {
    for (ExprId a : reduce.args)
        for (ExprId l : loads_in(p, a, true))
            for (ExprId i : p.expr(l).args)
                if (const auto f = affine(p, i); f && f->terms.size() > 1) return true;
    return false;
}

class Splitter {
public:
    Splitter(Program& p, Group& g, int64_t from, std::vector<TensorId>& workspace)
        : p_(p), g_(g), from_(from), workspace_(workspace) {}

    std::vector<Group> run() {
        if (!possible()) return {};
        const Condition few{.kind = Condition::Kind::AtLeast, .value = few_, .number = 1};
        for (TensorId t : locals()) {
            const TensorInfo info = p_.tensors[t];
            copies_[t] = add("all_" + info.name, info.dtype, info.shape);
        }
        for (uint32_t i : std::vector<uint32_t>(g_.equations)) equation(p_.equations[i]);
        for (Group& x : out_) x.when = {few};
        g_.when = {{.kind = Condition::Kind::AtMost, .value = few_, .number = 0}};
        return std::move(out_);
    }

private:
    bool possible() {
        if (g_.contraction) return false;
        int reductions = 0;
        bool maps = false, held = false;
        const Sym results = points_of(p_, g_.grid);
        for (uint32_t i : g_.equations) {
            const Equation& q = p_.equations[i];
            if (q.update != Update::Set || p_.expr(q.rhs).kind == ExprKind::Scan) return false;
            const bool of_grid = std::all_of(q.vars.begin(), q.vars.end(), [&](VarId v) { return has(g_.grid, v); });
            maps |= !of_grid;
            for (ExprId r : reduces_in(p_, q.rhs)) {
                const Expr& x = p_.expr(r);
                if (!of_grid) return false;
                const auto free = p_.free_vars(r);
                if (!std::all_of(free.begin(), free.end(), [&](VarId v) { return has(g_.grid, v); })) return false;
                for (ExprId a : x.args)
                    if (!reduces_in(p_, a).empty()) return false;
                if (windowed(p_, x)) return false;
                ++reductions;
                held |= x.vars.size() == 1;
                if (is_arg(x.reduce) && x.args.size() > 1) return false;  // a slice may have no term
                const VarId row = row_lane(p_, r), column = column_lane(p_, g_, x);
                if (is_arg(x.reduce) && row != kNone && row != x.vars.back()) return false;
                const bool columns = row == kNone && column != kNone;
                const Sym length = points_of(p_, x.vars);
                few_ = few_ * less(columns ? from_ / 128 - 1 : from_ - 1, length);
                few_ = few_ * less(results, (columns ? kFewColumns : kFewRows) + 1);
                if (columns) few_ = few_ * less(from_ - 1, length * results);
            }
        }
        if (reductions == 0) return false;
        // Rows that a block may hold in registers are read once; these kernels read them once for every reduction. They
        // serve where it is certain that there are few rows.
        if (maps && held && results.upper() > kFewRows) return false;
        if (maps || reductions > 1)
            for (uint32_t i : g_.equations)
                for (ExprId r : reduces_in(p_, p_.equations[i].rhs))
                    few_ = few_ * less(kPassesFrom * from_ - 1, points_of(p_, p_.expr(r).vars));
        return !few_.is(0);
    }

    // What the group keeps in registers passes through memory between kernels.
    std::vector<TensorId> locals() const {
        std::vector<TensorId> r;
        for (uint32_t i : g_.equations) {
            const TensorId t = p_.equations[i].lhs;
            if (p_.tensors[t].role == Role::Temp &&
                std::find(workspace_.begin(), workspace_.end(), t) == workspace_.end())
                r.push_back(t);
        }
        return r;
    }
    TensorId add(const std::string& name, DType type, std::vector<Sym> shape) {
        const TensorId t = p_.add_tensor(name, type, std::move(shape), Role::Temp);
        workspace_.push_back(t);
        return t;
    }

    ExprId copied(Rewriter& w, ExprId e) {
        const Expr x = p_.expr(e);
        if (x.kind != ExprKind::Load || !copies_.count(x.ref)) return kNone;
        std::vector<ExprId> at;
        for (ExprId a : x.args) at.push_back(w(a));
        return p_.load(copies_.at(x.ref), std::move(at));
    }

    void equation(const Equation q) {
        const std::string name = p_.tensors[q.lhs].name;
        std::map<ExprId, ExprId> results;
        bool columns = false;
        Rewriter loads = in_place(p_);
        loads.replace = [&](Rewriter& w, ExprId e) { return copied(w, e); };
        for (ExprId r : reduces_in(p_, q.rhs)) {
            const ExprId reduce = loads(r);
            auto known = known_.find(reduce);
            if (known == known_.end()) known = known_.emplace(reduce, slices(reduce, name)).first;
            results[r] = known->second.first;
            columns |= known->second.second;
        }
        Rewriter whole = in_place(p_);
        whole.replace = [&](Rewriter& w, ExprId e) {
            const auto it = results.find(e);
            return it != results.end() ? it->second : copied(w, e);
        };
        const ExprId rhs = whole(q.rhs);
        const auto copy = copies_.find(q.lhs);
        Group g{{static_cast<uint32_t>(p_.equations.size())}, q.vars, nullptr};
        if (!results.empty()) g.partials = columns ? Group::Partials::Columns : Group::Partials::Rows;
        p_.add_equation(copy == copies_.end() ? q.lhs : copy->second, q.at, rhs, Update::Set, q.outside, q.span);
        out_.push_back(std::move(g));
    }

    size_t widest(const Expr& reduce) const {
        size_t r = 1;
        for (ExprId a : reduce.args)
            for (ExprId l : loads_in(p_, a, true)) r = std::max(r, size_of(p_.tensors[p_.expr(l).ref].dtype));
        return r;
    }
    // Adds the kernel that leaves partial results of `reduce`; gives back what folds these, and whether it goes by
    // columns.
    std::pair<ExprId, bool> slices(ExprId reduce, const std::string& name) {
        const Expr x = p_.expr(reduce);
        Slices s;
        s.reduce = reduce;
        s.grid = g_.grid;
        s.along = x.vars;
        const VarId row = row_lane(p_, reduce), column = column_lane(p_, g_, x);
        s.columns = row == kNone && column != kNone;
        const auto last = [](std::vector<VarId>& vars, VarId v) {
            vars.erase(std::find(vars.begin(), vars.end(), v));
            vars.push_back(v);
        };
        if (s.columns) last(s.grid, column);
        if (row != kNone) last(s.along, row);
        s.length = points_of(p_, x.vars);
        const Sym results = points_of(p_, s.grid);
        // Whole packs of sixteen elements; with 16384, a pack of eight for each of 256 threads.
        const int64_t unit = s.columns ? from_ / 256 : from_ / 8;
        // A block works on 32 packs side by side, or on one result.
        const Sym neighbours = s.columns ? 512 / static_cast<int64_t>(widest(x)) : 1;
        const Sym shared = ceil_div(s.length * max(results, neighbours), neighbours * Sym(kBlocks));
        s.slice_length = max(ceil_div(shared, unit), 1) * Sym(unit);
        s.slice = p_.add_var("slice", ceil_div(s.length, s.slice_length));
        std::vector<Sym> shape;
        for (VarId v : g_.grid) {
            shape.push_back(p_.vars[v].extent);
            s.at.push_back(p_.index(v));
        }
        shape.push_back(p_.vars[s.slice].extent);
        s.at.push_back(p_.index(s.slice));
        const bool arg = is_arg(x.reduce);
        s.partial = add(name + (arg ? "_best" : "_partial"), arg ? p_.expr(x.args[0]).dtype : x.dtype, shape);
        ExprId r = p_.reduce(x.reduce, {s.slice}, p_.load(s.partial, s.at), x.dtype);
        if (arg) {  // the position that the best slice found
            s.partial_at = add(name + "_best_at", DType::I64, shape);
            std::vector<ExprId> at = s.at;
            at.back() = p_.cast(r, DType::I64);
            r = p_.cast(p_.load(s.partial_at, std::move(at), Outside::Value, p_.integer(0)), x.dtype);
        }
        Group g{{}, s.grid, nullptr};
        const bool columns = s.columns;
        g.slices = std::move(s);
        out_.push_back(std::move(g));
        return {r, columns};
    }

    Program& p_;
    Group& g_;
    int64_t from_;
    std::vector<TensorId>& workspace_;
    Sym few_ = 1;
    std::map<TensorId, TensorId> copies_;
    std::map<ExprId, std::pair<ExprId, bool>> known_;  // by reduction, what slices() gave
    std::vector<Group> out_;
};
}  // namespace

std::vector<Group> split_reductions(Program& p, Group& g, int64_t from, std::vector<TensorId>& workspace) {
    return Splitter(p, g, from, workspace).run();
}

}  // namespace opwright::target::cuda
