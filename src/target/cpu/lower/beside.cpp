#include "target/cpu/lower/beside.h"

#include <algorithm>

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using tile::Stmt;
using tile::StmtKind;

namespace {
bool is_read(const Stmt& s) { return s.kind == StmtKind::Load || s.kind == StmtKind::Gather; }

// A fold that lanes hold partial results of, of a type whose vectors are worth shuffling.
bool lanes_fold(const tile::Program& p, const Stmt& s, VarId lane) {
    const tile::Buffer& acc = p.buffers[s.dst];
    const math::Expr& e = p.kernel.program.expr(acc.value);
    const DType t = compute_type(e.dtype);
    return acc.memory == tile::Memory::Register && !is_arg(e.reduce) && t != DType::Bool && size_of(t) >= 4 &&
           std::find(e.vars.begin(), e.vars.end(), lane) != e.vars.end();
}
}  // namespace

bool folds(const Stmt& loop) {
    return std::any_of(loop.body.begin(), loop.body.end(), [](const Stmt& s) { return s.kind == StmtKind::Accumulate; });
}

std::optional<Beside> rows_beside(const tile::Program& p, const tile::Nest& nest) {
    // Measured: 8 rows of 64 floats gain a fifth to three quarters of the time, of 256 nothing. Half as many registers bear
    // half as many rows.
    constexpr int kRows = 8, kFewRows = 4;
    constexpr int64_t kShort = 128;
    const math::Program& m = p.kernel.program;
    if (nest.contract || nest.grid.empty() || nest.grid.back().tile != 1) return std::nullopt;
    Beside r{.var = nest.grid.back().var, .rows = kRows, .short_row = kShort};
    bool any = false;
    for (const Stmt& s : nest.body) {
        switch (s.kind) {
            case StmtKind::Load:
            case StmtKind::Gather:
            case StmtKind::Map:
            case StmtKind::Fill:
            case StmtKind::Reduce: continue;
            case StmtKind::Store:
                if (m.equations[s.equation].update != Update::Set) return std::nullopt;
                continue;
            case StmtKind::For: break;
            default: return std::nullopt;
        }
        if (!s.lane || s.lanes < 2 || std::any_of(s.body.begin(), s.body.end(), [](const Stmt& x) { return x.kind == StmtKind::For; }))
            return std::nullopt;
        if (!folds(s)) continue;
        for (const Stmt& x : s.body) {
            if (x.kind == StmtKind::Accumulate) {
                if (!lanes_fold(p, x, s.var)) return std::nullopt;
                const DType t = compute_type(m.expr(p.buffers[x.dst].value).dtype);
                if (size_of(t) * static_cast<size_t>(s.lanes) < 64) r.rows = kFewRows;
            }
            if (is_read(x) && m.expr(p.buffers[x.dst].value).outside != Outside::Error) return std::nullopt;
            if (x.kind == StmtKind::Store) {
                const Equation& q = m.equations[x.equation];
                if (q.update != Update::Set || m.tensors[q.lhs].role == Role::Output) return std::nullopt;
            }
        }
        r.length = any ? max(r.length, m.vars[s.var].extent) : m.vars[s.var].extent;
        any = true;
    }
    if (!any || r.length.lower() > r.short_row || m.vars[r.var].extent.upper() < 2 * r.rows) return std::nullopt;
    return r;
}

// Two vectors become one, of sums of two partial results of one row each: first within 16 bytes, where one instruction
// interleaves two vectors, then of parts of 16 bytes and more. Rows end up in another order than they came, which a last
// permutation mends.
LExpr fold_together(loop::Builder& b, std::vector<LExpr> vectors,
                    const std::function<LExpr(LExpr, LExpr)>& combine) {
    const int count = static_cast<int>(vectors.size());
    const int part = std::max<int>(1, 16 / static_cast<int>(size_of(vectors[0].type().dtype)));
    std::vector<std::vector<int>> from;  // by vector, the row of each lane
    for (int i = 0; i < count; ++i) from.emplace_back(static_cast<size_t>(vectors[0].type().lanes), i);
    for (int unit = 1, each = vectors[0].type().lanes; each > 1; each /= 2, unit *= 2) {
        const int lanes = vectors[0].type().lanes;
        const bool two = vectors.size() > 1;
        std::vector<LExpr> next;
        std::vector<std::vector<int>> next_from;
        for (size_t i = 0; i < vectors.size(); i += two ? 2 : 1) {
            // The first half of each block in one operand, the second in the other, units of both vectors in turn.
            std::vector<int> low, high;
            const int block = std::min(std::max(part, 2 * unit), lanes);
            for (int at = 0; at < lanes; at += block) {
                const int half = block / 2, run = std::min(unit, half);
                for (int u = 0; u < half; u += run)
                    for (int v = 0; v < (two ? 2 : 1); ++v)
                        for (int l = 0; l < run; ++l) {
                            low.push_back(v * lanes + at + u + l);
                            high.push_back(v * lanes + at + half + u + l);
                        }
            }
            const auto picked = [&](const std::vector<int>& lanes_of) {
                return two ? loop::permute_lanes(vectors[i], vectors[i + 1], lanes_of)
                           : loop::permute_lanes(vectors[i], lanes_of);
            };
            next.push_back(b.let("folded", combine(b.let("low", picked(low)), b.let("high", picked(high)))));
            next_from.emplace_back();
            for (int l : low) next_from.back().push_back(from[i + static_cast<size_t>(l / lanes)][static_cast<size_t>(l % lanes)]);
        }
        vectors = std::move(next);
        from = std::move(next_from);
    }
    while (vectors.size() > 1) {  // more rows than lanes
        std::vector<LExpr> next;
        std::vector<std::vector<int>> next_from;
        for (size_t i = 0; i < vectors.size(); i += 2) {
            next.push_back(loop::concat(vectors[i], vectors[i + 1]));
            next_from.push_back(from[i]);
            next_from.back().insert(next_from.back().end(), from[i + 1].begin(), from[i + 1].end());
        }
        vectors = std::move(next);
        from = std::move(next_from);
    }
    std::vector<int> lane_of(static_cast<size_t>(count));
    for (int l = 0; l < count; ++l) lane_of[static_cast<size_t>(from[0][static_cast<size_t>(l)])] = l;
    return b.let("folded", loop::permute_lanes(vectors[0], lane_of));
}

}  // namespace opwright::target::cpu
