// Reductions and scans: partial results on lanes, in registers and in memory.
#include <algorithm>
#include <limits>

#include "target/cpu/lower/nest.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using loop::BinaryFn;
using tile::Stmt;

namespace {

LExpr identity_of(loop::Builder& b, ReduceOp op, DType t) {
    const double v = identity(op, t);
    if (is_float(t) || t == DType::Bool) return b.literal(t, v);
    int64_t i = static_cast<int64_t>(v);
    if (t == DType::I64 && op == ReduceOp::Min) i = INT64_MAX;
    if (t == DType::I64 && op == ReduceOp::Max) i = INT64_MIN;
    if (t == DType::U64 && op == ReduceOp::Min) i = -1;
    return loop::literal_int(b.program(), t, i);
}

}  // namespace

BinaryFn combine_fn(ReduceOp op) {
    switch (op) {
        case ReduceOp::Sum: return BinaryFn::Add;
        case ReduceOp::Prod: return BinaryFn::Mul;
        case ReduceOp::Max:
        case ReduceOp::ArgMax:
        case ReduceOp::ArgMaxLast: return BinaryFn::Max;
        case ReduceOp::Min:
        case ReduceOp::ArgMin:
        case ReduceOp::ArgMinLast: return BinaryFn::Min;
        case ReduceOp::Any: return BinaryFn::Or;
        case ReduceOp::All: return BinaryFn::And;
    }
    throw std::logic_error("unknown reduction");
}

void NestLowering::fill(const Stmt& s) {
    const math::Expr& e = c_.math.expr(c_.tile.buffers[s.dst].value);
    const bool arg = is_arg(e.reduce);
    const DType t = compute_type(arg ? c_.math.expr(e.args[0]).dtype : e.dtype);
    if (c_.tile.buffers[s.dst].memory == tile::Memory::Scratch) {
        const tile::Extent& box = c_.tile.buffers[s.dst].box[0];
        const Range r = range_of(box.var);
        const loop::BufferId memory =
            part_ ? parts_->memory : b_.scratch(c_.tile.buffers[s.dst].name, t, b_.i64(box.size + s.lanes));
        const LExpr first = part_ ? part_ + r.begin : b_.i64(0);
        memory_[s.dst] = {memory, part_ ? -part_ : r.begin};
        const LExpr zero = loop::broadcast(identity_of(b_, e.reduce, t), s.lanes);
        b_.loop("i", b_.i64(0), r.end - r.begin, s.lanes, [&](LExpr i) { b_.store(memory, first + i, zero); });
        return;
    }
    // Partial results on lanes exist before the lane loop is entered; otherwise there is one for each position.
    const bool folds = folded(s.dst);
    const int lanes = folds ? s.lanes : point_.lanes();
    const int rows = together_ ? beside_->rows : 1;
    const int count = !folds      ? point_.positions()
                      : together_ ? rows
                                  : static_cast<int>(c_.tile.buffers[s.dst].box.back().size / s.lanes);
    Accumulator a;
    for (int u = 0; u < count; ++u) {
        a.value.push_back(b_.local("acc", loop::broadcast(identity_of(b_, e.reduce, t), lanes)));
        if (arg) a.best.push_back(b_.local("best", loop::broadcast(b_.i64(-1), lanes)));
    }
    // To look for NaN apart takes half the instructions of a maximum that knows it.
    if (folds && lanes > 1 && is_float(t) && (e.reduce == ReduceOp::Max || e.reduce == ReduceOp::Min))
        for (int r = 0; r < rows; ++r) a.nan.push_back(b_.local("nan", loop::broadcast(b_.literal(t, 0), lanes)));
    accumulators_[s.dst] = std::move(a);
}

bool NestLowering::folded(tile::BufferId acc) const {
    const math::Expr& e = c_.math.expr(c_.tile.buffers[acc].value);
    return std::any_of(c_.tile.buffers[acc].box.begin(), c_.tile.buffers[acc].box.end(),
                       [&](const tile::Extent& x) {
                           return x.size > 1 && std::find(e.vars.begin(), e.vars.end(), x.var) != e.vars.end();
                       });
}

