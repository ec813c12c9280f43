#include "target/cpu/lower/row_pipeline.h"

#include <algorithm>
#include <map>
#include <set>


namespace opwright::target::cpu {
using namespace math;
using tile::Stmt;
using tile::StmtKind;

namespace {
// Measured with the walks of softmax and layer norm, on two makers' processors: up to three rows that lie in the second-level
// cache come as fast as they are read; five of them make the common loop a third slower than walks one by one.
constexpr size_t kStreams = 3;
constexpr size_t kWalks = 4;  // their partial results share the registers

bool contains(const std::vector<TensorId>& list, TensorId t) { return std::find(list.begin(), list.end(), t) != list.end(); }

// A loop over lanes that reads whole rows where they stand and folds into registers or stores.
bool walks_straight(const tile::Program& p, const Stmt& loop) {
    const math::Program& m = p.kernel.program;
    if (!loop.lane || loop.lanes < 2 || loop.tile % loop.lanes != 0) return false;
    return std::all_of(loop.body.begin(), loop.body.end(), [&](const Stmt& s) {
        switch (s.kind) {
            case StmtKind::Map: return true;
            case StmtKind::Load: {
                const math::Expr& x = m.expr(p.buffers[s.dst].value);
                return x.outside == Outside::Error && std::all_of(x.args.begin(), x.args.end(), [&](ExprId at) { return affine(m, at).has_value(); });
            }
            case StmtKind::Accumulate: {
                const tile::Buffer& acc = p.buffers[s.dst];
                const math::Expr& e = m.expr(acc.value);
                return acc.memory == tile::Memory::Register && !is_arg(e.reduce) && std::find(e.vars.begin(), e.vars.end(), loop.var) != e.vars.end();
            }
            case StmtKind::Store: return m.equations[s.equation].update == Update::Set;
            default: return false;
        }
    });
}

class Finder {
public:
    Finder(const tile::Program& p, const Machine& machine, const std::vector<TensorId>& locals)
        : p_(p), m_(p.kernel.program), machine_(machine), locals_(locals) {}

    std::optional<RowPipeline> run(const tile::Nest& nest) {
        if (nest.contract || nest.grid.empty() || std::any_of(nest.grid.begin(), nest.grid.end(), [](const tile::GridAxis& g) { return g.tile != 1; }))
            return std::nullopt;
        r_.row = nest.grid.back().var;
        if (!split(nest.body) || r_.walks.size() < 2 || r_.walks.size() > kWalks) return std::nullopt;
        if (m_.vars[r_.row].extent.upper() < 2 * static_cast<int64_t>(r_.walks.size()) || r_.length.upper() < 2 * r_.step) return std::nullopt;
        if (!name_numbers()) return std::nullopt;
        for (size_t w = 0; w < r_.walks.size(); ++w)
            if (!reads(w)) return std::nullopt;
        std::erase_if(r_.numbers, [](const RowPipeline::Number& x) { return x.last <= x.made; });
        bound();
        return std::move(r_);
    }

private:
    bool split(const std::vector<Stmt>& body) {
        std::vector<const Stmt*> fills;
        for (const Stmt& s : body) {
            switch (s.kind) {
                case StmtKind::Fill: fills.push_back(&s); continue;
                case StmtKind::Load:
                case StmtKind::Map: continue;  // of numbers: each walk computes what it needs of its row
                case StmtKind::Reduce: break;
                case StmtKind::Store:
                    if (m_.equations[s.equation].update != Update::Set) return false;
                    break;
                case StmtKind::For: {
                    if (!walks_straight(p_, s)) return false;
                    const Sym& extent = m_.vars[s.var].extent;
                    if (r_.walks.empty()) r_.lanes = s.lanes, r_.length = extent;
                    if (s.lanes != r_.lanes || !(extent == r_.length)) return false;
                    r_.step = std::max(r_.step, s.tile);
                    r_.walks.push_back({&s, std::move(fills), {}, {}});
                    fills.clear();
                    continue;
                }
                default: return false;
            }
            if (r_.walks.empty()) return false;
            r_.walks.back().after.push_back(&s);
        }
        return fills.empty() &&
               std::all_of(r_.walks.begin(), r_.walks.end(), [&](const RowPipeline::Walk& w) { return r_.step % w.loop->tile == 0; });
    }

    bool name_numbers() {
        for (size_t w = 0; w < r_.walks.size(); ++w) {
            for (const Stmt& s : r_.walks[w].loop->body)
                if (s.kind == StmtKind::Store && contains(locals_, m_.equations[s.equation].lhs))
                    rows_[m_.equations[s.equation].lhs] = {w, &s}, r_.walks[w].keeps = true;
            for (const Stmt* s : r_.walks[w].after) {
                RowPipeline::Number x{.computed = s->kind == StmtKind::Reduce ? p_.buffers[s->dst].value : m_.equations[s->equation].rhs,
                                      .values = {}, .made = w, .last = w};
                if (s->kind == StmtKind::Reduce) {
                    x.values.push_back(x.computed);
                } else {
                    const Equation& q = m_.equations[s->equation];
                    const bool local = contains(locals_, q.lhs);
                    if (!local && compute_type(m_.tensors[q.lhs].dtype) != m_.tensors[q.lhs].dtype) continue;  // rounded in memory
                    for (const tile::Buffer& b : p_.buffers)
                        if (b.value != kNone && loads_result(m_, b.value, q)) x.values.push_back(b.value);
                    if (local) numbers_.insert(q.lhs);
                }
                for (ExprId e : x.values) made_[e] = r_.numbers.size();
                r_.numbers.push_back(std::move(x));
            }
        }
        return std::none_of(rows_.begin(), rows_.end(), [&](const auto& x) { return numbers_.count(x.first) > 0; });
    }

