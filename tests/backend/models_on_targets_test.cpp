// Whole models on targets that emit source: on the host's memory, and on a device, for which the generated CUDA kernels
// run by the emulation stand in, on memory that only the device's functions reach.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compile.h"
#include "cuda_emulated.h"
#include "../unit/graph_model_builder.h"
#include "lang/library.h"
#include "math/localise.h"
#include "model.h"
#include "runtime/thread_pool.h"
#include "schedule/candidates.h"
#include "target/target.h"
#include "tune/database.h"
#include "tune/kernel.h"
#include "verify/graph_check.h"

namespace opwright {
namespace {
using graph::onnx::ModelBuilder;
namespace device = target::device;

// A layer, a lookup, a row reduction and an output that is an input; two kernels share the layer's result.
ModelBuilder small_model() {
    ModelBuilder b;
    b.input("x", DType::F32, {"n", 12}).input("index", DType::I64, {"n"}).output("y").output("z").output("index");
    Tensor w(DType::F32, {12, 20}), bias(DType::F32, {20}), table(DType::F32, {7, 20});
    for (int64_t i = 0; i < w.size(); ++i) w.set(i, static_cast<double>(i * 37 % 23 - 11) / 16);
    for (int64_t i = 0; i < bias.size(); ++i) bias.set(i, static_cast<double>(i % 5 - 2) / 4);
    for (int64_t i = 0; i < table.size(); ++i) table.set(i, static_cast<double>(i % 13) / 8);
    b.constant("w", w).constant("bias", bias).constant("table", table);
    b.node("MatMul", {"x", "w"}, {"product"}).set_name("product");
    b.node("Add", {"product", "bias"}, {"sum"}).set_name("bias");
    b.node("Relu", {"sum"}, {"h"}).set_name("relu");
    b.node("Gather", {"table", "index"}, {"rows"}).set_name("lookup");
    b.node("Mul", {"h", "rows"}, {"scaled"}).set_name("scale");
    b.node("Softmax", {"scaled"}, {"y"}).set_name("softmax");
    b.node("Neg", {"h"}, {"z"}).set_name("negative");
    return b;
}
NamedInputs inputs(int64_t n, int64_t last = 6) {
    Tensor x(DType::F32, {n, 12}), index(DType::I64, {n});
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i * 31 % 19 - 9) / 8);
    for (int64_t i = 0; i < n; ++i) index.set_int(i, i + 1 == n ? last : i % 7);
    return {{"x", x}, {"index", index}};
}
std::shared_ptr<Model> model_on(const target::Target* t, bool fallback = false) {
    CompileOptions o;
    o.check = true;
    o.execution.target = t;
    o.execution.fallback = fallback;
    auto m = Model::parse(small_model().bytes(), o, std::make_shared<runtime::ThreadPool>(1));
    EXPECT_TRUE(m.ok()) << m.error().message;
    return *m;
}
void expect_like_the_cpu(Model& m, int64_t n) {
    const auto expected = model_on(nullptr)->run(inputs(n)), got = m.run(inputs(n));
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    ASSERT_TRUE(got.ok()) << render(got.error());
    ASSERT_EQ(got->size(), expected->size());
    for (size_t k = 0; k < got->size(); ++k) {
        ASSERT_EQ((*got)[k].shape(), (*expected)[k].shape());
        for (int64_t i = 0; i < (*got)[k].size(); ++i) EXPECT_NEAR((*got)[k].get(i), (*expected)[k].get(i), 1e-5);
    }
}
verify::GraphReport checked(Model& m) {
    const NamedInputs in = inputs(9);
    const auto compiled = m.version(in);
    EXPECT_TRUE(compiled.ok()) << compiled.error().message;
    const auto r = verify::check_graph(**compiled, nullptr, *m.arguments(**compiled, in), m.pool());
    EXPECT_TRUE(r.ok()) << r.error().message;
    return *r;
}

