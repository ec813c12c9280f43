// The tasks of a nest: points of its grid, one after the other.
#include <algorithm>

#include "target/cpu/lower/context.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;

Sym task_count(const tile::Nest& nest, const math::Program& p) {
    Sym n = 1;
    for (const tile::GridAxis& g : nest.grid) n = n * ceil_div(p.vars[g.var].extent, g.tile);
    return n;
}

namespace {
// Calls body for each number of [begin, end), taken apart into points of the nest's first `axes` axes.
void for_each_point(Context& c, const tile::Nest& nest, size_t axes, Point& point, std::map<VarId, Range>& ranges,
                    LExpr begin, LExpr end, const std::function<void(LExpr)>& body) {
    loop::Builder& b = c.b;
    // The first task is taken apart by division; from one to the next its indices are counted on, innermost first: a task
    // may be one short row, and three divisions take as long.
    struct Counter {
        size_t axis;
        LExpr count;
        loop::LocalRef value;
    };
    std::vector<Counter> counters;
    LExpr first = begin;
    size_t outermost = 0;
    const auto count_of = [&](size_t g) { return ceil_div(c.math.vars[nest.grid[g].var].extent, nest.grid[g].tile); };
    while (outermost < axes && count_of(outermost).is(1)) ++outermost;
    for (size_t g = axes; g-- > outermost;) {
        if (count_of(g).is(1)) continue;
        const std::string& name = c.math.vars[nest.grid[g].var].name;
        if (g == outermost) {
            if (!counters.empty()) counters.push_back({g, {}, b.local(name, first)});
            break;
        }
        // Without elements there is no task to take apart, but this is computed all the same.
        const LExpr n = b.let("count", loop::max(point.sym(count_of(g)), b.i64(1)));
        counters.push_back({g, n, b.local(name, loop::mod(first, n))});
        first = b.let("rest", loop::floordiv(first, n));
    }
    b.loop("task", begin, end, 1, [&](LExpr task) {
        const Point::Scope scope = point.save();
        for (size_t g = axes; g-- > 0;) {
            const tile::GridAxis& axis = nest.grid[g];
            LExpr i = count_of(g).is(1) ? b.i64(0) : task;
            for (const Counter& x : counters)
                if (x.axis == g) i = b.let(c.math.vars[axis.var].name, b.get(x.value));
            if (axis.tile == 1) {
                point.bind(axis.var, i);
            } else {
                const LExpr begin = b.let("begin", i * axis.tile);
                ranges[axis.var] = {
                    begin, b.let("end", loop::min(begin + axis.tile, point.sym(c.math.vars[axis.var].extent)))};
            }
        }
        body(task);
        point.restore(scope);
        LExpr carry = b.i64(1);
        for (Counter& x : counters) {
            const LExpr next = b.let("next", b.get(x.value) + carry);
            if (!x.count) {
                b.set(x.value, next);
                break;
            }
            const LExpr full = b.let("full", loop::ge(next, x.count));
            b.set(x.value, loop::select(full, b.i64(0), next));
            carry = loop::select(full, b.i64(1), b.i64(0));
        }
    });
}
}  // namespace

void for_each_task(Context& c, const tile::Nest& nest, Point& point, std::map<VarId, Range>& ranges, Range tasks,
                   const std::function<void()>& body) {
    for_each_point(c, nest, nest.grid.size(), point, ranges, tasks.begin, tasks.end, [&](LExpr) { body(); });
}

void for_each_row(Context& c, const tile::Nest& nest, Point& point, std::map<VarId, Range>& ranges,
                  const std::function<void(const Range& rows)>& body) {
    loop::Builder& b = c.b;
    if (nest.grid.size() == 1) return body({b.task_begin(), b.task_end()});
    // Rows that lie side by side differ in the innermost index alone.
    const LExpr n = b.let("rows", loop::max(point.sym(c.math.vars[nest.grid.back().var].extent), b.i64(1)));
    const LExpr first = b.let("first", loop::floordiv(b.task_begin(), n));
    const LExpr last = b.let("last", loop::floordiv(b.task_end() + n - 1, n));
    for_each_point(c, nest, nest.grid.size() - 1, point, ranges, first, last, [&](LExpr group) {
        const LExpr before = b.let("before", group * n);
        const Range rows = {b.let("begin", loop::max(b.task_begin() - before, b.i64(0))),
                            b.let("end", loop::min(b.task_end() - before, n))};
        body(rows);
    });
}

}  // namespace opwright::target::cpu
