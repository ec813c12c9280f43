// Tuning: candidates are legal and compute the same, the model ranks, the race is fair, winners are used where they fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile.h"
#include "lang/library.h"
#include "math/localise.h"
#include "runtime/thread_pool.h"
#include "schedule/candidates.h"
#include "schedule/portable.h"
#include "target/cpu/plan.h"
#include "target/cpu/variants.h"
#include "tune/check.h"
#include "tune/predict.h"
#include "tune/race.h"
#include "tune/report.h"
#include "verify/cpu_target.h"
#include "verify/inputs.h"

namespace opwright::tune {
namespace {
using math::Program;
using math::SymValues;

Program declared(const std::string& source, const std::string& op) {
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"test.op", source})).ok());
    auto p = library.elaborate_symbolic(op);
    EXPECT_TRUE(p.ok());
    return math::localise(*p).program;
}
Program matmul() {
    return declared("op product(x[m,k], w[k,n]) -> y[m,n]:\n    y[m,n] = sum[k](x[m,k] * w[k,n])\n", "product");
}
Program library_program(const std::string& op) {
    auto p = lang::Library::standard().elaborate_symbolic(op);
    EXPECT_TRUE(p.ok()) << op;
    return math::localise(*p).program;
}
SymValues sizes_of(const Program& p, int64_t n) {
    SymValues r;
    for (const std::string& s : p.symbols()) r[s] = n;
    return r;
}
target::cpu::Planned planned(const Program& p) {
    return target::cpu::plan({&p, std::vector<bool>(p.inputs.size()), false}, target::cpu::host_features());
}
std::vector<int64_t> values(const Program& p, int64_t n) { return std::vector<int64_t>(p.symbols().size(), n); }

explain::Machine some_machine() {
    explain::Machine m;
    m.threads = 1;
    m.flops_f32 = 1e11;
    m.copies = {{64 << 10, 2e11}, {1 << 20, 1e11}, {256 << 20, 1e10}};
    m.dispatch_seconds = 1e-6;
    return m;
}

TEST(TuneCandidates, ComputeTheSameAsTheReference) {
    runtime::ThreadPool pool(2);
    for (const char* op : {"matmul", "softmax", "layer_norm", "relu", "add", "transpose", "reduce_sum"}) {
        const Program p = library_program(op);
        const auto plan = planned(p);
        const auto found = schedule::cpu_candidates(plan.kernel, plan.machine, plan.untuned, sizes_of(p, 100));
        size_t legal = 0;
        for (const schedule::Candidate& c : found) {
            if (!target::cpu::facts(plan, c.schedule, values(p, 100)).ok()) {
                EXPECT_FALSE(c.words.empty()) << op << ": the untuned schedule is illegal";
                continue;
            }
            if (++legal > 10) break;
            const verify::Report r = verify::check_program(
                p, verify::cpu_target({.cache = false, .schedule = schedule::to_json(c.schedule, plan.kernel)}, pool),
                {.sizes = {.max_work = 1 << 13, .count = 4}, .patterns = {verify::Pattern::Random}});
            EXPECT_TRUE(r.passed()) << op << ", " << c.words << ": " << r.str();
        }
        EXPECT_GT(legal, 1u) << op;
    }
}

TEST(TuneCandidates, TheUntunedScheduleComesFirstAndNoneTwice) {
    const Program p = matmul();
    const auto plan = planned(p);
    const auto found = schedule::cpu_candidates(plan.kernel, plan.machine, plan.untuned, sizes_of(p, 512));
    std::set<std::string> texts;
    for (const auto& c : found) EXPECT_TRUE(texts.insert(schedule::to_portable(c.schedule, plan.kernel)).second) << c.words;
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].words, "");
    EXPECT_EQ(schedule::to_portable(found[0].schedule, plan.kernel), schedule::to_portable(plan.untuned, plan.kernel));
    EXPECT_GT(found.size(), 8u);
}

