// opwright grad, opwright jvp: derivatives of operators, as declarations.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/subject.h"
#include "derive/gradient.h"
#include "derive/shape.h"
#include "derive/tangent.h"
#include "lang/declaration.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::string target, op, wrt;
};

// Positions of the inputs named in "x,w".
Result<std::vector<size_t>> positions(const math::Program& p, const std::string& names) {
    std::vector<size_t> r;
    std::vector<std::string> all;
    for (math::TensorId t : p.inputs) all.push_back(p.tensors[t].name);
    size_t at = 0;
    while (at < names.size()) {
        const size_t end = std::min(names.find(',', at), names.size());
        const std::string one = names.substr(at, end - at);
        const auto it = std::find(all.begin(), all.end(), one);
        if (it == all.end())
            return Diagnostic(fmt::format("{} has no input `{}`", p.name, one))
                .with_next(fmt::format("Its inputs are {}.", fmt::join(all, ", ")));
        r.push_back(static_cast<size_t>(it - all.begin()));
        at = end + 1;
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

Result<math::Program> derived(const math::Program& p, std::vector<size_t> wrt, bool forward) {
    if (forward) {
        OPW_TRY(derive::Tangent t, derive::tangent(p, std::move(wrt)));
        return std::move(t.program);
    }
    OPW_TRY(derive::Gradient g, derive::gradient(p, std::move(wrt)));
    return std::move(g.program);
}

Status differentiate(const Flags& f, bool forward) {
    OPW_TRY(const Operators ops, load_operators(f.target, f.op));
    std::string text;
    for (const std::string& name : ops.names) {
        OPW_TRY(const math::Program p, ops.library->elaborate_symbolic(name));
        OPW_TRY(auto wrt, positions(p, f.wrt));
        const auto d = derived(p, std::move(wrt), forward);
        if (!d.ok() && ops.names.size() == 1) return d.error();
        if (!d.ok()) {
            text += fmt::format("# {}: {}.\n\n", name, d.error().message);
            continue;
        }
        OPW_TRY(const std::string one, lang::declaration(*d, first_example(*ops.library, name, p)));
        text += one + "\n";
    }
    text.pop_back();
    print(text);
    return ok_status();
}

void add(CLI::App& app, Context& c, bool forward) {
    auto f = std::make_shared<Flags>();
    CLI::App* a = forward
                      ? app.add_subcommand("jvp", "Print an operator's derivative along a direction as a declaration")
                      : app.add_subcommand("grad", "Print an operator's gradient as a declaration");
    a->add_option("OPERATOR", f->target, "a file of declarations (.op), or an operator of the library")->required();
    a->add_option("--op", f->op, "which operator of the file");
    a->add_option("--wrt", f->wrt, "inputs to differentiate by, as in x,w; all of a float type otherwise");
    const std::string command = forward ? "jvp" : "grad";
    a->footer(fmt::format(
        "What is printed is a file of declarations: it can be checked, run, verified and differentiated again.\n"
        "Ranks, dtypes and attributes are those of the operator's first example.\n"
        "Examples:\n  opwright {0} softmax\n  opwright {0} conv --wrt x > conv_{0}.op\n",
        command));
    a->callback([f, &c, forward] {
        if (const Status s = differentiate(*f, forward); !s.ok()) fail(c, s.error(), false);
    });
}
}  // namespace

void add_grad(CLI::App& app, Context& c) { add(app, c, false); }
void add_jvp(CLI::App& app, Context& c) { add(app, c, true); }

}  // namespace opwright::cli
