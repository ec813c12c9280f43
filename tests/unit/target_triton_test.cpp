// The Triton target: its sources as people read them, and schedules that a person hands in.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "derive/gradient.h"
#include "lang/library.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "target/triton/triton.h"

namespace opwright::target::triton {
namespace {

// The operator with a symbol for every extent, as `emit` takes it.
math::Program open_program(const std::string& op) {
    std::ifstream source(std::string(OPWRIGHT_SOURCE_DIR) + "/examples/" + op + ".op");
    lang::Library own;
    if (source) {
        const std::string text{std::istreambuf_iterator<char>(source), {}};
        EXPECT_TRUE(own.add(std::make_shared<const Source>(Source{op + ".op", text})).ok());
    }
    const auto p = (source ? own : lang::Library::standard()).elaborate_symbolic(op);
    EXPECT_TRUE(p.ok()) << op;
    return math::inline_temporaries(math::drop_unit_variables(*p)).program;
}

class TritonGolden : public testing::TestWithParam<const char*> {};

// The emitted files, word for word. OPWRIGHT_UPDATE_GOLDEN=1 writes them anew: read what changed.
TEST_P(TritonGolden, IsAsItWasRead) {
    const auto e = triton_target().emit(open_program(GetParam()), {});
    ASSERT_TRUE(e.ok()) << e.error().message;
    const std::string path = std::string(OPWRIGHT_SOURCE_DIR) + "/tests/golden/triton/" + GetParam() + ".py";
    if (const char* update = std::getenv("OPWRIGHT_UPDATE_GOLDEN"); update && *update)
        std::ofstream(path) << e->files[0].text;
    std::ifstream in(path);
    const std::string want{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(e->files[0].text, want) << path << ": OPWRIGHT_UPDATE_GOLDEN=1 writes it anew";
}

INSTANTIATE_TEST_SUITE_P(Library, TritonGolden,
                         testing::Values("arg_max", "conv", "gather", "gelu_tanh", "layer_norm", "matmul",
                                         "matmul_prelu", "max_pool", "scatter_elements", "sobel", "softmax"),
                         [](const auto& i) { return i.param; });

// A file's own check has sizes to check at, also where indices are data or extents must fit each other.
TEST(TritonTarget, ItsChecksHaveSizes) {
    for (const char* op : {"affine_grid", "conv_causal", "gather", "gather_elements", "gather_nd", "rotary",
                           "scatter_elements", "scatter_nd"}) {
        const auto e = triton_target().emit(open_program(op), {});
        ASSERT_TRUE(e.ok()) << e.error().message;
        EXPECT_EQ(e->files[0].text.find(" in []:"), std::string::npos) << op;
    }
}

// A kernel has one name, where it is launched, asked about and defined, whatever the declaration's own names are.
TEST(TritonTarget, KernelsGiveWayToNamesOfTheDeclaration) {
    lang::Library own;
    ASSERT_TRUE(own.add(std::make_shared<const Source>(Source{
                            "f.op", "op f(f_shared_kernel[m,n]) -> y[m,n]:\n    y = softmax(f_shared_kernel; axes = [1])\n"}))
                    .ok());
    const auto p = own.elaborate_symbolic("f");
    ASSERT_TRUE(p.ok());
    const auto e = triton_target().emit(math::inline_temporaries(math::drop_unit_variables(*p)).program, {});
    ASSERT_TRUE(e.ok()) << e.error().message;
    const std::string& text = e->files[0].text;
    EXPECT_EQ(text.find("def f_shared_kernel("), std::string::npos) << text;
    EXPECT_EQ(text.find("_resident(f_shared_kernel,"), std::string::npos) << text;
    EXPECT_EQ(text.find("f_shared_kernel[grid]"), std::string::npos) << text;
    EXPECT_NE(text.find("_resident(f_shared_kernel_1,"), std::string::npos) << text;
    EXPECT_NE(text.find("def f_shared_kernel_1("), std::string::npos) << text;
}

// A tuple of one whose call is too long for a line: the gradient of max_pool has such a check.
TEST(TritonTarget, BreaksTuplesOfOne) {
    const auto g = derive::gradient(open_program("max_pool"), {}, {.save = true});
    ASSERT_TRUE(g.ok()) << render(g.error());
    const auto e = triton_target().emit(math::inline_temporaries(math::drop_unit_variables(g->program)).program, {});
    ASSERT_TRUE(e.ok()) << e.error().message;
    std::istringstream lines(e->files[0].text);
    bool broken = false;
    for (std::string line; std::getline(lines, line);) {
        const size_t first = line.find_first_not_of(' ');
        EXPECT_NE(first == std::string::npos ? "" : line.substr(first), ",") << e->files[0].text;
        broken |= line.find_first_not_of(' ') == line.find("max_pool_gradient(") && line.ends_with("(");
    }
    EXPECT_TRUE(broken) << e->files[0].text;
}

// Where two axes of a row are held, the bound on a block's size must not cut the second.
TEST(TritonTarget, HoldsWholeAxesWhole) {
    const auto e = triton_target().emit(open_program("dft"), {});
    ASSERT_TRUE(e.ok()) << e.error().message;
    EXPECT_NE(e->files[0].text.find("BLOCK_A0 = triton.next_power_of_2(max(A0, 1))\n"), std::string::npos)
        << e->files[0].text;
}

nlohmann::json default_schedule(const math::Program& p) {
    const auto text = triton_target().level(p, "schedule-json", {});
    EXPECT_TRUE(text.ok());
    return nlohmann::json::parse(*text);
}
Result<Emission> with(const math::Program& p, const nlohmann::json& schedule) {
    EmitOptions o;
    o.schedule = schedule.dump();
    return triton_target().emit(p, o);
}

TEST(TritonSchedule, OfAPersonIsTaken) {
    const math::Program softmax = open_program("softmax");
    nlohmann::json s = default_schedule(softmax);
    const auto unchanged = with(softmax, s);
    ASSERT_TRUE(unchanged.ok()) << unchanged.error().message;
    // Rows in steps of 256, by 2 warps: the kernel that walks, and no other.
    s["nests"][0]["blocks"].back()["tile"] = 256;
    s["nests"][0]["warps"] = 2;
    const auto e = with(softmax, s);
    ASSERT_TRUE(e.ok()) << e.error().message;
    const std::string& text = e->files[0].text;
    EXPECT_NE(text.find("256)\n"), std::string::npos) << text;
    EXPECT_NE(text.find("num_warps=2"), std::string::npos) << text;
    EXPECT_EQ(text.find("_steps_kernel"), std::string::npos) << text;

    const math::Program product = open_program("matmul_prelu");
    s = default_schedule(product);
    s["nests"][0]["contract"] = {{"mt", 32}, {"nt", 128}, {"kc", 64}};
    s["nests"][0]["stages"] = 2;
    const auto f = with(product, s);
    ASSERT_TRUE(f.ok()) << f.error().message;
    EXPECT_NE(f->files[0].text.find("BLOCK_N = min(triton.next_power_of_2(max(N, 16)), 128)"), std::string::npos);
    EXPECT_NE(f->files[0].text.find("num_stages=2"), std::string::npos);
}

TEST(TritonSchedule, ThatBreaksALimitIsRefusedByName) {
    const auto refusal = [](const math::Program& p, const nlohmann::json& s) {
        const auto e = with(p, s);
        return e.ok() ? std::string("taken") : e.error().message;
    };
    const math::Program product = open_program("matmul_prelu"), softmax = open_program("softmax");
    const nlohmann::json of_product = default_schedule(product), of_softmax = default_schedule(softmax);
    nlohmann::json s = of_product;
    s["nests"][0]["contract"] = {{"mt", 512}, {"nt", 512}, {"kc", 32}};
    EXPECT_EQ(
        refusal(product, s),
        "The schedule of y (nest 0): a block of 512 x 512 x 32 keeps 1024 sums in each of 256 threads, which have "
        "255 registers.");
    s = of_product;
    s["nests"][0]["contract"]["kc"] = 1024;
    EXPECT_EQ(
        refusal(product, s),
        "The schedule of y (nest 0): a block of 64 x 64 x 1024 in 3 stages takes 1572864 bytes of shared memory, and "
        "a program has 232448.");
    s = of_product;
    s["nests"][0]["contract"]["kc"] = 24;
    EXPECT_NE(refusal(product, s).find("64 x 64 x 24"), std::string::npos) << refusal(product, s);
    s = of_softmax;
    s["nests"][0]["warps"] = 3;
    EXPECT_EQ(refusal(softmax, s), "The schedule of y (nest 0): 3 warps.");
    s = of_softmax;
    s["nests"][0]["blocks"][0]["tile"] = 48;
    EXPECT_NE(refusal(softmax, s).find("power of two"), std::string::npos) << refusal(softmax, s);
    s = of_softmax;
    s["nests"][0]["blocks"][0]["index"] = "elsewhere";
    EXPECT_NE(refusal(softmax, s).find("elsewhere"), std::string::npos) << refusal(softmax, s);
}

}  // namespace
}  // namespace opwright::target::triton
