// Reductions that several blocks share: with the threshold lowered, so that the emulation meets slices, ragged ends and
// the kernels that fold partial results at small sizes.
#include <gtest/gtest.h>

#include "cuda_emulated.h"
#include "lang/library.h"
#include "math/inline.h"
#include "math/unit_dims.h"

namespace opwright::target::cuda {
namespace {

const char* kDeclarations = R"(
op total(x[i]) -> y[] where T in numeric:
    y[] = sum[i](x[i])
op columns(x[m,n]) -> y[n] where T in numeric:
    y[n] = sum[m](x[m,n])
op largest(x[m,n]) -> y[m] where T in numeric:
    y[m] = max[n](x[m,n])
op smallest_of_columns(x[b,m,n]) -> y[b,n] where T in numeric:
    y[b,n] = min[m](x[b,m,n])
op first_largest(x[i]) -> y: i64[] where T in numeric:
    y[] = argmax[i](x[i])
op last_smallest(x[m,n]) -> y: i64[n] where T in numeric:
    y[n] = argmin_last[m](x[m,n])
op channel_mean(x[n,c,h,w]) -> y[c] where T in float:
    y[c] = mean[n,h,w](x[n,c,h,w])
op kept_columns(x[a,m,b,n]) -> y[n] where T in float:
    y[n] = prod[a,m,b](1.0 + x[a,m,b,n] * 0.001)
op log_sum_exp(x[m,k]) -> y[m] where T in float:
    h[m] = max[k](x[m,k])
    s[m] = sum[k](exp(x[m,k] - h[m]))
    y[m] = log(s[m]) + h[m]
op whole_softmax(x[k]) -> y[k] where T in float:
    h[] = max[k](x[k])
    s[] = sum[k](exp(x[k] - h[]))
    y[k] = exp(x[k] - h[]) / s[]
op batch_norm(x[n,c,h,w]) -> y[n,c,h,w] where T in float:
    u[c] = mean[n,h,w](x[n,c,h,w])
    v[c] = mean[n,h,w]((x[n,c,h,w] - u[c]) ** 2)
    y[n,c,h,w] = (x[n,c,h,w] - u[c]) / sqrt(v[c] + 1e-5)
op strided(x[k,m,n]) -> y[] where T in float:
    y[] = sum[m](x[2,m,3] * x[1,m,0])
op dot(a[i], b[i]) -> y[] where T in float:
    y[] = sqrt(abs(sum[i](a[i] * b[i])))
)";

struct Case {
    const char* op;
    std::vector<math::SymValues> sizes;
    bool integers = false;
};
const std::vector<Case>& cases() {
    static const std::vector<Case> all{
        {"total", {{{"i", 1000}}, {{"i", 4096}}, {{"i", 777}}}, true},
        {"columns", {{{"m", 300}, {"n", 16}}, {{"m", 129}, {"n", 200}}, {{"m", 64}, {"n", 7}}}, true},
        {"largest", {{{"m", 3}, {"n", 1024}}, {{"m", 5}, {"n", 301}}}, true},
        {"smallest_of_columns", {{{"b", 2}, {"m", 65}, {"n", 24}}, {{"b", 3}, {"m", 40}, {"n", 131}}}, true},
        {"first_largest", {{{"i", 1000}}, {{"i", 2048}}}, true},
        {"last_smallest", {{{"m", 300}, {"n", 12}}, {{"m", 90}, {"n", 33}}}, true},
        {"channel_mean", {{{"n", 3}, {"c", 4}, {"h", 9}, {"w", 16}}, {{"n", 2}, {"c", 3}, {"h", 13}, {"w", 11}}}},
        {"kept_columns", {{{"a", 3}, {"m", 5}, {"b", 7}, {"n", 8}}, {{"a", 2}, {"m", 9}, {"b", 8}, {"n", 5}}}},
        {"log_sum_exp", {{{"m", 2}, {"k", 2048}}, {{"m", 3}, {"k", 1027}}}},
        {"whole_softmax", {{{"k", 1536}}, {{"k", 2049}}}},
        {"batch_norm", {{{"n", 4}, {"c", 3}, {"h", 20}, {"w", 16}}, {{"n", 3}, {"c", 2}, {"h", 19}, {"w", 23}}}},
        {"strided", {{{"k", 4}, {"m", 400}, {"n", 5}}}},
        {"dot", {{{"i", 1000}}, {{"i", 2048}}}},
    };
    return all;
}

math::Program declared(const std::string& name, DType type) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"split", kDeclarations})).ok());
    const auto symbolic = library.elaborate_symbolic(name);
    std::vector<lang::Argument> arguments;
    for (math::TensorId t : symbolic->inputs) arguments.push_back({type, symbolic->tensors[t].shape});
    return *library.elaborate(name, arguments, {});
}