void NestLowering::accumulate_rows(const Stmt& s) {
    const math::Expr& e = c_.math.expr(c_.tile.buffers[s.dst].value);
    const auto& [memory, origin] = memory_.at(s.dst);
    // The rows that come next, at the same place, and at last the first ones of the next task: each is a page of its own.
    Point::Ahead next{.row = rows_.var, .tensors = {}, .rows = rows_.count, .first = rows_.first, .task = task_tile(point_.lane())};
    for (ExprId a : e.args)
        for (TensorId t : c_.math.reads(a)) next.tensors.push_back(t);
    if (rows_.count > 1) point_.set_ahead(&next);
    for (int u = 0; u < point_.positions(); ++u) {
        const LExpr at =
            b_.let("at", point_.variable(point_.lane()) - origin + static_cast<int64_t>(u) * point_.lanes());
        LExpr acc = b_.let("acc", b_.load(memory, at, point_.lanes()));
        for (int64_t r = 0; r < rows_.count; ++r) {
            const Point::Scope scope = point_.save();
            point_.bind(rows_.var, rows_.first + r);
            const LExpr old = acc;
            const math::Expr& term = c_.math.expr(e.args[0]);
            if (e.reduce == ReduceOp::Sum && term.kind == ExprKind::Call && term.fn == Fn::Mul &&
                is_float(e.dtype)) {
                const LExpr x = point_.broadcast(point_.eval(term.args[0], u));
                acc = loop::mul_add(x, point_.broadcast(point_.eval(term.args[1], u)), acc);
            } else {
                acc = loop::binary(combine_fn(e.reduce), acc, point_.broadcast(point_.eval(e.args[0], u)));
            }
            if (e.args.size() > 1) acc = loop::select(point_.broadcast(point_.eval(e.args[1], u)), acc, old);
            acc = b_.let("acc", acc);
            point_.restore(scope);
        }
        b_.store(memory, at, acc);
    }
    point_.set_ahead(nullptr);
}

void NestLowering::accumulate(const Stmt& s) {
    if (memory_.count(s.dst)) return accumulate_rows(s);
    Accumulator& a = accumulators_.at(s.dst);
    const math::Expr& e = c_.math.expr(c_.tile.buffers[s.dst].value);
    for (int u = 0; u < point_.positions(); ++u) {
        const size_t i = together_ ? row_ : static_cast<size_t>(u);
        const loop::LocalRef acc = a.value[i];
        const LExpr old = b_.get(acc);
        const int lanes = old.type().lanes;
        const auto lift = [&](LExpr v) {
            return lanes > 1 && !v.type().is_vector() ? loop::broadcast(v, lanes) : v;
        };
        LExpr condition = e.args.size() > 1 ? point_.eval(e.args[1], u) : LExpr{};
        if (int64_t holds = 0; condition && loop::is_literal(condition, &holds)) {
            if (holds == 0) continue;
            condition = {};
        }
        if (folded(s.dst) && point_.mask())
            condition = condition ? loop::both(lift(condition), point_.mask()) : point_.mask();
        if (is_arg(e.reduce)) {
            accumulate_arg(e, a, i, lift(point_.eval(e.args[0], u)), condition ? lift(condition) : LExpr{}, lanes);
            continue;
        }
        const math::Expr& term = c_.math.expr(e.args[0]);
        LExpr next;
        if (e.reduce == ReduceOp::Sum && term.kind == ExprKind::Call && term.fn == Fn::Mul && is_float(e.dtype)) {
            LExpr x = lift(point_.eval(term.args[0], u)), y = lift(point_.eval(term.args[1], u));
            next = loop::mul_add(x, y, old);
        } else if (!a.nan.empty()) {
            const loop::LocalRef flag = a.nan[row_];
            const LExpr v = b_.let("v", lift(point_.eval(e.args[0], u))), nan = b_.get(flag);
            LExpr is_nan = loop::unary(loop::UnaryFn::IsNan, v);
            if (condition) is_nan = loop::both(is_nan, lift(condition));
            b_.set(flag, loop::select(is_nan, v, nan));
            next = loop::extreme_of_numbers(combine_fn(e.reduce), old, v);
        } else {
            next = loop::binary(combine_fn(e.reduce), old, lift(point_.eval(e.args[0], u)));
        }
        if (condition) next = loop::select(lift(condition), next, old);
        b_.set(acc, next);
    }
}

LExpr NestLowering::position_of(const math::Expr& e) {
    LExpr r = b_.i64(0);
    for (VarId v : e.vars) r = r * point_.sym(c_.math.vars[v].extent) + point_.variable(v);
    return r;
}

void NestLowering::accumulate_arg(const math::Expr& e, Accumulator& a, size_t i, LExpr v, LExpr condition, int lanes) {
    const LExpr best = b_.get(a.value[i]), at = b_.get(a.best[i]);
    const bool maximum = e.reduce == ReduceOp::ArgMax || e.reduce == ReduceOp::ArgMaxLast;
    const bool last = e.reduce == ReduceOp::ArgMaxLast || e.reduce == ReduceOp::ArgMinLast;
    v = b_.let("v", v);
    LExpr better =
        maximum ? (last ? loop::ge(v, best) : loop::gt(v, best)) : (last ? loop::le(v, best) : loop::lt(v, best));
    if (is_float(v.type().dtype)) {
        const LExpr is_nan = loop::unary(loop::UnaryFn::IsNan, v),
                    was_nan = loop::unary(loop::UnaryFn::IsNan, best);
        better =
            last ? loop::either(better, is_nan) : loop::either(better, loop::both(is_nan, loop::negate(was_nan)));
    }
    const LExpr none = loop::broadcast(b_.i64(0), lanes);
    better = loop::either(better, loop::lt(at, none));  // the first candidate always
    if (condition) better = loop::both(better, condition);
    better = b_.let("better", better);
    const LExpr index = loop::broadcast(position_of(e), lanes);
    b_.set(a.value[i], loop::select(better, v, best));
    b_.set(a.best[i], loop::select(better, index, at));
}

