// Rows in a pipeline: see row_pipeline.h.
#include <algorithm>

#include "target/cpu/lower/nest.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using tile::Stmt;
using tile::StmtKind;

void NestLowering::plan_pipeline() {
    constexpr int64_t kPages = 3;  // of 2, 4 and more: the least of 16 M elements in rows of 256 to 65,536
    if (parts_) return;
    pipeline_ = row_pipeline(c_.tile, nest_, c_.machine, locals_);
    if (!pipeline_) return;
    // The last walk alone may write past the caches: what others write is read again, or has a head of its own.
    const std::vector<RowPipeline::Walk>& walks = pipeline_->walks;
    if (std::any_of(walks.begin(), walks.end() - 1, [&](const RowPipeline::Walk& w) { return streamable(*w.loop).has_value(); }) ||
        streamable(*walks.back().loop) == false)
        return pipeline_.reset();
    pipeline_streams_ = streamable(*walks.back().loop).has_value();
    if (pipeline_->few && !pipeline_->heavy && !pipeline_streams_) return pipeline_.reset();
    for (const RowPipeline::Walk& w : walks) ahead_of_walks_.push_back({.tensors = w.first, .pages = kPages, .near = true});
}

// Measured on the Zen 5 machine and, in C++, on the AMX one (docs/performance.md). Exponentials hide what others move, in memory
// and in the caches. RMS norm gains where its results go past the caches, and loses a tenth within them. Layer norm, which
// reads five rows side by side, gains a fifth where all of them lie in the nearest cache; past the caches it lost as much.
LExpr NestLowering::pipeline_gains() {
    const RowPipeline& p = *pipeline_;
    if (p.few && p.heavy) return {};
    const LExpr streaming = pipeline_streams_ ? loop::ne(b_.symbol(kStreamSymbol), b_.i64(0)) : b_.boolean(false);
    if (p.few) return streaming;
    return loop::both(loop::negate(streaming), loop::le(point_.sym(p.length), b_.i64(p.near)));
}

LExpr NestLowering::common_loop(const std::vector<Point::Scope>& at, LExpr shift) {
    const RowPipeline& p = *pipeline_;
    const size_t last = p.walks.size() - 1;
    const LExpr from = shift ? shift : b_.i64(0);
    const LExpr end = b_.let("common_end", loop::floordiv(point_.sym(p.length) - from, p.step) * p.step);
    // What is asked for ahead comes first. A row that one walk keeps and the next one reads is read before what takes its place,
    // element by element.
    std::vector<size_t> order;
    if (!p.walks[0].keeps) order.push_back(0);
    for (size_t w = last; w > 0; --w) order.push_back(w);
    if (p.walks[0].keeps) order.push_back(0);
    std::vector<Vectors> bodies;
    for (size_t w = 0; w <= last; ++w) bodies.push_back(vectors_of(*p.walks[w].loop, at[w], &ahead_of_walks_[w]));
    b_.loop(c_.math.vars[p.walks[0].loop->var].name, b_.i64(0), end, p.step, [&](LExpr i) {
        for (size_t w : order) {
            const Stmt& s = *p.walks[w].loop;
            point_.set_streaming(w == last && shift);
            for (int64_t u = 0; u < p.step; u += s.tile) bodies[w]((w == last ? i + from : i) + u, static_cast<int>(s.tile / s.lanes), {});
            point_.set_streaming(false);
        }
    });
    return end;
}

void NestLowering::ask_for_seam(const Point::Scope& at) {
    const Stmt& s = *pipeline_->walks.back().loop;
    if (pipeline_->length.multiple_of(s.lanes)) return;
    const Equation& q = c_.math.equations[s.body.back().equation];
    b_.if_(loop::ne(loop::mod(point_.sym(pipeline_->length), s.lanes), b_.i64(0)), [&] {
        point_.restore(at);
        point_.bind(pipeline_->row, point_.variable(pipeline_->row) + 1);
        point_.set_lanes(s.var, s.lanes, 1, {});
        point_.bind(s.var, b_.i64(0));
        b_.prefetch(c_.storage[q.lhs].buffer, point_.place(q), true);
        point_.restore(at);
    });
}

