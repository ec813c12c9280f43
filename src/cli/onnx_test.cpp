// opwright onnx-test: ONNX's own test data, counted honestly.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cli/common.h"
#include "runtime/thread_pool.h"
#include "verify/onnx_test.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::vector<std::string> folders;
    ExecutionFlags execution;
    verify::OnnxTestOptions options;
    bool json = false;
};

void run(Flags& f, Context& c) {
    using verify::CaseVerdict;
    const CompileOptions compile_options = f.execution.options();
    const int threads = f.execution.threads > 0 ? f.execution.threads : 1;
    if (f.options.processes <= 0) f.options.processes = runtime::available_processors();
    f.options.run = [&](const graph::Graph& g, const std::vector<Tensor>& inputs, bool* refused) -> Result<std::vector<Tensor>> {
        runtime::ThreadPool pool(threads);
        auto compiled = compile(g, compile_options, pool);
        *refused = !compiled.ok();
        if (!compiled.ok()) return compiled.error();
        return compiled->executable->run(inputs, pool);
    };
    if (isatty(STDERR_FILENO))
        f.options.progress = [](const verify::CaseResult& r, size_t done, size_t total) {
            std::fprintf(stderr, "\r\033[K[%zu/%zu] %s", done, total, r.name.c_str());
        };
    auto report = verify::run_onnx_tests(f.folders, f.options);
    if (f.options.progress) std::fprintf(stderr, "\r\033[K");
    if (!report.ok()) return fail(c, report.error(), f.json);
    const auto count = [&](CaseVerdict v) { return report->count(v); };
    if (count(CaseVerdict::Wrong) + count(CaseVerdict::Crash) + count(CaseVerdict::Timeout) > 0) c.exit = kFinding;
    if (f.json) return print(report->json() + "\n");
    for (const verify::CaseResult& r : report->cases)
        if (r.verdict != CaseVerdict::Pass) print(fmt::format("{:<12} {}: {}\n", verify::name(r.verdict), r.name, r.reason));
    print(fmt::format("{} cases: {} pass ({:.1f} %), {} wrong, {} crash, {} unsupported, {} timeout\n", report->cases.size(), count(CaseVerdict::Pass),
                      100.0 * count(CaseVerdict::Pass) / static_cast<double>(report->cases.size()), count(CaseVerdict::Wrong), count(CaseVerdict::Crash),
                      count(CaseVerdict::Unsupported), count(CaseVerdict::Timeout)));
}
}  // namespace

void add_onnx_test(CLI::App& app, Context& c) {
    auto f = std::make_shared<Flags>();
    f->options.processes = 0;
    CLI::App* a = app.add_subcommand("onnx-test", "Run folders of ONNX test data and count pass, wrong, crash, unsupported and timeout apart");
    a->add_option("FOLDER", f->folders, "folders with model.onnx and test_data_set_K, or folders of such")->required();
    a->add_option("--jobs", f->options.processes, "cases at a time; 0 = as many as processors")->check(CLI::Range(0, 1024))->capture_default_str();
    a->add_option("--timeout", f->options.timeout_s, "seconds for one case")->check(CLI::PositiveNumber)->capture_default_str();
    a->add_option("--memory", f->options.memory_mib, "MiB of address space for one case; 0 = no limit")->check(CLI::NonNegativeNumber)->capture_default_str();
    f->execution.add(*a);
    a->add_flag("--json", f->json, "print JSON: the five counts, and cases with name, verdict, reason");
    a->footer("An unsupported case is never a pass. Exit code 0 says: none wrong, none crashed, none timed out.\n"
              "Examples:\n  opwright onnx-test onnx/backend/test/data/node --jobs 2\n  opwright onnx-test onnx/backend/test/data/node/test_relu --json");
    a->callback([f, &c] { run(*f, c); });
}

}  // namespace opwright::cli
