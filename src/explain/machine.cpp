#include "explain/machine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/object_cache.h"
#include "io/file.h"
#include "loop/builder.h"
#include "runtime/thread_pool.h"
#include "target/cpu/features.h"
#include "target/cpu/jit.h"
#include "target/device.h"

namespace opwright::explain {
namespace {

using Clock = std::chrono::steady_clock;
using target::cpu::Features;

constexpr int kFormat = 2;  // of the file on disk and of the methods below: raise it when either changes

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The shortest of at least three runs, repeated for about `budget` seconds: noise only ever adds time.
template <class F>
double best_time(double budget, F&& run) {
    double best = std::numeric_limits<double>::infinity();
    const auto begin = Clock::now();
    for (int i = 0; i < 3 || seconds_since(begin) < budget; ++i) {
        const auto start = Clock::now();
        run();
        best = std::min(best, seconds_since(start));
    }
    return best;
}

// Pages of its own, so that they are returned at once and a huge request fails cleanly.
class Pages {
public:
    explicit Pages(size_t bytes) : bytes_(bytes) {
        void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) throw std::bad_alloc();
        ::madvise(p, bytes, MADV_HUGEPAGE);
        data_ = static_cast<char*>(p);
    }
    ~Pages() { ::munmap(data_, bytes_); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    char* data() const { return data_; }

private:
    size_t bytes_;
    char* data_;
};

// Two buffers far larger than the caches, but no more than a quarter of the free memory.
double memory_working_set() {
    const double free = static_cast<double>(::sysconf(_SC_AVPHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
    return std::min(std::clamp(4 * largest_cache(), 128e6, 512e6), std::max(free / 4, 16e6));
}

std::vector<Machine::Copy> measure_copies(runtime::ThreadPool& pool) {
    const int threads = pool.size();
    const double largest = memory_working_set();
    std::vector<double> sets;
    for (double s = 32e3 * threads; s < largest / 4; s *= 8) sets.push_back(s);
    sets.push_back(largest);
    const size_t half = static_cast<size_t>(largest / 2);
    const Pages from(half), to(half);
    std::memset(from.data(), 1, half);
    std::memset(to.data(), 2, half);
    std::vector<Machine::Copy> copies;
    for (double set : sets) {
        const size_t slice = static_cast<size_t>(set / 2 / threads) / 64 * 64;
        // Small sets are copied often within one job, so that handing out the job does not count.
        const int repeats = std::max(1, static_cast<int>(4e6 / static_cast<double>(slice)));
        const double t = best_time(set == largest ? 0.3 : 0.03, [&] {
            pool.parallel_for(threads, 1, [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; ++i)
                    for (int r = 0; r < repeats; ++r) {
                        std::memcpy(to.data() + static_cast<size_t>(i) * slice,
                                    from.data() + static_cast<size_t>(i) * slice, slice);
                        asm volatile("" ::: "memory");  // each copy is wanted
                    }
            });
        });
        const double moved = 2.0 * static_cast<double>(slice) * threads * repeats;
        copies.push_back({2.0 * static_cast<double>(slice) * threads, moved / t});
    }
    return copies;
}

constexpr int kChains =
    12;  // independent accumulators: more than latency x units of known processors, within 16 registers
constexpr int64_t kSteps = 20000;

// Each task runs kChains dependent chains of kSteps multiply-adds a vector wide.
loop::Program peak_program(const Features& features) {
    using namespace loop;
    Program p;
    Builder b(p);
    const int lanes = features.lanes(DType::F32);
    const auto x = b.param("x", DType::F32, 0, Access::Read), y = b.param("y", DType::F32, 1, Access::Write);
    b.function("peak", [&] {
        b.loop("task", b.task_begin(), b.task_end(), 1, [&](Expr task) {
            const Expr a = b.let("a", b.load(x, b.i64(0), lanes)), c = b.let("c", b.load(x, b.i64(lanes), lanes));
            std::vector<LocalRef> sums;
            for (int i = 0; i < kChains; ++i)
                sums.push_back(b.local(fmt::format("s{}", i), b.load(x, b.i64(i), lanes)));
            b.loop("step", 0, b.i64(kSteps), 1, [&](Expr) {
                for (LocalRef s : sums) b.set(s, mul_add(b.get(s), a, c));
            });
            for (int i = 0; i < kChains; ++i)
                b.store(y, (task * kChains + i) * lanes, b.get(sums[static_cast<size_t>(i)]));
        });
    });
    return p;
}

// Seconds of one task of peak_program on each thread, all the factors being `value` and all the sums starting there.
Result<double> measure_peak(runtime::ThreadPool& pool, const Features& features, float value) {
    OPW_TRY(const auto module, target::cpu::compile(peak_program(features), features));
    const target::cpu::Entry kernel = module->entry("peak");
    const int lanes = features.lanes(DType::F32), threads = pool.size();
    std::vector<float> x(static_cast<size_t>(3 * lanes + kChains), value);
    std::vector<float> y(static_cast<size_t>(threads * kChains * lanes));
    void* buffers[] = {x.data(), y.data()};
    const double t = best_time(0.1, [&] {
        pool.parallel_for(threads, 1, [&](int64_t begin, int64_t end, int) {
            int64_t status = 0;
            kernel.run(buffers, nullptr, begin, end, nullptr, &status);
        });
    });
    return t;
}

// From handing out a job until every thread has taken part: one that came late for its piece would not count.
// Waking a thread takes some microseconds, in virtual machines some tens; more is the wait for a processor that others have,
// which a plan that outlives this moment must not follow (no kernel would seem worth a second one).
double measure_dispatch(runtime::ThreadPool& pool) {
    constexpr int kJobs = 50;
    constexpr double kMost = 50e-6;
    const int threads = pool.size();
    const double seen = best_time(0.02, [&] {
        for (int i = 0; i < kJobs; ++i) {
            std::atomic<int> arrived{0};
            pool.parallel_for(threads, 1, [&](int64_t, int64_t, int) {
                arrived.fetch_add(1);
                while (arrived.load() < threads) std::this_thread::yield();
            });
        }
    });
    return std::min(seen / kJobs, kMost);
}

// ---- on disk
// ------------------------------------------------------------------------------------------------------------

std::string file_name(const Machine& m, const Features& features) {
    const std::string identity = fmt::format("{}|{}|{}|{}|{}|{}", kFormat, target::cpu::kEmitterVersion, m.processor,
                                             features.key(), m.threads, ::sysconf(_SC_NPROCESSORS_ONLN));
    return "machine-" + cache_key(identity) + ".json";
}

std::optional<Machine> recall(const std::string& path, Machine m) {
    const auto text = io::read_file(path, 1 << 16);
    if (!text.ok()) return std::nullopt;
    const auto j = nlohmann::json::parse(*text, nullptr, false);
    try {
        for (const auto& c : j.at("copies")) m.copies.push_back({c.at(0).get<double>(), c.at(1).get<double>()});
        m.flops_f32 = j.at("flops_f32").get<double>();
        m.assist_seconds = j.at("assist_seconds").get<double>();
        m.dispatch_seconds = j.at("dispatch_seconds").get<double>();
        m.measured_at = j.at("measured_at").get<std::string>();
    } catch (const nlohmann::json::exception&) {
        return std::nullopt;  // damaged: measured anew
    }
    if (m.copies.empty() || !(m.flops_f32 > 0) || !(m.copy_bandwidth() > 0)) return std::nullopt;
    m.from_cache = true;
    return m;
}

// What others do on the machine while it measures can only lower a ceiling: the best ever seen is kept.
void remember(const std::string& path, Machine m, const std::optional<Machine>& before) {
    if (before && before->copies.size() == m.copies.size()) {
        for (size_t i = 0; i < m.copies.size(); ++i)
            m.copies[i].bandwidth = std::max(m.copies[i].bandwidth, before->copies[i].bandwidth);
        m.flops_f32 = std::max(m.flops_f32, before->flops_f32);
        m.dispatch_seconds = std::min(m.dispatch_seconds, before->dispatch_seconds);
        m.assist_seconds = std::min(m.assist_seconds, before->assist_seconds);
    }
    nlohmann::json j;
    for (const auto& c : m.copies) j["copies"].push_back({c.working_set, c.bandwidth});
    j["flops_f32"] = m.flops_f32;
    j["assist_seconds"] = m.assist_seconds;
    j["dispatch_seconds"] = m.dispatch_seconds;
    j["measured_at"] = m.measured_at;
    j["processor"] = m.processor;
    j["threads"] = m.threads;
    (void)io::write_file(path, j.dump(2) + "\n");  // without a place for it, the next run measures again
}

}  // namespace

double Machine::bandwidth(double bytes) const {
    for (const Copy& c : copies)
        if (bytes <= c.working_set) return c.bandwidth;
    return copy_bandwidth();
}

std::string processor_name() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        for (std::string_view key : {"model name", "Model", "cpu model"})
            if (line.compare(0, key.size(), key) == 0 && line.find(": ") != std::string::npos)
                return line.substr(line.find(": ") + 2);
    return "unknown processor";
}

double largest_cache() {
    double largest = 0;
    for (int index = 0; index < 8; ++index) {
        std::ifstream in(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
        double size = 0;
        char unit = 0;
        if (in >> size >> unit) largest = std::max(largest, size * (unit == 'M' ? 1 << 20 : 1 << 10));
    }
    return largest;
}

namespace {
Machine unmeasured(int threads) {
    Machine m;
    m.processor = processor_name();
    m.level = target::cpu::name(target::cpu::host_features().level);
    m.threads = threads;
    return m;
}
}  // namespace

std::optional<Machine> recall_machine(int threads) {
    const auto cache = default_cache();
    if (!cache) return std::nullopt;
    const Machine m = unmeasured(std::min(threads, runtime::available_processors()));
    return recall(cache->folder() + "/" + file_name(m, target::cpu::host_features()), m);
}

Result<Machine> measure_machine(runtime::ThreadPool& pool, bool fresh) {
    // Threads beyond the processors add nothing to a ceiling, and take very long to find out.
    if (const int most = runtime::available_processors(); pool.size() > most) {
        runtime::ThreadPool few(most);
        return measure_machine(few, fresh);
    }
    const Features& features = target::cpu::host_features();
    Machine m = unmeasured(pool.size());
    const auto cache = default_cache();
    const std::string path = cache ? cache->folder() + "/" + file_name(m, features) : "";
    std::optional<Machine> before = path.empty() ? std::nullopt : recall(path, m);
    if (before && !fresh) {
        // So slow a start was probably seen while others had the processors: a look at it costs little, and plans follow it.
        constexpr double kDoubtful = 10e-6;
        if (before->dispatch_seconds > kDoubtful) {
            before->dispatch_seconds = std::min(before->dispatch_seconds, measure_dispatch(pool));
            remember(path, *before, before);
        }
        return *before;
    }
    constexpr double kVectors = 1.0 * kChains * kSteps;
    OPW_TRY(const double normal, measure_peak(pool, features, 0.5f));  // sums stay near 1
    m.flops_f32 = 2 * kVectors * features.lanes(DType::F32) * pool.size() / normal;
    OPW_TRY(const double subnormal, measure_peak(pool, features, 1e-40f));
    m.assist_seconds = subnormal > 1.5 * normal ? (subnormal - normal) / kVectors : 0;
    m.copies = measure_copies(pool);
    m.dispatch_seconds = measure_dispatch(pool);
    m.measured_at = fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(std::time(nullptr)));
    if (!path.empty()) {
        std::error_code ignored;
        std::filesystem::create_directories(cache->folder(), ignored);
        remember(path, m, before);
    }
    return m;
}

Result<Machine> measure_machine(target::device::Device& d) {
    OPW_CHECK(d.enter());
    OPW_TRY(const target::device::Ceilings c, d.measure());
    Machine m;
    m.device = true;
    m.processor = d.name();
    for (const auto& [bytes, bandwidth] : c.copies) m.copies.push_back({bytes, bandwidth});
    m.flops_f32 = c.flops_f32;
    m.flops_f64 = c.flops_f64;
    m.flops_half = c.flops_half;
    m.matrix_unit = c.matrix_unit;
    m.dispatch_seconds = c.start_seconds;
    m.measured_at = fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(std::time(nullptr)));
    return m;
}

}  // namespace opwright::explain
