#include "target/cuda/lower.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "schedule/block_kernel.h"
#include "schedule/portable.h"
#include "target/cuda/comment.h"
#include "tile/blocks.h"

namespace opwright::target::cuda {
using namespace math;
using L = Operand::Level;

namespace {
bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }
bool has(const std::vector<TensorId>& v, TensorId x, int) { return std::find(v.begin(), v.end(), x) != v.end(); }

std::string element_text(const Tensor& t, int64_t i) {
    return is_float(t.dtype()) ? literal(t.get(i), compute_type(t.dtype())) : literal_int(t.get_int(i), t.dtype());
}
}  // namespace

const std::vector<std::string>& local_names() {
    static const std::vector<std::string> names{
        "row",    "rows",   "column",  "columns",    "depth",      "row0",   "column0",     "block",     "tile",
        "batch",  "slice",  "slices",  "line",       "piece",      "side",   "deep",        "inside",    "chunk",
        "pair",   "sums",   "partial", "thread",     "i",          "j",      "e",           "kk",        "a_tile",
        "b_tile", "a_part", "b_part",  "a_next",     "b_next",     "a_line", "b_line",      "a_piece",   "b_piece",
        "a_from", "b_from", "from",    "copy_slice", "load_parts", "b_of",   "shared",      "tiles",     "first",
        "height", "v",      "cell",    "across",     "down",       "pack",   "across_pack", "down_pack", "turned",
        "slots",  "turn"};
    return names;
}

Sym points_of(const Program& p, const std::vector<VarId>& vars) {
    Sym n = 1;
    for (VarId v : vars) n = n * p.vars[v].extent;
    return n;
}

std::string product_text(Context& c, const std::vector<VarId>& vars) {
    std::string r;
    for (VarId v : vars)
        if (!c.p.vars[v].extent.is(1)) r += (r.empty() ? "" : " * ") + c.size(c.p.vars[v].extent).at(L::Product);
    return r.empty() ? "1" : r;
}

bool mentions(const Program& p, ExprId e, VarId v) { return has(p.free_vars(e), v); }

bool contiguous(const Program& p, TensorId t, const std::vector<ExprId>& at, VarId v) {
    const size_t rank = p.tensors[t].shape.size();
    if (rank == 0) return false;
    const auto f = affine(p, at[rank - 1]);
    if (!f || !f->is_plain_var() || f->terms[0].first != v) return false;
    for (size_t d = 0; d + 1 < rank; ++d)
        if (mentions(p, at[d], v)) return false;
    return true;
}

bool keeps(const Group& g, const Equation& q) {
    return g.equations.size() > 1 && std::all_of(q.vars.begin(), q.vars.end(), [&](VarId v) { return has(g.grid, v); });
}

void grid_stride(Context& c, const std::string& name, const std::string& count, const std::function<void()>& body) {
    c.code.open(
        "for (Index {0} = blockIdx.x * (Index)blockDim.x + threadIdx.x; {0} < {1}; {0} += (Index)gridDim.x * "
        "blockDim.x)",
        name, count);
    body();
    c.code.close();
}

void decompose(Point& at, const std::vector<VarId>& vars, const std::string& position, bool packs) {
    Context& c = at.context();
    std::vector<VarId> wide;
    for (VarId v : vars) {
        if (c.p.vars[v].extent.is(1))
            at.bind(v, "0");
        else
            wide.push_back(v);
    }
    std::string rest = position;
    for (size_t i = wide.size(); i-- > 0;) {
        const VarId v = wide[i];
        const bool pack = packs && i + 1 == wide.size();
        const std::string name = c.names.fresh(c.p.vars[v].name);
        const Operand extent = c.size(c.p.vars[v].extent);
        const std::string count = pack ? fmt::format("({} / VECTOR)", extent.at(L::Product)) : extent.at(L::Unary);
        std::string value = i == 0 ? rest : fmt::format("{} % {}", rest, count);
        if (pack) value += " * VECTOR";
        c.code.line("const Index {} = {};", name, value);
        if (i > 0) {
            rest = rest.find(' ') == std::string::npos ? fmt::format("{} / {}", rest, count)
                                                       : fmt::format("{} / {}", rest, count);
            if (i > 1) {
                const std::string next = c.names.fresh("rest");
                c.code.line("const Index {} = {};", next, rest);
                rest = next;
            }
        }
        at.bind(v, name);
    }
}

