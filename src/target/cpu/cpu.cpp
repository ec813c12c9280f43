#include "target/cpu/cpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "loop/print.h"
#include "loop/verify.h"
#include "math/folded_reads.h"
#include "runtime/thread_pool.h"
#include "runtime/wake.h"
#include "schedule/candidates.h"
#include "schedule/portable.h"
#include "target/cpu/features.h"
#include "target/cpu/jit.h"
#include "target/cpu/loop_facts.h"
#include "target/cpu/lower/lower.h"
#include "target/cpu/plan.h"
#include "target/cpu/variants.h"
#include "tile/apply.h"

namespace opwright::target::cpu {
using namespace math;

namespace {

// Tasks that a thread takes at a time: all of them where the help of a second thread costs more than it saves. `work` in
// picoseconds.
int64_t grain_of(int64_t tasks, int64_t work, const runtime::ThreadPool& pool) {
    constexpr int64_t kPico = 1000, kLeast = 2000;  // no chunk is worth less nanoseconds than this
    if (pool.size() == 1 || tasks == 1 || work < 2 * kLeast * kPico) return tasks;
    const int64_t least = std::max(kLeast, 2 * runtime::helper_nanoseconds()) * kPico;
    if (work < 2 * least) return tasks;
    return std::max<int64_t>(1, least / std::max<int64_t>(1, work / tasks));
}
// Outputs from here on are written past the caches: larger than the share of one core in any last-level cache seen.
constexpr int64_t kStreamBytes = int64_t{16} << 20;

// What equal programs share: machine code and how to call it.
struct Code {
    schedule::Kernel kernel;
    schedule::Schedule plan;
    target::Machine machine;
    Lowered lowered;
    std::string schedule_text, schedule_json, tile_text, loop_text, llvm_text, asm_text, summary;
    ModuleRef module;
    std::vector<Entry> stages, packs;
    std::vector<size_t>
        symbol_of;  // loop symbol -> position in the request's symbol values, or past them: kStream, kAhead
    static constexpr size_t kStream = SIZE_MAX, kAhead = SIZE_MAX - 1;
    std::vector<Sym> tensor_bytes;  // of inputs and outputs
    std::vector<std::string> symbol_names;  // of the request's program, in order
    std::vector<FoldedRead> folded;
    std::vector<bool> only_packed;  // by input: read through packed panels alone
    // By argument of the stages: the position among inputs, outputs, constants' tensors, workspace temporaries, panels or
    // shared panels.
    struct Source {
        enum Kind : uint8_t { Input, Output, Constant, Temp, Packed, Shared } kind;
        size_t index;
    };
    std::vector<Source> sources;
    std::optional<Diagnostic> failure;
};

class CpuKernel final : public Kernel {
public:
    explicit CpuKernel(std::shared_ptr<const Code> code)
        : code_(std::move(code)), packed_(code_->kernel.program.inputs.size()) {}

    int64_t workspace_bytes(std::span<const int64_t> symbols) const override { return sizes(symbols)->workspace; }

