#include "runtime/executable.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>
#include <mutex>

#include "base/log.h"
#include "math/localise.h"
#include "runtime/buffer_pool.h"
#include "runtime/device_run.h"
#include "runtime/plan.h"
#include "runtime/reference_kernel.h"
#include "runtime/target_kernel.h"
#include "target/target.h"

namespace opwright::runtime {
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;
using graph::Value;
using graph::ValueId;

namespace {
constexpr size_t kPlans = 32;  // shapes remembered

std::vector<std::string> symbols_of(const graph::Graph& g) {
    std::vector<std::string> r;
    for (const Value& v : g.values) {
        for (const math::Sym& s : v.shape) math::collect_symbols(s, r);
        if (v.content)
            for (const math::Sym& s : *v.content) math::collect_symbols(s, r);
    }
    for (const Node& n : g.nodes)
        for (std::string& s : n.program.symbols())
            if (std::find(r.begin(), r.end(), s) == r.end()) r.push_back(std::move(s));
    return r;
}

std::vector<Result<target::cpu::KernelRef>> compile(std::span<const target::cpu::Request> requests, const ExecutableOptions& o) {
    if (o.target) return target_kernels(requests, *o.target, {.schedule = o.cpu.schedule}, o.cpu.tuned.get());
    if (o.engine == Engine::Cpu) return target::cpu::compile(requests, o.cpu);
    std::vector<Result<target::cpu::KernelRef>> r;
    for (const auto& q : requests) r.emplace_back(reference_kernel(*q.program));
    return r;
}

Diagnostic refused(const Diagnostic& why, const Node& n, const target::Target& t) {
    const std::string name = n.sources.empty() ? n.program.name : n.sources.back().name;
    std::string reason = why.message;
    for (const auto& note : why.notes) reason += " " + note.text;
    Diagnostic d(fmt::format("Target {} does not take the operator '{}': {}", t.name(), name, reason), why.span, why.next);
    if (why.next.empty()) d.with_next("Add --fallback to run such operators on the cpu.");
    return in_operator(std::move(d), n);
}

// Memory that stands for the elements of a tensor that has none.
alignas(64) char nothing[64];
}  // namespace

struct Executable::Impl {
    graph::Graph g;
    SymTable table{{}};
    std::vector<std::vector<uint32_t>> slots;           // by value and dim
    std::vector<Step> steps;
    std::vector<target::cpu::KernelRef> kernels;        // by node; null for views and nodes evaluated beforehand
    std::vector<Executable::Fallback> fallbacks;
    int64_t constant_bytes = 0;
    mutable std::mutex mutex;
    mutable std::list<std::pair<std::vector<Shape>, std::shared_ptr<Plan>>> plans;  // latest first
    mutable BufferPool buffers;
    std::unique_ptr<DeviceRunner> device;               // where the kernels run on one

