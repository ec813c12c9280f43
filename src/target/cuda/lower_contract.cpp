// Contractions: y = epilogue(sum[k](a * b)) in tiles. On tensor cores where the factors are f16 or bf16 as they lie in
// memory, else by multiply-adds of a register tile a thread. The epilogue is the rest of the equation, evaluated where
// the sums are: operands are read by the indices they carry.
#include <algorithm>
#include <optional>

#include "target/cuda/lower.h"
#include "target/cuda/packs.h"

namespace opwright::target::cuda {
using namespace math;
using L = Operand::Level;

namespace {
// The load that a factor is, seen through conversions between floats; kNone where it is computed.
ExprId plain_load(const Program& p, ExprId e) {
    while (p.expr(e).kind == ExprKind::Cast && is_float(p.expr(e).dtype) && is_float(p.expr(p.expr(e).args[0]).dtype))
        e = p.expr(e).args[0];
    return p.expr(e).kind == ExprKind::Load ? e : kNone;
}

// Elements between neighbours along v; nothing where that is not one number.
std::optional<Sym> stride_of(const Program& p, ExprId load, VarId v) {
    const Expr& x = p.expr(load);
    const auto& shape = p.tensors[x.ref].shape;
    Sym r = 0, step = 1;
    for (size_t d = shape.size(); d-- > 0;) {
        const auto f = affine(p, x.args[d]);
        if (!f) return std::nullopt;
        r = r + f->coefficient(v) * step;
        step = step * shape[d];
    }
    return r;
}
// The same of a group of variables counted as one.
std::optional<Sym> flat_stride(const Program& p, ExprId load, const std::vector<VarId>& vars) {
    std::optional<Sym> inner;
    Sym extent = 1;
    for (size_t i = vars.size(); i-- > 0;) {
        if (p.vars[vars[i]].extent.is(1)) continue;
        const auto s = stride_of(p, load, vars[i]);
        if (!s) return std::nullopt;
        if (!inner)
            inner = s;
        else if (!(*s == *inner * extent))
            return std::nullopt;
        extent = extent * p.vars[vars[i]].extent;
    }
    return inner ? inner : std::optional<Sym>(0);
}

// A factor that whole 16-byte pieces can be copied of.
struct Direct {
    ExprId load = kNone;
    bool depth_first = false;  // neighbours along k lie side by side; else along the rows (or columns)
    Sym stride = 0;            // between neighbours the other way
};
std::optional<Direct> direct(const Program& p, ExprId factor, const std::vector<VarId>& side,
                             const std::vector<VarId>& k) {
    const ExprId load = plain_load(p, factor);
    if (load == kNone) return std::nullopt;
    const Expr& x = p.expr(load);
    const DType t = p.tensors[x.ref].dtype;
    if ((t != DType::F16 && t != DType::BF16) || x.outside != Outside::Error || p.tensors[x.ref].role == Role::Temp)
        return std::nullopt;
    for (size_t d = 0; d < p.tensors[x.ref].shape.size(); ++d)
        if (!affine(p, x.args[d])) return std::nullopt;
    const auto along_side = flat_stride(p, load, side), along_k = flat_stride(p, load, k);
    if (!along_side || !along_k) return std::nullopt;
    if (along_k->is(1)) return Direct{load, true, *along_side};
    if (along_side->is(1)) return Direct{load, false, *along_k};
    return std::nullopt;
}

class ContractWriter {
public:
    ContractWriter(Context& c, const Equation& q, const schedule::Contraction& k) : c_(c), q_(q), k_(k), at_(c) {}

