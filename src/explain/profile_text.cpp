// A profile as text and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text.h"
#include "explain/fusion_report.h"
#include "explain/profile.h"
#include "explain/units.h"

namespace opwright::explain {
namespace {

constexpr size_t kExplained = 5;  // kernels that the text says more of; JSON and the page do of all

std::string right(const std::string& s, size_t width) { return std::string(width > columns(s) ? width - columns(s) : 0, ' ') + s; }
std::string left(const std::string& s, size_t width) { return s + std::string(width > columns(s) ? width - columns(s) : 0, ' '); }

std::string counted(size_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

// More threads than processors take turns on them.
std::string threads_text(const Profile& p) {
    const std::string r = counted(static_cast<size_t>(p.threads), "thread");
    return p.threads > p.machine.threads ? fmt::format("{} on {}", r, counted(static_cast<size_t>(p.machine.threads), "processor")) : r;
}

// "layout conversion" and "not explained" are too long for a column.
std::string mostly(const Row& r) { return r.mostly() == name(Cause::Conversion) ? "layout" : std::string(r.mostly()); }

std::vector<size_t> by_cost(const Profile& p) {
    std::vector<size_t> order(p.rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p.rows[a].min_seconds > p.rows[b].min_seconds; });
    return order;
}
// The device's time, and the time in which it waits between kernels.
std::string header_on_device(const Profile& p) {
    const Machine& m = p.machine;
    const runtime::DeviceTiming& d = *p.device;
    std::string r = wrapped(fmt::format("{}: {} a run on {} (median of {}, least {}), {} for {}",
                                        cut(p.name.empty() ? "model" : p.name, 30), time_text(p.seconds), m.processor,
                                        p.repeats, time_text(p.min_seconds), counted(p.rows.size(), "kernel"), counted(p.source_operators, "operator")));
    r += wrapped(fmt::format("ceilings: copy {}/s, arithmetic {}FLOP/s (f32), {}FLOP/s (f64), {}FLOP/s (16-bit, {}), start of a kernel {}",
                             bytes_text(m.copy_bandwidth()), count_text(m.flops_f32), count_text(m.flops_f64),
                             count_text(m.flops_half), m.matrix_unit, time_text(m.dispatch_seconds)));
    std::string replay = d.replay_min > 0 ? fmt::format("replayed as one graph a run takes {}, {} of them gaps",
                                                        time_text(d.replay_min), time_text(p.replay_gaps()))
                                          : fmt::format("not replayed as a graph: {}", d.no_replay);
    r += wrapped(fmt::format("launch gaps: {} of the least run ({}), in which the device waits for the next kernel: {} in kernels; {}",
                             time_text(p.launch_gaps()), percent_text(p.min_seconds > 0 ? p.launch_gaps() / p.min_seconds : 0),
                             time_text(d.kernels), replay));
    r += wrapped(fmt::format("copies between host and device, not part of the run: {} for the inputs, {} for the outputs",
                             time_text(d.upload), time_text(d.download)));
    return r;
}
}  // namespace

std::string to_text(const Profile& p, size_t limit) {
    std::string r;
    if (p.device) {
        r += header_on_device(p);
    } else {
    r += wrapped(fmt::format("{}: {} a run (median of {}, least {}), {}, {} for {}", cut(p.name.empty() ? "model" : p.name, 30),
                             time_text(p.seconds), p.repeats, time_text(p.min_seconds), threads_text(p), counted(p.rows.size(), "kernel"),
                             counted(p.source_operators, "operator")));
    r += wrapped(fmt::format("ceilings: copy {}/s, arithmetic {}FLOP/s (f32), start of a kernel {}", bytes_text(p.machine.copy_bandwidth()),
                             count_text(p.machine.flops_f32), time_text(p.machine.dispatch_seconds)));
    }
    r += wrapped(fmt::format("memory: {} for intermediate results (no plan could do with less than {}), {} of constants", bytes_text(static_cast<double>(p.memory.arena)),
                             bytes_text(static_cast<double>(p.memory.lower_bound)), bytes_text(static_cast<double>(p.memory.constants))));
    r += wrapped(fmt::format("fusion: {} joined another, which saves {} of memory traffic a run", counted(p.fused, "operator"), bytes_text(p.fused_bytes)));
    if (p.interruptions >= 1 || p.seconds > 1.3 * p.min_seconds)
        r += wrapped(fmt::format("unsteady: the system took a processor away {:.1f} times a run on average, and the median run took {:.1f} times the least; "
                                 "the times below are the least of {} runs",
                                 p.interruptions, p.min_seconds > 0 ? p.seconds / p.min_seconds : 1, p.repeats));
    r += "\n";

    r += "operator                                     time share     FLOP    bytes FLOP/B mostly    of floor\n";
    const std::vector<size_t> order = by_cost(p);
    size_t shown = 0;
    for (size_t i : order) {
        if (limit && shown++ == limit) break;
        const Row& x = p.rows[i];
        r += left(cut_path(x.name, 18), 19) + left(cut(x.type, 20), 21) + right(time_text(x.min_seconds), 9) + right(percent_text(x.share), 6) +
             right(count_text(x.flops()), 9) + right(bytes_text(x.bytes), 9) + right(fmt::format("{:.1f}", x.intensity()), 7) + " " +
             left(mostly(x), 10) + right(percent_text(x.of_floor()), 8) + "\n";
    }
    if (limit && order.size() > limit) {
        double rest = 0;
        for (size_t k = limit; k < order.size(); ++k) rest += p.rows[order[k]].share;
        r += fmt::format("... and {} more, {} of the time\n", order.size() - limit, percent_text(rest));
    }
    r += "\n";
    // What can be won, where most can be: of kernels that are alike, the costliest stands for all.
    const auto groups = alike(p);
    for (size_t g = 0; g < std::min(kExplained, groups.size()); ++g) {
        const Row& x = p.rows[groups[g][0]];
        if (x.advice.empty()) continue;
        double loss = 0;
        for (size_t i : groups[g]) loss += p.rows[i].loss();
        r += cut(fmt::format("{} ({}) {}", x.name, x.type, x.shapes), text_columns()) + "\n";
        if (const size_t others = groups[g].size() - 1; others > 0)
            r += wrapped(fmt::format("and {} more like it: together {} above their floors, {} of the run", others, time_text(loss),
                                     percent_text(p.min_seconds > 0 ? loss / p.min_seconds : 0)), 2, 4);
        r += wrapped(x.advice, 4, 4);
    }
    return r;
}

nlohmann::json to_json(const Profile& p) {
    using nlohmann::json;
    json rows = json::array(), fusion = json::array();
    for (const Row& r : p.rows) {
        json sources = json::array();
        for (const graph::SourceOp& s : r.sources) sources.push_back({{"name", s.name}, {"type", s.type}});
        json row{{"name", r.name}, {"type", r.type}, {"sources", std::move(sources)}, {"shapes", r.shapes}, {"ms", r.seconds * 1e3},
                 {"min_ms", r.min_seconds * 1e3}, {"share", r.share}, {"flops", r.flops()},
                 {"flops_by_class", {{"simple", r.simple}, {"divide", r.divide}, {"special", r.special}}}, {"bytes", r.bytes},
                 {"intensity", r.intensity()},
                 {"floors_ms", {{"launch", r.floor_launch * 1e3}, {"memory", r.floor_memory * 1e3}, {"arithmetic", r.floor_arithmetic * 1e3}}},
                 {"bound", std::string(name(r.bound()))}, {"of_floor", r.of_floor()}, {"schedule", r.schedule}};
        if (!r.parts.empty()) {
            row["parts"] = json::array();
            for (const Part& part : r.parts) row["parts"].push_back({{"cause", std::string(name(part.cause))}, {"ms", part.seconds * 1e3}});
        }
        if (r.evidence.one_thread > 0) row["one_thread_ms"] = r.evidence.one_thread * 1e3;
        if (!r.advice.empty()) row["advice"] = r.advice;
        for (const Change& c : r.changes)
            row["changes"].push_back({{"cause", std::string(name(c.cause))}, {"gain_ms", c.seconds * 1e3}, {"what", c.what}});
        for (const target::device::LaunchFacts& l : r.evidence.launches)
            row["launches"].push_back({{"kernel", l.kernel}, {"blocks", l.blocks}, {"threads", l.threads}, {"registers", l.registers},
                                       {"spilled_bytes", l.spilled_bytes}, {"shared_bytes", l.shared_bytes},
                                       {"occupancy", l.occupancy}, {"waves", l.waves}});
        rows.push_back(std::move(row));
    }
    for (const Candidate& c : p.candidates) {
        json one = candidate_json(c.decision, c.bytes);
        one.update({{"producer", c.producer}, {"consumer", c.consumer}, {"value", c.value}, {"taken", c.taken}, {"reason", c.reason}});
        fusion.push_back(std::move(one));
    }
    for (size_t i = 0; i < p.candidates.size(); ++i)
        if (!p.candidates[i].taken) fusion[i]["gain_ms"] = fusion_gain(p.candidates[i], p) * 1e3;
    json copies = json::array();
    for (const Machine::Copy& c : p.machine.copies) copies.push_back({{"working_set", c.working_set}, {"bytes_per_second", c.bandwidth}});
    json r{{"name", p.name}, {"total_ms", p.seconds * 1e3}, {"min_ms", p.min_seconds * 1e3}, {"threads", p.threads}, {"warmup", p.warmup},
            {"repeats", p.repeats}, {"interruptions", p.interruptions},
            {"machine", {{"processor", p.machine.processor}, {"level", p.machine.level}, {"copy_bytes_per_second", p.machine.copy_bandwidth()}, {"copies", std::move(copies)},
                         {"device", p.machine.device},
                         {"flops_f32", p.machine.flops_f32}, {"dispatch_ms", p.machine.dispatch_seconds * 1e3}, {"measured_at", p.machine.measured_at}}},
            {"memory", {{"arena", p.memory.arena}, {"lower_bound", p.memory.lower_bound}, {"constants", p.memory.constants}}},
            {"operators", std::move(rows)}, {"fusion", std::move(fusion)}, {"fused_bytes", p.fused_bytes},
            {"fused", p.fused}, {"source_operators", p.source_operators}};
    if (p.device) {
        r["machine"].update({{"flops_f64", p.machine.flops_f64}, {"flops_half", p.machine.flops_half}, {"matrix_unit", p.machine.matrix_unit}});
        r["device"] = {{"kernels_ms", p.device->kernels * 1e3}, {"launch_gaps_ms", p.launch_gaps() * 1e3},
                       {"upload_ms", p.device->upload * 1e3}, {"download_ms", p.device->download * 1e3}};
        if (p.device->replay_min > 0) r["device"].update({{"graph_ms", p.device->replay_min * 1e3}, {"graph_gaps_ms", p.replay_gaps() * 1e3}});
        else r["device"]["no_graph"] = p.device->no_replay;
    }
    return r;
}

}  // namespace opwright::explain
