#include "explain/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/thread_pool.h"

namespace opwright::explain {
using nlohmann::json;

namespace {
using Clock = std::chrono::steady_clock;

// Keeps what each worker did in a list of its own.
class Watcher final : public runtime::ThreadPool::Watcher {
public:
    Watcher(runtime::ThreadPool& pool) : pool_(pool), ranges_(static_cast<size_t>(pool.size())) { pool_.watch(this); }
    ~Watcher() override { pool_.watch(nullptr); }
    void ran(int worker, int64_t count, Time begin, Time end) noexcept override {
        ranges_[static_cast<size_t>(worker)].push_back({count, begin, end});
    }
    struct Range {
        int64_t count;
        Time begin, end;
    };
    const std::vector<std::vector<Range>>& ranges() const { return ranges_; }

private:
    runtime::ThreadPool& pool_;
    std::vector<std::vector<Range>> ranges_;
};

// Process numbers of the trace.
constexpr int kHost = 1, kDevice = 2;

json named(const char* what, int process, int thread, const std::string& name) {
    return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

json event(const std::string& name, const char* category, int process, int thread, double begin, double end, json args = json::object()) {
    return {{"ph", "X"}, {"name", name}, {"cat", category}, {"pid", process}, {"tid", thread},
            {"ts", begin * 1e6}, {"dur", std::max(0.0, end - begin) * 1e6}, {"args", std::move(args)}};
}

json arguments(const Row& r) {
    json a{{"type", r.type}, {"shapes", r.shapes}, {"flop", r.flops()}, {"bytes", r.bytes}, {"bound", std::string(name(r.bound()))},
           {"floor_us", r.floor() * 1e6}, {"least_us", r.min_seconds * 1e6}, {"of_floor", r.of_floor()}};
    if (!r.schedule.empty()) a["schedule"] = r.schedule;
    for (const target::device::LaunchFacts& l : r.evidence.launches)
        a["launches"].push_back({{"kernel", l.kernel}, {"blocks", l.blocks}, {"threads", l.threads}, {"registers", l.registers},
                                 {"spilled_bytes", l.spilled_bytes}, {"occupancy", l.occupancy}, {"waves", l.waves}});
    return a;
}

void host_events(json& events, const Profile& p, const Timeline& t) {
    std::map<graph::NodeId, const Row*> rows;
    for (const Row& r : p.rows) rows[r.node] = &r;
    const auto label = [&](graph::NodeId n) {
        const auto it = rows.find(n);
        return it == rows.end() ? std::string("kernel") : it->second->name;
    };
    events.push_back(named("process_name", kHost, 0, "Opwright: " + p.name));
    for (int i = 0; i < t.threads; ++i)
        events.push_back(named("thread_name", kHost, i, i == 0 ? "thread 1 (the caller)" : fmt::format("thread {}", i + 1)));
    for (const Span& s : t.runs) events.push_back(event(fmt::format("run {}", s.run + 1), "run", kHost, 0, s.begin, s.end));
    for (const Span& s : t.kernels) {
        const auto it = rows.find(s.node);
        events.push_back(event(label(s.node), "kernel", kHost, 0, s.begin, s.end, it == rows.end() ? json::object() : arguments(*it->second)));
    }
    for (const Span& s : t.work)
        events.push_back(event(label(s.node), "tasks", kHost, s.thread, s.begin, s.end, {{"tasks", s.tasks}, {"run", s.run + 1}}));
}

// A kernel lasts as long as it takes at least, and ends when the event behind it did; what is before it is a gap.
void device_events(json& events, const Profile& p) {
    events.push_back(named("process_name", kDevice, 0, p.machine.processor));
    events.push_back(named("thread_name", kDevice, 0, "stream"));
    events.push_back(named("thread_name", kDevice, 1, "launches by the host"));
    double origin = 0;
    for (size_t r = 0; r < p.device->runs.size(); ++r) {
        const runtime::DeviceTiming::Run& run = p.device->runs[r];
        const size_t steps = std::min({run.ended.size(), run.issued.size(), p.rows.size()});
        double before = 0, issued = 0;
        for (size_t i = 0; i < steps; ++i) {
            const Row& row = p.rows[i];
            const double begin = std::max(before, run.ended[i] - row.min_seconds);
            if (begin > before)
                events.push_back(event("gap", "gap", kDevice, 0, origin + before, origin + begin,
                                       {{"before", row.name}, {"gap_us", (begin - before) * 1e6}}));
            events.push_back(event(row.name, "kernel", kDevice, 0, origin + begin, origin + run.ended[i], arguments(row)));
            events.push_back(event(row.name, "launch", kDevice, 1, origin + issued, origin + run.issued[i], {{"run", r + 1}}));
            before = std::max(before, run.ended[i]);
            issued = run.issued[i];
        }
        origin += std::max(before, issued) + 20e-6;  // apart, so that runs can be told
    }
}
}  // namespace

Result<Timeline> timeline(const runtime::Executable& e, std::span<const Tensor> inputs, runtime::ThreadPool& pool, int runs) {
    if (auto warm = e.run(inputs, pool); !warm.ok()) return warm.error();
    Timeline t;
    t.threads = pool.size();
    Watcher watcher(pool);
    const auto origin = Clock::now();
    const auto since = [&](Clock::time_point x) { return std::chrono::duration<double>(x - origin).count(); };
    for (int r = 0; r < runs; ++r) {
        const double begin = since(Clock::now());
        double before = begin;
        const auto seen = [&](graph::NodeId n, std::span<const Tensor>, std::span<const Tensor>) {
            t.kernels.push_back({r, 0, n, before, since(Clock::now()), 0});
            before = since(Clock::now());
            return ok_status();
        };
        auto done = e.trace(inputs, pool, seen);
        if (!done.ok()) return done.error();
        t.runs.push_back({r, 0, graph::kNone, begin, since(Clock::now()), 0});
    }
    // Kernels run one after the other, so that a range belongs to the one that was running.
    for (size_t w = 0; w < watcher.ranges().size(); ++w) {
        size_t k = 0;
        for (const Watcher::Range& range : watcher.ranges()[w]) {
            const double begin = since(range.begin), end = since(range.end);
            while (k < t.kernels.size() && t.kernels[k].end < end) ++k;
            if (k == t.kernels.size()) break;
            t.work.push_back({t.kernels[k].run, static_cast<int>(w), t.kernels[k].node, begin, end, range.count});
        }
    }
    return t;
}

json trace_events(const Profile& p, const Timeline* t) {
    json events = json::array();
    if (t) host_events(events, p, *t);
    if (p.device) device_events(events, p);
    return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"},
            {"otherData", {{"model", p.name}, {"processor", p.machine.processor}, {"threads", p.threads}}}};
}

}  // namespace opwright::explain
