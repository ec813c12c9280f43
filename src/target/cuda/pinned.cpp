#include "target/cuda/pinned.h"

#include <fmt/format.h>

namespace opwright::target::cuda {
using namespace math;
using schedule::BlockAxis;
using schedule::kWhole;
using schedule::NestPlan;

namespace {
constexpr const char* kDefault = "The default is what `opwright explain --level schedule --json --target cuda` prints.";

Diagnostic refuse(const Subject& s, const std::string& why) {
    return Diagnostic(fmt::format("The schedule of {} does not fit: {}.", s.equation(), why), {}, kDefault);
}
int threads_of(const NestPlan& plan, int warps) { return 32 * (plan.warps ? plan.warps : warps); }
std::string tile_text(const BlockAxis& a) { return a.tile == kWhole ? "whole" : fmt::format("{}", a.tile); }

// The one axis that a block has, along `lane`.
Result<BlockAxis> one_axis(const NestPlan& plan, const Subject& s, VarId lane) {
    if (plan.blocks.size() != 1 || plan.blocks[0].var != lane)
        return refuse(s, fmt::format("its block has one axis, index {}, along which its elements lie side by side",
                                     s.index(lane)));
    return plan.blocks[0];
}
}  // namespace

NestPlan plan_of(const VectorShape& v, VarId lane) {
    NestPlan r;
    r.blocks = {{lane, v.threads * v.vector}};
    r.warps = v.threads / 32;
    return r;
}
Result<VectorShape> pinned_vector(const NestPlan& plan, const Subject& s, VarId lane, int64_t width) {
    OPW_TRY(const BlockAxis a, one_axis(plan, s, lane));
    const int threads = threads_of(plan, 8);
    const int64_t vector = a.tile / threads;
    if (a.tile == kWhole || vector < 1 || vector > width || a.tile % threads)
        return refuse(s,
                      fmt::format("a tile of {} along index {} by {} threads must be 1 to {} elements a thread, which "
                                  "one access of 16 bytes moves",
                                  tile_text(a), s.index(lane), threads, width));
    return VectorShape{threads, vector};
}

NestPlan plan_of_tile(int64_t side, VarId read, VarId lane) {
    NestPlan r;
    r.blocks = {{read, side}, {lane, side}};
    r.warps = 8;
    return r;
}
Result<int64_t> pinned_tile(const NestPlan& plan, const Subject& s, VarId read, VarId lane, int64_t width,
                            int64_t bytes) {
    if (plan.blocks.size() != 2 || plan.blocks[0].var != read || plan.blocks[1].var != lane ||
        plan.blocks[0].tile != plan.blocks[1].tile)
        return refuse(s, fmt::format("its block is a square of indices {} and {}, read along one and written along the "
                                     "other",
                                     s.index(read), s.index(lane)));
    if (plan.warps && plan.warps != 8) return refuse(s, fmt::format("its tiles take 8 warps, not {}", plan.warps));
    const int64_t side = plan.blocks[0].tile;
    if (side * side * bytes > kStaticShared)
        return refuse(s, fmt::format("tiles of {0} x {0} along indices {1} and {2} take {3} bytes of shared memory, of "
                                     "which there are {4}",
                                     side, s.index(read), s.index(lane), side * side * bytes, kStaticShared));
    if (side < 32 || side > std::max<int64_t>(64, 16 * width))
        return refuse(s, fmt::format("tiles along indices {} and {} have sides of 32 to {}", s.index(read),
                                     s.index(lane), std::max<int64_t>(64, 16 * width)));
    return side;
}

NestPlan plan_of(const RowShape& r, VarId lane, int64_t width) {
    NestPlan p;
    p.warps = r.threads / 32;
    const int64_t packs = r.items + r.shared;
    p.blocks = {{lane, packs ? kWhole : r.threads * width}};
    p.elements = packs * r.threads * width;
    return p;
}
Result<RowShape> pinned_row(const NestPlan& plan, const Subject& s, VarId lane, int64_t width, size_t kept) {
    OPW_TRY(const BlockAxis a, one_axis(plan, s, lane));
    const int threads = threads_of(plan, 4);
    const std::string& index = s.index(lane);
    if (threads & (threads - 1))
        return refuse(s, fmt::format("rows along index {} take 1, 2, 4, 8, 16 or 32 warps, not {}", index, plan.warps));
    if (a.tile != kWhole) {
        if (a.tile != threads * width)
            return refuse(s, fmt::format("{} threads that walk along index {} take {} elements at a time, not {}",
                                         threads, index, threads * width, a.tile));
        return RowShape{threads, 0, 0};
    }
    if (kept == 0) return refuse(s, fmt::format("index {} is read once: there is no use in holding it whole", index));
    const int64_t each = threads * width, packs = plan.elements / each;
    if (plan.elements < 1 || plan.elements % each)
        return refuse(s,
                      fmt::format("\"elements\", which {} threads hold of index {}, must be a multiple of {}, and is "
                                  "{}",
                                  threads, index, each, plan.elements));
    const int64_t items = std::min<int64_t>(packs, kMostItems), shared = packs - items;
    if (kept > 1 && (shared || threads * items > 2048))
        return refuse(
            s, fmt::format("{} rows along index {} of {} elements take {} registers a thread with what else "
                           "is needed, beyond the limit of {}",
                           kept, index, plan.elements, 4 * kept * static_cast<size_t>(packs) + 32, 65536 / threads));
    if (shared * threads * 16 + 1024 > kSharedBytes)
        return refuse(s,
                      fmt::format("of {} elements along index {}, {} bytes are beyond the registers, and shared memory "
                                  "has {}",
                                  plan.elements, index, shared * threads * 16, kSharedBytes - 1024));
    return RowShape{threads, static_cast<int>(items), static_cast<int>(shared)};
}

NestPlan plan_of(const TileShape& t) {
    NestPlan r;
    r.contract.mt = t.m;
    r.contract.nt = t.n;
    r.contract.kc = t.k;
    r.warps = t.warps_m * t.warps_n;
    r.stages = t.stages;
    return r;
}
Result<TileShape> pinned_tiles(const NestPlan& plan, const Subject& s) {
    const auto& c = plan.contract;
    TileShape t{
        static_cast<int>(c.mt),     static_cast<int>(c.nt), static_cast<int>(c.kc), plan.stages ? plan.stages : 3, 1,
        plan.warps ? plan.warps : 4};
    const int warps = t.warps_n;
    if (warps & (warps - 1)) return refuse(s, fmt::format("a tile takes 1, 2, 4, 8, 16 or 32 warps, not {}", warps));
    // A warp's part of the tile as near to a square as it gets.
    while (t.warps_n > 1 && t.m / (2 * t.warps_m) >= t.n / t.warps_n && t.m / (2 * t.warps_m) >= 16)
        t.warps_n /= 2, t.warps_m *= 2;
    if (t.m % (16 * t.warps_m) || t.n % (16 * t.warps_n))
        return refuse(
            s, fmt::format("tiles of {} x {} do not divide into parts of 16 x 16 for {} warps", t.m, t.n, warps));
    if (t.k != 32 && t.k != 64) return refuse(s, fmt::format("slices are 32 or 64 deep, not {}", t.k));
    if (t.stages < 2) return refuse(s, "one stage leaves nothing to copy while the other is used");
    const int sums = t.m * t.n / t.threads();
    if (sums > 128)
        return refuse(s, fmt::format("tiles of {} x {} by {} warps keep {} sums in registers a thread; 128 fit beside "
                                     "the factors in 255",
                                     t.m, t.n, warps, sums));
    if (t.m * t.k / 8 % t.threads() || t.n * t.k / 8 % t.threads())
        return refuse(s,
                      fmt::format("slices of {0} x {2} and {1} x {2} are not whole pieces of 16 bytes for each of {3} "
                                  "threads",
                                  t.m, t.n, t.k, t.threads()));
    if (t.shared_bytes() > kSharedBytes)
        return refuse(s, fmt::format("{} stages of {} x {} x {} take {} bytes of shared memory, of which there are {}",
                                     t.stages, t.m, t.n, t.k, t.shared_bytes(), kSharedBytes));
    return t;
}

NestPlan plan_of_registers(int per) {
    NestPlan r;
    r.contract.mt = r.contract.nt = 16 * per;
    r.contract.kc = 16;
    r.warps = 8;
    return r;
}
Result<int> pinned_registers(const NestPlan& plan, const Subject& s, bool wide) {
    const auto& c = plan.contract;
    const bool warps = plan.warps == 0 || plan.warps == 8;
    if (c.mt != c.nt || c.kc != 16 || !warps || (c.mt != 64 && c.mt != 128))
        return refuse(
            s, fmt::format("256 threads multiply in tiles of 64 x 64 x 16 or 128 x 128 x 16, not {} x {} x {}", c.mt,
                           c.nt, c.kc));
    if (wide && c.mt == 128)
        return refuse(s,
                      "tiles of 128 x 128 keep 64 sums of 64 bits a thread, 128 registers, and their factors as many; "
                      "255 is the limit");
    return static_cast<int>(c.mt / 16);
}

Status pinned_point(const NestPlan& plan, const Subject& s) {
    if (!plan.blocks.empty())
        return refuse(
            s, fmt::format("it has one thread a point, and no block along index {}", s.index(plan.blocks[0].var)));
    return ok_status();
}

}  // namespace opwright::target::cuda
