#include "target/cpu/lower/nest.h"

#include <algorithm>

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using tile::Stmt;
using tile::StmtKind;

void NestLowering::run(const std::string& function) {
    beside_ = rows_beside(c_.tile, nest_);
    place_locals();
    plan_ahead();
    if (parts_) fold_parts(function + "_parts");
    plan_pipeline();
    b_.function(function, [&] {
        if (beside_ || pipeline_)
            for_each_row(c_, nest_, point_, ranges_, [&](const Range& rows) { rows_of_task(rows); });
        else
            for_each_task(c_, nest_, point_, ranges_, {b_.task_begin(), b_.task_end()}, [&] { block(nest_.body); });
    });
}

Sym NestLowering::split() {
    if (locals_.empty()) parts_ = rows_in_parts(c_, nest_);
    return parts_ ? parts_->count : 1;
}

void NestLowering::set_locals(const std::vector<TensorId>& locals) { locals_ = locals; }

void NestLowering::place_locals() {
    for (TensorId t : locals_) {
        const TensorInfo& info = c_.math.tensors[t];
        const Equation* q = nullptr;
        for (const Equation& e : c_.math.equations)
            if (e.lhs == t) q = &e;
        std::vector<Sym> held;
        for (size_t d = 0; d < info.shape.size(); ++d) {
            const math::Expr& at = c_.math.expr(q->at[d]);
            Sym extent = info.shape[d];
            if (at.kind == ExprKind::Index)
                for (const tile::GridAxis& g : nest_.grid)
                    if (g.var == at.ref) extent = g.tile == 1 ? Sym(1) : Sym(g.tile);
            held.push_back(extent);
        }
        Storage s{.dtype = compute_type(info.dtype), .strides = dense_strides(held)};
        std::vector<Sym>& beside = strides_beside_[t];
        beside = s.strides;
        Sym elements = max(product(held), 1);
        if (beside_) elements = max(elements, min(elements, beside_->short_row) * beside_->rows);
        for (size_t d = 0; d < held.size(); ++d) {
            const math::Expr& at = c_.math.expr(q->at[d]);
            if (at.kind != ExprKind::Index) continue;
            for (const tile::GridAxis& g : nest_.grid)
                if (g.var == at.ref && g.tile == 1) s.strides[d] = 0, beside[d] = 0;
            if (beside_ && at.ref == beside_->var) beside[d] = product(held);
        }
        if (std::all_of(s.strides.begin(), s.strides.end(), [](const Sym& x) { return x.is(0); })) numbers_.push_back(t);
        s.buffer = b_.scratch(info.name, s.dtype, point_.sym(elements));
        c_.storage[t] = std::move(s);
    }
}

void NestLowering::set_origins() {
    for (TensorId t : locals_) {
        Storage& s = c_.storage[t];
        const Equation* q = nullptr;
        for (const Equation& e : c_.math.equations)
            if (e.lhs == t) q = &e;
        s.origin.assign(s.strides.size(), {});
        for (size_t d = 0; d < s.strides.size(); ++d) {
            const math::Expr& at = c_.math.expr(q->at[d]);
            if (at.kind != ExprKind::Index) continue;
            if (auto r = ranges_.find(at.ref); r != ranges_.end()) s.origin[d] = r->second.begin;
            if (together_ && at.ref == beside_->var) s.origin[d] = together_;
        }
    }
}

void NestLowering::block(const std::vector<Stmt>& body) {
    set_origins();
    for (const Stmt& s : body) parts_ && &s == parts_->rows ? rows_or_parts() : stmt(s);
}

void NestLowering::stmt(const Stmt& s) {
    switch (s.kind) {
        case StmtKind::For: return together_ ? lane_loop_beside(s) : s.lane ? lane_loop(s) : s.tile > 1 ? row_loop(s) : serial_loop(s);
        case StmtKind::Load:
        case StmtKind::Gather:
        case StmtKind::Map: {
            if (rows_.count > 0) return;  // differs from row to row: accumulate() asks for it
            const ExprId e = c_.tile.buffers[s.dst].value;
            for (int u = 0; u < point_.positions(); ++u) point_.eval(e, u);
            return;
        }
        case StmtKind::Fill: return fill(s);
        case StmtKind::Accumulate: return accumulate(s);
        case StmtKind::Reduce: return reduce(s);
        case StmtKind::Scan: return scan(s);
        case StmtKind::Store:
        case StmtKind::ScatterReduce: {
            const Equation& q = c_.math.equations[s.equation];
            stored_.clear();
            for (int u = 0; u < point_.positions(); ++u) {
                LExpr v = point_.eval(q.rhs, u);
                const bool number = s.kind == StmtKind::Store && one_number(q);
                if (keeping_ || number) v = b_.let(c_.math.tensors[q.lhs].name, v);
                point_.store(q, v, u);
                stored_.push_back(v);
                if (!number) continue;
                for (const tile::Buffer& x : c_.tile.buffers)
                    if (x.value != kNone && loads_result(c_.math, x.value, q)) point_.set_uniform(x.value, v);
            }
            return;
        }
        case StmtKind::AccumulatePair:
        case StmtKind::ReducePair: throw std::logic_error("two folds in one walk, of a block target");
        case StmtKind::Contract: throw std::logic_error("a contraction outside its own nest");
    }
}

Range NestLowering::range_of(VarId v) {
    if (auto r = ranges_.find(v); r != ranges_.end()) return r->second;
    return {b_.i64(0), point_.sym(c_.math.vars[v].extent)};
}