    // ---- building
    Status build(const ExecutableOptions& o, ThreadPool& pool) {
        std::vector<math::Localised> local(g.nodes.size());
        std::vector<bool> constant(g.values.size()), beforehand(g.nodes.size());
        for (ValueId v = 0; v < g.values.size(); ++v) constant[v] = g.values[v].constant.has_value();
        std::vector<target::cpu::Request> requests;
        std::vector<NodeId> nodes;
        {
            Stage stage("localise");
            for (NodeId i = 0; i < g.nodes.size(); ++i) {
                const Node& n = g.nodes[i];
                const bool fixed = std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return constant[v]; });
                if (n.kind == NodeKind::View) {
                    constant[n.outputs[0]] = fixed && known(n.outputs[0]);
                    continue;
                }
                local[i] = math::localise(n.program);
                // A constant operator with symbolic extents, or much larger than its inputs, waits for the run.
                beforehand[i] = fixed && !n.inputs.empty() && local[i].values.empty();
                for (ValueId v : n.outputs) constant[v] = beforehand[i];
            }
            for (NodeId i = 0; i < g.nodes.size(); ++i) {
                if (g.nodes[i].kind == NodeKind::View) continue;
                target::cpu::Request r{.program = &local[i].program, .constant_inputs = {}, .keep_text = o.keep_text};
                for (ValueId v : g.nodes[i].inputs) r.constant_inputs.push_back(constant[v]);
                requests.push_back(std::move(r));
                nodes.push_back(i);
            }
        }
        kernels.resize(g.nodes.size());
        {
            Stage stage("compile kernels");
            stage.detail(fmt::format("{} kernels", requests.size()));
            auto compiled = compile(requests, o);
            for (size_t k = 0; k < nodes.size(); ++k) {
                const Node& n = g.nodes[nodes[k]];
                if (!compiled[k].ok() && o.target && o.fallback) {
                    fallbacks.push_back({nodes[k], compiled[k].error().message});
                    compiled[k] = target::cpu::compile({&requests[k], 1}, o.cpu)[0];
                } else if (!compiled[k].ok() && o.target) {
                    return refused(compiled[k].error(), n, *o.target);
                }
                if (!compiled[k].ok()) return in_operator(compiled[k].error(), n);
                kernels[nodes[k]] = *compiled[k];
            }
        }
        {
            Stage stage("evaluate and pack constants");
            OPW_CHECK(evaluate_beforehand(beforehand, pool));
            pack(pool);
        }
        table = SymTable(symbols_of(g));
        slots.resize(g.values.size());
        for (ValueId v = 0; v < g.values.size(); ++v)
            if (!g.values[v].constant)
                for (const math::Sym& s : g.values[v].shape) slots[v].push_back(table.add(s));
        for (NodeId i = 0; i < g.nodes.size(); ++i) {
            if (!kernels[i]) continue;
            Step s{i, kernels[i].get(), {}};
            for (const math::Sym& v : local[i].values) s.symbols.push_back(table.add(v));
            steps.push_back(std::move(s));
        }
        for (const Value& v : g.values)
            if (v.constant) constant_bytes += static_cast<int64_t>(v.constant->bytes());
        OPW_CHECK(all_symbols_bound());
        if (o.target) {
            OPW_TRY(target::device::Device * d, o.target->device());
            if (d) { OPW_TRY(device, DeviceRunner::make(*d, g, steps)); }
        }
        return ok_status();
    }

    bool known(ValueId v) const {
        return std::all_of(g.values[v].shape.begin(), g.values[v].shape.end(), [](auto& s) { return s.is_const(); });
    }

    Status evaluate_beforehand(const std::vector<bool>& beforehand, ThreadPool& pool) {
        for (NodeId i = 0; i < g.nodes.size(); ++i) {
            Node& n = g.nodes[i];
            if (n.kind == NodeKind::View) {
                const Value& in = g.values[n.inputs[0]];
                if (!in.constant || !known(n.outputs[0])) continue;
                const Shape to = fixed_shape(n.outputs[0]);
                if (element_count(to) != in.constant->size())
                    return in_operator(Diagnostic(fmt::format("The constant '{}' of shape {} cannot be seen as shape {}.", in.name,
                                                              to_string(in.constant->shape()), to_string(to))), n);
                g.values[n.outputs[0]].constant = in.constant->reshaped(to);
                continue;
            }
            if (!beforehand[i]) continue;
            std::vector<const void*> inputs;
            for (ValueId v : n.inputs) inputs.push_back(pointer(*g.values[v].constant));
            std::vector<Tensor> outputs;
            std::vector<void*> to;
            for (ValueId v : n.outputs) outputs.emplace_back(g.values[v].dtype, fixed_shape(v));
            for (Tensor& t : outputs) to.push_back(pointer(t));
            const auto workspace = buffers.take(static_cast<size_t>(kernels[i]->workspace_bytes({})));
            if (Status s = kernels[i]->run({inputs, to, {}, workspace.get()}, pool); !s.ok()) return in_operator(s.error(), n);
            for (size_t k = 0; k < outputs.size(); ++k) g.values[n.outputs[k]].constant = std::move(outputs[k]);
            kernels[i] = nullptr;
        }
        return ok_status();
    }

    Shape fixed_shape(ValueId v) const {
        Shape s;
        for (const math::Sym& d : g.values[v].shape) s.push_back(d.constant().value());
        return s;
    }

    static void* pointer(Tensor& t) { return t.bytes() ? t.data() : nothing; }
    static const void* pointer(const Tensor& t) { return t.bytes() ? t.data() : nothing; }

    void pack(ThreadPool& pool) {
        for (NodeId i = 0; i < g.nodes.size(); ++i) {
            if (!kernels[i]) continue;
            std::vector<const void*> constants;
            for (ValueId v : g.nodes[i].inputs) constants.push_back(g.values[v].constant ? pointer(*g.values[v].constant) : nullptr);
            kernels[i]->pack_constants(constants, pool);
        }
    }

    Status all_symbols_bound() const {
        std::vector<std::string> bound;
        for (ValueId v : g.inputs)
            for (const math::Sym& s : g.values[v].shape)
                if (s.kind() == math::SymKind::Symbol) bound.push_back(s.symbol_name());
        for (const std::string& s : table.symbols())
            if (std::find(bound.begin(), bound.end(), s) == bound.end())
                return Diagnostic(fmt::format("The size {} depends on data, not on the shape of an input.", s))
                    .with_next("Such an operator cannot be run yet.");
        return ok_status();
    }

    // ---- running
    Result<math::SymValues> bind(std::span<const Shape> shapes) const {
        if (shapes.size() != g.inputs.size())
            return Diagnostic(fmt::format("{} takes {} inputs, and {} were given.", g.name, g.inputs.size(), shapes.size()));
        math::SymValues values;
        std::map<std::string, std::string> from;
        for (size_t i = 0; i < shapes.size(); ++i) {
            const Value& v = g.values[g.inputs[i]];
            if (shapes[i].size() != v.shape.size())
                return Diagnostic(fmt::format("Input '{}' has rank {}, and the tensor given has shape {}.", v.name, v.shape.size(), to_string(shapes[i])))
                    .with_next(fmt::format("Give it a tensor of shape {}.", wanted(v)));
            for (size_t d = 0; d < v.shape.size(); ++d) {
                if (v.shape[d].kind() != math::SymKind::Symbol) continue;
                const std::string& s = v.shape[d].symbol_name();
                const auto [it, fresh] = values.emplace(s, shapes[i][d]);
                if (!fresh && it->second != shapes[i][d])
                    return Diagnostic(fmt::format("Dimension {} of input '{}' is {}, but {} is {} by {}.", d, v.name, shapes[i][d], s, it->second, from[s]))
                        .with_next("Give inputs whose extents of that name agree.");
                if (shapes[i][d] < v.shape[d].lower())
                    return Diagnostic(fmt::format("Dimension {} of input '{}' is {}, but must be at least {}.", d, v.name, shapes[i][d], v.shape[d].lower()));
                if (fresh) from[s] = fmt::format("dimension {} of '{}'", d, v.name);
            }
        }
        for (size_t i = 0; i < shapes.size(); ++i) {
            const Value& v = g.values[g.inputs[i]];
            for (size_t d = 0; d < v.shape.size(); ++d) {
                if (v.shape[d].kind() == math::SymKind::Symbol) continue;
                const auto e = math::evaluate(v.shape[d], values);
                if (e != shapes[i][d])
                    return Diagnostic(fmt::format("Dimension {} of input '{}' is {}, but must be {}.", d, v.name, shapes[i][d],
                                                  v.shape[d].is_const() ? v.shape[d].str() : v.shape[d].str() + (e ? fmt::format(" = {}", *e) : "")))
                        .with_next(fmt::format("Give it a tensor of shape {}.", wanted(v)));
            }
        }
        return values;
    }

    static std::string wanted(const Value& v) {
        std::string r = "[";
        for (size_t i = 0; i < v.shape.size(); ++i) r += (i ? ", " : "") + v.shape[i].str();
        return r + "]";
    }

    // The plan for shapes met before; null: none is remembered.
    std::shared_ptr<Plan> remembered(std::span<const Tensor> inputs) const {
        const std::lock_guard lock(mutex);
        for (auto it = plans.begin(); it != plans.end(); ++it)
            if (std::equal(inputs.begin(), inputs.end(), it->first.begin(), it->first.end(),
                           [](const Tensor& t, const Shape& s) { return t.shape() == s; })) {
                if (it != plans.begin()) plans.splice(plans.begin(), plans, it);
                return it->second;
            }
        return nullptr;
    }

    Result<std::shared_ptr<Plan>> plan(const std::vector<Shape>& shapes) const {
        {
            const std::lock_guard lock(mutex);
            for (auto it = plans.begin(); it != plans.end(); ++it)
                if (it->first == shapes) {
                    plans.splice(plans.begin(), plans, it);
                    return it->second;
                }
        }
        Stage stage("plan for new shapes");
        OPW_TRY(const math::SymValues symbols, bind(shapes));
        OPW_TRY(auto p, make_plan({g, steps, table, slots, device ? target::device::kAlignment : 64}, symbols));
        stage.detail(fmt::format("arena {:.1f} MB, lower bound {:.1f} MB", p->memory.bytes / 1e6, p->memory.lower_bound / 1e6));
        const std::lock_guard lock(mutex);
        plans.emplace_front(shapes, p);
        if (plans.size() > kPlans) plans.pop_back();
        return p;
    }

    std::unique_ptr<Context> context(Plan& p) const {
        {
            const std::lock_guard lock(p.mutex);
            if (!p.contexts.empty()) {
                auto c = std::move(p.contexts.back());
                p.contexts.pop_back();
                return c;
            }
        }
        auto c = std::make_unique<Context>();
        c->arena = buffers.take(static_cast<size_t>(p.memory.bytes));
        for (const Plan::Launch& l : p.launches) {
            const Node& n = g.nodes[l.node];
            const auto add = [&](ValueId v) {
                void* at = nullptr;
                switch (p.places[v].kind) {
                    case Place::Constant: at = const_cast<void*>(source(p, v)); break;
                    case Place::Arena: at = static_cast<char*>(c->arena.get()) + p.places[v].index; break;
                    case Place::Nowhere: case Place::Input: case Place::Output: break;
                }
                c->operands.push_back(at);
            };
            for (ValueId v : n.inputs) add(v);
            for (ValueId v : n.outputs) add(v);
        }
        return c;
    }

    // Elements of a constant, seen through views.
    const void* source(const Plan& p, ValueId v) const {
        while (!g.values[v].constant && !p.made[v].defined()) v = g.nodes[g.values[v].producer].inputs[0];
        return pointer(g.values[v].constant ? *g.values[v].constant : p.made[v]);
    }

    struct Prepared {
        std::shared_ptr<Plan> plan;
        std::unique_ptr<Context> context;
        std::vector<Tensor> outputs;
        ~Prepared() {
            if (!context) return;
            const std::lock_guard lock(plan->mutex);
            plan->contexts.push_back(std::move(context));
        }
        Prepared() = default;
        Prepared(Prepared&&) = default;
    };

    Result<Prepared> prepare(std::span<const Tensor> inputs) const {
        for (size_t i = 0; i < std::min(inputs.size(), g.inputs.size()); ++i)
            if (inputs[i].dtype() != g.values[g.inputs[i]].dtype)
                return Diagnostic(fmt::format("Input '{}' takes {}, and the tensor given is {}.", g.values[g.inputs[i]].name,
                                              name(g.values[g.inputs[i]].dtype), name(inputs[i].dtype())))
                    .with_next("Convert the tensor first.");
        Prepared r;
        r.plan = remembered(inputs);
        if (!r.plan) {
            std::vector<Shape> shapes;
            for (const Tensor& t : inputs) shapes.push_back(t.shape());
            OPW_TRY(r.plan, plan(shapes));
        }
        r.outputs.reserve(g.outputs.size());
        for (ValueId v : g.outputs) {
            const Value& x = g.values[v];
            const Shape& s = r.plan->shapes[v];
            const size_t bytes = static_cast<size_t>(element_count(s)) * size_of(x.dtype);
            auto memory = buffers.take(bytes);
            void* data = memory.get();
            r.outputs.push_back(Tensor::wrap(x.dtype, s, data, std::move(memory)));
        }
        if (device) return r;
        r.context = context(*r.plan);
        for (const Plan::Patch& q : r.plan->patches)
            r.context->operands[q.operand] = q.output ? pointer(r.outputs[q.index]) : const_cast<void*>(pointer(inputs[q.index]));
        return r;
    }

    Status launch(const Prepared& r, size_t i, ThreadPool& pool) const {
        const Plan::Launch& l = r.plan->launches[i];
        void* const* operands = r.context->operands.data();
        const target::cpu::Launch call{
            {const_cast<const void* const*>(operands + l.inputs), l.input_count},
            {operands + l.outputs, l.output_count},
            {r.plan->arguments.data() + l.symbols, l.symbol_count},
            static_cast<char*>(r.context->arena.get()) + l.workspace};
        if (Status s = l.kernel->run(call, pool); !s.ok()) return in_operator(s.error(), g.nodes[l.node]);
        return ok_status();
    }

    void copy_outputs(Prepared& r, std::span<const Tensor> inputs) const {
        for (const Plan::Copy& c : r.plan->copies) {
            const Place& p = r.plan->places[c.from];
            const void* from = p.kind == Place::Input    ? pointer(inputs[static_cast<size_t>(p.index)])
                               : p.kind == Place::Output ? pointer(r.outputs[static_cast<size_t>(p.index)])
                                                         : source(*r.plan, c.from);
            if (const size_t bytes = r.outputs[c.output].bytes()) std::memcpy(r.outputs[c.output].data(), from, bytes);
        }
    }

    Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, ThreadPool& pool, const Executable::Observer* seen = nullptr) const {
        OPW_TRY(Prepared r, prepare(inputs));
        if (device) OPW_CHECK(device->run(r.plan, inputs, r.outputs, pool, seen));
        for (size_t i = 0; !device && i < r.plan->launches.size(); ++i) {
            OPW_CHECK(launch(r, i, pool));
            if (seen) OPW_CHECK(show(r, r.plan->launches[i], *seen));
        }
        copy_outputs(r, inputs);
        return std::move(r.outputs);
    }

    Status show(const Prepared& r, const Plan::Launch& l, const Executable::Observer& seen) const {
        const Node& n = g.nodes[l.node];
        const auto tensors = [&](const std::vector<ValueId>& values, uint32_t first) {
            std::vector<Tensor> t;
            for (ValueId v : values) t.push_back(Tensor::wrap(g.values[v].dtype, r.plan->shapes[v], r.context->operands[first++]));
            return t;
        };
        return seen(l.node, tensors(n.inputs, l.inputs), tensors(n.outputs, l.outputs));
    }
};

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::~Executable() = default;

