// Shape arithmetic of models, evaluated symbolically at import.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_model_builder.h"

namespace opwright::graph::onnx {
namespace {

// The content of the output "y" of a model over x: f32[N, 3, H, 2*..], as text; or why there is none.
struct ContentModel : ModelBuilder {
    explicit ContentModel(int64_t opset = 17) : ModelBuilder(opset) {
        input("x", DType::F32, {"N", int64_t{3}, "H", int64_t{-1}});
        node("Shape", {"x"}, {"s"});
    }
    std::string result(const std::string& output = "y") {
        ModelBuilder b = *this;
        b.output(output);
        auto r = b.import_with();
        if (auto* f = std::get_if<ImportFailure>(&r)) return render(f->diagnostic);
        const Graph& g = std::get<Graph>(r);
        EXPECT_THAT(verify(g), testing::IsEmpty());
        const Value& v = g.values[g.outputs[0]];
        if (!v.content) return "no content";
        std::string s = std::string(name(v.dtype)) + "[";
        for (size_t i = 0; i < v.shape.size(); ++i) s += (i ? "," : "") + v.shape[i].str();
        s += "]:";
        for (const auto& e : *v.content) s += " " + e.str();
        return s;
    }
};

TEST(GraphContent, ShapeAndItsPieces) {
    ContentModel m;
    EXPECT_EQ(m.result("s"), "i64[4]: N 3 H x_3");
    set_int(m.node("Shape", {"x"}, {"part"}), "start", -2);
    EXPECT_EQ(m.result("part"), "i64[2]: H x_3");
    m.node("Size", {"x"}, {"n"});
    EXPECT_EQ(m.result("n"), "i64[]: 3*H*N*x_3");
}

TEST(GraphContent, GatherSliceConcat) {
    ContentModel m;
    m.constant("zero", scalar(0)).constant("last", ints({-1})).constant("seven", ints({7}));
    m.node("Gather", {"s", "zero"}, {"n"});
    m.constant("axis0", ints({0}));
    m.node("Unsqueeze", {"n", "axis0"}, {"n1"});
    m.node("Gather", {"s", "last"}, {"w1"});
    set_int(m.node("Concat", {"n1", "seven", "w1"}, {"y"}), "axis", 0);
    EXPECT_EQ(m.result(), "i64[3]: N 7 x_3");
    m.constant("from", ints({1})).constant("to", ints({INT64_MAX})).constant("step", ints({2}));
    m.node("Slice", {"s", "from", "to", "axis0", "step"}, {"odd"});
    EXPECT_EQ(m.result("odd"), "i64[2]: 3 x_3");
    m.constant("back", ints({-1})).constant("begin", ints({INT64_MIN}));
    m.node("Slice", {"s", "back", "begin", "axis0", "last"}, {"reversed"});
    EXPECT_EQ(m.result("reversed"), "i64[4]: x_3 H 3 N");
}

TEST(GraphContent, OldOpsetsTakeAttributes) {
    ContentModel m(9);
    auto& slice = m.node("Slice", {"s"}, {"hw"});
    set_ints(slice, "starts", {2});
    set_ints(slice, "ends", {4});
    EXPECT_EQ(m.result("hw"), "i64[2]: H x_3");
    set_ints(m.node("Unsqueeze", {"hw"}, {"u"}), "axes", {0, 2});
    EXPECT_EQ(m.result("u"), "i64[1,2,1]: H x_3");
    set_ints(m.node("Squeeze", {"u"}, {"q"}), "axes", {0});
    EXPECT_EQ(m.result("q"), "i64[2,1]: H x_3");
}

TEST(GraphContent, Arithmetic) {
    ContentModel m;
    m.constant("two", ints({2})).constant("minus", ints({-3}));
    const auto value = [&](const std::string& op, const std::vector<std::string>& in) {
        ContentModel c = m;
        c.node(op, in, {"y"});
        return c.result();
    };
    EXPECT_EQ(value("Mul", {"s", "two"}), "i64[4]: 2*N 6 2*H 2*x_3");
    EXPECT_EQ(value("Add", {"s", "s"}), "i64[4]: 2*N 6 2*H 2*x_3");
    EXPECT_EQ(value("Div", {"s", "two"}), "i64[4]: N//2 1 H//2 x_3//2");
    EXPECT_EQ(value("Mod", {"s", "two"}), "i64[4]: N%2 1 H%2 x_3%2");
    EXPECT_EQ(value("Sub", {"s", "s"}), "i64[4]: 0 0 0 0");
    EXPECT_EQ(value("Div", {"minus", "two"}), "i64[1]: -1");  // toward zero
    EXPECT_EQ(value("Mod", {"minus", "two"}), "i64[1]: 1");   // the divisor's sign
    EXPECT_EQ(value("Max", {"s", "minus", "two"}), "i64[4]: max(2, N) 3 max(2, H) max(2, x_3)");
    EXPECT_EQ(value("Equal", {"s", "minus"}), "bool[4]: 0 0 0 0");  // an extent is never negative
    EXPECT_EQ(value("Greater", {"two", "s"}), "bool[4]: N < 2 0 H < 2 x_3 < 2");
    EXPECT_EQ(value("ReduceProd", {"s"}), "i64[1]: 3*H*N*x_3");
    EXPECT_EQ(value("Neg", {"two"}), "i64[1]: -2");
    // The wrap of the type, for numbers: 2^62 * 2 * 2 is 0.
    m.constant("big", ints({int64_t{1} << 62})).constant("four", ints({4}));
    EXPECT_EQ(value("Mul", {"big", "four"}), "i64[1]: 0");
}

TEST(GraphContent, SelectExpandScatter) {
    ContentModel m;
    m.constant("minus", ints({-1, -1, 3, -1})).constant("one", scalar(-1));
    m.node("Equal", {"minus", "one"}, {"open"});
    m.node("Where", {"open", "s", "minus"}, {"y"});
    EXPECT_EQ(m.result(), "i64[4]: N 3 3 x_3");
    m.constant("shape", ints({2, 4}));
    m.node("Expand", {"s", "shape"}, {"e"});
    EXPECT_EQ(m.result("e"), "i64[2,4]: N 3 H x_3 N 3 H x_3");
    m.node("Transpose", {"e"}, {"t"});
    EXPECT_EQ(m.result("t"), "i64[4,2]: N N 3 3 H H x_3 x_3");
    m.constant("at", ints({1, -1})).constant("updates", ints({8, 9}));
    m.node("ScatterElements", {"s", "at", "updates"}, {"sc"});
    EXPECT_EQ(m.result("sc"), "i64[4]: N 8 H 9");
    m.constant("axis", scalar(0));
    m.node("CumSum", {"s", "axis"}, {"sum"});
    EXPECT_EQ(m.result("sum"), "i64[4]: N N + 3 H + N + 3 H + N + x_3 + 3");
    m.constant("i0", scalar(2)).constant("i1", scalar(8)).constant("i2", scalar(3));
    m.node("Range", {"i0", "i1", "i2"}, {"r"});
    EXPECT_EQ(m.result("r"), "i64[2]: 2 5");
    m.constant("n", ints({3}));
    set_tensor(m.node("ConstantOfShape", {"n"}, {"c"}), "value", ints({6}));
    EXPECT_EQ(m.result("c"), "i64[3]: 6 6 6");
    m.constant("half", make_tensor(DType::F32, {2}, {1.9, -1.9}));
    set_int(m.node("Cast", {"half"}, {"k"}), "to", 6);
    EXPECT_EQ(m.result("k"), "i32[2]: 1 -1");
}

TEST(GraphContent, EqualNamesAreOneSymbolAndNamelessOnesAreNot) {
    ModelBuilder b;
    b.input("a", DType::F32, {"n", "?", ""}).input("b", DType::F32, {"n", "?"});
    b.node("Shape", {"a"}, {"sa"});
    b.node("Shape", {"b"}, {"sb"});
    set_int(b.node("Concat", {"sa", "sb"}, {"y"}), "axis", 0);
    b.output("y");
    auto r = b.import_with();
    const Graph& g = std::get<Graph>(r);
    std::string s;
    for (const auto& e : *g.values[g.outputs[0]].content) s += e.str() + " ";
    EXPECT_EQ(s, "n a_1 a_2 n b_1 ");
    EXPECT_EQ(g.nodes.size(), 1u);  // only the output is computed, all at once
}

TEST(GraphContent, GivenShapesSettleSymbols) {
    ModelBuilder b;
    b.input("a", DType::F32, {"n", int64_t{4}}).input("b", DType::F32, {"n"});
    b.node("Shape", {"b"}, {"y"});
    b.output("y");
    ImportOptions o;
    o.input_shapes["a"] = {5, -1};
    auto r = b.import_with(o);
    const Graph& g = std::get<Graph>(r);
    EXPECT_EQ(g.values[g.outputs[0]].constant->get_int(0), 5);
    o.input_shapes["b"] = {6};
    auto bad = b.import_with(o);
    EXPECT_EQ(std::get<ImportFailure>(bad).diagnostic.message,
              "The shape [6] given for the input 'b' does not fit: the extent 'n' is 5 elsewhere.");
}

}  // namespace
}  // namespace opwright::graph::onnx