    // Copies by cp.async, products by mma.sync.
    void tensor_cores(const Direct& a, const Direct& b, bool bf) {
        c_.cooperates = true;
        c_.code.line(
            "constexpr int kThreads = WARPS_M * WARPS_N * 32, kRows = TILE_M / WARPS_M, kColumns = TILE_N / WARPS_N;");
        c_.code.line("constexpr int kSteps = TILE_K / 16;  // of a slice");
        c_.code.line("constexpr int kStage = (TILE_M + TILE_N) * TILE_K;  // elements of one slice of both factors");
        c_.code.line("extern __shared__ __align__(128) unsigned char shared[];");
        c_.code.line("unsigned short* const tiles = (unsigned short*)shared;");
        c_.code.line("const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;");
        c_.code.line("const int warp_row = warp / WARPS_N * kRows, warp_column = warp % WARPS_N * kColumns;");
        walk_tiles([&] {
            c_.code.line("float sums[kRows / 16][kColumns / 8][4] = {{}};");
            c_.code.raw("");
            first_pieces(a, "a", "TILE_M", "row0", k_.m);
            first_pieces(b, "b", "TILE_N", "column0", k_.n);
            c_.code.comment(
                "Starts the copies of one slice. 16-byte pieces are placed by exclusive or with their row, so that "
                "neither the copies nor ldmatrix meet two pieces in one bank.");
            c_.code.open("const auto copy_slice = [&](Index slice)");
            c_.code.line("unsigned short* const a_tile = tiles + (int)(slice % STAGES) * kStage;");
            c_.code.line("unsigned short* const b_tile = a_tile + TILE_M * TILE_K;");
            copy(a, "a", "TILE_M", "row0", "rows");
            copy(b, "b", "TILE_N", "column0", "columns");
            c_.code.line("commit_copies();");
            c_.code.close(";");
            c_.helpers.use("copy_async");
            c_.code.line("unsigned a_part[2][kRows / 16][4], b_part[2][kColumns / 16][4];");
            c_.code.comment("What the products of step kk of a slice take, to registers.");
            c_.code.open("const auto load_parts = [&](Index slice, int kk, int to)");
            c_.code.line("const unsigned short* const a_tile = tiles + (int)(slice % STAGES) * kStage;");
            c_.code.line("const unsigned short* const b_tile = a_tile + TILE_M * TILE_K;");
            load_parts(a.depth_first, b.depth_first);
            c_.code.close(";");
            c_.code.line("const Index slices = (depth + TILE_K - 1) / TILE_K;");
            c_.code.open("for (int s = 0; s < STAGES - 1; ++s)");
            c_.code.line("if (s < slices) copy_slice(s);");
            c_.code.line("else commit_copies();");
            c_.code.close();
            c_.code.line("wait_copies<STAGES - 2>();");
            c_.code.line("__syncthreads();");
            c_.code.line("load_parts(0, 0, 0);");
            c_.code.open("for (Index slice = 0; slice < slices; ++slice)");
            c_.code.raw("#pragma unroll");
            c_.code.open("for (int kk = 0; kk < kSteps; ++kk)");
            c_.code.open("if (kk + 1 == kSteps)");
            c_.code.line("wait_copies<STAGES - 2>();  // the next slice has arrived,");
            c_.code.line("__syncthreads();            // for all threads, and all have read this one");
            c_.code.close();
            c_.code.open("if (kk == 0)");
            c_.code.line("if (slice + STAGES - 1 < slices) copy_slice(slice + STAGES - 1);");
            c_.code.line("else commit_copies();");
            c_.code.close();
            c_.code.comment("The parts of the next step are on their way while this one multiplies.");
            c_.code.line("load_parts(slice + (kk + 1) / kSteps, (kk + 1) % kSteps, (kk + 1) % 2);");
            c_.code.raw("#pragma unroll");
            c_.code.open("for (int i = 0; i < kRows / 16; ++i)");
            c_.code.raw("#pragma unroll");
            c_.code.open("for (int j = 0; j < kColumns / 8; ++j)");
            c_.code.line("const unsigned* const b_of = b_part[kk % 2][j / 2] + j % 2 * 2;");
            c_.code.line("{}(sums[i][j], a_part[kk % 2][i], b_of[0], b_of[1]);",
                         c_.helpers.use(bf ? "mma_bf16" : "mma_f16"));
            c_.code.close();
            c_.code.close();
            c_.code.close();
            c_.code.close();
            c_.code.line("wait_copies<0>();");
            c_.code.line("__syncthreads();  // the tiles are free for the next block of the result");
            store_fragments();
        });
    }

