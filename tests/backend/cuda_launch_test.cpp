// Launch geometry at sizes that no test allocates: positions beyond 2^31, grids at the device's limits, empty tensors.
#include <gtest/gtest.h>

#include <memory>

#include "cuda_emulated.h"
#include "lang/library.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "target/cuda/launch.h"

namespace opwright::target::cuda {
namespace {

const char* kDeclarations = R"(
op scaled(x[m,n]) -> y[m,n] where T in float:
    y[m,n] = x[m,n] * 2
op total(x[i]) -> y[] where T in float:
    y[] = sum[i](x[i])
op turned(x[b,m,n]) -> y[b,n,m] where T in float:
    y[b,n,m] = x[b,m,n]
op soft(x[m,k]) -> y[m,k] where T in float:
    h[m] = max[k](x[m,k])
    s[m] = sum[k](exp(x[m,k] - h[m]))
    y[m,k] = exp(x[m,k] - h[m]) / s[m]
op product(x[m,k], w[n,k]) -> y[m,n] where T in float:
    y[m,n] = sum[k](x[m,k] * w[n,k])
)";

struct Launches {
    std::shared_ptr<const CudaProgram> program;  // calls point into it
    LaunchPlan plan;
};
Launches launches(const std::string& name, const math::SymValues& sizes) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"launches", kDeclarations})).ok());
    const auto symbolic = library.elaborate_symbolic(name);
    std::vector<lang::Argument> arguments;
    for (math::TensorId t : symbolic->inputs) arguments.push_back({DType::F32, symbolic->tensors[t].shape});
    const math::Program p = *library.elaborate(name, arguments, {});
    Launches r;
    r.program = std::make_shared<CudaProgram>(*lower(math::inline_temporaries(math::drop_unit_variables(p)).program));
    const auto plan = plan_launch(*r.program, sizes, [](math::TensorId, int64_t) { return true; });
    EXPECT_TRUE(plan.ok());
    r.plan = *plan;
    return r;
}

TEST(CudaLaunch, PositionsBeyond31BitsTakeWideIndices) {
    EXPECT_FALSE(launches("scaled", {{"m", 1 << 15}, {"n", 1 << 15}}).plan.wide);
    for (const auto& [op, sizes] : std::vector<std::pair<const char*, math::SymValues>>{
             {"scaled", {{"m", int64_t{1} << 20}, {"n", 1 << 12}}},
             {"total", {{"i", (int64_t{1} << 31) + 5}}},
             {"turned", {{"b", 1 << 10}, {"m", 1 << 11}, {"n", 1 << 11}}},
             {"soft", {{"m", int64_t{1} << 22}, {"k", 1 << 10}}},
             {"product", {{"m", 1 << 16}, {"n", 1 << 16}, {"k", 8}}}}) {
        const Launches l = launches(op, sizes);
        EXPECT_TRUE(l.plan.wide) << op;
        ASSERT_FALSE(l.plan.calls.empty());
        for (const Call& c : l.plan.calls) {
            const auto defines = defines_of(*c.variant, l.plan.wide);
            EXPECT_EQ(defines.back(), "INDEX=long long");
            EXPECT_GE(c.blocks, 1u);
            EXPECT_LE(c.blocks, static_cast<unsigned>(INT32_MAX));
            EXPECT_LE(c.variant->threads, 1024);
        }
        // All positions are multiplied in type Index, none in int.
        EXPECT_EQ(l.program->kernels.find("(int)blockIdx"), std::string::npos) << op;
    }
}

// Grids lie in x alone, which reaches 2^31 - 1: the limit of 65,535 in y and z does not matter.
TEST(CudaLaunch, GridsUseNothingButX) {
    for (const char* op : {"scaled", "turned", "soft", "product"}) {
        const Launches l = launches(op, {{"b", 1000}, {"m", 10000000}, {"n", 64}, {"k", 64}});
        for (const char* other : {"blockIdx.y", "blockIdx.z", "gridDim.y", "threadIdx.y"})
            EXPECT_EQ(l.program->kernels.find(other), std::string::npos) << op;
        EXPECT_GT(l.plan.calls.at(0).blocks, 65535u) << op;
    }
    // A narrow position has room for the stride of the whole grid.
    const Launches l = launches("scaled", {{"m", 31000}, {"n", 1 << 16}});
    EXPECT_FALSE(l.plan.wide);
    EXPECT_LE(int64_t{l.plan.calls[0].blocks} * l.plan.calls[0].variant->threads, int64_t{1} << 26);
}

TEST(CudaLaunch, EmptyTensorsLaunchNothing) {
    EXPECT_TRUE(launches("scaled", {{"m", 0}, {"n", 7}}).plan.calls.empty());
    EXPECT_TRUE(launches("turned", {{"b", 2}, {"m", 0}, {"n", 7}}).plan.calls.empty());
    EXPECT_TRUE(launches("soft", {{"m", 0}, {"k", 7}}).plan.calls.empty());
    EXPECT_TRUE(launches("product", {{"m", 3}, {"n", 0}, {"k", 7}}).plan.calls.empty());
    // A sum of nothing is 0, and that is to be written.
    EXPECT_EQ(launches("total", {{"i", 0}}).plan.calls.size(), 1u);
}

// The sign that wrap() gives stays: such a value is no position, whose widening may be left out.
TEST(CudaLaunch, IntegersThatWereWrappedKeepTheirSign) {
    lang::Library library;
    ASSERT_TRUE(library
                    .add(std::make_shared<const Source>(Source{"wrapped", R"(
op wrapped(x: u64[n], z: i64[n]) -> (y: f32[n], w: f32[n]):
    y[n] = cast(wrap(x[n], i64), f32)
    w[n] = cast(z[n] - size(n), f32)
)"}))
                    .ok());
    const auto p = library.elaborate_symbolic("wrapped");
    ASSERT_TRUE(p.ok());
    verify::EmulatedCuda emulated;
    for (const bool recording : {true, false}) {
        const auto compiled = (recording ? emulated.recorder() : emulated.target())(*p);
        ASSERT_TRUE(compiled.ok());
        const auto r = verify::check_case(*p, *compiled, {{"n", 37}}, verify::Pattern::Extremes, 1);
        if (recording)
            ASSERT_TRUE(emulated.build().ok());
        else
            EXPECT_TRUE(r.passed()) << r.message;
    }
}

}  // namespace
}  // namespace opwright::target::cuda
