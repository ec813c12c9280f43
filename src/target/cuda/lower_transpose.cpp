// Element-wise groups that read along one variable and write along another: tiles pass through shared memory, so that
// both sides move 16 bytes a thread in contiguous pieces.
#include <algorithm>

#include "target/cuda/lower.h"
#include "target/cuda/packs.h"

namespace opwright::target::cuda {
using namespace math;
using L = Operand::Level;

namespace {
constexpr int64_t kLeast = 16;  // elements each way from which on a tile is worth its barriers
constexpr size_t kMostTiles = 3;

// Loads whose neighbours along `read` lie side by side, while those along `lane` do not.
struct Crossed {
    VarId read = kNone;
    std::vector<ExprId> loads;
};
Crossed crossed_loads(const Program& p, const Group& g, VarId lane) {
    Crossed r;
    std::vector<TensorId> written;
    for (uint32_t i : g.equations) written.push_back(p.equations[i].lhs);
    for (uint32_t i : g.equations)
        for (ExprId l : loads_in(p, p.equations[i].rhs, false)) {
            const Expr& x = p.expr(l);
            const TensorInfo& t = p.tensors[x.ref];
            if (x.outside != Outside::Error || t.role == Role::Constant || !mentions(p, l, lane)) continue;
            if (std::find(written.begin(), written.end(), x.ref) != written.end()) continue;
            bool affine_dims = true;
            for (ExprId a : x.args) affine_dims &= affine(p, a).has_value();
            if (!affine_dims || std::find(r.loads.begin(), r.loads.end(), l) != r.loads.end()) continue;
            for (VarId v : g.grid)
                if (v != lane && (r.read == kNone || r.read == v) && contiguous(p, x.ref, x.args, v) &&
                    t.shape.back() == p.vars[v].extent && r.loads.size() < kMostTiles) {
                    r.read = v;
                    r.loads.push_back(l);
                    break;
                }
        }
    return r;
}

class TileWriter {
public:
    TileWriter(Context& c, const Group& g, const Packs& packs, const Crossed& crossed, VarId lane)
        : c_(c), g_(g), packs_(packs), crossed_(crossed), lane_(lane), at_(c) {}