TEST(ModelsOnTargets, EveryKernelInC) {
    const target::Target* c = *target::find_target("c");
    if (!c->cannot_run().empty()) GTEST_SKIP() << c->cannot_run();
    const auto m = model_on(c);
    for (int64_t n : {1, 9, 0}) expect_like_the_cpu(*m, n);
    const verify::GraphReport r = checked(*m);
    EXPECT_TRUE(r.passed());
    EXPECT_EQ(r.compared, r.kernels.size());
    EXPECT_GE(r.kernels.size(), 3u);
    const auto outside = m->run(inputs(3, 7));
    ASSERT_FALSE(outside.ok());
    EXPECT_EQ(render(outside.error()),
              "error: add+relu+gather+mul+softmax: an index of x lies outside the tensor\n"
              "  = note: in the operator 'softmax' (Softmax)");
}

// Takes nothing that computes an exponential.
class Picky final : public target::Target {
public:
    std::string_view name() const override { return "picky"; }
    std::string_view about() const override { return "for tests"; }
    Result<target::Emission> emit(const math::Program& p, const target::EmitOptions& o) const override {
        return c().emit(p, o);
    }
    Result<std::string> level(const math::Program& p, const std::string& l,
                              const target::EmitOptions& o) const override {
        return c().level(p, l, o);
    }
    std::string cannot_run() const override { return c().cannot_run(); }
    std::string runs_on() const override { return c().runs_on(); }
    Result<std::unique_ptr<target::Runnable>> build(const math::Program& p,
                                                    const target::EmitOptions& o) const override {
        if (p.print().find("exp(") != std::string::npos) return Diagnostic("It has no exponential.");
        return c().build(p, o);
    }

private:
    static const target::Target& c() { return **target::find_target("c"); }
};

TEST(ModelsOnTargets, WhatATargetRefusesIsAnErrorOrRunsOnTheCpuAndIsSaid) {
    const Picky picky;
    if (!picky.cannot_run().empty()) GTEST_SKIP() << picky.cannot_run();
    const auto refused = model_on(&picky)->run(inputs(4));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(render(refused.error()),
              "error: Target picky does not take the operator 'softmax': It has no exponential.\n"
              "  = note: in the operator 'softmax' (Softmax)\n"
              "  = next: Add --fallback to run such operators on the cpu.");
    const auto m = model_on(&picky, true);
    expect_like_the_cpu(*m, 4);
    const auto compiled = m->version(inputs(4));
    ASSERT_EQ((*compiled)->executable->fallbacks().size(), 1u);
    EXPECT_EQ((*compiled)->executable->fallbacks()[0].reason, "It has no exponential.");
    EXPECT_EQ((*compiled)->executable->graph().nodes[(*compiled)->executable->fallbacks()[0].node].sources.back().name,
              "softmax");
}

// ---- a device

// Memory is the host's, but addresses are shifted, so that whoever follows one without the device's help crashes.
constexpr uint64_t kShift = uint64_t{1} << 60;
void* at(device::Address a) { return reinterpret_cast<void*>(a - kShift); }

struct Instant final : device::Event {
    double time = 0;
};

struct FakeState {
    size_t bytes = 0, most = size_t{1} << 30;  // allocated, and allowed
    int launches = 0;
    bool recording = false;
    std::vector<std::function<Status()>> recorded;
};

class FakeStream final : public device::Stream {
public:
    explicit FakeStream(FakeState& s) : state(s) {}
    FakeState& state;

