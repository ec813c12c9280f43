// Schedules of a person on the cuda target: the default comes back as it went out, other shapes give the same results,
// and what does not fit is refused with equation, index and limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "cuda_emulated.h"
#include "lang/library.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "target/cuda/cuda.h"

namespace opwright::target::cuda {
namespace {
using testing::HasSubstr;

const char* kDeclarations = R"(
op scaled(x[m,n], s[n]) -> y[m,n] where T in float:
    y[m,n] = x[m,n] * s[n]
op soft(x[m,k]) -> y[m,k] where T in float:
    h[m] = max[k](x[m,k])
    s[m] = sum[k](exp(x[m,k] - h[m]))
    y[m,k] = exp(x[m,k] - h[m]) / s[m]
op turned(x[m,n]) -> y[n,m] where T in float:
    y[n,m] = x[m,n] + 1
op linear_relu(x[m,k], w[n,k]) -> y[m,n] where T in float:
    z[m,n] = sum[k](x[m,k] * w[n,k])
    y[m,n] = max(z[m,n], 0)
)";

math::Program declared(const std::string& name, DType type) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"schedules", kDeclarations})).ok());
    const auto symbolic = library.elaborate_symbolic(name);
    std::vector<lang::Argument> arguments;
    for (math::TensorId t : symbolic->inputs) arguments.push_back({type, symbolic->tensors[t].shape});
    return math::inline_temporaries(math::drop_unit_variables(*library.elaborate(name, arguments, {}))).program;
}
std::string json_of(const math::Program& p) {
    const auto json = cuda_target().level(p, "schedule-json", {});
    EXPECT_TRUE(json.ok());
    return *json;
}
std::string edited(const math::Program& p, const std::vector<std::pair<std::string, std::string>>& edits) {
    std::string json = json_of(p);
    for (const auto& [from, to] : edits) {
        const std::string changed = std::regex_replace(json, std::regex(from), to);
        EXPECT_NE(changed, json) << from;
        json = changed;
    }
    return json;
}

TEST(CudaSchedule, TheDefaultOfEveryOperatorComesBack) {
    const auto& library = lang::Library::standard();
    int checked = 0;
    for (const std::string& name : library.names()) {
        const auto examples = library.examples(*library.find(name));
        if (!examples.ok() || examples->empty()) continue;
        const auto p = library.elaborate(name, (*examples)[0].arguments, (*examples)[0].attributes);
        if (!p.ok()) continue;
        const math::Program simple = math::inline_temporaries(math::drop_unit_variables(*p)).program;
        const auto first = lower(simple);
        ASSERT_TRUE(first.ok()) << name;
        const auto again = lower(simple, {.schedule = json_of(simple)});
        ASSERT_TRUE(again.ok()) << name << ": " << render(again.error());
        EXPECT_EQ(first->source(), again->source()) << name;
        EXPECT_TRUE(cuda_target().level(simple, "tile", {}).ok()) << name;
        ++checked;
    }
    EXPECT_GT(checked, 200);
}

