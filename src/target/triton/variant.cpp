#include "target/triton/variant.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "schedule/block_kernel.h"
#include "schedule/hold_beginning.h"
#include "target/triton/expr.h"
#include "target/triton/kernel.h"
#include "tile/blocks.h"

namespace opwright::target::triton {
using namespace math;

namespace {

constexpr int64_t kWalk = 8192;                  // elements of a step along a row that is read several times
constexpr int64_t kBeginning = 32768;            // of a longer row, held between walks
constexpr int64_t kParts = 8;                    // of a row of 16-bit elements
constexpr int64_t kSharers = 16;                 // programs that share a row, at most the lanes of _every_part
constexpr int64_t kBlock = 1 << 20;              // elements of a block that Triton allows
constexpr int64_t kShared = 227 << 10;           // bytes of shared memory that a program may have, from Hopper on
constexpr int64_t kRegisters = 255, kLane = 32;  // registers of a thread, threads of a warp

// Elements of a row that one program holds, 32 in the registers of each of 1,024 threads. Of 16-bit elements half as
// many: such rows take half as long to arrive, and with one program on a processor nothing is computed meanwhile. Of
// 64-bit elements each takes two registers.
int64_t longest_row(const Program& p) {
    int64_t r = 32768;
    for (const TensorInfo& t : p.tensors)
        if (t.role == Role::Input && size_of(t.dtype) != 4) r = 16384;
    return r;
}

// Whether two folds take one walk. By measurement: squared deviations of 16-bit rows are bound by their arithmetic, of
// which one walk has more than two.
bool online(const Program& p, const schedule::Nest& n) {
    const bool wide = std::none_of(p.inputs.begin(), p.inputs.end(),
                                   [&](TensorId t) { return size_of(p.tensors[t].dtype) == 2; });
    const auto pairs = rescales(p, n.equations);
    return std::any_of(pairs.begin(), pairs.end(), [&](const Rescale& x) {
        return wide || x.kind == Rescale::Kind::Exponentials;
    });
}

bool narrow(const Program& p, ExprId factor) {
    const Expr* x = &p.expr(factor);
    if (x->kind == ExprKind::Cast) x = &p.expr(x->args[0]);
    return x->kind == ExprKind::Load && size_of(x->dtype) == 2;
}

// Blocks that suit the type of a contraction: tensor cores want large ones, products in float32 registers.
void contraction_blocks(const Program& p, const schedule::Contraction& c, schedule::ContractPlan& plan) {
    if (!uses_dot(p, c)) {
        plan.mt = plan.nt = 32;
        plan.kc = 16;
        return;
    }
    const bool half = narrow(p, c.a) && narrow(p, c.b);
    plan.mt = half ? 128 : 64;
    plan.nt = half ? 128 : 64;
    plan.kc = half ? 64 : 32;
}

// Updates that meet in memory: with atomic instructions all their points run side by side; others stay in the order of
// the nest, and only the points that meet nobody are spread over a block.
void plan_updates(schedule::Kernel& k) {
    for (schedule::Nest& n : k.nests) {
        const Equation& q = k.program.equations[n.equations[0]];
        if (q.update != Update::Set && n.equations.size() == 1 && atomic(q.update, k.program.tensors[q.lhs].dtype))
            n.grid = q.vars;
    }
}

// What a schedule by hand asks of Triton and the chip beyond what every block target checks.
Status check(const schedule::Schedule& s, const schedule::Kernel& k) {
    const Program& p = k.program;
    for (size_t i = 0; i < k.nests.size(); ++i) {
        const schedule::NestPlan& plan = s.nests[i];
        const std::string& name = p.tensors[p.equations[k.nests[i].equations.back()].lhs].name;
        const auto wrong = [&](const std::string& what, const std::string& next) {
            return Diagnostic(fmt::format("The schedule of {} (nest {}): {}.", name, i, what), {}, next);
        };
        if (plan.warps & (plan.warps - 1))
            return wrong(fmt::format("{} warps", plan.warps), "Triton takes 1, 2, 4, 8, 16 or 32.");
        const int64_t threads = kLane * (plan.warps ? plan.warps : 8);
        if (k.nests[i].contraction) {
            const auto& c = plan.contract;
            const std::string block = fmt::format("a block of {} x {} x {}", c.mt, c.nt, c.kc);
            if (c.mt * c.nt > kRegisters * threads)
                return wrong(fmt::format("{} keeps {} sums in each of {} threads, which have {} registers", block,
                                         c.mt * c.nt / threads, threads, kRegisters),
                             "Make mt or nt smaller, or give it more warps.");
            const schedule::Contraction& q = *k.nests[i].contraction;
            const bool half = narrow(p, q.a) && narrow(p, q.b);
            const auto size = static_cast<int64_t>(half ? 2 : size_of(compute_type(p.expr(q.a).dtype)));
            const int64_t bytes = (c.mt + c.nt) * c.kc * size * (plan.stages ? plan.stages : 3);
            if (bytes > kShared)
                return wrong(fmt::format("{} in {} stages takes {} bytes of shared memory, and a program has {}", block,
                                         plan.stages ? plan.stages : 3, bytes, kShared),
                             "Make kc smaller, or take fewer stages.");
            continue;
        }
        int64_t elements = 1;
        for (const auto& a : plan.blocks) {
            if (a.tile != schedule::kWhole) elements *= a.tile;
            if (plan.elements == 0 && elements > kBlock)
                return wrong(fmt::format("its block has {} elements with index {}, and Triton allows {}", elements,
                                         p.vars[a.var].name, kBlock),
                             "Make a tile smaller, or give \"elements\" as a bound.");
        }
        if (plan.elements & (plan.elements - 1))
            return wrong(fmt::format("\"elements\" is {}", plan.elements), "Take a power of two.");
        if (plan.elements > kBlock)
            return wrong(fmt::format("\"elements\" is {}, and Triton allows {}", plan.elements, kBlock),
                         "Make it smaller.");
    }
    return ok_status();
}

Result<Variant> make_variant(const Program& p, const std::string& json, bool whole) {
    schedule::Kernel k = schedule::form_block_kernel(p, !whole);
    plan_updates(k);
    const int64_t row = longest_row(p);
    const schedule::BlockLimits limits{
        .map_elements = 1024, .row_elements = row, .loop_elements = whole ? 2048 : kWalk, .turned = 64};
    schedule::Schedule s = schedule::default_block_schedule(k, limits, whole);
    if (!json.empty()) {
        OPW_TRY(s, schedule::from_json(json, k));
        OPW_CHECK(check(s, k));
        for (size_t i = 0; i < k.nests.size(); ++i)  // a product's blocks stay as they are given
            if (k.nests[i].contraction && s.nests[i].warps == 0)
                s.nests[i].warps = s.nests[i].contract.mt * s.nests[i].contract.nt >= 128 * 128 ? 8 : 4;
    }
    for (size_t i = 0; i < k.nests.size(); ++i) {
        const schedule::Nest& n = k.nests[i];
        auto& blocks = s.nests[i].blocks;
        if (json.empty() && !whole) s.nests[i].online = online(k.program, n);
        if (n.contraction && json.empty()) contraction_blocks(k.program, *n.contraction, s.nests[i].contract);
        // Rows shorter than this share a program.
        if (json.empty() &&
            std::any_of(blocks.begin(), blocks.end(), [](auto& b) { return b.tile == schedule::kWhole; }))
            s.nests[i].elements = 1024;
        const Equation& q = k.program.equations[n.equations[0]];
        if (q.update != Update::Set) std::erase_if(blocks, [&](const auto& a) { return !has(n.grid, a.var); });
    }
    // A third of the time of such rows of f32 is the second walk; half of it is saved.
    if (json.empty() && !whole && row == kBeginning) {
        schedule::CutKernel cut = schedule::hold_beginning(k, kBeginning);
        for (const schedule::Cut& c : cut.cuts) {
            s.nests[c.nest].blocks = {{c.beginning, schedule::kWhole}, {c.var, kWalk}};
            s.nests[c.nest].elements = 0;
            s.nests[c.nest].warps = 16;
            std::fill(s.nests[c.nest].grid_tile.begin(), s.nests[c.nest].grid_tile.end(), 1);
        }
        k = std::move(cut.kernel);
    }
    Variant v;
    v.row = row;
    OPW_TRY(v.program, tile::apply_blocks(std::move(k), std::move(s)));
    for (size_t i = 0; i < v.program.nests.size(); ++i) {
        std::vector<Sym> extents;
        if (!v.program.kernel.nests[i].contraction)
            for (const auto& a : v.program.schedule.nests[i].blocks)
                if (a.tile == schedule::kWhole) extents.push_back(v.program.kernel.program.vars[a.var].extent);
        if (!extents.empty()) v.whole = true;
        v.rows.push_back(std::move(extents));
    }
    return v;
}

// Whether one tensor, of 16 bits or, where programs share its rows, of f32, is read by several walks along the rows of a
// nest, and every other by one at most. Programs that share rows join folds of f32.
bool suits_parts(const tile::Program& t, size_t nest, bool shared) {
    const Program& p = t.kernel.program;
    std::map<ExprId, int> walks;
    int rows = 0;
    for (const tile::Stmt& s : t.nests[nest].body) {
        if (s.kind == tile::StmtKind::ScatterReduce) return false;
        if (shared && s.kind == tile::StmtKind::Reduce && t.buffers[s.dst].dtype != DType::F32) return false;
        if (s.kind != tile::StmtKind::For) continue;
        if (!s.lane) return false;
        ++rows;
        for (const tile::Stmt& x : s.body) {
            if (x.kind == tile::StmtKind::For || x.kind == tile::StmtKind::Scan || x.kind == tile::StmtKind::Gather ||
                (x.kind == tile::StmtKind::Accumulate && is_arg(x.op)))
                return false;
            if (x.kind == tile::StmtKind::Load) ++walks[t.buffers[x.dst].value];
        }
    }
    ExprId row = kNone;
    for (const auto& [load, count] : walks) {
        if (count == 1) continue;
        if (row != kNone) return false;
        row = load;
    }
    if (row == kNone || walks[row] != rows || p.expr(row).outside != Outside::Error) return false;
    const DType type = p.expr(row).dtype;
    return shared ? type == DType::F32 : size_of(type) == 2 && is_float(type);
}

// Whether programs that each hold a part of a row need only join its folds, of f32, of which there are several or one
// that a result of the row's length follows; one tensor's rows are read, others serve all of them.
bool suits_sharing(const tile::Program& t, size_t nest) {
    const Program& p = t.kernel.program;
    const VarId row = t.schedule.nests[nest].blocks[0].var;
    const auto along = [&](const std::vector<VarId>& vars) { return has(vars, row); };
    int folds = 0, results = 0;
    std::set<ExprId> rows;
    for (const tile::Stmt& s : t.nests[nest].body) {
        switch (s.kind) {
            case tile::StmtKind::Map: break;
            case tile::StmtKind::Store:
                results += along(p.equations[s.equation].vars) &&
                           !has(t.kernel.nests[nest].local, p.equations[s.equation].lhs);
                break;
            case tile::StmtKind::Load: {
                const ExprId load = t.buffers[s.dst].value;
                const auto vars = p.free_vars(load);
                if (!along(vars)) break;
                if (p.expr(load).dtype != DType::F32) return false;
                if (vars.size() > 1) rows.insert(load);
                break;
            }
            case tile::StmtKind::Reduce:
                if (is_arg(s.op) || s.var != row || t.buffers[s.dst].dtype != DType::F32) return false;
                ++folds;
                break;
            default: return false;
        }
    }
    return rows.size() == 1 && folds > 0 && folds + results > 1;
}

bool has_pair(const schedule::Kernel& k, Rescale::Kind kind) {
    return std::any_of(k.nests.begin(), k.nests.end(), [&](const schedule::Nest& n) {
        const auto pairs = rescales(k.program, n.equations);
        return std::any_of(pairs.begin(), pairs.end(), [&](const Rescale& x) { return x.kind == kind; });
    });
}

// The variant in which programs hold rows that are too long for one of 32-bit numbers, as `form` says; nothing where it
// has none. By measurement:
// - 16-bit rows with exponentials gain nothing by being read once where they are longer than 32,768;
// - a program's share of a row with exponentials is one block, of which they take the place, otherwise pieces;
// - sharing pays above 40,960 elements for squared deviations, whose walk has much arithmetic, for others above 49,152.
std::optional<Variant> held_variant(const Program& p, RowForm form) {
    const bool shared = form == RowForm::Shared;
    schedule::Kernel k = schedule::form_block_kernel(p, true);
    const bool exponentials = has_pair(k, Rescale::Kind::Exponentials);
    const bool whole = shared && exponentials;
    Variant v;
    v.form = form;
    if (shared) v.above = has_pair(k, Rescale::Kind::Deviations) ? 40960 : 49152;
    if (whole) k = schedule::form_block_kernel(p, false);
    schedule::Schedule s = schedule::default_block_schedule(k, {.map_elements = 1024, .loop_elements = kWalk}, whole);
    const int64_t step = shared ? kShare / kPieces : exponentials ? kWalk / 2 : kWalk;
    v.row = shared ? kSharers * kShare : kParts * step;
    for (size_t i = 0; i < k.nests.size(); ++i) {
        const schedule::Nest& n = k.nests[i];
        auto& blocks = s.nests[i].blocks;
        std::erase_if(blocks, [&](const auto& b) { return has(n.grid, b.var); });
        if (blocks.size() != 1 || n.contraction || (blocks[0].tile == schedule::kWhole) != whole) return std::nullopt;
        if (!whole) blocks[0].tile = step;
        s.nests[i].elements = 0;
        std::fill(s.nests[i].grid_tile.begin(), s.nests[i].grid_tile.end(), 1);
        v.rows.push_back({k.program.vars[blocks[0].var].extent});
    }
    Result<tile::Program> t = tile::apply_blocks(std::move(k), std::move(s));
    if (!t.ok()) return std::nullopt;
    v.program = std::move(*t);
    for (size_t i = 0; i < v.program.nests.size(); ++i)
        if (!(whole ? suits_sharing(v.program, i) : suits_parts(v.program, i, shared))) return std::nullopt;
    return v;
}

bool always_fits(const Variant& v) {
    for (const auto& row : v.rows) {
        Sym n = 1;
        for (const Sym& s : row) n = n * s;
        if (!row.empty() && !(n.is_const() && *n.constant() * (row.size() > 1 ? 4 : 1) <= v.row)) return false;
    }
    return true;
}
bool never_fits(const Variant& v) {
    for (const auto& row : v.rows) {
        Sym n = 1;
        for (const Sym& s : row) n = n * s;
        if (n.lower() > v.row || n.upper() <= v.above) return true;
    }
    return false;
}
}  // namespace

Result<std::vector<Variant>> make_variants(const Program& p, const std::string& schedule) {
    std::vector<Variant> r;
    Result<Variant> held = make_variant(p, schedule, true);
    if (!held.ok()) {
        // A schedule that cuts rows into steps is one of the kernel that walks.
        Result<Variant> walked = schedule.empty() ? std::move(held) : make_variant(p, schedule, false);
        if (!walked.ok()) return schedule.empty() ? walked.error() : held.error();
        r.push_back(std::move(*walked));
        return r;
    }
    r.push_back(std::move(*held));
    if (!r[0].whole || always_fits(r[0])) return r;
    OPW_TRY(Variant walked, make_variant(p, "", false));
    if (never_fits(r[0])) r.clear();
    std::optional<Variant> parts = held_variant(p, RowForm::InParts);
    if (parts && !never_fits(*parts)) {
        r.push_back(std::move(*parts));
        if (always_fits(r.back())) return r;
    }
    std::optional<Variant> shared = held_variant(p, RowForm::Shared);
    if (shared && !never_fits(*shared)) r.push_back(std::move(*shared));
    r.push_back(std::move(walked));
    return r;
}

}  // namespace opwright::target::triton