TEST(TuneCandidates, PortableSchedulesIgnoreNames) {
    const Program p = matmul();
    const Program q = declared("op other(a[u,s], b[s,v]) -> c[u,v]:\n    c[u,v] = sum[s](a[u,s] * b[s,v])\n", "other");
    const auto one = planned(p), two = planned(q);
    const std::string text = schedule::to_portable(one.untuned, one.kernel);
    EXPECT_EQ(text, schedule::to_portable(two.untuned, two.kernel));
    ASSERT_TRUE(schedule::from_portable(text, two.kernel).ok());
    EXPECT_EQ(target::cpu::content_of({&p, {false, false}, false}), target::cpu::content_of({&q, {false, false}, false}));
    EXPECT_NE(target::cpu::content_of({&p, {false, false}, false}), target::cpu::content_of({&p, {false, true}, false}));
}

TEST(TuneCandidates, AStoredScheduleMayNotAskForAllMemory) {
    const Program p = matmul();
    const auto plan = planned(p);
    auto s = plan.untuned;
    s.nests[0].contract.mt = s.nests[0].contract.nt = 1 << 20;
    const auto r = schedule::from_portable(schedule::to_portable(s, plan.kernel), plan.kernel);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().message, "A stored schedule has tiles larger than any that tuning makes.");
}

TEST(TuneCandidates, BlockSchedulesVaryInTheirFields) {
    const auto found = schedule::block_candidates(
        R"({"operator":"softmax","nests":[{"grid":[{"index":"m","tile":1}],"blocks":[{"index":"n","tile":"whole"}],"elements":1024}]})");
    std::vector<std::string> words;
    for (const auto& c : found) words.push_back(c.words);
    EXPECT_THAT(words, testing::IsSupersetOf({"512 elements a block", "2048 elements a block", "8 warps"}));
    EXPECT_TRUE(schedule::block_candidates("{").empty());
}

TEST(TuneModel, KnowsWhatIsSurelySlower) {
    const Program p = matmul();
    const auto plan = planned(p);
    auto slow = plan.untuned;
    slow.nests[0].contract.mr = 1;  // waits for each addition, loads as much as it computes
    slow.nests[0].contract.nv = 1;
    const auto a = predict(plan, plan.untuned, values(p, 512), some_machine()), b = predict(plan, slow, values(p, 512), some_machine());
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_GT(*b, 1.5 * *a);

    const Program sum = declared("op row_sum(x[m,n]) -> y[m]:\n    y[m] = sum[n](x[m,n])\n", "row_sum");
    const auto rows = planned(sum);
    auto scalar = rows.untuned;
    for (auto& e : scalar.nests[0].equations) e = {};
    EXPECT_GT(*predict(rows, scalar, values(sum, 512), some_machine()), 1.5 * *predict(rows, rows.untuned, values(sum, 512), some_machine()));
}

Record with_times(const std::vector<std::pair<double, double>>& predicted_and_measured) {
    Record r;
    for (const auto& [p, m] : predicted_and_measured) r.candidates.push_back({"", "", p, Outcome::Measured, {m}});
    return r;
}
TEST(TuneModel, RankCorrelation) {
    EXPECT_FALSE(rank_correlation(with_times({{1, 1}, {2, 2}})));
    EXPECT_NEAR(*rank_correlation(with_times({{1, 10}, {2, 20}, {3, 21}})), 1, 1e-12);
    EXPECT_NEAR(*rank_correlation(with_times({{3, 10}, {2, 20}, {1, 21}})), -1, 1e-12);
    EXPECT_NEAR(*rank_correlation(with_times({{1, 1}, {2, 3}, {3, 2}, {4, 4}})), 0.8, 1e-12);
    EXPECT_FALSE(rank_correlation(with_times({{1, 1}, {1, 3}, {1, 2}})));
}

// ---- the race, with clocks that are made up

Runner fixed(double seconds, int* samples = nullptr) {
    return {[seconds, samples]() -> Result<double> {
                if (samples) ++*samples;
                return seconds;
            },
            {}, true};
}

TEST(TuneRace, TheFastestWinsAndTheSlowestIsDroppedAtItsFirstSample) {
    int slow = 0, second = 0;
    std::vector<Runner> r{fixed(1.0), fixed(0.8), fixed(0.9, &second), fixed(3.5, &slow)};
    EXPECT_EQ(*race(r, {.seconds = 10}), 1u);
    EXPECT_EQ(slow, 1);
    EXPECT_FALSE(r[3].alive);
    EXPECT_GT(second, 3);
    EXPECT_EQ(r[0].seconds.size(), r[1].seconds.size());
}