// The kernels that are launched.
std::vector<std::string> kernels(const math::Program& p, const math::SymValues& sizes, const LowerOptions& o = {}) {
    const auto program = lower(math::inline_temporaries(math::drop_unit_variables(p)).program, o);
    EXPECT_TRUE(program.ok());
    const auto plan = plan_launch(*program, sizes, [](math::TensorId, int64_t) { return true; });
    EXPECT_TRUE(plan.ok());
    std::vector<std::string> r;
    for (const Call& c : plan->calls) r.push_back(c.variant->kernel);
    return r;
}
std::vector<std::string> kernels(const char* op, const math::SymValues& sizes) {
    return kernels(declared(op, DType::F32), sizes);
}

TEST(SplitReductions, MatchTheReference) {
    const LowerOptions early{.split_from = 256};
    verify::EmulatedCuda emulated;
    emulated.choose(early);
    const auto check = [&](bool recording) {
        for (const Case& c : cases())
            for (DType t : {DType::F32, DType::BF16, DType::F64, DType::I32, DType::I8}) {
                if (!is_float(t) && !c.integers) continue;
                const math::Program p = declared(c.op, t);
                const auto compiled = (recording ? emulated.recorder() : emulated.target())(p);
                ASSERT_TRUE(compiled.ok()) << c.op;
                for (const math::SymValues& sizes : c.sizes) {
                    EXPECT_GT(kernels(p, sizes, early).size(), 1u) << c.op;
                    for (verify::Pattern pattern : verify::all_patterns()) {
                        const auto r = verify::check_case(p, *compiled, sizes, pattern, 1);
                        if (recording) continue;
                        EXPECT_TRUE(r.passed())
                            << c.op << " " << name(t) << ", " << verify::name(pattern) << ": " << r.message;
                    }
                }
            }
    };
    check(true);
    ASSERT_TRUE(emulated.build().ok());
    check(false);
}

// Of a reduction either its one kernel runs or the two of its slices, by the sizes alone.
TEST(SplitReductions, RunWhereResultsAreFewAndTermsMany) {
    using Names = std::vector<std::string>;
    EXPECT_EQ(kernels("total", {{"i", 16383}}), Names{"total_kernel"});
    EXPECT_EQ(kernels("total", {{"i", 16384}}), (Names{"total_y_partial_kernel", "total_y_kernel"}));
    EXPECT_EQ(kernels("largest", {{"m", 129}, {"n", 1 << 20}}), Names{"largest_kernel"});
    EXPECT_EQ(kernels("largest", {{"m", 128}, {"n", 1 << 20}}),
              (Names{"largest_y_partial_kernel", "largest_y_kernel"}));
    EXPECT_EQ(kernels("columns", {{"m", 65536}, {"n", 1024}}), (Names{"columns_y_partial_kernel", "columns_y_kernel"}));
    EXPECT_EQ(kernels("columns", {{"m", 16}, {"n", 1 << 20}}), Names{"columns_kernel"});
    // Without terms the sizes of both forms are known still.
    EXPECT_EQ(kernels("total", {{"i", 0}}), Names{"total_kernel"});
    EXPECT_EQ(kernels("columns", {{"m", 0}, {"n", 5}}), Names{"columns_kernel"});
    EXPECT_EQ(kernels("columns", {{"m", 5}, {"n", 0}}), Names{});
}

}  // namespace
}  // namespace opwright::target::cuda
