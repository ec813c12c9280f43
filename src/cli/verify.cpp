// opwright verify: compiled kernels against the fp64 reference.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/verify_operator.h"
#include "runtime/thread_pool.h"
#include "verify/graph_check.h"

namespace opwright::cli {
namespace {

using nlohmann::json;

Result<json> verify_model(const std::string& path, const VerifyFlags& f, std::string& text) {
    auto pool = f.execution.pool();
    CompileOptions fused = f.execution.options();
    OPW_CHECK(f.on.apply(fused));
    CompileOptions plain = fused;
    fused.check = plain.check = true;
    plain.fuse = false;
    plain.winograd = {};  // beside the convolutions as they are declared
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
    const auto taken = std::count_if(compiled->winograd.begin(), compiled->winograd.end(), [](const fuse::WinogradChoice& w) { return w.taken; });
    if (f.execution.winograd)
        text += fmt::format("{} of {} convolutions are in Winograd's form here, and none in what it is set against\n", taken, compiled->winograd.size());
    text += fmt::format("fused against unfused: largest difference {:.2g} of the largest value\n", r.fusion_difference);
    return json{{"target", path}, {"passed", r.passed()}, {"kernels", std::move(kernels)}, {"compared", r.compared}, {"wrong", r.wrong},
                {"fusion_difference", r.fusion_difference}, {"winograd", taken}, {"notes", notes}, {"placement", place}};
}

void run(const VerifyFlags& f, Context& c) {
    json all = json::array();
    const auto show = [&](Result<json> r, const std::string& text) {
        if (!r.ok()) return fail(c, r.error(), f.json);
        if (!(*r)["passed"].get<bool>()) c.exit = kFinding;
        if (!f.json) print(wrapped(text, 0, 11));
        all.push_back(std::move(*r));
    };
    if (!f.replay.empty()) {
        std::string text;
        auto r = verify_replay(f, text);
        show(std::move(r), text);
    }
    for (const std::string& target : f.targets) {
        std::string text;
        if (!f.schedule.empty()) {
            auto r = verify_schedule(target, f, text);
            show(std::move(r), text);
            continue;
        }
        if (target == kRandom || target == kRandomModels) {
            auto r = target == kRandom ? verify_random(f, text) : verify_random_models(f, text);
            show(std::move(r), text);
            continue;
        }
        const auto examine = !is_model(target) ? verify_operators : !f.against.empty() ? verify_models : !f.kernel.empty() ? verify_kernel : verify_model;
        auto r = examine(target, f, text);
        show(std::move(r), text);
    }
    if (f.json && !all.empty()) print_json(all.size() == 1 ? all[0] : all);
}
}  // namespace

void add_verify(CLI::App& app, Context& c) {
    auto f = std::make_shared<VerifyFlags>();
    CLI::App* a = app.add_subcommand("verify", "Compare compiled kernels with the reference in 64-bit arithmetic");
    a->add_option("TARGET", f->targets, "files of declarations (.op), operators of the library (\"library\": all of them; \"random\": operators made from seeds), or models (.onnx; \"random-models\": models made from seeds)");
    a->add_option("--op", f->op, "only this operator of the file");
    f->on.add(*a);
    a->add_option("--against", f->against, "somebody else's kernel in place of ours: kernel.py:function (NumPy, PyTorch, Triton) or lib.so:symbol (C); of a model, another model, or onnxruntime");
    a->add_option("--schedule", f->schedule, "of one operator: verify the kernel that this schedule makes; `explain --level schedule --json` prints one")->excludes("--against");
    a->add_option("--time-limit", f->time_limit, "seconds that one call of such a kernel may take")->check(CLI::Range(0.1, 3600.0))->capture_default_str();
    a->add_flag("--cross", f->cross, "also compare ways of running that must agree: threads, fusion, vector units, schedules, cache, targets")->excludes("--schedule");
    a->add_option("--kernel", f->kernel, "of a model: only the kernel of this name, at sizes and values of its own as an operator gets them");
    a->add_option("--count", f->count, "how many random operators or models, from --seed on")->capture_default_str();
    a->add_option("--save", f->save, "file for the smallest failing case, which --replay runs again (default: OPERATOR.replay.json; of a random model: random-model-SEED.onnx; files are never overwritten)");
    a->add_option("--replay", f->replay, "run the case of such a file again");
    a->add_option("--type", f->data.type, "only this float type, in place of all that the declaration allows")
        ->check(CLI::IsMember({"f32", "f64", "f16", "bf16"}));
    f->data.add(*a, false);
    f->execution.add(*a);
    a->add_flag("--json", f->json, "print JSON");
    a->footer("Operators are run at the sizes where kernels go wrong (0, 1, around the vectors, tiles and blocks of "
              "the kernel that was built, primes, huge but thin), on special values, for each element type and layout "
              "of memory. A model's kernels are each compared on the inputs that they met. Where a case fails, it is "
              "made as small as possible and examined. docs/verify.md explains every line of the report.\n"
              "Examples:\n  opwright verify examples/matmul_prelu.op\n  opwright verify softmax conv\n"
              "  opwright verify softmax --target c\n  opwright verify model.onnx --size h=64,w=64\n"
              "  opwright verify softmax.op --against softmax_triton.py:softmax\n"
              "  opwright verify random --count 1000 --seed 7\n"
              "  opwright verify random-models --count 1000 --seed 7\n"
              "  opwright verify --replay softmax.replay.json");
    a->callback([f, &c] {
        if (f->targets.empty() == f->replay.empty()) throw CLI::ValidationError("TARGET", f->targets.empty() ? "is required (or --replay)" : "goes without --replay");
        run(*f, c);
    });
}

}  // namespace opwright::cli
