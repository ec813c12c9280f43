// opwright grad, opwright jvp: derivatives of operators, as declarations; gradients of models.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/grad_model.h"
#include "cli/subject.h"
#include "derive/gradient.h"
#include "derive/shape.h"
#include "derive/tangent.h"
#include "lang/declaration.h"
#include "lang/gradient.h"
#include "verify/hand_gradient.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::string op;
    bool save = false;
    ModelGradientFlags model;
};

std::vector<std::string> split(const std::string& names) {
    std::vector<std::string> r;
    for (size_t at = 0; at < names.size();) {
        const size_t end = std::min(names.find(',', at), names.size());
        r.push_back(names.substr(at, end - at));
        at = end + 1;
    }
    return r;
}

// Positions of the inputs of these names.
Result<std::vector<size_t>> positions(const math::Program& p, const std::vector<std::string>& names) {
    std::vector<size_t> r;
    std::vector<std::string> all;
    for (math::TensorId t : p.inputs) all.push_back(p.tensors[t].name);
    for (const std::string& one : names) {
        const auto it = std::find(all.begin(), all.end(), one);
        if (it == all.end())
            return Diagnostic(fmt::format("{} has no input `{}`", p.name, one))
                .with_next(fmt::format("Its inputs are {}.", fmt::join(all, ", ")));
        r.push_back(static_cast<size_t>(it - all.begin()));
    }
    return r;
}

// Sizes and value ranges of the declaration's first example, where it has one that fits.
std::vector<lang::DeclarationExample> first_example(const lang::Library& library, const std::string& name,
                                                    const math::Program& p) {
    const auto examples = library.examples(*library.find(name));
    if (!examples.ok() || examples->empty()) return {};
    const lang::Example& e = examples->front();
    std::vector<Shape> shapes;
    lang::DeclarationExample r;
    for (size_t i = 0; i < e.arguments.size(); ++i) {
        if (!e.arguments[i].present) continue;
        Shape s;
        for (const math::Sym& d : e.arguments[i].shape) s.push_back(d.constant().value_or(0));
        if (i < e.values.size() && e.values[i] && shapes.size() < p.inputs.size())
            r.values[p.tensors[p.inputs[shapes.size()]].name] = *e.values[i];
        shapes.push_back(std::move(s));
    }
    auto sizes = derive::bind_symbols(p, shapes);
    if (!sizes.ok()) return {};
    r.sizes = std::move(*sizes);
    return {std::move(r)};
}

// Declarations to print: of a gradient that saves values the operator that delivers them, and the derivative.
Result<std::vector<math::Program>> derived(const math::Program& p, std::vector<size_t> wrt, bool forward, bool save,
                                           std::string& remarks) {
    if (forward) {
        OPW_TRY(derive::Tangent t, derive::tangent(p, std::move(wrt)));
        return std::vector{std::move(t.program)};
    }
    OPW_TRY(derive::Gradient g, derive::gradient(p, std::move(wrt), {.save = save}));
    const std::string kept = derive::print_kept(g.kept);
    for (size_t at = 0; at < kept.size(); at = kept.find('\n', at) + 1)
        remarks += "# " + kept.substr(at, kept.find('\n', at) - at) + "\n";
    std::vector<math::Program> r;
    if (g.forward.outputs.size() > p.outputs.size()) r.push_back(std::move(g.forward));
    r.push_back(std::move(g.program));
    return r;
}

// The gradient that a declaration gives by hand, where it covers the inputs asked for, once it has been found equal to
// the derived one at the sizes of the first example.
Result<std::optional<math::Program>> by_hand(const lang::Library& library, const std::string& name,
                                             const math::Program& p, const std::vector<size_t>& wrt,
                                             const std::vector<lang::DeclarationExample>& examples) {
    lang::Attributes attributes;
    std::vector<std::optional<lang::ValueRange>> ranges;
    if (const auto all = library.examples(*library.find(name)); all.ok() && !all->empty()) {
        attributes = all->front().attributes;
        for (size_t i = 0; i < all->front().values.size(); ++i)
            if (all->front().arguments[i].present) ranges.push_back(all->front().values[i]);
    }
    OPW_TRY(auto given, lang::given_gradient(library, name, p, attributes));
    if (!given) return std::optional<math::Program>();
    for (size_t i : wrt)
        if (std::find(given->wrt.begin(), given->wrt.end(), i) == given->wrt.end())
            return std::optional<math::Program>();
    if (!examples.empty()) {
        OPW_TRY(const derive::Gradient derived, derive::gradient(p, given->wrt));
        OPW_CHECK(verify::same_gradient(*given, derived, p, examples.front().sizes, ranges));
    }
    return std::optional(std::move(given->program));
}

