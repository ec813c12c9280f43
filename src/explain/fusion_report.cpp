#include "explain/fusion_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "explain/recognise.h"
#include "explain/units.h"

namespace opwright::explain {
namespace {
using fuse::Decision;

std::string right(const std::string& s, size_t width) { return std::string(width > columns(s) ? width - columns(s) : 0, ' ') + s; }
std::string left(const std::string& s, size_t width) { return s + std::string(width > columns(s) ? width - columns(s) : 0, ' '); }

double bytes_of(const Decision& d, const Compiled& c) {
    const auto v = math::evaluate(d.bytes, c.planned.sizes);
    return v ? static_cast<double>(*v) : 0;
}
bool weighed(const Decision& d) { return d.predicted_before > 0; }
double gain(const Decision& d) { return d.measured_after > 0 ? d.measured_before - d.measured_after : d.predicted_before - d.predicted_after; }

std::string sizes_text(const fuse::Fused& f) {
    std::string given, assumed;
    for (const auto& [symbol, value] : f.sizes) {
        const bool open = std::find(f.assumed.begin(), f.assumed.end(), symbol) != f.assumed.end();
        std::string& s = open ? assumed : given;
        if (s.size() > 200) continue;
        s += fmt::format("{}{} = {}", s.empty() ? "" : ", ", symbol, value);
    }
    std::string r;
    if (!given.empty()) r += "sizes: " + given + "\n";
    if (!assumed.empty()) r += fmt::format("sizes that the model leaves open, assumed for the figures (--size gives others): {}\n", assumed);
    return r;
}

constexpr size_t kColumn = 19 + 19 + 9 + 8 + 10 + 10 + 2;  // where reasons begin
bool beside() { return text_columns() >= kColumn + 20; }

std::string row(const Decision& d, const Compiled& c) {
    std::string r = left(cut_path(d.producer, 18), 19) + left(cut_path(d.consumer, 18), 19) + right(bytes_text(bytes_of(d, c)), 9);
    r += weighed(d) ? right(d.recompute < 999.5 ? fmt::format("{:.3g}x", d.recompute) : count_text(d.recompute) + "x", 8) : right("-", 8);
    const bool measured = d.measured_after > 0;
    const double before = measured ? d.measured_before : d.predicted_before, after = measured ? d.measured_after : d.predicted_after;
    r += weighed(d) ? right(time_text(before), 10) + right(time_text(after), 10) : right("-", 10) + right("-", 10);
    r += measured ? "*" : " ";
    std::string reason = d.reason;
    if (weighed(d) && d.live > d.registers) reason += fmt::format("; {} live values in {} registers", d.live, d.registers);
    // A reason that is longer goes on below its beginning, and all of it below the figures where there is no room beside them.
    if (!beside()) return r.substr(0, r.size() - (measured ? 0 : 1)) + "\n" + wrapped(reason, 4, 4);
    const std::string lines = wrapped(reason, 0, 0, text_columns() - kColumn);
    size_t begin = 0;
    for (bool first = true; begin < lines.size(); first = false) {
        const size_t end = lines.find('\n', begin);
        r += (first ? " " : std::string(kColumn, ' ')) + lines.substr(begin, end - begin) + "\n";
        begin = end + 1;
    }
    return r;
}

std::string section(const char* title, std::vector<const Decision*> ds, const Compiled& c, size_t limit) {
    std::stable_sort(ds.begin(), ds.end(), [&](const Decision* a, const Decision* b) {
        return std::max(std::abs(gain(*a)), 0.0) * weighed(*a) > std::max(std::abs(gain(*b)), 0.0) * weighed(*b);
    });
    std::string r = fmt::format("\n{} ({})\n", title, ds.size());
    if (ds.empty()) return r;
    r += "producer           reader              traffic   again     apart    as one";
    r += !beside() ? "\n" : title[0] == 't' ? "  how\n" : "  why not\n";
    for (size_t i = 0; i < ds.size() && (!limit || i < limit); ++i) r += row(*ds[i], c);
    if (limit && ds.size() > limit) r += fmt::format("... and {} more (--rows 0 shows all)\n", ds.size() - limit);
    return r;
}

std::string names(const graph::Node& n) {
    std::string r;
    for (size_t i = 0; i < n.sources.size(); ++i) {
        if (r.size() > 160) return r + fmt::format(" and {} more", n.sources.size() - i);
        r += (i ? i + 1 == n.sources.size() ? " and " : ", " : "") + n.sources[i].name;
    }
    return r;
}

double predicted_seconds(const Compiled& c, const graph::Node& n) {
    if (n.kind != graph::NodeKind::Compute) return 0;
    return fuse::estimate(c.planned.machine, fuse::alone(fuse::program_work(n.program, c.planned.sizes, c.planned.machine.together))).seconds;
}

// By node: whether it depends on constants alone, and runs when the model is compiled.
std::vector<bool> run_once(const graph::Graph& g) {
    std::vector<bool> once(g.nodes.size());
    for (graph::NodeId i = 0; i < g.nodes.size(); ++i)
        once[i] = std::all_of(g.nodes[i].inputs.begin(), g.nodes[i].inputs.end(), [&](graph::ValueId v) {
            if (v == graph::kNone || g.values[v].constant) return true;
            const graph::NodeId producer = g.values[v].producer;
            return producer != graph::kNone && once[producer];
        });
    return once;
}

std::string layouts_text(const Compiled& c) {
    std::string r;
    for (const fuse::LayoutRegion& region : c.layouts) {
        r += wrapped(fmt::format("- {} and {} more values between kernels: {}.", region.values[0], region.values.size() - 1,
                                 region.reason), 2, 4);
        if (region.changed.empty()) continue;
        std::string meets;
        constexpr size_t kShown = 6;
        for (size_t i = 0; i < std::min(kShown, region.conversions.size()); ++i)
            meets += fmt::format("{}{} ({})", i ? ", " : "", region.conversions[i].node, time_text(region.conversions[i].seconds));
        if (region.conversions.size() > kShown) meets += fmt::format(" and {} more", region.conversions.size() - kShown);
        r += wrapped(fmt::format("{} of them have their channels last now. {}", region.changed.size(),
                                 meets.empty() ? "No kernel reads one layout and writes the other."
                                               : "Kernels that read one layout and write the other, and what that is predicted to add: " + meets + "."),
                     6, 6);
    }
    return r.empty() ? r : "\nlayouts\n" + r;
}

std::string winograd_text(const Compiled& c) {
    std::string r;
    for (const fuse::WinogradChoice& w : c.winograd)
        r += wrapped(fmt::format("- {}: {}; {}.", w.node, w.taken ? "taken" : "as it is declared", w.reason), 2, 4);
    return r.empty() ? r : "\nWinograd's form of convolutions\n" + r;
}
}  // namespace

std::string fusion_text(const Compiled& c, size_t limit) {
    std::vector<const Decision*> taken, refused;
    double saved = 0;
    for (const Decision& d : c.decisions) {
        (d.taken ? taken : refused).push_back(&d);
        if (d.taken) saved += bytes_of(d, c);
    }
    const graph::Graph& g = c.executable->graph();
    const std::vector<bool> once = run_once(g);
    size_t kernels = 0, at_first = 0;
    double total = 0;
    for (graph::NodeId i = 0; i < g.nodes.size(); ++i) {
        if (g.nodes[i].kind != graph::NodeKind::Compute) continue;
        if (once[i]) ++at_first;
        else ++kernels, total += predicted_seconds(c, g.nodes[i]);
    }
    std::string r = wrapped(fmt::format("fusion: {} candidates, {} taken, which saves {} of memory traffic; {} kernel{}, predicted to take {}{}",
                                        c.decisions.size(), taken.size(), bytes_text(saved), kernels, kernels == 1 ? " remains" : "s remain", time_text(total),
                                        at_first ? fmt::format("; {} more run once, on constants", at_first) : ""));
    const fuse::Machine& m = c.planned.machine;
    r += wrapped(fmt::format("weighed for {}, {} unit{} ({})", m.name, m.units, m.units == 1 ? "" : "s", m.origin));
    r += wrapped(sizes_text(c.planned));
    if (c.planned.measured_seconds > 0) r += wrapped(fmt::format("* measured: close calls took {} to measure", time_text(c.planned.measured_seconds)));
    r += wrapped("traffic: bytes that need not be written and read, or would not have to be; again: evaluations of each of the "
                 "producer's elements; apart, as one: predicted times of the kernels concerned (--why NODE says how they come about)");
    std::string known;
    for (const graph::Node& n : g.nodes)
        if (const std::string is = recognised_text(g, n); !is.empty()) known += fmt::format("    {}: {}\n", is, names(n));
    if (!known.empty()) r += "\nrecognised by their mathematics\n" + wrapped(known, 0, 8);
    r += layouts_text(c);
    r += winograd_text(c);
    r += section("taken", std::move(taken), c, limit);
    r += section("refused", std::move(refused), c, limit);
    return r;
}

Result<std::string> operator_named(const Compiled& c, const std::string& name) {
    std::vector<std::string> known, holding;
    for (const graph::Node& n : c.executable->graph().nodes)
        for (const graph::SourceOp& s : n.sources)
            if (std::find(known.begin(), known.end(), s.name) == known.end()) known.push_back(s.name);
    for (const std::string& k : known) {
        if (k == name) return name;
        if (k.find(name) != std::string::npos) holding.push_back(k);
    }
    // A part of a name will do where only one operator has it.
    if (holding.size() == 1) return holding[0];
    const Diagnostic d(fmt::format("No kernel holds an operator named '{}'.", name));
    constexpr size_t kShown = 4;
    if (!holding.empty()) {
        const std::vector<std::string> first(holding.begin(), holding.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, holding.size())));
        return Diagnostic(d).with_next(fmt::format("{} names hold it: {}{}.", holding.size(), fmt::join(first, ", "), holding.size() > kShown ? ", ..." : ""));
    }
    const std::string near = did_you_mean(name, known);
    return Diagnostic(d).with_next(near.empty() ? "Operators whose results are constants or shapes are gone; `opwright explain MODEL --level graph` lists the others."
                                                : fmt::format("Did you mean '{}'?", near));
}

