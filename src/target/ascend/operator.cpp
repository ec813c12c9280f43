#include "target/ascend/operator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "derive/cost.h"
#include "schedule/block_kernel.h"
#include "target/ascend/helpers.h"
#include "tile/blocks.h"

namespace opwright::target::ascend {
using namespace math;

namespace {

constexpr int64_t kMaxTile = 4096;  // lanes: 16 KB of float, from where on a DMA runs at full width

const char* const kPreamble = R"(#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t BUFFER_NUM = 2;  // double buffering: one tile is moved while the other is computed
)";

}  // namespace

std::string wrapped(const std::string& text) {
    constexpr size_t kWidth = 120;
    std::string r;
    for (size_t at = 0; at < text.size();) {
        size_t end = text.find('\n', at);
        if (end == std::string::npos) end = text.size();
        std::string line = text.substr(at, end - at);
        at = end + 1;
        const size_t indent = std::min(line.find_first_not_of(' '), line.size());
        const bool comment = line.compare(indent, 2, "//") == 0;
        while (line.size() > kWidth && !comment) {
            // In as few parentheses as may be, after a comma before beside an operator, as far right as may be.
            size_t cut = 0;
            int depth = 0, best = 1000;
            for (size_t i = indent; i + 2 < kWidth; ++i) {
                depth += line[i] == '(' || line[i] == '[' ? 1 : line[i] == ')' || line[i] == ']' ? -1 : 0;
                if (i < indent + 32 || line[i + 1] != ' ') continue;
                const bool comma = line[i] == ',';
                const std::string_view next = std::string_view(line).substr(i + 2, 3);
                bool mark = comma;
                for (const char* m : {"? ", ": ", "&& ", "|| ", "+ ", "- ", "* "}) mark |= next.starts_with(m);
                const int rank = 2 * depth + (comma ? 0 : 1);
                if (!mark || rank > best || depth == 0) continue;
                best = rank;
                cut = i + 2;
            }
            if (cut == 0) break;
            std::string head = line.substr(0, cut);
            while (!head.empty() && head.back() == ' ') head.pop_back();
            r += head + "\n";
            line = std::string(indent + 8, ' ') + line.substr(cut);
        }
        r += line + "\n";
    }
    return r;
}

