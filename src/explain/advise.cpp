// One row of a profile in words. Every statement comes with its number.
#include <fmt/format.h>

#include <algorithm>

#include "explain/profile.h"
#include "explain/units.h"

namespace opwright::explain {
namespace {

// What a special function or a division costs, in multiply-adds: the length of its polynomial, the latency of its unit.
constexpr double kSpecial = 12, kDivide = 6;

// The candidate that this row took part in, was refused, and would have saved most.
const Candidate* refused(const Row& r, const Profile& p) {
    const Candidate* best = nullptr;
    for (const Candidate& c : p.candidates) {
        if (c.taken || c.bytes <= 0) continue;
        const bool mine = std::any_of(r.sources.begin(), r.sources.end(),
                                      [&](const graph::SourceOp& s) { return s.name == c.producer || s.name == c.consumer; });
        if (mine && (!best || c.bytes > best->bytes)) best = &c;
    }
    return best;
}

std::string fusion_hint(const Row& r, const Profile& p) {
    const Candidate* c = refused(r, p);
    if (!c) return "";
    const double bandwidth = p.machine.bandwidth(c->bytes);
    const double gain = bandwidth > 0 ? c->bytes / bandwidth : 0;
    return fmt::format("fusing {} into {} would save {}, about {}, but {}", c->producer, c->consumer, bytes_text(c->bytes), time_text(gain), c->reason);
}

std::string gain_text(double seconds, const Profile& p) {
    return fmt::format("{} ({} of the run)", time_text(std::max(0.0, seconds)), percent_text(p.seconds > 0 ? std::max(0.0, seconds) / p.seconds : 0));
}
}  // namespace

std::string advise(const Row& r, const Profile& p) {
    const double gain = r.seconds - r.floor();
    const double rate = r.seconds > 0 ? r.flops() / r.seconds : 0, traffic = r.seconds > 0 ? r.bytes / r.seconds : 0;
    const std::string hint = fusion_hint(r, p);
    const Machine& m = p.machine;

    if (r.bound() == Bound::Launch || r.seconds < 2 * r.floor_launch) {
        std::string s = fmt::format("Takes {} for work of {}: starting a kernel on {} thread{} costs {}, which is most of it.", time_text(r.seconds),
                                    time_text(std::max(r.floor_memory, r.floor_arithmetic)), m.threads, m.threads == 1 ? "" : "s",
                                    time_text(r.floor_launch));
        return s + (hint.empty() ? " Nothing is left to fuse it with; larger inputs (a batch) use the start better." : fmt::format(" Next: {}.", hint));
    }
    if (r.bound() == Bound::Memory && r.of_floor() >= 0.6) {
        std::string s = fmt::format("Moves {} at {}/s, {} of what this machine's memory delivers at that size: only moving less makes it faster.",
                                    bytes_text(r.bytes), bytes_text(traffic), percent_text(r.of_floor()));
        return s + (hint.empty() ? fmt::format(" Next: a 16-bit type would halve it, gaining about {}.", gain_text(r.seconds / 2, p))
                                 : fmt::format(" Next: {}.", hint));
    }
    if (r.bound() == Bound::Arithmetic && r.of_floor() >= 0.6)
        return fmt::format("Computes {}FLOP at {}FLOP/s, {} of this machine's peak of {}FLOP/s: at most {} is left. Next: more threads, or fewer operations "
                           "(a 16-bit or integer type, a smaller model).",
                           count_text(r.flops()), count_text(rate), percent_text(r.of_floor()), count_text(m.flops_f32), gain_text(gain, p));

    // Far from the floor: where the time may have gone, by what is known to be slow.
    const double peak = m.flops_f32 > 0 ? m.flops_f32 / 2 : 1;  // multiply-adds a second
    const double special = r.special * kSpecial / peak, divide = r.divide * kDivide / peak;
    std::string why, next;
    if (special + divide > 0.35 * r.seconds) {
        why = fmt::format("It evaluates {} special functions and {} divisions, worth about {} of its {}", count_text(r.special), count_text(r.divide),
                          time_text(special + divide), time_text(r.seconds));
        next = hint.empty() ? "a cheaper form of the function (the tanh form of GELU, the hard forms of sigmoid and swish), where the model allows it" : hint;
    } else if (r.contraction && r.terms > 0 && r.terms < 32) {
        why = fmt::format("Each result sums only {} terms, so loading and storing outweigh the {} multiply-adds: {}FLOP/s, {} of the peak", count_text(r.terms),
                          count_text(r.flops() / 2), count_text(rate), percent_text(rate / std::max(1.0, m.flops_f32)));
        next = hint.empty() ? "a layout with channels innermost, so that one load serves all lanes" : hint;
    } else if (r.contraction) {
        why = fmt::format("It reaches {}FLOP/s, {} of the peak, with sums of {} terms for {} results", count_text(rate),
                          percent_text(rate / std::max(1.0, m.flops_f32)), count_text(r.terms), count_text(r.results));
        next = "compare tile sizes in its schedule (`opwright explain --level schedule`): extents that are no multiple of the register tile leave lanes idle";
    } else {
        why = fmt::format("It moves {} at {}/s, {} of what memory delivers at that size", bytes_text(r.bytes), bytes_text(traffic), percent_text(r.of_floor()));
        next = hint.empty() ? "look at its loops (`opwright explain --level loop`) for accesses that are not contiguous" : hint;
    }
    std::string s = fmt::format("{}; the floor is {} ({}).", why, time_text(r.floor()), std::string(name(r.bound())));
    if (!r.schedule.empty()) s += fmt::format(" Schedule: {}.", r.schedule);
    return s + fmt::format(" Next: {}; at most {} to gain.", next, gain_text(gain, p));
}

}  // namespace opwright::explain
