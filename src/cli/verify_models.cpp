// opwright verify MODEL.onnx --against OTHER.onnx | onnxruntime.
#include <fmt/format.h>

#include "cli/verify_operator.h"
#include "runtime/thread_pool.h"
#include "verify/model_against.h"

namespace opwright::cli {
using nlohmann::json;

Result<json> verify_models(const std::string& path, const VerifyFlags& f, std::string& text) {
    const std::string runtime = "onnxruntime";
    if (f.against != runtime && !is_model(f.against))
        return Diagnostic(fmt::format("A model is not compared with '{}'.", f.against), {},
                          "Name another model (--against other.onnx), or --against onnxruntime.");
    auto pool = f.execution.pool();
    const auto load = [&](const std::string& file, const CompileOptions& o) { return Model::load(file, o, pool); };
    const auto run = [](std::shared_ptr<Model> m) -> verify::ModelRun {
        return [m](const NamedInputs& inputs) { return m->run(inputs); };
    };
    const CompileOptions fused = f.execution.options();
    CompileOptions plain = fused;
    plain.fuse = false;
    OPW_TRY(const auto model, load(path, fused));
    std::vector<std::string> notes, names;
    OPW_TRY(const NamedInputs inputs, model_inputs(*model, f.data, notes));
    if (fused.winograd.use) {  // what is in Winograd's form may err as that does, and nothing else
        OPW_TRY(const auto version, model->version(inputs));
        for (const fuse::WinogradChoice& w : version->winograd)
            if (w.taken) plain.winograd.at[w.node] = w.tile;
        plain.winograd.use = !plain.winograd.at.empty();
    }
    OPW_TRY(const auto unfused, load(path, plain));
    for (const auto& v : model->outputs()) names.push_back(v.name);
    verify::ModelRun other = verify::onnx_runtime(path, f.time_limit * 4);
    if (f.against != runtime) {
        OPW_TRY(const auto second, load(f.against, fused));
        other = run(second);
    }
    OPW_TRY(const verify::ModelComparison r,
            verify::compare_runs(names, verify::value_sets(inputs, f.data.input.empty() ? "random" : "given", f.data.seed),
                                 run(model), other, verify::noise_of(unfused, f.data.seed)));
    for (const std::string& n : notes) text += "input " + n + "\n";
    text += fmt::format("{} against {}: {}\n", path, f.against, r.passed() ? "they agree" : "they DIFFER");
    text += fmt::format("  {:<11}{}\n", "values", fmt::join(r.sets, ", "));
    text += fmt::format("  {:<11}twice what an output moves where each kernel of the model errs by its own bound, by {} "
                        "runs for each value set\n",
                        "tolerance", verify::kNoiseRuns);
    json outputs = json::array();
    for (const verify::OutputComparison& o : r.outputs) {
        std::string line = fmt::format("{}: {}", o.name, o.verdict);
        if (o.difference > 0)
            line += fmt::format("; they differ by {:.2g} at {} ({} values), where {:.2g} is allowed", o.difference,
                                to_string(o.where), o.set, o.allowed);
        if (o.largest > 0)
            line += fmt::format("; error against fp64 {:.2g} and {:.2g}, largest value {:.3g}", o.error, o.other_error,
                                o.largest);
        if (!o.note.empty()) line += "; " + o.note;
        text += fmt::format("  {:<11}{}\n", "output", line);
        outputs.push_back({{"name", o.name},
                           {"verdict", o.verdict},
                           {"difference", o.difference},
                           {"allowed", o.allowed},
                           {"share", o.share},
                           {"values", o.set},
                           {"error", o.error},
                           {"other_error", o.other_error},
                           {"largest", o.largest},
                           {"note", o.note}});
    }
    return json{
        {"target", path},     {"against", f.against}, {"passed", r.passed()},
        {"outputs", outputs}, {"values", r.sets},     {"notes", notes}};
}

}  // namespace opwright::cli
