// Gradients of operators of the library as kernels of the CPU target, against the reference: sizes around vectors and
// tiles, special values, 32-bit and 16-bit types. With what is computed again in the gradient and with what is saved.
#include <gtest/gtest.h>

#include "derive/gradient.h"
#include "lang/library.h"
#include "runtime/thread_pool.h"
#include "verify/cpu_target.h"

namespace opwright::verify {
namespace {

class GradientsOnCpu : public testing::TestWithParam<std::string> {};

TEST_P(GradientsOnCpu, MatchTheReference) {
    static runtime::ThreadPool pool(2);
    const Compile target = cpu_target({.cache = false}, pool);
    for (DType t : {DType::F32, DType::F16, DType::F64}) {
        const auto p = lang::Library::standard().elaborate_symbolic(GetParam(), 2, t);
        ASSERT_TRUE(p.ok()) << render(p.error());
        for (bool save : {false, true}) {
            const auto g = derive::gradient(*p, {}, {.save = save});
            ASSERT_TRUE(g.ok()) << render(g.error());
            CheckOptions o;
            o.sizes.count = t == DType::F32 ? 6 : 2;
            o.sizes.max_work = 1 << 13;
            o.patterns = {Pattern::Random, Pattern::Ties, Pattern::Nan};
            math::SymValues base;
            for (const std::string& s : g->program.symbols()) base[s] = 9;
            const Report r = check_program(g->program, target, o, base);
            EXPECT_TRUE(r.passed()) << name(t) << (save ? ", saved\n" : "\n") << r.str() << "\n" << g->program.print();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Library, GradientsOnCpu,
                         testing::Values("matmul", "linear", "conv", "conv_grouped", "conv_depthwise", "conv_transpose",
                                         "max_pool", "average_pool", "lp_pool", "softmax", "log_softmax", "layer_norm",
                                         "rms_norm", "batch_norm_training", "group_norm", "gelu", "silu", "softplus",
                                         "reduce_max", "reduce_prod", "running_sum", "gather", "pad_from_inside",
                                         "resize_interpolate", "mse_loss", "attention"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace opwright::verify