void NestLowering::pipelined(const Range& rows) {
    const RowPipeline& p = *pipeline_;
    const size_t count = p.walks.size(), last = count - 1;
    const auto behind = static_cast<int64_t>(last);
    const Stmt& writes = *p.walks[last].loop;
    const bool streams = pipeline_streams_ && p.few;  // see pipeline_gains
    const LExpr streaming = streams ? loop::ne(b_.symbol(kStreamSymbol), b_.i64(0)) : LExpr();
    if (streams) c_.out.streamed.push_back({c_.math.equations[writes.body.back().equation].lhs, 0});
    set_origins();

    // A number that walk k has made of a row is read by walk k + d so many turns later.
    std::vector<std::vector<loop::LocalRef>> numbers;
    for (const RowPipeline::Number& x : p.numbers) {
        numbers.emplace_back();
        const LExpr none = loop::literal(b_.program(), compute_type(c_.math.expr(x.values[0]).dtype), 0);
        for (size_t d = x.made; d < x.last; ++d) numbers.back().push_back(b_.local("carried", none));
    }
    const Point::Scope outside = point_.save();
    b_.loop("turn", rows.begin, rows.end + behind, 1, [&](LExpr turn) {
        std::vector<Point::Scope> at;
        std::vector<LExpr> busy;
        for (size_t w = 0; w < count; ++w) {
            const LExpr row = b_.let("row", turn - static_cast<int64_t>(w));
            busy.push_back(b_.let("busy", loop::both(loop::ge(row, rows.begin), loop::lt(row, rows.end))));
            point_.bind(p.row, row);
            for (size_t x = 0; x < numbers.size(); ++x) {
                const RowPipeline::Number& number = p.numbers[x];
                if (w <= number.made || w > number.last) continue;
                const LExpr v = b_.let("number", b_.get(numbers[x][w - number.made - 1]));
                for (ExprId e : number.values) point_.set_uniform(e, v);
            }
            for (const Stmt* s : p.walks[w].fills) fill(*s);
            at.push_back(point_.save());
            point_.restore(outside);
        }
        std::vector<Vectors> bodies;
        for (size_t w = 0; w < count; ++w) {
            const auto ahead = ahead_.find(p.walks[w].loop);
            bodies.push_back(vectors_of(*p.walks[w].loop, at[w], ahead == ahead_.end() ? nullptr : &ahead->second));
        }
        const LExpr all = b_.let("all", loop::both(busy[0], busy[last]));
        const loop::LocalRef done = b_.local("done", b_.i64(0));
        const auto common = [&](LExpr shift = {}) {
            b_.if_(all, [&] { b_.set(done, common_loop(at, shift)); });
        };
        const auto rest_of = [&](size_t w, LExpr shift = {}) {
            b_.if_(busy[w], [&] {
                const LExpr from = b_.let("from", b_.get(done));
                sweep(*p.walks[w].loop, shift ? from + shift : from, static_cast<bool>(shift), bodies[w]);
            });
        };
        const auto straight = [&] {
            common();
            rest_of(last);
        };
        if (!streams)
            straight();
        else
            b_.if_(
                streaming,
                [&] {
                    ask_for_seam(at[last]);
                    const loop::LocalRef shift = b_.local("shift", b_.i64(0));
                    b_.if_(busy[last], [&] { b_.set(shift, to_line(writes, at[last], bodies[last])); });
                    const LExpr first = b_.let("shift", b_.get(shift));
                    common(first);
                    point_.set_streaming(true);
                    rest_of(last, first);
                    point_.set_streaming(false);
                },
                straight);
        for (size_t w = last; w-- > 0;) rest_of(w);
        for (const std::vector<loop::LocalRef>& x : numbers)
            for (size_t d = x.size(); d-- > 1;) b_.set(x[d], b_.get(x[d - 1]));
        for (size_t w = 0; w < count; ++w) {
            if (p.walks[w].after.empty()) continue;
            b_.if_(busy[w], [&] {
                point_.restore(at[w]);
                for (const Stmt* s : p.walks[w].after) stmt(*s);
                for (size_t x = 0; x < numbers.size(); ++x)
                    if (p.numbers[x].made == w) b_.set(numbers[x][0], point_.eval(p.numbers[x].computed, 0));
            });
        }
        point_.restore(outside);
    });
}

}  // namespace opwright::target::cpu
