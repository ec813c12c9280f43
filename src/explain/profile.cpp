#include "explain/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "derive/cost.h"
#include "explain/function_cost.h"
#include "explain/recognise.h"
#include "fuse/summary.h"
#include "runtime/thread_pool.h"

namespace opwright::explain {
namespace {

double value(const math::Sym& s, const math::SymValues& v) {
    const auto e = math::evaluate(s, v);
    return e ? static_cast<double>(*e) : 0;
}

std::string shape_text(const graph::Value& v, const math::SymValues& symbols) {
    Shape s;
    for (const math::Sym& d : v.shape) s.push_back(math::evaluate(d, symbols).value_or(-1));
    return std::string(opwright::name(v.dtype)) + to_string(s);
}

std::string types(const std::vector<graph::SourceOp>& sources) {
    std::string r;
    int more = 0;
    for (const graph::SourceOp& s : sources) {
        if (!r.empty() && r.size() + s.type.size() > 60) {
            ++more;
            continue;
        }
        r += (r.empty() ? "" : "+") + s.type;
    }
    return more ? r + fmt::format("+{} more", more) : r;
}

double longest_sum(const math::Program& p, const math::SymValues& symbols) {
    double longest = 0;
    for (math::ExprId e = 0; e < p.expr_count(); ++e) {
        if (p.expr(e).kind != math::ExprKind::Reduce) continue;
        double n = 1;
        for (math::VarId v : p.expr(e).vars) n *= value(p.vars[v].extent, symbols);
        longest = std::max(longest, n);
    }
    return longest;
}

std::string shapes(const graph::Graph& g, const graph::Node& n, const math::SymValues& symbols) {
    std::string in, out;
    for (graph::ValueId v : n.inputs)
        if (in.size() < 60) in += (in.empty() ? "" : ", ") + shape_text(g.values[v], symbols);
    for (graph::ValueId v : n.outputs)
        if (out.size() < 40) out += (out.empty() ? "" : ", ") + shape_text(g.values[v], symbols);
    return in + " -> " + out;
}
// Element counts of the float inputs that kernels read as they are, for the rows wanted, from one more run.
Status count_subnormals(const runtime::Executable& e, std::span<const Tensor> inputs, runtime::ThreadPool& pool,
                        const std::map<graph::NodeId, Row*>& rows) {
    const auto seen = [&](graph::NodeId node, std::span<const Tensor> in, std::span<const Tensor>) -> Status {
        const auto it = rows.find(node);
        const auto* kernel = it == rows.end() ? nullptr : e.kernel(node);
        if (!kernel) return ok_status();
        for (size_t i = 0; i < in.size(); ++i) {
            if (in[i].dtype() != DType::F32 || (i < kernel->packed().size() && kernel->packed()[i])) continue;
            const float* x = in[i].as<float>();
            int64_t subnormal = 0;
            for (int64_t k = 0; k < in[i].size(); ++k) subnormal += x[k] != 0 && std::fabs(x[k]) < std::numeric_limits<float>::min();
            it->second->evidence.read += static_cast<double>(in[i].size());
            it->second->evidence.subnormal += static_cast<double>(subnormal);
        }
        return ok_status();
    };
    auto r = e.trace(inputs, pool, seen);
    return r.ok() ? ok_status() : Status(r.error());
}
}  // namespace

namespace {
// y[i, j] = x[j, i] and the like: every element of x once, in another order, and nothing computed.
bool converts_layout(const math::Program& p) {
    if (p.inputs.size() != 1 || p.outputs.size() != 1 || p.equations.size() != 1) return false;
    const math::Equation& q = p.equations[0];
    const math::Expr* x = &p.expr(q.rhs);
    if (q.update != math::Update::Set || x->kind != math::ExprKind::Load || x->ref != p.inputs[0]) return false;
    std::vector<math::VarId> order, wanted;
    const auto& shape = p.tensors[x->ref].shape;
    for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d].is(1)) continue;
        const auto index = math::affine(p, x->args[d]);
        if (!index || !index->is_plain_var()) return false;
        const math::VarId v = index->terms[0].first;
        if (!(p.vars[v].extent == shape[d])) return false;
        order.push_back(v);
    }
    for (math::VarId v : q.vars)
        if (!p.vars[v].extent.is(1)) wanted.push_back(v);
    return order != wanted && std::is_permutation(order.begin(), order.end(), wanted.begin(), wanted.end());
}