void NestLowering::reduce(const Stmt& s) {
    if (const auto m = memory_.find(s.dst); m != memory_.end()) {
        const LExpr at = point_.variable(point_.lane()) - m->second.second;
        for (int u = 0; u < point_.positions(); ++u)
            point_.set_value(c_.tile.buffers[s.dst].value, u,
                             b_.let("total", b_.load(m->second.first, at + static_cast<int64_t>(u) * point_.lanes(),
                                                     point_.lanes())));
        return;
    }
    Accumulator& a = accumulators_.at(s.dst);
    const ExprId id = c_.tile.buffers[s.dst].value;
    const math::Expr& e = c_.math.expr(id);
    if (folded(s.dst)) {
        // Partial results pairwise, then the lanes of the last one.
        std::vector<LExpr> v;
        for (loop::LocalRef l : a.value) v.push_back(b_.get(l));
        const auto combined = [&](LExpr x, LExpr y) {
            const BinaryFn f = combine_fn(e.reduce);
            return !a.nan.empty() ? loop::extreme_of_numbers(f, x, y) : loop::binary(f, x, y);
        };
        const auto not_a_number = [&](LExpr x) { return loop::like(x, std::numeric_limits<double>::quiet_NaN()); };
        if (together_) {
            LExpr total = fold_together(b_, v, combined);
            if (!a.nan.empty()) {
                std::vector<LExpr> nan;
                for (loop::LocalRef l : a.nan) nan.push_back(b_.get(l));
                const LExpr any = fold_together(b_, nan, [](LExpr x, LExpr y) { return x + y; });
                total = loop::select(loop::unary(loop::UnaryFn::IsNan, any), loop::broadcast(not_a_number(total), beside_->rows), total);
            }
            point_.set_value(id, 0, b_.let("total", total));
            return;
        }
        while (v.size() > 1) {
            std::vector<LExpr> half;
            for (size_t i = 0; i < v.size(); i += 2)
                half.push_back(i + 1 < v.size() ? combined(v[i], v[i + 1]) : v[i]);
            v = std::move(half);
        }
        LExpr total = !a.nan.empty() ? loop::reduce_lanes_of_numbers(combine_fn(e.reduce), v[0])
                                     : loop::reduce_lanes(combine_fn(e.reduce), v[0]);
        if (!a.nan.empty()) {
            const LExpr any = loop::reduce_lanes(BinaryFn::Or, loop::unary(loop::UnaryFn::IsNan, b_.get(a.nan[0])));
            total = loop::select(any, not_a_number(total), total);
        }
        point_.set_value(id, 0, b_.let("total", total));
        return;
    }
    for (int u = 0; u < point_.positions(); ++u) {
        const size_t i = static_cast<size_t>(u);
        LExpr v = b_.get(is_arg(e.reduce) ? a.best[i] : a.value[i]);
        if (is_arg(e.reduce)) v = loop::max(v, loop::broadcast(b_.i64(0), v.type().lanes));
        point_.set_value(id, u, b_.let("total", v));
    }
}

void NestLowering::scan(const Stmt& s) {
    const Equation& q = c_.math.equations[s.equation];
    const math::Expr& e = c_.math.expr(q.rhs);
    const DType t = compute_type(e.dtype);
    std::vector<loop::LocalRef> acc;
    for (int u = 0; u < point_.positions(); ++u)
        acc.push_back(b_.local("acc", loop::broadcast(identity_of(b_, e.reduce, t), point_.lanes())));
    const LExpr n = point_.sym(c_.math.vars[s.var].extent);
    b_.loop(c_.math.vars[s.var].name, 0, n, 1, [&](LExpr i) {
        const Point::Scope scope = point_.save();
        point_.bind(s.var, e.backward ? n - 1 - i : i);
        for (int u = 0; u < point_.positions(); ++u) {
            const loop::LocalRef l = acc[static_cast<size_t>(u)];
            const LExpr term = point_.broadcast(point_.eval(e.args[0], u));
            const LExpr old = b_.let("old", b_.get(l));
            const LExpr next = b_.let("next", loop::binary(combine_fn(e.reduce), old, term));
            point_.store(q, e.exclusive ? old : next, u);
            b_.set(l, next);
        }
        point_.restore(scope);
    });
}

}  // namespace opwright::target::cpu
