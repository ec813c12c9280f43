#include "tile/join_walks.h"

#include <algorithm>
#include <set>

namespace opwright::tile {
using namespace math;

namespace {

bool is_load(const Stmt& s) { return s.kind == StmtKind::Load || s.kind == StmtKind::Gather; }

// Whether `b` may take place in the steps of `a`.
bool can_join(const schedule::Nest& nest, const Stmt& a, const Stmt& b, const Program& p) {
    if (!a.lane || !b.lane || a.var != b.var || a.lanes != b.lanes || a.body.empty() || b.body.empty()) return false;
    if (a.body.back().kind != StmtKind::Store || b.body.back().kind != StmtKind::Accumulate) return false;
    const auto plain = [](const Stmt& s) { return is_load(s) || s.kind == StmtKind::Map; };
    if (!std::all_of(a.body.begin(), a.body.end() - 1, plain) || !std::all_of(b.body.begin(), b.body.end() - 1, plain))
        return false;
    const math::Program& m = p.kernel.program;
    const Equation& q = m.equations[a.body.back().equation];
    if (std::find(nest.local.begin(), nest.local.end(), q.lhs) == nest.local.end()) return false;
    bool reads = false;
    for (const Stmt& s : b.body) {
        if (!is_load(s)) continue;
        const Expr& x = m.expr(p.buffers[s.dst].value);
        if (x.ref != q.lhs) continue;
        if (x.outside != Outside::Error || !std::equal(q.at.begin(), q.at.end(), x.args.begin(), x.args.end())) return false;
        reads = true;
    }
    return reads;
}

void join_pieces(std::vector<Stmt>& body, const Program& p) {
    for (size_t i = 1; i < body.size(); ++i) {
        const Stmt &a = body[0], &b = body[i];
        if (a.kind != StmtKind::For || b.kind != StmtKind::For || !a.lane || !b.lane || a.var != b.var || a.tile != b.tile || a.lanes != b.lanes) return;
    }
    std::vector<Stmt> joined;
    std::set<ExprId> read;
    for (const Stmt& walk : body)
        for (const Stmt& s : walk.body)
            if (!is_load(s) || read.insert(p.buffers[s.dst].value).second) joined.push_back(s);
    body.resize(1);
    body[0].body = std::move(joined);
}

}  // namespace

void join_walks(const schedule::Nest& nest, std::vector<Stmt>& body, Program& p) {
    if (schedule::made_of_pieces(p.kernel.program, nest)) return join_pieces(body, p);
    for (size_t i = 0; i < body.size(); ++i) {
        if (body[i].kind != StmtKind::For) continue;
        // What lies between the two: partial results to begin with, and loads that are the same all along the row.
        size_t j = i + 1;
        const auto stored = [&](const Stmt& s) {
            return is_load(s) && p.kernel.program.expr(p.buffers[s.dst].value).ref ==
                                     p.kernel.program.equations[body[i].body.back().equation].lhs;
        };
        while (j < body.size() && (body[j].kind == StmtKind::Fill || (is_load(body[j]) && !stored(body[j])))) ++j;
        if (j == body.size() || body[j].kind != StmtKind::For || !can_join(nest, body[i], body[j], p)) continue;
        Stmt joined = std::move(body[i]);
        for (const Stmt& s : body[j].body) {
            const bool again = is_load(s) && std::any_of(joined.body.begin(), joined.body.end(), [&](const Stmt& x) {
                                   return is_load(x) && p.buffers[x.dst].value == p.buffers[s.dst].value;
                               });
            if (again) continue;
            joined.body.push_back(s);
            for (Extent& x : p.buffers[s.dst].box)  // of partial results too: as many as vectors in a step
                if (x.var == joined.var) x.size = joined.tile;
        }
        std::move(body.begin() + static_cast<long>(i) + 1, body.begin() + static_cast<long>(j),
                  body.begin() + static_cast<long>(i));
        body[j - 1] = std::move(joined);
        body.erase(body.begin() + static_cast<long>(j));
    }
}

}  // namespace opwright::tile
