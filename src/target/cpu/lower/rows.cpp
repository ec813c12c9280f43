// Several rows of a nest at a time.
#include <algorithm>

#include "target/cpu/lower/nest.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using tile::Stmt;

void NestLowering::fold_parts(const std::string& function) {
    b_.function(function, [&] {
        const Sym& rows = c_.math.vars[parts_->rows->var].extent;
        const int64_t step = parts_->rows->tile;
        const LExpr count = b_.let("count", point_.sym(parts_->count)), n = point_.sym(rows);
        const LExpr each = b_.let("each", point_.sym(ceil_div(ceil_div(rows, parts_->count), step) * step));
        b_.loop("part", b_.task_begin(), b_.task_end(), 1, [&](LExpr i) {
            const LExpr task = b_.let("task", loop::floordiv(i, count)), part = b_.let("part", loop::mod(i, count));
            const LExpr first = b_.let("first", loop::min(part * each, n));
            ranges_[parts_->rows->var] = {first, b_.let("last", loop::min(first + each, n))};
            part_ = part * point_.sym(parts_->stride);
            for_each_task(c_, nest_, point_, ranges_, {task, task + 1}, [&] { fill(*parts_->fill), row_loop(*parts_->rows); });
            ranges_.erase(parts_->rows->var);
            part_ = {};
        });
    });
}

void NestLowering::rows_or_parts() {
    const Stmt& f = *parts_->fill;
    const LExpr count = point_.sym(parts_->count);
    b_.if_(loop::eq(count, b_.i64(1)), [&] { stmt(*parts_->rows); }, [&] {
        const Range r = range_of(nest_.grid[0].var);
        const auto& [memory, origin] = memory_.at(f.dst);
        const ReduceOp op = c_.math.expr(c_.tile.buffers[f.dst].value).reduce;
        b_.loop("part", b_.i64(0), count, 1, [&](LExpr part) {
            b_.loop("i", b_.i64(0), r.end - r.begin, f.lanes, [&](LExpr i) {
                const LExpr more = b_.load(parts_->memory, part * point_.sym(parts_->stride) + r.begin + i, f.lanes);
                b_.store(memory, i, loop::binary(combine_fn(op), b_.load(memory, i, f.lanes), more));
            });
        });
    });
}

void NestLowering::rows_of_task(const Range& rows) {
    const VarId row = nest_.grid.back().var;
    const std::string& name = c_.math.vars[row].name;
    const Point::Scope scope = point_.save();
    const auto at = [&](LExpr i, const std::function<void()>& body) {
        point_.bind(row, i);
        body();
        point_.restore(scope);
    };
    LExpr begin = rows.begin;
    if (beside_) {
        const LExpr whole = loop::floordiv(rows.end - begin, beside_->rows) * beside_->rows;
        const bool all = beside_->length.upper() <= beside_->short_row;
        const LExpr some = all ? whole : loop::select(b_.let("short", loop::le(point_.sym(beside_->length), b_.i64(beside_->short_row))), whole, b_.i64(0));
        begin = b_.let("together", rows.begin + some);
        b_.loop(name, rows.begin, begin, beside_->rows, [&](LExpr i) { at(i, [&] { block_beside(i); }); });
    }
    const auto one_by_one = [&] { b_.loop(name, begin, rows.end, 1, [&](LExpr i) { at(i, [&] { block(nest_.body); }); }); };
    if (!pipeline_) return one_by_one();
    const auto in_turn = [&] { pipelined({begin, rows.end}); };
    if (const LExpr gains = pipeline_gains())
        b_.if_(gains, in_turn, one_by_one);
    else
        in_turn();
}

void NestLowering::block_beside(LExpr first) {
    const auto swap_strides = [&] {
        for (TensorId t : locals_) std::swap(c_.storage[t].strides, strides_beside_[t]);
    };
    together_ = first;
    swap_strides();
    point_.set_lanes(beside_->var, beside_->rows, 1, {});
    point_.set_aligned(false);
    block(nest_.body);
    swap_strides();
    together_ = {};
}

Point::Scope NestLowering::one_row(const Point::Scope& rows) const {
    Point::Scope r = rows;
    std::erase_if(r.values, [](const auto& x) { return x.second.type().is_vector(); });
    r.lane = kNone;
    r.lanes = r.positions = 1;
    return r;
}

void NestLowering::lane_loop_beside(const Stmt& s) {
    const Point::Scope rows = point_.save(), alone = one_row(rows);
    const LExpr first = together_;
    if (!folds(s)) {
        b_.loop(c_.math.vars[beside_->var].name, first, first + beside_->rows, 1, [&](LExpr row) {
            point_.restore(alone);
            point_.bind(beside_->var, row);
            together_ = {};
            lane_loop(s);
            together_ = first;
        });
        point_.restore(rows);
        return;
    }
    const Range r = range_of(s.var);
    std::optional<Point::Ahead> ahead;
    const auto body = [&](LExpr i, LExpr mask) {
        for (row_ = 0; row_ < static_cast<size_t>(beside_->rows); ++row_) {
            point_.restore(alone);
            point_.bind(beside_->var, first + static_cast<int64_t>(row_));
            point_.set_lanes(s.var, s.lanes, 1, mask);
            point_.set_aligned(true);
            if (ahead) ahead->at = static_cast<int64_t>(row_);
            point_.set_ahead(ahead ? &*ahead : nullptr);
            point_.bind(s.var, i);
            lane_body(s, 1);
            point_.set_ahead(nullptr);
        }
        row_ = 0;
        point_.set_aligned(false);
    };
    const std::string& name = c_.math.vars[s.var].name;
    const LExpr end = b_.let("vectors_end", r.begin + loop::floordiv(r.end - r.begin, s.lanes) * s.lanes);
    const auto vectors = [&] { b_.loop(name, r.begin, end, s.lanes, [&](LExpr i) { body(i, {}); }); };
    const auto asking = [&] {
        ahead = ahead_.at(&s);
        ahead->side = beside_->rows;
        if (ahead->near) ahead->near = false, ahead->pages = Point::Ahead().pages;
        vectors();
        ahead.reset();
    };
    const auto at = ahead_.find(&s);
    // Where all lies in the caches, prefetches would take a tenth of the time; in loops over one row the choice took more.
    if (at == ahead_.end())
        vectors();
    else if (at->second.fold)
        b_.if_(loop::ne(b_.symbol(kAheadSymbol), b_.i64(0)), asking, vectors);
    else
        asking();
    if (!c_.math.vars[s.var].extent.multiple_of(s.lanes))
        b_.loop(name, end, r.end, s.lanes, [&](LExpr i) { body(i, loop::first_lanes(r.end - i, s.lanes)); });
    point_.restore(rows);
}

void NestLowering::row_loop(const Stmt& s) {
    const Range r = range_of(s.var);
    const LExpr main = b_.let("rows", r.begin + loop::floordiv(r.end - r.begin, s.tile) * s.tile);
    const auto body = [&](LExpr i, int64_t count) {
        const Point::Scope scope = point_.save();
        rows_ = {s.var, i, count};
        for (const Stmt& x : s.body) stmt(x);
        rows_ = {};
        point_.restore(scope);
    };
    b_.loop(c_.math.vars[s.var].name, r.begin, main, s.tile, [&](LExpr i) { body(i, s.tile); });
    b_.loop(c_.math.vars[s.var].name, main, r.end, 1, [&](LExpr i) { body(i, 1); });
}

}  // namespace opwright::target::cpu