void finish(Point& at, const Equation& q, bool keep, bool atomic) {
    Context& c = at.context();
    at.count_uses(q.rhs);
    if (!keep) return at.store(q, at.eval(q.rhs), atomic);
    const TensorInfo& t = c.p.tensors[q.lhs];
    const Operand v = at.eval(q.rhs);
    const bool stored = !c.pointers[q.lhs].empty();
    const std::string name = c.names.fresh(t.name + (stored ? "_value" : ""));
    c.code.line("const {} {} = {};", c_type(t.dtype), name, v.text);
    if (stored) at.store(q, {name}, false);
    at.hold(q.lhs, {name});
}

Variant Lowering::kernel(const std::string& name, const std::string& bounds, const std::vector<std::string>& about,
                         const std::function<void()>& body) {
    Code outer = std::move(c_.code);
    c_.code = Code();
    c_.code.set_depth(1);
    c_.touched.assign(c_.p.tensors.size(), false);
    c_.written.assign(c_.p.tensors.size(), false);
    c_.sizes.clear();
    c_.uses_fault = c_.cooperates = c_.awaits = false;
    const auto names = c_.names.save();
    body();
    c_.names.restore(names);
    c_.names.keep(c_.permanent);
    const std::string text = c_.code.take();
    c_.code = std::move(outer);

    Variant v;
    v.kernel = name;
    v.cooperates = c_.cooperates;
    v.awaits = c_.awaits;
    std::vector<std::string> parameters;
    for (TensorId t = 0; t < c_.p.tensors.size(); ++t) {
        if (!c_.touched[t]) continue;
        if (c_.p.tensors[t].role == Role::Constant && !has(out_.tables, t, 0)) continue;  // a table in the source
        v.parameters.push_back(
            {.kind = Parameter::Kind::Tensor, .tensor = t, .name = c_.pointers[t], .written = c_.written[t]});
        parameters.push_back(fmt::format("{}{}* {}{}", c_.written[t] ? "" : "const ", memory_type(c_.stored[t]),
                                         c_.awaits ? "" : "__restrict__ ", c_.pointers[t]));
        if (c_.stored[t] == DType::F16 || c_.stored[t] == DType::BF16)
            c_.helpers.use(std::string(memory_type(c_.stored[t])));
    }
    for (const auto& [size, n] : c_.sizes) {
        v.parameters.push_back({.kind = Parameter::Kind::Size, .size = size, .name = n});
        parameters.push_back("Index " + n);
    }
    if (c_.uses_fault) {
        v.parameters.push_back({.kind = Parameter::Kind::Fault, .name = "fault", .written = true});
        parameters.push_back("int* fault");
    }
    Code& out = c_.code;
    for (const std::string& a : about) out.comment(a);
    const std::string head =
        fmt::format("extern \"C\" __global__ void {}{}(", bounds.empty() ? "" : bounds + " ", name);
    const std::string all = fmt::format("{}", fmt::join(parameters, ", "));
    std::string line = head;
    if (head.size() + all.size() + 3 <= 120) {
        line += all;
        parameters.clear();
    } else {
        out.raw(line);
        line = std::string(7, ' ');
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
        const std::string piece = " " + parameters[i] + (i + 1 < parameters.size() ? "," : "");
        if (line.size() + piece.size() + 3 > 120) {
            out.raw(line);
            line = std::string(7, ' ');
        }
        line += piece;
    }
    out.raw(line + ") {");
    const std::string previous = out.take();
    Code joined;
    out = std::move(joined);
    c_.code = Code();
    out_.kernels += previous + text + "}\n\n";
    return v;
}