    Status run(const Launch& l, runtime::ThreadPool& pool) const override {
        const Program& p = code_->kernel.program;
        const auto s = sizes(l.symbols);
        if (s->empty_read)
            return Diagnostic(
                fmt::format(
                    "{} reads a tensor that has no elements, where its declaration folds every index back inside.",
                    p.name),
                {}, "Give it inputs with at least one element.");
        if (!code_->packs.empty() && !is_packed_.load(std::memory_order_acquire)) {
            std::lock_guard lock(pack_mutex_);
            if (!is_packed_.load(std::memory_order_relaxed)) pack(l.inputs, pool);
        }
        constexpr size_t kFew = 16;  // arguments that need no memory of their own
        void* few[kFew];
        std::vector<void*> many;
        void** arguments = few;
        if (code_->sources.size() > kFew) many.resize(code_->sources.size()), arguments = many.data();
        pointers(l.inputs, l.outputs, l.workspace, *s, arguments);
        const bool stream = s->large && std::all_of(l.outputs.begin(), l.outputs.end(),
                                                    [](void* p) { return reinterpret_cast<uintptr_t>(p) % 64 == 0; });
        const std::vector<int64_t>& symbols = stream ? s->streaming_symbols : s->symbols;
        std::atomic<int64_t> fault{0};
        for (size_t i = 0, t = 0; i < code_->stages.size(); ++i) {
            if (t < s->together.size() && i == code_->lowered.together[t].first) {
                const Lowered::Together& g = code_->lowered.together[t];
                const TogetherSizes& own = s->together[t++];
                if (own.tasks > 1) {
                    run_together(g, own, *s, arguments, symbols, stream, fault, pool);
                    i += g.count - 1;
                    if (fault.load()) return failure(fault.load());
                    continue;
                }
            }
            const Entry& f = code_->stages[i];
            const int64_t tasks = s->tasks[i];
            if (tasks <= 0) continue;
            const int64_t grain = grain_of(tasks, s->work[i], pool);
            const auto scratch = static_cast<size_t>(f.scratch_bytes(symbols.data()));
            pool.parallel_for(tasks, grain, [&](int64_t begin, int64_t end, int worker) {
                int64_t status = 0;
                f.run(arguments, symbols.data(), begin, end, scratch ? pool.scratch(worker, scratch) : nullptr,
                      &status);
                if (stream)
                    std::atomic_thread_fence(
                        std::memory_order_seq_cst);  // non-temporal stores are not ordered by release
                if (status != 0) fault.store(status, std::memory_order_relaxed);
            });
            if (const int64_t status = fault.load()) return failure(status);
        }
        return ok_status();
    }

    bool pack_constants(std::span<const void* const> constants, runtime::ThreadPool& pool) override {
        if (code_->packs.empty()) return false;
        for (const Pack& k : code_->lowered.packs)
            for (TensorId t : k.reads) {
                const auto& in = code_->kernel.program.inputs;
                const auto at = std::find(in.begin(), in.end(), t);
                if (at != in.end() && !constants[static_cast<size_t>(at - in.begin())]) return false;
            }
        std::lock_guard lock(pack_mutex_);
        if (!is_packed_.load()) pack(constants, pool);
        packed_ = code_->only_packed;
        return true;
    }
    const std::vector<bool>& packed() const override { return packed_; }

