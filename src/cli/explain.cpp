// opwright explain: what is derived from a declaration, and every level on the way to machine code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/subject.h"
#include "explain/operator_report.h"
#include "explain/units.h"
#include "runtime/thread_pool.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::string target, op, level, node;
    DataFlags data;
    ExecutionFlags execution;
    bool json = false;
};

CompileOptions options_of(const Flags& f) {
    CompileOptions o = f.execution.options();
    o.execution.keep_text = true;
    o.execution.cpu.cache = false;  // texts are made by compiling
    return o;
}

// The kernels' text at a level, each under its operators.
std::string level_text(const Compiled& c, const std::string& level, const std::string& node) {
    const graph::Graph& g = c.executable->graph();
    std::string r;
    for (graph::NodeId n = 0; n < g.nodes.size(); ++n) {
        const auto* k = c.executable->kernel(n);
        if (!k) continue;
        std::string sources;
        bool wanted = node.empty();
        for (const graph::SourceOp& s : g.nodes[n].sources) {
            sources += (sources.empty() ? "" : ", ") + s.name + (s.type == s.name ? "" : " (" + s.type + ")");
            wanted = wanted || s.name == node;
        }
        if (!wanted) continue;
        const std::string text = level == "math" ? g.nodes[n].program.print() : k->text(level);
        r += fmt::format("# {}\n{}{}\n", sources, text, text.empty() || text.back() != '\n' ? "\n" : "");
    }
    return r;
}

std::string decisions_text(const Compiled& c) {
    std::string r;
    size_t taken = 0;
    for (const fuse::Decision& d : c.decisions) taken += d.taken;
    r += fmt::format("\nfusion: {} candidates, {} taken\n", c.decisions.size(), taken);
    for (const fuse::Decision& d : c.decisions)
        r += fmt::format("    {} {} -> {}: {} ({} bytes)\n", d.taken ? "fused" : "kept ", d.producer, d.consumer, d.reason, d.bytes.str());
    return r;
}

nlohmann::json decisions_json(const Compiled& c) {
    nlohmann::json j = nlohmann::json::array();
    for (const fuse::Decision& d : c.decisions)
        j.push_back({{"producer", d.producer}, {"consumer", d.consumer}, {"value", d.value}, {"taken", d.taken}, {"bytes", d.bytes.str()}, {"reason", d.reason}});
    return j;
}

Status explain_model(const Flags& f) {
    OPW_TRY(auto model, Model::load(f.target, options_of(f), f.execution.pool()));
    std::shared_ptr<const Compiled> compiled;
    OPW_TRY(const bool complete, model->prepare());
    std::vector<std::string> notes;
    NamedInputs inputs;
    if (!complete) {
        OPW_TRY(inputs, model_inputs(*model, f.data, notes));
    }
    OPW_TRY(compiled, model->version(inputs));
    const std::string level = f.level.empty() ? "graph" : f.level;
    std::string text = level == "graph" ? wrapped(graph::print(compiled->executable->graph()) + decisions_text(*compiled)) : level_text(*compiled, level, f.node);
    if (text.empty())
        return Diagnostic(fmt::format("The model has no kernel for an operator named '{}'.", f.node)).with_next("`opwright explain MODEL --level graph` lists the operators behind each kernel.");
    if (f.json) print_json({{"target", f.target}, {"level", level}, {"text", text}, {"fusion", decisions_json(*compiled)}});
    else print(text);
    return ok_status();
}

Status explain_operator(const Flags& f) {
    OPW_TRY(const Operators operators, load_operators(f.target, f.op));
    if (f.level.empty()) {
        nlohmann::json all = nlohmann::json::array();
        for (const std::string& n : operators.names) {
            auto r = explain::report(*operators.library, n);
            if (!r.ok()) {
                // Without values for its attributes or ranks there is no symbolic form; its first example has one.
                OPW_TRY(const auto examples, operators.library->examples(*operators.library->find(n)));
                if (examples.empty()) return r.error();
                OPW_TRY(const math::Program p, operators.library->elaborate(n, examples[0].arguments, examples[0].attributes));
                r = explain::report(*operators.library, n, p);
            }
            if (f.json) all.push_back(explain::to_json(*r));
            else print((&n == &operators.names.front() ? "" : "\n") + explain::to_text(*r));
        }
        if (f.json) print_json(all.size() == 1 ? all[0] : all);
        return ok_status();
    }
    OPW_TRY(const auto op, load_operator(f.target, f.op));
    OPW_TRY(const Call call, operator_call(op.first, op.second, f.data, options_of(f), f.execution.pool()));
    OPW_TRY(const auto version, call.op->version(call.inputs));
    const std::string text = f.level == "graph" ? wrapped(graph::print(version.compiled->executable->graph())) : level_text(*version.compiled, f.level, "");
    if (f.json) print_json({{"target", f.target}, {"level", f.level}, {"text", text}});
    else print(text);
    return ok_status();
}

void run(const Flags& f, Context& c) {
    Status s = is_model(f.target) ? explain_model(f) : explain_operator(f);
    if (!s.ok()) fail(c, s.error(), f.json);
}
}  // namespace

void add_explain(CLI::App& app, Context& c) {
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("explain", "Show what is derived from a declaration or a model, down to machine code");
    a->add_option("TARGET", f->target, "a file of declarations (.op), an operator of the library, or a model (.onnx)")->required();
    a->add_option("--op", f->op, "which operator of the file");
    a->add_option("--level", f->level, "show this level instead of the summary")
        ->check(CLI::IsMember({"math", "graph", "schedule", "tile", "loop", "llvm", "asm"}));
    a->add_option("--node", f->node, "of a model: only the kernel that computes this operator");
    f->data.add(*a);
    f->execution.add(*a);
    a->add_flag("--json", f->json, "print JSON");
    a->footer("Examples:\n  opwright explain examples/matmul_prelu.op\n  opwright explain softmax --level loop\n"
              "  opwright explain model.onnx --level graph\n  opwright explain model.onnx --level asm --node Conv_12");
    a->callback([f, &c] { run(*f, c); });
}

}  // namespace opwright::cli
