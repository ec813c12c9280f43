#include "tune/kernel.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "base/object_cache.h"
#include "base/version.h"
#include "runtime/thread_pool.h"
#include "schedule/candidates.h"
#include "schedule/portable.h"
#include "target/cpu/jit.h"
#include "target/cpu/plan.h"
#include "tune/check.h"
#include "tune/predict.h"
#include "tune/race.h"

namespace opwright::tune {
namespace {
using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

constexpr double kSampleSeconds = 400e-6;  // of one sample at least: several runs of a short kernel

// One way of computing the subject.
class Way {
public:
    virtual ~Way() = default;
    virtual Status run(std::vector<Tensor>& outputs) = 0;
    virtual Result<double> sample(std::vector<Tensor>& outputs) = 0;
};

class CpuWay final : public Way {
public:
    CpuWay(target::cpu::KernelRef k, const Subject& s, runtime::ThreadPool& pool) : kernel_(std::move(k)), s_(s), pool_(pool) {
        const auto bytes = static_cast<size_t>(std::max<int64_t>(64, kernel_->workspace_bytes(s.symbols)));
        workspace_ = Tensor(DType::U8, {static_cast<int64_t>(bytes + 64)});
    }
    Status run(std::vector<Tensor>& outputs) override {
        alignas(64) static char nothing[64];
        std::vector<const void*> in;
        std::vector<void*> out;
        for (const Tensor& t : s_.inputs) in.push_back(t.bytes() ? t.data() : nothing);
        for (Tensor& t : outputs) out.push_back(t.bytes() ? t.data() : nothing);
        auto at = reinterpret_cast<uintptr_t>(workspace_.data());
        at = (at + 63) / 64 * 64;
        return kernel_->run({in, out, s_.symbols, reinterpret_cast<void*>(at)}, pool_);
    }
    Result<double> sample(std::vector<Tensor>& outputs) override {
        const auto start = Clock::now();
        for (int n = 0; n < runs_; ++n) OPW_CHECK(run(outputs));
        const double each = since(start) / runs_;
        if (runs_ == 1 && each < kSampleSeconds / 2) {
            runs_ = static_cast<int>(std::clamp(kSampleSeconds / std::max(each, 1e-9), 1.0, 10000.0));
            return sample(outputs);  // the first run alone is shorter than the clock is good for
        }
        return each;
    }

private:
    target::cpu::KernelRef kernel_;
    const Subject& s_;
    runtime::ThreadPool& pool_;
    Tensor workspace_;
    int runs_ = 1;
};

class TargetWay final : public Way {
public:
    TargetWay(std::unique_ptr<target::Runnable> k, const Subject& s, math::SymValues sizes)
        : kernel_(std::move(k)), s_(s), sizes_(std::move(sizes)) {}
    Status run(std::vector<Tensor>& outputs) override { return kernel_->run(sizes_, s_.inputs, outputs); }
    Result<double> sample(std::vector<Tensor>& outputs) override { return kernel_->seconds(sizes_, s_.inputs, outputs); }

private:
    std::unique_ptr<target::Runnable> kernel_;
    const Subject& s_;
    math::SymValues sizes_;
};

// A candidate on its way.
struct Entry {
    Candidate record;
    std::string schedule;  // as its target takes it
    std::optional<schedule::Candidate> cpu;
    std::unique_ptr<Way> way;
};

class Tuner {
public:
    Tuner(const Subject& s, const KernelOptions& o, const explain::Machine& m, runtime::ThreadPool& pool)
        : s_(s), o_(o), machine_(m), pool_(pool) {
        const std::vector<std::string> names = s.program->symbols();
        for (size_t i = 0; i < names.size(); ++i) sizes_[names[i]] = s.symbols[i];
        for (size_t i = 0; i < s.outputs.size(); ++i) {
            const DType t = s.program->tensors[s.program->outputs[i]].dtype;
            untuned_.emplace_back(t, s.outputs[i]);
            outputs_.emplace_back(t, s.outputs[i]);
        }
    }

    Result<Record> run() {
        const auto start = Clock::now();
        Record r;
        OPW_TRY(r.key, key_of(s_, o_, pool_.size()));
        r.name = s_.name;
        r.sizes = s_.symbols;
        OPW_CHECK(o_.target ? collect_for_target() : collect_for_cpu());
        compile(0);
        if (!entries_[0].way) return failure_ ? *failure_ : Diagnostic("The untuned kernel cannot be compiled.");
        OPW_CHECK(entries_[0].way->run(untuned_));
        if (o_.target) {  // says at once where times say nothing
            auto once = entries_[0].way->sample(outputs_);
            if (!once.ok()) return once.error();
        }
        Checker checker(*s_.program, sizes_, s_.inputs, untuned_);
        for (size_t i = 1; i < entries_.size(); ++i) verify(entries_[i], checker);
        OPW_TRY(size_t winner, measure(std::max(0.05, 0.7 * (o_.seconds - since(start)))));
        if (combined(checker)) { OPW_TRY(winner, measure(std::max(0.05, o_.seconds - since(start)))); }
        r.measured_at = fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(std::time(nullptr)));
        // What could not be built is no candidate.
        for (size_t i = 0; i < entries_.size(); ++i) {
            if (i > 0 && !entries_[i].way && entries_[i].record.outcome != Outcome::Wrong) continue;
            if (i == winner) r.winner = r.candidates.size();
            r.candidates.push_back(std::move(entries_[i].record));
        }
        return r;
    }

private:
    void say(const std::string& what) const {
        if (o_.progress) o_.progress(what);
    }