    Result<device::Memory> allocate(size_t bytes, const std::string& what) override {
        EXPECT_FALSE(state.recording);
        if (state.bytes + bytes > state.most) return Diagnostic(what + ": no memory is left.");
        state.bytes += bytes;
        void* p = std::aligned_alloc(device::kAlignment, (bytes / 256 + 1) * 256);
        std::memset(p, 0xa5, bytes);
        return device::Memory{reinterpret_cast<uint64_t>(p) + kShift, bytes,
                              std::shared_ptr<void>(p, [bytes, &s = state](void* q) {
                                  std::memset(q, 0x5a, bytes);
                                  std::free(q);
                                  s.bytes -= bytes;
                              })};
    }
    Status upload(device::Address to, const void* from, size_t bytes, const std::string&) override {
        if (bytes) std::memcpy(at(to), from, bytes);
        return ok_status();
    }
    Status download(void* to, device::Address from, size_t bytes, const std::string&) override {
        if (bytes) std::memcpy(to, at(from), bytes);
        return ok_status();
    }
    Status fill(device::Address to, unsigned char value, size_t bytes, const std::string&) override {
        std::memset(at(to), value, bytes);
        return ok_status();
    }
    Status wait(const std::string&) override { return ok_status(); }
    Result<std::shared_ptr<device::Event>> event() override {
        return std::shared_ptr<device::Event>(std::make_shared<Instant>());
    }
    // A launch takes a second; an event a tenth.
    Status record(device::Event& e) override {
        static_cast<Instant&>(e).time = state.launches + 0.1 * events++;
        return ok_status();
    }
    Result<double> seconds(const device::Event& from, const device::Event& to) override {
        return static_cast<const Instant&>(to).time - static_cast<const Instant&>(from).time;
    }
    Status hold(std::shared_ptr<std::atomic<bool>>) override { return ok_status(); }
    Status begin_recording(const std::string&) override {
        state.recording = true;
        return ok_status();
    }
    Result<std::unique_ptr<device::Replay>> end_recording(const std::string&) override {
        struct Again final : device::Replay {
            std::vector<std::function<Status()>> all;
            Status launch(const std::string&) override {
                for (auto& f : all) OPW_CHECK(f());
                return ok_status();
            }
        };
        state.recording = false;
        auto r = std::make_unique<Again>();
        r->all.swap(state.recorded);
        return std::unique_ptr<device::Replay>(std::move(r));
    }

private:
    int events = 0;
};

class FakeKernel final : public device::Kernel {
public:
    FakeKernel(FakeState& s, verify::EmulatedCuda& e, const math::Program& p, std::vector<std::string> faults)
        : state_(s), emulated_(e), p_(p), faults_(std::move(faults)) {}

    Result<int64_t> workspace_bytes(const math::SymValues&) const override { return 32; }  // so that a place is wanted
    Result<std::unique_ptr<device::Launch>> prepare(const math::SymValues& sizes,
                                                    const std::vector<device::Address>& operands, device::Address,
                                                    device::Address fault, device::Stream&) override {
        OPW_TRY(const verify::Compiled record, emulated_.recorder()(p_));
        std::vector<Tensor> none;
        (void)record(sizes, none, none);
        OPW_CHECK(emulated_.build());
        OPW_TRY(verify::Compiled run, emulated_.target()(p_));
        struct Call final : device::Launch {
            FakeState* state = nullptr;
            std::function<Status()> call;
            Status launch(device::Stream&, const std::string&) override {
                if (!state->recording) return call();
                state->recorded.push_back(call);
                return ok_status();
            }
            std::vector<device::LaunchFacts> facts() const override { return {{.kernel = "emulated", .blocks = 1}}; }
        };
        auto r = std::make_unique<Call>();
        r->state = &state_;
        r->call = [this, sizes, operands, fault, run]() -> Status {
            ++state_.launches;
            std::vector<Tensor> in, out;
            for (size_t i = 0; i < operands.size(); ++i) {
                const bool input = i < p_.inputs.size();
                const math::TensorInfo& t = p_.tensors[input ? p_.inputs[i] : p_.outputs[i - p_.inputs.size()]];
                Shape s;
                for (const math::Sym& d : t.shape) s.push_back(math::evaluate(d, sizes).value());
                EXPECT_EQ(operands[i] % device::kAlignment, 0u);
                (input ? in : out).push_back(Tensor::wrap(t.dtype, s, at(operands[i])));
            }
            const Status s = run(sizes, in, out);
            if (s.ok()) return s;
            const auto f = std::find(faults_.begin(), faults_.end(), s.error().message);
            if (f == faults_.end()) return s;
            *static_cast<int*>(at(fault)) = static_cast<int>(f - faults_.begin()) + 1;
            return ok_status();
        };
        return std::unique_ptr<device::Launch>(std::move(r));
    }
    const std::vector<std::string>& faults() const override { return faults_; }
    std::string schedule() const override { return "emulated"; }

private:
    FakeState& state_;
    verify::EmulatedCuda& emulated_;
    math::Program p_;
    std::vector<std::string> faults_;
};