Status differentiate(const Flags& f, bool forward) {
    OPW_TRY(const Operators ops, load_operators(f.model.target, f.op));
    std::string text;
    for (const std::string& name : ops.names) {
        OPW_TRY(const math::Program p, ops.library->elaborate_symbolic(name));
        OPW_TRY(auto wrt, positions(p, f.model.wrt));
        std::string remarks;
        const auto examples = first_example(*ops.library, name, p);
        if (!forward && !f.save) {
            OPW_TRY(auto given, by_hand(*ops.library, name, p, wrt, examples));
            if (given) {
                const std::string by = given->name;
                given->name = p.name + "_gradient";
                OPW_TRY(const std::string declared, lang::declaration(*given, examples));
                text += fmt::format("# By hand: {}{}.\n{}\n", by,
                                    examples.empty() ? "" : ", equal to the derived gradient at the example's sizes",
                                    declared);
                continue;
            }
        }
        const auto d = derived(p, std::move(wrt), forward, f.save, remarks);
        if (!d.ok() && ops.names.size() == 1) return d.error();
        if (!d.ok()) {
            text += fmt::format("# {}: {}.\n\n", name, d.error().message);
            continue;
        }
        if (!remarks.empty()) text += "# Of the forward pass:\n" + remarks;
        for (const math::Program& one : *d) {
            OPW_TRY(const std::string declared, lang::declaration(one, examples));
            text += declared + "\n";
        }
    }
    text.pop_back();
    print(text);
    return ok_status();
}

void add(CLI::App& app, Context& c, bool forward) {
    auto f = std::make_shared<Flags>();
    auto wrt = std::make_shared<std::string>();
    const std::string command = forward ? "jvp" : "grad";
    CLI::App* a =
        app.add_subcommand(command, forward ? "Print an operator's derivative along a direction as a declaration"
                                            : "Print an operator's gradient as a declaration, or run a model's");
    a->add_option(forward ? "OPERATOR" : "TARGET", f->model.target,
                  fmt::format("a file of declarations (.op), or an operator of the library{}",
                              forward ? "" : ", or a model (.onnx)"))
        ->required();
    a->add_option("--op", f->op, "which operator of the file");
    a->add_option("--wrt", *wrt,
                  "inputs (of a model also initialisers) to differentiate by, as in x,w; all float inputs otherwise");
    if (!forward) {
        a->add_flag("--save", f->save,
                    "of an operator: give its gradient the values of the forward pass that cost more to compute again "
                    "than to keep, and print the operator that delivers them too");
        a->add_option("--output", f->model.output,
                      "of a model: FILE.npz for its gradients, or dNAME=FILE; without it nothing is run");
        f->model.data.add(*a, false);
        f->model.execution.add(*a);
    }
    a->footer(fmt::format(
        "What is printed is a file of declarations: it can be checked, run, verified and differentiated again. "
        "Ranks, dtypes and attributes are those of the operator's first example.\n{1}"
        "Examples:\n  opwright {0} softmax\n  opwright {0} conv --wrt x > conv_{0}.op\n{2}",
        command,
        forward
            ? ""
            : "Remarks say what of the forward pass the gradient reads, and at what cost. Derivatives of a gradient "
              "printed with --save take what it is given for constant.\n"
              "Of a model, prints which values of the forward pass are saved for the backward pass and which are "
              "computed again; cotangents are given as --input dNAME=FILE for an output NAME, and are 1 otherwise.\n",
        forward ? "" : "  opwright grad model.onnx --wrt x,conv1.weight --output gradients.npz\n"));
    a->callback([f, wrt, &c, forward] {
        f->model.wrt = split(*wrt);
        const bool model = !forward && is_model(f->model.target);
        if (const Status s = model ? model_gradient(f->model) : differentiate(*f, forward); !s.ok())
            fail(c, s.error(), false);
    });
}
}  // namespace

void add_grad(CLI::App& app, Context& c) { add(app, c, false); }
void add_jvp(CLI::App& app, Context& c) { add(app, c, true); }

}  // namespace opwright::cli
