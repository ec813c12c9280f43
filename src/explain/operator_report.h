// What is derived from one declaration, without running anything.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lang/library.h"

namespace opwright::explain {

struct OperatorReport {
    std::string name, doc, file, source;
    std::vector<std::string> parameters, attributes;
    std::string shape_rule;                 // "x[m, k], w[n, k] -> y[m, n]"
    std::vector<std::string> requirements;
    std::string cost;                       // closed forms
    std::string flops, bytes;
    std::string sharding;                   // one line an axis along which it can be computed in parts
    std::string halos;                      // one line a dim along which the parts overlap, as windows do
    std::string kept;                       // what of the forward pass the gradient reads: given or computed again
    std::string batching;                   // the shape rule with a dim for the batch in every input
    std::string equations;                  // the mathematics level, as the reference evaluates it
    std::vector<std::string> symbols;
};
// For the operator with every extent a symbol, packs of rank 2 and every attribute at its default. Errors: an unknown
// operator; a declaration that cannot be elaborated without attributes or arguments.
Result<OperatorReport> report(const lang::Library& l, const std::string& name);
// The same of a program that has been elaborated for particular arguments.
OperatorReport report(const lang::Library& l, const std::string& name, const math::Program& p);

std::string to_text(const OperatorReport& r);
nlohmann::json to_json(const OperatorReport& r);

}  // namespace opwright::explain