    void write() {
        c_.cooperates = true;
        c_.helpers.use("Pack");
        c_.names.keep(
            {"kPacks", "across", "down", "block", "i", "j", "e", "line", "pack", "across_pack", "down_pack", "turned"});
        c_.code.line("constexpr int kPacks = TILE / VECTOR;  // of a line of the tile");
        for (ExprId l : crossed_.loads) {
            const Expr& x = c_.p.expr(l);
            tiles_.push_back(c_.names.fresh(c_.p.tensors[x.ref].name + "_tile"));
            from_memory({""}, c_.stored[x.ref], c_.helpers);
            c_.code.line("__shared__ Pack<{}, VECTOR> {}[TILE][kPacks];", memory_type(c_.stored[x.ref]), tiles_.back());
        }
        const std::string reads = extent(crossed_.read), writes = extent(lane_);
        c_.code.line("const Index across = ({} + TILE - 1) / TILE, down = ({} + TILE - 1) / TILE;  // tiles", reads,
                     writes);
        std::vector<VarId> others;
        for (VarId v : g_.grid)
            if (v != lane_ && v != crossed_.read) others.push_back(v);
        const std::string count = product_text(c_, others);
        c_.code.open("for (Index block = blockIdx.x; block < {}across * down; block += gridDim.x)",
                     count == "1" ? "" : count + " * ");
        const std::string read0 = c_.names.fresh(c_.p.vars[crossed_.read].name + "0");
        const std::string lane0 = c_.names.fresh(c_.p.vars[lane_].name + "0");
        c_.code.line("const Index {} = block % across * TILE, {} = block / across{} * TILE;", read0, lane0,
                     count == "1" ? "" : " % down");
        decompose(at_, others, "block / (across * down)", false);
        c_.code.comment(
            "Each thread turns VECTOR packs along " + c_.p.vars[crossed_.read].name + " into VECTOR packs along " +
            c_.p.vars[lane_].name +
            ". A pack's place is exclusive or'ed with its line, so that neither side meets two packs in one bank.");
        fill(read0, lane0);
        c_.code.line("__syncthreads();");
        c_.code.open("for (int i = threadIdx.x; i < TILE * kPacks; i += 256)");
        c_.code.line("const int line = i / kPacks, pack = i % kPacks;");
        const Point::Scope scope = at_.save();
        bind(crossed_.read, read0, "line");
        bind(lane_, lane0, "pack * VECTOR");
        c_.code.line("if ({} >= {} || {} >= {}) continue;", at_.variable(crossed_.read), reads, at_.variable(lane_),
                     writes);
        std::vector<std::pair<ExprId, std::string>> loaded;
        for (size_t i = 0; i < tiles_.size(); ++i) {
            const TensorId t = c_.p.expr(crossed_.loads[i]).ref;
            const std::string n = c_.names.fresh(c_.p.tensors[t].name + "_pack");
            c_.code.line("const auto {} = {}[line][pack ^ line / VECTOR];", n, tiles_[i]);
            loaded.emplace_back(crossed_.loads[i], n);
        }
        vector_body(at_, g_, packs_, lane_, std::move(loaded));
        at_.restore(scope);
        c_.code.close();
        c_.code.line("__syncthreads();  // the tile is free");
        c_.code.close();
    }

private:
    std::string extent(VarId v) { return c_.size(c_.p.vars[v].extent).at(L::Sum); }
    void bind(VarId v, const std::string& origin, const std::string& inside) {
        const std::string n = c_.names.fresh(c_.p.vars[v].name);
        c_.code.line("const Index {} = {} + {};", n, origin, inside);
        at_.bind(v, n);
    }
    void fill(const std::string& read0, const std::string& lane0) {
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int i = threadIdx.x; i < kPacks * kPacks; i += 256)");
        c_.code.line("const int across_pack = i % kPacks, down_pack = i / kPacks;");
        const Point::Scope scope = at_.save();
        bind(crossed_.read, read0, "across_pack * VECTOR");
        bind(lane_, lane0, "down_pack * VECTOR");
        c_.code.line("if ({} >= {} || {} >= {}) continue;", at_.variable(crossed_.read), extent(crossed_.read),
                     at_.variable(lane_), extent(lane_));
        std::vector<std::string> lines;
        const std::string first = at_.variable(lane_);
        for (ExprId l : crossed_.loads) {
            const Expr& x = c_.p.expr(l);
            c_.touched[x.ref] = true;
            lines.push_back(c_.names.fresh(c_.p.tensors[x.ref].name + "_lines"));
            c_.code.line("Pack<{}, VECTOR> {}[VECTOR];", memory_type(c_.stored[x.ref]), lines.back());
            c_.code.raw("#pragma unroll");
            at_.bind(lane_, "(" + first + " + e)");
            const Place place = at_.place(x.ref, x.args.data(), Outside::Error, "");
            c_.code.line("for (int e = 0; e < VECTOR; ++e) {}[e] = load_pack<VECTOR>(&{}[{}]);", lines.back(),
                         c_.pointers[x.ref], place.offset);
        }
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int j = 0; j < VECTOR; ++j)");
        for (size_t i = 0; i < lines.size(); ++i) {
            const TensorId t = c_.p.expr(crossed_.loads[i]).ref;
            const std::string turned = lines.size() == 1 ? "turned" : c_.names.fresh("turned");
            c_.code.line("Pack<{}, VECTOR> {};", memory_type(c_.stored[t]), turned);
            c_.code.raw("#pragma unroll");
            c_.code.line("for (int e = 0; e < VECTOR; ++e) {}.at[e] = {}[e].at[j];", turned, lines[i]);
            c_.code.line("{}[across_pack * VECTOR + j][down_pack ^ across_pack] = {};", tiles_[i], turned);
        }
        c_.code.close();
        c_.code.close();
        at_.restore(scope);
    }