Variant Lowering::point_kernel(const Group& g, const std::string& name) {
    const auto body = [&] {
        Point at(c_);
        const auto points = [&] {
            for (uint32_t i : g.equations) {
                const Equation& q = c_.p.equations[i];
                const bool keep = keeps(g, q);
                const Expr& rhs = c_.p.expr(q.rhs);
                std::vector<VarId> others;
                for (VarId v : q.vars)
                    if (!has(g.grid, v) && !(rhs.kind == ExprKind::Scan && rhs.vars[0] == v)) others.push_back(v);
                const std::vector<VarId> alone = schedule::independent_vars(c_.p, q);
                const bool atomic = q.update != Update::Set && q.update != Update::Overwrite &&
                                    std::any_of(q.vars.begin(), q.vars.end(), [&](VarId v) { return !has(alone, v); });
                if (others.empty() && rhs.kind != ExprKind::Scan) {
                    finish(at, q, keep, atomic);
                    continue;
                }
                at.loops(others, {q.rhs}, [&] {
                    if (rhs.kind != ExprKind::Scan) return finish(at, q, false, atomic);
                    // The running value goes along the scan's variable, in order.
                    const VarId along = rhs.vars[0];
                    const DType t = compute_type(rhs.dtype);
                    const std::string acc = c_.names.fresh("running"), i = c_.names.fresh(c_.p.vars[along].name);
                    const Operand n = c_.size(c_.p.vars[along].extent);
                    c_.code.line("{} {} = {};", c_type(t), acc, identity_text(rhs.reduce, t));
                    at.hoist(rhs.args[0]);
                    if (rhs.backward)
                        c_.code.open("for (Index {} = {} - 1; {} >= 0; --{})", i, n.at(L::Sum), i, i);
                    else
                        c_.code.open("for (Index {} = 0; {} < {}; ++{})", i, i, n.at(L::Shift), i);
                    at.bind(along, i);
                    at.count_uses(rhs.args[0]);
                    Operand term = at.eval(rhs.args[0]);
                    const DType from = c_.p.expr(rhs.args[0]).dtype;
                    if (compute_type(from) != t) term = convert(term, from, t, c_.helpers);
                    if (rhs.exclusive) at.store(q, {acc}, false);
                    c_.code.line("{} = {};", acc, combine(rhs.reduce, {acc}, term, t, c_.helpers).text);
                    if (!rhs.exclusive) at.store(q, {acc}, false);
                    c_.code.close();
                });
            }
        };
        // A single point too: with a return of all other threads in its place, CUDA 13.0's compiler crashes on a loop in
        // which one iteration alone does something.
        grid_stride(c_, "point", product_text(c_, g.grid), [&] {
            decompose(at, g.grid, "point", false);
            points();
        });
    };
    Variant v = kernel(name, "", {"One thread a point."}, body);
    v.blocks = ceil_div(points_of(c_.p, g.grid), 256);
    return v;
}

void Lowering::record(schedule::NestPlan plan) {
    if (!made_) return;
    plan.grid_tile = made_->grid_tile;
    *made_ = std::move(plan);
}

Status Lowering::group(const Group& g, const schedule::NestPlan* plan, schedule::NestPlan* made) {
    plan_ = plan;
    made_ = made;
    refusal_.reset();
    const TensorId result = g.slices ? g.slices->partial : c_.p.equations[g.equations.back()].lhs;
    // The first kernel that writes a result has the operator's name, the others have that of what they write.
    const bool plain = !named_ && c_.p.tensors[result].role != Role::Temp;
    named_ |= plain;
    const std::string name = c_.names.fresh(c_.p.name + (plain ? "" : "_" + c_.p.tensors[result].name) + "_kernel");
    Stage stage;
    stage.when = g.when;
    stage.points = points_of(c_.p, g.grid);
    out_.spans.push_back(stage.points);
    const auto kernels = [&] {
        if (g.slices) return slices_kernel(*g.slices, name, stage);
        if (g.contraction && contraction_kernel(g, name, stage)) return;
        std::string rest = name;
        if (transpose_kernel(g, name, stage)) {
            if (stage.variants.back().when.empty()) return;
            rest = c_.names.fresh(name + "_narrow");
            plan_ = nullptr;
            made_ = nullptr;
        }
        const Stage tiled = stage;
        if (!vector_kernel(g, rest, stage) && !row_kernel(g, rest, stage)) {
            if (plan_) {
                if (const Status s = pinned_point(*plan_, subject(g)); !s.ok()) refusal_ = s.error();
            }
            stage.variants.push_back(point_kernel(g, rest));
            stage.about = "one thread a point";
            for (VarId v : g.grid)
                if (!c_.p.vars[v].extent.is(1)) stage.lane = v;
        }
        if (tiled.about.empty()) return;
        stage.about = tiled.about;
        stage.lane = tiled.lane;
        stage.pack = tiled.pack;
    };
    kernels();
    if (refusal_) return *refusal_;
    if (stage.accesses.empty()) stage.accesses = describe_accesses(c_, g, stage);
    out_.stages.push_back(std::move(stage));
    return ok_status();
}

