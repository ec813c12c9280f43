#include "lang/check.h"

#include <algorithm>

#include <fmt/format.h>

#include "lang/ast.h"
#include "lang/gradient.h"

namespace opwright::lang {

std::vector<Diagnostic> check(SourceRef source) {
    std::vector<Diagnostic> out;
    Library library;
    const std::string name = source->name;
    if (!library.add(std::move(source), &out).ok()) return out;
    const auto report = [&](const Diagnostic& d) {
        const bool known = std::any_of(out.begin(), out.end(), [&](const Diagnostic& o) {
            return o.message == d.message && o.span.begin == d.span.begin;
        });
        if (!known) out.push_back(d);
    };
    for (const OpDecl* d : library.declarations_of(name)) {
        const bool open = std::any_of(d->attributes.begin(), d->attributes.end(),
                                      [](const AttributeDecl& a) { return !a.value && a.kind != AttributeKind::Int; });
        if (open && d->examples.empty()) {
            report(Diagnostic(
                fmt::format("`{}` cannot be checked: it has an attribute without a default and no example.", d->name),
                d->span(d->name_at, d->name_end), "Add a line such as: example x = f32[2,3]; axes = [1]."));
            continue;
        }
        auto examples = library.examples(*d);
        if (!examples.ok()) {
            report(examples.error());
            continue;
        }
        bool good = true;
        for (const Example& x : *examples)
            if (auto p = library.elaborate(d->name, x.arguments, x.attributes); !p.ok()) {
                good = false;
                Diagnostic e = p.error();
                report(e.with_note("in this example", x.span));
            }
        if (good && !examples->empty() && !d->gradient.empty()) {
            const Example& x = examples->front();
            const auto p = library.elaborate(d->name, x.arguments, x.attributes);
            if (const auto g = given_gradient(library, d->name, *p, x.attributes); !g.ok()) {
                report(g.error());
                good = false;
            }
        }
        if (!good) continue;
        if (auto p = library.elaborate_symbolic(d->name); !p.ok()) report(p.error());
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const Diagnostic& a, const Diagnostic& b) { return a.span.begin < b.span.begin; });
    return out;
}

}  // namespace opwright::lang
