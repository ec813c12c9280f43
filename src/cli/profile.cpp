// opwright profile: where the time goes, and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/subject.h"
#include "explain/profile.h"
#include "explain/report.h"
#include "explain/timeline.h"
#include "io/file.h"
#include "target/target.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::string target, op;
    DataFlags data;
    ExecutionFlags execution;
    TargetFlags on;
    explain::ProfileOptions options;
    size_t rows = 25;
    bool json = false, fresh = false;
    std::string html, baseline, trace, schedule;
};
constexpr int kTracedRuns = 3;

struct Measured {
    explain::Profile profile;
    std::shared_ptr<const Compiled> compiled;
    std::optional<explain::Timeline> timeline;
    std::shared_ptr<const lang::Library> library;  // of the operator; null for a model
};

Result<Measured> measure_compiled(const Flags& f, std::shared_ptr<const Compiled> c, std::span<const Tensor> inputs,
                                  const explain::Machine& machine, runtime::ThreadPool& pool) {
    OPW_TRY(explain::Profile p, explain::profile(*c, inputs, machine, pool, f.options));
    Measured m{std::move(p), std::move(c), {}, {}};
    if (!f.trace.empty() && !m.profile.device) {
        OPW_TRY(m.timeline, explain::timeline(*m.compiled->executable, inputs, pool, kTracedRuns));
    }
    return m;
}

Result<Measured> measure(const Flags& f, std::vector<std::string>& notes) {
    auto pool = f.execution.pool();
    // The engine that interprets is for checking; timing it says nothing about anything.
    if (f.execution.engine == "reference")
        return Diagnostic("The reference engine interprets; its times say nothing.").with_next("Profile without --engine reference.");
    CompileOptions options = f.execution.options();
    OPW_CHECK(f.on.apply(options));
    // Texts are made by compiling.
    if (!f.html.empty()) options.execution.keep_text = true, options.execution.cpu.cache = false;
    if (!f.schedule.empty()) {
        if (is_model(f.target)) return Diagnostic("--schedule is for one operator, and this is a model.").with_next("Profile the operator alone.");
        OPW_TRY(options.execution.cpu.schedule, io::read_file(f.schedule));
    }
    target::device::Device* device = nullptr;
    if (const target::Target* on = options.execution.target) {
        OPW_TRY(device, on->device());
        if (!device)
            return Diagnostic(fmt::format("not run: target {} has no device whose kernels could be timed one by one.", f.on.target), {},
                              "`opwright compare OPERATOR` times its kernels as a whole where that says something.");
    }
    const auto ceilings = [&] { return device ? explain::measure_machine(*device) : explain::measure_machine(*pool, f.fresh); };
    if (is_model(f.target)) {
        OPW_TRY(auto model, Model::load(f.target, options, pool));
        OPW_TRY(const NamedInputs inputs, model_inputs(*model, f.data, notes));
        for (std::string& n : notes) n = "input " + n;
        OPW_TRY(const auto compiled, model->version(inputs));
        OPW_TRY(const auto arguments, model->arguments(*compiled, inputs));
        for (std::string& line : f.on.placement(*compiled)) notes.push_back(std::move(line));
        for (std::string& line : tuning_notes(*compiled, arguments)) notes.push_back(std::move(line));
        OPW_TRY(const explain::Machine machine, ceilings());
        return measure_compiled(f, compiled, arguments, machine, *pool);
    }
    OPW_TRY(const auto op, load_operator(f.target, f.op));
    OPW_TRY(const Call call, operator_call(op.first, op.second, f.data, options, pool));
    OPW_TRY(const auto version, call.op->version(call.inputs));
    for (std::string& line : tuning_notes(*version.compiled, version.arguments)) notes.push_back(std::move(line));
    OPW_TRY(const explain::Machine machine, ceilings());
    OPW_TRY(Measured m, measure_compiled(f, version.compiled, version.arguments, machine, *pool));
    m.library = op.first;
    return m;
}

