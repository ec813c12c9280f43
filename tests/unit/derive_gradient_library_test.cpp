// The gradient of every operator of the library that has one, for each of its examples.
#include "gradient_test_util.h"

namespace opwright {
namespace {
using namespace test;

class GradientOf : public testing::TestWithParam<std::string> {};

std::vector<std::string> all_names() { return lang::Library::standard().names(); }

TEST_P(GradientOf, EqualsDifferenceQuotients) {
    const lang::Library& library = lang::Library::standard();
    const auto examples = library.examples(*library.find(GetParam()));
    ASSERT_TRUE(examples.ok());
    std::mt19937_64 random(11);
    for (const lang::Example& e : *examples) {
        std::vector<lang::Argument> wide = e.arguments;
        for (lang::Argument& a : wide)
            if (is_float(a.dtype)) a.dtype = DType::F64;
        lang::Attributes attributes = e.attributes;  // nothing is rounded to f32 on the way
        for (const std::string& a : library.attribute_names(*library.find(GetParam())))
            if (a == "stash") attributes[a] = DType::F64;
        auto program = library.elaborate(GetParam(), wide, attributes);
        if (!program.ok()) program = library.elaborate(GetParam(), wide = e.arguments, e.attributes);
        ASSERT_TRUE(program.ok()) << render(program.error());
        const auto g = derive::gradient(*program);
        if (!g.ok()) continue;  // no float input or output
        EXPECT_EQ(math::verify(g->program), std::vector<std::string>()) << g->program.print();
        const auto t = derive::tangent(*program);
        ASSERT_TRUE(t.ok()) << render(t.error());
        EXPECT_EQ(math::verify(t->program), std::vector<std::string>()) << t->program.print();
        const Checked identity = dot_identity(*program, *g, *t, example_inputs(e, wide, random), random);
        EXPECT_LT(identity.error, 1e-9) << identity.what << "\n"
                                        << program->print() << "\n"
                                        << g->program.print() << "\n"
                                        << t->program.print();
        int settled = 0;
        for (int trial = 0; trial < 6 && settled < 2; ++trial) {
            const std::vector<Tensor> in = example_inputs(e, wide, random);
            const auto c = difference_quotient(*program, *g, in, random);
            if (!c) continue;
            ++settled;
            EXPECT_LT(c->error, 1e-6) << c->what << "\n" << program->print() << "\n" << g->program.print();
        }
        EXPECT_GT(settled, 0) << "no difference quotient settled\n" << program->print() << "\n" << g->program.print();
    }
}

// The gradient is an operator: its own gradient against its difference quotients.
class SecondGradientOf : public testing::TestWithParam<std::string> {};

TEST_P(SecondGradientOf, EqualsDifferenceQuotients) {
    const lang::Library& library = lang::Library::standard();
    const auto examples = library.examples(*library.find(GetParam()));
    ASSERT_TRUE(examples.ok());
    const lang::Example& e = examples->front();
    std::vector<lang::Argument> wide = e.arguments;
    for (lang::Argument& a : wide)
        if (is_float(a.dtype)) a.dtype = DType::F64;
    lang::Attributes attributes = e.attributes;
    for (const std::string& a : library.attribute_names(*library.find(GetParam())))
        if (a == "stash") attributes[a] = DType::F64;
    const auto program = library.elaborate(GetParam(), wide, attributes);
    ASSERT_TRUE(program.ok()) << render(program.error());
    const auto first = derive::gradient(*program);
    ASSERT_TRUE(first.ok()) << render(first.error());
    const auto second = derive::gradient(first->program);
    ASSERT_TRUE(second.ok()) << render(second.error());
    EXPECT_EQ(math::verify(second->program), std::vector<std::string>()) << second->program.print();
    std::mt19937_64 random(5);
    int settled = 0;
    for (int trial = 0; trial < 8 && settled < 2; ++trial) {
        std::vector<Tensor> in = example_inputs(e, wide, random), cotangents;
        const auto out = derive::reference(*program, in);
        ASSERT_TRUE(out.ok());
        for (const auto& o : *out) cotangents.push_back(random_values(DType::F64, o.value.shape(), random, -1, 1));
        const auto c = difference_quotient(first->program, *second, gradient_inputs(*first, in, cotangents), random);
        if (!c) continue;
        ++settled;
        EXPECT_LT(c->error, 1e-6) << c->what << "\n" << first->program.print() << "\n" << second->program.print();
    }
    EXPECT_GT(settled, 0) << first->program.print();
}

INSTANTIATE_TEST_SUITE_P(Library, SecondGradientOf,
                         testing::Values("softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "conv",
                                         "conv_depthwise", "conv_transpose", "average_pool", "matmul", "attention",
                                         "gelu", "silu", "softplus", "mish", "tanh", "reduce_l2", "running_product",
                                         "reduce_log_sum_exp", "resize_interpolate", "grid_sample_linear"),
                         [](const auto& i) { return i.param; });

INSTANTIATE_TEST_SUITE_P(Library, GradientOf, testing::ValuesIn(all_names()), [](const auto& i) { return i.param; });

}  // namespace
}  // namespace opwright