class FakeDevice final : public device::Device {
public:
    FakeState state;
    bool picky = false;

    std::string name() const override { return "an emulation"; }
    Status enter() override { return ok_status(); }
    Result<std::shared_ptr<device::Stream>> stream() override {
        return std::shared_ptr<device::Stream>(std::make_shared<FakeStream>(state));
    }
    Result<std::shared_ptr<device::Kernel>> build(const math::Program& p, const std::string& schedule,
                                                  bool portable) override {
        if (picky && p.print().find("exp(") != std::string::npos) return Diagnostic("It has no exponential.");
        OPW_TRY(const target::cuda::CudaProgram lowered,
                target::cuda::lower(p, {.schedule = schedule, .portable = portable}));
        built.push_back(schedule);
        return std::shared_ptr<device::Kernel>(std::make_shared<FakeKernel>(state, emulated_, p, lowered.faults));
    }
    std::vector<std::string> built;  // under these schedules
    Result<device::Ceilings> measure() override { return device::Ceilings{}; }

private:
    verify::EmulatedCuda emulated_;
};

class FakeGpu final : public target::Target {
public:
    mutable FakeDevice on;
    FakeState& state = on.state;

    std::string_view name() const override { return "fake"; }
    std::string_view about() const override { return "for tests"; }
    Result<target::Emission> emit(const math::Program& p, const target::EmitOptions& o) const override {
        return (*target::find_target("cuda"))->emit(p, o);
    }
    Result<std::string> level(const math::Program& p, const std::string& level,
                              const target::EmitOptions& o) const override {
        return (*target::find_target("cuda"))->level(p, level, o);
    }
    std::string cannot_run() const override { return ""; }
    std::string runs_on() const override { return "an emulation"; }
    Result<std::unique_ptr<target::Runnable>> build(const math::Program& p,
                                                    const target::EmitOptions& o) const override {
        return (*target::find_target("c"))->build(p, o);
    }
    Result<device::Device*> device() const override { return &on; }
};

FakeGpu& gpu() {
    static auto* g = new FakeGpu;
    return *g;
}

TEST(ModelsOnADevice, KeepWhatTheyComputeThere) {
    const auto m = model_on(&gpu());
    for (int64_t n : {1, 9, 0, 9}) expect_like_the_cpu(*m, n);
    const verify::GraphReport r = checked(*m);
    EXPECT_TRUE(r.passed());
    EXPECT_EQ(r.compared, r.kernels.size());
    EXPECT_GE(r.kernels.size(), 3u);
}

TEST(ModelsOnADevice, SayWhichOperatorMetAnIndexOutside) {
    const auto m = model_on(&gpu());
    const auto r = m->run(inputs(9, 7));
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.error().message.find("outside"), std::string::npos) << r.error().message;
    EXPECT_NE(render(r.error()).find("gather+mul+softmax"), std::string::npos) << render(r.error());
    EXPECT_NE(render(r.error()).find("in the operator 'softmax' (Softmax)"), std::string::npos) << render(r.error());
    expect_like_the_cpu(*m, 9);  // the next run starts afresh
}

