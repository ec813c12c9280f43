// The Ascend C target: its sources as people read them, and the functions it brings along for the scalar unit.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "lang/library.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "target/ascend/ascend.h"
#include "target/ascend/helpers.h"
#include "target/ascend/scalar.h"
#include "target/ascend/simulate.h"
#include "target/host_compiler.h"

namespace opwright::target::ascend {
namespace {

// The first example of an operator with a symbol for every extent but 1, as `emit` takes it.
math::Program first_example(const lang::Library& library, const std::string& op) {
    const auto examples = library.examples(*library.find(op));
    EXPECT_TRUE(examples.ok() && !examples->empty()) << op;
    std::vector<lang::Argument> open = (*examples)[0].arguments;
    for (lang::Argument& a : open)
        for (math::Sym& s : a.shape)
            if (const auto c = s.constant(); c && *c != 1) s = math::Sym::symbol("n" + std::to_string(*c));
    const auto p = library.elaborate(op, open, (*examples)[0].attributes);
    EXPECT_TRUE(p.ok()) << op;
    return math::inline_temporaries(math::drop_unit_variables(*p)).program;
}

class Golden : public testing::TestWithParam<const char*> {};

// The emitted kernels, word for word. OPWRIGHT_UPDATE_GOLDEN=1 writes the files anew: read what changed.
TEST_P(Golden, IsAsItWasRead) {
    const std::string op = GetParam();
    std::ifstream source(std::string(OPWRIGHT_SOURCE_DIR) + "/examples/" + op + ".op");
    lang::Library own;
    if (source) {
        const std::string text{std::istreambuf_iterator<char>(source), {}};
        ASSERT_TRUE(own.add(std::make_shared<const Source>(Source{op + ".op", text})).ok());
    }
    const math::Program p = first_example(source ? own : lang::Library::standard(), op);
    const auto e = ascend_target().emit(p, {});
    ASSERT_TRUE(e.ok()) << e.error().message;
    const std::string path = std::string(OPWRIGHT_SOURCE_DIR) + "/tests/golden/ascend/" + op + "_kernel.h";
    if (const char* update = std::getenv("OPWRIGHT_UPDATE_GOLDEN"); update && *update)
        std::ofstream(path) << e->files[0].text;
    std::ifstream in(path);
    const std::string want{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(e->files[0].text, want) << path << ": OPWRIGHT_UPDATE_GOLDEN=1 writes it anew";
}

INSTANTIATE_TEST_SUITE_P(Ascend, Golden,
                         testing::Values("relu", "softmax", "matmul_prelu", "sobel", "layer_norm", "transpose",
                                         "gather", "add"),
                         [](const auto& i) { return i.param; });

TEST(AscendTarget, SaysWhatTheChipHasNot) {
    const auto& library = lang::Library::standard();
    auto examples = library.examples(*library.find("relu"));
    ASSERT_TRUE(examples.ok());
    std::vector<lang::Argument> a = (*examples)[0].arguments;
    a[0].dtype = DType::F64;
    const auto p = library.elaborate("relu", a, {});
    ASSERT_TRUE(p.ok());
    const auto e = ascend_target().emit(*p, {});
    ASSERT_FALSE(e.ok());
    EXPECT_NE(e.error().message.find("f64"), std::string::npos) << e.error().message;
}

// The test that goes with emitted kernels: it passes on the simulator, and fails for kernels that compute otherwise.
class EmittedTest : public testing::TestWithParam<const char*> {};

TEST_P(EmittedTest, PassesAndCanFail) {
    const auto e = ascend_target().emit(first_example(lang::Library::standard(), GetParam()), {});
    ASSERT_TRUE(e.ok()) << e.error().message;
    const auto folder =
        std::filesystem::temp_directory_path() / fmt::format("opwright-ascend-{}-{}", GetParam(), getpid());
    std::filesystem::create_directories(folder);
    std::string test, kernels;
    for (const SourceFile& f : e->files) {
        std::ofstream(folder / f.path) << f.text;
        if (f.path.ends_with("_test.cpp")) test = f.path;
        if (f.path.ends_with("_kernel.h")) kernels = f.text;
    }
    ASSERT_FALSE(test.empty());
    const auto passed = run_source((folder / test).string(), {});
    ASSERT_TRUE(passed.ok()) << passed.error().message;
    EXPECT_EQ(*passed, 0);
    // One instruction does something else.
    const size_t at = kernels.find("Mul", kernels.find("void Compute"));
    ASSERT_NE(at, std::string::npos);
    kernels.replace(at, 3, "Add");
    std::ofstream(folder / (std::string(GetParam()) + "_kernel.h")) << kernels;
    const auto failed = run_source((folder / test).string(), {});
    ASSERT_TRUE(failed.ok()) << failed.error().message;
    EXPECT_NE(*failed, 0);
    std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Ascend, EmittedTest, testing::Values("silu", "layer_norm"),
                         [](const auto& i) { return i.param; });

TEST(AscendSchedule, OfAPersonIsTakenOrRefusedByName) {
    const math::Program relu = first_example(lang::Library::standard(), "relu");
    const auto text = ascend_target().level(relu, "schedule-json", {});
    ASSERT_TRUE(text.ok());
    EmitOptions o;
    const auto with_tile = [&](const std::string& tile) {
        o.schedule = *text;
        const std::string key = "\"tile\": ";
        const size_t blocks = o.schedule.find("\"blocks\""), at = o.schedule.find(key, blocks) + key.size();
        o.schedule.replace(at, o.schedule.find_first_of("\n,}", at) - at, tile);
        return ascend_target().emit(relu, o);
    };
    const auto taken = with_tile("1024");
    ASSERT_TRUE(taken.ok()) << taken.error().message;
    EXPECT_NE(taken->files[0].text.find("int64_t maxTile = 1024)"), std::string::npos) << taken->files[0].text;
    const auto large = with_tile("32768");
    ASSERT_FALSE(large.ok());
    EXPECT_EQ(
        large.error().message,
        "The schedule of y (nest 0): tiles of 32768 elements take 524288 bytes of unified buffer, and it has 188416 "
        "(inQueueX 262144, outQueueY 262144).");
    const auto small = with_tile("32");
    ASSERT_FALSE(small.ok());
    EXPECT_NE(small.error().message.find("tiles of 32 along index"), std::string::npos) << small.error().message;
}

// A person's own source, clean and with a fault in it.
TEST(AscendTarget, RunsSourcesOfPeople) {
    if (host_compiler(true).empty()) GTEST_SKIP() << "no C++ compiler";
    const std::string path = testing::TempDir() + "own_kernel.cpp";
    std::ofstream(path) << R"(#include "kernel_operator.h"
using namespace AscendC;
__global__ __aicore__ void twice(GM_ADDR x, int32_t n)
{
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
    GlobalTensor<float> gm;
    gm.SetGlobalBuffer((__gm__ float *)x, 64);
    pipe.InitBuffer(queue, 1, 256);
    LocalTensor<float> t = queue.AllocTensor<float>();
    DataCopy(t, gm, n);
    queue.EnQue(t);
    t = queue.DeQue<float>();
    DataCopy(gm, t, n);
    queue.FreeTensor(t);
}
int main(int argc, char **)
{
    float x[64] = {1, 2, 3};
    ascend_sim::Device device;
    device.add("x", x, sizeof x, true, true);
    return static_cast<int>(device.launch(1, [&] { twice((GM_ADDR)x, argc > 1 ? 60 : 64); }).size());
}
)";
    const auto clean = run_source(path, {});
    ASSERT_TRUE(clean.ok()) << clean.error().message;
    EXPECT_EQ(*clean, 0);
    const auto ragged = run_source(path, {"short"});  // 240 bytes are no multiple of 32
    ASSERT_TRUE(ragged.ok());
    EXPECT_EQ(*ragged, 1);
    EXPECT_FALSE(run_source(path + ".none", {}).ok());
}

// Whether f(a, b) may be `got`: within the error that the library allows the function.
bool within_ulps(math::Fn f, float a, float b, float got) {
    const double in[2] = {a, b};
    const double want = math::apply(f, std::span<const double>(in, 2));
    const float rounded = static_cast<float>(want);
    if (std::isnan(want)) return std::isnan(got);
    if (rounded == got) return want != 0 || std::signbit(want) == std::signbit(got);
    if (std::isinf(rounded) || std::isinf(got))
        return std::isinf(rounded) && std::fabs(got) > 3.4e38f && std::signbit(got) == std::signbit(rounded);
    const double ulp = std::max(std::ldexp(1.0, std::ilogb(want) - 23), 0x1p-149);
    return std::fabs(got - want) <= math::info(f).ulps * ulp;
}
std::vector<float> special_floats() {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    return {0.0f, -0.0f, 1.0f,   -1.0f,   0.5f,  -0.5f,  2.0f,            3.0f,  inf,     -inf,
            nan,  1e-45f, -1e-45f, 1e38f, -3e38f, 0x1.fffffep-127f, 88.7f, -104.0f, 1e5f};
}
// A float of any exponent.
float any_float(std::mt19937& random) {
    const uint32_t bits = random();
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
}

// Every function without an instruction, on floats of all magnitudes and on special values, within the error that the
// library allows it.
TEST(AscendTarget, ScalarFunctionsAreWithinTheirBounds) {
    if (host_compiler(true).empty()) GTEST_SKIP() << "no C++ compiler";
    using math::Fn;
    const Fn one[] = {Fn::Sign, Fn::Floor, Fn::Ceil,  Fn::Round, Fn::Trunc, Fn::Exp,   Fn::Exp2,  Fn::Expm1,
                      Fn::Log,  Fn::Log2,  Fn::Log1p, Fn::Sin,   Fn::Cos,   Fn::Tan,   Fn::Asin,  Fn::Acos,
                      Fn::Atan, Fn::Sinh,  Fn::Cosh,  Fn::Tanh,  Fn::Asinh, Fn::Acosh, Fn::Atanh, Fn::Erf};
    const Fn two[] = {Fn::Pow, Fn::Atan2, Fn::Fmod, Fn::Mod, Fn::Max, Fn::Min};
    std::set<std::string> names;
    std::string cases;
    for (Fn f : one)
        names.insert(Scalar::function_name(f)),
            cases += "case " + std::to_string(static_cast<int>(f)) + ": return " + Scalar::function_name(f) + "(a);\n";
    for (Fn f : two)
        names.insert(Scalar::function_name(f)), cases += "case " + std::to_string(static_cast<int>(f)) + ": return " +
                                                         Scalar::function_name(f) + "(a, b);\n";
    const std::string text = "#include <cstdint>\n#include <cmath>\n#define __aicore__\nusing std::sqrt;\n" +
                             helper_text(names) + "extern \"C\" float call(int f, float a, float b) { switch (f) {\n" +
                             cases + "} return 0; }\n";
    const auto library =
        build_shared_library({{"functions.cpp", text}}, "functions.cpp", {"-std=c++17", "-O1", "-ffp-contract=off"});
    ASSERT_TRUE(library.ok()) << library.error().message;
    auto* call = reinterpret_cast<float (*)(int, float, float)>((*library)->symbol("call"));

    std::mt19937 random(7);
    const std::vector<float> special = special_floats();
    const auto check = [&](Fn f, float a, float b) { return within_ulps(f, a, b, call(static_cast<int>(f), a, b)); };
    const auto any = [&] { return any_float(random); };
    std::uniform_real_distribution<float> near(-8, 8), unit(-1, 1);
    for (Fn f : one) {
        int wrong = 0;
        for (int i = 0; i < 30000; ++i) {
            const float a = i < static_cast<int>(special.size()) ? special[i]
                            : i % 3 == 0                         ? any()
                            : i % 3 == 1                         ? near(random)
                                                                 : unit(random);
            if (!check(f, a, 0) && ++wrong <= 3)
                ADD_FAILURE() << math::info(f).name << "(" << a << ") is " << call(static_cast<int>(f), a, 0);
        }
    }
    for (Fn f : two) {
        int wrong = 0;
        for (int i = 0; i < 30000; ++i) {
            const size_t n = special.size(), k = static_cast<size_t>(i);
            const float a = k < n * n ? special[k / n]
                            : i % 2   ? any()
                                      : near(random),
                        b = k < n * n   ? special[k % n]
                            : i % 4 < 2 ? any()
                                        : near(random);
            if (!check(f, a, b) && ++wrong <= 3)
                ADD_FAILURE() << math::info(f).name << "(" << a << ", " << b << ") is "
                              << call(static_cast<int>(f), a, b);
        }
    }
}

// The same for functions that are sequences of vector instructions, as emitted kernels on the simulator.
TEST(AscendTarget, VectorFunctionsAreWithinTheirBounds) {
    if (host_compiler(true).empty()) GTEST_SKIP() << "no C++ compiler";
    const std::pair<const char*, math::Fn> functions[] = {
        {"tanh", math::Fn::Tanh}, {"erf", math::Fn::Erf}, {"expm1", math::Fn::Expm1}, {"log1p", math::Fn::Log1p}};
    std::mt19937 random(11);
    std::uniform_real_distribution<float> near(-8, 8), unit(-1, 1);
    Tensor x(DType::F32, {40, 1001});
    float* in = static_cast<float*>(x.data());
    const std::vector<float> special = special_floats();
    for (int64_t i = 0; i < x.size(); ++i)
        in[i] = i < static_cast<int64_t>(special.size()) ? special[static_cast<size_t>(i)]
                : i % 3 == 0                             ? any_float(random)
                : i % 3 == 1                             ? near(random)
                                                         : unit(random);
    for (const auto& [name, fn] : functions) {
        const math::Program p = first_example(lang::Library::standard(), name);
        const auto e = ascend_target().emit(p, {});
        ASSERT_TRUE(e.ok()) << e.error().message;
        EXPECT_EQ(e->files[0].text.find("SetValue"), std::string::npos) << name << " goes element by element";
        const auto built = ascend_target().build(p, {});
        ASSERT_TRUE(built.ok()) << built.error().message;
        std::vector<Tensor> out{Tensor(DType::F32, x.shape())};
        const Status ran = (*built)->run({{"n2", 40}, {"n3", 1001}}, {x}, out);
        ASSERT_TRUE(ran.ok()) << ran.error().message;
        const float* got = static_cast<const float*>(out[0].data());
        int wrong = 0;
        for (int64_t i = 0; i < x.size(); ++i)
            if (!within_ulps(fn, in[i], 0, got[i]) && ++wrong <= 3)
                ADD_FAILURE() << name << "(" << in[i] << ") is " << got[i];
    }
}

// An operator of the library for the simulator, whose kernel must not go element by element.
std::unique_ptr<Runnable> built_in_blocks(const std::string& op, const lang::Argument& x,
                                          const lang::Attributes& attributes) {
    const auto p = lang::Library::standard().elaborate(op, {x}, attributes);
    EXPECT_TRUE(p.ok()) << op;
    const math::Program q = math::inline_temporaries(math::drop_unit_variables(*p)).program;
    const auto e = ascend_target().emit(q, {});
    EXPECT_TRUE(e.ok() && e->files[0].text.find("++lane") == std::string::npos) << op << " goes element by element";
    auto built = ascend_target().build(q, {});
    EXPECT_TRUE(built.ok()) << built.error().message;
    return built.ok() ? std::move(*built) : nullptr;
}

// Blocks are turned, with ragged tails of rows and lanes, for elements of both widths.
TEST(AscendTarget, TransposesTurnBlocks) {
    if (host_compiler(true).empty()) GTEST_SKIP() << "no C++ compiler";
    const math::Sym a = math::Sym::symbol("a"), b = math::Sym::symbol("b"), c = math::Sym::symbol("c");
    for (const DType t : {DType::F32, DType::BF16}) {
        const auto kernel = built_in_blocks("transpose", {t, {a, b, c}}, {{"perm", std::vector<math::Sym>{2, 1, 0}}});
        ASSERT_TRUE(kernel);
        for (const auto& [rows, columns] :
             {std::pair<int64_t, int64_t>{1, 1}, {3, 70}, {70, 3}, {65, 129}, {200, 33}}) {
            Tensor x(t, {2, rows, columns});
            for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i % 251));
            std::vector<Tensor> y{Tensor(t, {columns, rows, 2})};
            const Status s = kernel->run({{"a", 2}, {"b", rows}, {"c", columns}}, {x}, y);
            ASSERT_TRUE(s.ok()) << s.error().message;
            int wrong = 0;
            for (int64_t i = 0; i < 2; ++i)
                for (int64_t j = 0; j < rows; ++j)
                    for (int64_t k = 0; k < columns; ++k)
                        wrong += x.get((i * rows + j) * columns + k) != y[0].get((k * rows + j) * 2 + i);
            EXPECT_EQ(wrong, 0) << opwright::name(t) << " " << rows << " x " << columns;
        }
    }
}

