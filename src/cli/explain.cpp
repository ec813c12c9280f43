// opwright explain: what is derived from a declaration, and every level on the way to machine code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/schedule_file.h"
#include "cli/subject.h"
#include "explain/fusion_report.h"
#include "explain/operator_report.h"
#include "explain/units.h"
#include "io/file.h"
#include "runtime/thread_pool.h"
#include "target/target.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::string target, op, level, node, why, on = "cpu", schedule;
    DataFlags data;
    ExecutionFlags execution;
    size_t rows = 25;
    bool json = false, fusion = false;
};

CompileOptions options_of(const Flags& f) {
    CompileOptions o = f.execution.options();
    o.execution.keep_text = true;
    o.execution.cpu.cache = false;  // texts are made by compiling
    return o;
}

// A kernel's schedule or tile program on another target, or its source there.
Result<std::string> on_target(const target::Target& on, const math::Program& p, const std::string& level) {
    if (level == "schedule" || level == "tile") return on.level(p, level, {});
    OPW_TRY(const target::Emission e, on.emit(p, {}));
    return e.files.front().text;
}

// The kernels' text at a level, each under its operators; on target `on`, where it is not null.
std::string level_text(const Compiled& c, const std::string& level, const std::string& node, const target::Target* on = nullptr) {
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
        std::string text;
        if (level == "math") {
            text = g.nodes[n].program.print();
        } else if (on) {
            const auto there = on_target(*on, g.nodes[n].program, level);
            text = there.ok() ? *there : fmt::format("refused by target {}: {}\n", on->name(), there.error().message);
        } else {
            text = k->text(level);
        }
        r += fmt::format("# {}\n{}{}\n", sources, text, text.empty() || text.back() != '\n' ? "\n" : "");
    }
    return r;
}

Status explain_model(const Flags& f) {
    if (!f.schedule.empty()) { OPW_CHECK(read_schedule(f.schedule, f.target)); }
    CompileOptions options = options_of(f);
    OPW_TRY(options.fusion.sizes, parse_sizes(f.data.size));
    OPW_TRY(auto model, Model::load(f.target, options, f.execution.pool()));
    std::shared_ptr<const Compiled> compiled;
    OPW_TRY(const bool complete, model->prepare());
    std::vector<std::string> notes;
    NamedInputs inputs;
    if (!complete) {
        OPW_TRY(inputs, model_inputs(*model, f.data, notes));
    }
    OPW_TRY(compiled, model->version(inputs));
    if (!f.why.empty()) {
        OPW_TRY(const std::string text, explain::why_fused(*compiled, f.why));
        if (f.json) print_json({{"target", f.target}, {"node", f.why}, {"text", text}});
        else print(text);
        return ok_status();
    }
    if (f.fusion) {
        if (f.json) print_json({{"target", f.target}, {"fusion", explain::fusion_json(*compiled)}});
        else print(explain::fusion_text(*compiled, f.rows));
        return ok_status();
    }
    const std::string level = f.level.empty() ? "graph" : f.level;
    const target::Target* on = nullptr;
    if (const bool emitted = target::find_target(level).ok(); emitted || f.on != "cpu") {
        OPW_TRY(on, target::find_target(emitted ? level : f.on));
        if (!emitted && level != "schedule" && level != "tile" && level != "math" && level != "graph")
            return Diagnostic(fmt::format("Target {} has no level \"{}\".", on->name(), level), {}, fmt::format("It has math, schedule, tile and {}.", on->name()));
    }
    std::string node = f.node;
    if (!node.empty()) {
        OPW_TRY(node, explain::operator_named(*compiled, f.node));
    }
    std::string text = level == "graph" ? wrapped(graph::print(compiled->executable->graph())) + "\n" + explain::fusion_text(*compiled, f.rows)
                                        : level_text(*compiled, level, node, on);
    if (text.empty() && !node.empty())
        return Diagnostic(fmt::format("No kernel is run for '{}': its result is a constant, or another shape of the same data.", node))
            .with_next("`opwright explain MODEL --level graph` lists the operators behind each kernel.");
    if (f.json) print_json({{"target", f.target}, {"level", level}, {"text", text}, {"fusion", explain::fusion_json(*compiled)["candidates"]}});
    else print(text);
    return ok_status();
}

Status print_schedule(const Flags& f, const std::string& json, const std::string& text) {
    // Ordered: the schedule's fields stand as people read them.
    const auto schedule = nlohmann::ordered_json::parse(json);
    const nlohmann::ordered_json all{{"target", f.target}, {"level", f.level}, {"text", text}, {"schedule", schedule}};
    print(all.dump(2) + "\n");
    return ok_status();
}

