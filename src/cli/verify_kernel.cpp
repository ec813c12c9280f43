// opwright verify MODEL.onnx --kernel NAME: a fused group with the treatment of an operator.
#include <fmt/format.h>

#include <algorithm>

#include "cli/verify_operator.h"
#include "lang/declaration.h"
#include "runtime/thread_pool.h"

namespace opwright::cli {
using nlohmann::json;

namespace {
std::string name_of(const graph::Node& n) { return n.sources.empty() ? n.program.name : n.sources.back().name; }
}  // namespace

Result<json> verify_kernel(const std::string& path, const VerifyFlags& f, std::string& text) {
    auto pool = f.execution.pool();
    OPW_TRY(auto model, Model::load(path, f.execution.options(), pool));
    std::vector<std::string> notes;
    OPW_TRY(const NamedInputs inputs, model_inputs(*model, f.data, notes));
    OPW_TRY(const auto compiled, model->version(inputs));
    OPW_TRY(const auto arguments, model->arguments(*compiled, inputs));
    std::vector<Shape> shapes;
    for (const Tensor& t : arguments) shapes.push_back(t.shape());
    OPW_TRY(const math::SymValues symbols, compiled->executable->bind(shapes));

    const graph::Graph& g = compiled->executable->graph();
    std::vector<std::string> names;
    const graph::Node* node = nullptr;
    for (const graph::Node& n : g.nodes) {
        if (n.kind == graph::NodeKind::View) continue;
        names.push_back(name_of(n));
        if (names.back() == f.kernel) node = &n;
    }
    if (!node) {
        const std::string near = did_you_mean(f.kernel, names);
        std::string some;
        for (size_t i = 0; i < std::min<size_t>(names.size(), 8); ++i) some += (i ? ", " : "") + names[i];
        return Diagnostic(
            fmt::format("'{}' has no kernel named '{}'.", path, f.kernel), {},
            near.empty() ? fmt::format("It has {} kernels: {}{}.", names.size(), some, names.size() > 8 ? ", ..." : "")
                         : fmt::format("Did you mean '{}'?", near));
    }
    // Everything of a kernel that its declaration can't say stays with the model.
    OPW_TRY(const UnderTest u, under_test(f, lang::Library::standard(), "", pool));
    std::string group;
    for (const graph::SourceOp& s : node->sources) group += (group.empty() ? "" : " + ") + s.type;
    text += fmt::format("kernel {} of {}: {}\n", f.kernel, path, group);
    verify::Report r = verify::check_program(node->program, u.target, {}, symbols);
    r.name = f.kernel;
    text += verify::text(r, u.name);
    json out{{"target", path},     {"kernel", f.kernel},     {"group", group},
             {"on", u.name},       {"passed", r.passed()},   {"cases", r.cases},
             {"failed", r.failed}, {"contract", r.contract}, {"text", r.str()}};
    if (r.failure) {
        verify::Failure x = *r.failure;
        std::string declaration;
        if (const auto d = lang::declaration(*x.program); d.ok()) {
            declaration = *d;
            x.origin = {.op = x.program->name, .symbolic = true};
        }
        out["finding"] = report_failure(x, u, f, declaration, text);
    }
    return out;
}

}  // namespace opwright::cli
