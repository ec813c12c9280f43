#include "fuse/time_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace opwright::fuse {
namespace {

constexpr double kOverlap = 0.8;        // of the lesser of memory and arithmetic, hidden behind the other
constexpr double kElement = 4;          // bytes of a spilled value

std::string quantity(double v, const char* unit) {
    constexpr const char* prefixes[] = {"", "k", "M", "G", "T"};
    int p = 0;
    while (v >= 1000 && p < 4) v /= 1000, ++p;
    return fmt::format("{:.{}f} {}{}", v, v < 10 && p ? 1 : 0, prefixes[p], unit);
}
std::string microseconds(double s) { return fmt::format("{:.3g} µs", s * 1e6); }
}  // namespace

double Machine::bandwidth(double bytes) const {
    for (const Level& l : levels)
        if (bytes <= l.bytes) return l.bandwidth;
    return levels.empty() ? 10e9 : levels.back().bandwidth;
}

Machine typical_cpu(int units, int vector_bytes, int vector_registers) {
    Machine m;
    m.name = fmt::format("{} thread{}, vectors of {} bytes", units, units == 1 ? "" : "s", vector_bytes);
    m.origin = "typical figures: nothing was measured on this machine";
    m.units = std::max(1, units);
    m.launch = m.units > 1 ? 3e-6 : 0.3e-6;
    const double n = m.units, wide = vector_bytes / 64.0;
    m.levels = {{32e3, 120e9 * n * std::max(0.5, wide)}, {1e6, 50e9 * n}, {24e6, 20e9 * n}, {1e18, 12e9 * std::min(2.0, std::sqrt(n))}};
    m.lanes = std::max(1, vector_bytes / 4);
    // A vector of lanes a cycle and unit at 3 GHz for simple operations, two of multiply-adds in register tiles at four
    // fifths of the peak; a division takes about 10 cycles and an exponential about 20 operations.
    m.simple = 3e9 * m.lanes * n;
    m.multiply_add = 4 * 0.8 * 3e9 * m.lanes * n;
    m.divide = m.simple / 10;
    m.special = m.simple / 20;
    m.registers = vector_registers;
    m.together = true;
    return m;
}

Estimate estimate(const Machine& m, const Work& w) {
    Estimate e;
    const double active = std::clamp(w.tasks, 1.0, static_cast<double>(m.units)) / m.units;
    e.launch = m.launch * w.launches;
    // Few units cannot fill the bus, though each draws more than its share of memory.
    const auto bandwidth = [&](double bytes) {
        const double b = m.bandwidth(bytes);
        return b * (b == m.bandwidth(1e18) ? std::sqrt(active) : active);
    };
    for (const Operand& o : w.operands) {
        if (o.bytes <= 0) continue;
        e.memory += o.bytes / (bandwidth(o.bytes) * std::max(o.useful, 1e-3));
        e.memory += std::max(0.0, o.touched - o.bytes) / bandwidth(std::min(o.bytes, m.task_bytes));
    }
    const auto rate = [&](double work, double per_second) { return work > 0 && per_second > 0 ? work / (per_second * active) : 0; };
    e.arithmetic = rate(w.simple, m.simple) + rate(w.multiply_add, m.multiply_add) + rate(w.divide, m.divide) + rate(w.special, m.special);
    e.arithmetic += w.inner / (m.bandwidth(0) * active);
    if (w.live > m.registers) e.spills = 2 * (w.live - m.registers) * kElement * w.body / (m.bandwidth(0) * active);
    e.seconds = e.launch + e.arithmetic + e.memory - kOverlap * std::min(e.arithmetic, e.memory) + e.spills;
    return e;
}

std::string print(const Estimate& e, const Work& w) {
    double bytes = 0;
    for (const Operand& o : w.operands) bytes += std::max(o.bytes, o.touched);
    std::string r = fmt::format("{} = launch {}, memory {} ({})", microseconds(e.seconds), microseconds(e.launch), microseconds(e.memory), quantity(bytes, "B"));
    std::string classes;
    const auto add = [&](double n, const char* what) {
        if (n > 0) classes += fmt::format("{}{}", classes.empty() ? "" : ", ", quantity(n, what));
    };
    add(w.multiply_add, " multiply-adds' operations");
    add(w.simple, " simple");
    add(w.divide, " divisions or roots");
    add(w.special, " exp-like");
    r += fmt::format(", arithmetic {}{}", microseconds(e.arithmetic), classes.empty() ? "" : " (" + classes + ")");
    if (e.spills > 0) r += fmt::format(", spills {}", microseconds(e.spills));
    return r;
}

Work alone(const ProgramWork& p) {
    Work w;
    for (const ProgramWork::Input& i : p.inputs) w.operands.push_back({i.bytes, i.touched, i.useful});
    for (const ProgramWork::Output& o : p.outputs) w.operands.push_back({o.bytes, o.bytes, o.useful});
    w.simple = p.simple, w.multiply_add = p.multiply_add, w.divide = p.divide, w.special = p.special;
    w.tasks = p.tasks, w.body = p.points, w.live = p.live, w.inner = p.inner, w.launches = p.nests;
    return w;
}

}  // namespace opwright::fuse
