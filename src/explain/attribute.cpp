// Where a kernel's time goes, from what is measured and counted: nothing is a cause without a figure.
#include <algorithm>

#include "explain/profile.h"

namespace opwright::explain {
namespace {

// The loop that most iterations are spent in.
const target::cpu::LoopFacts* busiest(const Evidence& e) {
    const auto less = [](const auto& a, const auto& b) { return a.points < b.points; };
    const auto it = std::max_element(e.loops.begin(), e.loops.end(), less);
    return it == e.loops.end() ? nullptr : &*it;
}
}  // namespace

std::vector<Part> attribute(const Row& r, const Profile& p) {
    const Machine& m = p.machine;
    const Evidence& e = r.evidence;
    const double threads = std::max(1, m.threads);
    double left = r.min_seconds;
    std::vector<Part> parts;
    const auto take = [&](Cause c, double seconds) {
        const double s = std::clamp(seconds, 0.0, left);
        if (s > 0) parts.push_back({c, s});
        left -= s;
    };
    take(Cause::Start, r.floor_launch);
    // What sharing among the threads would have saved, down to the floors that all threads together have: two that share
    // a core, or the way to memory, do not get below those.
    constexpr double kWorthSharing = 4e-6;  // below, what another thread costs is more than it saves: nothing is lost
    if (threads > 1 && e.one_thread > kWorthSharing) take(Cause::Threads, left - std::max(e.one_thread / threads, std::max(r.floor_memory, r.floor_arithmetic)));

    // A multiply-add counts two operations; other operations take the place of one multiply-add each.
    const double peak = std::max(r.peak > 0 ? r.peak : m.flops_f32, 1.0);
    double products = 0, padding = 0, packed = 0;
    for (const auto& s : e.stages) {
        if (!s.tile) continue;
        products += 2 * s.tile->wanted();
        padding += 2 * (s.tile->computed - s.tile->wanted());
        packed += s.tile->packed;
    }
    if (products == 0 && r.contraction) products = r.simple;
    const double arithmetic = (products + 2 * std::max(0.0, r.simple - products)) / peak;
    double functions = 0;
    for (const auto& f : e.functions) functions += f.count * f.seconds / threads;
    // Each packed element is read once and written once, at best within the caches.
    const double cached = m.copies.empty() ? 0 : m.copies.front().bandwidth;
    const double packing = cached > 0 ? 8 * packed / cached : 0;
    // One subnormal lane slows its whole vector down.
    double subnormals = 0;
    if (e.subnormal > 0 && e.read > 0) {
        constexpr double kLanes = 8;
        const double vectors = r.flops() / 2 / kLanes;
        subnormals = vectors * std::min(1.0, kLanes * e.subnormal / e.read) * m.assist_seconds / threads;
    }
    if (e.conversion) {  // it computes nothing that anybody asked for
        take(Cause::Conversion, left);
        return parts;
    }
    // Cache lines of which only some elements are wanted.
    double wasted = 0, fetched = 0;
    for (const auto& loop : e.loops)
        for (const auto& a : loop.strided) wasted += a.fetched - a.wanted, fetched += a.fetched;
    const double bandwidth = m.bandwidth(r.bytes + wasted), strides = bandwidth > 0 ? wasted / bandwidth : 0;
    const double memory = r.floor_memory + strides, compute = arithmetic + padding / peak + functions + packing + subnormals;
    if (memory >= compute) {
        take(Cause::Memory, r.floor_memory);  // the rest hides behind it
        take(Cause::Strides, strides);
    } else {
        take(Cause::Arithmetic, arithmetic);
        take(Cause::Padding, padding / peak);
        take(Cause::Functions, functions);
        take(Cause::Subnormals, subnormals);
        take(Cause::Packing, packing);
    }
    // What is left has a cause where the loop that most of the work is done in is seen to run otherwise than it could.
    // Without a contraction, whose loops are of another kind.
    const target::cpu::LoopFacts* loop = r.contraction ? nullptr : busiest(e);
    if (loop && loop->lanes == 1 && loop->widest > 1) {
        take(Cause::Scalar, left);
    } else if (loop && !loop->strided.empty()) {
        const auto known = std::find_if(parts.begin(), parts.end(), [](const Part& x) { return x.cause == Cause::Strides; });
        if (known != parts.end()) known->seconds += left, left = 0;
        else take(Cause::Strides, left);
    }
    if (left > 0) parts.push_back({Cause::Unknown, left});
    return parts;
}

}  // namespace opwright::explain