// Operations per second that the machine does at most on the types that the node computes with.
double peak(const Machine& m, const graph::Graph& g, const graph::Node& n, bool contraction) {
    if (!m.device) return m.flops_f32;
    const auto reads = [&](DType t) {
        return std::any_of(n.inputs.begin(), n.inputs.end(), [&](graph::ValueId v) { return g.values[v].dtype == t; });
    };
    if (reads(DType::F64)) return m.flops_f64;
    return contraction && (reads(DType::F16) || reads(DType::BF16)) ? m.flops_half : m.flops_f32;
}
}  // namespace

double Profile::launch_gaps() const { return device ? std::max(0.0, min_seconds - device->kernels) : 0; }
double Profile::replay_gaps() const {
    return device && device->replay_min > 0 ? std::max(0.0, device->replay_min - device->kernels) : 0;
}

std::string_view name(Bound b) {
    switch (b) {
        case Bound::Launch: return "launch";
        case Bound::Memory: return "memory";
        case Bound::Arithmetic: return "arithmetic";
    }
    return "";
}

std::string_view name(Cause c) {
    constexpr std::string_view names[] = {"start", "memory", "arithmetic", "padding", "functions", "packing", "subnormals", "threads",
                                           "strides", "no vectors", "layout conversion", "fusion", "not explained"};
    return names[static_cast<int>(c)];
}

double Row::floor() const { return std::max({floor_launch, floor_memory, floor_arithmetic}); }
Bound Row::bound() const {
    if (floor() == floor_arithmetic) return Bound::Arithmetic;
    return floor() == floor_memory ? Bound::Memory : Bound::Launch;
}

std::string_view Row::mostly() const {
    const Part* largest = nullptr;
    for (const Part& part : parts)
        if (part.cause != Cause::Unknown && (!largest || part.seconds > largest->seconds)) largest = &part;
    return largest ? explain::name(largest->cause) : explain::name(bound());
}

std::vector<std::vector<size_t>> alike(const Profile& p) {
    std::map<std::string, std::vector<size_t>> groups;
    for (size_t i = 0; i < p.rows.size(); ++i) groups[fmt::format("{};{};{}", p.rows[i].type, p.rows[i].shapes, p.rows[i].schedule)].push_back(i);
    std::vector<std::pair<double, std::vector<size_t>>> ordered;
    for (auto& [key, rows] : groups) {
        std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) { return p.rows[a].min_seconds > p.rows[b].min_seconds; });
        double loss = 0;
        for (size_t i : rows) loss += p.rows[i].loss();
        ordered.push_back({loss, std::move(rows)});
    }
    std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::vector<size_t>> r;
    for (auto& [loss, rows] : ordered) r.push_back(std::move(rows));
    return r;
}

namespace {
// What the kernels of a candidate take, so that no gain is promised that is more.
void bound_candidates(Profile& p) {
    std::map<std::string_view, std::vector<const Row*>> holding;
    for (const Row& r : p.rows)
        for (const graph::SourceOp& s : r.sources) holding[s.name].push_back(&r);
    for (Candidate& c : p.candidates) {
        const auto a = holding.find(c.producer), b = holding.find(c.consumer);
        if (a == holding.end() || b == holding.end()) continue;
        for (const auto* rows : {&a->second, &b->second})
            for (const Row* r : *rows) {
                if (r->min_seconds < c.least) c.start = r->floor_launch;
                c.least = std::min(c.least, r->min_seconds);
            }
    }
}
}  // namespace

