// opwright profile: where the time goes, and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/subject.h"
#include "explain/profile.h"
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
};

Result<explain::Profile> measure(const Flags& f, std::vector<std::string>& notes) {
    auto pool = f.execution.pool();
    // The engine that interprets is for checking; timing it says nothing about anything.
    if (f.execution.engine == "reference")
        return Diagnostic("The reference engine interprets; its times say nothing.").with_next("Profile without --engine reference.");
    CompileOptions options = f.execution.options();
    OPW_CHECK(f.on.apply(options));
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
        OPW_TRY(const explain::Machine machine, ceilings());
        return explain::profile(*compiled, arguments, machine, *pool, f.options);
    }
    OPW_TRY(const auto op, load_operator(f.target, f.op));
    OPW_TRY(const Call call, operator_call(op.first, op.second, f.data, options, pool));
    OPW_TRY(const auto version, call.op->version(call.inputs));
    OPW_TRY(const explain::Machine machine, ceilings());
    return explain::profile(*version.compiled, version.arguments, machine, *pool, f.options);
}

void run(const Flags& f, Context& c) {
    std::vector<std::string> notes;
    auto p = measure(f, notes);
    if (!p.ok()) return fail(c, p.error(), f.json);
    if (p->name.empty()) p->name = f.target;
    if (f.json) {
        nlohmann::json j = explain::to_json(*p);
        j["target"] = f.target;
        j["notes"] = notes;
        return print_json(j);
    }
    for (const std::string& n : notes) print(wrapped(n));
    print(explain::to_text(*p, f.rows));
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
    a->footer("Examples:\n  opwright profile model.onnx --size h=640,w=640 --threads 2\n  opwright profile model.onnx --input x=page.npy --json\n"
              "  opwright profile model.onnx --target cuda\n"
              "  opwright profile examples/matmul_prelu.op --size m=512,n=512,k=512");
    a->callback([f, &c] { run(*f, c); });
}

}  // namespace opwright::cli
