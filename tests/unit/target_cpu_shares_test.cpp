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

// The operator with its tensors, which hold ones, and all open sizes 1.
struct Operator {
    math::Program program;
    Lowered code;
    ModuleRef module;
    math::SymValues sizes;
    std::vector<int64_t> symbols;
    std::vector<std::vector<float>> memory;  // of the arguments
    std::vector<void*> buffers;
    size_t input = 0, result = 0;  // among the arguments
    std::vector<float> scratch;

    Operator(const std::string& source, const std::string& shapes, const Features& f)
        : program(declared(source, shapes)), code(lowered(source, shapes, f)), module(compile_or_fail(code.program, f)) {
        for (const std::string& s : program.symbols()) sizes[s] = 1;
        for (const loop::Symbol& s : code.program.symbols) symbols.push_back(sizes.count(s.name) ? 1 : 0);
        for (const Argument& a : code.arguments) {
            const bool tensor = a.kind == Argument::Kind::Tensor;
            if (tensor && a.tensor == program.inputs[0]) input = memory.size();
            if (tensor && a.tensor == program.outputs[0]) result = memory.size();
            const int64_t n = tensor                                   ? value(product(program.tensors[a.tensor].shape))
                              : a.kind == Argument::Kind::Packed ? value(code.packs[a.packed].elements)
                                                                 : value(code.shared[a.packed].elements);
            memory.emplace_back(static_cast<size_t>(n + 64), 1.0f);
        }
        for (auto& m : memory) buffers.push_back(m.data());
        for (const Pack& k : code.packs) run(k.function, 0, value(k.tasks), true);
    }
    int64_t value(const math::Sym& s) const { return evaluate(s, sizes).value_or(0); }
    size_t results() const { return static_cast<size_t>(value(product(program.tensors[program.outputs[0]].shape))); }
    // `first`: the first call of a job.
    void run(const std::string& name, int64_t begin, int64_t end, bool first) {
        const Entry k = module->entry(name);
        scratch.resize(std::max(scratch.size(), static_cast<size_t>(k.scratch_bytes(symbols.data())) / sizeof(float) + 4096));
        const auto at = (reinterpret_cast<uintptr_t>(scratch.data()) + 4096 + 63) / 64 * 64;
        if (first) *reinterpret_cast<int64_t*>(at) = 0;
        int64_t status = 0;
        k.run(buffers.data(), symbols.data(), begin, end, reinterpret_cast<void*>(at), &status);
    }
};

// Runs the stages in halves.
Written written(const std::string& source, const std::string& shapes, const Features& f) {
    Operator o(source, shapes, f);
    Written r;
    for (int half = 0; half < 2; ++half) {
        std::fill(o.memory[o.result].begin(), o.memory[o.result].end(), NAN);
        for (const Stage& s : o.code.stages) {
            const int64_t tasks = o.value(s.tasks);
            s.packs ? o.run(s.function, 0, tasks, true) : o.run(s.function, half ? tasks / 2 : 0, half ? tasks : tasks / 2, true);
        }
        size_t n = 0;
        for (size_t i = 0; i < o.results(); ++i) {
            r.by_half[half].push_back(!std::isnan(o.memory[o.result][i]));
            n += r.by_half[half].back();
        }
        r.largest = std::max(r.largest, static_cast<double>(n) / static_cast<double>(o.results()));
    }
    for (size_t i = 0; i < o.results(); ++i) EXPECT_NE(r.by_half[0][i], r.by_half[1][i]) << i;
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

const char* const kLast =
    "op f(x[b,h,v,c], w[m,c,3,3]) -> y[b,p,q,m]:\n    p in 0..h\n    q in 0..v\n"
    "    y[b,p,q,m] = sum[c,k,l](x[b,p+k-1,q+l-1,c] outside zero * w[m,c,k,l])\n";
const char* const kFirst =
    "op f(x[b,c,h,v], w[m,c,3,3]) -> y[b,m,p,q]:\n    p in 0..h\n    q in 0..v\n"
    "    y[b,m,p,q] = sum[c,k,l](x[b,c,p+k-1,q+l-1] outside zero * w[m,c,k,l])\n";
const char* const kEverySecond =
    "op f(x[b,h,v,c], w[m,c]) -> y[b,p,q,m]:\n    p in 0..(h - 1) // 2 + 1\n    q in 0..(v - 1) // 2 + 1\n"
    "    y[b,p,q,m] = sum[c](x[b,2*p,2*q,c] outside zero * w[m,c])\n";

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
        // Weights that tasks share, in ten panels of rows; few columns, so that tasks share the picture.
        EXPECT_LE(written(kFirst, "b 64 7 7; 128 64 3 3", f).largest, 0.55) << name(f.level);
        EXPECT_LE(written(kEverySecond, "b 56 56 32; 32 32", f).largest, 0.5) << name(f.level);
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

// Windows that a thread has brought into its memory serve its later tasks of the same job, which it takes a few at a time.
TEST(TargetCpuShares, WindowsAreBroughtOnceAJob) {
    for (const Features& f : machine_levels())
        for (const bool last : {false, true})
            for (const bool same_job : {false, true}) {
                Operator o(last ? kLast : kFirst, last ? "b 7 7 64; 256 64 3 3" : "b 64 7 7; 256 64 3 3", f);
                const Stage& s = o.code.stages.back();
                const int64_t tasks = o.value(s.tasks);
                ASSERT_GE(tasks, 2);
                o.run(s.function, 0, tasks / 2, true);
                std::fill(o.memory[o.input].begin(), o.memory[o.input].end(), 2.0f);
                o.run(s.function, tasks / 2, tasks, !same_job);
                // A corner has four taps of 64 channels.
                EXPECT_EQ(o.memory[o.result][0], 256) << name(f.level) << last;
                EXPECT_EQ(o.memory[o.result][o.results() - 1], same_job ? 256 : 512) << name(f.level) << last;
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