namespace {
// Host versions of the functions that sizes need.
const char* const kHostFunctions[][2] = {
    {"HostFloorDiv",
     "inline int64_t HostFloorDiv(int64_t a, int64_t b)\n{\n    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != "
     "(b < 0) ? 1 : 0);\n}\n"},
    {"HostFloorMod",
     "inline int64_t HostFloorMod(int64_t a, int64_t b)\n{\n    return b == 0 ? 0 : a % b + (a % b != 0 && (a < 0) != "
     "(b < 0) ? b : 0);\n}\n"},
    {"HostLower", "inline int64_t HostLower(int64_t a, int64_t b)\n{\n    return a < b ? a : b;\n}\n"},
    {"HostHigher", "inline int64_t HostHigher(int64_t a, int64_t b)\n{\n    return a > b ? a : b;\n}\n"}};

// Whether every tensor that the nest writes along v is written element beside element there.
bool writes_beside(const schedule::Kernel& k, const schedule::Nest& nest, VarId v) {
    const Program& p = k.program;
    for (uint32_t i : nest.equations) {
        const Equation& q = p.equations[i];
        if (std::find(nest.local.begin(), nest.local.end(), q.lhs) != nest.local.end()) continue;
        if (std::find(q.vars.begin(), q.vars.end(), v) == q.vars.end()) continue;
        Sym stride = 0, step = 1;
        for (size_t d = q.at.size(); d-- > 0;) {
            if (const auto f = affine(p, q.at[d])) stride = stride + f->coefficient(v) * step;
            step = step * p.tensors[q.lhs].shape[d];
        }
        if (!stride.is(1)) return false;
    }
    return true;
}

// One axis a block, along which results are written without gaps; false where the plan holds rows otherwise.
bool settle_axis(const schedule::Kernel& k, const schedule::Nest& nest, schedule::NestPlan& plan) {
    const bool rows = !plan.blocks.empty() && plan.blocks[0].tile == schedule::kWhole;
    if (plan.blocks.size() == 1 && writes_beside(k, nest, plan.blocks[0].var)) return true;
    if (rows || plan.blocks.size() > 1) return false;
    std::vector<VarId> wishes;
    for (uint32_t i : nest.equations)
        for (VarId v : k.program.equations[i].vars)
            if (std::find(nest.grid.begin(), nest.grid.end(), v) != nest.grid.end()) wishes.push_back(v);
    std::fill(plan.grid_tile.begin(), plan.grid_tile.end(), 1);
    plan.blocks.clear();
    for (auto v = wishes.rbegin(); v != wishes.rend(); ++v)
        if (writes_beside(k, nest, *v) && k.program.vars[*v].extent.upper() > 1) {
            plan.blocks = {{*v, kMaxTile}};
            plan.grid_tile[static_cast<size_t>(std::find(nest.grid.begin(), nest.grid.end(), *v) - nest.grid.begin())] =
                kMaxTile;
            break;
        }
    return true;
}

// Whether some nest walks along its rows more than once: then rows that fit are better held whole.
bool walks_rows_again(const schedule::Kernel& k) {
    for (const schedule::Nest& nest : k.nests) {
        std::map<VarId, int> walks;
        for (uint32_t i : nest.equations) {
            const Equation& q = k.program.equations[i];
            std::set<VarId> vars(q.vars.begin(), q.vars.end());
            std::set<ExprId> seen;
            std::vector<ExprId> stack{q.rhs};
            while (!stack.empty()) {
                const ExprId e = stack.back();
                stack.pop_back();
                if (!seen.insert(e).second) continue;
                const Expr& x = k.program.expr(e);
                if (x.kind == ExprKind::Reduce) vars.insert(x.vars.begin(), x.vars.end());
                stack.insert(stack.end(), x.args.begin(), x.args.end());
            }
            for (VarId v : vars)
                if (std::find(nest.grid.begin(), nest.grid.end(), v) == nest.grid.end() && ++walks[v] > 1) return true;
        }
    }
    return false;
}

// Elements of a tile at most.
int64_t lanes_of(const KernelSource& k) {
    return k.whole ? k.max_tile : std::min(k.max_tile, k.tile ? k.tile : kMaxTile);
}

// What the operator costs at least and what each kernel holds: the comment that the source begins with.
std::string cost_text(const Operator& op, const Program& p) {
    const Plan& plan = op.plans.back();
    const Names names(plan.program);
    Helpers unused;
    Scalar scalar(plan.program, names, unused);
    scalar.sizes.clear();
    scalar.host = true;
    const derive::Cost cost = derive::cost(p);
    std::string r;
    const auto add = [&](std::string line) {  // wrapped at words
        for (std::string lead = "// "; !line.empty(); lead = "//   ") {
            size_t end = line.size();
            if (end > 112) end = line.rfind(' ', 112);
            r += lead + line.substr(0, end) + "\n";
            line.erase(0, std::min(end + 1, line.size()));
        }
    };
    const auto bytes_of = [&](TensorId t, Sym& sum) {
        std::vector<std::string> factors{std::to_string(size_of(plan.program.tensors[t].dtype))};
        Sym n = static_cast<int64_t>(size_of(plan.program.tensors[t].dtype));
        for (const Sym& extent : plan.program.tensors[t].shape) {
            factors.push_back(scalar.sym(extent));
            n = n * extent;
        }
        sum = sum + n;
        return fmt::format("{} ({})", names.tensor(t), product_of(factors));
    };
    Sym read = 0, written = 0;
    std::string reads, writes;
    for (TensorId t : plan.program.inputs) reads += (reads.empty() ? "" : ", ") + bytes_of(t, read);
    for (TensorId t : plan.program.outputs) writes += (writes.empty() ? "" : ", ") + bytes_of(t, written);
    std::string memory =
        fmt::format("Global memory, in bytes: reads{} {}; writes {}", read == cost.read_bytes ? "" : " at most",
                    reads.empty() ? "nothing" : reads, writes);
    for (TensorId t : plan.workspace) {
        Sym n = static_cast<int64_t>(size_of(compute_type(plan.program.tensors[t].dtype)));
        for (const Sym& extent : plan.program.tensors[t].shape) n = n * extent;
        memory +=
            fmt::format("; {} passes from kernel to kernel: {} bytes there and back", names.tensor(t), scalar.sym(n));
    }
    add(memory + ".");
    std::string floor = "Floor on Atlas A2: bytes / 1.8 TB/s of its memory";
    for (const Plan& each : op.plans)
        for (const KernelSource& k : each.kernels)
            if (k.mix && &each == &plan)
                floor += fmt::format(
                    ", and {} * {} * {} / (16 * 16 * 16) / 24 cores / 1.85 GHz of its cubes with half factors, four "
                    "times "
                    "that with float ones",
                    k.rows, k.row_n, k.row_k);
    add(floor + ".");
    for (const Plan& each : op.plans)
        for (const KernelSource& k : each.kernels) {
            const int64_t lanes = lanes_of(k);
            int64_t total = 0;
            std::string buffers;
            for (const Budget& b : k.budget) {
                total += b.bytes(lanes);
                buffers += fmt::format("{}{}{} {}", buffers.empty() ? "" : ", ", b.buffer,
                                       b.copies > 1 ? fmt::format(" {} x", b.copies) : "", b.bytes(lanes) / b.copies);
            }
            const std::string line =
                fmt::format("{}: tiles of up to {} elements take {} of {} bytes of unified buffer: {}.", k.name, lanes,
                            total, kUbBytes, buffers);
            add(line);
        }
    std::string equations;
    const std::string text = p.print();
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const size_t begin = text.find_first_not_of(' ', at);
        equations += "//     " + text.substr(begin, end - begin) + "\n";
        at = end + 1;
    }
    return "//\n" + equations + "//\n" + r;
}