Result<std::shared_ptr<const Executable>> Executable::build(graph::Graph g, const ExecutableOptions& o, ThreadPool& pool) {
    auto impl = std::make_unique<Impl>();
    impl->g = std::move(g);
    OPW_CHECK(impl->build(o, pool));
    return std::shared_ptr<const Executable>(new Executable(std::move(impl)));
}

Result<std::vector<Tensor>> Executable::run(std::span<const Tensor> inputs, ThreadPool& pool) const { return impl_->run(inputs, pool); }

Result<std::vector<Tensor>> Executable::trace(std::span<const Tensor> inputs, ThreadPool& pool, const Observer& seen) const {
    return impl_->run(inputs, pool, &seen);
}

Result<Timing> Executable::measure(std::span<const Tensor> inputs, ThreadPool& pool, int warmup, int repeats) const {
    using Clock = std::chrono::steady_clock;
    const auto seconds = [](Clock::time_point from, Clock::time_point to) { return std::chrono::duration<double>(to - from).count(); };
    for (int i = 0; i < std::max(1, warmup); ++i) {
        auto r = run(inputs, pool);
        if (!r.ok()) return r.error();
    }
    if (impl_->device) {
        OPW_TRY(Impl::Prepared p, impl_->prepare(inputs));
        return impl_->device->measure(p.plan, inputs, p.outputs, pool, std::max(1, repeats));
    }
    const auto interruptions = [] {
        rusage u{};
        getrusage(RUSAGE_SELF, &u);
        return static_cast<double>(u.ru_nivcsw);
    };
    std::vector<double> whole;
    std::vector<std::vector<double>> each(impl_->steps.size());
    double interrupted = 0;
    std::vector<std::vector<int64_t>> symbols(each.size());
    for (int i = 0; i < std::max(1, repeats); ++i) {
        const double switches = interruptions();
        const auto start = Clock::now();
        auto r = run(inputs, pool);
        whole.push_back(seconds(start, Clock::now()));
        interrupted += interruptions() - switches;
        if (!r.ok()) return r.error();
        OPW_TRY(Impl::Prepared p, impl_->prepare(inputs));
        auto before = Clock::now();
        for (size_t k = 0; k < each.size(); ++k) {
            OPW_CHECK(impl_->launch(p, k, pool));
            const auto after = Clock::now();
            each[k].push_back(seconds(before, after));
            before = after;
        }
        for (size_t k = 0; i == 0 && k < each.size(); ++k) {
            const Plan::Launch& l = p.plan->launches[k];
            const auto first = p.plan->arguments.begin() + l.symbols;
            symbols[k].assign(first, first + l.symbol_count);
        }
    }
    const auto median = [](std::vector<double> v) {
        std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
        return v[v.size() / 2];
    };
    Timing t{*std::min_element(whole.begin(), whole.end()), median(whole), interrupted / static_cast<double>(whole.size()), {}, {}};
    for (size_t k = 0; k < each.size(); ++k)
        t.steps.push_back({impl_->steps[k].node, *std::min_element(each[k].begin(), each[k].end()), median(each[k]), std::move(symbols[k]), {}});
    return t;
}

const graph::Graph& Executable::graph() const { return impl_->g; }
Result<math::SymValues> Executable::bind(std::span<const Shape> shapes) const { return impl_->bind(shapes); }
Result<Executable::Memory> Executable::memory(std::span<const Shape> shapes) const {
    OPW_TRY(auto p, impl_->plan({shapes.begin(), shapes.end()}));
    return Memory{p->memory.bytes, p->memory.lower_bound, impl_->constant_bytes};
}
Result<std::vector<Executable::StepSizes>> Executable::sizes(std::span<const Shape> shapes) const {
    OPW_TRY(const auto p, impl_->plan({shapes.begin(), shapes.end()}));
    std::vector<StepSizes> r;
    for (const Plan::Launch& l : p->launches) {
        const auto first = p->arguments.begin() + l.symbols;
        r.push_back({l.node, {first, first + l.symbol_count}});
    }
    return r;
}
const std::vector<Executable::Fallback>& Executable::fallbacks() const { return impl_->fallbacks; }
const target::cpu::Kernel* Executable::kernel(graph::NodeId n) const { return impl_->kernels[n].get(); }

}  // namespace opwright::runtime