    std::string text(const std::string& level) const override {
        if (level == "schedule") return code_->schedule_text;
        if (level == "schedule-json") return code_->schedule_json;
        if (level == "tile") return code_->tile_text;
        if (level == "loop") return code_->loop_text;
        if (level == "llvm") return code_->llvm_text;
        if (level == "asm") return code_->asm_text;
        return {};
    }
    std::string schedule_summary() const override { return code_->summary; }
    std::vector<LoopFacts> loops(std::span<const int64_t> symbols) const override {
        SymValues named;
        for (size_t i = 0; i < code_->symbol_names.size(); ++i) named[code_->symbol_names[i]] = symbols[i];
        return loop_facts(code_->kernel, code_->plan, code_->machine, named);
    }
    std::vector<StageFacts> stages(std::span<const int64_t> symbols) const override {
        SymValues named;
        for (size_t i = 0; i < code_->symbol_names.size(); ++i) named[code_->symbol_names[i]] = symbols[i];
        return stage_facts(code_->lowered, named);
    }

private:
    // What follows from the symbols' values; kept for the last values seen, since models run at one size again and
    // again.
    struct TogetherSizes {
        int64_t tasks = 0, batches = 0, rows = 0;  // tasks of 0 or 1: the stages run apart
        struct Held {
            size_t argument = 0;    // of the stages
            int64_t row_bytes = 0;  // of a row
            int64_t offset = 0;     // in a worker's memory
        };
        std::vector<Held> held;
        int64_t bytes = 0;  // of a worker's memory, for all of them
        int64_t work = 0;
    };
    struct Sizes {
        std::vector<TogetherSizes> together;
        std::vector<int64_t> request, symbols, streaming_symbols, tasks, work, temp_offset, shared_offset;
        int64_t workspace = 0;
        bool large = false;  // outputs that no cache holds, in a kernel that can write past them
        bool empty_read = false;
    };
    std::shared_ptr<const Sizes> sizes(std::span<const int64_t> values) const {
        std::lock_guard lock(sizes_mutex_);
        if (last_ && std::equal(values.begin(), values.end(), last_->request.begin(), last_->request.end()))
            return last_;
        auto s = std::make_shared<Sizes>();
        s->request.assign(values.begin(), values.end());
        SymValues named;
        for (size_t i = 0; i < code_->symbol_names.size(); ++i) named[code_->symbol_names[i]] = values[i];
        const auto value = [&](const Sym& x) { return evaluate(x, named).value_or(0); };
        int64_t bytes = 0;
        for (const Sym& x : code_->tensor_bytes) bytes += value(x);
        const int64_t ahead = bytes > code_->machine.near_bytes;
        const auto symbols = [&](int64_t stream) {
            std::vector<int64_t> r;
            for (size_t i : code_->symbol_of) r.push_back(i == Code::kStream ? stream : i == Code::kAhead ? ahead : values[i]);
            return r;
        };
        s->symbols = symbols(0);
        if (!code_->lowered.streamed.empty()) {
            s->large = true;
            for (const Lowered::Streamed& x : code_->lowered.streamed) {
                const TensorInfo& out = code_->kernel.program.tensors[x.tensor];
                const auto element = static_cast<int64_t>(size_of(out.dtype));
                const int64_t elements = value(product(out.shape)), row = value(x.row);
                s->large &= elements * element >= kStreamBytes && (row == elements || row * element % 64 == 0);
            }
            s->streaming_symbols = symbols(1);
        }
        for (const Stage& st : code_->lowered.stages) {
            s->tasks.push_back(value(st.tasks));
            s->work.push_back(value(st.work));
        }
        std::set<TensorId> held;
        for (const Lowered::Together& g : code_->lowered.together) {
            s->together.push_back(together(g, *s, value));
            if (s->together.back().tasks > 1) held.insert(g.held.begin(), g.held.end());
        }
        for (TensorId t : code_->kernel.workspace) {
            const TensorInfo& info = code_->kernel.program.tensors[t];
            s->temp_offset.push_back(s->workspace);
            if (held.count(t)) continue;
            int64_t bytes = static_cast<int64_t>(size_of(compute_type(info.dtype)));
            for (const Sym& d : info.shape) bytes *= std::max<int64_t>(0, value(d));
            s->workspace += (bytes + 63) / 64 * 64;
        }
        for (const SharedPanels& k : code_->lowered.shared) {
            s->shared_offset.push_back(s->workspace);
            s->workspace += (value(k.elements) * static_cast<int64_t>(size_of(k.dtype)) + 63) / 64 * 64;
        }
        for (const FoldedRead& f : code_->folded) s->empty_read |= value(f.elements) == 0 && value(f.points) > 0;
        last_ = s;
        return s;
    }

    Diagnostic failure(int64_t status) const {
        return Diagnostic(code_->lowered.faults[static_cast<size_t>(status - 1)] + ".", {},
                          "Check the values of the index tensor against the extent of the dimension that it indexes.");
    }

    TogetherSizes together(const Lowered::Together& g, const Sizes& s, const std::function<int64_t(const Sym&)>& value) const {
        const Program& p = code_->kernel.program;
        TogetherSizes r{.tasks = value(g.tasks()), .batches = value(g.batches), .rows = value(g.rows)};
        if (r.tasks <= 1) return r;
        for (size_t i = g.first; i < g.first + g.count; ++i) r.work += s.work[i];
        for (size_t a = 0; a < code_->sources.size(); ++a) {
            const Code::Source& from = code_->sources[a];
            if (from.kind != Code::Source::Temp) continue;
            const TensorId t = code_->kernel.workspace[from.index];
            if (std::find(g.held.begin(), g.held.end(), t) == g.held.end()) continue;
            const int64_t row = value(product(p.tensors[t].shape)) / (r.batches * r.rows) * static_cast<int64_t>(size_of(compute_type(p.tensors[t].dtype)));
            r.held.push_back({a, row, r.bytes});
            r.bytes += (g.tile * row + 63) / 64 * 64 + 64;
        }
        return r;
    }

