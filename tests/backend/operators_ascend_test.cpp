// Every operator of the library as Ascend C, on the functional simulator with all its hazard checks, against the fp64
// reference: examples, element types, sizes around the tile edges, special values. Operators are compiled many to a
// translation unit. OPWRIGHT_CHECK=thorough runs more cases of each, OPWRIGHT_CHECK=table prints the table.
#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <set>
#include <string_view>

#include "math/folded_reads.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "target/ascend/simulate.h"
#include "verify/operator.h"

namespace opwright::verify {
namespace {
using namespace target::ascend;

std::string_view mode() {
    const char* m = std::getenv("OPWRIGHT_CHECK");
    return m ? m : "";
}
OperatorOptions options(size_t turn) {
    OperatorOptions o;
    const bool thorough = mode() == "thorough";
    o.check.sizes.count = thorough ? 24 : 4;
    o.check.sizes.max_work = thorough ? 1 << 16 : 1 << 13;
    o.check.sizes.tiles = {8, 64};
    if (!thorough) o.check.patterns = {Pattern::Random, Pattern::Nan, Pattern::Infinity, Pattern::Zeros};
    // No f64: the chip has none. Every third operator in one more type, in turn; all types in the thorough mode.
    constexpr DType kMore[] = {DType::F16, DType::I32, DType::BF16, DType::I64, DType::I8, DType::Bool};
    o.types = {DType::F32};
    if (thorough)
        o.types.insert(o.types.end(), std::begin(kMore), std::end(kMore));
    else if (turn % 3 == 0)
        o.types.push_back(kMore[turn / 3 % std::size(kMore)]);
    return o;
}

// The operators that are checked by default, in the time that a test may take. OPWRIGHT_OPERATORS names others, and
// OPWRIGHT_CHECK takes the whole library.
const char* const kDefault =
    "abs acos acosh adagrad add arange arg_max arg_min asin asinh atan atan2 atanh attention "
    "attention_mix attention_scores average_pool batch_norm batch_norm_training batched_reverse_sequence "
    "bilinear_tap bitcast bitwise_and bitwise_not bitwise_or bitwise_xor box_blur cast cast_saturate "
    "causal_mask ceil celu clamp_between concat conv conv_causal conv_depthwise ";

// What the checks of an operator ask to be compiled: first collected, then built together.
class Batch {
public:
    Compile collect() {
        return [this](const math::Program& p) -> Result<Compiled> {
            const math::Program q = prepared(p);
            const std::string key = q.canonical() + q.print();
            if (!entries_.count(key)) entries_.emplace(key, Entry{q, write_operator(q, {}), {}, {}});
            return Diagnostic("collected");
        };
    }
    void build() {
        const std::vector<target::SourceFile> headers = simulator_headers();
        std::vector<Entry*> open;
        for (auto& [key, e] : entries_)
            if (e.op.ok()) open.push_back(&e);
        constexpr size_t kTogether = 16;
        std::vector<std::future<void>> jobs;
        std::atomic<size_t> next{0};
        for (int w = 0; w < 2; ++w)
            jobs.push_back(std::async(std::launch::async, [&] {
                for (size_t i; (i = next.fetch_add(kTogether)) < open.size();) {
                    std::vector<target::SourceFile> files = headers;
                    std::string text;
                    for (size_t j = i; j < std::min(open.size(), i + kTogether); ++j) {
                        open[j]->function = "run_operator" + std::to_string(j);
                        text += driver_text(*open[j]->op, open[j]->program, open[j]->function, open[j]->op->kernels);
                    }
                    files.push_back({"driver.cpp", text});
                    auto library = target::build_shared_library(files, "driver.cpp",
                                                                {"-std=c++17", "-O0", "-w", "-ffp-contract=off"});
                    for (size_t j = i; j < std::min(open.size(), i + kTogether); ++j) {
                        if (library.ok())
                            open[j]->kernel =
                                make_runnable(*library, open[j]->function, *open[j]->op, open[j]->program);
                        else
                            open[j]->failure = one_line(library.error());
                    }
                }
            }));
        for (auto& j : jobs) j.get();
    }
    Compile built() {
        return [this](const math::Program& p) -> Result<Compiled> {
            const math::Program q = prepared(p);
            const Entry& e = entries_.at(q.canonical() + q.print());
            if (!e.op.ok()) return Diagnostic("refused: " + e.op.error().message);
            if (!e.kernel) return Diagnostic(e.failure);
            return Compiled(
                [&e](const math::SymValues& s, const std::vector<Tensor>& in, std::vector<Tensor>& out) -> Status {
                    for (const math::FoldedRead& f : math::folded_reads(e.program))
                        if (evaluate(f.elements, s) == 0 && evaluate(f.points, s) != 0)
                            return Diagnostic(math::empty_read_message(e.program, f.tensor));
                    return e.kernel->run(s, in, out);
                });
        };
    }

private:
    struct Entry {
        math::Program program;
        Result<Operator> op;
        std::string function, failure;
        std::shared_ptr<target::Runnable> kernel;
    };
    static math::Program prepared(const math::Program& p) {
        return math::inline_temporaries(math::drop_unit_variables(p)).program;
    }
    std::map<std::string, Entry> entries_;
};

TEST(OperatorsOnAscend, MatchTheReferenceWithoutHazards) {
    if (target::host_compiler(true).empty()) GTEST_SKIP() << "no C++ compiler";
    Batch batch;
    const char* asked = std::getenv("OPWRIGHT_OPERATORS");
    const std::string only = asked ? asked : mode().empty() ? kDefault : "";
    std::vector<std::string> names;
    std::vector<size_t> turns;  // place in the library: the types that an operator gets do not depend on who else runs
    const std::vector<std::string> library = lang::Library::standard().names();
    for (size_t i = 0; i < library.size(); ++i)
        if (only.empty() || (" " + only + " ").find(" " + library[i] + " ") != std::string::npos) {
            names.push_back(library[i]);
            turns.push_back(i);
        }
    for (size_t i = 0; i < names.size(); ++i)
        check_operator(lang::Library::standard(), names[i], batch.collect(), options(turns[i]));
    batch.build();
    int passed = 0, refused = 0;
    std::map<std::string, int> reasons;
    for (size_t i = 0; i < names.size(); ++i) {
        const std::string& n = names[i];
        const Report r = check_operator(lang::Library::standard(), n, batch.built(), options(turns[i]));
        int refusals = 0;
        for (const CaseReport& c : r.failures) {
            if (c.message.rfind("refused: ", 0) == 0) {
                ++refusals;
                ++reasons[c.message];
            } else {
                ADD_FAILURE() << n << ": " << c.arguments << ", " << name(c.pattern) << ": " << c.message;
            }
        }
        const bool whole = r.passed();
        passed += whole;
        refused += !whole && refusals == r.failed;
        if (!mode().empty())
            std::printf("%s %s\n",
                        whole                  ? "pass   "
                        : refusals == r.failed ? "refused"
                                               : "FAIL   ",
                        whole ? n.c_str() : r.str().c_str());
        std::fflush(stdout);
    }
    const double share = 100.0 * passed / static_cast<double>(names.size());
    std::printf("Ascend C: %d of %zu operators emit and pass for all types and sizes (%.0f %%), %d refuse some\n",
                passed, names.size(), share, refused);
    for (const auto& [reason, n] : reasons) std::printf("  %4d x %s\n", n, reason.c_str());
    EXPECT_GE(share, 85);
}

}  // namespace
}  // namespace opwright::verify
