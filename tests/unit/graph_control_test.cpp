// Loops, scans, branches and sequences: settled at import, and the graph computes what they say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_model_builder.h"
#include "verify/graph_reference.h"

namespace opwright::graph::onnx {
namespace {

namespace pb = ::opwright::onnx;

// Imports and runs with the reference; the elements of every output, or why there are none.
std::string run(const ModelBuilder& b, const std::vector<Tensor>& inputs, const ImportOptions& o = {}) {
    auto r = b.import_with(o);
    if (auto* f = std::get_if<ImportFailure>(&r))
        return f->unsupported.empty() ? f->diagnostic.message
                                      : f->unsupported[0].op_type + ": " + f->unsupported[0].reason;
    const Graph& g = std::get<Graph>(r);
    EXPECT_THAT(verify(g), testing::IsEmpty());
    auto out = verify::run_reference(g, inputs);
    if (!out.ok()) return out.error().message;
    std::string s;
    for (const Tensor& t : *out) {
        s += to_string(t.shape());
        for (int64_t i = 0; i < t.size(); ++i) s += " " + std::to_string(t.get_int(i));
        s += "; ";
    }
    return s;
}

Tensor f32(Shape s, std::initializer_list<double> v) { return make_tensor(DType::F32, std::move(s), v); }

pb::GraphProto& body(pb::NodeProto& n, const std::string& name) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(5);
    return *a.mutable_g();
}
void signature(pb::GraphProto& g, const std::vector<std::string>& in, const std::vector<std::string>& out) {
    for (const auto& s : in) g.add_input()->set_name(s);
    for (const auto& s : out) g.add_output()->set_name(s);
}

// Adds x to the state in every turn, and collects the states.
ModelBuilder summing_loop(const std::string& turns, const std::string& condition) {
    ModelBuilder b;
    b.input("x", DType::F32, {int64_t{2}}).input("m", DType::I64, {}).input("c", DType::Bool, {});
    b.constant("three", scalar(3)).constant("many", scalar(5000)).constant("none", scalar(0));
    auto& n = b.node("Loop", {turns, condition, "x"}, {"last", "all"});
    auto& g = body(n, "body");
    signature(g, {"i", "go", "s"}, {"go", "t", "t2"});
    ModelBuilder::add_node(*g.mutable_node(), "Add", {"s", "x"}, {"t"});
    ModelBuilder::add_node(*g.mutable_node(), "Identity", {"t"}, {"t2"});
    b.output("last").output("all");
    return b;
}

TEST(GraphControl, ALoopOfKnownLengthIsUnrolled) {
    const std::vector<Tensor> in = {f32({2}, {1, 10}), scalar(2), make_tensor<int64_t>(DType::Bool, {}, {1})};
    EXPECT_EQ(run(summing_loop("three", ""), in), "[2] 4 40; [3, 2] 2 20 3 30 4 40; ");
    EXPECT_EQ(run(summing_loop("m", ""), in),
              "The model's form depends on the value of its input 'm', which is not known when it is imported.");
    ImportOptions o;
    o.known_inputs["m"] = in[1];
    EXPECT_EQ(run(summing_loop("m", ""), in, o), "[2] 3 30; [2, 2] 2 20 3 30; ");
    EXPECT_EQ(run(summing_loop("three", "c"), in),
              "The model's form depends on the value of its input 'c', which is not known when it is imported.");
    EXPECT_EQ(run(summing_loop("many", ""), in), "Loop: it makes more than 1024 turns, the most that are unrolled");
    EXPECT_EQ(run(summing_loop("none", ""), in),
              "Loop: it joins no tensors, and what the result would be is not known");
}

TEST(GraphControl, ALoopEndsWhereItsConditionSays) {
    ModelBuilder b;
    b.constant("zero", scalar(0))
        .constant("five", scalar(5))
        .constant("yes", make_tensor<int64_t>(DType::Bool, {}, {1}));
    auto& n = b.node("Loop", {"", "yes", "zero"}, {"last"});
    auto& g = body(n, "body");
    signature(g, {"i", "go", "s"}, {"more", "t"});
    ModelBuilder::add_node(*g.mutable_node(), "Add", {"s", "i"}, {"t"});
    ModelBuilder::add_node(*g.mutable_node(), "Less", {"t", "five"}, {"more"});
    b.output("last");
    EXPECT_EQ(run(b, {}), "[] 6; ");  // 0 + 0 + 1 + 2 + 3
}

TEST(GraphControl, AScanGoesOverAnAxisInEitherDirection) {
    const auto model = [](int64_t axis, int64_t backward, const std::vector<Dim>& dims) {
        ModelBuilder b;
        b.input("x", DType::F32, dims).input("s", DType::F32, {});
        auto& n = b.node("Scan", {"s", "x"}, {"last", "all"});
        set_int(n, "num_scan_inputs", 1);
        set_ints(n, "scan_input_axes", {axis});
        set_ints(n, "scan_input_directions", {backward});
        auto& g = body(n, "body");
        signature(g, {"state", "e"}, {"next", "out"});
        auto& sum = ModelBuilder::add_node(*g.mutable_node(), "ReduceSum", {"e"}, {"r"});
        set_int(sum, "keepdims", 0);
        ModelBuilder::add_node(*g.mutable_node(), "Add", {"state", "r"}, {"next"});
        ModelBuilder::add_node(*g.mutable_node(), "Identity", {"next"}, {"out"});
        b.output("last").output("all");
        return b;
    };
    const std::vector<Tensor> in = {f32({2, 3}, {1, 2, 3, 10, 20, 30}), f32({}, {100})};
    EXPECT_EQ(run(model(0, 0, {int64_t{2}, int64_t{3}}), in), "[] 166; [2] 106 166; ");
    EXPECT_EQ(run(model(-1, 1, {int64_t{2}, int64_t{3}}), in), "[] 166; [3] 133 155 166; ");
    EXPECT_EQ(run(model(0, 0, {"N", int64_t{3}}), in), "Scan: it scans the open extent N; give the input's shape");
    ImportOptions o;
    o.input_shapes["x"] = {2, 3};
    EXPECT_EQ(run(model(0, 0, {"N", int64_t{3}}), in, o), "[] 166; [2] 106 166; ");
}

TEST(GraphControl, BranchesOnDataAreBothComputed) {
    ModelBuilder b;
    b.input("x", DType::F32, {"N"}).input("c", DType::Bool, {int64_t{1}});
    auto& n = b.node("If", {"c"}, {"y"});
    for (const auto& [name, op] : {std::pair{"then_branch", "Neg"}, {"else_branch", "Abs"}}) {
        auto& g = body(n, name);
        ModelBuilder::add_node(*g.mutable_node(), op, {"x"}, {std::string(name) + "_y"});
        signature(g, {}, {std::string(name) + "_y"});
    }
    b.output("y");
    const Tensor x = f32({2}, {5, -7});
    EXPECT_EQ(run(b, {x, make_tensor<int64_t>(DType::Bool, {1}, {1})}), "[2] -5 7; ");
    EXPECT_EQ(run(b, {x, make_tensor<int64_t>(DType::Bool, {1}, {0})}), "[2] 5 7; ");
}

TEST(GraphControl, SequencesAreListsOfValues) {
    ModelBuilder b;
    b.input("x", DType::F32, {int64_t{5}, "N"});
    b.constant("two", scalar(2)).constant("one", scalar(1)).constant("last", scalar(-1));
    b.node("SplitToSequence", {"x", "two"}, {"s"});  // 2, 2, 1 rows
    b.node("SequenceAt", {"s", "last"}, {"tail"});
    b.node("SequenceErase", {"s", "one"}, {"e"});           // 2, 1 rows
    b.node("SequenceInsert", {"e", "tail", "one"}, {"i"});  // 2, 1, 1 rows
    b.node("SequenceLength", {"i"}, {"n"});
    set_int(b.node("ConcatFromSequence", {"i"}, {"y"}), "axis", 0);
    b.output("y").output("n");
    EXPECT_EQ(run(b, {f32({5, 1}, {1, 2, 3, 4, 5})}), "[4, 1] 1 2 5 5; [] 3; ");
    ModelBuilder wrong = b;
    wrong.constant("nine", scalar(9));
    wrong.node("SequenceAt", {"s", "nine"}, {"z"});
    wrong.output("z");
    EXPECT_EQ(run(wrong, {}), "SequenceAt: its position lies outside the sequence of 3");
    ModelBuilder plain = b;
    plain.node("Neg", {"s"}, {"z"});
    plain.output("z").output("s");
    auto r = plain.import_with();
    const auto& f = std::get<ImportFailure>(r);
    ASSERT_EQ(f.unsupported.size(), 2u);
    EXPECT_EQ(f.unsupported[0].reason, "its input is a sequence of tensors");
    EXPECT_EQ(f.unsupported[1].reason, "its type is sequence; tensors are supported");
}

}  // namespace
}  // namespace opwright::graph::onnx