    // A register tile of PER x PER sums a thread; factors come element by element, in any layout.
    void registers(DType t) {
        c_.cooperates = true;
        const std::string type(c_type(t));
        tile_m_ = tile_n_ = "kTile";
        c_.code.line("constexpr int kThreads = 256, kTile = 16 * PER, kDepth = 16, kEach = kTile * kDepth / kThreads;");
        c_.code.line("__shared__ {} a_tile[kDepth][kTile + 4], b_tile[kDepth][kTile + 4];", type);
        c_.code.line("const int thread = threadIdx.x, thread_row = thread / 16, thread_column = thread % 16;");
        walk_tiles([&] {
            c_.code.line("{} sums[PER][PER] = {{}}, a_next[kEach], b_next[kEach];", type);
            c_.code.comment("The elements of the next slice are on their way from memory while this one is worked on.");
            c_.code.open("const auto fetch = [&](Index depth0)");
            fetch("a", k_.a, k_.m, "row0", "rows", t);
            fetch("b", k_.b, k_.n, "column0", "columns", t);
            c_.code.close(";");
            c_.code.line("fetch(0);");
            c_.code.open("for (Index depth0 = 0; depth0 < depth; depth0 += kDepth)");
            place("a", k_.a);
            place("b", k_.b);
            c_.code.line("__syncthreads();");
            c_.code.line("if (depth0 + kDepth < depth) fetch(depth0 + kDepth);");
            c_.code.raw("#pragma unroll");
            c_.code.open("for (int kk = 0; kk < kDepth; ++kk)");
            c_.code.line("{} a_part[PER], b_part[PER];", type);
            c_.code.raw("#pragma unroll");
            c_.code.line("for (int i = 0; i < PER; ++i) a_part[i] = a_tile[kk][thread_row * PER + i];");
            c_.code.raw("#pragma unroll");
            c_.code.line(
                "for (int j = 0; j < PER; ++j) b_part[j] = b_tile[kk][thread_column * 4 + j % 4 + j / 4 * 64];");
            c_.code.raw("#pragma unroll");
            c_.code.open("for (int i = 0; i < PER; ++i)");
            c_.code.raw("#pragma unroll");
            if (is_float(t)) {
                c_.code.line("for (int j = 0; j < PER; ++j) sums[i][j] += a_part[i] * b_part[j];");
            } else {
                const Operand product =
                    call(Fn::Mul, std::vector<Operand>{{"a_part[i]"}, {"b_part[j]"}}, t, c_.helpers);
                const Operand sum = call(Fn::Add, std::vector<Operand>{{"sums[i][j]"}, product}, t, c_.helpers);
                c_.code.line("for (int j = 0; j < PER; ++j) sums[i][j] = {};", sum.text);
            }
            c_.code.close();
            c_.code.close();
            c_.code.line("__syncthreads();");
            c_.code.close();
            c_.code.raw("#pragma unroll");
            c_.code.open("for (int i = 0; i < PER; ++i)");
            c_.code.line("const Index row = row0 + thread_row * PER + i;");
            c_.code.line("if (row >= rows) break;");
            c_.code.raw("#pragma unroll");
            c_.code.open("for (int j = 0; j < PER; ++j)");
            c_.code.line("const Index column = column0 + thread_column * 4 + j % 4 + j / 4 * 64;");
            c_.code.line("if (column >= columns) continue;");
            const Point::Scope scope = at_.save();
            bind_group(k_.m, "row");
            bind_group(k_.n, "column");
            at_.set(k_.reduce, {"sums[i][j]"});
            at_.count_uses(q_.rhs);
            at_.store(q_, at_.eval(q_.rhs), false);
            at_.restore(scope);
            c_.code.close();
            c_.code.close();
        });
    }

private:
    void bind_group(const std::vector<VarId>& vars, const std::string& position) {
        decompose(at_, vars, position, false);
    }

    // The loop over tiles of the result, in an order in which blocks that run at one time share rows and columns.
    void walk_tiles(const std::function<void()>& body) {
        c_.code.line("const Index rows = {}, columns = {}, depth = {};", product_text(c_, k_.m), product_text(c_, k_.n),
                     product_text(c_, k_.k));
        c_.code.line("const Index tiles_m = (rows + {0} - 1) / {0}, tiles_n = (columns + {1} - 1) / {1};", tile_m_,
                     tile_n_);
        const std::string batch = product_text(c_, k_.batch);
        c_.code.open("for (Index block = blockIdx.x; block < {}tiles_m * tiles_n; block += gridDim.x)",
                     batch == "1" ? "" : batch + " * ");
        c_.code.comment("Eight rows of tiles at a time: what they read of both factors fits the L2 cache.");
        if (batch == "1")
            c_.code.line("const Index tile = block;");
        else
            c_.code.line("const Index tile = block % (tiles_m * tiles_n), batch = block / (tiles_m * tiles_n);");
        c_.code.line(
            "const Index first = tile / (8 * tiles_n) * 8, height = tiles_m - first < 8 ? tiles_m - first : 8;");
        c_.code.line("const Index row0 = (first + tile % (8 * tiles_n) % height) * {};", tile_m_);
        c_.code.line("const Index column0 = tile % (8 * tiles_n) / height * {};", tile_n_);
        const Point::Scope scope = at_.save();
        c_.names.keep(local_names());
        bind_group(k_.batch, "batch");
        body();
        at_.restore(scope);
        c_.code.close();
    }

