#include "runtime/device_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "runtime/target_kernel.h"
#include "runtime/thread_pool.h"

namespace opwright::runtime {
using graph::Node;
using graph::NodeKind;
using graph::ValueId;
using target::device::Address;
using target::device::Memory;

namespace {
constexpr size_t kSessions = 4;  // kept while nobody uses them
constexpr int kTimelines = 3;    // runs whose steps are told one by one

const std::string& name_of(const Node& n) { return n.sources.empty() ? n.program.name : n.sources.back().name; }

double median(std::vector<double> v) {
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
}
double least(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }
}  // namespace

// All that runs of one plan need. One run at a time uses it.
struct DeviceRunner::Session {
    std::shared_ptr<Plan> plan;
    std::shared_ptr<target::device::Stream> stream;
    Memory arena, faults;
    std::vector<Memory> inputs, outputs;
    std::map<ValueId, Memory> made;                                 // constants that depend on the shapes
    std::vector<Address> operands;                                  // of all launches, one after the other
    std::vector<std::unique_ptr<target::device::Launch>> launches;  // null: on the cpu
    std::vector<int> codes;                                         // of faults, by launch

    Session() = default;
    Session(const Session&) = delete;
    // Memory may go only when nothing uses it any more; a run that failed has not waited.
    ~Session() {
        if (stream) (void)stream->wait("giving memory back");
    }
};

DeviceRunner::DeviceRunner(target::device::Device& d, const graph::Graph& g, const std::vector<Step>& steps)
    : device_(d), g_(g), steps_(steps), what_(g.name.empty() ? "the model" : g.name) {}
DeviceRunner::~DeviceRunner() { (void)device_.enter(); }

Result<std::unique_ptr<DeviceRunner>> DeviceRunner::make(target::device::Device& d, const graph::Graph& g,
                                                         const std::vector<Step>& steps) {
    std::unique_ptr<DeviceRunner> r(new DeviceRunner(d, g, steps));
    OPW_CHECK(r->upload_constants());
    return r;
}

// The value whose elements v shows, through views.
ValueId DeviceRunner::root(ValueId v) const {
    while (!g_.values[v].constant && g_.values[v].producer != graph::kNone &&
           g_.nodes[g_.values[v].producer].kind == NodeKind::View)
        v = g_.nodes[g_.values[v].producer].inputs[0];
    return v;
}

Status DeviceRunner::upload_constants() {
    Stage stage("upload constants");
    OPW_CHECK(device_.enter());
    OPW_TRY(stream_, device_.stream());
    size_t bytes = 0;
    for (const Step& s : steps_) {
        if (!device_kernel(*s.kernel)) continue;
        const Node& n = g_.nodes[s.node];
        for (ValueId input : n.inputs) {
            const ValueId v = root(input);
            const auto& constant = g_.values[v].constant;
            if (!constant || constants_.count(v)) continue;
            OPW_TRY(Memory m, stream_->allocate(constant->bytes(), "the constants of " + name_of(n)));
            OPW_CHECK(stream_->upload(m.address, constant->data(), constant->bytes(), name_of(n)));
            bytes += constant->bytes();
            constants_.emplace(v, std::move(m));
        }
    }
    stage.detail(fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6));
    return stream_->wait("the constants");
}

const Tensor& DeviceRunner::host_constant(const Plan& p, ValueId v) const {
    v = root(v);
    return g_.values[v].constant ? *g_.values[v].constant : p.made[v];
}

Result<DeviceRunner::SessionRef> DeviceRunner::session(const std::shared_ptr<Plan>& plan) {
    OPW_CHECK(device_.enter());
    {
        const std::lock_guard lock(mutex_);
        for (auto it = idle_.begin(); it != idle_.end(); ++it)
            if ((*it)->plan == plan) {
                SessionRef s = std::move(*it);
                idle_.erase(it);
                return s;
            }
    }
    auto made = make_session(plan);
    if (!made.ok()) {  // those of other shapes may hold the memory that is wanting
        std::list<SessionRef> others;
        {
            const std::lock_guard lock(mutex_);
            others.swap(idle_);
        }
        if (others.empty()) return made;
        others.clear();
        return make_session(plan);
    }
    return made;
}