// A level of a target that emits source, or its source.
Status explain_on(const target::Target& on, const math::Program& p, const Flags& f, const std::string& schedule) {
    target::EmitOptions o;
    o.schedule = schedule;
    std::string text;
    if (f.level == "schedule" || f.level == "tile") {
        OPW_TRY(text, on.level(p, f.level, o));
    } else if (f.level == on.name()) {
        OPW_TRY(const target::Emission e, on.emit(p, o));
        text = e.files.front().text;
    } else if (f.level == "math") {
        text = p.print();
    } else {
        return Diagnostic(fmt::format("Target {} has no level \"{}\".", on.name(), f.level), {},
                          fmt::format("It has math, schedule, tile and {}.", on.name()));
    }
    if (f.level == "schedule" && f.json) {
        OPW_TRY(const std::string json, on.level(p, "schedule-json", o));
        return print_schedule(f, json, text);
    }
    if (f.json) print_json({{"target", f.target}, {"level", f.level}, {"text", text}});
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
    CompileOptions options = options_of(f);
    if (!f.schedule.empty()) {
        OPW_TRY(options.execution.cpu.schedule, read_schedule(f.schedule, f.target));
    }
    const bool emitted = target::find_target(f.level).ok();
    if (emitted || f.on != "cpu") {
        OPW_TRY(const target::Target* on, target::find_target(emitted ? f.level : f.on));
        OPW_TRY(const math::Program p, operator_program(op.first, op.second, f.data));
        return explain_on(*on, p, f, options.execution.cpu.schedule);
    }
    OPW_TRY(const Call call, operator_call(op.first, op.second, f.data, options, f.execution.pool()));
    OPW_TRY(const auto version, call.op->version(call.inputs));
    if (f.level == "schedule" && f.json) {
        const std::string json = level_text(*version.compiled, "schedule-json", "");
        return print_schedule(f, json.substr(json.find('{')), level_text(*version.compiled, f.level, ""));
    }
    const std::string text = f.level == "graph" ? wrapped(graph::print(version.compiled->executable->graph())) : level_text(*version.compiled, f.level, "");
    if (f.json) print_json({{"target", f.target}, {"level", f.level}, {"text", text}});
    else print(text);
    return ok_status();
}

Status explained(const Flags& f) {
    if (is_model(f.target)) return explain_model(f);
    if (f.fusion || !f.why.empty() || !f.node.empty())
        return Diagnostic(fmt::format("{} is for a model, and '{}' is an operator: one kernel, which nothing is fused with.",
                                      f.fusion ? "--fusion" : f.why.empty() ? "--node" : "--why", f.target))
            .with_next(fmt::format("`opwright explain {} --level schedule` shows how its equations share loops.", f.target));
    return explain_operator(f);
}

void run(const Flags& f, Context& c) {
    Status s = explained(f);
    if (!s.ok()) fail(c, s.error(), f.json);
}
}  // namespace

void add_explain(CLI::App& app, Context& c) {
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("explain", "Show what is derived from a declaration or a model, down to machine code");
    a->add_option("TARGET", f->target, "a file of declarations (.op), an operator of the library, or a model (.onnx)")->required();
    a->add_option("--op", f->op, "which operator of the file");
    std::vector<std::string> levels{"math", "graph", "schedule", "tile", "loop", "llvm", "asm"}, targets{"cpu"};
    for (const target::Target* t : target::targets()) {
        levels.emplace_back(t->name());
        targets.emplace_back(t->name());
    }
    a->add_option("--level", f->level, "show this level instead of the summary")->check(CLI::IsMember(levels));
    a->add_option("--target", f->on, "whose schedule and tile program")->check(CLI::IsMember(targets))->capture_default_str();
    a->add_option("--schedule", f->schedule, "use this schedule, which `--level schedule --json` prints");
    a->add_option("--node", f->node, "of a model: only the kernel that computes this operator");
    a->add_flag("--fusion", f->fusion, "of a model: every candidate for fusion, taken or refused, with its figures");
    a->add_option("--why", f->why, "of a model: what shares a kernel with this operator, and why its neighbours do not");
    a->add_option("--rows", f->rows, "rows of each table of candidates; 0 = all")->capture_default_str();
    f->data.add(*a);
    f->execution.add(*a);
    a->add_flag("--json", f->json, "print JSON");
    a->footer("Examples:\n  opwright explain examples/matmul_prelu.op\n  opwright explain softmax --level loop\n"
              "  opwright explain model.onnx --level graph\n  opwright explain model.onnx --level asm --node Conv_12\n"
              "  opwright explain model.onnx --fusion --size h=640,w=640\n  opwright explain model.onnx --why Conv_12");
    a->callback([f, &c] { run(*f, c); });
}

}  // namespace opwright::cli