    // One task after the other through all stages. Temporaries hold a task's rows: their pointers are moved back by the rows
    // before them, so that the stages find each row where it would lie in the whole tensor.
    void run_together(const Lowered::Together& g, const TogetherSizes& own, const Sizes& s, void** arguments, const std::vector<int64_t>& symbols,
                      bool stream, std::atomic<int64_t>& fault, runtime::ThreadPool& pool) const {
        size_t scratch = 0;
        for (size_t i = g.first; i < g.first + g.count; ++i)
            scratch = std::max(scratch, (static_cast<size_t>(code_->stages[i].scratch_bytes(symbols.data())) + 63) / 64 * 64);
        const int64_t tiles = own.tasks / own.batches;
        pool.parallel_for(own.tasks, grain_of(own.tasks, own.work, pool), [&](int64_t begin, int64_t end, int worker) {
            char* memory = static_cast<char*>(pool.scratch(worker, scratch + static_cast<size_t>(own.bytes)));
            std::vector<void*> args(arguments, arguments + code_->sources.size());
            int64_t status = 0;
            for (int64_t task = begin; task < end; ++task) {
                const int64_t from = task % tiles * g.tile, row = task / tiles * own.rows + from,
                              rows = std::min(g.tile, own.rows - from);
                for (const TogetherSizes::Held& h : own.held) {
                    const auto before = static_cast<uintptr_t>(row * h.row_bytes);
                    // Where the whole tensor would begin, at a multiple of 64 bytes.
                    args[h.argument] = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory) + scratch +
                                                               static_cast<uintptr_t>(h.offset) + before % 64 - before);
                }
                for (size_t i = g.first; i < g.first + g.count; ++i) {
                    const bool by_row = !code_->lowered.stages[i].contraction;
                    const int64_t each = s.tasks[i] / own.tasks, first = by_row ? row : task * each;
                    std::memset(memory, 0, std::min(scratch, sizeof(int64_t)));  // other stages' calls came between
                    code_->stages[i].run(args.data(), symbols.data(), first, first + (by_row ? rows : each), memory, &status);
                }
            }
            if (stream) std::atomic_thread_fence(std::memory_order_seq_cst);
            if (status != 0) fault.store(status, std::memory_order_relaxed);
        });
    }

    void pointers(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace, const Sizes& s,
                  void** to) const {
        using Source = Code::Source;
        const auto in_workspace = [&](int64_t offset) -> void* {
            return workspace ? static_cast<char*>(workspace) + offset : nullptr;
        };
        for (const Source& a : code_->sources) {
            void* p = nullptr;
            switch (a.kind) {
                case Source::Input: p = const_cast<void*>(inputs[a.index]); break;
                case Source::Output: p = outputs.empty() ? nullptr : outputs[a.index]; break;
                case Source::Constant: p = const_cast<void*>(code_->kernel.program.tensors[a.index].data.data()); break;
                case Source::Temp: p = in_workspace(s.temp_offset[a.index]); break;
                case Source::Packed: p = a.index < panels_.size() ? const_cast<void*>(panels_[a.index].data()) : nullptr; break;
                case Source::Shared: p = in_workspace(workspace ? s.shared_offset[a.index] : 0); break;
            }
            *to++ = p;
        }
    }