Subject Lowering::subject(const Group& g) const { return {c_.p, c_.p.equations[g.equations.back()].lhs}; }

namespace {
// Groups of a nest: the whole nest where its temporaries are single values, else each equation alone, with the
// temporaries in device memory.
std::vector<Group> groups_of(const schedule::Kernel& k, const schedule::Nest& nest, std::vector<TensorId>& workspace) {
    const Program& p = k.program;
    const auto in_grid = [&](TensorId t) {
        for (uint32_t i : nest.equations) {
            const Equation& q = p.equations[i];
            if (q.lhs != t) continue;
            for (VarId v : q.vars)
                if (!has(nest.grid, v)) return false;
        }
        return true;
    };
    const bool single = std::all_of(nest.local.begin(), nest.local.end(), in_grid);
    // Outputs that a later equation of the nest reads must be read at the thread's own point.
    bool reads_output = false;
    for (uint32_t i : nest.equations)
        for (TensorId t : p.reads(p.equations[i].rhs))
            for (uint32_t j : nest.equations)
                reads_output |= p.equations[j].lhs == t && !has(nest.local, t, 0) && !in_grid(t);
    if (nest.equations.size() == 1 || (single && !reads_output)) {
        Group g{nest.equations, nest.grid, nest.contraction ? &*nest.contraction : nullptr};
        const Equation& q = p.equations[nest.equations[0]];
        if (q.update != Update::Set && q.update != Update::Overwrite) g.grid = q.vars;  // atomics take care of the rest
        return {g};
    }
    std::vector<Group> r;
    for (uint32_t i : nest.equations) {
        const Equation& q = p.equations[i];
        Group g{{i}, q.vars, nullptr};
        if (p.expr(q.rhs).kind == ExprKind::Scan) std::erase(g.grid, p.expr(q.rhs).vars[0]);
        r.push_back(std::move(g));
    }
    workspace.insert(workspace.end(), nest.local.begin(), nest.local.end());
    return r;
}
}  // namespace