// What a schedule by hand asks of the chip beyond what every block target checks.
Status check_schedule(const schedule::Schedule& s, const schedule::Kernel& k) {
    const Program& p = k.program;
    for (size_t i = 0; i < k.nests.size(); ++i) {
        const auto& blocks = s.nests[i].blocks;
        const Equation& q = p.equations[k.nests[i].equations.back()];
        const auto wrong = [&](const std::string& what, const std::string& next) {
            return Diagnostic(fmt::format("The schedule of {} (nest {}): {}.", p.tensors[q.lhs].name, i, what), {},
                              next);
        };
        if (q.update != Update::Set && !blocks.empty())
            return wrong("its places are data, so that it goes element by element", "Leave \"blocks\" empty.");
        if (blocks.size() > 1)
            return wrong(fmt::format("a block over {} and {}", p.vars[blocks[0].var].name, p.vars[blocks[1].var].name),
                         "A tile of the unified buffer lies along one index.");
        if (blocks.empty()) continue;
        const std::string& index = p.vars[blocks[0].var].name;
        if (!writes_beside(k, k.nests[i], blocks[0].var))
            return wrong(fmt::format("results along index {} do not lie side by side in memory", index),
                         "Take the index that the result's last dim has.");
        if (blocks[0].tile != schedule::kWhole && blocks[0].tile < kLanes)
            return wrong(fmt::format("tiles of {} along index {}", blocks[0].tile, index),
                         fmt::format("An instruction works on 256 bytes: take {} or more.", kLanes));
    }
    return ok_status();
}

