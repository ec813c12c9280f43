// Random operators (verify/random_program) through every stage: the level's verifier, the printed declaration read
// back, the reference, and each target's kernel. OPWRIGHT_RANDOM asks for that many of them, OPWRIGHT_RANDOM_SEED for
// others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <set>

#include "cuda_emulated.h"
#include "derive/gradient.h"
#include "lang/declaration.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "runtime/thread_pool.h"
#include "target/cuda/compiler.h"
#include "target/cuda/launch.h"
#include "verify/cpu_target.h"
#include "verify/random_check.h"
#include "verify/random_program.h"
#include "verify/source_target.h"

namespace opwright::verify {
namespace {

uint64_t asked(const char* variable, uint64_t otherwise) {
    const char* s = std::getenv(variable);
    return s ? std::strtoull(s, nullptr, 10) : otherwise;
}
uint64_t first_seed() { return asked("OPWRIGHT_RANDOM_SEED", 1); }

TEST(RandomPrograms, AreWellFormedAndReadBackAsDeclarations) {
    int printed = 0;
    for (uint64_t seed = first_seed(); seed < first_seed() + 1000; ++seed) {
        const math::Program p = random_program(seed);
        ASSERT_EQ(math::verify(p), std::vector<std::string>()) << "seed " << seed << "\n" << p.print();
        const auto text = lang::declaration(p);
        if (!text.ok()) continue;
        ++printed;
        lang::Library library;
        const Status read = library.add(std::make_shared<const Source>(Source{"random.op", *text}));
        ASSERT_TRUE(read.ok()) << "seed " << seed << "\n" << *text << render(read.error());
        std::vector<lang::Argument> arguments;
        for (math::TensorId t : p.inputs) arguments.push_back({p.tensors[t].dtype, p.tensors[t].shape});
        lang::Attributes attributes;  // symbols that no input has
        for (const std::string& n : library.attribute_names(*library.find(p.name)))
            attributes.emplace(n, math::Sym::symbol(n));
        const auto again = library.elaborate(p.name, arguments, attributes);
        ASSERT_TRUE(again.ok()) << "seed " << seed << "\n" << *text << render(again.error());
    }
    EXPECT_GT(printed, 950);
}

// Those from first_seed() on through `target`; `count` of them unless asked for more.
Report check_all(const Compile& target, uint64_t count, const MakeProgram& make = random_program) {
    const RandomReport r = check_random(target, first_seed(), asked("OPWRIGHT_RANDOM", count), 10, make);
    for (const RandomFailure& f : r.failures)
        ADD_FAILURE() << "seed " << f.seed << ": " << f.report.str() << "\n" << f.declaration;
    return r.all;
}

void expect_run(const Report& r) {
    EXPECT_EQ(r.refused, 0) << r.str();
    EXPECT_GT(r.cases, 0);
    std::printf("%s\n", r.str().c_str());
}

// In parts, so that they run side by side.
class RandomProgramsPart : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomProgramsPart, RunsOnTheCpu) {
    runtime::ThreadPool pool(1);
    target::cpu::Options cpu;
    cpu.cache = false;
    expect_run(
        check_all(cpu_target(cpu, pool), 500, [](uint64_t seed) { return random_program(4 * seed + GetParam()); }));
}
INSTANTIATE_TEST_SUITE_P(Of4, RandomProgramsPart, testing::Range<uint64_t>(0, 4));

// What is derived from them runs as well.
TEST(RandomPrograms, GradientsRunOnTheCpu) {
    runtime::ThreadPool pool(1);
    target::cpu::Options cpu;
    cpu.cache = false;
    const Report r = check_all(cpu_target(cpu, pool), 150, [](uint64_t seed) -> std::optional<math::Program> {
        auto g = derive::gradient(random_program(seed));
        if (!g.ok()) return std::nullopt;
        return std::move(g->program);
    });
    expect_run(r);
}

TEST(RandomPrograms, RunOnTheGpu) {
    const auto cuda = target::find_target("cuda");
    ASSERT_TRUE(cuda.ok());
    if (const std::string why = (*cuda)->cannot_run(); !why.empty()) GTEST_SKIP() << why;
    const Report r = check_all(source_target(**cuda), 200);
    expect_run(r);
}

TEST(RandomPrograms, RunInC) {
    const auto c = target::find_target("c");
    ASSERT_TRUE(c.ok());
    const Report r = check_all(source_target(**c), 60);
    expect_run(r);
}

TEST(RandomPrograms, RunAsCudaKernels) {
    EmulatedCuda cuda;
    const Compile recorder = cuda.recorder();
    for (uint64_t seed = first_seed(); seed < first_seed() + asked("OPWRIGHT_RANDOM", 200); ++seed)
        check_program(random_program(seed), recorder, random_options(seed), random_base(seed));
    const Status built = cuda.build();
    ASSERT_TRUE(built.ok()) << render(built.error());
    const Report r = check_all(cuda.target(), 200);
    expect_run(r);
}

// What the emulation leaves out: the device's compiler takes the kernels.
TEST(RandomPrograms, CompileAsCudaKernels) {
    if (target::cuda::compiler_name().empty()) GTEST_SKIP() << "neither NVRTC nor nvcc is here";
    for (uint64_t seed = first_seed(); seed < first_seed() + asked("OPWRIGHT_RANDOM", 20); ++seed) {
        const math::Program p = random_program(seed);
        const auto lowered = target::cuda::lower(math::inline_temporaries(math::drop_unit_variables(p)).program);
        ASSERT_TRUE(lowered.ok()) << render(lowered.error());
        std::set<std::vector<std::string>> defines;
        for (const auto& stage : lowered->stages)
            for (const auto& v : stage.variants) defines.insert(target::cuda::defines_of(v, false));
        for (const auto& d : defines) {
            const auto cubin = target::cuda::compile(lowered->source(), {.defines = d, .cache = false});
            ASSERT_TRUE(cubin.ok()) << "seed " << seed << "\n" << render(cubin.error()) << described(p);
        }
    }
}
}  // namespace
}  // namespace opwright::verify