TEST(ModelsOnADevice, MeasureKernelsGapsAndReplays) {
    const auto m = model_on(&gpu());
    const NamedInputs in = inputs(9);
    const auto compiled = m->version(in);
    ASSERT_TRUE(compiled.ok());
    const auto t = (*compiled)->executable->measure(*m->arguments(**compiled, in), m->pool(), 1, 3);
    ASSERT_TRUE(t.ok()) << t.error().message;
    const auto n = static_cast<double>(t->steps.size());
    EXPECT_NEAR(t->min, n + 0.1, 1e-9);  // two events apart
    ASSERT_TRUE(t->device);
    EXPECT_NEAR(t->device->kernels, n, 1e-9);  // without the events
    EXPECT_NEAR(t->device->replay_min, n + 0.1, 1e-9);
    EXPECT_EQ(t->steps[0].launches[0].kernel, "emulated");
}

TEST(ModelsOnADevice, RunOnTheCpuWhatIsRefused) {
    FakeGpu& g = gpu();
    g.on.picky = true;
    const auto m = model_on(&g, true);
    expect_like_the_cpu(*m, 9);
    const auto compiled = m->version(inputs(9));
    EXPECT_EQ((*compiled)->executable->fallbacks().size(), 1u);
    EXPECT_TRUE(checked(*m).passed());
    const auto t = (*compiled)->executable->measure(*m->arguments(**compiled, inputs(9)), m->pool(), 1, 2);
    ASSERT_TRUE(t.ok()) << t.error().message;
    EXPECT_EQ(t->device->no_replay, "some of its kernels run on the cpu");
    g.on.picky = false;
}

// A record that was made for this device elsewhere and imported: compilation finds it by content, target and device.
class TunedOnADevice : public testing::Test {
protected:
    void SetUp() override {
        folder_ = std::filesystem::path(testing::TempDir()) / fmt::format("opwright-tuned-{}", getpid());
        std::filesystem::create_directories(folder_);
        setenv("OPWRIGHT_TUNING_DB", (folder_ / "tuning.sqlite").c_str(), 1);
        if (const char* on = std::getenv("OPWRIGHT_TUNING")) before_ = on;  // whoever runs all tests may switch it off
        unsetenv("OPWRIGHT_TUNING");
    }
    void TearDown() override {
        unsetenv("OPWRIGHT_TUNING_DB");
        if (before_) setenv("OPWRIGHT_TUNING", before_->c_str(), 1);
        std::filesystem::remove_all(folder_);
    }
    static math::Program product(const std::string& names) {  // of indices called so
        const std::string m = names.substr(0, 1), k = names.substr(1, 1), n = names.substr(2, 1);
        lang::Library library;
        const std::string text = fmt::format(
            "op product(x[{0},{1}], w[{1},{2}]) -> y[{0},{2}]:\n    y[{0},{2}] = sum[{1}](x[{0},{1}] * w[{1},{2}])\n", m,
            k, n);
        EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"test.op", text})).ok());
        return *library.elaborate_symbolic("product");
    }
    // The portable schedule of some candidate that gives another source.
    static std::string another(const math::Program& p) {
        const std::string base = *gpu().level(p, "schedule-json", {}), source = gpu().emit(p, {})->files[0].text;
        for (const schedule::TextCandidate& c : schedule::block_candidates(base))
            if (const auto e = gpu().emit(p, {.schedule = c.schedule}); e.ok() && e->files[0].text != source)
                return *gpu().level(p, "schedule-portable", {.schedule = c.schedule});
        ADD_FAILURE() << "no candidate changes the source";
        return "";
    }
    void import(const math::Program& p, const std::vector<int64_t>& sizes, const std::string& schedule) {
        const tune::Subject subject{"product", &p, {false, false}, sizes, {}, {}};
        tune::Record r;
        const auto key = tune::key_of(subject, {.target = &gpu()}, 1);
        ASSERT_TRUE(key.ok());
        r.key = *key;
        r.name = "product";
        r.sizes = sizes;
        r.measured_at = "2026-01-31 12:00:00";
        r.candidates = {{"", "untuned", 0, tune::Outcome::Measured, {3e-3, 3e-3}},
                        {schedule, "another", 0, tune::Outcome::Measured, {2e-3, 2e-3}}};
        r.winner = 1;
        std::ofstream(folder_ / "records.jsonl") << tune::to_json(r).dump() << "\n";
        auto db = tune::Database::open((folder_ / "tuning.sqlite").string(), tune::Database::Mode::Write);
        ASSERT_TRUE(db.ok()) << db.error().message;
        const auto n = tune::import_records(**db, (folder_ / "records.jsonl").string());
        ASSERT_TRUE(n.ok()) << n.error().message;
        ASSERT_EQ(*n, 1);
    }
    static Compiled compiled(const math::Program& p, bool tuned) {
        CompileOptions o;
        o.execution.target = &gpu();
        o.tuned = tuned;
        runtime::ThreadPool pool(1);
        auto c = compile(graph_of(p), o, pool);
        EXPECT_TRUE(c.ok()) << render(c.error());
        EXPECT_EQ(c->tuning_problem, "");
        return std::move(*c);
    }
    std::filesystem::path folder_;
    std::optional<std::string> before_;
};

