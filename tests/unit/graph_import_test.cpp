// The structure of models: functions, branches, order, and every way of being wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph_model_builder.h"

namespace opwright::graph::onnx {
namespace {

namespace pb = ::opwright::onnx;

std::string outcome(const ModelBuilder& b, const ImportOptions& o = {}) {
    auto r = b.import_with(o);
    if (auto* f = std::get_if<ImportFailure>(&r)) return f->diagnostic.message;
    const Graph& g = std::get<Graph>(r);
    EXPECT_THAT(verify(g), testing::IsEmpty());
    return print(g);
}
std::string malformed(const std::string& what) { return "The model is not well formed: " + what + "."; }

TEST(GraphImport, IdentityAndDropoutCostNothing) {
    ModelBuilder b;
    b.input("x", DType::F32, {"N", int64_t{4}});
    b.node("Identity", {"x"}, {"a"});
    b.node("Dropout", {"a"}, {"b"});
    set_int(b.node("Cast", {"b"}, {"y"}), "to", 1);
    b.output("y");
    EXPECT_EQ(outcome(b), "graph test(x: f32[N, 4])\n    return x: f32[N, 4]\n");
}

TEST(GraphImport, ConstantsOfEveryForm) {
    ModelBuilder b;
    auto& floats = *b.node("Constant", {}, {"f"}).add_attribute();
    floats.set_name("value_floats");
    floats.set_type(6);
    floats.add_floats(0.5f);
    set_int(b.node("Constant", {}, {"i"}), "value_int", 3);
    set_ints(b.node("Constant", {}, {"v"}), "value_ints", {1, 2});
    set_tensor(b.node("Constant", {}, {"t"}), "value", make_tensor(DType::F16, {1, 1}, {2.0}));
    b.output("f").output("i").output("v").output("t");
    EXPECT_EQ(outcome(b),
              "graph test()\n    return f: f32[1] const, i: i64[] const, v: i64[2] const, t: f16[1, 1] const\n");
}

TEST(GraphImport, AFunctionIsInlinedWithItsAttributes) {
    ModelBuilder b;
    b.input("x", DType::F32, {"N", int64_t{4}, "H"});
    auto& f = *b.model.add_functions();
    f.set_name("tail");
    f.set_domain("mine");
    f.add_input("v");
    f.add_output("r");
    f.add_opset_import()->set_version(17);
    auto& defaulted = *f.add_attribute_proto();
    defaulted.set_name("from");
    defaulted.set_type(2);
    defaulted.set_i(1);
    auto& shape = ModelBuilder::add_node(*f.mutable_node(), "Shape", {"v"}, {"r"});
    auto& ref = *shape.add_attribute();
    ref.set_name("start");
    ref.set_type(2);
    ref.set_ref_attr_name("from");
    b.node("tail", {"x"}, {"a"}).set_domain("mine");
    auto& second = b.node("tail", {"x"}, {"b"});
    second.set_domain("mine");
    set_int(second, "from", 2);
    set_int(b.node("Concat", {"a", "b"}, {"y"}), "axis", 0);
    b.output("y");
    auto r = b.import_with();
    const Graph& g = std::get<Graph>(r);
    std::string s;
    for (const auto& e : *g.values[g.outputs[0]].content) s += e.str() + " ";
    EXPECT_EQ(s, "4 H H ");
}

TEST(GraphImport, AFunctionThatCallsItselfIsRefused) {
    ModelBuilder b;
    b.input("x", DType::F32, {int64_t{1}});
    for (const char* name : {"f", "g"}) {
        auto& f = *b.model.add_functions();
        f.set_name(name);
        f.set_domain("mine");
        f.add_input("v");
        f.add_output("r");
        ModelBuilder::add_node(*f.mutable_node(), name == std::string("f") ? "g" : "f", {"v"}, {"r"})
            .set_domain("mine");
    }
    b.node("f", {"x"}, {"y"}).set_domain("mine");
    b.output("y");
    EXPECT_EQ(outcome(b), malformed("its function 'f' calls itself"));
}

TEST(GraphImport, FunctionsThatDoubleStopAtTheLimit) {
    ModelBuilder b;
    b.input("x", DType::F32, {int64_t{1}});
    for (int i = 0; i < 30; ++i) {
        auto& f = *b.model.add_functions();
        f.set_name("f" + std::to_string(i));
        f.set_domain("mine");
        f.add_input("v");
        f.add_output("r");
        f.add_opset_import()->set_version(17);
        const std::string next = i == 29 ? "Identity" : "f" + std::to_string(i + 1);
        auto& one = ModelBuilder::add_node(*f.mutable_node(), next, {"v"}, {"m"});
        auto& two = ModelBuilder::add_node(*f.mutable_node(), next, {"m"}, {"r"});
        if (i < 29) one.set_domain("mine"), two.set_domain("mine");
    }
    b.node("f0", {"x"}, {"y"}).set_domain("mine");
    b.output("y");
    ImportOptions o;
    o.max_nodes = 1000;
    EXPECT_EQ(outcome(b, o), "The model has more than 1000 nodes once its functions are inlined.");
}

void add_branch(pb::NodeProto& n, const std::string& name, const std::string& source) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(5);
    ModelBuilder::add_node(*a.mutable_g()->mutable_node(), "Identity", {source}, {name + "_result"});
    a.mutable_g()->add_output()->set_name(name + "_result");
}

TEST(GraphImport, AConditionKnownNowTakesItsBranch) {
    ModelBuilder b;
    b.input("x", DType::F32, {"N"}).input("z", DType::F32, {"M"});
    b.node("Shape", {"x"}, {"s"});
    b.constant("minus", ints({-1}));
    b.node("Equal", {"s", "minus"}, {"c"});
    auto& n = b.node("If", {"c"}, {"y"});
    add_branch(n, "then_branch", "x");
    add_branch(n, "else_branch", "z");
    b.output("y");
    EXPECT_EQ(outcome(b), "graph test(x: f32[N], z: f32[M])\n    return z: f32[M]\n");
}

TEST(GraphImport, AConditionThatDecidesTheShapeNeedsItsValue) {
    ModelBuilder b;
    b.input("x", DType::F32, {"N"}).input("z", DType::F32, {"M"}).input("c", DType::Bool, {});
    auto& n = b.node("If", {"c"}, {"y"});
    add_branch(n, "then_branch", "x");
    add_branch(n, "else_branch", "z");
    b.output("y");
    auto r = b.import_with();
    EXPECT_THAT(std::get<ImportFailure>(r).needs_value, testing::ElementsAre("c"));
    EXPECT_EQ(std::get<ImportFailure>(r).diagnostic.message,
              "The model's form depends on the value of its input 'c', which is not known when it is imported.");
    ImportOptions o;
    o.known_inputs["c"] = make_tensor<int64_t>(DType::Bool, {}, {1});
    auto known = b.import_with(o);
    EXPECT_THAT(std::get<Graph>(known).fixed_inputs, testing::ElementsAre("c"));
}

TEST(GraphImport, NodesMayStandInAnyOrderButNotInACycle) {
    ModelBuilder b;
    b.input("x", DType::F32, {"N"});
    b.node("Identity", {"a"}, {"y"});
    b.node("Identity", {"x"}, {"a"});
    b.output("y");
    EXPECT_EQ(outcome(b), "graph test(x: f32[N])\n    return x: f32[N]\n");
    ModelBuilder cycle;
    cycle.node("Identity", {"b"}, {"a"});
    cycle.node("Identity", {"a"}, {"b"});
    cycle.output("b");
    EXPECT_EQ(outcome(cycle), malformed("its nodes form a cycle through 'Identity'"));
}

TEST(GraphImport, EveryUnsupportedNodeIsReportedAtOnce) {
    ModelBuilder b;
    b.input("x", DType::F32, {"N"});
    b.node("NoSuchOp", {"x"}, {"a"}).set_name("first");
    b.node("Other", {"a"}, {"b"}).set_name("second");  // reads what failed
    b.node("NoSuchOp", {"x"}, {"c"}).set_name("third");
    b.node("Identity", {"b"}, {"y"});
    b.node("Thing", {"c"}, {"z"}).set_domain("far.away");
    b.output("y").output("z");
    auto r = b.import_with();
    const auto& f = std::get<ImportFailure>(r);
    EXPECT_FALSE(f.malformed);
    EXPECT_EQ(f.unsupported.size(), 4u);
    EXPECT_EQ(render(f.diagnostic),
              "error: The model cannot be imported: 4 nodes are not supported.\n"
              "  = note: NoSuchOp ('first', 'third'): there is no declaration for this operator.\n"
              "  = note: Other ('second'): there is no declaration for this operator.\n"
              "  = note: Thing ('z'): its domain 'far.away' is not known, and the model defines no such function.\n"
              "  = next: Export the model without these operators, or add a declaration and a binding for them.");
}

TEST(GraphImport, InputsThatAreNoTensorsAreNamed) {
    ModelBuilder b;
    auto& v = *b.graph().add_input();
    v.set_name("s");
    v.mutable_type()->mutable_sequence_type();
    b.input("x", DType::F32, {});
    b.graph().mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(8);
    b.node("Identity", {"s"}, {"y"});
    b.output("y");
    auto r = b.import_with();
    const auto& f = std::get<ImportFailure>(r);
    ASSERT_EQ(f.unsupported.size(), 2u);
    EXPECT_EQ(f.unsupported[0].reason, "its type is sequence; tensors of bool, integers and floats are supported");
    EXPECT_EQ(f.unsupported[1].reason, "its type is string; tensors of bool, integers and floats are supported");
}

TEST(GraphImport, AnInputWithoutARankAsksForItsShape) {
    ModelBuilder b;
    b.input("x", DType::F32, {});
    b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    b.node("Shape", {"x"}, {"y"});
    b.output("y");
    auto r = b.import_with();
    EXPECT_THAT(std::get<ImportFailure>(r).needs_shape, testing::ElementsAre("x"));
    EXPECT_EQ(std::get<ImportFailure>(r).diagnostic.message, "The model does not say how many dims its input 'x' has.");
    ImportOptions o;
    o.input_shapes["x"] = {2, -1};
    EXPECT_EQ(outcome(b, o),
              "graph test(x: f32[2, x_1])\n    y: i64[2] = shape_value()    # Shape y\n    return y: i64[2]\n");
}

TEST(GraphImport, WrongModelsSayWhatIsWrong) {
    const auto model = [](auto&& fill) {
        ModelBuilder b;
        b.input("x", DType::F32, {"N"});
        fill(b);
        return outcome(b);
    };
    EXPECT_EQ(model([](ModelBuilder&) {}), malformed("it has no outputs"));
    EXPECT_EQ(model([](ModelBuilder& b) { b.output("y"); }), malformed("its output 'y' is computed by no node"));
    EXPECT_EQ(model([](ModelBuilder& b) {
                  b.node("Identity", {"nowhere"}, {"y"}).set_name("id");
                  b.output("y");
              }),
              malformed("the node 'id' (Identity) reads 'nowhere', which nothing computes"));
    EXPECT_EQ(model([](ModelBuilder& b) {
                  b.node("Identity", {"x"}, {"y"});
                  b.node("Identity", {"x"}, {"y"});
                  b.output("y");
              }),
              malformed("the name 'y' is given to two values"));
    EXPECT_EQ(model([](ModelBuilder& b) { b.constant("w", ints({1})).constant("w", ints({1})).output("w"); }),
              malformed("the name 'w' is given to two values"));
    EXPECT_EQ(model([](ModelBuilder& b) { b.input("z", DType::F32, {int64_t{-2}}).output("x"); }),
              malformed("dim 0 of its input 'z' is -2"));
    EXPECT_EQ(model([](ModelBuilder& b) { b.input("z", DType::F32, std::vector<Dim>(40, "d")).output("x"); }),
              malformed("its input 'z' has 40 dims"));
    EXPECT_EQ(model([](ModelBuilder& b) { ModelBuilder::declare(*b.graph().add_output(), "x", DType::I64, {"N"}); }),
              malformed("its output 'x' is declared as i64 and computed as f32"));
    EXPECT_EQ(model([](ModelBuilder& b) {
                  b.model.mutable_opset_import()->Clear();
                  b.node("Identity", {"x"}, {"y"});
                  b.output("y");
              }),
              malformed("it imports no version of the domain ai.onnx"));
    EXPECT_EQ(parse_bytes("not a model").error().message, "The model is no ONNX model, or is damaged or cut off.");
    EXPECT_EQ(parse_bytes("").error().message, "The model holds no ONNX graph.");
    EXPECT_EQ(model([](ModelBuilder& b) {
                  auto& a = *b.node("Shape", {"x"}, {"y"}).add_attribute();
                  a.set_name("start");
                  a.set_type(1);
                  a.set_f(1);
                  b.output("y");
              }),
              "The model cannot be imported: 1 node is not supported.");
}

// A float that no integer holds; found by fuzzing.
TEST(GraphImport, ScalesBeyondAllExtentsAreRefused) {
    for (const Dim& extent : {Dim{int64_t{4}}, Dim{"N"}})
        for (const double scale : {3.9e28, 1e300, std::numeric_limits<double>::infinity(), std::nan(""), -1.0, 0.0}) {
            ModelBuilder b(13);
            b.input("x", DType::F32, {extent});
            b.constant("scales", make_tensor(DType::F32, {1}, {scale}));
            b.node("Resize", {"x", "", "scales"}, {"y"});
            b.output("y");
            EXPECT_EQ(outcome(b), "The model cannot be imported: 1 node is not supported.") << scale;
        }
}

TEST(GraphImport, EveryPrefixOfAModelIsRefusedOrImported) {
    ModelBuilder b;
    b.input("x", DType::F32, {"N", int64_t{3}});
    b.constant("w", ints({1, 2}));
    b.node("Shape", {"x"}, {"s"});
    b.node("Add", {"s", "w"}, {"y"});
    b.output("y");
    const std::string bytes = b.bytes();
    for (size_t n = 0; n < bytes.size(); ++n) {
        auto m = parse_bytes(bytes.substr(0, n));
        if (m.ok()) (void)import(**m, {});
    }
}

TEST(GraphImport, DeclaredInputsAndOutputs) {
    ModelBuilder b;
    b.input("x", DType::F16, {"batch size", "?"}).input("w", DType::I64, {int64_t{2}});
    b.constant("w", ints({1, 2}));
    ModelBuilder::declare(*b.graph().add_output(), "w", DType::I64, {"batch size"});
    auto m = parse_bytes(b.bytes());
    const auto in = model_inputs(**m);
    ASSERT_EQ(in.size(), 1u);  // w has its value
    EXPECT_EQ(in[0].name, "x");
    EXPECT_EQ(in[0].dtype, DType::F16);
    EXPECT_EQ(in[0].shape[0].str() + " " + in[0].shape[1].str(), "batch_size x_1");
    EXPECT_EQ(model_outputs(**m)[0].shape[0].str(), "batch_size");
}

}  // namespace
}  // namespace opwright::graph::onnx