// A structure of what the host counts, and the function that counts it.
std::string tiling_text(const KernelSource& k, const Operator& op) {
    const std::string type = upper_camel(k.name) + "Tiling";
    std::string r = fmt::format("// What the host counts for {}, passed by value.\nstruct {} {{\n", k.name, type);
    for (const std::string& f : op.fields) r += fmt::format("    int64_t {};\n", f);
    if (!k.block_extent.empty())
        r += "    uint32_t tileLength;   // elements of a full tile, whole 256 bytes of float\n";
    if (k.mix)
        r += "    TCubeTiling cube;      // of the product\n    int64_t rows;          // of the product, all matrices "
             "together\n    int64_t rowsPerCore;\n";
    r += "    int64_t tasks;         // of all cores together\n    int64_t tasksPerCore;  // the last core may have "
         "fewer\n};\n\n";
    const std::string sizes = size_parameters(op);
    r += fmt::format("inline {} Make{}({}{}int64_t cores{})\n{{\n", type, type, sizes, sizes.empty() ? "" : ", ",
                     k.tiled() ? fmt::format(", int64_t maxTile = {}", lanes_of(k)) : "");
    r += fmt::format("    {} t{{}};\n", type);
    for (const std::string& f : op.fields) r += fmt::format("    t.{0} = {0};\n", f);
    if (k.block_extent.empty()) {
        r += fmt::format("    t.tasks = {};\n", k.tasks);
    } else if (k.whole) {
        r += fmt::format("    t.tileLength = static_cast<uint32_t>(({} + 63) / 64 * 64);\n    t.tasks = {};\n",
                         k.block_extent, k.tasks);
    } else {
        r += fmt::format("    const int64_t extent = {};\n", k.block_extent);
        if (k.block_in_grid) {
            r += "    // Tiles as large as fit, but enough of them for all cores.\n";
            if (k.tasks == "1")
                r += "    int64_t tile = (extent + cores - 1) / cores;\n";
            else
                r += fmt::format(
                    "    const int64_t rows = {};\n    int64_t tile = (extent * rows + cores - 1) / cores;\n"
                    "    tile = tile < extent ? tile : extent;\n",
                    k.tasks);
            r += "    tile = tile < maxTile ? (tile + 63) / 64 * 64 : maxTile;\n";
        } else {
            r += "    const int64_t tile = extent < maxTile ? (extent + 63) / 64 * 64 : maxTile;\n";
        }
        r += "    t.tileLength = static_cast<uint32_t>(tile > 64 ? tile : 64);\n";
        r += !k.block_in_grid  ? fmt::format("    t.tasks = {};\n", k.tasks)
             : k.tasks == "1" ? "    t.tasks = (extent + t.tileLength - 1) / t.tileLength;\n"
                              : "    t.tasks = rows * ((extent + t.tileLength - 1) / t.tileLength);\n";
    }
    if (k.mix) {
        const int64_t depth = 128 / k.factor_bytes;  // 128 x baseK elements, twice, fill L0A and L0B
        r += fmt::format(
            "    t.rows = {};\n    t.rowsPerCore = (t.rows + cores - 1) / cores;\n"
            "    t.tasksPerCore = t.rowsPerCore * ((extent + t.tileLength - 1) / t.tileLength);\n"
            "    t.cube.usedCoreNum = static_cast<int32_t>(cores);\n    t.cube.M = static_cast<int32_t>({});\n    "
            "t.cube.N = static_cast<int32_t>({});\n"
            "    t.cube.Ka = t.cube.Kb = static_cast<int32_t>({});\n    t.cube.singleCoreM = "
            "static_cast<int32_t>(t.rowsPerCore);\n"
            "    t.cube.singleCoreN = t.cube.N;\n    t.cube.singleCoreK = t.cube.Ka;\n"
            "    t.cube.baseM = t.cube.baseN = 128;  // 64 KB of L0C\n    t.cube.baseK = {};                  // twice "
            "32 KB each of L0A and L0B\n"
            "    t.cube.dbL0A = t.cube.dbL0B = 2;\n    t.cube.dbL0C = 1;\n    t.cube.stepM = t.cube.stepN = 1;\n    "
            "t.cube.stepKa = t.cube.stepKb = 4;\n"
            "    t.cube.depthA1 = t.cube.depthB1 = 8;  // two steps of four blocks: all of L1\n",
            k.rows, k.row_m, k.row_n, k.row_k, depth);
    } else if (k.one_core)
        r += "    (void)cores;  // one core, since places are data and might meet\n    t.tasksPerCore = t.tasks;\n";
    else
        r += "    t.tasksPerCore = (t.tasks + cores - 1) / cores;\n";
    return r + "    return t;\n}\n";
}

Diagnostic too_large(const KernelSource& k, size_t nest, const tile::Program& t) {
    const Program& p = t.kernel.program;
    std::string buffers;
    int64_t bytes = 0;
    for (const Budget& b : k.budget) {
        bytes += b.bytes(k.tile);
        buffers += fmt::format("{}{} {}", buffers.empty() ? "" : ", ", b.buffer, b.bytes(k.tile));
    }
    return Diagnostic(
        fmt::format(
            "The schedule of {} (nest {}): tiles of {} elements take {} bytes of unified buffer, and it has {} ({}).",
            p.tensors[p.equations[t.kernel.nests[nest].equations.back()].lhs].name, nest, k.tile, bytes, kUbBytes,
            buffers),
        {}, fmt::format("Take {} or fewer.", k.max_tile));
}
}  // namespace

std::string size_parameters(const Operator& op) {
    std::string r;
    for (const std::string& f : op.fields) r += (r.empty() ? "" : ", ") + ("int64_t " + f);
    return r;
}

std::string plan_condition(const Operator& op, size_t i) {
    if (i + 1 == op.plans.size()) return "";
    std::string r;
    for (const KernelSource& k : op.plans[i].kernels)
        if (k.whole) {
            r += fmt::format("{}{} > 0 && {} <= {}", r.empty() ? "" : " && ", k.block_extent, k.block_extent,
                             k.max_tile);
        }
    return r.empty() ? "true" : r;
}