void DeviceRunner::give_back(SessionRef s) {
    const std::lock_guard lock(mutex_);
    idle_.push_front(std::move(s));
    if (idle_.size() > kSessions) idle_.pop_back();
}

Result<DeviceRunner::SessionRef> DeviceRunner::make_session(const std::shared_ptr<Plan>& plan) {
    Stage stage("prepare launches");
    auto s = std::make_unique<Session>();
    s->plan = plan;
    OPW_TRY(s->stream, device_.stream());
    const auto allocate = [&](size_t bytes, const std::string& what) { return s->stream->allocate(bytes, what); };
    OPW_TRY(s->arena, allocate(static_cast<size_t>(plan->memory.bytes), "the intermediate results of " + what_));
    OPW_TRY(s->faults, allocate(std::max<size_t>(1, plan->launches.size()) * sizeof(int), what_));
    s->codes.resize(plan->launches.size());
    for (const auto& [values, to] : {std::pair(&g_.inputs, &s->inputs), std::pair(&g_.outputs, &s->outputs)})
        for (ValueId v : *values) {
            const size_t bytes = static_cast<size_t>(element_count(plan->shapes[v])) * size_of(g_.values[v].dtype);
            OPW_TRY(Memory m, allocate(bytes, fmt::format("'{}'", g_.values[v].name)));
            to->push_back(std::move(m));
        }
    const auto address = [&](ValueId v) -> Result<Address> {
        const Place& p = plan->places[v];
        const auto i = static_cast<size_t>(p.index);
        switch (p.kind) {
            case Place::Input: return s->inputs[i].address;
            case Place::Output: return s->outputs[i].address;
            case Place::Arena: return s->arena.address + static_cast<Address>(p.index);
            case Place::Nowhere: return s->arena.address;
            case Place::Constant: break;
        }
        const ValueId from = root(v);
        if (const auto it = constants_.find(from); it != constants_.end()) return it->second.address;
        if (const auto it = s->made.find(from); it != s->made.end()) return it->second.address;
        const Tensor& t = host_constant(*plan, from);
        OPW_TRY(Memory m, allocate(t.bytes(), fmt::format("'{}'", g_.values[from].name)));
        OPW_CHECK(s->stream->upload(m.address, t.data(), t.bytes(), g_.values[from].name));
        return s->made.emplace(from, std::move(m)).first->second.address;
    };
    for (size_t i = 0; i < plan->launches.size(); ++i) {
        const Plan::Launch& l = plan->launches[i];
        const Node& n = g_.nodes[l.node];
        std::vector<Address> operands;
        for (const auto* values : {&n.inputs, &n.outputs})
            for (ValueId v : *values) {
                OPW_TRY(const Address a, address(v));
                operands.push_back(a);
            }
        s->operands.insert(s->operands.end(), operands.begin(), operands.end());
    }
    OPW_CHECK(prepare_launches(*s));
    OPW_CHECK(s->stream->wait(what_));
    stage.detail(fmt::format("{} launches, {:.1f} MB of intermediate results", s->launches.size(),
                             static_cast<double>(plan->memory.bytes) / 1e6));
    return s;
}

// On several threads, since kernels are compiled where these sizes want another variant of them.
Status DeviceRunner::prepare_launches(Session& s) {
    const Plan& plan = *s.plan;
    s.launches.resize(plan.launches.size());
    std::mutex mutex;
    std::optional<Diagnostic> failure;
    std::atomic<size_t> next{0};
    const auto work = [&] {
        const Status entered = device_.enter();
        for (size_t i; (i = next.fetch_add(1)) < plan.launches.size();) {
            const Plan::Launch& l = plan.launches[i];
            if (!device_kernel(*l.kernel)) continue;
            const auto first = s.operands.begin() + l.inputs;
            auto prepared = entered.ok()
                                ? prepare_on_device(*l.kernel, {plan.arguments.data() + l.symbols, l.symbol_count},
                                                    {first, first + l.input_count + l.output_count},
                                                    s.arena.address + static_cast<Address>(l.workspace),
                                                    s.faults.address + i * sizeof(int), *s.stream)
                                : Result<std::unique_ptr<target::device::Launch>>(entered.error());
            if (prepared.ok()) {
                s.launches[i] = std::move(*prepared);
                continue;
            }
            const std::lock_guard lock(mutex);
            if (!failure) failure = in_operator(prepared.error(), g_.nodes[l.node]);
        }
    };
    std::vector<std::thread> threads;
    const size_t wanted = std::min(plan.launches.size(), static_cast<size_t>(available_processors()));
    for (size_t i = 1; i < wanted; ++i) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
    if (failure) return *failure;
    return ok_status();
}

