// The innermost tile of a packed matrix product, built by hand through the loop IR: C[mr, nv * lanes] = A panel * B panel.
// What the emitter reaches on it bounds what any lowering can reach.
#pragma once
#include "loop/builder.h"
#include "target/cpu/features.h"

namespace opwright::bench {

// Kernel "tile": buffers A (k columns of mr), B (k rows of nv vectors), C (mr rows); symbol 0 is k, a multiple of unroll.
// Each task computes the whole tile once.
inline loop::Program register_tile(const target::cpu::Features& f, int mr, int nv, int unroll) {
    using namespace loop;
    Program p;
    Builder b(p);
    const int lanes = f.lanes(DType::F32), nr = nv * lanes;
    const auto a = b.param("a", DType::F32, 0, Access::Read), bb = b.param("b", DType::F32, 1, Access::Read);
    const auto c = b.param("c", DType::F32, 2, Access::Write);
    Expr depth = b.symbol("k");
    b.function("tile", [&] {
        b.loop("task", b.task_begin(), b.task_end(), 1, [&](Expr) {
            std::vector<LocalRef> sums;
            for (int i = 0; i < mr * nv; ++i) sums.push_back(b.local("s", broadcast(b.f32(0), lanes)));
            b.loop("k", 0, depth, unroll, [&](Expr k) {
                for (int u = 0; u < unroll; ++u) {
                    std::vector<Expr> row;
                    for (int v = 0; v < nv; ++v) row.push_back(b.let("row", b.load(bb, (k + u) * nr + v * lanes, lanes)));
                    for (int r = 0; r < mr; ++r) {
                        Expr x = b.let("x", broadcast(b.load(a, (k + u) * mr + r), lanes));
                        for (int v = 0; v < nv; ++v) {
                            const LocalRef s = sums[static_cast<size_t>(r * nv + v)];
                            b.set(s, mul_add(x, row[static_cast<size_t>(v)], b.get(s)));
                        }
                    }
                }
            });
            for (int i = 0; i < mr * nv; ++i) b.store(c, b.i64(i * lanes), b.get(sums[static_cast<size_t>(i)]));
        });
    });
    return p;
}

}  // namespace opwright::bench
