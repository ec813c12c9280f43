#include "graph/bind.h"

#include <algorithm>
#include <cstring>

namespace opwright::graph {

Result<math::SymValues> bind_symbols(const Graph& g, const std::vector<Tensor>& inputs) {
    if (inputs.size() != g.inputs.size())
        return Diagnostic("The model has " + std::to_string(g.inputs.size()) + " inputs, and " +
                          std::to_string(inputs.size()) + " are given.");
    math::SymValues values;
    std::map<std::string, std::string> bound_by;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Value& v = g.values[g.inputs[i]];
        const Tensor& t = inputs[i];
        const std::string who = "The input '" + v.name + "'";
        if (t.dtype() != v.dtype)
            return Diagnostic(who + " is " + std::string(name(v.dtype)) + " in the model, and the tensor given is " +
                              std::string(name(t.dtype())) + ".");
        if (t.shape().size() != v.shape.size())
            return Diagnostic(who + " has " + std::to_string(v.shape.size()) +
                              " dims in the model, and the tensor given has " + std::to_string(t.shape().size()) +
                              ": " + to_string(t.shape()) + ".");
        for (size_t d = 0; d < v.shape.size(); ++d) {
            const int64_t n = t.shape()[d];
            const std::string where = " in dim " + std::to_string(d);
            if (v.shape[d].kind() == math::SymKind::Symbol) {
                const std::string& symbol = v.shape[d].symbol_name();
                const auto [it, added] = values.emplace(symbol, n);
                if (added)
                    bound_by[symbol] = v.name;
                else if (it->second != n)
                    return Diagnostic(who + " has the extent " + std::to_string(n) + where +
                                      ", which the model calls '" + symbol + "', and that is " +
                                      std::to_string(it->second) + " in '" + bound_by[symbol] + "'.");
            } else if (!v.shape[d].is(n)) {
                return Diagnostic(who + " has the extent " + std::to_string(n) + where + ", where the model fixes " +
                                  v.shape[d].str() + ".");
            }
        }
        if (v.constant && t.bytes() && std::memcmp(v.constant->data(), t.data(), t.bytes()) != 0)
            return Diagnostic(who + " has other values than those that the graph was made for.", {},
                              "Import the model again with these values.");
    }
    return values;
}

Status check_requirements(const Graph& g, const math::SymValues& symbols) {
    for (const math::Requirement& r : g.requirements) {
        const auto holds = math::evaluate(r.value, symbols);
        if (holds && *holds != 0) continue;
        std::vector<std::string> names;
        math::collect_symbols(r.value, names);
        std::string facts;
        for (const std::string& n : names)
            if (const auto v = symbols.find(n); v != symbols.end())
                facts += (facts.empty() ? "" : ", ") + n + " = " + std::to_string(v->second);
        return Diagnostic(r.message).with_note("The inputs given have " + facts + ".");
    }
    return ok_status();
}

}  // namespace opwright::graph
