// How tasks share out a kernel's results: two threads, which begin with half of the tasks each, have as much to do as each other.
#include <algorithm>
#include <cmath>

#include "declared.h"
#include "target/cpu/plan.h"
#include "target_cpu_test_util.h"
#include "tile/apply.h"

namespace opwright::target::cpu {
namespace {

struct Written {
    std::vector<bool> by_half[2];  // which results the first half of the tasks writes, and which the second
    double largest = 0;            // of the shares of results that a half writes
};

// The operator f of `source`, lowered for one vector level; its second input is constant.
Lowered lowered(const std::string& source, const std::string& shapes, const Features& f) {
    const math::Program p = declared(source, shapes);
    std::vector<bool> constant(p.inputs.size());
    constant[1] = true;
    const Planned planned = plan({.program = &p, .constant_inputs = constant}, f);
    const auto tiles = tile::apply(planned.kernel, planned.untuned, planned.machine);
    EXPECT_TRUE(tiles.ok()) << (tiles.ok() ? "" : render(tiles.error()));
    return lower(*tiles, planned.machine);
}

// Runs its stages in halves, with all open sizes 1.
Written written(const std::string& source, const std::string& shapes, const Features& f) {
    const math::Program p = declared(source, shapes);
    const Lowered l = lowered(source, shapes, f);
    const ModuleRef module = compile_or_fail(l.program, f);
    math::SymValues sizes;
    for (const std::string& s : p.symbols()) sizes[s] = 1;
    const auto value = [&](const math::Sym& s) { return evaluate(s, sizes).value_or(0); };
    std::vector<int64_t> symbols;
    for (const loop::Symbol& s : l.program.symbols) symbols.push_back(sizes.count(s.name) ? 1 : 0);

    const math::TensorId result = p.outputs[0];
    std::vector<std::vector<float>> memory;
    size_t results = 0;
    for (const Argument& a : l.arguments) {
        const bool tensor = a.kind == Argument::Kind::Tensor;
        if (tensor && a.tensor == result) results = memory.size();
        const int64_t n = tensor                                   ? value(product(p.tensors[a.tensor].shape))
                          : a.kind == Argument::Kind::Packed ? value(l.packs[a.packed].elements)
                                                             : value(l.shared[a.packed].elements);
        memory.emplace_back(static_cast<size_t>(n + 64), 1.0f);
    }
    std::vector<void*> buffers;
    for (auto& m : memory) buffers.push_back(m.data());
    const auto run_tasks = [&](const std::string& name, int64_t begin, int64_t end) {
        const Entry k = module->entry(name);
        std::vector<float> scratch(static_cast<size_t>(k.scratch_bytes(symbols.data())) / sizeof(float) + 4096);
        const auto at = (reinterpret_cast<uintptr_t>(scratch.data()) + 4096 + 63) / 64 * 64;
        int64_t status = 0;
        k.run(buffers.data(), symbols.data(), begin, end, reinterpret_cast<void*>(at), &status);
    };
    for (const Pack& k : l.packs) run_tasks(k.function, 0, value(k.tasks));
    Written r;
    const auto elements = static_cast<size_t>(value(product(p.tensors[result].shape)));
    for (int half = 0; half < 2; ++half) {
        std::fill(memory[results].begin(), memory[results].end(), NAN);
        for (const Stage& s : l.stages) {
            const int64_t tasks = value(s.tasks);
            s.packs ? run_tasks(s.function, 0, tasks) : run_tasks(s.function, half ? tasks / 2 : 0, half ? tasks : tasks / 2);
        }
        size_t n = 0;
        for (size_t i = 0; i < elements; ++i) {
            r.by_half[half].push_back(!std::isnan(memory[results][i]));
            n += r.by_half[half].back();
        }
        r.largest = std::max(r.largest, static_cast<double>(n) / static_cast<double>(elements));
    }
    for (size_t i = 0; i < elements; ++i) EXPECT_NE(r.by_half[0][i], r.by_half[1][i]) << i;
    return r;
}

// Layers with channels last are products of as many rows as there are places.
const char* const kProduct =
    "op f(x[b,m,k], w[n,k]) -> y[b,m,n]:\n    y[b,i,j] = sum[l](x[b,i,l] * w[j,l])\n";
const char* const kTurned = "op f(x[n,k], w[m,k]) -> y[m,n]:\n    y[i,j] = sum[l](x[j,l] * w[i,l])\n";
const char* const kDepthwise =
    "op f(x[b,h,v,c], w[c,3,3]) -> y[b,p,q,c]:\n    p in 0..h\n    q in 0..v\n"
    "    y[b,p,q,c] = sum[k,l](x[b,p+k-1,q+l-1,c] outside zero * w[c,k,l])\n";
const char* const kHalved =
    "op f(x[b,h,v,c], w[c,3,3]) -> y[b,p,q,c]:\n    p in 0..(h - 1) // 2 + 1\n    q in 0..(v - 1) // 2 + 1\n"
    "    y[b,p,q,c] = sum[k,l](x[b,2*p+k-1,2*q+l-1,c] outside zero * w[c,k,l])\n";

TEST(TargetCpuShares, HalvesOfTheTasksHaveHalfOfTheResults) {
    for (const Features& f : machine_levels()) {
        // A register tile of rows more or less: 24 and 25 of 49, not 36 and 13.
        EXPECT_LE(written(kProduct, "b 49 192; 32 192", f).largest, 0.52) << name(f.level);
        EXPECT_LE(written(kProduct, "b 196 96; 64 96", f).largest, 0.53) << name(f.level);
        // Tasks that share columns, of places side by side.
        EXPECT_LE(written(kTurned, "3136 32; 24 32", f).largest, 0.51) << name(f.level);
        // Rows of a picture, of which there are not many more than tasks.
        EXPECT_LE(written(kDepthwise, "b 14 14 32; 32 3 3", f).largest, 0.5) << name(f.level);
        EXPECT_LE(written(kDepthwise, "b 28 28 32; 32 3 3", f).largest, 0.5) << name(f.level);
    }
}

// Of many weights for few places, threads read other ones; of few weights each has rows of its own, where the next kernel wants them.
TEST(TargetCpuShares, ManyWeightsAreReadByOneThreadEach) {
    for (const Features& f : machine_levels()) {
        const auto columns_of_first_row = [&](const std::string& shapes, size_t columns) {
            const Written w = written(kProduct, shapes, f);
            return static_cast<double>(std::count(w.by_half[0].begin(), w.by_half[0].begin() + static_cast<long>(columns), true)) /
                   static_cast<double>(columns);
        };
        EXPECT_NEAR(columns_of_first_row("b 49 160; 960 160", 960), 0.5, 0.05) << name(f.level);
        EXPECT_EQ(columns_of_first_row("b 49 20; 960 20", 960), 1) << name(f.level);
    }
}

// What reading and storing takes counts in the estimate that decides whether a kernel is shared at all.
TEST(TargetCpuShares, DepthwiseLayersTakeAsLongAsTheirElements) {
    for (const Features& f : machine_levels()) {
        const Lowered l = lowered(kHalved, "b 14 14 576; 576 3 3", f);
        const int64_t products = 7 * 7 * 576 * 9, bytes = 4 * (14 * 14 + 7 * 7) * 576;
        EXPECT_GE(evaluate(l.stages.back().work, {{"b", 1}}).value_or(0), products * kContractionWork + bytes * 16) << name(f.level);
    }
}

}  // namespace
}  // namespace opwright::target::cpu
