// The runner of ONNX test folders: every verdict, on models made here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "graph_model_builder.h"
#include "io_test_util.h"
#include "verify/onnx_test.h"

namespace opwright::verify {
namespace {

namespace onnx = graph::onnx;
using onnx::ModelBuilder;

void write(const std::filesystem::path& path, const std::string& bytes) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
}

// A case whose model passes x on to y (and its shape to s).
void write_case(const std::filesystem::path& folder, const Tensor& x, const Tensor& y, const Tensor& s,
                const std::string& op = "Identity") {
    ModelBuilder b;
    b.input("x", DType::F32, {"N"});
    b.node(op, {"x"}, {"y"});
    b.node("Shape", {"x"}, {"s"});
    b.output("y").output("s");
    write(folder / "model.onnx", b.bytes());
    write(folder / "test_data_set_0" / "input_0.pb", onnx::tensor_to_proto(x, "x"));
    write(folder / "test_data_set_0" / "output_0.pb", onnx::tensor_to_proto(y, "y"));
    write(folder / "test_data_set_0" / "output_1.pb", onnx::tensor_to_proto(s, "s"));
}

TEST(VerifyOnnxTest, EveryVerdictIsCountedApart) {
    io::ScratchFolder scratch;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto f32 = [](std::initializer_list<double> v) {
        return onnx::make_tensor(DType::F32, {static_cast<int64_t>(v.size())}, v);
    };
    const Tensor s = onnx::ints({3});
    write_case(scratch.path() / "a_pass", f32({1, nan, 0}), f32({1.0005, nan, 0}), s);
    write_case(scratch.path() / "b_value", f32({1, 2, 3}), f32({1, 2, 4}), s);
    write_case(scratch.path() / "c_type", f32({1, 2, 3}), f32({1, 2, 3}),
               onnx::make_tensor<int64_t>(DType::I32, {1}, {3}));
    write_case(scratch.path() / "d_shape", f32({1, 2, 3}), f32({1, 2, 3}).reshaped({1, 3}), s);
    write_case(scratch.path() / "e_operator", f32({1, 2, 3}), f32({1, 2, 3}), s, "NoSuchOperator");
    write(scratch.path() / "f_damaged" / "model.onnx", "\xff\xff");
    write_case(scratch.path() / "g_nan", f32({1, 2, 3}), f32({1, 2, nan}), s);
    OnnxTestOptions o;
    std::vector<std::string> seen;
    o.progress = [&](const CaseResult& c, size_t, size_t total) {
        seen.push_back(c.name);
        EXPECT_EQ(total, 7u);
    };
    auto r = run_onnx_tests({scratch.path().string()}, o);
    ASSERT_TRUE(r.ok());
    std::string text;
    for (const CaseResult& c : r->cases)
        text += c.name + ": " + name(c.verdict) + (c.reason.empty() ? "" : ": " + c.reason) + "\n";
    EXPECT_EQ(
        text,
        "a_pass: pass\n"
        "b_value: wrong: Output 1 of 2 differs in 1 of 3 elements; element 2 is 3.000000 and should be 4.000000.\n"
        "c_type: wrong: Output 2 of 2 is i64 and should be i32.\n"
        "d_shape: wrong: Output 1 of 2 has the shape [3] and should have [1, 3].\n"
        "e_operator: unsupported: The model cannot be imported: 1 node is not supported. "
        "NoSuchOperator ('y'): there is no declaration for this operator.\n"
        "f_damaged: unsupported: The file '" +
            (scratch / "f_damaged/model.onnx") +
            "' is no ONNX model, or is damaged or cut off.\n"
            "g_nan: wrong: Output 1 of 2 differs in 1 of 3 elements; element 2 is 3.000000 and should be nan.\n");
    EXPECT_EQ(seen.size(), 7u);
    const auto j = nlohmann::json::parse(r->json());
    EXPECT_EQ(j["pass"], 1);
    EXPECT_EQ(j["wrong"], 4);
    EXPECT_EQ(j["unsupported"], 2);
    EXPECT_EQ(j["crash"], 0);
    EXPECT_EQ(j["timeout"], 0);
    EXPECT_EQ(j["cases"][1]["name"], "b_value");
    EXPECT_EQ(j["cases"][1]["verdict"], "wrong");
}

TEST(VerifyOnnxTest, ACaseThatDiesOrHangsDoesNotTakeTheOthersAlong) {
    io::ScratchFolder scratch;
    const Tensor s = onnx::ints({1});
    const auto one = [](double v) { return onnx::make_tensor(DType::F32, {1}, {v}); };
    write_case(scratch.path() / "dies", one(1), one(1), s);
    write_case(scratch.path() / "hangs", one(2), one(2), s);
    write_case(scratch.path() / "refuses", one(3), one(3), s);
    OnnxTestOptions o;
    o.timeout_s = 0.2;
    o.run = [](const graph::Graph&, const std::vector<Tensor>& in, bool*) -> Result<std::vector<Tensor>> {
        if (in[0].get(0) == 1) {
            std::fputs("out of luck\n", stderr);
            std::abort();
        }
        if (in[0].get(0) == 2) std::this_thread::sleep_for(std::chrono::seconds(30));
        return Diagnostic("No kernel.");
    };
    auto r = run_onnx_tests({scratch.path().string()}, o);
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->cases[0].reason, "The process died (Aborted): out of luck");
    EXPECT_EQ(r->cases[0].verdict, CaseVerdict::Crash);
    EXPECT_EQ(r->cases[1].reason, "It ran longer than 0.2 s.");
    EXPECT_EQ(r->cases[1].verdict, CaseVerdict::Timeout);
    EXPECT_EQ(r->cases[2].reason, "It was imported and did not run: No kernel.");
    EXPECT_EQ(r->cases[2].verdict, CaseVerdict::Wrong);
}

TEST(VerifyOnnxTest, AFolderWithoutCasesIsAnError) {
    io::ScratchFolder scratch;
    EXPECT_EQ(run_onnx_tests({scratch.path().string()}, {}).error().message,
              "'" + scratch.path().string() + "' holds no ONNX test case.");
    EXPECT_EQ(run_onnx_tests({scratch / "none"}, {}).error().message, "'" + (scratch / "none") + "' is no folder.");
}

}  // namespace
}  // namespace opwright::verify
