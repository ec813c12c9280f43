// Models against each other: what rounding explains passes, what it does not is wrong, whatever the values.
#include "verify/model_against.h"

#include <gmock/gmock.h>

#include <cmath>

#include "graph_model_builder.h"
#include "runtime/thread_pool.h"

namespace opwright::verify {
namespace {
using graph::onnx::ModelBuilder;

std::shared_ptr<Model> parsed(const ModelBuilder& b, bool fuse) {
    CompileOptions o;
    o.fuse = fuse;
    auto m = Model::parse(b.bytes(), o, std::make_shared<runtime::ThreadPool>(1));
    EXPECT_TRUE(m.ok()) << m.error().message;
    return *m;
}
ModelRun run(const ModelBuilder& b) {
    const auto m = parsed(b, true);
    return [m](const NamedInputs& in) { return m->run(in); };
}
Tensor waves(Shape s, double step) {
    Tensor t(DType::F32, std::move(s));
    for (int64_t i = 0; i < t.size(); ++i) t.set(i, std::sin(step * static_cast<double>(i + 1)));
    return t;
}
// softmax((x w1) w2), with one element of w1 off by a factor.
ModelBuilder chain(double factor) {
    ModelBuilder b;
    Tensor w = waves({32, 32}, 0.7);
    w.set(5, w.get(5) * factor);
    b.input("x", DType::F32, {4, 32}).output("y");
    b.constant("w1", w).constant("w2", waves({32, 8}, 0.3));
    b.node("MatMul", {"x", "w1"}, {"h"});
    b.node("MatMul", {"h", "w2"}, {"z"});
    b.node("Softmax", {"z"}, {"y"});
    return b;
}
// a + b + c, the sums from the left or from the right.
ModelBuilder sum(bool left) {
    ModelBuilder b;
    b.input("a", DType::F32, {64}).input("b", DType::F32, {64}).input("c", DType::F32, {64}).output("y");
    b.node("Add", left ? std::vector<std::string>{"a", "b"} : std::vector<std::string>{"b", "c"}, {"s"});
    b.node("Add", left ? std::vector<std::string>{"s", "c"} : std::vector<std::string>{"a", "s"}, {"y"});
    return b;
}
Result<ModelComparison> compared(const ModelBuilder& a, const ModelBuilder& b, const NamedInputs& in) {
    return compare_runs({"y"}, value_sets(in, "given", 1), run(a), run(b), noise_of(parsed(a, false)));
}

TEST(ModelAgainst, TheSameModelIsEqualForEverySetOfValues) {
    const auto r = compared(chain(1), chain(1), {{"x", waves({4, 32}, 0.9)}});
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_TRUE(r->passed());
    EXPECT_EQ(r->outputs[0].verdict, "equal");
    EXPECT_THAT(r->sets, testing::ElementsAre("given", "shuffled", "ties", "zeros"));
    EXPECT_LT(r->outputs[0].error, 1e-5);
}
TEST(ModelAgainst, AnotherOrderOfSumsIsWithinTolerance) {
    const auto r = compared(sum(true), sum(false),
                            {{"a", waves({64}, 0.9)}, {"b", waves({64}, 1.7)}, {"c", waves({64}, 0.31)}});
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_TRUE(r->passed());
    EXPECT_EQ(r->outputs[0].verdict, "within tolerance");
    EXPECT_GT(r->outputs[0].difference, 0);
    EXPECT_LE(r->outputs[0].allowed, 1e-6);  // a few roundings of numbers below 3
}
TEST(ModelAgainst, AWeightThatIsOffIsWrong) {
    const auto r = compared(chain(1), chain(1.01), {{"x", waves({4, 32}, 0.9)}});
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_FALSE(r->passed());
    EXPECT_EQ(r->outputs[0].verdict, "wrong");
    EXPECT_GT(r->outputs[0].share, 1);
}
TEST(ModelAgainst, AFaultThatOneSetOfValuesHidesIsFoundByAnother) {
    // max(x, 0) against max(x, 0.25): for numbers from 1 the same, and a shuffle of them changes nothing either.
    ModelBuilder a, b;
    a.input("x", DType::F32, {8}).output("y");
    a.node("Relu", {"x"}, {"y"});
    b.input("x", DType::F32, {8}).output("y");
    b.constant("least", graph::onnx::make_tensor(DType::F32, {}, {0.25}));
    b.node("Max", {"x", "least"}, {"y"});
    Tensor x(DType::F32, {8});
    for (int64_t i = 0; i < 8; ++i) x.set(i, 1 + 0.1 * static_cast<double>(i));
    const auto r = compared(a, b, {{"x", x}});
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_FALSE(r->passed());
    EXPECT_EQ(r->outputs[0].set, "zeros");
}
TEST(ModelAgainst, OtherOutputsAreRefused) {
    ModelBuilder two = sum(true);
    two.output("s");
    const NamedInputs in{{"a", waves({64}, 0.9)}, {"b", waves({64}, 1.7)}, {"c", waves({64}, 0.31)}};
    const auto r = compared(sum(true), two, in);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().message, "One has 1 outputs, the other 2.");
}

}  // namespace
}  // namespace opwright::verify