Status write_files(const Flags& f, const Measured& m, const nlohmann::json& profile, const std::optional<nlohmann::json>& baseline) {
    if (!f.trace.empty()) {
        const nlohmann::json trace = explain::trace_events(m.profile, m.timeline ? &*m.timeline : nullptr);
        OPW_CHECK(io::write_file(f.trace, trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
    }
    if (f.html.empty()) return ok_status();
    explain::ReportOptions o;
    if (f.on.target != "cpu") o.levels = {"schedule", "tile", f.on.target};
    nlohmann::json data = explain::report_data(m.profile, profile, *m.compiled, m.library ? *m.library : lang::Library::standard(), o);
    if (baseline) data["baseline"] = *baseline;
    return io::write_file(f.html, explain::report_page(data));
}

Status run_checked(const Flags& f) {
    std::optional<nlohmann::json> baseline;
    if (!f.baseline.empty()) {
        if (f.html.empty())
            return Diagnostic("--baseline is shown on the page that --html writes.").with_next("Add --html FILE.html.");
        OPW_TRY(baseline, explain::read_baseline(f.baseline));
    }
    std::vector<std::string> notes;
    OPW_TRY(Measured m, measure(f, notes));
    explain::Profile& p = m.profile;
    if (p.name.empty()) p.name = f.target;
    nlohmann::json j = explain::to_json(p);
    j["target"] = f.target;
    j["on"] = f.on.target;
    j["notes"] = notes;
    OPW_CHECK(write_files(f, m, j, baseline));
    if (f.json) {
        print_json(j);
        return ok_status();
    }
    for (const std::string& n : notes) print(wrapped(n));
    print(explain::to_text(p, f.rows));
    for (const std::string& path : {f.html, f.trace})
        if (!path.empty()) print(wrapped(fmt::format("written: {}", path)));
    return ok_status();
}

void run(const Flags& f, Context& c) {
    if (const Status s = run_checked(f); !s.ok()) fail(c, s.error(), f.json);
}
}  // namespace

void add_profile(CLI::App& app, Context& c) {
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("profile", "Measure a model or an operator, kernel by kernel, against this machine's ceilings");
    a->add_option("TARGET", f->target, "a model (.onnx), a file of declarations (.op), or an operator of the library")->required();
    a->add_option("--op", f->op, "which operator of the file");
    f->data.add(*a);
    f->execution.add(*a);
    f->on.add(*a);
    a->add_option("--warmup", f->options.warmup, "runs before the measured ones")->check(CLI::Range(1, 10000))->capture_default_str();
    a->add_option("--repeats", f->options.repeats, "measured runs")->check(CLI::Range(1, 100000))->capture_default_str();
    a->add_option("--rows", f->rows, "rows of the table; 0 = all")->capture_default_str();
    a->add_flag("--fresh", f->fresh, "measure the machine's ceilings anew instead of taking them from the cache");
    a->add_flag("--json", f->json, "print JSON: total_ms of a warm run, a row an operator, the fusion log");
    a->add_option("--schedule", f->schedule, "of an operator: use this schedule, which `explain --level schedule --json` prints");
    a->add_option("--html", f->html, "write a page with charts, the operator graph and the kernels' code to this file");
    a->add_option("--baseline", f->baseline, "with --html: a profile saved by --json that the page compares with");
    a->add_option("--trace", f->trace, "write what every thread did in a few runs to this file, for https://ui.perfetto.dev");
    a->footer("Examples:\n  opwright profile model.onnx --size h=640,w=640 --threads 2\n  opwright profile model.onnx --input x=page.npy --json\n"
              "  opwright profile model.onnx --target cuda\n"
              "  opwright profile model.onnx --json > before.json\n"
              "  opwright profile model.onnx --html report.html --baseline before.json --trace trace.json\n"
              "  opwright profile examples/matmul_prelu.op --size m=512,n=512,k=512");
    a->callback([f, &c] { run(*f, c); });
}

}  // namespace opwright::cli