    // ---- candidates
    Status collect_for_cpu() {
        OPW_TRY(const auto features, target::cpu::features_of(o_.cpu));
        const target::cpu::Request request{s_.program, s_.constant_inputs, false};
        planned_ = target::cpu::plan(request, features);
        auto found = schedule::cpu_candidates(planned_->kernel, planned_->machine, planned_->untuned, sizes_);
        say(fmt::format("ranking {} candidates", found.size()));
        for (schedule::Candidate& c : found) {
            const auto predicted = predict(*planned_, c.schedule, s_.symbols, machine_);
            if (!predicted.ok() && !entries_.empty()) continue;  // not legal
            add(std::move(c), predicted.ok() ? *predicted : 0);
        }
        // The best by the model, and the untuned one.
        std::stable_sort(entries_.begin() + 1, entries_.end(),
                         [](const Entry& a, const Entry& b) { return a.record.predicted < b.record.predicted; });
        if (entries_.size() > static_cast<size_t>(o_.candidates)) entries_.resize(static_cast<size_t>(o_.candidates));
        return ok_status();
    }
    void add(schedule::Candidate c, double predicted) {
        Entry e;
        e.record.words = entries_.empty() ? "untuned" : c.words;
        e.record.predicted = std::max(0.0, predicted);
        if (!entries_.empty()) e.record.schedule = schedule::to_portable(c.schedule, planned_->kernel);
        e.schedule = entries_.empty() ? "" : schedule::to_json(c.schedule, planned_->kernel);
        e.cpu = std::move(c);
        entries_.push_back(std::move(e));
    }
    Status collect_for_target() {
        OPW_TRY(const std::string base, o_.target->level(*s_.program, "schedule-json", {}));
        entries_.emplace_back().record.words = "untuned";
        for (schedule::TextCandidate& c : schedule::block_candidates(base)) {
            if (!o_.target->emit(*s_.program, {.schedule = c.schedule}).ok()) continue;  // not legal
            Entry e;
            e.record.words = c.words;
            const auto portable = o_.target->level(*s_.program, "schedule-portable", {.schedule = c.schedule});
            e.record.schedule = portable.ok() ? *portable : c.schedule;
            e.schedule = std::move(c.schedule);
            entries_.push_back(std::move(e));
        }
        if (entries_.size() > 2 * static_cast<size_t>(o_.candidates)) entries_.resize(2 * static_cast<size_t>(o_.candidates));
        return ok_status();
    }

    // ---- building
    void compile(size_t from) {
        say(fmt::format("compiling {} candidates", entries_.size() - from));
        std::atomic<size_t> next{from};
        std::mutex mutex;
        const auto work = [&] {
            for (size_t i; (i = next.fetch_add(1)) < entries_.size();) {
                auto way = build(entries_[i]);
                if (way.ok()) {
                    entries_[i].way = std::move(*way);
                } else if (i == 0) {
                    std::lock_guard lock(mutex);
                    failure_ = way.error();
                }
            }
        };
        std::vector<std::thread> threads;
        // A device's compiler and context are asked by one thread.
        const size_t wanted = o_.target ? 1 : std::min<size_t>(entries_.size() - from, static_cast<size_t>(runtime::available_processors()));
        for (size_t i = 1; i < wanted; ++i) threads.emplace_back(work);
        work();
        for (std::thread& t : threads) t.join();
    }
    Result<std::unique_ptr<Way>> build(const Entry& e) const {
        if (o_.target) {
            OPW_TRY(auto k, o_.target->build(*s_.program, {.schedule = e.schedule}));
            return std::unique_ptr<Way>(std::make_unique<TargetWay>(std::move(k), s_, sizes_));
        }
        target::cpu::Options cpu = o_.cpu;
        cpu.schedule = e.schedule;
        cpu.tuned = nullptr;
        cpu.compile_threads = 1;
        const target::cpu::Request request{s_.program, s_.constant_inputs, false};
        OPW_TRY(auto k, target::cpu::compile({&request, 1}, cpu)[0]);
        return std::unique_ptr<Way>(std::make_unique<CpuWay>(std::move(k), s_, pool_));
    }

    // ---- checking: no element may keep what was there before
    void verify(Entry& e, Checker& checker) {
        if (!e.way) return;
        say("checking " + e.record.words);
        for (Tensor& t : outputs_)
            if (t.bytes()) std::memset(t.data(), 0xff, t.bytes());
        std::string why;
        if (const Status s = e.way->run(outputs_); !s.ok()) why = s.error().message;
        else why = checker.check(outputs_);
        if (why.empty()) return;
        e.record.outcome = Outcome::Wrong;
        e.way = nullptr;
    }