Result<Profile> profile(const Compiled& c, std::span<const Tensor> inputs, const Machine& machine, runtime::ThreadPool& pool,
                        const ProfileOptions& o) {
    const runtime::Executable& e = *c.executable;
    const graph::Graph& g = e.graph();
    std::vector<Shape> shape_list;
    for (const Tensor& t : inputs) shape_list.push_back(t.shape());
    OPW_TRY(const math::SymValues symbols, e.bind(shape_list));
    OPW_TRY(const runtime::Timing timing, e.measure(inputs, pool, o.warmup, o.repeats));

    Profile p;
    p.name = g.name;
    p.seconds = timing.median;
    p.min_seconds = timing.min;
    p.interruptions = timing.interruptions;
    p.device = timing.device;
    p.machine = machine;
    p.threads = machine.device ? machine.threads : pool.size();
    p.processors = runtime::available_processors();
    p.warmup = std::max(1, o.warmup);
    p.repeats = std::max(1, o.repeats);
    OPW_TRY(p.memory, e.memory(shape_list));
    p.symbols = symbols;
    for (const fuse::Decision& d : c.decisions) {
        p.candidates.push_back({d.producer, d.consumer, d.value, d.reason, d.taken, value(d.bytes, symbols), d});
        if (d.taken) p.fused_bytes += p.candidates.back().bytes, ++p.fused;
    }
    if (!machine.device) {
        OPW_TRY(p.call_seconds, call_seconds());
    }
    double total = 0;
    std::set<std::string> operators;
    std::vector<std::map<math::Fn, math::Sym>> functions;  // by row
    std::vector<graph::NodeId> nodes;
    for (const runtime::StepTime& t : timing.steps) {
        const graph::Node& n = g.nodes[t.node];
        const derive::Cost cost = derive::cost(n.program);
        Row r;
        r.node = t.node;
        r.name = n.sources.empty() ? n.program.name : n.sources.back().name;
        r.type = n.sources.empty() ? n.program.name : types(n.sources);
        if (std::string is = recognised_text(g, n, false); !is.empty()) r.type = std::move(is);
        r.sources = n.sources;
        r.shapes = shapes(g, n, symbols);
        r.seconds = t.median;
        r.min_seconds = t.min;
        r.simple = value(cost.simple, symbols);
        r.divide = value(cost.divide, symbols);
        r.special = value(cost.special, symbols);
        r.bytes = value(cost.bytes(), symbols);
        r.floor_launch = machine.dispatch_seconds;
        if (const double b = machine.bandwidth(r.bytes); b > 0) r.floor_memory = r.bytes / b;
        for (graph::ValueId v : n.outputs) r.results += value(math::product(g.values[v].shape), symbols);
        r.terms = longest_sum(n.program, symbols);
        r.contraction = fuse::summarise(n.program).contraction;
        r.evidence.conversion = converts_layout(n.program);
        r.peak = peak(machine, g, n, r.contraction);
        if (r.peak > 0) r.floor_arithmetic = r.flops() / r.peak;
        r.evidence.launches = t.launches;
        if (const auto* k = e.kernel(t.node)) {
            r.schedule = k->at(t.symbols).schedule_summary();
            if (const std::string tuned = k->tuned(t.symbols); !tuned.empty()) r.schedule += "; " + tuned;
            r.evidence.stages = k->stages(t.symbols);
            // Dot products of narrow factors do several multiply-adds in the time of one of f32.
            for (const auto& s : r.evidence.stages)
                if (s.tile && s.tile->speed > 1 && r.peak == machine.flops_f32) r.peak *= s.tile->speed;
            if (r.peak > 0) r.floor_arithmetic = r.flops() / r.peak;
            r.evidence.loops = k->loops(t.symbols);
        }
        if (!machine.device) {  // what is one task is not handed to other threads, nor what took less than that takes
            const auto& stages = r.evidence.stages;
            const bool shared = (stages.empty() || std::any_of(stages.begin(), stages.end(), [](const auto& s) { return s.tasks > 1; })) &&
                                r.min_seconds > machine.dispatch_seconds;
            r.floor_launch = p.call_seconds + (shared ? machine.dispatch_seconds : 0);
        }
        for (const auto& [f, count] : cost.by_function)
            r.evidence.functions.push_back({std::string(math::info(f).op.empty() ? math::info(f).name : math::info(f).op), value(count, symbols), 0});
        functions.push_back(cost.by_function);
        nodes.push_back(t.node);
        total += r.min_seconds;
        for (const graph::SourceOp& source : n.sources) operators.insert(source.name);
        p.rows.push_back(std::move(r));
    }
    for (Row& r : p.rows) r.share = total > 0 ? r.min_seconds / total : 0;
    p.source_operators = operators.size();
    bound_candidates(p);

    if (p.device) {
        for (Row& r : p.rows) {
            r.parts = attribute(r, p);
            r.changes = changes_on_device(r, p);
            r.advice = advise_on_device(r, p);
        }
        return p;
    }
    // Evidence that takes time to gather.
    std::map<graph::NodeId, Row*> explained;
    for (size_t i = 0; i < p.rows.size(); ++i) {
        explained[nodes[i]] = &p.rows[i];
        size_t k = 0;
        for (const auto& [f, count] : functions[i]) {
            OPW_TRY(p.rows[i].evidence.functions[k].seconds, function_seconds(f));
            ++k;
        }
    }
    OPW_CHECK(count_subnormals(e, inputs, pool, explained));
    if (o.one_thread && pool.size() > 1) {
        runtime::ThreadPool one(1);
        OPW_TRY(const runtime::Timing alone, e.measure(inputs, one, 1, std::max(1, o.repeats / 2)));
        for (const runtime::StepTime& t : alone.steps)
            if (const auto it = explained.find(t.node); it != explained.end()) it->second->evidence.one_thread = t.min;
    }
    for (Row& r : p.rows) {
        r.parts = attribute(r, p);
        r.changes = changes(r, p);
        r.advice = advise(r, p);
    }
    return p;
}

}  // namespace opwright::explain