    void pack(std::span<const void* const> inputs, runtime::ThreadPool& pool) const {
        Sizes none;
        none.symbols.assign(code_->symbol_of.size(), 0);  // extents of packed constants are numbers
        for (const Pack& k : code_->lowered.packs) panels_.emplace_back(k.dtype, Shape{k.elements.constant().value()});
        std::vector<void*> arguments(code_->sources.size());
        pointers(inputs, {}, nullptr, none, arguments.data());
        for (size_t i = 0; i < code_->packs.size(); ++i) {
            const Entry& f = code_->packs[i];
            const auto scratch = static_cast<size_t>(f.scratch_bytes(none.symbols.data()));
            pool.parallel_for(code_->lowered.packs[i].tasks.constant().value(), 4,
                              [&](int64_t begin, int64_t end, int worker) {
                                  int64_t status = 0;
                                  f.run(arguments.data(), none.symbols.data(), begin, end,
                                        scratch ? pool.scratch(worker, scratch) : nullptr, &status);
                              });
        }
        is_packed_.store(true, std::memory_order_release);
    }

    std::shared_ptr<const Code> code_;
    std::vector<bool> packed_;
    mutable std::mutex sizes_mutex_, pack_mutex_;
    mutable std::shared_ptr<const Sizes> last_;
    mutable std::vector<Tensor> panels_;
    mutable std::atomic<bool> is_packed_{false};
};

// Inputs that only packed factors of contractions read.
std::vector<bool> only_packed(const schedule::Kernel& k, const Lowered& l) {
    const Program& p = k.program;
    std::vector<bool> through_panels(p.tensors.size()), otherwise(p.tensors.size());
    for (const Pack& pack : l.packs)
        for (TensorId t : pack.reads) through_panels[t] = true;
    for (size_t n = 0; n < k.nests.size(); ++n)
        for (uint32_t i : k.nests[n].equations) {
            std::vector<ExprId> stops;
            if (k.nests[n].contraction)
                for (const Pack& pack : l.packs) {
                    if (pack.function == fmt::format("nest{}_pack_a", n)) stops.push_back(k.nests[n].contraction->a);
                    if (pack.function == fmt::format("nest{}_pack_b", n)) stops.push_back(k.nests[n].contraction->b);
                }
            std::vector<bool> seen(p.expr_count());
            std::vector<ExprId> stack(p.equations[i].at);
            stack.push_back(p.equations[i].rhs);
            while (!stack.empty()) {
                const ExprId e = stack.back();
                stack.pop_back();
                if (seen[e] || std::find(stops.begin(), stops.end(), e) != stops.end()) continue;
                seen[e] = true;
                if (p.expr(e).kind == ExprKind::Load) otherwise[p.expr(e).ref] = true;
                for (ExprId a : p.expr(e).args) stack.push_back(a);
            }
        }
    std::vector<bool> r;
    for (TensorId t : p.inputs) r.push_back(through_panels[t] && !otherwise[t]);
    return r;
}

std::vector<Code::Source> sources(const schedule::Kernel& k, const Lowered& l) {
    const Program& p = k.program;
    std::vector<Code::Source> r;
    for (const Argument& a : l.arguments) {
        const auto in = [&](const std::vector<TensorId>& v) {
            return static_cast<size_t>(std::find(v.begin(), v.end(), a.tensor) - v.begin());
        };
        using Source = Code::Source;
        if (a.kind == Argument::Kind::Packed) {
            r.push_back({Source::Packed, a.packed});
        } else if (a.kind == Argument::Kind::Shared) {
            r.push_back({Source::Shared, a.packed});
        } else {
            switch (p.tensors[a.tensor].role) {
                case Role::Input: r.push_back({Source::Input, in(p.inputs)}); break;
                case Role::Output: r.push_back({Source::Output, in(p.outputs)}); break;
                case Role::Constant: r.push_back({Source::Constant, a.tensor}); break;
                case Role::Temp: r.push_back({Source::Temp, in(k.workspace)}); break;
            }
        }
    }
    return r;
}

void must_be_sound(const std::vector<std::string>& problems, const char* level) {
    if (!problems.empty())
        throw std::logic_error(fmt::format("the {} level is not well formed: {}", level, problems[0]));
}

