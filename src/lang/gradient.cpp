#include "lang/gradient.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/ast.h"

namespace opwright::lang {
namespace {
std::optional<size_t> named(const math::Program& p, const std::vector<math::TensorId>& ts, const std::string& name) {
    for (size_t i = 0; i < ts.size(); ++i)
        if (p.tensors[ts[i]].name == name) return i;
    return std::nullopt;
}
}  // namespace

Result<std::optional<GivenGradient>> given_gradient(const Library& l, const std::string& op, const math::Program& p,
                                                    const Attributes& attributes) {
    const OpDecl& d = *l.find(op);
    if (d.gradient.empty()) return std::optional<GivenGradient>();
    const Span here = d.span(d.gradient_at, d.gradient_end);
    const OpDecl* g = l.find(d.gradient);
    if (!g)
        return Diagnostic(fmt::format("There is no operator `{}` to compute the gradient of `{}`.", d.gradient, op),
                          here, "Declare it in the same file, or leave the line out: then the gradient is derived.");
    std::vector<Argument> arguments;
    for (const Parameter& q : l.parameters(*g)) {
        const auto input = named(p, p.inputs, q.name);
        const auto output = q.name.starts_with("d") ? named(p, p.outputs, q.name.substr(1)) : std::nullopt;
        if (!input && !output && !q.optional)
            return Diagnostic(
                fmt::format("`{}` has the parameter `{}`, which is neither a parameter of `{}` nor d and the "
                            "name of one of its outputs.",
                            g->name, q.name, op),
                here, "A gradient reads what the operator reads, and the cotangent dy of an output y.");
        if (!input && !output) {
            arguments.push_back({.present = false});
            continue;
        }
        const math::TensorInfo& t = p.tensors[input ? p.inputs[*input] : p.outputs[*output]];
        arguments.push_back({t.dtype, t.shape});
    }
    Attributes own;
    for (const std::string& a : l.attribute_names(*g))
        if (const auto it = attributes.find(a); it != attributes.end()) own.insert(*it);
    auto program = l.elaborate(g->name, arguments, own);
    if (!program.ok()) return Diagnostic(program.error()).with_note(fmt::format("as the gradient of `{}`", op), here);
    GivenGradient r{g->name, std::move(*program), {}, {}};
    for (math::TensorId t : r.program.inputs) {
        const std::string& name = r.program.tensors[t].name;
        if (const auto input = named(p, p.inputs, name))
            r.inputs.push_back({false, *input});
        else
            r.inputs.push_back({true, *named(p, p.outputs, name.substr(1))});
    }
    for (math::TensorId t : r.program.outputs) {
        const math::TensorInfo& out = r.program.tensors[t];
        const auto by = out.name.starts_with("d") ? named(p, p.inputs, out.name.substr(1)) : std::nullopt;
        if (!by)
            return Diagnostic(
                fmt::format("`{}` has the output `{}`, which is not d and the name of a parameter of `{}`.", g->name,
                            out.name, op),
                here, "The gradient by x is the output dx.");
        const math::TensorInfo& in = p.tensors[p.inputs[*by]];
        if (in.dtype != out.dtype || in.shape.size() != out.shape.size())
            return Diagnostic(
                fmt::format("`{}` delivers `{}` as {} of rank {}, but `{}` is {} of rank {}.", g->name, out.name,
                            name(out.dtype), out.shape.size(), in.name, name(in.dtype), in.shape.size()),
                here, "A gradient has the type and the shape of what it is taken by.");
        r.wrt.push_back(*by);
    }
    return std::optional(std::move(r));
}

}  // namespace opwright::lang