    // Where this thread's first piece of a slice of one factor lies; its others are a fixed number of lines further.
    void first_pieces(const Direct& d, const std::string& name, const std::string& tile, const std::string& origin,
                      const std::vector<VarId>& side) {
        // The offset of the factor's first element: all of its own variables 0.
        const Point::Scope scope = at_.save();
        for (VarId v : side) at_.bind(v, "0");
        for (VarId v : k_.k) at_.bind(v, "0");
        const std::string base = offset_text(d.load), stride = c_.size(d.stride).at(L::Product);
        at_.restore(scope);
        const std::string pieces = d.depth_first ? "(TILE_K / 8)" : "(" + tile + " / 8)";  // of a line
        c_.code.line("const int {0}_line = threadIdx.x / {1}, {0}_piece = threadIdx.x % {1};", name, pieces);
        if (d.depth_first)
            c_.code.line("const Index {0}_from = {1}({2} + {0}_line) * {3} + {0}_piece * 8;", name, base, origin,
                         stride);
        else
            c_.code.line("const Index {0}_from = {1}{0}_line * {3} + {2} + {0}_piece * 8;", name, base, origin, stride);
    }
    // Its copies of a slice.
    void copy(const Direct& d, const std::string& name, const std::string& tile, const std::string& origin,
              const std::string& end) {
        const Expr& x = c_.p.expr(d.load);
        c_.touched[x.ref] = true;
        const std::string stride = c_.size(d.stride).at(L::Product);
        const std::string pieces = d.depth_first ? "(TILE_K / 8)" : "(" + tile + " / 8)";
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int chunk = 0; chunk < {} * TILE_K / 8 / kThreads; ++chunk)", tile);
        c_.code.line("const int line = {}_line + chunk * (kThreads / {});", name, pieces);
        if (d.depth_first) {
            c_.code.line("const bool inside = {} + line < {} && slice * TILE_K + {}_piece * 8 < depth;", origin, end,
                         name);
            c_.code.line("const Index from = {0}_from + slice * TILE_K + (line - {0}_line) * {1};", name, stride);
        } else {
            c_.code.line("const bool inside = {} + {}_piece * 8 < {} && slice * TILE_K + line < depth;", origin, name,
                         end);
            c_.code.line("const Index from = {0}_from + (slice * TILE_K + line - {0}_line) * {1};", name, stride);
        }
        c_.code.line("copy_async({0}_tile + {1}, &{2}[inside ? from : 0], inside ? 16 : 0);", name,
                     place_of_piece(d.depth_first, tile, name + "_piece"), c_.pointers[x.ref]);
        c_.code.close();
    }
    // The element of a tile at which piece `piece` of line `line` lies.
    static std::string place_of_piece(bool depth_first, const std::string& tile, const std::string& piece) {
        if (!depth_first) return fmt::format("line * {0} + ({1} ^ line % ({0} < 64 ? {0} / 8 : 8)) * 8", tile, piece);
        return fmt::format("line * TILE_K + ({} ^ line / (64 / TILE_K) % (TILE_K / 8)) * 8", piece);
    }
    std::string offset_text(ExprId load) {
        const Expr& x = c_.p.expr(load);
        const Place p = at_.place(x.ref, x.args.data(), Outside::Error, "");
        return p.offset == "0" ? "" : p.offset + " + ";
    }