// Under the schedule `tuned` (portable JSON), where there is one.
std::shared_ptr<Code> build(const Request& request, const Features& features, const Options& o, const std::string& tuned) {
    auto code = std::make_shared<Code>();
    Planned planned = cpu::plan(request, features);
    code->kernel = std::move(planned.kernel);
    schedule::Schedule plan = std::move(planned.untuned);
    const target::Machine& machine = planned.machine;
    if (!o.schedule.empty() || !tuned.empty()) {
        auto own = o.schedule.empty() ? schedule::from_portable(tuned, code->kernel) : schedule::from_json(o.schedule, code->kernel);
        if (!own.ok()) {
            code->failure = own.error();
            return code;
        }
        plan = std::move(*own);
        if (o.schedule.empty()) plan.summary = schedule::summary(plan, code->kernel);
    }
    code->summary = plan.summary;
    code->plan = plan;
    code->machine = machine;
    if (request.keep_text) {
        code->schedule_text = schedule::print(plan, code->kernel);
        code->schedule_json = schedule::to_json(plan, code->kernel);
    }
    auto tiles = tile::apply(code->kernel, std::move(plan), machine);
    if (!tiles.ok()) {
        code->failure = tiles.error();
        return code;
    }
    must_be_sound(tile::verify(*tiles), "tile");
    if (request.keep_text) code->tile_text = tile::print(*tiles);
    code->lowered = lower(*tiles, machine);
    if (o.edit) o.edit(code->lowered.program);
    must_be_sound(loop::verify(code->lowered.program), "loop");
    if (request.keep_text) {
        code->loop_text = loop::print(code->lowered.program);
        auto object = compile_object(code->lowered.program, features, {.want_ir = true, .want_assembly = true});
        if (object.ok()) {
            code->llvm_text = std::move(object->ir);
            code->asm_text = std::move(object->assembly);
        }
    }
    auto module = o.cache ? cpu::compile(code->lowered.program, features) : [&]() -> Result<ModuleRef> {
        OPW_TRY(Object o, compile_object(code->lowered.program, features));
        return load_object(o.code);
    }();
    if (!module.ok()) {
        code->failure = module.error();
        return code;
    }
    code->module = *module;
    for (const Stage& s : code->lowered.stages) code->stages.push_back(code->module->entry(s.function));
    for (const Pack& s : code->lowered.packs) code->packs.push_back(code->module->entry(s.function));
    code->symbol_names = request.program->symbols();
    for (const loop::Symbol& s : code->lowered.program.symbols)
        code->symbol_of.push_back(
            s.name == kStreamSymbol  ? Code::kStream
            : s.name == kAheadSymbol ? Code::kAhead
                                     : static_cast<size_t>(std::find(code->symbol_names.begin(), code->symbol_names.end(), s.name) -
                                                           code->symbol_names.begin()));
    for (const std::vector<TensorId>& tensors : {code->kernel.program.inputs, code->kernel.program.outputs})
        for (TensorId t : tensors) {
            const TensorInfo& info = code->kernel.program.tensors[t];
            code->tensor_bytes.push_back(product(info.shape) * static_cast<int64_t>(size_of(info.dtype)));
        }
    code->folded = folded_reads(code->kernel.program);
    code->only_packed = only_packed(code->kernel, code->lowered);
    code->sources = sources(code->kernel, code->lowered);
    return code;
}
}  // namespace

