#include "model.h"

#include <gtest/gtest.h>

#include "graph_model_builder.h"
#include "operator.h"
#include "runtime/thread_pool.h"

namespace opwright {
namespace {
using graph::onnx::ints;
using graph::onnx::make_tensor;
using graph::onnx::ModelBuilder;

std::shared_ptr<Model> parsed(const ModelBuilder& b) {
    CompileOptions o;
    o.check = true;
    auto m = Model::parse(b.bytes(), o, std::make_shared<runtime::ThreadPool>(1));
    EXPECT_TRUE(m.ok()) << m.error().message;
    return *m;
}
Tensor counted(Shape s) {
    Tensor t(DType::F32, std::move(s));
    for (int64_t i = 0; i < t.size(); ++i) t.set(i, static_cast<double>(i));
    return t;
}

TEST(Model, OneVersionServesEverySize) {
    ModelBuilder b;
    b.input("x", DType::F32, {"n", "k"}).output("y");
    b.node("Relu", {"x"}, {"y"});
    const auto m = parsed(b);
    ASSERT_TRUE(m->prepare().ok() && *m->prepare());
    const auto first = m->version({{"x", counted({2, 3})}});
    for (const Shape& s : {Shape{2, 3}, Shape{0, 3}, Shape{1, 1}, Shape{70, 9}}) {
        EXPECT_EQ(m->version({{"x", counted(s)}})->get(), first->get());
        auto r = m->run({{"x", counted(s)}});
        ASSERT_TRUE(r.ok()) << r.error().message;
        EXPECT_EQ((*r)[0].shape(), s);
    }
}

TEST(Model, ValuesThatDecideTheShapeGetVersions) {
    ModelBuilder b;
    b.input("x", DType::F32, {"n"}).input("shape", DType::I64, {2}).output("y");
    b.node("Reshape", {"x", "shape"}, {"r"});
    b.node("Neg", {"r"}, {"y"});
    const auto m = parsed(b);
    const auto ready = m->prepare();
    ASSERT_TRUE(ready.ok()) << ready.error().message;
    auto r = m->run({{"x", counted({6})}, {"shape", ints({2, 3})}});
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_EQ((*r)[0].shape(), (Shape{2, 3}));
    EXPECT_EQ((*r)[0].get(5), -5);
    r = m->run({{"x", counted({6})}, {"shape", ints({3, 2})}});
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_EQ((*r)[0].shape(), (Shape{3, 2}));
    r = m->run({{"x", counted({8})}, {"shape", ints({2, -1})}});
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_EQ((*r)[0].shape(), (Shape{2, 4}));
}

TEST(Model, WrongInputsAreNamed) {
    ModelBuilder b;
    b.input("image", DType::F32, {"n", 3}).output("y");
    b.node("Relu", {"image"}, {"y"});
    const auto m = parsed(b);
    const auto message = [&](const NamedInputs& in) {
        auto r = m->run(in);
        return r.ok() ? "" : r.error().message + " " + r.error().next;
    };
    EXPECT_EQ(message({}), "Input 'image' (f32) was not given. Give every input of the model.");
    EXPECT_EQ(message({{"image", counted({1, 3})}, {"imagf", counted({1})}}), "The model has no input named 'imagf'. Did you mean 'image'?");
    EXPECT_EQ(message({{"image", Tensor(DType::F64, {1, 3})}}), "Input 'image' takes f32, and the tensor given is f64. Convert the tensor first.");
    EXPECT_EQ(message({{"image", counted({1, 4})}}), "Dimension 1 of input 'image' is 4, but must be 3. Give it a tensor of shape [n, 3].");
}

TEST(Model, UnsupportedNodesAreAllListed) {
    ModelBuilder b;
    b.input("x", DType::F32, {4}).output("y");
    b.node("Frobnicate", {"x"}, {"a"});
    b.node("Mystify", {"a"}, {"y"});
    const auto m = parsed(b);
    const auto r = m->prepare();
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(m->refusal(), Model::Refusal::Unsupported);
    EXPECT_EQ(m->unsupported().size(), 2u);
}

TEST(Operator, ExtentsOfOneBroadcastAndOthersStayOpen) {
    auto op = Operator::make(lang::Library::standard(), "add", {}, {}, std::make_shared<runtime::ThreadPool>(1));
    ASSERT_TRUE(op.ok()) << op.error().message;
    const auto a = (*op)->version({counted({2, 3}), counted({1, 3})}), b = (*op)->version({counted({5, 7}), counted({1, 7})}),
               c = (*op)->version({counted({5, 7}), counted({5, 7})});
    ASSERT_TRUE(a.ok() && b.ok() && c.ok());
    EXPECT_EQ(a->compiled.get(), b->compiled.get());
    EXPECT_NE(a->compiled.get(), c->compiled.get());
    auto r = (*op)->run({counted({2, 3}), counted({1, 3})});
    ASSERT_TRUE(r.ok());
    EXPECT_EQ((*r)[0].get(5), 7);
    EXPECT_FALSE((*op)->run({counted({2, 3}), counted({2, 4})}).ok());
    auto missing = Operator::make(lang::Library::standard(), "softmacks", {}, {}, nullptr);
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().next, "Did you mean 'softmax'?");
}

TEST(Operator, DtypesGetTheirOwnVersion) {
    auto op = Operator::make(lang::Library::standard(), "neg", {}, {}, std::make_shared<runtime::ThreadPool>(1));
    ASSERT_TRUE(op.ok());
    for (const DType t : {DType::F32, DType::F64, DType::I32}) {
        auto r = (*op)->run({make_tensor(t, {2}, {1, -2})});
        ASSERT_TRUE(r.ok()) << r.error().message;
        EXPECT_EQ((*r)[0].dtype(), t);
        EXPECT_EQ((*r)[0].get(1), 2);
    }
}

}  // namespace
}  // namespace opwright