Status DeviceRunner::send(Session& s, std::span<const Tensor> inputs) {
    OPW_CHECK(s.stream->fill(s.faults.address, 0, s.codes.size() * sizeof(int), what_));
    for (size_t i = 0; i < inputs.size(); ++i)
        OPW_CHECK(s.stream->upload(s.inputs[i].address, inputs[i].data(), inputs[i].bytes(),
                                   fmt::format("'{}'", g_.values[g_.inputs[i]].name)));
    return ok_status();
}

Status DeviceRunner::receive(Session& s, std::vector<Tensor>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
        const Place& p = s.plan->places[g_.outputs[i]];
        if (p.kind != Place::Output || p.index != static_cast<int64_t>(i)) continue;
        OPW_CHECK(s.stream->download(outputs[i].data(), s.outputs[i].address, outputs[i].bytes(),
                                     fmt::format("'{}'", g_.values[g_.outputs[i]].name)));
    }
    return check_faults(s);
}

// Waits for everything.
Status DeviceRunner::check_faults(Session& s) {
    OPW_CHECK(s.stream->download(s.codes.data(), s.faults.address, s.codes.size() * sizeof(int), what_));
    OPW_CHECK(s.stream->wait(what_));
    for (size_t i = 0; i < s.codes.size(); ++i) {
        if (s.codes[i] == 0) continue;
        const Plan::Launch& l = s.plan->launches[i];
        const std::span<const int64_t> symbols(s.plan->arguments.data() + l.symbols, l.symbol_count);
        const auto& messages = device_kernel(*l.kernel, symbols)->faults();
        const size_t code = static_cast<size_t>(s.codes[i]) - 1;
        return in_operator(
            Diagnostic(code < messages.size() ? messages[code] + "." : "A kernel reports a fault of no known meaning.",
                       {}, "Check the values of the index tensor against the extent of the dimension that it indexes."),
            g_.nodes[l.node]);
    }
    return ok_status();
}

Status DeviceRunner::launch(Session& s, size_t i, ThreadPool& pool) {
    const Node& n = g_.nodes[s.plan->launches[i].node];
    const Status done = s.launches[i] ? s.launches[i]->launch(*s.stream, name_of(n)) : run_on_cpu(s, i, pool);
    return done.ok() ? done : Status(in_operator(done.error(), n));
}

// A value's elements in the host's memory.
Result<Tensor> DeviceRunner::fetch(Session& s, ValueId v, Address at, const std::string& what) {
    const Shape& shape = s.plan->shapes[v];
    if (s.plan->places[v].kind == Place::Constant) return host_constant(*s.plan, v).reshaped(shape);
    Tensor t(g_.values[v].dtype, shape);
    OPW_CHECK(s.stream->download(t.data(), at, t.bytes(), what));
    return t;
}

Status DeviceRunner::run_on_cpu(Session& s, size_t i, ThreadPool& pool) {
    const Plan::Launch& l = s.plan->launches[i];
    const Node& n = g_.nodes[l.node];
    alignas(64) static char nothing[64];  // stands for the elements of a tensor that has none
    std::vector<Tensor> tensors;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
        OPW_TRY(Tensor t, fetch(s, n.inputs[k], s.operands[l.inputs + k], name_of(n)));
        tensors.push_back(std::move(t));
        inputs.push_back(tensors.back().bytes() ? tensors.back().data() : nothing);
    }
    OPW_CHECK(s.stream->wait(name_of(n)));
    for (ValueId v : n.outputs) {
        tensors.emplace_back(g_.values[v].dtype, s.plan->shapes[v]);
        outputs.push_back(tensors.back().bytes() ? tensors.back().data() : nothing);
    }
    const std::span<const int64_t> symbols(s.plan->arguments.data() + l.symbols, l.symbol_count);
    Tensor workspace(DType::U8, {std::max<int64_t>(64, l.kernel->workspace_bytes(symbols))});
    OPW_CHECK(l.kernel->run({inputs, outputs, symbols, workspace.data()}, pool));
    for (size_t k = 0; k < n.outputs.size(); ++k) {
        const Tensor& t = tensors[n.inputs.size() + k];
        OPW_CHECK(s.stream->upload(s.operands[l.outputs + k], t.data(), t.bytes(), name_of(n)));
    }
    return s.stream->wait(name_of(n));
}