    // ---- measuring
    Result<size_t> measure(double seconds) {
        say(fmt::format("measuring {} candidates", entries_.size()));
        std::vector<Runner> runners;
        std::vector<size_t> of;
        for (size_t i = 0; i < entries_.size(); ++i) {
            if (!entries_[i].way || dropped_.count(i)) continue;
            runners.push_back({[&, i] { return entries_[i].way->sample(outputs_); }, {}, true});
            of.push_back(i);
        }
        OPW_TRY(const size_t winner, race(runners, {.seconds = seconds}));
        for (size_t k = 0; k < of.size(); ++k) {
            Candidate& c = entries_[of[k]].record;
            c.seconds.insert(c.seconds.end(), runners[k].seconds.begin(), runners[k].seconds.end());
            if (!runners[k].alive) c.outcome = Outcome::Cut, dropped_.insert(of[k]);
        }
        return of[winner];
    }

    // The two best that concern different nests, as one more candidate.
    bool combined(Checker& checker) {
        if (!planned_ || planned_->kernel.nests.size() < 2) return false;
        std::vector<size_t> order;
        for (size_t i = 1; i < entries_.size(); ++i)
            if (entries_[i].way && entries_[i].record.best() < entries_[0].record.best() * 0.99) order.push_back(i);
        std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return entries_[a].record.best() < entries_[b].record.best(); });
        for (size_t k = 1; k < order.size(); ++k) {
            auto both = schedule::combine(planned_->untuned, *entries_[order[0]].cpu, *entries_[order[k]].cpu);
            if (!both) continue;
            const auto predicted = predict(*planned_, both->schedule, s_.symbols, machine_);
            if (!predicted.ok()) continue;
            const size_t at = entries_.size();
            add(std::move(*both), *predicted);
            compile(at);
            verify(entries_[at], checker);
            for (size_t i = 1; i < at; ++i)
                if (i != order[0]) dropped_.insert(i);
            return entries_[at].way != nullptr;
        }
        return false;
    }

    const Subject& s_;
    const KernelOptions& o_;
    const explain::Machine& machine_;
    runtime::ThreadPool& pool_;
    math::SymValues sizes_;
    std::vector<Tensor> untuned_, outputs_;
    std::optional<target::cpu::Planned> planned_;
    std::vector<Entry> entries_;
    std::set<size_t> dropped_;
    std::optional<Diagnostic> failure_;
};
}  // namespace

std::vector<Tensor> usable_inputs(std::vector<Tensor> inputs) {
    std::mt19937_64 random(11);
    for (Tensor& t : inputs) {
        if (!is_float(t.dtype()) || t.size() == 0) continue;
        bool zero = true, finite = true;
        const int64_t step = std::max<int64_t>(1, t.size() / 4096);
        for (int64_t i = 0; i < t.size(); i += step) {
            const double v = t.get(i);
            zero = zero && v == 0;
            finite = finite && std::isfinite(v);
        }
        if (!zero && finite) continue;
        Tensor r(t.dtype(), t.shape());
        for (int64_t i = 0; i < r.size(); ++i) r.set(i, static_cast<double>(random() >> 40) / (1 << 23) - 1);
        t = std::move(r);
    }
    return inputs;
}

std::string machine_text(std::string_view target, std::string_view unit, int threads) {
    if (target != "cpu") return std::string(unit);
    return fmt::format("{}, {} thread{}, {} {}", explain::processor_name(), threads, threads == 1 ? "" : "s",
                       unit.substr(0, unit.find(';')), cache_key(unit).substr(0, 8));
}
std::string emitter_text(std::string_view target) {
    if (target != "cpu") return kVersion;
    return fmt::format("{} ({}, LLVM {})", kVersion, target::cpu::kEmitterVersion, target::cpu::llvm_version());
}

Result<Key> key_of(const Subject& s, const KernelOptions& o, int threads) {
    Key k;
    k.content = target::cpu::content_of({s.program, s.constant_inputs, false});
    const auto types = [&](const std::vector<math::TensorId>& ids) {
        std::string r;
        for (math::TensorId t : ids) r += fmt::format("{}{}", r.empty() ? "" : ", ", name(s.program->tensors[t].dtype));
        return r;
    };
    k.dtypes = types(s.program->inputs) + " -> " + types(s.program->outputs);
    if (k.dtypes.size() > 1000) k.dtypes.resize(1000);
    k.layout = "dense";
    k.bucket = bucket_of(s.symbols);
    k.target = o.target ? o.target->name() : "cpu";
    std::string unit;
    if (o.target) {
        unit = o.target->runs_on();
    } else {
        OPW_TRY(const auto features, target::cpu::features_of(o.cpu));
        unit = features.key();
    }
    k.machine = machine_text(k.target, unit, threads);
    k.emitter = emitter_text(k.target);
    return k;
}

Result<Record> tune_kernel(const Subject& s, const KernelOptions& o, const explain::Machine& machine, runtime::ThreadPool& pool) {
    return Tuner(s, o, machine, pool).run();
}

}  // namespace opwright::tune