    void load_parts(bool a_depth_first, bool b_depth_first) {
        c_.helpers.use("ldmatrix_x4");
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int i = 0; i < kRows / 16; ++i)");
        if (a_depth_first)
            c_.code.line("const int line = warp_row + i * 16 + lane % 16, piece = kk * 2 + lane / 16;");
        else
            c_.code.line(
                "const int line = kk * 16 + lane / 16 * 8 + lane % 8, piece = (warp_row + i * 16) / 8 + lane / 8 % 2;");
        c_.code.line("ldmatrix_x4{}(a_part[to][i], a_tile + {});", a_depth_first ? "" : "_trans",
                     place_of_piece(a_depth_first, "TILE_M", "piece"));
        c_.code.close();
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int j = 0; j < kColumns / 16; ++j)");
        if (b_depth_first)
            c_.code.line(
                "const int line = warp_column + j * 16 + lane / 16 * 8 + lane % 8, piece = kk * 2 + lane / 8 % 2;");
        else
            c_.code.line(
                "const int line = kk * 16 + lane / 8 % 2 * 8 + lane % 8, piece = (warp_column + j * 16) / 8 + lane / "
                "16;");
        c_.code.line("ldmatrix_x4{}(b_part[to][j], b_tile + {});", b_depth_first ? "" : "_trans",
                     place_of_piece(b_depth_first, "TILE_N", "piece"));
        c_.code.close();
    }

    // A thread holds pairs of neighbouring columns, in rows that are 8 apart.
    void store_fragments() {
        Packs packs(c_.p, c_.stored);
        c_.helpers.use("Pack");
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int i = 0; i < kRows / 8; ++i)");
        c_.code.line("const Index row = row0 + warp_row + i * 8 + lane / 4;");
        c_.code.line("if (row >= rows) continue;");
        const Point::Scope scope = at_.save();
        bind_group(k_.m, "row");
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int j = 0; j < kColumns / 8; ++j)");
        c_.code.line("const Index column0_of_pair = column0 + warp_column + j * 8 + lane % 4 * 2;");
        c_.code.line("if (column0_of_pair >= columns) continue;");
        c_.touched[q_.lhs] = c_.written[q_.lhs] = true;
        to_memory({"0"}, c_.stored[q_.lhs], c_.helpers);
        c_.code.line("Pack<{}, 2> pair;", memory_type(c_.stored[q_.lhs]));
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int e = 0; e < 2; ++e)");
        c_.code.line("const Index column = column0_of_pair + e;");
        const Point::Scope element = at_.save();
        bind_group(k_.n, "column");
        at_.set(k_.reduce, {"sums[i / 2][j][i % 2 * 2 + e]"});
        at_.count_uses(q_.rhs);
        const Operand value = at_.eval(q_.rhs);
        c_.code.line("pair.at[e] = {};", to_memory(value, c_.stored[q_.lhs], c_.helpers).text);
        c_.code.close();
        at_.restore(element);
        c_.code.line("const Index column = column0_of_pair;");
        bind_group(k_.n, "column");
        const Place place = at_.place(q_.lhs, q_.at.data(), Outside::Error, "");
        c_.code.line("store_pack(&{}[{}], pair);", c_.pointers[q_.lhs], place.offset);
        c_.code.close();
        at_.restore(scope);
        c_.code.close();
    }

    // Whether neighbouring threads take neighbours along k (or along rows and columns): as the factor lies in memory.
    bool depth_first(ExprId factor) const {
        for (ExprId l : loads_in(c_.p, factor, false))
            for (VarId v : k_.k)
                if (contiguous(c_.p, c_.p.expr(l).ref, c_.p.expr(l).args, v)) return true;
        return false;
    }
    void fetch(const std::string& name, ExprId factor, const std::vector<VarId>& side, const std::string& origin,
               const std::string& end, DType t) {
        const bool deep = depth_first(factor);
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int i = 0; i < kEach; ++i)");
        c_.code.line("const int cell = i * kThreads + thread;");
        const std::string r = deep ? "cell / kDepth" : "cell % kTile", kk = deep ? "cell % kDepth" : "cell / kTile";
        c_.code.line("const Index side = {} + {}, deep = depth0 + {};", origin, r, kk);
        c_.code.line("{}_next[i] = 0;", name);
        c_.code.open("if (side < {} && deep < depth)", end);
        const Point::Scope scope = at_.save();
        bind_group(side, "side");
        bind_group(k_.k, "deep");
        at_.count_uses(factor);
        Operand v = at_.eval(factor);
        const DType from = c_.p.expr(factor).dtype;
        if (compute_type(from) != t) v = convert(v, from, t, c_.helpers);
        c_.code.line("{}_next[i] = {};", name, v.text);
        at_.restore(scope);
        c_.code.close();
        c_.code.close();
    }
    void place(const std::string& name, ExprId factor) {
        const bool deep = depth_first(factor);
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int i = 0; i < kEach; ++i)");
        c_.code.line("const int cell = i * kThreads + thread;");
        if (deep)
            c_.code.line("{0}_tile[cell % kDepth][cell / kDepth] = {0}_next[i];", name);
        else
            c_.code.line("{0}_tile[cell / kTile][cell % kTile] = {0}_next[i];", name);
        c_.code.close();
    }

    Context& c_;
    const Equation& q_;
    const schedule::Contraction& k_;
    Point at_;
    std::string tile_m_ = "TILE_M", tile_n_ = "TILE_N";
};
// Of few rows the product reads the other factor once: narrow tiles to occupy all multiprocessors, many slices on their
// way.
constexpr TileShape kThinTiles{16, 32, 64, 8, 1, 2}, kLowTiles{64, 32, 64, 8, 4, 1};
constexpr TileShape kSmallTiles{64, 64, 64, 4, 2, 2}, kLargeTiles{128, 128, 64, 3, 2, 2};
constexpr TileShape kWideTiles{128, 256, 64, 3, 2, 4};  // the fastest on an H200 once two waves of them fill it
}  // namespace

