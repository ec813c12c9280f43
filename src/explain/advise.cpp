// One row of a profile in words. Every statement comes with its number.
#include <fmt/format.h>

#include <algorithm>

#include "explain/profile.h"
#include "explain/units.h"

namespace opwright::explain {
namespace {

// Whether starting the kernel is most of its time.
bool little_but_start(const Row& r) { return r.min_seconds < (r.bound() == Bound::Launch ? 4 : 2) * r.floor_launch; }

std::string gain_text(double seconds, const Profile& p) {
    return fmt::format("{} ({} of the run)", time_text(std::max(0.0, seconds)), percent_text(p.min_seconds > 0 ? std::max(0.0, seconds) / p.min_seconds : 0));
}
// The parts with their figures: "2.3 ms multiply-adds at this machine's peak, 3.9 ms 2.46 M erf, ...".
std::string account(const Row& r) {
    const Evidence& e = r.evidence;
    std::string s;
    for (const Part& part : r.parts) {
        if (part.seconds < 0.02 * r.min_seconds) continue;
        std::string what;
        switch (part.cause) {
            case Cause::Start: what = "starting it on the threads"; break;
            case Cause::Memory: what = fmt::format("moving {}", bytes_text(r.bytes)); break;
            case Cause::Arithmetic: what = fmt::format("{}FLOP at the machine's peak", count_text(r.flops())); break;
            case Cause::Padding: what = "rows and columns that fill up register tiles"; break;
            case Cause::Functions:
                for (const auto& f : e.functions) what += fmt::format("{}{} {}", what.empty() ? "" : ", ", count_text(f.count), f.name);
                break;
            case Cause::Packing: what = "packing factors (at least)"; break;
            case Cause::Subnormals: what = "subnormal numbers"; break;
            case Cause::Threads: what = "threads that wait"; break;
            case Cause::Strides: what = "reads that are not side by side"; break;
            case Cause::Scalar: what = "one element at a time, without vectors"; break;
            case Cause::Conversion: what = fmt::format("bringing {} into another layout", bytes_text(r.bytes / 2)); break;
            case Cause::Fusion:
            case Cause::Unknown: what = "not explained"; break;
        }
        s += fmt::format("{}{} {}", s.empty() ? "" : ", ", time_text(part.seconds), what);
    }
    return s;
}

std::string tile_text(const Evidence& e) {
    for (const auto& s : e.stages)
        if (s.tile)
            return fmt::format("register tiles of {}x{} cover {} x {} results with {} of padding", s.tile->rows, s.tile->columns, s.tile->m, s.tile->n,
                               percent_text(s.tile->wanted() > 0 ? s.tile->computed / s.tile->wanted() - 1 : 0));
    return "";
}

// "x along n in steps of 16 elements" of the reads that waste most.
std::string strides_text(const Evidence& e) {
    const target::cpu::LoopFacts::Access* worst = nullptr;
    double wanted = 0, fetched = 0;
    for (const auto& loop : e.loops)
        for (const auto& a : loop.strided) {
            wanted += a.wanted, fetched += a.fetched;
            if (!worst || a.fetched - a.wanted > worst->fetched - worst->wanted) worst = &a;
        }
    if (!worst) return "";
    if (worst->data) return fmt::format("'{}' is read at places that are data, one element at a time", worst->tensor);
    std::string s = fmt::format("'{}' is read in steps of {} elements along {}", worst->tensor, worst->step, worst->along);
    if (fetched > 1.5 * wanted) s += fmt::format(", {} of cache lines for {} that are wanted", bytes_text(fetched), bytes_text(wanted));
    return s;
}

std::string scalar_text(const Evidence& e) {
    for (const auto& loop : e.loops)
        if (loop.lanes == 1 && loop.widest > 1)
            return fmt::format("'{}' is computed one element at a time, where vectors of this processor hold {}{}", loop.result, loop.widest,
                               loop.scan ? ": each step needs the one before" : "");
    return "";
}

// What else than the functions that cost most the model could take.
std::string functions_text(const Evidence& e) {
    const auto cost = [](const Evidence::Function& f) { return f.count * f.seconds; };
    const auto most = std::max_element(e.functions.begin(), e.functions.end(), [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
    const std::string name = most == e.functions.end() ? "" : most->name;
    if (name == "/") return "multiplication with a reciprocal in place of the divisions, where the divisor is one number or one a row and the model allows it";
    std::string r = name.empty() ? "a cheaper form of these functions" : fmt::format("a cheaper form of {}", name);
    if (name == "erf") r += " (GELU's form with tanh)";
    if (name == "exp" || name == "tanh" || name == "sigmoid") r += " (the hard forms of sigmoid and swish)";
    return r + ", where the model allows it";
}

// What to do about a part; empty: nothing that is known.
std::string remedy(const Row& r, const Profile& p, const Part& part) {
    const Evidence& e = r.evidence;
    switch (part.cause) {
        case Cause::Functions: return functions_text(e);
        case Cause::Padding: return "extents that are multiples of the register tile: " + tile_text(e);
        case Cause::Packing: return "constant factors, which are packed once for all runs, or more results to each packed element";
        case Cause::Subnormals:
            return fmt::format("set what is smaller than 1.2e-38 to zero: {} of the {} elements that it reads are subnormal", count_text(e.subnormal), count_text(e.read));
        case Cause::Threads: {
            int64_t tasks = 0;
            for (const auto& s : e.stages) tasks = std::max(tasks, s.tasks);
            const std::string ratio = fmt::format("{} threads are {:.2f} times as fast as one ({})", p.machine.threads, e.one_thread / r.min_seconds, time_text(e.one_thread));
            if (!e.stages.empty() && tasks < p.machine.threads) return fmt::format("a larger input: {}, because the work is {} task{}", ratio, tasks, tasks == 1 ? "" : "s");
            return fmt::format("see whether other processes use the machine: {}, though there are {} tasks to share", ratio, tasks);
        }
        case Cause::Memory: return "a 16-bit type, which halves what is moved";
        case Cause::Start: return "larger inputs (a batch), which use the start better";
        case Cause::Strides: return "data that lie side by side in the order in which they are read: " + strides_text(e);
        case Cause::Scalar: return "a schedule, or a form of the operator, that vectors can take: " + scalar_text(e);
        case Cause::Conversion: return "neighbours that work in the same layout, so that nothing need be converted between them";
        case Cause::Unknown: return "look at its loops (`opwright explain --level loop`) for what no figure here explains";
        case Cause::Arithmetic:
        case Cause::Fusion: break;
    }
    return "";
}
}  // namespace

std::vector<Change> changes(const Row& r, const Profile& p) {
    std::vector<Change> list;
    const double work = std::max(r.floor_memory, r.floor_arithmetic);
    const bool small = little_but_start(r);  // all beyond its work would be shared with others
    if (small) list.push_back({Cause::Start, std::max(0.0, r.min_seconds - work), remedy(r, p, {Cause::Start, 0})});
    for (const Part& part : r.parts) {
        if (part.cause == Cause::Arithmetic || part.cause == Cause::Start || part.seconds < 0.02 * r.min_seconds) continue;
        if (small && part.cause != Cause::Conversion) continue;
        // Half the bytes take half the time.
        double seconds = part.cause == Cause::Memory ? part.seconds / 2 : part.seconds;
        if (part.cause == Cause::Conversion) seconds = r.min_seconds;
        list.push_back({part.cause, seconds, remedy(r, p, part)});
    }
    if (const Candidate* c = refused(r, p)) list.push_back({Cause::Fusion, fusion_gain(*c, p), fusion_hint(r, p)});
    std::stable_sort(list.begin(), list.end(), [](const Change& a, const Change& b) { return a.seconds > b.seconds; });
    return list;
}

const Candidate* refused(const Row& r, const Profile& p) {
    const Candidate* best = nullptr;
    for (const Candidate& c : p.candidates) {
        if (c.taken || c.bytes <= 0) continue;
        const fuse::Decision& d = c.decision;
        if (d.predicted_before > 0 && d.predicted_after >= d.predicted_before) continue;
        const bool mine = std::any_of(r.sources.begin(), r.sources.end(),
                                      [&](const graph::SourceOp& s) { return s.name == c.producer || s.name == c.consumer; });
        if (mine && (!best || c.bytes > best->bytes)) best = &c;
    }
    return best;
}

double fusion_gain(const Candidate& c, const Profile& p) {
    const double bandwidth = p.machine.bandwidth(c.bytes);
    const double start = c.start > 0 ? c.start : p.machine.dispatch_seconds + p.call_seconds;
    return std::min((bandwidth > 0 ? c.bytes / bandwidth : 0) + start, c.least);
}

std::string fusion_hint(const Row& r, const Profile& p) {
    const Candidate* c = refused(r, p);
    if (!c) return "";
    return fmt::format("fusing {} into {} would save {}, about {}, but {}", c->producer, c->consumer, bytes_text(c->bytes), time_text(fusion_gain(*c, p)), c->reason);
}

std::string advise(const Row& r, const Profile& p) {
    const double t = r.min_seconds, gain = t - r.floor();
    const double rate = t > 0 ? r.flops() / t : 0, traffic = t > 0 ? r.bytes / t : 0;
    const std::string hint = fusion_hint(r, p);
    const Machine& m = p.machine;
    std::string unsteady;
    if (r.seconds > 1.3 * t)
        unsteady = fmt::format(" Its median run took {}: other processes or the clock, not the kernel; {} is the least of {} runs.", time_text(r.seconds), time_text(t), p.repeats);

    if (little_but_start(r)) {
        const bool handed = r.floor_launch > p.call_seconds;
        std::string s = fmt::format("Takes {} for work of {}: starting a kernel{} costs {}, and so little work does not outweigh it.", time_text(t),
                                    time_text(std::max(r.floor_memory, r.floor_arithmetic)),
                                    handed ? fmt::format(" on {} thread{}", m.threads, m.threads == 1 ? "" : "s") : "", time_text(r.floor_launch));
        return s + (hint.empty() ? " Nothing is left to fuse it with; larger inputs (a batch) use the start better." : fmt::format(" Next: {}.", hint)) + unsteady;
    }
    if (r.bound() == Bound::Memory && r.of_floor() >= 0.6) {
        std::string s = fmt::format("Moves {} at {}/s, {} of what this machine's memory delivers at that size: only moving less makes it faster.",
                                    bytes_text(r.bytes), bytes_text(traffic), percent_text(r.of_floor()));
        return s + (hint.empty() ? fmt::format(" Next: a 16-bit type would halve it, gaining about {}.", gain_text(t / 2, p)) : fmt::format(" Next: {}.", hint)) + unsteady;
    }
    if (r.bound() == Bound::Arithmetic && r.of_floor() >= 0.75)
        return fmt::format("Computes {}FLOP at {}FLOP/s, {} of this machine's peak of {}FLOP/s: at most {} is left. Next: {}fewer operations "
                           "(a 16-bit or integer type, a smaller model).",
                           count_text(r.flops()), count_text(rate), percent_text(r.of_floor()), count_text(r.peak > 0 ? r.peak : m.flops_f32), gain_text(gain, p),
                           p.threads < p.processors ? "more threads, or " : "") +
               unsteady;

    if (r.evidence.conversion)
        return fmt::format("Computes nothing: takes {} to bring {} into another layout. Next: {}; at most {} to gain.", time_text(t), bytes_text(r.bytes / 2),
                           remedy(r, p, {Cause::Conversion, t}), gain_text(t, p)) +
               unsteady;
    // Far from the floor: the parts of its time by their evidence, and the largest of those that could go away.
    const Part* largest = nullptr;
    for (const Part& part : r.parts)
        if (part.cause != Cause::Arithmetic && (!largest || part.seconds > largest->seconds)) largest = &part;
    std::string s = fmt::format("Takes {} against a floor of {} ({}, {}).", time_text(t), time_text(r.floor()), std::string(name(r.bound())), percent_text(r.of_floor()));
    if (const std::string parts = account(r); !parts.empty()) s += fmt::format(" Of it: {}.", parts);
    if (r.terms > 0 && r.terms < 32 && r.contraction) s += fmt::format(" Each result sums only {} terms, so that loading and storing outweigh the arithmetic.", count_text(r.terms));
    if (const std::string tile = tile_text(r.evidence); !tile.empty()) s += fmt::format(" Its {}.", tile);
    else if (!r.schedule.empty()) s += fmt::format(" Schedule: {}.", r.schedule);
    if (largest) s += fmt::format(" Next: {}; at most {} to gain.", remedy(r, p, *largest), gain_text(largest->seconds, p));
    if (!hint.empty()) s += fmt::format(" Apart from that, {}.", hint);
    return s + unsteady;
}

}  // namespace opwright::explain
