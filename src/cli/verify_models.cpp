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
    CompileOptions plain = fused, exact = fused;
    plain.fuse = false;
    exact.execution.engine = runtime::Engine::Reference;
    OPW_TRY(const auto model, load(path, fused));
    OPW_TRY(const auto unfused, load(path, plain));
    OPW_TRY(const auto reference, load(path, exact));
    std::vector<std::string> notes, names;
    OPW_TRY(const NamedInputs inputs, model_inputs(*model, f.data, notes));
    for (const auto& v : model->outputs()) names.push_back(v.name);
    verify::ModelRun other = verify::onnx_runtime(path, f.time_limit * 4);
    if (f.against != runtime) {
        OPW_TRY(const auto second, load(f.against, fused));
        other = run(second);
    }
    OPW_TRY(const verify::ModelComparison r,
            verify::compare_runs(names, inputs, run(model), other, run(reference), {run(unfused)}));
    for (const std::string& n : notes) text += "input " + n + "\n";
    text += fmt::format("{} against {}: {}\n", path, f.against, r.passed() ? "they agree" : "they DIFFER");
    json outputs = json::array();
    for (const verify::OutputComparison& o : r.outputs) {
        text += o.note.empty() ? fmt::format(
                                     "  {}: {}; they differ by {:.2g} (at {}); error against fp64 {:.2g} and {:.2g}; "
                                     "allowed {:.2g}, {:g} "
                                     "times what fusion, the order of sums and half an ulp of the inputs move it by; "
                                     "largest value {:.3g}\n",
                                     o.name, o.verdict, o.difference, to_string(o.where), o.error, o.other_error,
                                     verify::kNoiseFactor * o.noise, verify::kNoiseFactor, o.largest)
                               : fmt::format("  {}: {}; {}\n", o.name, o.verdict, o.note);
        outputs.push_back({{"name", o.name},
                           {"verdict", o.verdict},
                           {"difference", o.difference},
                           {"error", o.error},
                           {"other_error", o.other_error},
                           {"noise", o.noise},
                           {"largest", o.largest},
                           {"note", o.note}});
    }
    return json{
        {"target", path}, {"against", f.against}, {"passed", r.passed()}, {"outputs", outputs}, {"notes", notes}};
}

}  // namespace opwright::cli