TEST(TuneRace, TheDefaultStaysUnlessAnotherIsClearlyFaster) {
    std::vector<Runner> r{fixed(1.0), fixed(0.99)};
    EXPECT_EQ(*race(r, {.seconds = 10}), 0u);
    // Once fast, by chance, and slower in most rounds.
    int n = 0;
    std::vector<Runner> lucky{fixed(1.0), {[&]() -> Result<double> { return ++n == 2 ? 0.5 : 1.1; }, {}, true}};
    EXPECT_EQ(*race(lucky, {.seconds = 10}), 0u);
}

TEST(TuneRace, HalvesTheFieldAndEndsInTime) {
    std::vector<int> samples(9);
    std::vector<Runner> r;
    for (int i = 0; i < 9; ++i) r.push_back(fixed(1.0 + 0.1 * i, &samples[static_cast<size_t>(i)]));
    EXPECT_EQ(*race(r, {.rounds = 12, .seconds = 10}), 0u);
    EXPECT_EQ(samples[0], 12);
    EXPECT_EQ(samples[1], 12);
    EXPECT_EQ(samples[8], 3);
    std::vector<Runner> late{fixed(1.0), fixed(0.5)};
    EXPECT_EQ(*race(late, {.seconds = 0}), 1u);
    EXPECT_EQ(late[0].seconds.size(), 2u);
}

TEST(TuneRace, OneThatFailsIsOutAndTheDefaultsFailureIsTheError) {
    const auto fails = [] { return Runner{[]() -> Result<double> { return Diagnostic("It broke."); }, {}, true}; };
    std::vector<Runner> r{fixed(1), fails()};
    EXPECT_EQ(*race(r, {.seconds = 10}), 0u);
    EXPECT_TRUE(r[1].seconds.empty());
    std::vector<Runner> bad{fails(), fixed(1)};
    EXPECT_EQ(race(bad, {.seconds = 10}).error().message, "It broke.");
}

// ---- results

TEST(TuneCheck, TakesAnotherOrderOfSumsAndNothingElse) {
    const Program p = matmul();
    const SymValues sizes = sizes_of(p, 40);
    const std::vector<Tensor> inputs = verify::make_inputs(p, sizes, verify::Pattern::Random, 3);
    const auto reference = derive::reference(p, inputs, sizes);
    ASSERT_TRUE(reference.ok());
    Tensor untuned(DType::F32, {40, 40});
    for (int64_t i = 0; i < untuned.size(); ++i) untuned.set(i, (*reference)[0].value.get(i));
    const std::vector<Tensor> all{untuned};
    Checker checker(p, sizes, inputs, all);
    std::vector<Tensor> other{untuned.clone()};
    EXPECT_EQ(checker.check(other), "");
    other[0].set(0, untuned.get(0) + 0.5 * (*reference)[0].bound.get(0));  // as another order of the sum may be
    EXPECT_EQ(checker.check(other), "");
    for (int64_t at : {int64_t{0}, int64_t{777}, int64_t{1599}}) {
        std::vector<Tensor> wrong{untuned.clone()};
        wrong[0].set(at, untuned.get(at) + 1);
        EXPECT_NE(checker.check(wrong), "") << at;
        wrong[0].set(at, std::nan(""));
        EXPECT_NE(checker.check(wrong), "") << at;
    }
}

TEST(TuneCheck, SamplesComputeWhatTheProgramDoes) {
    for (const char* op : {"softmax", "layer_norm", "matmul"}) {
        const Program p = library_program(op);
        const SymValues sizes = sizes_of(p, 24);
        const auto inputs = verify::make_inputs(p, sizes, verify::Pattern::Random, 5);
        const Sampled s = sample(p, sizes, 16, 1);
        EXPECT_TRUE(math::verify(s.program).empty()) << op;
        const auto whole = derive::reference(p, inputs, sizes), part = derive::reference(s.program, inputs, sizes);
        ASSERT_TRUE(whole.ok() && part.ok()) << op;
        ASSERT_EQ(s.positions[0].size(), 16u);
        for (size_t i = 0; i < 16; ++i)
            EXPECT_EQ((*part)[0].value.get(static_cast<int64_t>(i)), (*whole)[0].value.get(s.positions[0][i])) << op;
    }
}