// The first of equals along several tiles, where NaN is beyond every number and zeros are equal.
TEST(AscendTarget, PositionsOfExtremesAreFoundByInstructions) {
    if (host_compiler(true).empty()) GTEST_SKIP() << "no C++ compiler";
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    constexpr int64_t n = 150;
    const std::vector<std::map<int64_t, float>> rows = {{{5, 9.0f}, {70, 9.0f}, {149, 9.0f}},
                                                        {{149, 1.0f}},
                                                        {{3, inf}, {20, nan}, {100, inf}, {120, nan}},
                                                        {{90, inf}, {100, inf}},
                                                        {{0, nan}},
                                                        {{64, -inf}, {80, nan}},
                                                        {{10, -inf}, {11, -inf}, {130, -inf}},
                                                        {}};
    for (const bool largest : {true, false}) {
        const auto kernel =
            built_in_blocks(largest ? "arg_max" : "arg_min",
                            {DType::F32, {math::Sym::symbol("r"), math::Sym::symbol("n")}}, {{"axis", math::Sym(1)}});
        ASSERT_TRUE(kernel);
        for (const float rest : {0.0f, -0.0f, -inf, inf}) {
            Tensor x(DType::F32, {static_cast<int64_t>(rows.size()), n});
            std::vector<int64_t> want;
            for (size_t r = 0; r < rows.size(); ++r) {
                int64_t best = 0;
                const auto value = [&](int64_t i) {
                    const auto it = rows[r].find(i);
                    const float zero = i % 2 ? -rest : rest;  // zeros of both signs
                    return it != rows[r].end() ? it->second : rest == 0 ? zero : rest;
                };
                for (int64_t i = 0; i < n; ++i) {
                    const float v = value(i), w = value(best);
                    x.set(static_cast<int64_t>(r) * n + i, v);
                    if (!std::isnan(w) && (std::isnan(v) || (largest ? v > w : v < w))) best = i;
                }
                want.push_back(best);
            }
            std::vector<Tensor> y{Tensor(DType::I64, {static_cast<int64_t>(rows.size())})};
            const Status s = kernel->run({{"r", x.shape()[0]}, {"n", n}}, {x}, y);
            ASSERT_TRUE(s.ok()) << s.error().message;
            for (size_t r = 0; r < rows.size(); ++r)
                EXPECT_EQ(y[0].get_int(static_cast<int64_t>(r)), want[r]) << largest << " row " << r << " of " << rest;
        }
    }
}

}  // namespace
}  // namespace opwright::target::ascend