void NestLowering::serial_loop(const Stmt& s) {
    const Range r = range_of(s.var);
    const Point::Scope scope = point_.save();
    const auto body = [&](LExpr i) {
        point_.bind(s.var, i);
        for (const Stmt& x : s.body) stmt(x);
        point_.restore(scope);
    };
    if (written_out(s)) {
        for (int64_t i = 0; i < *c_.math.vars[s.var].extent.constant(); ++i) body(b_.i64(i));
        return;
    }
    b_.loop(c_.math.vars[s.var].name, r.begin, r.end, 1, body);
}

bool NestLowering::written_out(const Stmt& s) const {
    const auto n = c_.math.vars[s.var].extent.constant();
    if (!n || *n > kUnrolledTaps || ranges_.count(s.var) || s.lane) return false;
    const bool innermost =
        std::none_of(s.body.begin(), s.body.end(), [](const Stmt& x) { return x.kind == StmtKind::For; });
    return innermost || (*n <= kUnrolledPhases && decides_terms(s.body, s.var));
}

bool NestLowering::straight(const std::vector<Stmt>& body) const {
    const auto loops = [](const std::vector<Stmt>& b) {
        return std::any_of(b.begin(), b.end(), [](const Stmt& x) { return x.kind == StmtKind::For; });
    };
    const std::function<bool(const std::vector<Stmt>&)> all = [&](const std::vector<Stmt>& b) {
        return std::all_of(b.begin(), b.end(),
                           [&](const Stmt& x) { return x.kind != StmtKind::For || (written_out(x) && all(x.body)); });
    };
    return loops(body) && all(body);
}

bool NestLowering::decides_terms(const std::vector<Stmt>& body, VarId v) const {
    return std::any_of(body.begin(), body.end(), [&](const Stmt& s) {
        if (s.kind == StmtKind::Accumulate && s.b != tile::kNoBuffer) {
            const auto free = c_.math.free_vars(c_.tile.buffers[s.b].value);
            if (std::find(free.begin(), free.end(), v) != free.end()) return true;
        }
        return decides_terms(s.body, v);
    });
}

bool NestLowering::one_number(const Equation& q) const {
    const bool between = point_.lanes() == 1 || (together_ && point_.lane() == beside_->var);
    return between && std::find(numbers_.begin(), numbers_.end(), q.lhs) != numbers_.end();
}

int64_t NestLowering::task_tile(VarId v) const {
    for (const tile::GridAxis& g : nest_.grid)
        if (g.var == v) return g.tile;
    return 1;
}

void NestLowering::plan_ahead(const std::vector<Stmt>& body, std::map<TensorId, Reader>& best) {
    for (const Stmt& s : body) {
        if (s.kind != StmtKind::For) continue;
        plan_ahead(s.body, best);
        const auto loops = [](const Stmt& x) { return x.kind == StmtKind::For; };
        if (!s.lane || std::any_of(s.body.begin(), s.body.end(), loops)) continue;
        int work = 0;
        for (const Stmt& x : s.body)
            if (x.kind == StmtKind::Map) work += operations(c_.tile.buffers[x.dst].value);
        for (const Stmt& x : s.body) {
            if (x.kind != StmtKind::Load) continue;
            const TensorId t = c_.math.expr(c_.tile.buffers[x.dst].value).ref;
            if (std::find(locals_.begin(), locals_.end(), t) != locals_.end()) continue;
            Reader& r = best[t];
            if (!r.loop || work >= r.work) r.work = work, r.loop = &s;
            ++r.loops;
        }
    }
}

int NestLowering::operations(ExprId root) const {
    int n = 0;
    std::vector<bool> seen(c_.math.expr_count());
    std::vector<ExprId> stack{root};
    while (!stack.empty()) {
        const ExprId e = stack.back();
        stack.pop_back();
        if (seen[e]) continue;
        seen[e] = true;
        const math::Expr& x = c_.math.expr(e);
        if (x.kind == ExprKind::Call) n += info(x.fn).cost == CostClass::Special ? 16 : 1;
        if (x.kind == ExprKind::Call || x.kind == ExprKind::Cast)
            stack.insert(stack.end(), x.args.begin(), x.args.end());
    }
    return n;
}

void NestLowering::plan_ahead() {
    std::map<TensorId, Reader> best;
    plan_ahead(nest_.body, best);
    for (const auto& [t, at] : best) {
        const bool chunked = std::any_of(nest_.grid.begin(), nest_.grid.end(), [&](const tile::GridAxis& g) {
            return g.var == at.loop->var && g.tile > 1;
        });
        Point::Ahead& a = ahead_[at.loop];
        if (!chunked && !nest_.grid.empty()) a.row = nest_.grid.back().var;
        a.tensors.push_back(t);
        if (at.loops > 1) {
            // Where one stream is read fastest with every line asked for, layer norm of 16 M elements gained up to an eighth by asking so
            // far ahead into the nearest cache; in C++ an Intel processor with AMX lost up to a sixth.
            if (c_.machine.every_line && a.row != kNone) a.near = true, a.pages = 4;
            continue;
        }
        // A fold that stores nothing waits for memory alone, and gains by asking earlier than a map does.
        a.fold = at.loop->body.back().kind == StmtKind::Accumulate;
        if (c_.machine.every_line) continue;
        a.once.push_back(t);
        if (a.fold) a.pages = 8;
    }
}

void lower_nest(Context& c, size_t nest, Stage stage) {
    NestLowering n(c, nest);
    n.set_locals(c.tile.kernel.nests[nest].local);
    if (const Sym parts = n.split(); !parts.is(1)) {
        const Sym any = less(1, parts);
        c.out.stages.push_back({stage.function + "_parts", select(any, stage.tasks * parts, 0), stage.work});
        stage.work = select(any, floor_div(stage.work, 16), stage.work);
    }
    n.run(stage.function);
    c.out.stages.push_back(std::move(stage));
}

}  // namespace opwright::target::cpu
