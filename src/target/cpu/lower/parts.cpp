#include "target/cpu/lower/parts.h"

#include <algorithm>

namespace opwright::target::cpu {
using namespace math;
using tile::Stmt;
using tile::StmtKind;

std::optional<RowParts> rows_in_parts(Context& c, const tile::Nest& nest) {
    constexpr int kParts = 8, kFewTasks = 4;
    constexpr int64_t kTerms = 65536, kTermsOfTasks = 4 * kTerms;  // of a part, some microseconds; where threads have tasks anyway
    if (nest.grid.size() != 1) return std::nullopt;
    const VarId column = nest.grid[0].var;
    RowParts p;
    for (const Stmt& s : nest.body) {
        const bool rows = s.kind == StmtKind::For && !s.lane && s.tile > 1, fill = s.kind == StmtKind::Fill;
        if ((rows && p.rows) || (fill && p.fill)) return std::nullopt;
        if (rows) p.rows = &s;
        if (fill) p.fill = &s;
    }
    if (!p.rows || !p.fill) return std::nullopt;
    const tile::Buffer& sums = c.tile.buffers[p.fill->dst];
    if (sums.memory != tile::Memory::Scratch || sums.box[0].var != column) return std::nullopt;
    const Sym &columns = c.math.vars[column].extent, &rows = c.math.vars[p.rows->var].extent;
    const Sym tasks = task_count(nest, c.math), terms = select(less(1, tasks), kTermsOfTasks, kTerms);
    const Sym most = max(min(floor_div(columns * rows, terms), kParts), 1);
    p.count = select(less(tasks, kFewTasks), most, 1);
    if (p.count.is(1)) return std::nullopt;
    p.stride = ceil_div(columns, p.fill->lanes) * p.fill->lanes;
    const DType t = compute_type(c.math.expr(sums.value).dtype);
    c.out.shared.push_back({p.count * p.stride, t});
    p.memory = c.b.param(sums.name + "_parts", t, static_cast<uint32_t>(c.out.arguments.size()), loop::Access::ReadWrite);
    c.out.arguments.push_back({.kind = Argument::Kind::Shared, .packed = c.out.shared.size() - 1});
    return p;
}

}  // namespace opwright::target::cpu