    bool reads(size_t walk) {
        const RowPipeline::Walk& w = r_.walks[walk];
        std::vector<ExprId> on_lanes, numbers;
        for (const Stmt& s : w.loop->body) on_lanes.push_back(root(s));
        for (const Stmt* s : w.after) numbers.push_back(root(*s));
        return reads(walk, std::move(on_lanes), true) && reads(walk, std::move(numbers), false);
    }

    ExprId root(const Stmt& s) const { return s.kind == StmtKind::Store ? m_.equations[s.equation].rhs : p_.buffers[s.dst].value; }

    bool reads(size_t walk, std::vector<ExprId> roots, bool on_lanes) {
        std::set<ExprId> seen;
        while (!roots.empty()) {
            const ExprId e = roots.back();
            roots.pop_back();
            if (!seen.insert(e).second) continue;
            if (const auto made = made_.find(e); made != made_.end()) {
                RowPipeline::Number& x = r_.numbers[made->second];
                if (x.made > walk) return false;
                x.last = std::max(x.last, walk);
                if (x.made < walk) continue;
            }
            const math::Expr& x = m_.expr(e);
            if (x.kind == ExprKind::Load && !load(x, walk)) return false;
            r_.heavy |= on_lanes && x.kind == ExprKind::Call && info(x.fn).cost == CostClass::Special;
            roots.insert(roots.end(), x.args.begin(), x.args.end());
        }
        return true;
    }

    bool load(const math::Expr& x, size_t walk) {
        const Stmt& loop = *r_.walks[walk].loop;
        if (const auto row = rows_.find(x.ref); row != rows_.end()) {
            // The row that one walk has stored is read by the next, ahead of what takes its place: there alone, element by element.
            const auto& [stored, by] = row->second;
            const Equation& q = m_.equations[by->equation];
            const VarId lane = r_.walks[stored].loop->var;
            if (walk != stored && walk != stored + 1) return false;
            streams_[{x.ref, stored}] = compute_type(m_.tensors[x.ref].dtype);
            return x.args.size() == q.at.size() && std::equal(x.args.begin(), x.args.end(), q.at.begin(), [&](ExprId a, ExprId b) {
                const math::Expr &at = m_.expr(a), &to = m_.expr(b);
                return at.kind == ExprKind::Index && to.kind == ExprKind::Index && (at.ref == to.ref || (at.ref == loop.var && to.ref == lane));
            });
        }
        if (contains(locals_, x.ref)) return numbers_.count(x.ref) == 0;  // a number that is none of the named loads
        bool of_row = false, on_lanes = false;
        for (ExprId at : x.args)
            for (VarId v : m_.free_vars(at)) of_row |= v == r_.row, on_lanes |= v == loop.var;
        if (!on_lanes) return true;
        streams_[{x.ref, of_row ? walk : 0}] = m_.tensors[x.ref].dtype;
        if (of_row && first_.insert(x.ref).second) r_.walks[walk].first.push_back(x.ref);
        return true;
    }

    void bound() {
        int64_t bytes = 1;  // of an element of all that is read side by side, and one for rows of what is nowhere
        for (const auto& [at, type] : streams_) bytes += static_cast<int64_t>(size_of(type));
        r_.near = machine_.l1_bytes * 7 / 8 / bytes;  // the rest is for what is asked for ahead
        r_.few = streams_.size() <= kStreams;
    }

    const tile::Program& p_;
    const math::Program& m_;
    const Machine& machine_;
    const std::vector<TensorId>& locals_;
    RowPipeline r_;
    std::map<TensorId, std::pair<size_t, const Stmt*>> rows_;  // of the locals, those that hold a row, and what stores it
    std::set<TensorId> numbers_, first_;
    std::map<ExprId, size_t> made_;                            // into r_.numbers
    std::map<std::pair<TensorId, size_t>, DType> streams_;     // rows read, by tensor and by the walk that reads them
};
}  // namespace

bool loads_result(const math::Program& p, ExprId e, const Equation& q) {
    const math::Expr& x = p.expr(e);
    return x.kind == ExprKind::Load && x.ref == q.lhs && x.args.size() == q.at.size() && std::equal(q.at.begin(), q.at.end(), x.args.begin());
}

std::optional<RowPipeline> row_pipeline(const tile::Program& p, const tile::Nest& nest, const Machine& machine,
                                        const std::vector<TensorId>& locals) {
    return Finder(p, machine, locals).run(nest);
}

}  // namespace opwright::target::cpu
