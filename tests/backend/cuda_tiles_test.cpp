// Contractions on tensor cores with every shape of tiles that is measured: results by the emulation, registers by the
// CUDA compiler.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cuda_emulated.h"
#include "lang/library.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "target/cuda/compiler.h"
#include "target/cuda/tiles.h"

namespace opwright::target::cuda {
namespace {

const char* kDeclaration = R"(
op linear_prelu(x[m,k], w[n,k], a[n]) -> y[m,n] where T in float:
    z[m,n] = sum[k](x[m,k] * w[n,k])
    y[m,n] = select(z[m,n] >= 0, z[m,n], a[n] * z[m,n])
op product_prelu(x[k,m], w[k,n], a[n]) -> y[m,n] where T in float:
    z[m,n] = sum[k](x[k,m] * w[k,n])
    y[m,n] = select(z[m,n] >= 0, z[m,n], a[n] * z[m,n])
)";

math::Program declared(const std::string& name) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"tiles", kDeclaration})).ok());
    const auto symbolic = library.elaborate_symbolic(name);
    std::vector<lang::Argument> arguments;
    for (math::TensorId t : symbolic->inputs) arguments.push_back({DType::BF16, symbolic->tensors[t].shape});
    return *library.elaborate(name, arguments, {});
}

class Tiles : public testing::TestWithParam<TileShape> {};

TEST_P(Tiles, MatchTheReference) {
    const TileShape& s = GetParam();
    for (const char* name : {"linear_prelu", "product_prelu"}) {
        const math::Program p = declared(name);
        verify::EmulatedCuda emulated;
        emulated.choose({.tiles = &s});
        // Parts of tiles each way, more slices than stages and a part of one.
        const math::SymValues sizes{{"m", s.m - 8}, {"n", s.n + 24}, {"k", s.k * (s.stages + 1) + 8}};
        const auto check = [&](const verify::Compile& c) {
            const auto compiled = c(p);
            EXPECT_TRUE(compiled.ok());
            return verify::check_case(p, *compiled, sizes, verify::Pattern::Random, 1);
        };
        check(emulated.recorder());
        ASSERT_TRUE(emulated.build().ok());
        const auto r = check(emulated.target());
        EXPECT_TRUE(r.passed()) << name << ": " << r.message;
    }
}

TEST_P(Tiles, SpillNoRegisters) {
    if (compiler_name().empty()) GTEST_SKIP() << "neither NVRTC nor nvcc is here";
    for (const char* name : {"linear_prelu", "product_prelu"}) {
        const auto program =
            lower(math::inline_temporaries(math::drop_unit_variables(declared(name))).program, {.tiles = &GetParam()});
        ASSERT_TRUE(program.ok());
        const auto cubin = compile(program->source(), {.arch = "sm_90a", .cache = false});
        ASSERT_TRUE(cubin.ok()) << render(cubin.error()).substr(0, 2000);
        for (size_t at = 0; (at = cubin->log.find(" bytes spill stores", at)) != std::string::npos; ++at)
            EXPECT_EQ(cubin->log[cubin->log.rfind(' ', at - 1) + 1], '0') << name << ": " << cubin->log;
        EXPECT_NE(cubin->log.find("Used "), std::string::npos);
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Tiles, testing::ValuesIn(tile_shapes()), [](const auto& info) {
    const TileShape& s = info.param;
    return fmt::format("m{}_n{}_k{}_stages{}_warps{}x{}", s.m, s.n, s.k, s.stages, s.warps_m, s.warps_n);
});

}  // namespace
}  // namespace opwright::target::cuda
