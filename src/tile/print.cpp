#include <fmt/format.h>

#include "tile/program.h"

namespace opwright::tile {
using namespace math;

namespace {
struct Printer {
    const Program& p;
    const math::Program& m = p.kernel.program;
    std::string out;

    std::string box(const Buffer& b) {
        std::string r;
        for (const Extent& e : b.box) {
            if (!r.empty()) r += ", ";
            r += e.size == 0 ? m.vars[e.var].name : fmt::format("{}:{}", m.vars[e.var].name, e.size);
        }
        return "[" + r + "]";
    }
    std::string name(BufferId b) { return p.buffers[b].name; }
    void line(int depth, const std::string& s) { out += std::string(static_cast<size_t>(depth) * 2, ' ') + s + "\n"; }

    void stmt(const Stmt& s, int depth) {
        const auto define = [&](const std::string& what) {
            const Buffer& b = p.buffers[s.dst];
            line(depth, fmt::format("{}{} : {} = {}", b.name, box(b), opwright::name(b.dtype), what));
        };
        switch (s.kind) {
            case StmtKind::For:
                line(depth, fmt::format("for {} in 0..{} step {}{}:", m.vars[s.var].name, m.vars[s.var].extent.str(),
                                        s.tile, s.lane ? " on lanes" : ""));
                for (const Stmt& b : s.body) stmt(b, depth + 1);
                return;
            case StmtKind::Load:
                return define((p.buffers[s.dst].packed ? "load packed " : "load ") + m.print(p.buffers[s.dst].value));
            case StmtKind::Gather: return define("gather " + m.print(p.buffers[s.dst].value));
            case StmtKind::Map: return define("map " + m.print(p.buffers[s.dst].value));
            case StmtKind::Fill: return define(fmt::format("fill identity of {}", math::name(s.op)));
            case StmtKind::Accumulate:
                return line(depth, fmt::format("{} = {}({}, {}){}", name(s.dst), math::name(s.op), name(s.dst),
                                               name(s.a), s.b == kNoBuffer ? "" : " where " + name(s.b)));
            case StmtKind::Reduce:
                if (s.a != kNoBuffer)
                    return define(fmt::format("reduce {} of {} along {}{}", math::name(s.op), name(s.a),
                                              m.vars[s.var].name, s.b == kNoBuffer ? "" : " where " + name(s.b)));
                return line(depth, s.var == kNone ? fmt::format("{} complete", name(s.dst))
                                                  : fmt::format("{} = reduce {} along {}", name(s.dst),
                                                                math::name(s.op), m.vars[s.var].name));
            case StmtKind::AccumulatePair:
                return line(depth, fmt::format("{}, {} = online({}, {}, {})", name(s.b), name(s.dst), name(s.b),
                                               name(s.dst), name(s.a)));
            case StmtKind::ReducePair:
                return define(fmt::format("reduce {} of {}, {} along {}, shift {}", math::name(s.op), name(s.b),
                                          name(s.a), m.vars[s.var].name, m.print(p.pairs[s.pair].shift)));
            case StmtKind::Contract:
                return line(depth, fmt::format("{} += contract {} * {}", name(s.dst), name(s.a), name(s.b)));
            case StmtKind::Scan:
                if (s.a != kNoBuffer)
                    return define(fmt::format("scan {} of {} along {}{}", math::name(s.op), name(s.a),
                                              m.vars[s.var].name, s.b == kNoBuffer ? "" : " carrying on " + name(s.b)));
                return line(depth, fmt::format("scan {} along {} into {}", math::name(s.op), m.vars[s.var].name,
                                               m.tensors[m.equations[s.equation].lhs].name));
            case StmtKind::Store:
            case StmtKind::ScatterReduce: {
                const Equation& q = m.equations[s.equation];
                std::string at;
                for (ExprId e : q.at) at += (at.empty() ? "" : ",") + m.print(e);
                return line(depth,
                            fmt::format("{} {}[{}] {} {}", s.kind == StmtKind::Store ? "store" : "scatter",
                                        m.tensors[q.lhs].name, at, q.update == Update::Set ? "=" : "op=", name(s.a)));
            }
        }
    }
};

struct Verifier {
    const Program& p;
    std::vector<std::string> problems;
    std::vector<bool> defined = std::vector<bool>(p.buffers.size());
    void use(BufferId b, const char* what) {
        if (b >= p.buffers.size())
            problems.push_back(fmt::format("{} of an unknown buffer", what));
        else if (!defined[b])
            problems.push_back(fmt::format("{} of {} before it is defined", what, p.buffers[b].name));
    }
    void block(const std::vector<Stmt>& body) {
        for (const Stmt& s : body) {
            switch (s.kind) {
                case StmtKind::For:
                    if (s.tile < 1) problems.push_back("a loop with a tile below one");
                    block(s.body);
                    break;
                case StmtKind::Load:
                case StmtKind::Gather:
                case StmtKind::Map:
                case StmtKind::Fill:
                    if (s.dst < p.buffers.size())
                        defined[s.dst] = true;
                    else
                        problems.push_back("definition of an unknown buffer");
                    break;
                case StmtKind::AccumulatePair:
                case StmtKind::Accumulate:
                case StmtKind::Contract:
                    use(s.dst, "accumulation");
                    use(s.a, "use");
                    if (s.kind != StmtKind::Accumulate || s.b != kNoBuffer) use(s.b, "use");
                    break;
                case StmtKind::Reduce:
                    if (s.a == kNoBuffer) {
                        use(s.dst, "reduction");
                    } else {
                        use(s.a, "reduction");
                        if (s.b != kNoBuffer) use(s.b, "reduction");
                        defined[s.dst] = true;
                    }
                    break;
                case StmtKind::ReducePair:
                    use(s.a, "reduction");
                    use(s.b, "reduction");
                    if (s.pair >= p.pairs.size()) problems.push_back("an unknown pair of folds");
                    defined[s.dst] = true;
                    break;
                case StmtKind::Store:
                case StmtKind::ScatterReduce: use(s.a, "store"); break;
                case StmtKind::Scan:
                    if (s.a == kNoBuffer) break;
                    use(s.a, "scan");
                    if (s.b != kNoBuffer) use(s.b, "scan");
                    defined[s.dst] = true;
                    break;
            }
        }
    }
};
}  // namespace

std::string print(const Program& p) {
    Printer pr{p};
    for (size_t i = 0; i < p.nests.size(); ++i) {
        std::string grid;
        for (const GridAxis& g : p.nests[i].grid)
            grid += fmt::format("{}{} by {}", grid.empty() ? "" : ", ", pr.m.vars[g.var].name, g.tile);
        pr.line(0, fmt::format("nest {} over grid [{}]:", i, grid));
        for (const Stmt& s : p.nests[i].body) pr.stmt(s, 1);
    }
    return std::move(pr.out);
}

std::vector<std::string> verify(const Program& p) {
    Verifier v{p, {}};
    for (const Nest& n : p.nests) v.block(n.body);
    return std::move(v.problems);
}

}  // namespace opwright::tile