    Context& c_;
    const Group& g_;
    const Packs& packs_;
    const Crossed& crossed_;
    VarId lane_;
    Point at_;
    std::vector<std::string> tiles_;  // by crossed load
};
}  // namespace

bool Lowering::transpose_kernel(const Group& g, const std::string& name, Stage& stage) {
    const VarId lane = elementwise_lane(c_.p, g);
    if (lane == kNone) return false;
    for (uint32_t i : g.equations) {
        const Equation& q = c_.p.equations[i];
        if (!c_.pointers[q.lhs].empty() && !contiguous(c_.p, q.lhs, q.at, lane)) return false;
    }
    const Crossed crossed = crossed_loads(c_.p, g, lane);
    if (crossed.loads.empty()) return false;
    const Sym reads = c_.p.vars[crossed.read].extent, writes = c_.p.vars[lane].extent;
    if (reads.upper() < kLeast || writes.upper() < kLeast) return false;

    Packs packs(c_.p, c_.stored, crossed.loads.size() == 1 ? 8 : 4);
    for (uint32_t i : g.equations) packs.leave_out(c_.p.equations[i].lhs);
    for (uint32_t i : g.equations) {
        const Equation& q = c_.p.equations[i];
        packs.add(q.rhs, lane, false);
        if (!c_.pointers[q.lhs].empty()) packs.add_store(q.lhs);
    }
    for (ExprId l : crossed.loads) packs.add_store(c_.p.expr(l).ref);  // its packs lie along the other variable
    const std::string& along = c_.p.vars[crossed.read].name;
    Variant v = kernel(name, "__launch_bounds__(256)",
                       {fmt::format("A block moves tiles of TILE x TILE elements through shared memory: what lies side "
                                    "by side along {} is read so, and written so along {}.",
                                    along, c_.p.vars[lane].name)},
                       [&] { TileWriter(c_, g, packs, crossed, lane).write(); });
    v.threads = 256;
    const int64_t width = packs.width();
    int64_t bytes = 0;  // of shared memory for each element of a tile
    for (ExprId l : crossed.loads) bytes += static_cast<int64_t>(size_of(c_.stored[c_.p.expr(l).ref]));
    const int64_t usual = width == 1 ? 32 : 16 * width;
    const int64_t side =
        plan_ ? pinned(pinned_tile(*plan_, subject(g), crossed.read, lane, width, bytes), usual) : usual;
    record(plan_of_tile(side, crossed.read, lane));
    std::vector<int64_t> widths{1};
    if (width > 1) widths.insert(widths.begin(), width);
    for (int64_t w : widths) {
        // A pack of each line and column for every thread; single elements are many, to have enough of them on the way.
        const int64_t tile = plan_ || w > 1 ? side : crossed.loads.size() == 1 && width > 2 ? 64 : 32;
        Variant r = v;
        r.macros = {{"VECTOR", w}, {"TILE", tile}};
        r.blocks = ceil_div(reads, tile) * ceil_div(writes, tile);
        for (VarId u : g.grid)
            if (u != lane && u != crossed.read) r.blocks = r.blocks * c_.p.vars[u].extent;
        if (w > 1) r.when = packs.conditions(lane);
        for (const Sym& s : {reads, writes})
            if (s.lower() < kLeast) r.when.push_back({.kind = Condition::Kind::AtLeast, .value = s, .number = kLeast});
        stage.variants.push_back(std::move(r));
    }
    out_.macros["VECTOR"] = width;
    out_.macros["TILE"] = side;
    stage.lane = lane;
    stage.read = crossed.read;
    stage.pack = width;
    stage.about = fmt::format("transposed: tiles of {} x {} through shared memory, 16 bytes a thread", side, side);
    return true;
}

}  // namespace opwright::target::cuda