TEST_F(TunedOnADevice, WinnersServeTheSizesNearThem) {
    const math::Program p = math::localise(product("mkn")).program;
    const std::string schedule = another(p);
    import(p, {512, 256, 128}, schedule);
    // Found by what it computes, whatever its indices are called.
    for (const char* names : {"mkn", "nab"}) {
        const math::Program same = product(names);
        gpu().on.built.clear();
        const Compiled c = compiled(same, true);
        EXPECT_EQ(gpu().on.built, (std::vector<std::string>{"", schedule})) << names;
        const auto* k = c.executable->kernel(0);
        EXPECT_EQ(k->tuned(std::vector<int64_t>{512, 256, 128}), "tuned: 1.50x over untuned on 2026-01-31");
        EXPECT_EQ(k->tuned(std::vector<int64_t>{300, 300, 200}), "tuned: 1.50x over untuned on 2026-01-31");
        EXPECT_EQ(k->tuned(std::vector<int64_t>{4096, 256, 128}), "");
        const std::string source = k->at(std::vector<int64_t>{512, 256, 128}).text("fake");
        const auto wanted = gpu().emit(math::localise(same).program, {.schedule = schedule, .portable = true});
        ASSERT_TRUE(wanted.ok()) << schedule << render(wanted.error());
        EXPECT_EQ(source, wanted->files[0].text);
        EXPECT_NE(source, k->at(std::vector<int64_t>{4096, 256, 128}).text("fake"));
        EXPECT_NE(k->text("schedule").find("at sizes 512, 256, 128 (tuned: 1.50x"), std::string::npos) << k->text("schedule");
    }
    // Switched off, and for another device, nothing is known.
    gpu().on.built.clear();
    EXPECT_EQ(compiled(p, false).executable->kernel(0)->tuned(std::vector<int64_t>{512, 256, 128}), "");
    EXPECT_EQ(gpu().on.built, std::vector<std::string>{""});
}

TEST_F(TunedOnADevice, AStoredScheduleThatDoesNotFitGivesWay) {
    const math::Program p = math::localise(product("mkn")).program;
    import(p, {512, 256, 128}, R"({"nests":[{"contract":{"mt":7}}]})");
    const Compiled c = compiled(p, true);
    EXPECT_EQ(c.executable->kernel(0)->tuned(std::vector<int64_t>{512, 256, 128}), "");
}

TEST(ModelsOnADevice, MakeRoomByForgettingOtherShapes) {
    FakeGpu g;
    const auto m = model_on(&g);
    expect_like_the_cpu(*m, 40);
    const size_t held = g.state.bytes;
    g.state.most = held + 256;  // not enough for two sizes at a time
    expect_like_the_cpu(*m, 39);
    g.state.most = held / 8;
    const auto r = m->run(inputs(41));
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.error().message.find("no memory is left"), std::string::npos) << r.error().message;
}

}  // namespace
}  // namespace opwright
