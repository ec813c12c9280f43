// opwright check: whether a declaration or a model can be used, and everything that stands against it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/subject.h"
#include "derive/shape.h"
#include "graph/onnx/import.h"
#include "io/file.h"
#include "lang/check.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::vector<std::string> targets;
    std::string op;
    bool json = false;
};

using nlohmann::json;

json diagnostic_json(const Diagnostic& d) { return {{"message", d.message}, {"text", render(d)}}; }

// One operator: its symbolic form where it has one, and each of its examples.
json check_operator(const lang::Library& l, const std::string& name, std::vector<Diagnostic>& errors) {
    json j{{"name", name}};
    const lang::OpDecl& d = *l.find(name);
    const size_t before = errors.size();
    auto examples = l.examples(d);
    if (!examples.ok()) {
        errors.push_back(examples.error());
    } else {
        j["examples"] = examples->size();
        for (const lang::Example& e : *examples) {
            auto p = l.elaborate(name, e.arguments, e.attributes);
            if (!p.ok()) errors.push_back(p.error());
        }
    }
    auto p = l.elaborate_symbolic(name);
    if (p.ok()) j["shape_rule"] = derive::print_shape_rule(*p);
    else if (examples.ok() && examples->empty()) errors.push_back(p.error());  // nothing shows that it can be used
    j["ok"] = errors.size() == before;
    return j;
}

// Says all that can be said of a file of declarations.
bool declarations_ok(const std::string& path, std::vector<Diagnostic>& errors) {
    auto text = io::read_file(path, 1 << 24);
    if (!text.ok()) {
        errors.push_back(text.error());
        return false;
    }
    errors = lang::check(std::make_shared<const Source>(Source{path, std::move(*text)}));
    return errors.empty();
}

json check_model(const std::string& path, std::vector<Diagnostic>& errors) {
    json j;
    auto model = graph::onnx::parse_file(path);
    if (!model.ok()) {
        errors.push_back(model.error());
        return j;
    }
    const auto values = [](const std::vector<graph::onnx::ModelValue>& vs) {
        json a = json::array();
        for (const auto& v : vs) {
            json shape = json::array();
            for (const math::Sym& s : v.shape) {
                if (s.is_const()) shape.push_back(*s.constant());
                else shape.push_back(s.str());
            }
            a.push_back({{"name", v.name}, {"dtype", v.unsupported.empty() ? std::string(name(v.dtype)) : v.unsupported},
                         {"shape", v.has_rank ? std::move(shape) : json()}});
        }
        return a;
    };
    j["inputs"] = values(graph::onnx::model_inputs(**model));
    j["outputs"] = values(graph::onnx::model_outputs(**model));
    auto imported = graph::onnx::import(**model, {});
    if (auto* g = std::get_if<graph::Graph>(&imported)) {
        j["kernels"] = g->nodes.size();
        return j;
    }
    auto& f = std::get<graph::onnx::ImportFailure>(imported);
    j["unsupported"] = json::array();
    for (const auto& u : f.unsupported) j["unsupported"].push_back({{"node", u.node}, {"operator", u.op_type}, {"reason", u.reason}});
    j["needs_value"] = f.needs_value;
    j["needs_shape"] = f.needs_shape;
    // Values and shapes that only a run brings are no fault of the model.
    if (f.malformed || !f.unsupported.empty() || (f.needs_value.empty() && f.needs_shape.empty())) errors.push_back(f.diagnostic);
    return j;
}

std::string value_text(const json& v) {
    std::string s;
    if (v["shape"].is_null()) return v["name"].get<std::string>() + ": " + v["dtype"].get<std::string>() + " of any rank";
    for (const json& d : v["shape"]) s += (s.empty() ? "" : ", ") + (d.is_string() ? d.get<std::string>() : d.dump());
    return v["name"].get<std::string>() + ": " + v["dtype"].get<std::string>() + "[" + s + "]";
}

void run(const Flags& f, Context& c) {
    json all = json::array();
    for (const std::string& target : f.targets) {
        std::vector<Diagnostic> errors;
        json j{{"target", target}};
        std::string text;
        if (is_model(target)) {
            j.update(check_model(target, errors));
            if (errors.empty()) {
                text = target + ": a model that can be imported\n";
                for (const json& v : j["inputs"]) text += "    input  " + value_text(v) + "\n";
                for (const json& v : j["outputs"]) text += "    output " + value_text(v) + "\n";
                if (j.contains("needs_value") && !j["needs_value"].empty()) text += "    its structure depends on the values of some inputs; it is compiled when they are given\n";
            }
        } else if (is_file(target) && !declarations_ok(target, errors)) {
            // Every error of the file, at once.
        } else if (auto operators = load_operators(target, f.op); operators.ok()) {
            j["operators"] = json::array();
            for (const std::string& n : operators->names) {
                json o = check_operator(*operators->library, n, errors);
                if (o["ok"].get<bool>())
                    text += fmt::format("{}: ok, {} example{}  {}\n", n, o["examples"].get<size_t>(), o["examples"].get<size_t>() == 1 ? "" : "s",
                                        o.value("shape_rule", ""));
                j["operators"].push_back(std::move(o));
            }
        } else {
            errors.push_back(operators.error());
        }
        j["ok"] = errors.empty();
        j["errors"] = json::array();
        for (const Diagnostic& d : errors) j["errors"].push_back(diagnostic_json(d));
        if (!f.json) print(wrapped(text));
        for (const Diagnostic& d : errors) {
            c.exit = kFinding;
            if (!f.json) std::fprintf(stderr, "%s\n", render(d, colour()).c_str());
        }
        all.push_back(std::move(j));
    }
    if (f.json) print_json(f.targets.size() == 1 ? all[0] : all);
}
}  // namespace

void add_check(CLI::App& app, Context& c) {
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("check", "Tell whether declarations or models can be used, and all that stands against it");
    a->add_option("TARGET", f->targets, "files of declarations (.op), models (.onnx), or operators of the library")->required();
    a->add_option("--op", f->op, "only this operator of the file");
    a->add_flag("--json", f->json, "print JSON");
    a->footer("Examples:\n  opwright check examples/matmul_prelu.op\n  opwright check model.onnx --json\n  opwright check softmax");
    a->callback([f, &c] { run(*f, c); });
}

}  // namespace opwright::cli
