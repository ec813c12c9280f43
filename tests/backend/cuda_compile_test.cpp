// Every kernel of the operator library through the CUDA compiler, for the oldest and the newest architecture that is
// served: all of it compiles, and no default schedule spills registers. Needs NVRTC or nvcc, but no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "lang/library.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "target/cuda/compiler.h"
#include "target/cuda/program.h"

namespace opwright::target::cuda {
namespace {

// The operators' first examples, float types replaced, as one source: a namespace each.
struct Batch {
    std::string source;
    std::map<std::string, std::string> operators;  // by kernel
};
std::vector<Batch> batches(DType type, size_t each) {
    std::vector<Batch> r;
    const auto& library = lang::Library::standard();
    size_t count = 0;
    for (const std::string& name : library.names()) {
        const auto examples = library.examples(*library.find(name));
        if (!examples.ok() || examples->empty()) continue;
        std::vector<lang::Argument> arguments = (*examples)[0].arguments;
        bool floats = false;
        for (lang::Argument& a : arguments) {
            if (a.present && is_float(a.dtype)) a.dtype = type, floats = true;
            for (math::Sym& s : a.shape)
                if (const auto c = s.constant(); c && *c != 1) s = math::Sym::symbol(fmt::format("n{}", *c));
        }
        if (!floats && type != DType::F32) continue;
        auto p = library.elaborate(name, arguments, (*examples)[0].attributes);
        if (!p.ok()) p = library.elaborate(name, (*examples)[0].arguments, (*examples)[0].attributes);
        if (!p.ok()) continue;
        auto program = lower(math::inline_temporaries(math::drop_unit_variables(*p)).program);
        EXPECT_TRUE(program.ok()) << name << ": " << program.error().message;
        if (!program.ok()) continue;
        if (count++ % each == 0) r.emplace_back();
        Batch& b = r.back();
        std::string macros = "#undef INDEX\n#undef ROWS\n";
        for (auto& [n, v] : program->macros) macros += fmt::format("#undef {}\n", n);
        b.source += fmt::format("namespace op_{} {{\n{}}}\n{}", name, program->source(), macros);
        for (const Stage& s : program->stages)
            for (const Variant& v : s.variants) b.operators[v.kernel] = name;
    }
    return r;
}

class EveryKernel : public testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(EveryKernel, CompilesWithoutSpills) {
    if (compiler_name().empty()) GTEST_SKIP() << "neither NVRTC nor nvcc is here";
    const auto [arch, type] = GetParam();
    int kernels = 0, most = 0;
    std::string most_name;
    for (const Batch& b : batches(type, 40)) {
        const auto cubin = compile(b.source, {.arch = arch, .cache = false});
        if (!cubin.ok()) {
            ADD_FAILURE() << render(cubin.error()).substr(0, 3000);
            continue;
        }
        std::istringstream log(cubin->log);
        std::string kernel;
        for (std::string line; std::getline(log, line);) {
            if (const auto at = line.find("entry function '"); at != std::string::npos) {
                kernel = line.substr(at + 16, line.find('\'', at + 16) - at - 16);
                ++kernels;
            }
            if (const auto at = line.find(" bytes spill stores"); at != std::string::npos) {
                const auto from = line.rfind(' ', at - 1) + 1;
                // NVRTC 13.0 keeps a convergence barrier (4 or 8 bytes) in memory where nvcc does not: no lack of
                // registers.
                EXPECT_LE(std::atoi(line.c_str() + from), 16)
                    << kernel << " of " << b.operators.at(kernel) << " spills: " << line;
            }
            if (const auto at = line.find("Used "); at != std::string::npos) {
                const int n = std::atoi(line.c_str() + at + 5);
                EXPECT_LE(n, 255);
                if (n > most) most = n, most_name = kernel;
            }
        }
    }
    EXPECT_GT(kernels, 100) << "the compiler's log does not name the kernels";
    RecordProperty("kernels", kernels);
    std::printf("%s: %d kernels; the most registers: %d (%s)\n", arch, kernels, most, most_name.c_str());
}

INSTANTIATE_TEST_SUITE_P(Cuda, EveryKernel,
                         testing::Values(std::make_tuple("sm_80", DType::F32), std::make_tuple("sm_90a", DType::F32),
                                         std::make_tuple("sm_90a", DType::BF16)),
                         [](const auto& info) {
                             return std::string(std::get<0>(info.param)) + "_" +
                                    std::string(name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace opwright::target::cuda
