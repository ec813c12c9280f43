// The verifier can fail: the mistakes that people make in kernels are planted one at a time, and each must be caught on
// every target where it applies. Prints which check caught it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "cuda_emulated.h"
#include "lang/library.h"
#include "loop_faults.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "runtime/thread_pool.h"
#include "verify/cpu_target.h"
#include "verify/source_target.h"

namespace opwright::verify {
namespace {
using Edit = std::function<void(std::string&)>;
using LoopEdit = std::function<size_t(loop::Program&)>;

constexpr const char* kRow = "op row(x: f32[m, n]) -> y: f32[m]:\n    y[i] = sum[j](x[i,j])\n";
constexpr const char* kLargest = "op largest(x: f32[m, n]) -> y: f32[m]:\n    y[i] = max[j](x[i,j])\n";
constexpr const char* kWindow =
    "op window(x: f32[n]) -> y: f32[n]:\n    y[i] = sum[k in 0..3](x[2 * i + k - 1] outside zero)\n";
constexpr const char* kProduct =
    "op product(a: f32[m, k], b: f32[k, n]) -> y: f32[m, n]:\n    y[i,j] = sum[l](a[i,l] * b[l,j])\n";
constexpr const char* kBoth = "op both(x: f32[n, n]) -> y: f32[n, n]:\n    y[i,j] = x[i,j] - 2 * x[j,i]\n";

// A fault, and how it is written where. A fault of the declaration is one on every target; the others are written in
// the target's own source, or in the loop level of target cpu.
struct Fault {
    std::string name, declaration;
    std::string instead_of, written;                                  // in the declaration
    std::map<std::string, std::pair<std::string, std::string>> text;  // by target: expression searched for, and what
                                                                      // replaces it
    LoopEdit loop;
};
std::vector<Fault> faults() {
    return {
        {.name = "the mask of a load is dropped",
         .declaration = kRow,
         .text = {{"ascend", {R"((LoadTile\(xLocal, [^;]*), count\))", "$1, tiling.tileLength)"}},
                  {"triton", {R"(, mask=mask(, other=[^)]*)?\))", ")"}}},
         .loop = {}},
        {.name = "the test of an access that leaves is dropped",
         .declaration = kWindow,
         .text = {{"c", {R"(at >= 0 && [^?;]*\? (x\[[^\]]*\]) : 0\.0f)", "$1"}},
                  {"cuda", {R"(= [^;=]*>= 0 && [^;]*\? (x\[[^\]]*\]) : 0\.0f)", "= $1"}},
                  {"triton", {R"(mask=mask & \(at[^\n]*\), other=0\.0)", "mask=mask"}}},
         .loop = loop::drop_load_masks},
        {.name = "a loop ends one too early",
         .declaration = kWindow,
         .instead_of = "0..3",
         .written = "0..2",
         .text = {},
         .loop = {}},
        {.name = "a stride is ignored",
         .declaration = kWindow,
         .instead_of = "2 * i",
         .written = "i",
         .text = {},
         .loop = {}},
        {.name = "two indices of equal extent are swapped",
         .declaration = kBoth,
         .instead_of = "x[j,i]",
         .written = "x[i,j]",
         .text = {},
         .loop = {}},
        {.name = "a fold starts from a value that is not its identity",
         .declaration = kLargest,
         .text = {{"c", {R"(= -INFINITY)", "= 0.0f"}},
                  {"cuda", {R"(largest = -__int_as_float\(0x7f800000\))", "largest = 0.0f"}},
                  {"ascend", {R"(-__builtin_inff\(\))", "0.0f"}},
                  {"triton", {R"(float\("-inf"\))", "0.0"}}},
         .loop = loop::start_folds_elsewhere},
        {.name = "an accumulator is rounded to f16",
         .declaration = kRow,
         .text = {{"c",
                   {R"((sum \+= [^;]*;))",
                    "$1 { int e; float f = frexpf(sum, &e); sum = ldexpf(rintf(f * 2048) / 2048, e); }"}},
                  {"cuda", {R"((total \+= [^;]*;))", "$1 total = __int_as_float(__float_as_int(total) & 0xffffe000);"}},
                  {"ascend", {R"(folded\.GetValue\(0\))", "static_cast<float>(static_cast<half>(folded.GetValue(0)))"}},
                  {"triton", {R"((tl\.sum\([^\n]*))", "$1.to(tl.float16).to(tl.float32)"}}},
         .loop = loop::round_accumulators_to_f16},
        {.name = "a barrier is skipped",
         .declaration = kProduct,
         .text = {{"cuda", {R"(__syncthreads\(\);)", ""}}},
         .loop = {}},
        {.name = "a wait between pipes is skipped",
         .declaration = kRow,
         .text = {{"ascend", {R"(Await<HardEvent::V_S>\(\);)", ""}}},
         .loop = {}},
    };
}

math::Program program_of(const std::string& declaration) {
    lang::Library library;
    const Status read = library.add(std::make_shared<const Source>(Source{"mutation.op", declaration}));
    EXPECT_TRUE(read.ok()) << render(read.error());
    const std::string name = declaration.substr(3, declaration.find('(') - 3);
    auto p = library.elaborate_symbolic(name);
    EXPECT_TRUE(p.ok());
    return std::move(*p);
}

CheckOptions options() {
    CheckOptions o;
    o.sizes.count = 8;
    o.sizes.max_work = 1 << 15;
    o.patterns = {Pattern::Random, Pattern::Positive, Pattern::Nan};
    return o;
}
const math::SymValues kBase{{"m", 5}, {"n", 37}, {"k", 19}};

// What catches it, in a few words.
std::string caught_by(const Report& r) {
    if (!r.smallest_failure) return "";
    const CaseReport& c = *r.smallest_failure;
    const char* check = c.outcome == Outcome::Compared        ? "comparison with the reference"
                        : c.outcome == Outcome::WroteOutside  ? "guard bytes"
                        : c.outcome == Outcome::ChangedInput  ? "inputs kept"
                        : c.outcome == Outcome::MissedError   ? "errors reported"
                        : c.outcome == Outcome::CompileFailed ? "compilation"
                                                              : "the target's own checks";
    return fmt::format("{} ({}, {} values): {}", check, c.arguments, name(c.pattern), c.message);
}

// The report on `wrong` where `right` was asked for.
Report check_mutant(const math::Program& right, const math::Program& wrong, const Compile& target) {
    return check_program(right, [&](const math::Program&) { return target(wrong); }, options(), kBase);
}
Report check_on(const std::string& target, const math::Program& right, const math::Program& wrong, const Edit& edit,
                const LoopEdit& loop_edit) {
    if (target == "cpu") {
        runtime::ThreadPool pool(1);
        target::cpu::Options o;
        o.cache = false;
        if (loop_edit) o.edit = [&](loop::Program& p) { EXPECT_GT(loop_edit(p), 0u); };
        return check_mutant(right, wrong, cpu_target(o, pool));
    }
    if (target == "cuda") {
        EmulatedCuda cuda;
        if (edit) cuda.edit(edit);
        check_mutant(right, wrong, cuda.recorder());
        const Status built = cuda.build();
        EXPECT_TRUE(built.ok()) << render(built.error());
        return check_mutant(right, wrong, cuda.target());
    }
    const auto t = target::find_target(target);
    EXPECT_TRUE(t.ok());
    return check_mutant(right, wrong, source_target(**t, {.schedule = {}, .arch = {}, .sizes = {}, .edit = edit}));
}
// Why nothing of a target can be run here; empty where it can.
std::string cannot_run(const std::string& target) {
    if (target == "cpu" || target == "cuda") return "";  // the latter emulated
    const auto t = target::find_target(target);
    return t.ok() ? (*t)->cannot_run() : t.error().message;
}

class Mutation : public testing::TestWithParam<const char*> {};

TEST_P(Mutation, OfEveryKindIsCaught) {
    const std::string target = GetParam();
    if (const std::string why = cannot_run(target); !why.empty())
        GTEST_SKIP() << "target " << target << " can't run here: " << why;
    int planted = 0;
    std::set<std::string> sound;  // declarations that pass as they stand
    for (const Fault& f : faults()) {
        SCOPED_TRACE(f.name);
        const bool in_source = f.text.count(target) > 0, in_loops = target == "cpu" && f.loop;
        if (f.instead_of.empty() && !in_source && !in_loops) continue;
        std::string wrong = f.declaration;
        if (!f.instead_of.empty()) wrong.replace(wrong.find(f.instead_of), f.instead_of.size(), f.written);
        Edit edit;
        if (in_source)
            edit = [&](std::string& source) {
                const auto& [from, to] = f.text.at(target);
                const std::string edited = std::regex_replace(source, std::regex(from), to);
                EXPECT_NE(edited, source) << "nothing to change in\n" << source;
                source = edited;
            };
        const math::Program right = program_of(f.declaration);
        // As it stands, it passes: what is caught below is the fault.
        if (sound.insert(f.declaration).second) {
            const Report r = check_on(target, right, right, {}, {});
            EXPECT_TRUE(r.passed()) << r.str();
        }
        const Report r = check_on(target, right, program_of(wrong), edit, in_loops ? f.loop : LoopEdit());
        EXPECT_GT(r.failed, 0) << "not caught";
        if (r.smallest_failure) EXPECT_NE(r.smallest_failure->outcome, Outcome::CompileFailed) << r.str();
        std::printf("%-8s %-55s caught by %s\n", target.c_str(), f.name.c_str(), caught_by(r).c_str());
        ++planted;
    }
    EXPECT_GE(planted, 5);
}
INSTANTIATE_TEST_SUITE_P(Targets, Mutation, testing::Values("cpu", "c", "cuda", "ascend", "triton"),
                         [](const auto& info) { return std::string(info.param); });

// A cache whose key leaves out the element types gives the kernel of the first type to the second.
TEST(MutationOfACache, WhoseKeyForgetsTheTypeIsCaught) {
    runtime::ThreadPool pool(1);
    const auto c = target::find_target("c");
    ASSERT_TRUE(c.ok());
    lang::Library library;
    ASSERT_TRUE(library
                    .add(std::make_shared<const Source>(Source{"add.op",
                                                               "op add_two(x: T[n], y: T[n]) -> z: T[n]:\n"
                                                               "    z[i] = x[i] + y[i]\n"}))
                    .ok());
    for (const auto& [name, target] : std::initializer_list<std::pair<const char*, Compile>>{
             {"cpu", cpu_target({}, pool)}, {"c", source_target(**c)}}) {
        std::map<std::string, std::shared_ptr<std::pair<math::Program, std::optional<Compiled>>>> cache;
        const Compile forgetful = [&](const math::Program& p) -> Result<Compiled> {
            std::string key = p.print();  // names and equations, no types
            auto& kept = cache[key];
            if (!kept) {
                kept = std::make_shared<std::pair<math::Program, std::optional<Compiled>>>(p, std::nullopt);
                OPW_TRY(kept->second, target(kept->first));
            }
            return *kept->second;
        };
        Report r;
        for (DType t : {DType::F32, DType::I32}) {
            const math::Sym n = math::Sym::symbol("n");
            const auto p = library.elaborate("add_two", {{t, {n}}, {t, {n}}}, {});
            ASSERT_TRUE(p.ok()) << render(p.error());
            r.add(check_program(*p, forgetful, options(), kBase));
            if (t == DType::F32) EXPECT_EQ(r.failed, 0) << r.str();
        }
        EXPECT_GT(r.failed, 0);
        std::printf("%-8s %-55s caught by %s\n", name, "a cache's key forgets the type", caught_by(r).c_str());
    }
}

}  // namespace
}  // namespace opwright::verify
