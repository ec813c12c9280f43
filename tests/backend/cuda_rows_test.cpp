// Rows that registers do not hold alone, and rows of few elements that share a warp: by the emulation.
#include <gtest/gtest.h>

#include <functional>
#include <tuple>

#include "cuda_emulated.h"
#include "lang/library.h"
#include "math/inline.h"
#include "math/unit_dims.h"

namespace opwright::target::cuda {
namespace {

const char* kDeclarations = R"(
op soft(x[m,k]) -> y[m,k] where T in float:
    h[m] = max[k](x[m,k])
    s[m] = sum[k](exp(x[m,k] - h[m]))
    y[m,k] = exp(x[m,k] - h[m]) / s[m]
op layer(x[m,k], g[k], b[k]) -> y[m,k] where T in float:
    u[m] = mean[k](x[m,k])
    v[m] = mean[k]((x[m,k] - u[m]) ** 2)
    y[m,k] = (x[m,k] - u[m]) / sqrt(v[m] + 1e-5) * g[k] + b[k]
)";

math::Program declared(const std::string& name, DType type) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"rows", kDeclarations})).ok());
    const auto symbolic = library.elaborate_symbolic(name);
    std::vector<lang::Argument> arguments;
    for (math::TensorId t : symbolic->inputs) arguments.push_back({type, symbolic->tensors[t].shape});
    return *library.elaborate(name, arguments, {});
}

TEST(Rows, MatchTheReference) {
    // By the packs of 16 bytes of a row: below a warp's, in one block's registers, and in its shared memory too.
    const std::vector<std::pair<int64_t, int64_t>> sizes{{37, 64},  {9, 256},   {5, 500},
                                                         {3, 6144}, {2, 40960}, {1, 80004}};
    verify::EmulatedCuda emulated;
    const auto check = [&](bool recording) {
        for (const char* op : {"soft", "layer"})
            for (DType t : {DType::F32, DType::BF16, DType::F16}) {
                const math::Program p = declared(op, t);
                const auto compiled = (recording ? emulated.recorder() : emulated.target())(p);
                ASSERT_TRUE(compiled.ok()) << op;
                for (const auto& [m, k] : sizes)
                    for (verify::Pattern pattern : verify::all_patterns()) {
                        if (k > 10000 && pattern != verify::Pattern::Random) continue;
                        const auto r = verify::check_case(p, *compiled, {{"m", m}, {"k", k}}, pattern, 1);
                        if (recording) continue;
                        EXPECT_TRUE(r.passed())
                            << op << " " << name(t) << " " << k << ", " << verify::name(pattern) << ": " << r.message;
                    }
            }
    };
    check(true);
    ASSERT_TRUE(emulated.build().ok());
    check(false);
}

// Rows that the blocks of a cluster share: 2 x 1024, 2 x 512 and 8 x 512 threads, several rows a cluster, ragged ends.
// (The emulation aligns tensors to packs where the sum of their sizes does not leave 3 by 4.) With `edit` the kernels
// are others; how many of the cases pass then.
int clusters_that_pass(const std::function<void(std::string&)>& edit, bool expect) {
    const std::tuple<const char*, DType, int64_t, int64_t> cases[] = {
        {"layer", DType::F32, 5, 65536}, {"layer", DType::BF16, 4, 65528}, {"soft", DType::F32, 4, 81924}};
    verify::EmulatedCuda emulated;
    emulated.allow_clusters();
    if (edit) emulated.edit_helpers(edit);
    int passed = 0;
    const auto check = [&](bool recording) {
        for (const auto& [op, type, m, k] : cases) {
            const math::Program p = declared(op, type);
            const auto compiled = (recording ? emulated.recorder() : emulated.target())(p);
            EXPECT_TRUE(compiled.ok()) << op;
            const auto r = verify::check_case(p, *compiled, {{"m", m}, {"k", k}}, verify::Pattern::Random, 1);
            if (recording) continue;
            passed += r.passed();
            EXPECT_TRUE(r.passed() || !expect) << op << " " << name(type) << " " << k << ": " << r.message;
        }
    };
    check(true);
    EXPECT_TRUE(emulated.build().ok());
    check(false);
    return passed;
}
TEST(Rows, OfClustersMatchTheReference) { EXPECT_EQ(clusters_that_pass(nullptr, true), 3); }
TEST(Rows, OfClustersAreWrongWhereBlocksDoNotMeet) {
    const auto without_meeting = [](std::string& text) {
        const size_t exchange = text.find("void exchange("), meet = text.find("    meet_cluster();\n", exchange);
        if (exchange != std::string::npos) text.erase(meet, std::string("    meet_cluster();\n").size());
    };
    EXPECT_EQ(clusters_that_pass(without_meeting, false), 0);
}

