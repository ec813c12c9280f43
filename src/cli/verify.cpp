// opwright verify: compiled kernels against the fp64 reference.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/subject.h"
#include "runtime/thread_pool.h"
#include "target/target.h"
#include "verify/cpu_target.h"
#include "verify/graph_check.h"
#include "verify/operator.h"
#include "verify/source_target.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::vector<std::string> targets;
    std::string op;
    TargetFlags on;
    DataFlags data;
    ExecutionFlags execution;
    bool json = false;
};

using nlohmann::json;

constexpr const char* kAll = "library";  // in place of an operator: all of them
Result<Operators> all_operators() {
    std::shared_ptr<const lang::Library> library(&lang::Library::standard(), [](auto*) {});
    return Operators{library, library->names()};
}

Result<json> verify_model(const std::string& path, const Flags& f, std::string& text) {
    auto pool = f.execution.pool();
    CompileOptions fused = f.execution.options();
    OPW_CHECK(f.on.apply(fused));
    CompileOptions plain = fused;
    fused.check = plain.check = true;
    plain.fuse = false;
    OPW_TRY(auto model, Model::load(path, fused, pool));
    OPW_TRY(auto unfused, Model::load(path, plain, pool));
    std::vector<std::string> notes;
    OPW_TRY(const NamedInputs inputs, model_inputs(*model, f.data, notes));
    OPW_TRY(const auto compiled, model->version(inputs));
    OPW_TRY(const auto other, unfused->version(inputs));
    OPW_TRY(const auto arguments, model->arguments(*compiled, inputs));
    OPW_TRY(const verify::GraphReport r, verify::check_graph(*compiled, f.execution.no_fuse ? nullptr : other.get(), arguments, *pool));
    for (const std::string& n : notes) text += "input " + n + "\n";
    const std::vector<std::string> place = f.on.placement(*compiled);
    for (const std::string& p : place) text += p + "\n";
    json kernels = json::array();
    std::map<verify::Verdict, size_t> counts;
    double share = 0;
    for (const verify::KernelCheck& k : r.kernels) {
        kernels.push_back({{"name", k.name}, {"type", k.type}, {"verdict", k.compared ? std::string(verify::name(k.verdict)) : "not compared"},
                           {"max_share", k.max_share}, {"max_ulp", k.max_ulp}, {"message", k.message}});
        if (k.compared) ++counts[k.verdict];
        share = std::max(share, k.max_share);
        if (!k.compared || k.verdict == verify::Verdict::Wrong)
            text += fmt::format("{:<13}{} ({}): {}\n", k.compared ? "wrong" : "not compared", k.name, k.type, k.message);
    }
    std::string verdicts;
    for (const auto& [v, n] : counts) verdicts += fmt::format("{}{} {}", verdicts.empty() ? "" : ", ", n, verify::name(v));
    text += fmt::format("{}: {} kernels, {} compared with the reference: {}; the largest error is {:.0f} % of what its kernel may show\n", path, r.kernels.size(),
                        r.compared, verdicts.empty() ? "none" : verdicts, 100 * share);
    text += fmt::format("fused against unfused: largest difference {:.2g} of the largest value\n", r.fusion_difference);
    return json{{"target", path}, {"passed", r.passed()}, {"kernels", std::move(kernels)}, {"compared", r.compared}, {"wrong", r.wrong},
                {"fusion_difference", r.fusion_difference}, {"notes", notes}, {"placement", place}};
}

Result<json> verify_operators(const std::string& target, const Flags& f, std::string& text) {
    OPW_TRY(const Operators operators, target == kAll ? all_operators() : load_operators(target, f.op));
    auto pool = f.execution.pool();
    verify::Compile under_test = verify::cpu_target(f.execution.options().execution.cpu, *pool);
    CompileOptions options;
    OPW_CHECK(f.on.apply(options));
    if (const target::Target* on = options.execution.target) {
        text += fmt::format("target {}, run on {}\n", on->name(), on->runs_on());
        under_test = verify::source_target(*on);
    }
    json list = json::array();
    bool passed = true;
    for (const std::string& n : operators.names) {
        const verify::Report r = verify::check_operator(*operators.library, n, under_test);
        passed = passed && (r.passed() || r.refused_all());
        text += r.str() + "\n";
        json verdicts = json::object();
        for (const auto& [v, count] : r.verdicts) verdicts[std::string(verify::name(v))] = count;
        json one{{"name", n}, {"passed", r.passed()}, {"cases", r.cases}, {"failed", r.failed}, {"rejected", r.rejected},
                 {"refused", r.refused}, {"not_run", r.not_run}, {"reasons", r.reasons}, {"types", r.types},
                 {"verdicts", verdicts}, {"max_share", r.max_share}, {"max_ulp", r.max_ulp}, {"text", r.str()}};
        if (r.smallest_failure) one["smallest_failure"] = {{"arguments", r.smallest_failure->arguments}, {"message", r.smallest_failure->message}};
        list.push_back(std::move(one));
    }
    return json{{"target", target}, {"passed", passed}, {"operators", std::move(list)}};
}

void run(const Flags& f, Context& c) {
    json all = json::array();
    for (const std::string& target : f.targets) {
        std::string text;
        auto r = is_model(target) ? verify_model(target, f, text) : verify_operators(target, f, text);
        if (!r.ok()) {
            fail(c, r.error(), f.json);
            continue;
        }
        if (!(*r)["passed"].get<bool>()) c.exit = kFinding;
        if (!f.json) print(wrapped(text));
        all.push_back(std::move(*r));
    }
    if (f.json && !all.empty()) print_json(all.size() == 1 ? all[0] : all);
}
}  // namespace

void add_verify(CLI::App& app, Context& c) {
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("verify", "Compare compiled kernels with the reference in 64-bit arithmetic");
    a->add_option("TARGET", f->targets, "files of declarations (.op), operators of the library (\"library\": all of them), or models (.onnx)")->required();
    a->add_option("--op", f->op, "only this operator of the file");
    f->on.add(*a);
    f->data.add(*a, false);
    f->execution.add(*a);
    a->add_flag("--json", f->json, "print JSON");
    a->footer("Operators are run at the sizes where kernels go wrong (0, 1, around vector and tile widths,\n"
              "primes), on special values, for each element type. A model's kernels are each compared on the\n"
              "inputs that they met.\n"
              "Examples:\n  opwright verify examples/matmul_prelu.op\n  opwright verify softmax conv\n  opwright verify softmax --target c\n  opwright verify model.onnx --size h=64,w=64");
    a->callback([f, &c] { run(*f, c); });
}

}  // namespace opwright::cli