Result<std::string> why_fused(const Compiled& c, const std::string& name) {
    OPW_TRY(const std::string node, operator_named(c, name));
    const graph::Graph& g = c.executable->graph();
    double total = 0;
    std::vector<const graph::Node*> holding;
    for (const graph::Node& n : g.nodes) {
        total += predicted_seconds(c, n);
        if (std::any_of(n.sources.begin(), n.sources.end(), [&](const graph::SourceOp& s) { return s.name == node; })) holding.push_back(&n);
    }
    std::string r;
    for (const graph::Node* n : holding) {
        std::set<std::string> mine;
        for (const graph::SourceOp& s : n->sources) mine.insert(s.name);
        if (n->kind == graph::NodeKind::View) {
            r += wrapped(fmt::format("{} only says the shape anew: it needs no kernel.", node));
            continue;
        }
        double saved = 0, bytes = 0;
        size_t joined = 0;
        for (const Decision& d : c.decisions)
            if (d.taken && mine.count(d.producer) && mine.count(d.consumer)) {
                saved += std::max(0.0, gain(d)), bytes += bytes_of(d, c);
                ++joined;
            }
        const double t = predicted_seconds(c, *n);
        const std::string is = recognised_text(g, *n);
        if (mine.size() == 1)
            r += wrapped(fmt::format("{} is a kernel of its own, predicted to take {} of {}.", node, time_text(t), time_text(total)));
        else
            r += wrapped(fmt::format("{} are one kernel{}: that saves {} of memory traffic, about {}; it is predicted to take {} of {}.", names(*n),
                                     is.empty() ? "" : ", " + is,
                                     bytes_text(bytes), time_text(saved), time_text(t), time_text(total)));
        for (graph::ValueId v : n->outputs)
            for (const fuse::LayoutRegion& region : c.layouts)
                if (v != graph::kNone && std::find(region.changed.begin(), region.changed.end(), g.values[v].name) != region.changed.end())
                    r += wrapped(fmt::format("- its result has its channels last, as {} of {} values around it: {}.", region.changed.size(),
                                             region.values.size(), region.reason), 2, 4);
        for (const fuse::WinogradChoice& w : c.winograd)
            if (w.node == node) r += wrapped(fmt::format("- its convolution is {}: {}.", w.taken ? "in Winograd's form" : "as it is declared", w.reason), 2, 4);
        for (const Decision& d : c.decisions) {
            const bool p = mine.count(d.producer) > 0, k = mine.count(d.consumer) > 0;
            if (d.taken && p && k) {
                const std::string how = d.how == fuse::How::Epilogue ? "is followed in the same loops by" : d.how == fuse::How::Rows ? "shares its loops with" : "is evaluated where it is wanted, in";
                r += wrapped(fmt::format("- {} {} {}: saves {}, predicted {} apart and {} as one.", d.producer, how, d.consumer, bytes_text(bytes_of(d, c)),
                                         time_text(d.predicted_before), time_text(d.predicted_after)), 2, 4);
                if ((d.producer == node || d.consumer == node) && !d.account.empty()) r += wrapped(d.account, 6, 6);
            }
            if (d.taken || p == k) continue;
            r += wrapped(fmt::format("- {} is not in it because {}{}.", p ? d.consumer : d.producer,
                                     p ? fmt::format("of {}, whose result it reads: ", d.producer) : "", d.reason), 2, 4);
            std::string figures = fmt::format("It would save {} of memory traffic", bytes_text(bytes_of(d, c)));
            if (weighed(d)) figures += fmt::format("; predicted {} apart, {} as one{}", time_text(d.predicted_before), time_text(d.predicted_after),
                                                   d.recompute > 1.001 ? fmt::format(", evaluating each element {:.3g} times", d.recompute) : "");
            if (d.measured_after > 0) figures += fmt::format("; measured {} apart, {} as one", time_text(d.measured_before), time_text(d.measured_after));
            r += wrapped(figures + ".", 6, 6);
            if ((d.producer == node || d.consumer == node) && !d.account.empty()) r += wrapped(d.account, 6, 6);
        }
    }
    return r;
}