TEST(CudaSchedule, OtherShapesGiveTheSameResults) {
    struct Case {
        const char* op;
        DType type;
        std::vector<std::pair<std::string, std::string>> edits;
        std::vector<math::SymValues> sizes;
        const char* macros;
    };
    const std::vector<Case> cases{
        {"scaled",
         DType::F32,
         {{"2048", "256"}, {"\"warps\": 16", "\"warps\": 4"}},
         {{{"m", 9}, {"n", 48}}},
         "VECTOR=2"},
        {"soft",
         DType::F32,
         {{"2048", "3072"}, {"\"warps\": 4", "\"warps\": 2"}},
         {{{"m", 3}, {"k", 3000}}, {{"m", 2}, {"k", 3001}}},
         "THREADS=64 VECTOR=4 ITEMS=8 BLOCKS=1 SHARED=4"},
        {"turned", DType::F32, {{"\"tile\": 64", "\"tile\": 32"}}, {{{"m", 72}, {"n", 40}}}, "VECTOR=4 TILE=32"},
        {"linear_relu",
         DType::BF16,
         {{"\"mt\": 128", "\"mt\": 32"},
          {"\"nt\": 256", "\"nt\": 64"},
          {"\"kc\": 64", "\"kc\": 32"},
          {"\"warps\": 8", "\"warps\": 2"},
          {"\"stages\": 3", "\"stages\": 4"}},
         {{{"m", 40}, {"n", 72}, {"k", 80}}},
         "TILE_M=32 TILE_N=64 TILE_K=32 STAGES=4 WARPS_M=1 WARPS_N=2"},
        {"linear_relu", DType::F32, {{"128", "64"}}, {{{"m", 40}, {"n", 71}, {"k", 33}}}, "PER=4"},
    };
    for (const Case& c : cases) {
        const math::Program p = declared(c.op, c.type);
        const LowerOptions options{.schedule = edited(p, c.edits)};
        const auto lowered = lower(p, options);
        ASSERT_TRUE(lowered.ok()) << c.op << ": " << render(lowered.error());
        const auto plan = plan_launch(*lowered, c.sizes[0], [](math::TensorId, int64_t) { return true; });
        ASSERT_TRUE(plan.ok());
        std::string macros;
        for (const auto& [n, v] : plan->calls.at(0).variant->macros)
            macros += (macros.empty() ? "" : " ") + n + "=" + std::to_string(v);
        EXPECT_EQ(macros, c.macros) << c.op;
        verify::EmulatedCuda emulated;
        emulated.choose(options);
        for (const bool recording : {true, false}) {
            const auto compiled = (recording ? emulated.recorder() : emulated.target())(p);
            ASSERT_TRUE(compiled.ok());
            for (const math::SymValues& sizes : c.sizes) {
                const auto r = verify::check_case(p, *compiled, sizes, verify::Pattern::Random, 1);
                EXPECT_TRUE(recording || r.passed()) << c.op << ": " << r.message;
            }
            ASSERT_TRUE(!recording || emulated.build().ok());
        }
    }
}

TEST(CudaSchedule, WhatDoesNotFitIsRefused) {
    const auto refusal = [](const char* op, DType type, const std::vector<std::pair<std::string, std::string>>& edits) {
        const math::Program p = declared(op, type);
        const auto r = lower(p, {.schedule = edited(p, edits)});
        EXPECT_FALSE(r.ok());
        return r.ok() ? "" : render(r.error());
    };
    EXPECT_THAT(
        refusal("scaled", DType::F32, {{"2048", "4096"}}),
        testing::AllOf(HasSubstr("schedule of y"), HasSubstr("4096 along index n"), HasSubstr("1 to 4 elements")));
    EXPECT_THAT(refusal("scaled", DType::F32, {{"\"n\",\\s*\"tile\": 2048", "\"m\", \"tile\": 2048"}}),
                HasSubstr("one axis, index n"));
    EXPECT_THAT(refusal("soft", DType::F32, {{"2048", "131072"}}),
                testing::AllOf(HasSubstr("131072 elements along index k"), HasSubstr("shared memory has 231424")));
    EXPECT_THAT(refusal("soft", DType::F32, {{"2048", "1000"}}), HasSubstr("must be a multiple of 512, and is 1000"));
    EXPECT_THAT(refusal("turned", DType::F32, {{"\"tile\": 64", "\"tile\": 128"}}),
                testing::AllOf(HasSubstr("indices n and m take 65536 bytes of shared memory"), HasSubstr("49152")));
    EXPECT_THAT(refusal("linear_relu", DType::BF16, {{"\"stages\": 3", "\"stages\": 8"}}),
                testing::AllOf(HasSubstr("8 stages of 128 x 256 x 64"), HasSubstr("232448")));
    EXPECT_THAT(refusal("linear_relu", DType::BF16, {{"\"warps\": 8", "\"warps\": 4"}}),
                HasSubstr("keep 256 sums in registers a thread"));
    EXPECT_THAT(refusal("linear_relu", DType::F32, {{"128", "32"}}), HasSubstr("not 32 x 32 x 16"));
    EXPECT_THAT(refusal("soft", DType::F32, {{"\"tile\": 1\n", "\"tile\": 4\n"}}),
                HasSubstr("index m of h into tiles of 4"));
}

}  // namespace
}  // namespace opwright::target::cuda
