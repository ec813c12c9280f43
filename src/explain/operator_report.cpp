#include "explain/operator_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "derive/batch.h"
#include "derive/cost.h"
#include "derive/gradient.h"
#include "derive/halo.h"
#include "derive/shape.h"
#include "derive/sharding.h"

namespace opwright::explain {

OperatorReport report(const lang::Library& l, const std::string& name, const math::Program& p) {
    OperatorReport r;
    r.name = name;
    if (const lang::OpDecl* d = l.find(name)) {
        r.doc = l.doc(*d);
        r.file = l.file(*d);
        r.source = l.source_text(*d);
        for (const lang::Parameter& q : l.parameters(*d)) r.parameters.push_back(q.name + (q.optional ? "?" : ""));
        r.attributes = l.attribute_names(*d);
    }
    r.shape_rule = derive::print_shape_rule(p);
    for (const math::Requirement& q : p.requirements) r.requirements.push_back(q.message);
    const derive::Cost c = derive::cost(p);
    r.cost = derive::print_cost(p, c);
    r.flops = c.flops().str();
    r.bytes = c.bytes().str();
    r.sharding = derive::print_shardings(p);
    r.halos = derive::print_halos(p);
    if (const auto g = derive::gradient(p, {}, {.save = true}); g.ok())
        r.kept = g->kept.empty() ? "nothing\n" : derive::print_kept(g->kept);
    if (!p.inputs.empty())
        r.batching = derive::print_shape_rule(
            derive::batch(p, std::vector<bool>(p.inputs.size(), true), math::Sym::symbol("batch")));
    r.equations = p.print();
    r.symbols = p.symbols();
    return r;
}

Result<OperatorReport> report(const lang::Library& l, const std::string& name) {
    if (!l.find(name)) {
        Diagnostic d(fmt::format("There is no operator named '{}'.", name));
        if (const std::string near = did_you_mean(name, l.names()); !near.empty())
            d.with_next(fmt::format("Did you mean '{}'?", near));
        return d;
    }
    OPW_TRY(const math::Program p, l.elaborate_symbolic(name));
    return report(l, name, p);
}

std::string to_text(const OperatorReport& r) {
    const auto indented = [](const std::string& s) {
        std::string t;
        for (size_t i = 0; i < s.size();) {
            const size_t end = std::min(s.find('\n', i), s.size());
            t += "    " + s.substr(i, end - i) + "\n";
            i = end + 1;
        }
        return t;
    };
    std::string t = wrapped(r.name + (r.doc.empty() ? "" : ": " + r.doc));
    if (!r.file.empty()) t += "declared in " + r.file + "\n";
    if (!r.source.empty()) t += "\n" + indented(r.source);
    t += "\nshape rule\n" + wrapped(r.shape_rule, 4, 8);
    if (!r.requirements.empty()) {
        t += "\nrequirements\n";
        for (const std::string& s : r.requirements) t += wrapped(s, 4, 8);
    }
    t += "\ncost\n" + wrapped(r.cost, 4, 8);
    if (!r.sharding.empty()) t += "\nin parts, along\n" + indented(r.sharding);
    if (!r.halos.empty())
        t += "\nin parts that overlap (positions that a result i reads, from step * i)\n" + indented(r.halos);
    if (!r.kept.empty()) t += "\nof the forward pass, for the gradient (opwright grad --save)\n" + indented(r.kept);
    if (!r.batching.empty())
        t += "\nover a batch (a dim before the others of any inputs, and of what depends on them)\n" +
             wrapped(r.batching, 4, 8);
    t += "\nmathematics (what the fp64 reference evaluates, and every kernel is compared with)\n" +
         wrapped(r.equations, 4, 8);
    return t;
}

nlohmann::json to_json(const OperatorReport& r) {
    return {{"name", r.name},
            {"doc", r.doc},
            {"file", r.file},
            {"parameters", r.parameters},
            {"attributes", r.attributes},
            {"symbols", r.symbols},
            {"shape_rule", r.shape_rule},
            {"requirements", r.requirements},
            {"sharding", r.sharding},
            {"halos", r.halos},
            {"kept", r.kept},
            {"batching", r.batching},
            {"cost", {{"flops", r.flops}, {"bytes", r.bytes}, {"text", r.cost}}},
            {"equations", r.equations},
            {"source", r.source}};
}

}  // namespace opwright::explain