Result<Operator> write_operator(const Program& p, const EmitOptions& o) {
    Operator op;
    Helpers helpers;
    std::string classes;
    const auto plan_of = [&](bool recompute, bool whole, const std::string& suffix,
                             const std::string& by_hand) -> Result<Plan> {
        schedule::Kernel k = schedule::form_block_kernel(p, recompute);
        std::vector<std::optional<Product>> products(k.nests.size());
        for (size_t i = 0; i < k.nests.size(); ++i) {
            products[i] = extract_product(k, i);
            k.nests[i].contraction.reset();
        }
        schedule::BlockLimits limits;
        limits.map_elements = limits.loop_elements = kMaxTile;
        limits.max_axes = 1;
        schedule::Schedule s = schedule::default_block_schedule(k, limits, whole);
        for (size_t i = 0; i < k.nests.size(); ++i)
            if (!settle_axis(k, k.nests[i], s.nests[i])) return Diagnostic("Its rows have more than one axis.");
        for (size_t i = 0; i < k.nests.size(); ++i)
            for (uint32_t e : k.nests[i].equations)
                if (k.program.equations[e].update != Update::Set) {  // places that are data: one after the other
                    s.nests[i].blocks.clear();
                    std::fill(s.nests[i].grid_tile.begin(), s.nests[i].grid_tile.end(), 1);
                }
        if (!by_hand.empty()) {
            OPW_TRY(s, schedule::from_json(by_hand, k));
            OPW_CHECK(check_schedule(s, k));
        }
        Plan plan;
        plan.whole = whole;
        plan.schedule = s.summary + "\n";
        plan.workspace = k.workspace;
        schedule::Schedule settled = s;
        OPW_TRY(const tile::Program t, tile::apply_blocks(k, std::move(s)));
        plan.program = t.kernel.program;
        plan.tile = tile::print(t);
        const Names names(t.kernel.program);
        if (op.fields.empty())
            for (const std::string& n : p.symbols()) {
                op.symbols.push_back(n);
                op.fields.push_back(names.fields().count(n) ? names.field(n) : "size" + upper_camel(n));
            }
        for (size_t i = 0; i < t.nests.size(); ++i) {
            OPW_TRY(KernelSource source,
                    write_kernel(t, i, names, helpers,
                                 t.nests.size() == 1 ? suffix : fmt::format("{}_part{}", suffix, i + 1),
                                 products[i] ? &*products[i] : nullptr));
            // The tile is the schedule's, as far as the unified buffer allows.
            auto& blocks = settled.nests[i].blocks;
            if (!blocks.empty() && blocks[0].tile != schedule::kWhole) {
                source.tile = blocks[0].tile;
                if (source.tile > source.max_tile && !by_hand.empty()) return too_large(source, i, t);
                while (blocks[0].tile > source.max_tile) blocks[0].tile /= 2;
            }
            plan.kernels.push_back(std::move(source));
        }
        plan.schedule_json = schedule::to_json(settled, t.kernel);
        return plan;
    };
    op.name = p.name;
    const bool rows = walks_rows_again(schedule::form_block_kernel(p, false));
    // A schedule by hand is that of the first kernel, or of the one that walks along rows; then that serves all.
    std::optional<Diagnostic> refused;
    if (rows) {
        auto plan = plan_of(false, true, "", o.schedule);
        if (plan.ok())
            op.plans.push_back(std::move(*plan));
        else if (!o.schedule.empty())
            refused = plan.error();
    }
    auto last = plan_of(rows, false, op.plans.empty() ? "" : "_long_rows", op.plans.empty() ? o.schedule : "");
    if (!last.ok()) return refused ? *refused : last.error();
    op.plans.push_back(std::move(*last));

    const bool mix = std::any_of(op.plans.begin(), op.plans.end(), [](const Plan& pl) {
        return std::any_of(pl.kernels.begin(), pl.kernels.end(), [](const KernelSource& k) { return k.mix; });
    });
    op.kernels = "// " + p.name + (p.doc.empty() ? "" : ": " + p.doc) + "\n" + cost_text(op, p) +
                 (mix ? "#include \"lib/matmul_intf.h\"\n" : "") + kPreamble;
    std::string tilings, bodies;
    for (const Plan& pl : op.plans)
        for (const KernelSource& k : pl.kernels) {
            tilings += "\n" + tiling_text(k, op);
            bodies += "\n" + k.device;
            std::string line = fmt::format("{}: unified buffer for tiles of up to {} elements:", k.name, lanes_of(k));
            for (const Budget& b : k.budget) line += fmt::format(" {} {}", b.buffer, b.bytes(lanes_of(k)));
            op.facts.push_back(line);
        }
    for (const auto& [name, text] : kHostFunctions)
        if (tilings.find(name + std::string("(")) != std::string::npos) op.kernels += std::string("\n") + text;
    op.kernels = wrapped(op.kernels + tilings + helper_text(helpers.used) + bodies);
    return op;
}

}  // namespace opwright::target::ascend