nlohmann::json candidate_json(const Decision& d, double bytes) {
    const auto ms = [](double s) { return s > 0 ? nlohmann::json(s * 1e3) : nlohmann::json(nullptr); };
    return {{"producer", d.producer}, {"consumer", d.consumer}, {"value", d.value}, {"taken", d.taken}, {"how", std::string(fuse::name(d.how))},
            {"reason", d.reason}, {"bytes", bytes}, {"recompute", d.recompute}, {"live_values", d.live}, {"registers", d.registers},
            {"spills", d.live > d.registers}, {"predicted_apart_ms", ms(d.predicted_before)}, {"predicted_fused_ms", ms(d.predicted_after)},
            {"measured_apart_ms", ms(d.measured_before)}, {"measured_fused_ms", ms(d.measured_after)},
            {"still_delivered", d.still_delivered}, {"account", d.account}};
}

nlohmann::json fusion_json(const Compiled& c) {
    using nlohmann::json;
    json candidates = json::array(), kernels = json::array();
    for (const Decision& d : c.decisions) candidates.push_back(candidate_json(d, bytes_of(d, c)));
    for (const graph::Node& n : c.executable->graph().nodes) {
        if (n.kind != graph::NodeKind::Compute) continue;
        json sources = json::array();
        for (const graph::SourceOp& s : n.sources) sources.push_back({{"name", s.name}, {"type", s.type}});
        kernels.push_back({{"sources", std::move(sources)}, {"is", recognise(c.executable->graph(), n)}, {"predicted_ms", predicted_seconds(c, n) * 1e3}});
    }
    json layouts = json::array();
    for (const fuse::LayoutRegion& region : c.layouts) {
        json conversions = json::array();
        for (const auto& k : region.conversions) conversions.push_back({{"node", k.node}, {"ms", k.seconds * 1e3}});
        layouts.push_back({{"values", region.values.size()}, {"channels_last", region.changed}, {"reason", region.reason},
                           {"predicted_before_ms", region.before * 1e3}, {"predicted_after_ms", region.after * 1e3},
                           {"conversions", std::move(conversions)}});
    }
    json winograd = json::array();
    for (const fuse::WinogradChoice& w : c.winograd)
        winograd.push_back({{"node", w.node}, {"taken", w.taken}, {"tile", w.tile}, {"reason", w.reason},
                            {"predicted_direct_ms", w.direct * 1e3}, {"predicted_winograd_ms", w.winograd * 1e3}});
    const fuse::Machine& m = c.planned.machine;
    return {{"layouts", std::move(layouts)}, {"winograd", std::move(winograd)}, {"candidates", std::move(candidates)}, {"kernels", std::move(kernels)},
            {"machine", {{"name", m.name}, {"origin", m.origin}, {"units", m.units}, {"launch_us", m.launch * 1e6}, {"registers", m.registers}}},
            {"sizes", c.planned.sizes}, {"assumed", c.planned.assumed}, {"measured_seconds", c.planned.measured_seconds}};
}

}  // namespace opwright::explain