// ---- use

class Stub final : public target::TunedSource {
public:
    std::vector<target::TunedSchedule> known;
    std::vector<target::TunedSchedule> find(std::string_view target, std::string_view, const std::string&) const override {
        return target == "cpu" ? known : std::vector<target::TunedSchedule>{};
    }
    double reach() const override { return 2; }
};

std::string tuned_schedule(const Program& p, int mr) {
    const auto plan = planned(p);
    auto s = plan.untuned;
    s.nests[0].contract.mr = mr;
    return schedule::to_portable(s, plan.kernel);
}

TEST(TuneUse, TheNearestSizeWithinReachDecides) {
    const Program p = matmul();
    auto stub = std::make_shared<Stub>();
    stub->known = {{{512, 512, 512}, tuned_schedule(p, 3), 1.25, "2026-01-31 12:00:00"}, {{64, 64, 64}, "", 1, "2026-01-31 12:00:00"}};
    const target::cpu::Request r{&p, {false, false}, false};
    const auto k = target::cpu::compile({&r, 1}, {.cache = false, .tuned = stub})[0];
    ASSERT_TRUE(k.ok());
    const auto tuned = [&](int64_t n) { return (*k)->tuned(std::vector<int64_t>{n, n, n}); };
    EXPECT_EQ(tuned(512), "tuned: 1.25x over untuned on 2026-01-31");
    EXPECT_EQ(tuned(1024), "tuned: 1.25x over untuned on 2026-01-31");
    EXPECT_EQ(tuned(256), "tuned: 1.25x over untuned on 2026-01-31");
    EXPECT_EQ(tuned(1025), "");
    EXPECT_EQ(tuned(100), "");  // nearer to 64, where the untuned schedule won
    const auto rows = [&](int64_t n) { return (*k)->stages(std::vector<int64_t>{n, n, n}).back().tile->rows; };
    EXPECT_EQ(rows(512), 3);
    EXPECT_EQ(rows(2048), planned(p).untuned.nests[0].contract.mr);
    EXPECT_THAT((*k)->at(std::vector<int64_t>{512, 512, 512}).schedule_summary(), testing::HasSubstr("packed contraction 3x"));
}

TEST(TuneUse, EverySizeIsRightWhicheverVariantRuns) {
    const Program p = matmul();
    auto stub = std::make_shared<Stub>();
    stub->known = {{{16, 16, 16}, tuned_schedule(p, 3), 1.25, "2026-01-31 12:00:00"}};
    runtime::ThreadPool pool(2);
    const verify::Report r = verify::check_program(p, verify::cpu_target({.cache = false, .tuned = stub}, pool),
                                                   {.sizes = {.max_work = 1 << 15, .count = 12}, .patterns = {verify::Pattern::Random}});
    EXPECT_TRUE(r.passed()) << r.str();
}

TEST(TuneUse, AStoredScheduleThatDoesNotFitGivesWay) {
    const Program p = matmul();
    const target::cpu::Request r{&p, {false, false}, false};
    for (const std::string& bad : {std::string("{}"), std::string("nonsense"), tuned_schedule(p, 1000)}) {
        auto stub = std::make_shared<Stub>();
        stub->known = {{{512, 512, 512}, bad, 1.25, "2026-01-31 12:00:00"}};
        const auto k = target::cpu::compile({&r, 1}, {.cache = false, .tuned = stub})[0];
        ASSERT_TRUE(k.ok()) << bad;
        EXPECT_EQ((*k)->tuned(std::vector<int64_t>{512, 512, 512}), "");
    }
}

TEST(TuneUse, NearestIsWithinReach) {
    EXPECT_EQ(target::nearest({{512, 8}, {64, 8}}, {512, 8}, 2), 0);
    EXPECT_EQ(target::nearest({{512, 8}, {64, 8}}, {100, 8}, 2), 1);
    EXPECT_EQ(target::nearest({{512, 8}}, {512, 17}, 2), -1);
    EXPECT_EQ(target::nearest({{512, 8}}, {512, 8, 1}, 2), -1);
    EXPECT_EQ(target::nearest({}, {}, 2), -1);
}

}  // namespace
}  // namespace opwright::tune
