#include "cli/common.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/thread_pool.h"
#include "target/target.h"
#include "tune/database.h"

namespace opwright::cli {

void ExecutionFlags::add(CLI::App& a) {
    a.add_option("--threads", threads, "threads to run on; 0 = as many as this process may use")->check(CLI::Range(0, 1024))->capture_default_str();
    a.add_option("--engine", engine, "cpu (compiled), or reference (interpreted in fp64, slow)")
        ->check(CLI::IsMember({"cpu", "reference"}))->capture_default_str();
    a.add_option("--vector", vector, "widest vector unit to use")->check(CLI::IsMember({"auto", "baseline", "avx2", "avx512"}))->capture_default_str();
    a.add_flag("--no-cache", no_cache, "neither read nor write the disk cache of compiled objects");
    a.add_flag("--no-fuse", no_fuse, "one kernel for each operator, in the model's layouts");
    a.add_flag("--no-layouts", no_layouts, "values keep the model's layout, channels before places");
    a.add_flag("--winograd", winograd, "3x3 convolutions of models in Winograd's form where that is predicted to be faster: they round otherwise (docs/numerics.md)");
    a.add_flag("--untuned", untuned, "the default schedules, whatever `opwright tune` found");
    a.add_option("--measure-fusion", measure_fusion, "seconds that may go into measuring fusions whose predicted gain is small; 0 = none")
        ->check(CLI::Range(0.0, 3600.0));
}

CompileOptions ExecutionFlags::options() const {
    CompileOptions o;
    o.execution.engine = engine == "reference" ? runtime::Engine::Reference : runtime::Engine::Cpu;
    o.execution.cpu.level = vector == "auto" ? "" : vector;
    o.execution.cpu.cache = !no_cache;
    o.fuse = !no_fuse;
    o.layouts = !no_layouts;
    o.winograd.use = winograd;
    o.tuned = !untuned;
    o.fusion.measure_seconds = measure_fusion;
    return o;
}

std::shared_ptr<runtime::ThreadPool> ExecutionFlags::pool() const { return std::make_shared<runtime::ThreadPool>(threads); }

void TargetFlags::add(CLI::App& a) {
    a.add_option("--target", target, "what runs the kernels: cpu, or a target that `emit` writes source for")
        ->capture_default_str();
    a.add_flag("--fallback", fallback, "run what the target has no form for on the cpu, and say so");
}

Status TargetFlags::apply(CompileOptions& o) const {
    if (target == "cpu") return ok_status();
    OPW_TRY(o.execution.target, target::find_target(target));
    const std::string why = o.execution.target->cannot_run();
    if (why.empty()) return ok_status();
    return Diagnostic(fmt::format("not run: target {} can't run here, because {}.", target, why), {},
                      fmt::format("`opwright emit OPERATOR --target {}` writes an operator's source all the same.", target));
}

std::vector<std::string> TargetFlags::placement(const Compiled& c) const {
    if (target == "cpu") return {};
    const graph::Graph& g = c.executable->graph();
    size_t kernels = 0;
    for (graph::NodeId n = 0; n < g.nodes.size(); ++n) kernels += c.executable->kernel(n) != nullptr;
    const auto& fallbacks = c.executable->fallbacks();
    size_t left = 0;  // one that is a constant ran beforehand
    for (const auto& f : fallbacks) left += c.executable->kernel(f.node) != nullptr;
    const auto on = target::find_target(target);
    std::vector<std::string> r{fmt::format("target {}, run on {}: {} kernel{}{}", target, on.ok() ? (*on)->runs_on() : "",
                                           kernels - left, kernels - left == 1 ? "" : "s",
                                           left ? fmt::format(", and {} on the cpu", left) : "")};
    for (const auto& f : fallbacks) {
        const graph::Node& n = g.nodes[f.node];
        r.push_back(fmt::format("fallback: '{}' ran on the cpu, because target {} refused it: {}",
                                n.sources.empty() ? n.program.name : n.sources.back().name, target, f.reason));
    }
    return r;
}

std::vector<std::string> tuning_notes(const Compiled& c, const std::vector<Tensor>& inputs) {
    std::vector<std::string> r;
    if (!c.tuning_problem.empty()) r.push_back("not tuned: " + c.tuning_problem);
    std::vector<Shape> shapes;
    for (const Tensor& t : inputs) shapes.push_back(t.shape());
    const auto steps = c.executable->sizes(shapes);
    if (!steps.ok()) return r;
    size_t tuned = 0;
    std::string which;
    for (const auto& s : *steps) {
        const auto* k = c.executable->kernel(s.node);
        const std::string note = k ? k->tuned(s.symbols) : "";
        if (note.empty()) continue;
        const graph::Node& n = c.executable->graph().nodes[s.node];
        if (++tuned <= 3)
            which += fmt::format("{}{} {}", which.empty() ? "" : "; ", n.sources.empty() ? n.program.name : n.sources.back().name,
                                 note.substr(note.find(' ') + 1));
    }
    if (tuned == 0) return r;
    r.push_back(fmt::format("tuned: {} of {} kernel{} ({}{}), from {}", tuned, steps->size(), steps->size() == 1 ? "" : "s", which,
                            tuned > 3 ? "; ..." : "", tune::default_path().value_or("")));
    return r;
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

bool colour() {
    const char* term = std::getenv("TERM");
    return isatty(STDERR_FILENO) && !std::getenv("NO_COLOR") && term && std::string(term) != "dumb";
}

void print_json(const nlohmann::json& j) { print(j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"); }

void fail(Context& c, const Diagnostic& d, bool json, int exit) {
    c.exit = exit;
    if (json) print_json({{"error", {{"message", d.message}, {"text", render(d)}}}});
    else std::fprintf(stderr, "%s\n", render(d, colour()).c_str());
}

Result<std::map<std::string, int64_t>> parse_sizes(const std::vector<std::string>& items) {
    std::map<std::string, int64_t> r;
    for (const std::string& item : items)
        for (size_t i = 0; i < item.size();) {
            const size_t end = std::min(item.find(',', i), item.size());
            const std::string part = item.substr(i, end - i);
            const size_t eq = part.find('=');
            char* stop = nullptr;
            const long long v = eq == std::string::npos ? -1 : std::strtoll(part.c_str() + eq + 1, &stop, 10);
            if (v < 0 || !stop || *stop || eq == 0 || eq + 1 == part.size())
                return Diagnostic(fmt::format("'{}' is no size.", part)).with_next("Write NAME=NUMBER, for example --size n=3,w=224.");
            r[part.substr(0, eq)] = v;
            i = end + 1;
        }
    return r;
}

Tensor random_tensor(DType t, Shape s, uint64_t seed) {
    Tensor r(t, std::move(s));
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 0x1234567;
    for (int64_t i = 0; i < r.size(); ++i) {
        uint64_t z = state += 0x9e3779b97f4a7c15ull;  // splitmix64 (Steele, Lea, Flood, 2014)
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        z ^= z >> 31;
        if (is_float(t)) r.set(i, static_cast<double>(z >> 40) / (1 << 23) - 1);
        else r.set_int(i, static_cast<int64_t>(z >> 32) & (t == DType::Bool ? 1 : 7));
    }
    return r;
}

namespace {
struct Statistics {
    double min = 0, max = 0, mean = 0;
    int64_t nans = 0;
};
Statistics statistics(const Tensor& t) {
    Statistics s{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 0, 0};
    for (int64_t i = 0; i < t.size(); ++i) {
        const double v = t.get(i);
        if (std::isnan(v)) {
            ++s.nans;
            continue;
        }
        s.min = std::min(s.min, v);
        s.max = std::max(s.max, v);
        s.mean += v;
    }
    s.mean /= static_cast<double>(std::max<int64_t>(1, t.size() - s.nans));
    return s;
}
}  // namespace

std::string describe(const std::string& n, const Tensor& t) {
    std::string r = fmt::format("{}: {}{}", n, name(t.dtype()), to_string(t.shape()));
    if (t.size() == 0) return r;
    const Statistics s = statistics(t);
    if (t.size() == 1) return r + fmt::format("  = {:.7g}", t.get(0));
    r += fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}", s.min, s.max, s.mean);
    return s.nans ? r + fmt::format("  NaN {}", s.nans) : r;
}

nlohmann::json describe_json(const std::string& n, const Tensor& t) {
    nlohmann::json j{{"name", n}, {"dtype", std::string(name(t.dtype()))}, {"shape", t.shape()}};
    if (t.size() == 0) return j;
    const Statistics s = statistics(t);
    j["min"] = s.min, j["max"] = s.max, j["mean"] = s.mean, j["nans"] = s.nans;
    return j;
}

}  // namespace opwright::cli