Status DeviceRunner::show(Session& s, size_t i, const Executable::Observer& seen) {
    const Plan::Launch& l = s.plan->launches[i];
    const Node& n = g_.nodes[l.node];
    std::vector<Tensor> tensors;
    for (size_t k = 0; k < n.inputs.size() + n.outputs.size(); ++k) {
        const ValueId v = k < n.inputs.size() ? n.inputs[k] : n.outputs[k - n.inputs.size()];
        OPW_TRY(Tensor t, fetch(s, v, s.operands[l.inputs + k], name_of(n)));
        tensors.push_back(std::move(t));
    }
    OPW_CHECK(check_faults(s));
    const std::span<const Tensor> all(tensors);
    return seen(l.node, all.first(n.inputs.size()), all.subspan(n.inputs.size()));
}

Status DeviceRunner::run(const std::shared_ptr<Plan>& plan, std::span<const Tensor> inputs,
                         std::vector<Tensor>& outputs, ThreadPool& pool, const Executable::Observer* seen) {
    OPW_TRY(SessionRef s, session(plan));
    OPW_CHECK(send(*s, inputs));
    for (size_t i = 0; i < s->launches.size(); ++i) {
        OPW_CHECK(launch(*s, i, pool));
        if (seen) OPW_CHECK(show(*s, i, *seen));
    }
    OPW_CHECK(receive(*s, outputs));
    give_back(std::move(s));
    return ok_status();
}

Result<Timing> DeviceRunner::measure(const std::shared_ptr<Plan>& plan, std::span<const Tensor> inputs,
                                     std::vector<Tensor>& outputs, ThreadPool& pool, int repeats) {
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); };
    OPW_TRY(SessionRef s, session(plan));
    Timing t;
    t.device.emplace();
    OPW_TRY(const auto start, s->stream->event());
    OPW_TRY(const auto end, s->stream->event());
    std::vector<double> whole, up, down;
    for (int r = 0; r < repeats; ++r) {
        const auto before = Clock::now();
        OPW_CHECK(send(*s, inputs));
        OPW_CHECK(s->stream->wait(what_));
        up.push_back(since(before));
        OPW_CHECK(s->stream->record(*start));
        for (size_t i = 0; i < s->launches.size(); ++i) OPW_CHECK(launch(*s, i, pool));
        OPW_CHECK(s->stream->record(*end));
        OPW_TRY(const double seconds, s->stream->seconds(*start, *end));
        whole.push_back(seconds);
        const auto after = Clock::now();
        OPW_CHECK(receive(*s, outputs));
        down.push_back(since(after));
    }
    t.min = least(whole);
    t.median = median(whole);
    t.device->upload = least(up);
    t.device->download = least(down);
    OPW_CHECK(time_steps(*s, pool, repeats, t));
    OPW_CHECK(time_replay(*s, repeats, *t.device));
    OPW_CHECK(time_line(*s, pool, std::min(repeats, kTimelines), *t.device));
    OPW_CHECK(check_faults(*s));
    give_back(std::move(s));
    return t;
}