TEST(Rows, StayOnTheChip) {
    const auto variant = [](const char* op, DType t, int64_t columns, bool clusters) {
        const auto program = lower(math::inline_temporaries(math::drop_unit_variables(declared(op, t))).program);
        EXPECT_TRUE(program.ok());
        const auto plan = plan_launch(
            *program, {{"m", 1000}, {"k", columns}}, [](math::TensorId, int64_t) { return true; }, clusters);
        EXPECT_TRUE(plan.ok());
        const Call& call = plan->calls.at(0);
        const Variant& v = *call.variant;
        std::string r = v.kernel;
        for (const auto& [n, value] : v.macros)
            if (n != "VECTOR") r += " " + n + "=" + std::to_string(value);
        EXPECT_LE(v.dynamic_shared, 227 * 1024 - 1024);
        EXPECT_EQ(call.blocks % static_cast<unsigned>(v.cluster), 0u);
        return r;
    };
    const auto soft = [&](DType t, int64_t columns) { return variant("soft", t, columns, false); };
    EXPECT_EQ(soft(DType::BF16, 256), "soft_kernel THREADS=16 ITEMS=2 BLOCKS=1");
    EXPECT_EQ(soft(DType::F32, 256), "soft_kernel THREADS=32 ITEMS=2 BLOCKS=1");
    EXPECT_EQ(soft(DType::F32, 16384), "soft_kernel THREADS=512 ITEMS=8 BLOCKS=2");
    EXPECT_EQ(soft(DType::BF16, 16384), "soft_kernel_again THREADS=512 ITEMS=4 BLOCKS=2");
    EXPECT_EQ(soft(DType::F32, 65536), "soft_kernel_shared THREADS=1024 ITEMS=2 BLOCKS=1 SHARED=14");
    EXPECT_EQ(soft(DType::BF16, 65536), "soft_kernel_shared THREADS=512 ITEMS=2 BLOCKS=2 SHARED=14");
    EXPECT_EQ(soft(DType::F32, 81920), "soft_kernel_shared THREADS=1024 ITEMS=8 BLOCKS=1 SHARED=12");
    EXPECT_EQ(soft(DType::F32, 81924), "soft_kernel_long THREADS=1024");
    // Several multiprocessors hold more, and each has its own columns' scale and bias in its L1 cache.
    EXPECT_EQ(variant("soft", DType::F32, 65536, true), soft(DType::F32, 65536));
    EXPECT_EQ(variant("soft", DType::F32, 81924, true), "soft_kernel_cluster THREADS=512 ITEMS=8 BLOCKS=2 CLUSTER=8");
    EXPECT_EQ(variant("soft", DType::F32, 262144, true), "soft_kernel_cluster THREADS=1024 ITEMS=8 BLOCKS=1 CLUSTER=8");
    EXPECT_EQ(variant("soft", DType::F32, 262148, true), "soft_kernel_long THREADS=1024");
    EXPECT_EQ(variant("layer", DType::F32, 32768, true), "layer_kernel THREADS=1024 ITEMS=8 BLOCKS=1");
    EXPECT_EQ(variant("layer", DType::F32, 65536, true), "layer_kernel_cluster THREADS=1024 ITEMS=8 BLOCKS=1 CLUSTER=2");
    EXPECT_EQ(variant("layer", DType::F32, 65540, true), "layer_kernel_cluster THREADS=512 ITEMS=8 BLOCKS=2 CLUSTER=8");
    EXPECT_EQ(variant("layer", DType::BF16, 65536, true), "layer_kernel_cluster THREADS=512 ITEMS=8 BLOCKS=2 CLUSTER=2");
    EXPECT_EQ(variant("layer", DType::BF16, 65536, false), "layer_kernel THREADS=1024 ITEMS=8 BLOCKS=1");
    EXPECT_EQ(variant("layer", DType::F32, 65536, false), "layer_kernel_shared THREADS=1024 ITEMS=8 BLOCKS=1 SHARED=8");
}

}  // namespace
}  // namespace opwright::target::cuda