namespace {
// What holds for every target that works on blocks, and that only blocks have tiles.
Status legal(const schedule::Kernel& k, const schedule::Schedule& s) {
    OPW_CHECK(tile::apply_blocks(k, s));
    for (size_t n = 0; n < k.nests.size(); ++n)
        for (size_t g = 0; g < k.nests[n].grid.size(); ++g) {
            const VarId v = k.nests[n].grid[g];
            const int64_t tile = s.nests[n].grid_tile[g];
            const auto& blocks = s.nests[n].blocks;
            if (tile == 1 || std::any_of(blocks.begin(), blocks.end(),
                                         [&](const schedule::BlockAxis& a) { return a.var == v && a.tile == tile; }))
                continue;
            return Diagnostic(
                fmt::format("The schedule cuts the grid's index {} of {} into tiles of {}.", k.program.vars[v].name,
                            k.program.tensors[k.program.equations[k.nests[n].equations[0]].lhs].name, tile),
                {}, "On the cuda target \"blocks\" says what a thread block works on; leave the grid's tile at 1.");
        }
    return ok_status();
}

Result<CudaProgram> lowered(const Program& source, const LowerOptions& options) {
    CudaProgram out;
    out.kernel = schedule::form_block_kernel(source, true);
    const schedule::Kernel& kernel = out.kernel;
    const bool pinned = !options.schedule.empty();
    if (pinned) {
        OPW_TRY(out.schedule, options.portable ? schedule::from_portable(options.schedule, kernel)
                                               : schedule::from_json(options.schedule, kernel));
        OPW_CHECK(legal(kernel, out.schedule));
    } else {
        for (const schedule::Nest& n : kernel.nests)
            out.schedule.nests.emplace_back().grid_tile.assign(n.grid.size(), 1);
    }
    out.program = kernel.program;
    out.workspace = kernel.workspace;
    std::vector<Group> groups;
    for (size_t n = 0; n < kernel.nests.size(); ++n) {
        size_t nest = n;
        for (Group& g : groups_of(kernel, kernel.nests[n], out.workspace)) {
            g.nest = std::exchange(nest, SIZE_MAX);
            std::vector<Group> split = split_reductions(out.program, g, options.split_from, out.workspace);
            if (split.empty() || !g.when[0].value.is(1)) groups.push_back(std::move(g));
            for (Group& s : split) groups.push_back(std::move(s));
        }
    }

    const Program& p = out.program;
    Context c(p);
    c.names.keep(Helpers::names());
    const auto free_names = c.names.save();
    c.names.keep(local_names());
    for (const TensorInfo& t : p.tensors) {
        const bool temporary = t.role == Role::Temp;
        const auto id = static_cast<TensorId>(c.pointers.size());
        c.pointers.push_back(temporary && !has(out.workspace, id, 0) ? "" : c.names.fresh(t.name));
        c.stored.push_back(temporary ? compute_type(t.dtype) : t.dtype);
    }
    c.names.restore(free_names);
    c.names.keep(c.pointers);
    constexpr int64_t kInSource = 64;
    std::vector<std::pair<std::string, std::string>> tables;  // by name
    for (TensorId t = 0; t < p.tensors.size(); ++t) {
        const TensorInfo& info = p.tensors[t];
        for (const Sym& d : info.shape) (void)d;
        if (info.role == Role::Temp && !has(out.workspace, t, 0)) continue;
        out.spans.push_back(product(info.shape));
        if (info.role != Role::Constant) continue;
        const bool small = info.data.size() <= kInSource && info.data.size() > 0;
        if (!small) {
            out.tables.push_back(t);
            continue;
        }
        std::string values;
        for (int64_t i = 0; i < info.data.size(); ++i) values += (i ? ", " : "") + element_text(info.data, i);
        c.stored[t] = compute_type(info.dtype);
        tables.emplace_back(c.pointers[t], fmt::format("__device__ const {} {}[{}] = {{{}}};\n", c_type(info.dtype),
                                                       c.pointers[t], info.data.size(), values));
    }
    Lowering l(c, out, options);
    for (const Group& g : groups) {
        schedule::NestPlan* plan = g.nest < out.schedule.nests.size() ? &out.schedule.nests[g.nest] : nullptr;
        OPW_CHECK(l.group(g, pinned ? plan : nullptr, pinned ? nullptr : plan));
    }
    out.faults = c.faults;
    for (const Equation& q : p.equations) {
        const Sym points = points_of(p, q.vars);
        std::vector<ExprId> roots = q.at;
        roots.push_back(q.rhs);
        for (ExprId r : roots)
            for (ExprId e : loads_in(p, r, true))
                if (p.expr(e).outside != Outside::Error && p.expr(e).outside != Outside::Value)
                    out.folded.emplace_back(product(p.tensors[p.expr(e).ref].shape), points);
    }
    const std::string index =
        "// Positions in tensors. Compile with -DINDEX=\"long long\" where one has 2^31 elements or more.\n"
        "#ifndef INDEX\n#define INDEX int\n#endif\ntypedef INDEX Index;\n\n";
    std::string macros;
    for (const auto& [name, value] : out.macros)
        macros += fmt::format("#ifndef {0}\n#define {0} {1}\n#endif\n", name, value);
    if (out.macros.count("THREADS"))
        macros += "#define ROWS (THREADS < 128 ? 128 / THREADS : 1)  // that a block works on\n";
    if (!macros.empty()) macros += '\n';
    out.helpers = index + macros + c.helpers.text(false);
    out.emulated_helpers = index + macros + c.helpers.text(true);
    out.comment = leading_comment(source, out);
    std::string used;  // loops that were written out have taken what they need
    for (const auto& [name, text] : tables)
        if (mentions_word(out.kernels, name)) used += text;
    if (!used.empty()) out.kernels = used + "\n" + out.kernels;
    return out;
}
}  // namespace

Result<CudaProgram> lower(const Program& p, const LowerOptions& options) { return lowered(p, options); }

}  // namespace opwright::target::cuda