// Each step once and then kMore times, all queued before the first starts. What kMore more launches take, divided, is a
// launch without the events beside it; the inputs of a step are all there, so that it may run again.
Status DeviceRunner::time_steps(Session& s, ThreadPool& pool, int repeats, Timing& t) {
    constexpr int kMore = 4;
    std::array<std::shared_ptr<target::device::Event>, 3> events;
    for (auto& e : events) { OPW_TRY(e, s.stream->event()); }
    for (size_t i = 0; i < s.launches.size(); ++i) {
        std::vector<double> once, again;
        for (int r = 0; r < repeats; ++r) {
            const auto open = std::make_shared<std::atomic<bool>>(false);
            // A step on the cpu waits for the device, which must not wait for what follows that step.
            if (s.launches[i]) OPW_CHECK(s.stream->hold(open));
            OPW_CHECK(s.stream->record(*events[0]));
            OPW_CHECK(launch(s, i, pool));
            OPW_CHECK(s.stream->record(*events[1]));
            for (int k = 0; s.launches[i] && k <= kMore; ++k) OPW_CHECK(launch(s, i, pool));
            OPW_CHECK(s.stream->record(*events[2]));
            *open = true;
            OPW_TRY(const double first, s.stream->seconds(*events[0], *events[1]));
            OPW_TRY(const double more, s.stream->seconds(*events[1], *events[2]));
            once.push_back(first);
            again.push_back(more);
        }
        const Plan::Launch& l = s.plan->launches[i];
        const auto symbols = s.plan->arguments.begin() + l.symbols;
        StepTime x{l.node, least(once), median(once), {symbols, symbols + l.symbol_count}, {}};
        if (s.launches[i]) {
            x.min = std::max(0.0, least(again) - least(once)) / kMore;
            x.median = std::max(x.min, (median(again) - median(once)) / kMore);
            x.launches = s.launches[i]->facts();
        }
        t.device->kernels += x.min;
        t.steps.push_back(std::move(x));
    }
    return ok_status();
}

Status DeviceRunner::time_replay(Session& s, int repeats, DeviceTiming& t) {
    if (std::any_of(s.launches.begin(), s.launches.end(), [](auto& l) { return l == nullptr; })) {
        t.no_replay = "some of its kernels run on the cpu";
        return ok_status();
    }
    OPW_CHECK(s.stream->begin_recording(what_));
    Status launched = ok_status();
    for (size_t i = 0; launched.ok() && i < s.launches.size(); ++i)
        launched = s.launches[i]->launch(*s.stream, name_of(g_.nodes[s.plan->launches[i].node]));
    auto replay = s.stream->end_recording(what_);
    OPW_CHECK(launched);
    if (!replay.ok()) {
        t.no_replay = replay.error().message;
        return ok_status();
    }
    OPW_TRY(const auto start, s.stream->event());
    OPW_TRY(const auto end, s.stream->event());
    std::vector<double> seconds;
    for (int r = 0; r < repeats + 1; ++r) {  // the first one uploads the graph
        OPW_CHECK(s.stream->record(*start));
        OPW_CHECK((*replay)->launch(what_));
        OPW_CHECK(s.stream->record(*end));
        OPW_TRY(const double x, s.stream->seconds(*start, *end));
        if (r > 0) seconds.push_back(x);
    }
    t.replay_min = least(seconds);
    t.replay_median = median(seconds);
    return ok_status();
}

// One event behind each step: what follows an event at once would wait for it, were there one on either side.
Status DeviceRunner::time_line(Session& s, ThreadPool& pool, int runs, DeviceTiming& t) {
    using Clock = std::chrono::steady_clock;
    OPW_TRY(const auto start, s.stream->event());
    std::vector<std::shared_ptr<target::device::Event>> after(s.launches.size());
    for (auto& e : after) { OPW_TRY(e, s.stream->event()); }
    for (int r = 0; r < runs; ++r) {
        DeviceTiming::Run run;
        OPW_CHECK(s.stream->wait(what_));
        OPW_CHECK(s.stream->record(*start));
        const auto begin = Clock::now();
        for (size_t i = 0; i < s.launches.size(); ++i) {
            OPW_CHECK(launch(s, i, pool));
            OPW_CHECK(s.stream->record(*after[i]));
            run.issued.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
        }
        for (const auto& e : after) {
            OPW_TRY(const double seconds, s.stream->seconds(*start, *e));
            run.ended.push_back(seconds);
        }
        t.runs.push_back(std::move(run));
    }
    return ok_status();
}

}  // namespace opwright::runtime
