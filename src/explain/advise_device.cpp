// One row of a profile on a device in words. Every statement comes with its number.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "explain/profile.h"
#include "explain/units.h"

namespace opwright::explain {
namespace {
using target::device::LaunchFacts;

// "softmax_kernel<<<1024, 256>>> THREADS=256: 40 registers a thread, 75 % of the threads a multiprocessor holds, 1.9
// waves".
std::string launch_text(const LaunchFacts& l) {
    std::string r = fmt::format("{}: {} registers a thread, {} of the threads a multiprocessor holds, {:.2g} waves",
                                l.kernel, l.registers, percent_text(l.occupancy), l.waves);
    if (l.spilled_bytes > 0) r += fmt::format(", {} bytes a thread spilled", l.spilled_bytes);
    return r;
}

// What the geometry tells about a kernel that is far from its floor, and what to do; empty: nothing.
std::string from_geometry(const std::vector<LaunchFacts>& launches) {
    if (launches.empty()) return "";
    if (launches.size() > 1)
        return fmt::format("its {} launches pass their results through memory, and each costs a start",
                           launches.size());
    const LaunchFacts& l = launches.front();
    if (l.spilled_bytes > 0)
        return fmt::format("{} bytes of each thread's values do not fit its registers and go through memory",
                           l.spilled_bytes);
    if (l.waves > 0 && l.waves < 0.9)
        return fmt::format("its {} blocks fill {} of the device: larger inputs (a batch) would use the rest", l.blocks,
                           percent_text(l.waves));
    const double last = l.waves - std::floor(l.waves);
    if (l.waves > 1 && l.waves < 4 && last > 0.01 && last < 0.5)
        return fmt::format("the last of its {:.0f} waves of blocks fills {} of the device", std::ceil(l.waves),
                           percent_text(last));
    if (l.occupancy > 0 && l.occupancy < 0.3)
        return fmt::format(
            "{} registers and {} of shared memory leave room for {} of a multiprocessor's threads, few to hide what "
            "memory takes to answer",
            l.registers, bytes_text(l.shared_bytes), percent_text(l.occupancy));
    return "";
}
}  // namespace

std::vector<Change> changes_on_device(const Row& r, const Profile& p) {
    std::vector<Change> list;
    const double work = std::max(r.floor_memory, r.floor_arithmetic), beyond = std::max(0.0, r.min_seconds - r.floor());
    if (r.evidence.launches.empty()) {
        list.push_back({Cause::Threads, r.min_seconds, "a form of the operator that the device has a kernel for: the device waits while it runs on the cpu"});
    } else if (r.min_seconds < 3 * r.floor_launch && work < 2 * r.floor_launch) {
        list.push_back({Cause::Start, std::max(0.0, r.min_seconds - work), "larger inputs (a batch), which use the start better"});
    } else if (r.evidence.conversion) {
        list.push_back({Cause::Conversion, r.min_seconds, "neighbours that work in the same layout, so that nothing need be converted between them"});
    } else {
        const std::string cause = from_geometry(r.evidence.launches);
        if (beyond > 0.02 * r.min_seconds)
            list.push_back({Cause::Unknown, beyond, cause.empty() ? "`ncu --set full` for the bytes that it moves and what its threads wait for" : "likely because " + cause});
        if (r.bound() == Bound::Memory) list.push_back({Cause::Memory, r.floor_memory / 2, "a 16-bit type, which halves what is moved"});
    }
    if (const Candidate* c = refused(r, p)) list.push_back({Cause::Fusion, fusion_gain(*c, p), fusion_hint(r, p)});
    std::stable_sort(list.begin(), list.end(), [](const Change& a, const Change& b) { return a.seconds > b.seconds; });
    return list;
}

std::string advise_on_device(const Row& r, const Profile& p) {
    const Machine& m = p.machine;
    const double t = r.min_seconds, work = std::max(r.floor_memory, r.floor_arithmetic);
    const std::string hint = fusion_hint(r, p);
    const auto gain = [&](double seconds) {
        return fmt::format("{} ({} of the run)", time_text(std::max(0.0, seconds)),
                           percent_text(p.min_seconds > 0 ? std::max(0.0, seconds) / p.min_seconds : 0));
    };
    if (r.evidence.launches.empty())
        return fmt::format("Runs on the cpu, on copies: {} of it is the device waiting.", time_text(t));
    if (t < 3 * r.floor_launch && work < 2 * r.floor_launch)
        return fmt::format("Launch-bound: takes {} for work of {}, and starting a kernel costs {}. {}", time_text(t),
                           time_text(work), time_text(r.floor_launch),
                           hint.empty()
                               ? "Nothing is left to fuse it with; larger inputs (a batch) use the start better."
                               : fmt::format("Next: {}.", hint));
    if (r.bound() == Bound::Memory && r.of_floor() >= 0.6)
        return fmt::format(
            "Moves {} at {}/s, {} of what a copy of that size reaches here: only moving less makes it faster. Next: "
            "{}.",
            bytes_text(r.bytes), bytes_text(r.bytes / t), percent_text(r.of_floor()),
            hint.empty() ? fmt::format("a 16-bit type would halve it, gaining about {}", gain(t / 2)) : hint);
    if (r.bound() == Bound::Arithmetic && r.of_floor() >= 0.6)
        return fmt::format(
            "Computes {}FLOP at {}FLOP/s, {} of the measured peak of {}FLOP/s: at most {} is left. Next: {}.",
            count_text(r.flops()), count_text(r.flops() / t), percent_text(r.of_floor()), count_text(r.peak),
            gain(t - r.floor()),
            r.contraction && r.peak == m.flops_f32
                ? fmt::format("16-bit factors, which the matrix units take at {}FLOP/s", count_text(m.flops_half))
                : std::string("fewer operations"));
    std::string s = fmt::format("Takes {} against a floor of {} ({}, {}).", time_text(t), time_text(r.floor()),
                                std::string(name(r.bound())), percent_text(r.of_floor()));
    for (const LaunchFacts& l : r.evidence.launches) s += fmt::format(" {}.", launch_text(l));
    if (!r.schedule.empty()) s += fmt::format(" Schedule: {}.", r.schedule);
    const std::string cause = from_geometry(r.evidence.launches);
    s += cause.empty()
             ? fmt::format(
                   " Nothing here explains {}. Next: `ncu --set full -k {}` for the bytes that it moves above {} and "
                   "what its threads wait for",
                   time_text(t - r.floor()),
                   r.evidence.launches.front().kernel.substr(0, r.evidence.launches.front().kernel.find('<')),
                   bytes_text(r.bytes))
             : fmt::format(" Likely because {}", cause);
    s += fmt::format("; at most {} to gain.", gain(t - r.floor()));
    if (!hint.empty()) s += fmt::format(" Apart from that, {}.", hint);
    return s;
}

}  // namespace opwright::explain
