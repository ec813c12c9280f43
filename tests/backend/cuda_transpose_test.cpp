// Element-wise operators that read along another dim than they write along: tiles in shared memory, by the emulation.
#include <gtest/gtest.h>

#include "cuda_emulated.h"
#include "lang/library.h"
#include "math/inline.h"
#include "math/unit_dims.h"

namespace opwright::target::cuda {
namespace {

const char* kDeclarations = R"(
op transposed(x[m,n]) -> y[n,m] where T in numeric:
    y[n,m] = x[m,n]
op batches(x[b,m,n]) -> y[b,n,m] where T in numeric:
    y[b,n,m] = x[b,m,n]
op moved(x[a,b,c,d]) -> y[d,b,a,c] where T in numeric:
    y[d,b,a,c] = x[a,b,c,d]
op channels_last(x[n,c,h,w], s[c]) -> y[n,h,w,c] where T in numeric:
    y[n,h,w,c] = max(x[n,c,h,w] * s[c], 0)
op symmetric(x[m,n], z[m,n], r[n,m], b[n]) -> y[n,m] where T in numeric:
    y[n,m] = x[m,n] + z[m,n] * 2 + r[n,m] * b[n]
op both(x[m,n]) -> (y[n,m], z[n,m]) where T in numeric:
    y[n,m] = x[m,n] + 1
    z[n,m] = y[n,m] * 2
)";

math::Program declared(const std::string& name, DType type) {
    lang::Library library;
    const auto added = library.add(std::make_shared<const Source>(Source{"transposes", kDeclarations}));
    EXPECT_TRUE(added.ok()) << (added.ok() ? "" : render(added.error()));
    const auto symbolic = library.elaborate_symbolic(name);
    EXPECT_TRUE(symbolic.ok()) << name << (symbolic.ok() ? "" : render(symbolic.error()));
    std::vector<lang::Argument> arguments;
    for (math::TensorId t : symbolic->inputs) arguments.push_back({type, symbolic->tensors[t].shape});
    return *library.elaborate(name, arguments, {});
}

struct Case {
    const char* op;
    std::vector<math::SymValues> sizes;
};
const std::vector<Case>& cases() {
    static const std::vector<Case> all{
        {"transposed",
         {{{"m", 160}, {"n", 48}}, {{"m", 33}, {"n", 70}}, {{"m", 16}, {"n", 272}}, {{"m", 3}, {"n", 64}}}},
        {"batches", {{{"b", 3}, {"m", 24}, {"n", 40}}, {{"b", 2}, {"m", 17}, {"n", 31}}}},
        {"moved", {{{"a", 3}, {"b", 2}, {"c", 32}, {"d", 48}}, {{"a", 2}, {"b", 3}, {"c", 19}, {"d", 37}}}},
        {"channels_last", {{{"n", 2}, {"c", 16}, {"h", 6}, {"w", 8}}, {{"n", 2}, {"c", 21}, {"h", 5}, {"w", 7}}}},
        {"symmetric", {{{"m", 64}, {"n", 80}}, {{"m", 51}, {"n", 18}}}},
        {"both", {{{"m", 64}, {"n", 48}}, {{"m", 50}, {"n", 21}}}},
    };
    return all;
}

TEST(TransposedTiles, MatchTheReference) {
    verify::EmulatedCuda emulated;
    const auto check = [&](bool recording) {
        for (const Case& c : cases())
            for (DType t : {DType::F32, DType::BF16, DType::F64, DType::I8, DType::I64}) {
                const math::Program p = declared(c.op, t);
                const auto compiled = (recording ? emulated.recorder() : emulated.target())(p);
                ASSERT_TRUE(compiled.ok()) << c.op;
                for (const math::SymValues& sizes : c.sizes)
                    for (verify::Pattern pattern : {verify::Pattern::Random, verify::Pattern::Nan}) {
                        const auto r = verify::check_case(p, *compiled, sizes, pattern, 1);
                        if (recording) continue;
                        EXPECT_TRUE(r.passed()) << c.op << " " << name(t) << ": " << r.message;
                    }
            }
    };
    check(true);
    ASSERT_TRUE(emulated.build().ok());
    check(false);
}

TEST(TransposedTiles, AreUsedWhereBothSidesAreLong) {
    const auto variant = [](const char* op, DType t, const math::SymValues& sizes, bool aligned = true) {
        const auto program = lower(math::inline_temporaries(math::drop_unit_variables(declared(op, t))).program);
        EXPECT_TRUE(program.ok());
        const auto plan = plan_launch(*program, sizes, [&](math::TensorId, int64_t) { return aligned; });
        EXPECT_TRUE(plan.ok());
        std::string r = plan->calls.at(0).variant->kernel;
        for (const auto& [n, v] : plan->calls[0].variant->macros) r += " " + n + "=" + std::to_string(v);
        return r + " blocks=" + std::to_string(plan->calls[0].blocks);
    };
    EXPECT_EQ(variant("transposed", DType::F32, {{"m", 8192}, {"n", 8192}}),
              "transposed_kernel VECTOR=4 TILE=64 blocks=16384");
    EXPECT_EQ(variant("transposed", DType::BF16, {{"m", 8192}, {"n", 8192}}),
              "transposed_kernel VECTOR=8 TILE=128 blocks=4096");
    EXPECT_EQ(variant("transposed", DType::F32, {{"m", 1001}, {"n", 999}}),
              "transposed_kernel VECTOR=1 TILE=64 blocks=256");
    EXPECT_EQ(variant("transposed", DType::F32, {{"m", 8192}, {"n", 8192}}, false),
              "transposed_kernel VECTOR=1 TILE=64 blocks=16384");
    EXPECT_EQ(variant("transposed", DType::F32, {{"m", 8192}, {"n", 15}}),
              "transposed_kernel_narrow VECTOR=4 blocks=60");
}

}  // namespace
}  // namespace opwright::target::cuda