const std::vector<TileShape>& tile_shapes() {
    static const std::vector<TileShape> all{
        kThinTiles,
        kLowTiles,
        kSmallTiles,
        kLargeTiles,
        {128, 128, 64, 4, 2, 4},
        {128, 128, 32, 4, 2, 2},
        {128, 128, 32, 6, 2, 2},
        kWideTiles,
        {128, 256, 64, 4, 2, 4},
        {128, 256, 32, 4, 2, 4},
        {256, 128, 64, 3, 4, 2},
        {256, 128, 64, 4, 4, 2},
        {256, 128, 32, 4, 4, 2},
        {64, 256, 64, 3, 1, 4},
    };
    return all;
}

bool Lowering::contraction_kernel(const Group& g, const std::string& name, Stage& stage) {
    const schedule::Contraction& k = *g.contraction;
    const Equation& q = c_.p.equations[g.equations[0]];
    const Expr& reduce = c_.p.expr(k.reduce);
    ExprId body = reduce.args[0];
    while (c_.p.expr(body).kind == ExprKind::Cast) body = c_.p.expr(body).args[0];
    const DType t = compute_type(reduce.dtype), product = c_.p.expr(body).dtype;
    if (!is_float(t) && product != t) return false;  // narrow products wrap first
    if (is_float(t) && compute_type(product) != t) return false;

    const Sym rows = points_of(c_.p, k.m), columns = points_of(c_.p, k.n), batch = points_of(c_.p, k.batch);
    out_.spans.push_back(rows * points_of(c_.p, k.k));
    const auto tiles = [&](int64_t m, int64_t n) { return batch * ceil_div(rows, m) * ceil_div(columns, n); };
    const auto a = direct(c_.p, k.a, k.m, k.k), b = direct(c_.p, k.b, k.n, k.k);
    const DType ta = a ? c_.p.tensors[c_.p.expr(a->load).ref].dtype : DType::F32;
    const DType tb = b ? c_.p.tensors[c_.p.expr(b->load).ref].dtype : DType::F32;
    std::string wanted = name;
    if (a && b && ta == tb && t == DType::F32 && contiguous(c_.p, q.lhs, q.at, k.n.back())) {
        Variant v = kernel(name, "__launch_bounds__(WARPS_M * WARPS_N * 32)",
                           {"A block computes a tile of TILE_M x TILE_N on the tensor cores: products of 16-bit "
                            "factors, sums in float. "
                            "Slices of TILE_K are copied to shared memory asynchronously, STAGES - 1 ahead."},
                           [&] { ContractWriter(c_, q, k).tensor_cores(*a, *b, ta == DType::BF16); });
        const auto multiple = [&](const Sym& s, int64_t n) {
            if (!s.multiple_of(n)) v.when.push_back({.kind = Condition::Kind::Multiple, .value = s, .number = n});
        };
        const auto whole_pieces = [&](const Direct& d, const std::vector<VarId>& side) {
            multiple(d.stride, 8);
            multiple(points_of(c_.p, d.depth_first ? k.k : side), 8);
            const Expr& x = c_.p.expr(d.load);
            Sym first = 0, step = 1;  // the constant part of the offset
            for (size_t i = c_.p.tensors[x.ref].shape.size(); i-- > 0;) {
                first = first + affine(c_.p, x.args[i])->offset * step;
                step = step * c_.p.tensors[x.ref].shape[i];
            }
            multiple(first, 8);
            for (VarId v2 : k.batch) multiple(*stride_of(c_.p, d.load, v2), 8);
            v.when.push_back({.kind = Condition::Kind::Aligned, .number = 16, .tensor = x.ref});
        };
        whole_pieces(*a, k.m);
        whole_pieces(*b, k.n);
        multiple(c_.p.vars[k.n.back()].extent, 2);
        multiple(c_.p.tensors[q.lhs].shape.back(), 2);
        if (c_.p.tensors[q.lhs].role != Role::Temp)
            v.when.push_back({.kind = Condition::Kind::Aligned,
                              .number = 2 * static_cast<int64_t>(size_of(c_.stored[q.lhs])),
                              .tensor = q.lhs});
        const auto add = [&](const TileShape& s, std::optional<int64_t> at_most) {
            Variant r = v;
            r.macros = {{"TILE_M", s.m},      {"TILE_N", s.n},        {"TILE_K", s.k},
                        {"STAGES", s.stages}, {"WARPS_M", s.warps_m}, {"WARPS_N", s.warps_n}};
            r.threads = s.threads();
            r.blocks = tiles(s.m, s.n);
            r.dynamic_shared = s.shared_bytes();
            if (at_most)
                r.when.push_back(
                    {.kind = Condition::Kind::AtMost, .value = batch * rows * columns, .number = *at_most});
            stage.variants.push_back(std::move(r));
        };
        const TileShape* tiles_wanted = tiles_;
        if (plan_) {
            pinned_tiles_ = pinned(pinned_tiles(*plan_, subject(g)), kWideTiles);
            tiles_wanted = &pinned_tiles_;
        }
        record(plan_of(tiles_wanted ? *tiles_wanted : kWideTiles));
        if (tiles_wanted) {
            add(*tiles_wanted, std::nullopt);
        } else {
            for (const TileShape& few : {kThinTiles, kLowTiles}) {
                add(few, int64_t{64} * 64 * 200);
                stage.variants.back().when.push_back({.kind = Condition::Kind::AtMost, .value = rows, .number = few.m});
            }
            // Small tiles while larger ones would not occupy the multiprocessors.
            add(kSmallTiles, int64_t{128} * 128 * 100);
            add(kLargeTiles, int64_t{128} * 256 * 264);
            add(kWideTiles, std::nullopt);
        }
        for (auto& [n, value] : stage.variants.back().macros) out_.macros[n] = value;
        wanted = c_.names.fresh(name + "_any");
    }
    const bool wide = size_of(t) == 8, registers_alone = wanted == name;
    const int usual = wide ? 4 : 8;
    const int per = plan_ && registers_alone ? pinned(pinned_registers(*plan_, subject(g), wide), usual) : usual;
    if (registers_alone) record(plan_of_registers(per));
    Variant r =
        kernel(wanted, "__launch_bounds__(256)",
               {"A block computes a square tile; each of its 256 threads keeps PER x PER of the sums in registers."},
               [&] { ContractWriter(c_, q, k).registers(t); });
    const auto shape = [&](int per) {
        Variant v = r;
        v.macros = {{"PER", per}};
        v.threads = 256;
        v.blocks = tiles(per * 16, per * 16);
        return v;
    };
    Variant small = shape(4);
    if (plan_ && registers_alone) {
        stage.variants.push_back(shape(per));
    } else if (!wide) {
        small.when.push_back(
            {.kind = Condition::Kind::AtMost, .value = batch * rows * columns, .number = int64_t{128} * 128 * 100});
        stage.variants.push_back(std::move(small));
        stage.variants.push_back(shape(8));
    } else {
        stage.variants.push_back(std::move(small));
    }
    out_.macros["PER"] = per;
    stage.tensor_cores = !registers_alone;
    const char* factors =
        a && b ? "both factors: coalesced, in pieces of 16 bytes to shared memory, and from there by ldmatrix"
               : "both factors: an element a thread along what lies side by side, to shared memory";
    stage.accesses = {factors, registers_alone ? "result: runs of four neighbours by neighbouring threads"
                                               : "result: pairs of neighbours, four threads side by side"};
    stage.about = a && b ? "contraction: tiles on tensor cores (mma.sync m16n8k16), copies by cp.async"
                         : "contraction: tiles in shared memory, a register tile of sums a thread";
    return true;
}

}  // namespace opwright::target::cuda