namespace {
// A program, and the schedules under which it is wanted.
struct Job {
    size_t request = 0;
    std::vector<TunedSchedule> tuned;             // what was measured, by sizes
    std::vector<std::string> schedules;           // each once; empty text: the untuned one
    std::vector<std::shared_ptr<Code>> codes;     // of `schedules`
};

// What tuning knows of a program. One whose extents are numbers needs the winner alone.
void look_up(Job& job, const Request& request, const Features& features, const Options& o, const std::string& content) {
    if (o.tuned && o.schedule.empty()) job.tuned = o.tuned->find("cpu", features.key(), content);
    const bool fixed = request.program->symbols().empty();
    std::erase_if(job.tuned, [&](const TunedSchedule& t) { return t.sizes.empty() != fixed; });
    if (fixed && job.tuned.size() > 1) job.tuned.resize(1);
    if (std::all_of(job.tuned.begin(), job.tuned.end(), [](const TunedSchedule& t) { return t.schedule.empty(); })) job.tuned.clear();
    if (job.tuned.empty() || !fixed) job.schedules.emplace_back();
    for (const TunedSchedule& t : job.tuned)
        if (std::find(job.schedules.begin(), job.schedules.end(), t.schedule) == job.schedules.end())
            job.schedules.push_back(t.schedule);
}

// A stored schedule that does not fit gives way to the untuned one.
Result<KernelRef> finish(const Job& job, const std::map<std::string, KernelRef>& by_schedule, double reach) {
    if (job.tuned.empty()) return by_schedule.at("");
    std::vector<Variant> variants;
    if (const auto untuned = by_schedule.find(""); untuned != by_schedule.end()) variants.push_back({{}, untuned->second, 1, ""});
    for (const TunedSchedule& t : job.tuned)
        if (const auto k = by_schedule.find(t.schedule); k != by_schedule.end())
            variants.push_back({t.sizes, k->second, t.gain, t.measured_at});
    return with_variants(std::move(variants), reach);
}
}  // namespace

std::vector<Result<KernelRef>> compile(std::span<const Request> requests, const Options& o) {
    const auto chosen = features_of(o);
    if (!chosen.ok()) return std::vector<Result<KernelRef>>(requests.size(), Result<KernelRef>(chosen.error()));
    const Features& features = *chosen;
    // Equal requests share one Code.
    std::unordered_map<std::string, size_t> first;
    std::vector<size_t> representative(requests.size());
    std::vector<Job> jobs;
    for (size_t i = 0; i < requests.size(); ++i) {
        std::string content = content_of(requests[i]);
        auto [it, fresh] = first.emplace(content, jobs.size());
        if (fresh) {
            jobs.push_back({i, {}, {}, {}});
            look_up(jobs.back(), requests[i], features, o, content);
            jobs.back().codes.resize(jobs.back().schedules.size());
        }
        representative[i] = it->second;
    }
    std::vector<std::pair<size_t, size_t>> work_list;
    for (size_t j = 0; j < jobs.size(); ++j)
        for (size_t v = 0; v < jobs[j].schedules.size(); ++v) work_list.emplace_back(j, v);
    std::atomic<size_t> next{0};
    std::exception_ptr bug;
    std::mutex bug_mutex;
    const auto work = [&] {
        for (size_t u; (u = next.fetch_add(1)) < work_list.size();) {
            auto& [j, v] = work_list[u];
            const Request& request = requests[jobs[j].request];
            try {
                jobs[j].codes[v] = build(request, features, o, jobs[j].schedules[v]);
                // No schedule fits, and there is no other: the untuned one.
                if (jobs[j].codes[v]->failure && !jobs[j].schedules[v].empty() && jobs[j].schedules.size() == 1) {
                    jobs[j].codes[v] = build(request, features, o, "");
                    jobs[j].tuned.clear();
                    jobs[j].schedules[v].clear();
                }
            } catch (...) {
                std::lock_guard lock(bug_mutex);
                if (!bug) bug = std::current_exception();
            }
        }
    };
    const int threads = std::min<int>(o.compile_threads > 0 ? o.compile_threads : runtime::available_processors(),
                                      static_cast<int>(work_list.size()));
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(work);
    work();
    for (std::thread& t : others) t.join();
    if (bug) std::rethrow_exception(bug);

    std::vector<Result<KernelRef>> out;
    for (size_t i = 0; i < requests.size(); ++i) {
        const Job& job = jobs[representative[i]];
        if (job.schedules[0].empty() && job.codes[0]->failure) {
            out.emplace_back(*job.codes[0]->failure);
            continue;
        }
        std::map<std::string, KernelRef> by_schedule;
        for (size_t v = 0; v < job.schedules.size(); ++v)
            if (!job.codes[v]->failure) by_schedule[job.schedules[v]] = std::make_shared<CpuKernel>(job.codes[v]);
        out.push_back(finish(job, by_schedule, o.tuned ? o.tuned->reach() : 1));
    }
    return out;
}

}  // namespace opwright::target::cpu
